"""Checkers of time: crashes, waits, rebalances, moves, progress, and how a healed world comes to rest."""

from simulator.checkers.checker import HistoryEnd
from simulator.checkers.crash_bounds import CrashBounds
from simulator.checkers.drained_and_settled import DrainedAndSettled
from simulator.checkers.few_rebalances import FewRebalances
from simulator.checkers.minimum_moves import MinimumMoves
from simulator.checkers.newcomers_plan import NewcomersPlan
from simulator.checkers.progress import ProgressIsMade
from simulator.checkers.runner import ALL_CHECKERS, CheckerRunner
from simulator.checkers.settled_as_planned import SettledAsPlanned
from simulator.checkers.waits_are_short import WaitsAreShort
from simulator.facts import AssignmentPlanned, Fact, RebalanceBegan
from steelyard.model import Queue
from tests.simulator.checkers.fact_builders import (
    Q0,
    Q1,
    acked,
    committed,
    conditions,
    cut,
    gone,
    handled,
    joined,
    logged,
    moved,
    owned,
    run_checker,
    sent,
    started,
)

TWO: list[Fact] = [joined("b", kind="broker"), joined("m1"), joined("m2")]
FOUR = [Queue("t", "b", number) for number in range(4)]


def planned(member: str, at_ms: int) -> AssignmentPlanned:
    return AssignmentPlanned(at_ms=at_ms, member=member, group="g", queues=(Q0,), members=("m1", "m2"))


# -- crashes ----------------------------------------------------------------------------------------------------------


def test_a_queue_without_an_owner_after_a_crash_is_found() -> None:
    facts = [*TWO, *owned("m1", 100), gone("m1", 6_000)]
    (found,) = run_checker(CrashBounds, facts, end=HistoryEnd(20_000))
    assert (found.kind, found.subsystem) == ("liveness", "balance")
    assert not run_checker(CrashBounds, [*facts, *owned("m2", 7_000)], end=HistoryEnd(20_000))


def test_a_takeover_is_timed_only_where_nothing_else_happened() -> None:
    facts = [*TWO, *owned("m1", 100), gone("m1", 6_000)]
    assert not run_checker(CrashBounds, [*facts, cut("m2", 6_100)], end=HistoryEnd(20_000))
    assert not run_checker(CrashBounds, [*facts[:-1], gone("b", 5_500), gone("m1", 6_000)], end=HistoryEnd(20_000))
    assert not run_checker(
        CrashBounds, [TWO[0], joined("m1"), *owned("m1", 100), gone("m1", 6_000)], end=HistoryEnd(20_000)
    )
    vanished = [*TWO, *owned("m1", 100), gone("m1", 6_000, "vanished")]
    assert not run_checker(CrashBounds, vanished, end=HistoryEnd(20_000))
    assert run_checker(CrashBounds, vanished, end=HistoryEnd(40_000))


def test_a_start_below_the_last_commit_is_found() -> None:
    facts = [*TWO, *handled("m1", 100, 0, 1, 2), committed("m1", 200, 3), gone("m1", 300)]
    assert "3 was committed" in run_checker(CrashBounds, [*facts, started("m2", 900, 2)])[0].sentence
    assert not run_checker(CrashBounds, [*facts, started("m2", 900, 3)])
    assert not run_checker(CrashBounds, [*facts, gone("b", 400), joined("b", 500, "broker"), started("m2", 900, 2)])
    assert not run_checker(CrashBounds, [*facts, cut("m2", 800), started("m2", 900, 2)])


def test_an_ignored_handover_request_is_found() -> None:
    facts = [*TWO, *owned("m1", 100), moved("m2", 200, "absent", "WANTED")]
    assert "m2 waited" in run_checker(WaitsAreShort, facts, end=HistoryEnd(9_000))[0].sentence
    assert not run_checker(WaitsAreShort, [*facts, moved("m1", 900, "OWNED", "DRAINING")], end=HistoryEnd(9_000))
    assert not run_checker(WaitsAreShort, [*facts, cut("m1", 900)], end=HistoryEnd(9_000))
    assert not run_checker(WaitsAreShort, facts, end=HistoryEnd(3_000))


# -- rebalances and moves ---------------------------------------------------------------------------------------------


def test_a_member_that_asks_all_the_time_is_found() -> None:
    def rounds(gap_ms: int) -> list[Fact]:
        return [RebalanceBegan(at_ms=number * gap_ms, member="m1", group="g") for number in range(20)]

    assert run_checker(FewRebalances, [*TWO, *rounds(50)])
    assert not run_checker(FewRebalances, [*TWO, *rounds(199)])
    assert not run_checker(FewRebalances, [joined("m1", kind="java"), *rounds(50)])


def settled(*owners: str, at_ms: int = 100) -> list[Fact]:
    """Let these members own the four queues."""
    return [fact for queue, owner in zip(FOUR, owners, strict=True) for fact in owned(owner, at_ms, queue)]


def given(queue: Queue, one: str, other: str, at_ms: int) -> list[Fact]:
    """Move a queue."""
    return [
        moved(one, at_ms, "OWNED", "DRAINING", queue),
        moved(one, at_ms, "DRAINING", "absent", queue),
        *owned(other, at_ms, queue),
    ]


def test_more_moves_than_a_join_needs_are_found() -> None:
    before = [*TWO[:2], *settled("m1", "m1", "m1", "m1"), joined("m2", 5_000)]
    needed = [*given(FOUR[2], "m1", "m2", 5_100), *given(FOUR[3], "m1", "m2", 5_200)]
    assert not run_checker(MinimumMoves, [*before, *needed], end=HistoryEnd(9_000))
    detour = [*given(FOUR[0], "m1", "m2", 5_050), *needed, *given(FOUR[0], "m2", "m1", 5_300)]
    assert "2 would have sufficed" in run_checker(MinimumMoves, [*before, *detour], end=HistoryEnd(9_000))[0].sentence
    assert not run_checker(MinimumMoves, [*before, cut("m1", 5_020), *detour], end=HistoryEnd(9_000))


def test_after_a_crash_only_what_was_orphaned_moves() -> None:
    before = [*TWO, joined("m3"), *settled("m1", "m1", "m2", "m3"), gone("m3", 5_000)]
    assert not run_checker(MinimumMoves, [*before, *owned("m2", 5_500, FOUR[3])], end=HistoryEnd(9_000))
    swapped = [*before, *owned("m1", 5_500, FOUR[3]), *given(FOUR[0], "m1", "m2", 5_600)]
    assert run_checker(MinimumMoves, swapped, end=HistoryEnd(9_000))


# -- progress ---------------------------------------------------------------------------------------------------------


def test_an_owner_that_sits_on_work_is_found() -> None:
    work = [*TWO, *owned("m1", 100), sent("u0"), acked("u0", 200, 0), *handled("m1", 210, 0)]
    facts = [*work, sent("u1"), acked("u1", 300, 1)]
    assert "has not started u1" in run_checker(ProgressIsMade, facts, end=HistoryEnd(60_000))[0].sentence
    assert not run_checker(ProgressIsMade, [*facts, *handled("m1", 310, 1)], end=HistoryEnd(60_000))
    assert not run_checker(ProgressIsMade, [*facts, cut("m1", 40_000)], end=HistoryEnd(60_000))
    # Without a fault for long, a few seconds are enough; after a fault they are not.
    assert run_checker(ProgressIsMade, facts, end=HistoryEnd(6_000))
    assert not run_checker(ProgressIsMade, [*facts, cut("m1", 500)], end=HistoryEnd(40_000))
    assert run_checker(ProgressIsMade, [*facts, cut("m1", 500)], end=HistoryEnd(60_000))


# -- the end ----------------------------------------------------------------------------------------------------------


def test_a_newcomer_without_a_plan_is_found_soon_where_all_is_well() -> None:
    came = [joined("b", kind="broker"), joined("m1", 1_000)]
    assert "has no assignment at 8000 ms" in run_checker(NewcomersPlan, came, end=HistoryEnd(8_000))[0].sentence
    assert not run_checker(NewcomersPlan, [*came, planned("m1", 2_000)], end=HistoryEnd(8_000))
    assert not run_checker(NewcomersPlan, [*came, gone("m1", 3_000, "left")], end=HistoryEnd(8_000))
    assert not run_checker(NewcomersPlan, [*came, gone("ns1", 3_000)], end=HistoryEnd(30_000))
    assert run_checker(NewcomersPlan, [*came, gone("ns1", 3_000)], end=HistoryEnd(60_000))


def test_lag_at_the_end_distinguishes_delivery_from_commit() -> None:
    end = HistoryEnd(
        60_000,
        30_000,
        logged=[logged("u0", 0), logged("u1", 1)],
        committed={("g", Q0): 1},
        alive={"g": ("m1",)},
        queues={"t": [Q0]},
        drained=False,
        settled=False,
    )
    unhandled = run_checker(DrainedAndSettled, [*TWO, *handled("m1", 100, 0)], end=end)
    assert [found.subsystem for found in unhandled] == ["delivery", "balance"]
    assert {found.kind for found in unhandled} == {"liveness"}
    uncommitted = run_checker(DrainedAndSettled, [*TWO, *handled("m1", 100, 0, 1)], end=end)
    assert [found.subsystem for found in uncommitted] == ["commit", "balance"]


def test_a_commit_beyond_the_log_is_found() -> None:
    end = HistoryEnd(
        60_000, logged=[logged("u0", 0)], committed={("g", Q0): 2}, alive={"g": ("m1",)}, queues={"t": [Q0]}
    )
    assert run_checker(DrainedAndSettled, [*TWO, *handled("m1", 100, 0)], end=end)[0].kind == "safety"
    assert not run_checker(DrainedAndSettled, [*TWO, *handled("m1", 100, 0), gone("b", 200, "power")], end=end)


def at_rest(plans: dict[str, tuple[Queue, ...]], states: dict[str, dict[Queue, str]] | None = None) -> HistoryEnd:
    """Make an end with these assignments, carried out unless states say otherwise."""
    owning = {member: dict.fromkeys(queues, "OWNED") for member, queues in plans.items()}
    return HistoryEnd(60_000, plans=plans, states=states or owning, alive={"g": tuple(plans)}, queues={"t": FOUR})


def test_a_settled_group_is_even_complete_and_as_planned() -> None:
    assert not run_checker(SettledAsPlanned, TWO, end=at_rest({"m1": tuple(FOUR[:2]), "m2": tuple(FOUR[2:])}))


def test_plans_that_overlap_leave_out_or_are_uneven_are_found() -> None:
    overlap = run_checker(SettledAsPlanned, TWO, end=at_rest({"m1": tuple(FOUR[:3]), "m2": tuple(FOUR[2:])}))
    assert [found.kind for found in overlap] == ["safety"]
    left_out = run_checker(SettledAsPlanned, TWO, end=at_rest({"m1": (FOUR[0],), "m2": tuple(FOUR[2:])}))
    assert "assigned to none and held by none" in left_out[0].sentence
    uneven = run_checker(SettledAsPlanned, TWO, end=at_rest({"m1": (FOUR[0],), "m2": tuple(FOUR[1:])}))
    assert {"uneven" in found.sentence for found in uneven} == {True}


def test_a_plan_that_is_not_carried_out_is_found() -> None:
    plans = {"m1": tuple(FOUR[:2]), "m2": tuple(FOUR[2:])}
    states = {"m1": dict.fromkeys(FOUR[:2], "OWNED"), "m2": {FOUR[2]: "OWNED", FOUR[3]: "WANTED"}}
    (found,) = run_checker(SettledAsPlanned, TWO, end=at_rest(plans, states))
    assert "held by m2 WANTED" in found.sentence


def test_in_broadcasting_everybody_owns_all() -> None:
    both = {"m1": tuple(FOUR), "m2": tuple(FOUR)}
    assert not run_checker(SettledAsPlanned, TWO, conditions("broadcast"), at_rest(both))
    one = {"m1": tuple(FOUR), "m2": tuple(FOUR[:3])}
    assert run_checker(SettledAsPlanned, TWO, conditions("broadcast"), at_rest(one))


# -- all together -----------------------------------------------------------------------------------------------------


def test_every_checker_has_a_name_of_its_own_and_wants_something() -> None:
    assert len({checker.name for checker in ALL_CHECKERS}) == len(ALL_CHECKERS)
    assert all(checker.fact_types for checker in ALL_CHECKERS)


def test_a_calm_history_pleases_everybody_and_a_flood_of_findings_is_cut() -> None:
    calm = CheckerRunner(conditions())
    came = [*TWO, *(planned(member, 5) for member in ("m1", "m2")), *owned("m1", 10)]
    for fact in (*came, sent("u0"), acked("u0", 20, 0), *handled("m1", 30, 0), committed("m1", 40, 1)):
        calm.observe(fact)
    end = HistoryEnd(
        60_000, logged=[logged("u0", 0)], committed={("g", Q0): 1}, alive={"g": ("m1",)}, queues={"t": [Q0]}
    )
    plans = {"m1": (Q0,)}
    states = {"m1": {Q0: "OWNED"}}
    assert not calm.check_end(
        HistoryEnd(end.at_ms, 0, end.logged, end.committed, states, plans, end.alive, (), end.queues)
    )
    flooded = CheckerRunner(conditions())
    for number in range(500):
        flooded.observe(started("m1", number, number, queue=Q1))
    assert len(flooded.findings) < 100


def test_a_queue_without_an_owner_after_a_clean_leave_is_found() -> None:
    let_go = [moved("m1", 5_900, "OWNED", "RELEASING"), moved("m1", 5_950, "RELEASING", "absent")]
    facts = [*TWO, *owned("m1", 100), *let_go, gone("m1", 6_000, "left")]
    assert "had no owner" in run_checker(CrashBounds, facts, end=HistoryEnd(12_000))[0].sentence
    assert not run_checker(CrashBounds, [*facts, *owned("m2", 6_500)], end=HistoryEnd(12_000))


def test_a_pull_that_is_not_woken_is_found_soon_where_all_is_calm() -> None:
    facts = [*TWO, *owned("m1", 100), sent("u0"), acked("u0", 200, 0)]
    assert run_checker(ProgressIsMade, facts, end=HistoryEnd(6_000))
    assert not run_checker(ProgressIsMade, [*facts, started("m1", 210)], end=HistoryEnd(6_000))
    assert not run_checker(ProgressIsMade, [*facts, cut("m1", 5_000)], end=HistoryEnd(6_000))
