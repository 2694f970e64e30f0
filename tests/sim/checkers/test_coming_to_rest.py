"""The rules about time: takeovers, waits, rounds, moves, progress, and how a healed world comes to rest."""

from tests.sim.checkers.told import (
    Q0,
    Q1,
    acked,
    committed,
    cut,
    gone,
    handled,
    joined,
    judge,
    logged,
    moved,
    owned,
    sent,
    started,
    terms,
)

from steelyard.model import Queue
from steelyard.sim.checkers.checker import End
from steelyard.sim.checkers.crash_bounds import CrashBounds
from steelyard.sim.checkers.drained_and_settled import DrainedAndSettled
from steelyard.sim.checkers.few_rounds import FewRounds
from steelyard.sim.checkers.least_moves import LeastMoves
from steelyard.sim.checkers.newcomers_plan import NewcomersPlan
from steelyard.sim.checkers.progress import Progress
from steelyard.sim.checkers.settled_as_planned import SettledAsPlanned
from steelyard.sim.checkers.table import ALL, Jury
from steelyard.sim.checkers.waits_are_short import WaitsAreShort
from steelyard.sim.facts import Fact, Planned, RoundBegan

TWO: list[Fact] = [joined("b", kind="broker"), joined("m1"), joined("m2")]
FOUR = [Queue("t", "b", number) for number in range(4)]


def planned(member: str, at_ms: int) -> Planned:
    return Planned(at_ms=at_ms, member=member, group="g", queues=(Q0,), members=("m1", "m2"))


# -- crashes ----------------------------------------------------------------------------------------------------------


def test_a_queue_that_nobody_takes_after_a_crash_is_found() -> None:
    story = [*TWO, *owned("m1", 100), gone("m1", 6_000)]
    (found,) = judge(CrashBounds, story, end=End(20_000))
    assert (found.kind, found.half) == ("liveness", "balance")
    assert not judge(CrashBounds, [*story, *owned("m2", 7_000)], end=End(20_000))


def test_a_takeover_is_timed_only_where_nothing_else_happened() -> None:
    story = [*TWO, *owned("m1", 100), gone("m1", 6_000)]
    assert not judge(CrashBounds, [*story, cut("m2", 6_100)], end=End(20_000))
    assert not judge(CrashBounds, [*story[:-1], gone("b", 5_500), gone("m1", 6_000)], end=End(20_000))
    assert not judge(CrashBounds, [TWO[0], joined("m1"), *owned("m1", 100), gone("m1", 6_000)], end=End(20_000))
    vanished = [*TWO, *owned("m1", 100), gone("m1", 6_000, "vanished")]
    assert not judge(CrashBounds, vanished, end=End(20_000))
    assert judge(CrashBounds, vanished, end=End(40_000))


def test_a_start_below_the_last_commit_is_found() -> None:
    story = [*TWO, *handled("m1", 100, 0, 1, 2), committed("m1", 200, 3), gone("m1", 300)]
    assert "3 was committed" in judge(CrashBounds, [*story, started("m2", 900, 2)])[0].sentence
    assert not judge(CrashBounds, [*story, started("m2", 900, 3)])
    assert not judge(CrashBounds, [*story, gone("b", 400), joined("b", 500, "broker"), started("m2", 900, 2)])
    assert not judge(CrashBounds, [*story, cut("m2", 800), started("m2", 900, 2)])


def test_a_poke_that_nobody_hears_is_found() -> None:
    story = [*TWO, *owned("m1", 100), moved("m2", 200, "absent", "WANTED")]
    assert "m2 waited" in judge(WaitsAreShort, story, end=End(9_000))[0].sentence
    assert not judge(WaitsAreShort, [*story, moved("m1", 900, "OWNED", "DRAINING")], end=End(9_000))
    assert not judge(WaitsAreShort, [*story, cut("m1", 900)], end=End(9_000))
    assert not judge(WaitsAreShort, story, end=End(3_000))


# -- rounds and moves -------------------------------------------------------------------------------------------------


def test_a_member_that_asks_all_the_time_is_found() -> None:
    def rounds(gap_ms: int) -> list[Fact]:
        return [RoundBegan(at_ms=number * gap_ms, member="m1", group="g") for number in range(20)]

    assert judge(FewRounds, [*TWO, *rounds(50)])
    assert not judge(FewRounds, [*TWO, *rounds(199)])
    assert not judge(FewRounds, [joined("m1", kind="java"), *rounds(50)])


def settled(*owners: str, at_ms: int = 100) -> list[Fact]:
    """Let these members own the four queues."""
    return [fact for queue, owner in zip(FOUR, owners, strict=True) for fact in owned(owner, at_ms, queue)]


def given(queue: Queue, one: str, other: str, at_ms: int) -> list[Fact]:
    """Let a queue change hands."""
    return [
        moved(one, at_ms, "OWNED", "DRAINING", queue),
        moved(one, at_ms, "DRAINING", "absent", queue),
        *owned(other, at_ms, queue),
    ]


def test_more_moves_than_a_join_needs_are_found() -> None:
    before = [*TWO[:2], *settled("m1", "m1", "m1", "m1"), joined("m2", 5_000)]
    needed = [*given(FOUR[2], "m1", "m2", 5_100), *given(FOUR[3], "m1", "m2", 5_200)]
    assert not judge(LeastMoves, [*before, *needed], end=End(9_000))
    detour = [*given(FOUR[0], "m1", "m2", 5_050), *needed, *given(FOUR[0], "m2", "m1", 5_300)]
    assert "2 would have done" in judge(LeastMoves, [*before, *detour], end=End(9_000))[0].sentence
    assert not judge(LeastMoves, [*before, cut("m1", 5_020), *detour], end=End(9_000))


def test_after_a_crash_only_what_was_orphaned_moves() -> None:
    before = [*TWO, joined("m3"), *settled("m1", "m1", "m2", "m3"), gone("m3", 5_000)]
    assert not judge(LeastMoves, [*before, *owned("m2", 5_500, FOUR[3])], end=End(9_000))
    swapped = [*before, *owned("m1", 5_500, FOUR[3]), *given(FOUR[0], "m1", "m2", 5_600)]
    assert judge(LeastMoves, swapped, end=End(9_000))


# -- progress ---------------------------------------------------------------------------------------------------------


def test_an_owner_that_sits_on_work_is_found() -> None:
    work = [*TWO, *owned("m1", 100), sent("u0"), acked("u0", 200, 0), *handled("m1", 210, 0)]
    story = [*work, sent("u1"), acked("u1", 300, 1)]
    assert "has not started u1" in judge(Progress, story, end=End(60_000))[0].sentence
    assert not judge(Progress, [*story, *handled("m1", 310, 1)], end=End(60_000))
    assert not judge(Progress, [*story, cut("m1", 40_000)], end=End(60_000))
    # Where nothing went wrong for long, a few seconds are enough to tell; after a trouble they are not.
    assert judge(Progress, story, end=End(6_000))
    assert not judge(Progress, [*story, cut("m1", 500)], end=End(40_000))
    assert judge(Progress, [*story, cut("m1", 500)], end=End(60_000))


# -- the end ----------------------------------------------------------------------------------------------------------


def test_a_newcomer_without_a_plan_is_found_soon_where_all_is_well() -> None:
    came = [joined("b", kind="broker"), joined("m1", 1_000)]
    assert "has no plan at 8000 ms" in judge(NewcomersPlan, came, end=End(8_000))[0].sentence
    assert not judge(NewcomersPlan, [*came, planned("m1", 2_000)], end=End(8_000))
    assert not judge(NewcomersPlan, [*came, gone("m1", 3_000, "left")], end=End(8_000))
    assert not judge(NewcomersPlan, [*came, gone("ns1", 3_000)], end=End(30_000))
    assert judge(NewcomersPlan, [*came, gone("ns1", 3_000)], end=End(60_000))


def test_lag_in_the_end_tells_delivery_from_commit() -> None:
    end = End(
        60_000,
        30_000,
        logged=[logged("u0", 0), logged("u1", 1)],
        committed={("g", Q0): 1},
        alive={"g": ("m1",)},
        queues={"t": [Q0]},
        drained=False,
        settled=False,
    )
    unhandled = judge(DrainedAndSettled, [*TWO, *handled("m1", 100, 0)], end=end)
    assert [found.half for found in unhandled] == ["delivery", "balance"]
    assert {found.kind for found in unhandled} == {"liveness"}
    uncommitted = judge(DrainedAndSettled, [*TWO, *handled("m1", 100, 0, 1)], end=end)
    assert [found.half for found in uncommitted] == ["commit", "balance"]


def test_a_commit_beyond_the_log_is_found() -> None:
    end = End(60_000, logged=[logged("u0", 0)], committed={("g", Q0): 2}, alive={"g": ("m1",)}, queues={"t": [Q0]})
    assert judge(DrainedAndSettled, [*TWO, *handled("m1", 100, 0)], end=end)[0].kind == "safety"
    assert not judge(DrainedAndSettled, [*TWO, *handled("m1", 100, 0), gone("b", 200, "power")], end=end)


def at_rest(plans: dict[str, tuple[Queue, ...]], states: dict[str, dict[Queue, str]] | None = None) -> End:
    """Make an end with these plans, carried out unless states say otherwise."""
    owning = {member: dict.fromkeys(queues, "OWNED") for member, queues in plans.items()}
    return End(60_000, plans=plans, states=states or owning, alive={"g": tuple(plans)}, queues={"t": FOUR})


def test_a_settled_group_is_even_complete_and_as_planned() -> None:
    assert not judge(SettledAsPlanned, TWO, end=at_rest({"m1": tuple(FOUR[:2]), "m2": tuple(FOUR[2:])}))


def test_plans_that_overlap_leave_out_or_are_uneven_are_found() -> None:
    overlap = judge(SettledAsPlanned, TWO, end=at_rest({"m1": tuple(FOUR[:3]), "m2": tuple(FOUR[2:])}))
    assert [found.kind for found in overlap] == ["safety"]
    left_out = judge(SettledAsPlanned, TWO, end=at_rest({"m1": (FOUR[0],), "m2": tuple(FOUR[2:])}))
    assert "planned by nobody and held by nobody" in left_out[0].sentence
    uneven = judge(SettledAsPlanned, TWO, end=at_rest({"m1": (FOUR[0],), "m2": tuple(FOUR[1:])}))
    assert {"uneven" in found.sentence for found in uneven} == {True}


def test_a_plan_that_is_not_carried_out_is_found() -> None:
    plans = {"m1": tuple(FOUR[:2]), "m2": tuple(FOUR[2:])}
    states = {"m1": dict.fromkeys(FOUR[:2], "OWNED"), "m2": {FOUR[2]: "OWNED", FOUR[3]: "WANTED"}}
    (found,) = judge(SettledAsPlanned, TWO, end=at_rest(plans, states))
    assert "held by m2 WANTED" in found.sentence


def test_in_broadcasting_everybody_owns_all() -> None:
    both = {"m1": tuple(FOUR), "m2": tuple(FOUR)}
    assert not judge(SettledAsPlanned, TWO, terms("broadcast"), at_rest(both))
    one = {"m1": tuple(FOUR), "m2": tuple(FOUR[:3])}
    assert judge(SettledAsPlanned, TWO, terms("broadcast"), at_rest(one))


# -- all together -----------------------------------------------------------------------------------------------------


def test_every_checker_has_a_name_of_its_own_and_wants_something() -> None:
    assert len({checker.name for checker in ALL}) == len(ALL)
    assert all(checker.wants for checker in ALL)


def test_a_calm_history_pleases_everybody_and_a_flood_of_findings_is_cut() -> None:
    calm = Jury(terms())
    came = [*TWO, *(planned(member, 5) for member in ("m1", "m2")), *owned("m1", 10)]
    for fact in (*came, sent("u0"), acked("u0", 20, 0), *handled("m1", 30, 0), committed("m1", 40, 1)):
        calm.note(fact)
    end = End(60_000, logged=[logged("u0", 0)], committed={("g", Q0): 1}, alive={"g": ("m1",)}, queues={"t": [Q0]})
    plans = {"m1": (Q0,)}
    states = {"m1": {Q0: "OWNED"}}
    assert not calm.finish(End(end.at_ms, 0, end.logged, end.committed, states, plans, end.alive, (), end.queues))
    flooded = Jury(terms())
    for number in range(500):
        flooded.note(started("m1", number, number, queue=Q1))
    assert len(flooded.findings) < 100


def test_a_queue_that_nobody_takes_after_a_goodbye_is_found() -> None:
    let_go = [moved("m1", 5_900, "OWNED", "RELEASING"), moved("m1", 5_950, "RELEASING", "absent")]
    story = [*TWO, *owned("m1", 100), *let_go, gone("m1", 6_000, "left")]
    assert "had no owner" in judge(CrashBounds, story, end=End(12_000))[0].sentence
    assert not judge(CrashBounds, [*story, *owned("m2", 6_500)], end=End(12_000))


def test_a_pull_that_is_not_woken_is_found_soon_where_all_is_calm() -> None:
    story = [*TWO, *owned("m1", 100), sent("u0"), acked("u0", 200, 0)]
    assert judge(Progress, story, end=End(6_000))
    assert not judge(Progress, [*story, started("m1", 210)], end=End(6_000))
    assert not judge(Progress, [*story, cut("m1", 5_000)], end=End(6_000))
