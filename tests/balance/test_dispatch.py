"""Messages in the hands of one member: whose turn it is, what becomes of failures, and what is committed."""

import pytest

from steelyard.balance.group.actions import Commit, HandleMessages, PullMessages, SendBackMessage
from steelyard.balance.group.events import (
    CommitFailed,
    Handled,
    OffsetReset,
    Pulled,
    PullFailed,
    PullOutcome,
    SendBackFailed,
    SentBack,
)
from steelyard.balance.group.options import ConsumeMode
from steelyard.balance.group.queue_states import QueueState
from tests.balance.member_harness import Q1, MemberHarness, Q


def _started(harness: MemberHarness) -> list[tuple[int, int]]:
    return [(handle.queue.queue_id, offset) for handle in harness.emitted(HandleMessages) for offset in handle.offsets]


# -- turns ------------------------------------------------------------------------------------------------------------


def test_queues_take_turns() -> None:
    harness = MemberHarness(handlers=1).own(Q, Q1)
    harness.pulled(Q, 0, 1, 2)
    harness.pulled(Q1, 0, 1, 2)
    for queue, offset in ((Q, 0), (Q, 1), (Q1, 0), (Q, 2), (Q1, 1)):
        harness.handled(queue, offset)
    assert _started(harness) == [(0, 0), (0, 1), (1, 0), (0, 2), (1, 1), (1, 2)]


def test_a_chunk_is_one_handler() -> None:
    harness = MemberHarness(handlers=2, chunk=2).own(Q)
    harness.pulled(Q, 0, 1, 2, 3, 4)
    assert [list(handle.offsets) for handle in harness.emitted(HandleMessages)] == [[0, 1], [2, 3]]
    harness.handled(Q, 0)
    assert len(harness.emitted(HandleMessages)) == 2
    harness.handled(Q, 1)
    assert [list(handle.offsets) for handle in harness.emitted(HandleMessages)] == [[0, 1], [2, 3], [4]]


def test_the_next_pull_goes_out_before_messages_are_handled() -> None:
    harness = MemberHarness().own(Q)
    claimed = harness.pulled(Q, 0, 1)
    assert [type(action) for action in claimed] == [PullMessages, HandleMessages, HandleMessages]


def test_what_was_not_begun_of_a_chunk_is_begun_later() -> None:
    harness = MemberHarness(handlers=1, chunk=3).own(Q)
    harness.pulled(Q, 0, 1, 2)
    harness.step(Handled(Q, harness.generation(Q), [0], skipped=[1, 2]))
    assert _started(harness) == [(0, 0), (0, 1), (0, 2), (0, 1)]
    harness.wait(1_000)
    assert harness.emitted(Commit)[-1].offset == 1


def test_a_pull_that_failed_is_repeated_after_a_pause() -> None:
    harness = MemberHarness().own(Q)
    generation = harness.emitted(PullMessages)[0].generation
    harness.step(PullFailed(Q, generation))
    harness.wait(999)
    assert len(harness.emitted(PullMessages)) == 1
    harness.wait(1)
    assert len(harness.emitted(PullMessages)) == 2
    harness.step(PullFailed(Q, generation, is_busy=True))
    harness.wait(20)
    assert len(harness.emitted(PullMessages)) == 3


def test_a_pull_that_is_never_answered_starts_the_queue_anew() -> None:
    harness = MemberHarness().own(Q)
    harness.wait(119_999)
    assert harness.state() is QueueState.OWNED
    harness.wait(1)
    assert harness.state() is QueueState.STARTING
    harness.offset(Q, 4)
    assert harness.emitted(PullMessages)[-1].offset == 4
    assert harness.emitted(PullMessages)[-1].generation > harness.emitted(PullMessages)[0].generation


def test_a_handler_that_ends_after_its_message_was_given_back_finds_its_queue_anywhere() -> None:
    harness = MemberHarness().own(Q)
    harness.pulled(Q, 0)
    generation = harness.generation(Q)
    for _ in range(15):
        harness.wait(60_000)
        harness.pulled(Q)
    back = harness.emitted(SendBackMessage)[-1]
    harness.step(SentBack(Q, back.generation, back.offset))
    harness.confirmed(Q)
    harness.plan()
    assert harness.state() is QueueState.RELEASING
    harness.step(Handled(Q, generation, [0]))
    assert harness.reports()[-1] == "late-result"
    assert harness.state() is QueueState.RELEASING


# -- offsets ----------------------------------------------------------------------------------------------------------


def test_a_start_that_is_not_stored_is_committed_at_once() -> None:
    harness = MemberHarness()
    harness.connect()
    harness.plan(Q)
    harness.grant(Q)
    harness.offset(Q, 40, stored=False)
    assert [commit.offset for commit in harness.emitted(Commit)] == [40]


def test_an_offset_out_of_range_goes_where_the_broker_says() -> None:
    harness = MemberHarness().own(Q, offset=10)
    generation = harness.emitted(PullMessages)[0].generation
    harness.step(Pulled(Q, generation, PullOutcome.OFFSET_MOVED, 50))
    assert harness.emitted(PullMessages)[-1].offset == 50
    assert harness.emitted(Commit)[-1].offset == 50
    harness.step(Pulled(Q, generation, PullOutcome.OFFSET_MOVED, 3))
    assert (harness.emitted(PullMessages)[-1].offset, harness.emitted(PullMessages)[-1].generation > generation) == (
        3,
        True,
    )
    harness.confirmed(Q)
    harness.wait(1_000)
    assert harness.emitted(Commit)[-1].offset == 3


def test_a_reset_makes_running_handlers_orphans() -> None:
    harness = MemberHarness().own(Q)
    harness.pulled(Q, 0, 1)
    first = harness.generation(Q)
    harness.step(OffsetReset(Q, 100))
    assert harness.emitted(PullMessages)[-1].offset == 100
    assert harness.emitted(Commit)[-1].offset == 100
    harness.step(Handled(Q, first, [0, 1]))
    assert harness.reports()[-1] == "late-result"
    assert len(harness.emitted(Commit)) == 1


def test_a_commit_that_failed_is_said_again() -> None:
    harness = MemberHarness().own(Q)
    harness.pulled(Q, 0)
    harness.handled(Q, 0)
    harness.step(CommitFailed(Q, 1))
    harness.wait(1_000)
    assert [commit.offset for commit in harness.emitted(Commit)] == [1, 1]
    harness.plan()
    harness.step(CommitFailed(Q, 1))
    assert harness.state() is QueueState.COMMITTING
    harness.step(CommitFailed(Q, 1))
    harness.wait(1_000)
    harness.confirmed(Q)
    assert harness.state() is QueueState.RELEASING


def test_nothing_is_committed_on_a_connection_that_was_just_lost() -> None:
    harness = MemberHarness().own(Q)
    harness.pulled(Q, 0, 1, 2)
    harness.handled(Q, 0)
    harness.confirmed(Q)
    harness.handled(Q, 1)
    harness.now_ms += 1_000
    harness.rebalancer.fake_plan = ()
    harness.actions.clear()
    harness.disconnect()
    assert not harness.emitted(Commit)
    assert harness.state() is QueueState.UNSURE


# -- failures ---------------------------------------------------------------------------------------------------------


def test_a_failed_message_goes_back_and_counts_when_it_is_there() -> None:
    harness = MemberHarness().own(Q)
    harness.pulled(Q, 0)
    harness.handled(Q, failed=(0,), level=2)
    (back,) = harness.emitted(SendBackMessage)
    assert (back.offset, back.message, back.delay_level) == (0, "m0", 2)
    assert not harness.emitted(Commit)
    harness.step(SentBack(Q, back.generation, 0))
    assert harness.emitted(Commit)[-1].offset == 1


def test_a_message_that_cannot_go_back_is_tried_here_again() -> None:
    harness = MemberHarness().own(Q)
    harness.pulled(Q, 0)
    harness.handled(Q, failed=(0,))
    harness.step(SendBackFailed(Q, harness.generation(Q), 0))
    harness.wait(4_900)
    assert len(harness.emitted(HandleMessages)) == 1
    harness.wait(100)
    assert [(handle.offsets[0], handle.attempt) for handle in harness.emitted(HandleMessages)] == [(0, 0), (0, 1)]


def test_a_message_that_cannot_go_back_while_draining_is_left_to_the_next_owner() -> None:
    harness = MemberHarness().own(Q)
    harness.pulled(Q, 0, 1)
    harness.handled(Q, 1)
    harness.plan()
    harness.handled(Q, failed=(0,))
    assert harness.state() is QueueState.DRAINING
    harness.step(SendBackFailed(Q, harness.generation(Q), 0))
    assert harness.state() is QueueState.RELEASING
    assert not harness.emitted(Commit)


def test_what_fails_while_it_is_unsure_goes_back_once_it_is_proven() -> None:
    harness = MemberHarness().own(Q)
    harness.pulled(Q, 0)
    harness.disconnect()
    harness.handled(Q, failed=(0,))
    assert not harness.emitted(SendBackMessage)
    harness.connect()
    harness.grant(Q)
    harness.offset(Q)
    assert len(harness.emitted(SendBackMessage)) == 1


def _fail(harness: MemberHarness, offset: int, error: str) -> None:
    harness.step(Handled(Q, harness.generation(Q), (), (offset,), errors={offset: error}))


@pytest.mark.parametrize("is_unsure", [False, True], ids=["owned", "unsure"])
def test_why_a_message_failed_goes_along_with_it(is_unsure: bool) -> None:
    harness = MemberHarness().own(Q)
    harness.pulled(Q, 0)
    if is_unsure:
        harness.disconnect()
    _fail(harness, 0, "ValueError: bad")
    if is_unsure:
        harness.connect()
        harness.grant(Q)
        harness.offset(Q)
    (back,) = harness.emitted(SendBackMessage)
    assert (back.error, back.as_copy) == ("ValueError: bad", False)


@pytest.mark.parametrize(
    ("ours", "mode", "error", "as_copy"),
    [
        (True, ConsumeMode.ORDERLY, "ValueError: bad", False),
        (False, ConsumeMode.ORDERLY, "ValueError: bad", True),
        (False, ConsumeMode.ORDERLY, "", False),
        (False, ConsumeMode.CONCURRENT, "ValueError: bad", False),
    ],
    ids=["ours", "Apache's", "Apache's, nothing to say", "Apache's, concurrent"],
)
def test_only_a_message_that_is_given_up_is_sent_to_apache_as_a_copy(
    ours: bool, mode: ConsumeMode, error: str, as_copy: bool
) -> None:
    harness = MemberHarness(mode=mode, ours=ours, max_attempts=1).own(Q)
    harness.pulled(Q, 0)
    _fail(harness, 0, error)
    (back,) = harness.emitted(SendBackMessage)
    assert (back.error, back.as_copy, back.is_unreadable) == (error, as_copy, False)
    assert back.delay_level == (-1 if mode is ConsumeMode.ORDERLY else 0)


def test_a_late_failure_changes_nothing_of_what_was_sent_back() -> None:
    harness = MemberHarness().own(Q)
    harness.pulled(Q, 0)
    for _ in range(15):
        harness.wait(60_000)
        harness.pulled(Q)
    (back,) = harness.emitted(SendBackMessage)
    assert back.error == "the handler took longer than 900 s"
    _fail(harness, 0, "ValueError: late")
    assert harness.emitted(SendBackMessage) == [back]
    assert harness.reports()[-1] == "late-result"


def test_a_message_too_long_in_its_handler_goes_back_and_comes_again() -> None:
    harness = MemberHarness().own(Q)
    harness.pulled(Q, 0)
    harness.wait(60_000)
    harness.pulled(Q)
    for _ in range(14):
        harness.wait(60_000)
        harness.pulled(Q)
    (back,) = harness.emitted(SendBackMessage)
    assert (back.offset, back.delay_level) == (0, 3)
    harness.step(SentBack(Q, back.generation, 0))
    assert harness.emitted(Commit)[-1].offset == 1
    harness.handled(Q, 0)
    assert harness.reports()[-1] == "late-result"


# -- in order ---------------------------------------------------------------------------------------------------------


def test_in_order_a_queue_has_one_handler_at_a_time() -> None:
    harness = MemberHarness(mode=ConsumeMode.ORDERLY).own(Q, Q1)
    harness.pulled(Q, 0, 1, 2)
    harness.pulled(Q1, 7)
    assert _started(harness) == [(0, 0), (1, 7)]
    harness.handled(Q, 0)
    assert _started(harness) == [(0, 0), (1, 7), (0, 1)]


def test_in_order_a_failure_holds_up_those_behind_it() -> None:
    harness = MemberHarness(mode=ConsumeMode.ORDERLY, chunk=3).own(Q)
    harness.pulled(Q, 0, 1, 2, 3)
    generation = harness.generation(Q)
    harness.step(Handled(Q, generation, [0], [1]))
    assert not harness.member.may_start(Q, generation, harness.now_ms)
    harness.step(Handled(Q, generation, (), skipped=[2]))
    harness.wait(999)
    assert len(harness.emitted(HandleMessages)) == 1
    harness.wait(1)
    again = harness.emitted(HandleMessages)[-1]
    assert (list(again.offsets), again.attempt) == ([1], 1)
    harness.handled(Q, 1)
    assert list(harness.emitted(HandleMessages)[-1].offsets) == [2]
    harness.handled(Q, 2)
    assert list(harness.emitted(HandleMessages)[-1].offsets) == [3]


def test_in_order_a_message_that_fails_too_often_goes_to_the_dead_letters() -> None:
    harness = MemberHarness(mode=ConsumeMode.ORDERLY, max_attempts=2).own(Q)
    harness.pulled(Q, 0, 1)
    harness.handled(Q, failed=(0,))
    harness.wait(1_000)
    harness.handled(Q, failed=(0,))
    (back,) = harness.emitted(SendBackMessage)
    assert back.delay_level == -1
    harness.wait(2_000)
    assert _started(harness) == [(0, 0), (0, 0)]
    harness.step(SendBackFailed(Q, back.generation, 0))
    harness.wait(1_000)
    harness.handled(Q, failed=(0,))
    harness.step(SentBack(Q, back.generation, 0))
    assert _started(harness) == [(0, 0), (0, 0), (0, 0), (0, 1)]


def test_in_order_with_no_further_attempts_the_first_failure_goes_to_the_dead_letters() -> None:
    harness = MemberHarness(mode=ConsumeMode.ORDERLY, max_attempts=0).own(Q)
    harness.pulled(Q, 0)
    harness.handled(Q, failed=(0,))
    (back,) = harness.emitted(SendBackMessage)
    assert (back.offset, back.delay_level) == (0, -1)


def test_in_order_without_a_limit_a_message_is_tried_for_ever() -> None:
    harness = MemberHarness(mode=ConsumeMode.ORDERLY, max_attempts=-1).own(Q)
    harness.pulled(Q, 0)
    for _ in range(40):
        harness.handled(Q, failed=(0,))
        harness.wait(1_000)
    assert not harness.emitted(SendBackMessage)
    assert harness.emitted(HandleMessages)[-1].attempt == 40


# -- broadcasting -----------------------------------------------------------------------------------------------------


def test_who_broadcasts_locks_nothing_and_drops_failures() -> None:
    harness = MemberHarness(mode=ConsumeMode.BROADCAST).own(Q)
    harness.pulled(Q, 0, 1)
    harness.handled(Q, failed=(0,))
    assert harness.reports()[-1] == "dropped"
    assert harness.emitted(Commit)[-1].offset == 1
    harness.disconnect()
    assert harness.state() is QueueState.UNSURE
    harness.connect()
    assert harness.state() is QueueState.OWNED
    harness.pulled(Q, 1)
    assert harness.emitted(PullMessages)[-1].offset == 2
    harness.plan()
    harness.handled(Q, 1)
    harness.confirmed(Q)
    harness.confirmed(Q)
    assert harness.state() is QueueState.ABSENT
