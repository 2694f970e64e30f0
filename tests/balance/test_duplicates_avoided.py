"""Messages that were in hand when their queue had to go, and were finished and committed before that, are counted."""

from steelyard.balance.group.actions import SendHeartbeat, UnregisterMember
from steelyard.balance.group.events import LeaveRequested
from steelyard.balance.group.options import ConsumeMode
from steelyard.balance.group.queue_states import QueueState
from tests.balance.member_harness import Q1, MemberHarness, Q


def _give_up(harness: MemberHarness) -> None:
    """Let the last commit be stored and the lock go."""
    while harness.state() is not QueueState.RELEASING:
        harness.confirmed(Q)
    harness.unlocked(Q)


def test_what_is_finished_while_its_queue_is_given_up_is_counted() -> None:
    harness = MemberHarness(handlers=8).own(Q, Q1)
    harness.pulled(Q, 0, 1, 2)
    harness.handled(Q, 0)
    harness.plan(Q1)
    assert harness.state() is QueueState.DRAINING
    harness.handled(Q, 1)
    harness.handled(Q, 2)
    assert harness.member.sessions.duplicates_avoided == 0
    _give_up(harness)
    assert harness.member.sessions.duplicates_avoided == 2


def test_what_is_behind_a_message_that_comes_again_is_not() -> None:
    harness = MemberHarness(handlers=8, mode=ConsumeMode.ORDERLY, chunk=3).own(Q, Q1)
    harness.pulled(Q, 0, 1, 2)
    harness.plan(Q1)
    harness.handled(Q, 0, failed=(1, 2))
    _give_up(harness)
    assert harness.member.sessions.duplicates_avoided == 1


def test_a_queue_without_handlers_avoids_nothing() -> None:
    harness = MemberHarness().own(Q, Q1)
    harness.pulled(Q, 0)
    harness.handled(Q, 0)
    harness.plan(Q1)
    _give_up(harness)
    assert harness.member.sessions.duplicates_avoided == 0


def test_its_broker_gets_it_with_the_next_heartbeat() -> None:
    harness = MemberHarness(handlers=8).own(Q, Q1)
    harness.pulled(Q, 0)
    harness.plan(Q1)
    harness.handled(Q, 0)
    _give_up(harness)
    harness.wait(30_000)
    assert harness.emitted(SendHeartbeat)[-1].duplicates_avoided == 1


def test_its_broker_gets_it_with_the_unregister() -> None:
    harness = MemberHarness(handlers=8).own(Q)
    harness.pulled(Q, 0)
    harness.step(LeaveRequested(10_000))
    harness.handled(Q, 0)
    _give_up(harness)
    assert [unregistration.duplicates_avoided for unregistration in harness.emitted(UnregisterMember)] == [1]
