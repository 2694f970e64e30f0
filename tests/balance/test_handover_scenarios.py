"""Ways in which hand-overs were once broken, played to one member by hand.

Those that need several members, or a broker, have the same names in the simulator.
"""

import pytest

from steelyard.balance.group.actions import (
    Commit,
    LockQueues,
    MemberLeft,
    ProbeOwnership,
    PullMessages,
    QueryMemberList,
    QueryStartOffset,
    RenewLocks,
    SendHeartbeat,
    StartAt,
    UnlockQueues,
    UnregisterMember,
)
from steelyard.balance.group.events import (
    CommitConfirmed,
    CommitRefused,
    HandoverRequested,
    HeartbeatFailed,
    LeaveRequested,
    LockFailed,
    LocksAnswered,
    StartOffsetReceived,
    Tick,
)
from steelyard.balance.group.options import ConsumeMode
from steelyard.balance.group.queue_states import QueueState
from tests.balance.member_harness import ME, PEER, Q1, MemberHarness, Q, kinds, unlocks


def _wanting(*, ours: bool) -> MemberHarness:
    harness = MemberHarness(ours=ours)
    harness.connect()
    harness.plan(Q)
    assert [lock.queues for lock in harness.emitted(LockQueues)] == [(Q,)]
    return harness


# -- taking -----------------------------------------------------------------------------------------------------------


def test_a_takeover_without_the_lock_meets_a_grant_in_flight() -> None:
    harness = MemberHarness(ours=False)
    harness.connect()
    assert kinds(harness.plan(Q)) == ["LockQueues"]
    assert not harness.emitted(ProbeOwnership)
    assert kinds(harness.grant(Q)) == ["QueryMemberList"]
    assert kinds(harness.list_group(ME, PEER)) == ["ProbeOwnership"]
    assert harness.state() is QueueState.ASKING
    assert sorted(kinds(harness.holds(PEER))) == ["QueryStartOffset", "UnlockQueues"]
    assert harness.state() is QueueState.STARTING


def test_a_lock_that_expires_after_a_bypass_is_not_free() -> None:
    """A member that waits for a slow holder renews its lock, and acquires nothing under one that may have expired."""
    harness = _wanting(ours=False)
    harness.grant(Q)
    harness.list_group(ME, PEER)
    harness.holds(PEER, Q)
    locks = len(harness.emitted(LockQueues))
    for _ in range(60):
        harness.wait(400)
        if harness.emitted(QueryMemberList)[-1].request_id == harness.last_request_id():
            harness.list_group(ME, PEER)
        if harness.emitted(ProbeOwnership)[-1].request_id == harness.last_request_id(PEER):
            harness.holds(PEER, Q)
    assert len(harness.emitted(LockQueues)) == locks + 1
    assert harness.state() is QueueState.ASKING
    # That was not answered, and the old one is now too old to prove anything.
    harness.wait(12_000)
    harness.list_group(ME, PEER)
    harness.holds(PEER)
    assert harness.state() is QueueState.WANTED


def test_an_unnoticed_crash_is_taken_at_once() -> None:
    """No lock is kept on an Apache broker while a queue is owned, so that no member has to wait for its expiry."""
    harness = MemberHarness(ours=False).own(Q)
    assert unlocks(harness.actions) == [(Q,)]
    harness.actions.clear()
    harness.wait(100_000)
    assert not harness.emitted(RenewLocks)
    assert not harness.emitted(LockQueues)


def test_an_unlock_waits_for_the_renewal_before_it() -> None:
    harness = MemberHarness(ours=False, mode=ConsumeMode.ORDERLY).own(Q, Q1)
    harness.wait(20_000)
    assert [renew.queues for renew in harness.emitted(RenewLocks)] == [(Q, Q1)]
    harness.confirmed(Q1)
    harness.plan(Q)
    harness.confirmed(Q1)
    assert harness.state(Q1) is QueueState.RELEASING
    assert not harness.emitted(UnlockQueues)
    assert unlocks(harness.grant(Q, Q1)) == [(Q1,)]


def test_a_grant_no_longer_wanted_is_unlocked() -> None:
    for ours in (True, False):
        harness = _wanting(ours=ours)
        harness.plan()
        assert harness.state() is QueueState.WANTED
        assert not harness.emitted(UnlockQueues)
        harness.grant(Q, epoch=17)
        assert harness.state() is QueueState.RELEASING
        (unlock,) = harness.emitted(UnlockQueues)
        assert unlock.epochs == ((17,) if ours else (None,))
        harness.unlocked(Q)
        assert harness.state() is QueueState.ABSENT


def test_a_lock_of_unknown_outcome_is_unlocked_after_a_lost_connection() -> None:
    harness = _wanting(ours=False)
    harness.plan()
    harness.disconnect()
    assert harness.state() is QueueState.RELEASING
    assert unlocks(harness.connect()) == [(Q,)]
    assert harness.unlocked(Q) == []
    assert harness.state() is QueueState.ABSENT


def test_a_lock_of_unknown_outcome_is_unlocked_after_a_failure() -> None:
    harness = _wanting(ours=False)
    harness.plan()
    assert unlocks(harness.step(LockFailed("b", (Q,)))) == [(Q,)]


def test_a_late_lock_of_a_dead_connection_is_healed_by_a_handover_request() -> None:
    harness = MemberHarness(ours=False)
    harness.connect()
    harness.plan(Q1)
    harness.grant(Q1)
    assert unlocks(harness.step(HandoverRequested(PEER, (Q,)))) == [(Q,)]
    harness.unlocked(Q)
    assert unlocks(harness.step(HandoverRequested(PEER, (Q1,)))) == []


def test_a_leaver_with_a_denied_lock_still_leaves() -> None:
    for ours in (True, False):
        harness = _wanting(ours=ours)
        harness.step(LeaveRequested())
        assert not harness.emitted(MemberLeft)
        assert kinds(harness.deny(Q))[-2:] == ["UnregisterMember", "MemberLeft"]
        assert harness.member.has_left


def test_a_late_unlock_of_a_dead_connection_does_not_free_the_new_lease() -> None:
    harness = MemberHarness(ours=True).own(Q)
    harness.plan()
    assert harness.emitted(UnlockQueues)[-1].epochs == (1,)
    harness.disconnect()
    harness.connect()
    assert harness.emitted(UnlockQueues)[-1].epochs == (1,)
    harness.plan(Q)
    harness.unlocked(Q)
    harness.grant(Q, epoch=2)
    harness.offset(Q)
    harness.plan()
    assert harness.emitted(UnlockQueues)[-1].epochs == (2,)


def test_a_late_unlock_does_not_free_the_lock_of_a_taker() -> None:
    """On Apache's broker an unlock that is still to be sent is dropped when its queue is taken again."""
    harness = MemberHarness(ours=False)
    harness.connect()
    harness.plan(Q)
    harness.step(HandoverRequested(PEER, (Q1,)))
    assert not harness.emitted(UnlockQueues)
    harness.plan(Q, Q1)
    harness.grant(Q)
    assert not harness.emitted(UnlockQueues)
    assert harness.emitted(LockQueues)[-1].queues == (Q1,)


def test_a_renewal_does_not_acquire() -> None:
    harness = MemberHarness(ours=True).own(Q)
    harness.disconnect()
    assert harness.state() is QueueState.UNSURE
    harness.connect()
    (renew,) = harness.emitted(RenewLocks)
    assert (renew.queues, renew.epochs) == ((Q,), (1,))
    assert len(harness.emitted(LockQueues)) == 1
    harness.deny(Q)
    assert "lost" in harness.reports()
    assert harness.state() is QueueState.ABSENT


# -- the rest ---------------------------------------------------------------------------------------------------------


def test_a_lock_in_a_mixed_group_sends_java_retries_to_the_dead_letters() -> None:
    """Newer brokers of Apache look for a lock under the group's own name: members that need no order use another."""
    harness = MemberHarness(ours=False)
    harness.connect()
    harness.plan(Q)
    assert harness.emitted(LockQueues)[0].lock_group == "g%LEASE"
    in_order = MemberHarness(ours=False, mode=ConsumeMode.ORDERLY)
    in_order.connect()
    in_order.plan(Q)
    assert in_order.emitted(LockQueues)[0].lock_group == "g"


def test_with_all_notifications_lost_a_join_still_takes_a_second() -> None:
    """A member that is denied for half a second asks the holder to rebalance."""
    harness = _wanting(ours=True)
    for _ in range(6):
        harness.deny(Q)
        harness.wait(200)
    (request,) = harness.emitted(ProbeOwnership)
    assert (request.member, request.waiting_for) == (PEER, (Q,))


def test_queues_added_start_at_their_first_message() -> None:
    harness = MemberHarness()
    harness.rebalancer.new = frozenset({Q1})
    harness.connect()
    harness.plan(Q, Q1)
    harness.grant(Q, Q1)
    assert {ask.queue: ask.start.at for ask in harness.emitted(QueryStartOffset)} == {
        Q: StartAt.LAST,
        Q1: StartAt.FIRST,
    }


def test_a_leaver_unregisters_after_its_last_unlock_was_answered() -> None:
    harness = MemberHarness().own(Q, Q1)
    harness.pulled(Q, 0)
    asked = harness.step(LeaveRequested())
    assert isinstance(asked[0], SendHeartbeat)
    assert asked[0].is_leaving
    assert kinds(asked) == ["UnlockQueues"]
    harness.handled(Q, 0)
    harness.unlocked(Q1)
    assert harness.emitted(Commit)[-1].offset == 1
    harness.step(CommitConfirmed(Q, 1))
    assert not harness.emitted(UnregisterMember)
    assert kinds(harness.unlocked(Q)) == ["UnregisterMember", "MemberLeft"]
    assert harness.member.due_ms() > 1 << 60
    assert harness.step(Tick()) == []


@pytest.mark.parametrize("drain_ms", [0, 500])
def test_a_leaver_whose_broker_does_not_answer_leaves_all_the_same(drain_ms: int) -> None:
    harness = MemberHarness().own(Q)
    harness.pulled(Q, 0)
    harness.step(LeaveRequested(drain_ms))
    harness.wait(drain_ms + 2_900)
    assert not harness.member.has_left
    harness.wait(200)
    assert harness.member.has_left
    assert kinds(harness.actions)[-2:] == ["UnregisterMember", "MemberLeft"]


def test_a_response_for_an_earlier_assignment_is_ignored() -> None:
    """Where to start is asked anew: what was stored may have changed hands in between."""
    harness = MemberHarness(ours=True).own(Q)
    harness.pulled(Q, 0)
    harness.handled(Q, 0)
    harness.answers_heartbeats = False
    harness.wait(9_000)
    assert harness.state() is QueueState.UNSURE
    for _ in range(3):
        harness.step(HeartbeatFailed("b"))
    harness.answers_heartbeats = True
    harness.wait(3_000)
    harness.grant(Q)
    assert len(harness.emitted(QueryStartOffset)) == 2
    harness.step(CommitRefused(Q, 1))
    assert harness.state() is QueueState.ABSENT
    harness.wait(300)
    harness.step(LocksAnswered("b", {Q: 5}, {}))
    assert harness.state() is QueueState.STARTING
    assert len(harness.emitted(QueryStartOffset)) == 2
    harness.step(StartOffsetReceived(Q, 0, stored=True))
    assert harness.state() is QueueState.STARTING
    assert len(harness.emitted(QueryStartOffset)) == 3
    harness.offset(Q, 8)
    assert harness.emitted(PullMessages)[-1].offset == 8
