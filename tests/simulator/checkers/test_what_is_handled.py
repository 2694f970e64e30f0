"""Checkers of messages: stored, handled once, in order, committed after and not before."""

import pytest

from simulator.checkers.acked_not_lost import AckedNotLost
from simulator.checkers.checker import HistoryConditions, HistoryEnd
from simulator.checkers.commits_go_forward import CommitsGoForward
from simulator.checkers.delayed_never_early import DelayedNeverEarly
from simulator.checkers.half_messages_invisible import HalfMessagesInvisible
from simulator.checkers.handled_below_commit import HandledBelowCommit
from simulator.checkers.nothing_unexpected import NothingUnexpected
from simulator.checkers.one_message_per_offset import OneMessagePerOffset
from simulator.checkers.order_per_key import OrderPerKey
from simulator.checkers.retries_do_not_multiply import RetriesDoNotMultiply
from simulator.checkers.starts_once import StartsOnce
from simulator.facts import Fact, MemberReported, MessageAcked, ProcessPaused, SendGivenUp, Situation
from steelyard.model import Queue
from tests.simulator.checkers.fact_builders import (
    Q0,
    Q1,
    acked,
    committed,
    conditions,
    cut,
    ended,
    freed,
    gone,
    granted,
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
RETRY, WAITING, DEAD = Queue("%RETRY%g", "b", 0), Queue("SCHEDULE_TOPIC_XXXX", "b", 2), Queue("%DLQ%g", "b", 0)

# -- once -------------------------------------------------------------------------------------------------------------


def test_a_second_start_without_an_excuse_is_found() -> None:
    (found,) = run_checker(StartsOnce, [*TWO, *handled("m1", 100, 0), started("m2", 900)])
    assert "u0" in found.sentence
    assert "offset 0" in found.sentence
    assert found.subsystem == "delivery"


def test_the_same_member_repeating_itself_is_found_but_not_its_tries() -> None:
    assert run_checker(StartsOnce, [*TWO, started("m1", 100), started("m1", 900, generation=2)])
    assert not run_checker(StartsOnce, [*TWO, started("m1", 100), started("m1", 5_100, attempt=1)])


@pytest.mark.parametrize(
    "excuse",
    [
        gone("m1", 300),
        cut("m1", 300),
        ProcessPaused(at_ms=300, name="m1"),
        gone("b", 300),
        MemberReported(at_ms=300, member="m1", group="g", kind="drain-timeout", sentence="", queues=(Q0,)),
        joined("j", 300, kind="java"),
    ],
)
def test_a_second_start_has_an_excuse(excuse: Fact) -> None:
    assert not run_checker(StartsOnce, [*TWO, started("m1", 100), excuse, started("m2", 900)])


def test_in_order_what_failed_may_be_tried_by_the_next_owner() -> None:
    facts = [*TWO, started("m1", 100), ended("m1", 200, ok=False), started("m2", 900)]
    assert not run_checker(StartsOnce, facts, conditions("orderly"))
    assert run_checker(StartsOnce, facts)
    assert run_checker(StartsOnce, [*facts, ended("m2", 950), started("m1", 990)], conditions("orderly"))


def test_everybody_starts_everything_once_in_broadcasting() -> None:
    facts = [*TWO, started("m1", 100), started("m2", 100)]
    assert not run_checker(StartsOnce, facts, conditions("broadcast"))
    assert run_checker(StartsOnce, [*facts, started("m2", 200)], conditions("broadcast"))


# -- commits ----------------------------------------------------------------------------------------------------------


def test_a_commit_before_the_handler_ended_is_found() -> None:
    (found,) = run_checker(HandledBelowCommit, [*TWO, started("m1", 100), committed("m1", 110, 1), ended("m1", 120)])
    assert (found.subsystem, found.at_ms) == ("commit", 110)
    assert "offset 0" in found.sentence


def test_a_commit_over_a_hole_is_found() -> None:
    (found,) = run_checker(HandledBelowCommit, [*TWO, *handled("m1", 100, 0, 2), committed("m1", 200, 3)])
    assert "offset 1" in found.sentence
    assert not run_checker(HandledBelowCommit, [*TWO, *handled("m1", 100, 0, 1, 2), committed("m1", 200, 3)])


def test_what_lies_before_a_groups_first_commit_is_not_its_own() -> None:
    facts = [*TWO, committed("m1", 50, 7), *handled("m1", 100, 7), committed("m1", 200, 8)]
    assert not run_checker(HandledBelowCommit, facts, conditions(from_first=False))
    assert run_checker(HandledBelowCommit, facts)


def test_in_order_a_failure_counts_only_when_the_tries_are_used_up() -> None:
    failures = [fact for at_ms in (1, 2, 3) for fact in (started("m1", at_ms), ended("m1", at_ms, ok=False))]
    facts = [*TWO, *failures, committed("m1", 100, 1)]
    assert run_checker(HandledBelowCommit, facts, conditions("orderly", max_attempts=16))
    assert not run_checker(HandledBelowCommit, facts, conditions("orderly", max_attempts=3))


def test_the_end_shows_a_message_that_a_commit_passed_over_after_a_loss_of_power() -> None:
    facts = [*TWO, *handled("m1", 100, 0), gone("b", 200, "power"), committed("m1", 300, 1)]
    end = HistoryEnd(9_000, logged=[logged("other", 0)], committed={("g", Q0): 1}, alive={"g": ("m1",)})
    assert "never handled other" in run_checker(HandledBelowCommit, facts, end=end)[0].sentence


def test_a_commit_that_goes_back_is_found() -> None:
    back = committed("m1", 300, 3, before=9)
    assert "back from 9 to 3" in run_checker(CommitsGoForward, [*TWO, back])[0].sentence
    assert run_checker(CommitsGoForward, [*TWO, cut("m1", 100), back])
    assert not run_checker(CommitsGoForward, [*TWO, gone("b", 100, "power"), back])
    assert not run_checker(CommitsGoForward, [*TWO, cut("m1", 100), back], conditions(apache_brokers=frozenset({"b"})))
    assert run_checker(CommitsGoForward, [*TWO, back], conditions(apache_brokers=frozenset({"b"})))


def test_a_commit_of_another_than_the_owner_is_found() -> None:
    given: list[Fact] = [*TWO, granted("m1", 100), cut("m1", 150), freed("m1", 500, "gone"), granted("m2", 600, 2)]
    (found,) = run_checker(CommitsGoForward, [*given, committed("m1", 700, 9, before=3, epoch=1)])
    assert "m2 holds it since 600 ms" in found.sentence
    assert run_checker(CommitsGoForward, [*given, committed("m2", 700, 9, before=3, epoch=1)])
    assert not run_checker(CommitsGoForward, [*given, committed("m2", 700, 9, before=3, epoch=2)])


def test_where_ours_has_a_lease_the_commit_of_a_java_member_is_found_too() -> None:
    beside: list[Fact] = [*TWO, joined("j", kind="java")]
    assert run_checker(CommitsGoForward, [*beside, granted("m1", 100), committed("j", 200, 3)])
    assert not run_checker(CommitsGoForward, [*beside, granted("m1", 100, lock="g"), committed("j", 200, 3)])


def test_a_broker_that_forgot_an_old_commit_is_found() -> None:
    facts: list[Fact] = [joined("b", kind="broker"), *TWO, committed("m1", 1_000, 5), gone("b", 9_000)]
    (found,) = run_checker(CommitsGoForward, [*facts, committed("m1", 9_500, 8, before=None)])
    assert "knew of none at 9500 ms" in found.sentence
    assert run_checker(CommitsGoForward, [*facts, committed("m1", 9_500, 8, before=4)])
    assert not run_checker(CommitsGoForward, [*facts, committed("m1", 9_500, 8, before=5)])


def test_a_broker_may_forget_the_commits_of_the_last_seconds_and_more_without_power() -> None:
    start: list[Fact] = [joined("b", kind="broker"), *TWO]
    after = committed("m1", 9_500, 8, before=None)
    assert not run_checker(CommitsGoForward, [*start, committed("m1", 6_000, 5), gone("b", 9_000), after])
    assert not run_checker(CommitsGoForward, [*start, committed("m1", 1_000, 5), gone("b", 9_000, "power"), after])
    twice = [committed("m1", 1_000, 5), gone("b", 2_000), joined("b", 2_100, kind="broker"), gone("b", 9_000)]
    assert not run_checker(CommitsGoForward, [*start, *twice, after])


# -- nothing lost -----------------------------------------------------------------------------------------------------

STORED: list[Fact] = [*TWO, sent("u0"), acked("u0", offset=0)]


def ending(*in_log: tuple[str, int, Queue, int], drained: bool = True) -> HistoryEnd:
    """Make an end with these in the log: uid, offset, queue, redeliveries."""
    entries = [logged(uid, offset, queue, times) for uid, offset, queue, times in in_log]
    return HistoryEnd(60_000, logged=entries, alive={"g": ("m1",)}, drained=drained, queues={"t": [Q0, Q1]})


def test_an_acknowledged_message_that_no_log_has_is_found() -> None:
    (found,) = run_checker(AckedNotLost, [*STORED, *handled("m1", 50, 0)], end=ending())
    assert (found.subsystem, found.kind) == ("log", "safety")
    assert "u0" in found.sentence


def test_what_was_not_safe_may_be_lost_with_the_power() -> None:
    facts = [*STORED, gone("b", 100, "power")]
    assert run_checker(AckedNotLost, facts, end=ending())
    assert not run_checker(AckedNotLost, facts, conditions(async_brokers=frozenset({"b"})), ending())
    assert run_checker(AckedNotLost, [*STORED, gone("b", 100)], conditions(async_brokers=frozenset({"b"})), ending())
    unsafe = MessageAcked(at_ms=1, uid="u0", queue=Q0, offset=0, durable=False)
    assert not run_checker(AckedNotLost, [*TWO, sent("u0"), unsafe, gone("b", 100, "power")], end=ending())


def test_a_stored_message_that_was_never_handled_is_found_once_all_is_drained() -> None:
    end = ending(("u0", 0, Q0, 0))
    (found,) = run_checker(AckedNotLost, STORED, end=end)
    assert found.subsystem == "delivery"
    assert not run_checker(AckedNotLost, [*STORED, *handled("m1", 50, 0)], end=end)
    assert not run_checker(AckedNotLost, STORED, end=ending(("u0", 0, Q0, 0), drained=False))


def test_a_failed_message_is_owed_until_it_rests_or_waits() -> None:
    failed = [*STORED, started("m1", 50), ended("m1", 60, ok=False)]
    assert run_checker(AckedNotLost, failed, end=ending(("u0", 0, Q0, 0)))
    assert not run_checker(AckedNotLost, failed, end=ending(("u0", 0, Q0, 0), ("u0", 0, DEAD, 1)))
    assert not run_checker(AckedNotLost, failed, end=ending(("u0", 0, Q0, 0), ("u0", 0, WAITING, 1)))
    assert run_checker(AckedNotLost, failed, end=ending(("u0", 0, Q0, 0), ("u0", 0, WAITING, 1), ("u0", 0, RETRY, 1)))


def test_what_came_before_a_late_groups_start_is_not_owed_but_a_younger_queue_is() -> None:
    late = conditions(from_first=False)
    end = ending(("u0", 0, Q1, 0))
    facts = [*TWO, sent("u0"), acked("u0", offset=0, queue=Q1), *owned("m1", 100), *owned("m1", 3_000, Q1)]
    assert not run_checker(AckedNotLost, facts, late, end)
    younger = HistoryEnd(60_000, logged=end.logged, alive=end.alive, queues=end.queues, added_queues={Q1: 2_000})
    assert run_checker(AckedNotLost, facts, late, younger)


def test_each_broadcasting_member_is_owed_what_came_after_it() -> None:
    facts = [*TWO, *owned("m1", 10), *owned("m2", 500), sent("u0", 100), acked("u0", 110, 0), started("m1", 120)]
    end = HistoryEnd(60_000, logged=[logged("u0", 0)], alive={"g": ("m1", "m2")})
    assert not run_checker(AckedNotLost, [*facts, ended("m1", 130, ok=False)], conditions("broadcast"), end)
    assert run_checker(AckedNotLost, facts, conditions("broadcast"), end)


# -- offsets ----------------------------------------------------------------------------------------------------------


def test_an_offset_that_is_given_out_twice_is_found() -> None:
    facts = [sent("u0"), sent("x"), acked("u0", 10, 0)]
    assert run_checker(OneMessagePerOffset, [*facts, acked("x", 20, 0)])
    assert run_checker(OneMessagePerOffset, [*facts, gone("b", 15), started("m1", 20, 0, "x")])
    assert run_checker(OneMessagePerOffset, facts, end=ending(("x", 0, Q0, 0)))
    assert not run_checker(OneMessagePerOffset, [*facts, started("m1", 20, 0, "u0")], end=ending(("u0", 0, Q0, 0)))


def test_a_loss_of_power_frees_the_offsets_of_what_was_sent_before_it() -> None:
    facts = [sent("u0", 1), acked("u0", 10, 0), gone("b", 15, "power")]
    assert not run_checker(OneMessagePerOffset, [*facts, sent("x", 20), acked("x", 30, 0)])
    after = [*facts, sent("x", 20), acked("x", 30, 0), sent("y", 40), acked("y", 50, 0)]
    assert len(run_checker(OneMessagePerOffset, after)) == 1


def test_a_log_with_a_gap_is_found() -> None:
    assert (
        "goes on with 2"
        in run_checker(OneMessagePerOffset, [], end=ending(("a", 0, Q0, 0), ("c", 2, Q0, 0)))[0].sentence
    )
    assert not run_checker(OneMessagePerOffset, [], end=ending(("b", 1, Q0, 0), ("a", 0, Q0, 0)))


def test_a_message_from_nowhere_and_one_for_others_are_found() -> None:
    assert "never sent" in run_checker(NothingUnexpected, [*TWO, started("m1", 10)])[0].sentence
    assert not run_checker(NothingUnexpected, [*TWO, sent("u0"), started("m1", 10)])
    stray = started("m1", 10, queue=Queue("other", "b", 0))
    assert run_checker(NothingUnexpected, [*TWO, sent("u0"), stray])
    assert run_checker(NothingUnexpected, [], end=ending(("u0", 0, Q0, 0)))[0].subsystem == "log"


# -- order ------------------------------------------------------------------------------------------------------------

KEYED: list[Fact] = [
    *TWO,
    sent("u0", 0, "k", 1),
    acked("u0", 10, 0),
    sent("u1", 20, "k", 2),
    acked("u1", 30, 1),
]


def test_in_order_the_later_message_does_not_start_first() -> None:
    order = conditions("orderly")
    wrong = [*KEYED, *handled("m1", 100, 1), *handled("m1", 200, 0)]
    assert "u1" in run_checker(OrderPerKey, wrong, order)[0].sentence
    assert not run_checker(OrderPerKey, [*KEYED, *handled("m1", 100, 0, 1), *handled("m2", 200, 0, 1)], order)
    assert not run_checker(OrderPerKey, wrong)


def test_messages_that_were_sent_at_once_have_no_order() -> None:
    facts = [*TWO, sent("u0", 0, "k", 1), sent("u1", 5, "k", 2), acked("u0", 10, 1), acked("u1", 11, 0)]
    starts = [started("m1", 100, 0, "u1"), ended("m1", 101, 0, "u1"), started("m1", 102, 1, "u0")]
    assert not run_checker(OrderPerKey, [*facts, *starts], conditions("orderly"))


def test_two_handlers_at_once_in_an_orderly_queue_are_found() -> None:
    both = [*TWO, started("m1", 100, 0), started("m1", 110, 1)]
    assert "while it still handled" in run_checker(OrderPerKey, both, conditions("orderly"))[0].sentence
    assert not run_checker(OrderPerKey, both)
    assert not run_checker(
        OrderPerKey, [*TWO, started("m1", 100, 0), started("m1", 110, 0, queue=Q1)], conditions("orderly")
    )


# -- retries, delays, halves ------------------------------------------------------------------------------------------


def test_a_retry_that_is_stored_twice_is_found() -> None:
    failed = [*TWO, *owned("m1", 5), started("m1", 10), ended("m1", 20, ok=False)]
    once = ending(("u0", 0, Q0, 0), ("u0", 0, WAITING, 1), ("u0", 0, RETRY, 1))
    assert not run_checker(RetriesDoNotMultiply, failed, end=once)
    twice = ending(("u0", 0, WAITING, 1), ("u0", 0, RETRY, 1), ("u0", 1, RETRY, 1))
    assert "2 copies" in run_checker(RetriesDoNotMultiply, failed, end=twice)[0].sentence
    assert run_checker(RetriesDoNotMultiply, failed, end=ending(("u0", 0, RETRY, 1), ("u0", 0, DEAD, 1)))


def test_what_is_given_back_after_the_queue_was_lost_is_found() -> None:
    lost = moved("m1", 15, "OWNED", "absent")
    facts = [*TWO, *owned("m1", 5), started("m1", 10), lost, ended("m1", 20, ok=False)]
    assert run_checker(RetriesDoNotMultiply, facts, end=ending(("u0", 0, RETRY, 1)))
    again = [*owned("m1", 16), started("m1", 17, 1, generation=2)]
    assert run_checker(RetriesDoNotMultiply, [*facts[:-1], *again, facts[-1]], end=ending(("u0", 0, RETRY, 1)))


def test_a_delayed_message_that_comes_early_is_found() -> None:
    facts = [sent("u0", 0, due_ms=1_000)]
    assert run_checker(DelayedNeverEarly, [*facts, started("m1", 700)])
    assert not run_checker(DelayedNeverEarly, [*facts, started("m1", 1_001)])
    assert not run_checker(DelayedNeverEarly, [*facts, started("m1", 700)], conditions(clock_faults=True))


@pytest.mark.parametrize(
    "reported",
    [
        acked("u0", 9_000),
        SendGivenUp(at_ms=9_000, uid="u0", rolled_back=True),
        Situation(at_ms=150, name="a half message was rolled back", about={"uid": "u0"}),
        None,
    ],
)
def test_a_half_message_that_is_seen_is_found(reported: Fact | None) -> None:
    facts: list[Fact] = [sent("u0", half=True), started("m1", 100), *([reported] if reported else [])]
    (found,) = run_checker(HalfMessagesInvisible, facts, end=ending())
    assert "half message u0" in found.sentence


def test_a_half_message_may_be_seen_once_it_is_committed() -> None:
    half = sent("u0", half=True)
    decided = Situation(at_ms=50, name="a half message was committed", about={"uid": "u0"})
    assert not run_checker(HalfMessagesInvisible, [half, decided, started("m1", 100)], end=ending(("u0", 0, Q0, 0)))
    assert not run_checker(
        HalfMessagesInvisible, [half, started("m1", 100), acked("u0", 103)], end=ending(("u0", 0, Q0, 0))
    )


def test_a_message_that_was_rolled_back_and_is_stored_all_the_same_is_found() -> None:
    facts: list[Fact] = [sent("u0", half=True), SendGivenUp(at_ms=50, uid="u0", rolled_back=True)]
    halves = Queue("RMQ_SYS_TRANS_HALF_TOPIC", "b", 0)
    assert not run_checker(HalfMessagesInvisible, facts, end=ending(("u0", 0, halves, 0)))
    assert (
        run_checker(HalfMessagesInvisible, facts, end=ending(("u0", 0, halves, 0), ("u0", 0, Q0, 0)))[0].subsystem
        == "log"
    )


def test_terms_name_what_a_plan_does_not() -> None:
    assert HistoryConditions().group("any").mode == "concurrent"
    assert HistoryConditions(apache_brokers=frozenset({"a"})).is_steelyard("b")


def test_what_took_the_place_of_a_lost_message_is_owed_like_any_other() -> None:
    early = conditions(async_brokers=frozenset({"b"}))
    ghost = [*TWO, sent("u0"), acked("u0", offset=0), *handled("m1", 50, 0), gone("b", 100, "power")]
    facts = [*ghost, sent("x", 200), acked("x", 210, 0), committed("m1", 300, 1)]
    end = HistoryEnd(
        60_000, logged=[logged("x", 0)], committed={("g", Q0): 1}, alive={"g": ("m1",)}, queues={"t": [Q0]}
    )
    for checker in (AckedNotLost, HandledBelowCommit):
        assert run_checker(checker, facts, early, end)
        assert not run_checker(checker, [*facts, ended("m1", 250, 0, uid="x")], early, end)


def test_a_broker_that_forgets_its_commits_is_found() -> None:
    facts = [*TWO, committed("m1", 1_000, 5), committed("m1", 12_000, 9, before=5)]
    restart = [gone("b", 13_000), joined("b", 13_500, "broker")]
    assert run_checker(CommitsGoForward, [*facts, *restart, committed("m1", 14_000, 10)])
    assert not run_checker(CommitsGoForward, [*facts, *restart, committed("m1", 14_000, 10, before=5)])


def test_a_delayed_message_that_arrives_twice_is_found() -> None:
    facts: list[Fact] = [sent("u0", due_ms=1_000)]
    assert not run_checker(RetriesDoNotMultiply, facts, end=ending(("u0", 0, WAITING, 0), ("u0", 0, Q0, 0)))
    twice = ending(("u0", 0, WAITING, 0), ("u0", 0, Q0, 0), ("u0", 1, Q0, 0))
    assert "delivered 2 times" in run_checker(RetriesDoNotMultiply, facts, end=twice)[0].sentence
