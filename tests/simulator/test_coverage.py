"""The situations that the coverage counter recognises in facts."""

from simulator.checkers.checker import HistoryEnd
from simulator.coverage import SITUATIONS, CoverageCounter
from simulator.facts import (
    AssignmentPlanned,
    CommitRejected,
    Fact,
    MemberReported,
    MemberUnregistered,
    ProcessPaused,
    ProcessResumed,
    Situation,
)
from steelyard.model import Queue
from tests.simulator.checkers.fact_builders import (
    Q0,
    Q1,
    cut,
    ended,
    gone,
    granted,
    joined,
    logged,
    moved,
    owned,
    sent,
    started,
)

TWO: list[Fact] = [joined("b", kind="broker"), joined("m1"), joined("m2")]


def seen(*facts: Fact, end: HistoryEnd | None = None) -> dict[str, int]:
    """Return the counts of some facts."""
    watcher = CoverageCounter()
    for fact in facts:
        watcher.observe(fact)
    if end is not None:
        watcher.check_end(end)
    return dict(watcher.counts)


def test_names_are_plain_and_there_are_many() -> None:
    assert len(set(SITUATIONS)) == len(SITUATIONS) >= 25


def test_nothing_comes_up_where_nothing_happens() -> None:
    assert not seen(*TWO, *owned("m1", 10), started("m1", 20), ended("m1", 30), end=HistoryEnd(1_000))


def test_a_recorded_situation_counts_under_its_own_name() -> None:
    assert seen(Situation(at_ms=1, name="recovery cut a tail")) == {"recovery cut a tail": 1}


def test_hand_overs_and_waits_are_recognised() -> None:
    running = [*TWO, *owned("m1", 10), started("m1", 20), moved("m2", 30, "absent", "WANTED")]
    drained = [moved("m1", 40, "OWNED", "DRAINING"), ended("m1", 50), moved("m1", 60, "DRAINING", "RELEASING")]
    counts = seen(*running, *drained, granted("m2", 70, 2))
    assert counts == {"a queue was handed over while handlers ran": 1, "a lock was denied and granted later": 1}
    again = seen(*TWO, *owned("m1", 10), moved("m1", 20, "OWNED", "DRAINING"), moved("m1", 30, "DRAINING", "WANTED"))
    assert again == {"a member wanted a queue again that it was giving up": 1}


def test_doubts_and_cuts_are_recognised() -> None:
    doubt = [*TWO, *owned("m1", 10), cut("m1", 100), moved("m1", 110, "OWNED", "UNSURE")]
    back = seen(*doubt, moved("m1", 300, "UNSURE", "OWNED"))
    assert back == {"an unsure owner proved itself": 1, "a connection was cut and back within the grace": 1}
    out = MemberUnregistered(at_ms=500, broker="b", group="g", member="m1", how="closed")
    past = seen(*doubt, out, moved("m1", 600, "UNSURE", "absent"))
    assert past == {"a connection was cut past the grace": 1, "an unsure owner gave way": 1}
    assert seen(*TWO, cut("m1", 5, "one way"), cut("m1", 6, "jammed"), cut("m1", 7, "half open")) == {
        "a connection was dead one way": 1,
        "a jammed connection was released": 1,
        "a connection was half open": 1,
    }


def test_deaths_and_pauses_are_recognised() -> None:
    busy = [*TWO, *owned("m1", 10), started("m1", 20), moved("m1", 30, "absent", "STARTING", Q1)]
    assert seen(*busy, gone("m1", 40), gone("m2", 50, "vanished")) == {
        "a member was killed with messages in hand": 1,
        "a member was killed while it took a queue": 1,
        "a member vanished": 1,
        "a whole group was killed": 1,
    }
    pause: list[Fact] = [ProcessPaused(at_ms=10, name="m1"), ProcessResumed(at_ms=12_000, name="m1")]
    assert seen(*TWO, *pause) == {"a member was paused past its fence": 1}


def test_servers_that_fall_and_rise_are_recognised() -> None:
    assert seen(*TWO, gone("b", 10, "power"), joined("b", 500, "broker"), ProcessPaused(at_ms=600, name="b")) == {
        "a broker lost power": 1,
        "a broker was restarted under its members": 1,
        "a broker came back within a second": 1,
        "a broker stood still": 1,
    }


def test_plans_reports_and_refusals_are_recognised() -> None:
    def plan(member: str, *members: str) -> AssignmentPlanned:
        return AssignmentPlanned(at_ms=1, member=member, group="g", queues=(Q0,), strategy="STICKY", members=members)

    views = seen(*TWO, plan("m1", "m1"), granted("m1", 2, None), plan("m2", "m1", "m2"))
    assert views == {"two members saw the group differently": 1, "a sticky plan on an Apache broker": 1}
    kinds = ("drain-timeout", "lost", "degraded", "taken")
    reports = [MemberReported(at_ms=1, member="m1", group="g", kind=kind, sentence="") for kind in kinds]
    assert seen(*reports, CommitRejected(at_ms=2, group="g", queue=Q0, offset=1, member="m1")) == {
        "a handler outlived its drain": 1,
        "a member found that it had lost a queue": 1,
        "the strategy fell back to Java's": 1,
        "a commit was refused": 1,
    }


def test_what_becomes_of_messages_is_recognised() -> None:
    retry, dead = Queue("%RETRY%g", "b", 0), Queue("%DLQ%g", "b", 0)
    facts = [*TWO, sent("u0", due_ms=5), ended("m1", 9), ended("m1", 10, 0, "u1", retry)]
    in_log = [logged("u0", 0), logged("u0", 1), logged("u1", 0, dead)]
    assert seen(*facts, end=HistoryEnd(99, logged=in_log, added_queues={Q1: 5})) == {
        "a delayed message was delivered": 1,
        "a message came back and was handled": 1,
        "a send was stored more than once": 1,
        "a message rests in the dead letters": 1,
        "a queue was added": 1,
    }
    twice = seen(*TWO, started("m1", 1), started("m2", 2), started("m2", 3, attempt=1))
    assert twice == {"a message was handled twice": 1, "an orderly message was tried again in place": 1}


def test_java_beside_ours_is_recognised() -> None:
    facts = [*TWO, joined("j", 5, kind="java"), started("m1", 10, 0), started("j", 20, 1), started("m1", 30, 2)]
    assert seen(*facts) == {
        "Java and ours shared a group": 1,
        "Java took a queue over from ours": 1,
        "ours took a queue over from Java": 1,
    }


def test_a_storm_is_many_joins_in_half_a_second() -> None:
    assert seen(*(joined(f"m{number}", number * 100) for number in range(4))) == {"a storm of joins": 1}
    assert not seen(*(joined(f"m{number}", number * 1_000) for number in range(9)))
