"""A member whose handler is a user that polls: messages are lent, nothing is sent back, commits can be asked for."""

from steelyard.balance.group.actions import Commit, HandleMessages, PullMessages, SendBackMessage
from steelyard.balance.group.events import CommitRequested, Handled, MessagesPolled, OffsetReset
from steelyard.balance.group.options import MemberOptions
from steelyard.balance.group.queue_states import QueueState
from steelyard.model import Subscription
from tests.balance.member_harness import Q1, MemberHarness, Q


def _polled(*, queue_messages: int = 1_000) -> MemberHarness:
    return MemberHarness(has_retries=False, handlers=1 << 30, chunk=32, queue_messages=queue_messages)


def test_who_polls_reads_no_retries() -> None:
    options = MemberOptions("g", "m@sy1", {"t": Subscription("t")}, has_retries=False)
    assert options.all_topics == ("t",)


def test_messages_stay_with_who_polled_them_for_as_long_as_that_takes() -> None:
    harness = _polled().own(Q)
    harness.pulled(Q, 0, 1)
    harness.pulled(Q)
    for _ in range(60):
        harness.wait(60_000)
        harness.pulled(Q)
    assert not harness.emitted(SendBackMessage)
    assert harness.state() is QueueState.OWNED


def test_what_failed_is_tried_again_here() -> None:
    harness = _polled().own(Q)
    harness.pulled(Q, 0)
    harness.handled(Q, failed=(0,))
    harness.wait(5_000)
    assert [(list(handle.offsets), handle.attempt) for handle in harness.emitted(HandleMessages)] == [
        ([0], 0),
        ([0], 1),
    ]
    assert not harness.emitted(SendBackMessage)


def test_what_is_lent_does_not_hold_up_the_next_pull() -> None:
    harness = _polled(queue_messages=2).own(Q)
    harness.pulled(Q, 0, 1, 2)
    assert len(harness.emitted(PullMessages)) == 1
    generation = harness.generation(Q)
    harness.step(MessagesPolled(Q, generation - 1, 3))
    assert len(harness.emitted(PullMessages)) == 1
    harness.step(MessagesPolled(Q, generation, 1))
    assert [pull.offset for pull in harness.emitted(PullMessages)] == [0, 3]
    harness.pulled(Q, 3, 4)
    assert len(harness.emitted(PullMessages)) == 2
    harness.step(MessagesPolled(Q, generation, 5))
    assert len(harness.emitted(PullMessages)) == 3
    status = harness.member.queue_status(Q)
    assert status is not None
    assert (status.state, status.generation) == (QueueState.OWNED, generation)
    assert (status.low, status.next_offset, status.committed_offset) == (0, 5, 0)


def test_a_commit_that_is_asked_for_does_not_wait_for_its_turn() -> None:
    harness = _polled().own(Q)
    harness.pulled(Q, 0, 1, 2)
    harness.handled(Q, 0)
    assert [commit.offset for commit in harness.emitted(Commit)] == [1]
    harness.confirmed(Q)
    harness.handled(Q, 1)
    assert len(harness.emitted(Commit)) == 1
    harness.step(CommitRequested(Q))
    assert [commit.offset for commit in harness.emitted(Commit)] == [1, 2]
    harness.step(CommitRequested(Q))
    harness.step(CommitRequested(Q1))
    assert len(harness.emitted(Commit)) == 2


def test_a_queue_that_is_given_away_starts_nothing_more_and_waits_for_what_is_lent() -> None:
    harness = _polled().own(Q)
    harness.pulled(Q, 0, 1, 2)
    generation, changes = harness.generation(Q), harness.member.transitions.ownership_changes
    assert harness.member.may_start(Q, generation, harness.now_ms)
    harness.plan()
    assert harness.member.transitions.ownership_changes == changes + 1
    assert not harness.member.may_start(Q, generation, harness.now_ms)
    harness.step(Handled(Q, generation, (), skipped=[1, 2]))
    assert harness.state() is QueueState.DRAINING
    harness.handled(Q, 0)
    assert harness.state() is QueueState.COMMITTING
    assert harness.emitted(Commit)[-1].offset == 1


def test_what_an_orphan_sends_back_is_no_news() -> None:
    harness = _polled().own(Q)
    harness.pulled(Q, 0, 1)
    generation = harness.generation(Q)
    harness.step(OffsetReset(Q, 7))
    harness.step(Handled(Q, generation, (), skipped=[1]))
    assert "late-result" not in harness.reports()
    harness.step(Handled(Q, generation, [0]))
    assert "late-result" in harness.reports()
