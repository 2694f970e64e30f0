"""How one member takes and keeps queues: batches, pauses, peers, foreign members, brokers that forbid or vanish."""

import itertools

from steelyard.balance.group.actions import (
    Commit,
    LockQueues,
    MemberReport,
    ProbeOwnership,
    PullMessages,
    QueryMemberList,
    QueryStartOffset,
    RenewLocks,
    SendHeartbeat,
    StartAt,
    StartPosition,
    UnlockQueues,
)
from steelyard.balance.group.events import (
    HandoverRequested,
    LeaveRequested,
    LockFailed,
    LocksAnswered,
    MemberListFailed,
    MemberListReceived,
    OwnershipProbeFailed,
    OwnershipReported,
    StartOffsetFailed,
    UnlockFailed,
)
from steelyard.balance.group.options import ConsumeMode
from steelyard.balance.group.queue_states import QueueState
from steelyard.model import Queue
from tests.balance.member_harness import ME, PEER, Q1, MemberHarness, Q, kinds, probing, unlocks

JAVA = "10.0.0.9@1234"


# -- batches and pauses -----------------------------------------------------------------------------------------------


def test_all_queues_of_a_broker_are_locked_by_one_request() -> None:
    harness = MemberHarness()
    harness.connect("b")
    harness.connect("c")
    queues = [Queue("t", broker, number) for broker in "bc" for number in range(3)]
    harness.plan(*queues)
    assert [(lock.broker, len(lock.queues)) for lock in harness.emitted(LockQueues)] == [("b", 3), ("c", 3)]


def test_nothing_is_asked_of_a_broker_that_did_not_answer_a_heartbeat() -> None:
    harness = MemberHarness()
    harness.answers_heartbeats = False
    harness.connect()
    harness.plan(Q)
    assert kinds(harness.actions) == ["QueryUptime"]


def test_a_denied_lock_is_tried_again_soon_and_then_less_often() -> None:
    harness = MemberHarness()
    harness.connect()
    harness.plan(Q)
    times = []
    for _ in range(25):
        times.append(harness.now_ms)
        harness.deny(Q, holder="")
        locks = len(harness.emitted(LockQueues))
        while len(harness.emitted(LockQueues)) == locks:
            harness.wait(1)
    waits = [after - before for before, after in itertools.pairwise(times)]
    assert 40 <= waits[0] <= 60
    assert 80 <= waits[1] <= 120
    assert all(160 <= wait <= 240 for wait in waits[2:9])
    assert all(320 <= wait <= 480 for wait in waits[-5:])


def test_an_offset_that_cannot_be_learnt_is_asked_again() -> None:
    harness = MemberHarness(start=StartPosition(StartAt.TIME, 5))
    harness.connect()
    harness.plan(Q)
    harness.grant(Q)
    harness.step(StartOffsetFailed(Q))
    harness.wait(300)
    assert [ask.start for ask in harness.emitted(QueryStartOffset)] == [StartPosition(StartAt.TIME, 5)] * 2
    harness.plan()
    assert harness.state() is QueueState.STARTING
    harness.step(StartOffsetFailed(Q))
    assert harness.state() is QueueState.RELEASING


def test_a_change_of_what_is_owned_is_announced_at_once_and_a_storm_of_them_seldom() -> None:
    harness = MemberHarness()
    harness.connect()
    queues = tuple(Queue("t", "b", number) for number in range(50))
    harness.plan(*queues)
    harness.grant(*queues)
    harness.actions.clear()
    for queue in queues:
        harness.offset(queue)
    assert len(harness.emitted(SendHeartbeat)) == 1
    harness.wait(200)
    assert len(harness.emitted(SendHeartbeat)) == 2
    assert [len(report.queues) for report in harness.emitted(MemberReport)] == [1] * 50


# -- asking -----------------------------------------------------------------------------------------------------------


def test_a_peer_that_holds_a_queue_is_asked_until_it_does_not() -> None:
    harness = probing(MemberHarness(ours=False), PEER, "other@sy1")
    assert {ask.member for ask in harness.emitted(ProbeOwnership)} == {PEER, "other@sy1"}
    harness.holds("other@sy1")
    harness.holds(PEER, Q)
    assert harness.state() is QueueState.ASKING
    harness.actions.clear()
    harness.wait(60)
    harness.list_group(ME, PEER, "other@sy1")
    assert [ask.member for ask in harness.emitted(ProbeOwnership)] == [PEER]
    harness.holds(PEER)
    assert harness.state() is QueueState.STARTING


def test_a_peer_that_left_the_list_does_not_hold() -> None:
    harness = probing(MemberHarness(ours=False), PEER)
    harness.step(OwnershipProbeFailed("b", PEER, is_unknown=True, request_id=harness.last_request_id(PEER)))
    assert harness.state() is QueueState.ASKING
    harness.wait(60)
    harness.list_group(ME)
    assert harness.state() is QueueState.STARTING


def test_four_are_asked_at_a_time() -> None:
    peers = [f"p{number}@sy1" for number in range(10)]
    harness = probing(MemberHarness(ours=False), *peers)
    asked = harness.emitted(ProbeOwnership)
    assert len(asked) == 4
    for ask in asked:
        harness.step(OwnershipReported("b", ask.member, frozenset(), request_id=ask.request_id))
    assert len(harness.emitted(ProbeOwnership)) == 8


def test_who_is_not_on_the_list_takes_nothing() -> None:
    harness = MemberHarness(ours=False)
    harness.connect()
    harness.plan(Q)
    harness.grant(Q)
    harness.list_group(PEER)
    assert not harness.emitted(ProbeOwnership)
    assert harness.state() is QueueState.ASKING
    harness.wait(60)
    harness.step(MemberListFailed("b", harness.last_request_id()))
    harness.wait(120)
    harness.list_group(ME)
    assert harness.state() is QueueState.STARTING


def test_a_list_that_was_asked_for_before_the_lock_does_not_count() -> None:
    harness = MemberHarness(ours=False)
    harness.connect()
    harness.plan(Q)
    harness.grant(Q)
    harness.step(MemberListReceived("b", (ME,), request_id=0))
    assert harness.state() is QueueState.ASKING
    assert harness.emitted(QueryMemberList)[0].request_id % 2 == 1


def test_a_foreign_member_is_waited_for_two_seconds() -> None:
    harness = probing(MemberHarness(ours=False), JAVA)
    for _ in range(30):
        asked = harness.emitted(ProbeOwnership)
        if asked and asked[-1].request_id == harness.last_request_id(JAVA) and harness.state() is QueueState.ASKING:
            harness.holds(JAVA, Q)
        groups = len(harness.emitted(QueryMemberList))
        harness.wait(100)
        if len(harness.emitted(QueryMemberList)) > groups:
            harness.list_group(ME, JAVA)
        if harness.state() is not QueueState.ASKING:
            break
    assert harness.state() is QueueState.STARTING
    assert 2_000 <= harness.now_ms - 1_000_000 <= 3_000


def test_towards_foreign_members_a_drain_is_short() -> None:
    harness = MemberHarness(ours=False).own(Q)
    harness.pulled(Q, 0)
    harness.rebalancer.foreign = True
    harness.plan()
    harness.wait(1_000)
    assert harness.reports()[-1] == "drain-timeout"
    assert harness.state() is QueueState.COMMITTING


def test_a_broker_that_forbids_locks_is_asked_without() -> None:
    harness = MemberHarness(ours=False)
    harness.connect()
    harness.plan(Q)
    harness.step(LockFailed("b", (Q,), is_forbidden=True))
    assert harness.reports() == ["degraded"]
    harness.wait(60)
    harness.list_group(ME)
    assert harness.state() is QueueState.STARTING
    harness.offset(Q)
    harness.plan(Q, Q1)
    assert harness.reports().count("degraded") == 1
    assert not harness.emitted(UnlockQueues)


def test_a_lock_of_a_member_that_died_while_taking_is_let_go_in_its_name() -> None:
    harness = MemberHarness(ours=False)
    harness.connect()
    harness.step(MemberListReceived("b", (ME, PEER)))
    harness.rebalancer.fake_listed = (ME,)
    harness.rebalancer.fake_departed = frozenset({PEER})
    harness.plan(Q)
    for _ in range(5):
        harness.deny(Q)
        harness.wait(240)
        if harness.emitted(UnlockQueues):
            break
    (unlock,) = harness.emitted(UnlockQueues)
    assert (unlock.owner, unlock.queues) == (PEER, (Q,))
    assert harness.member.claimed_queues(harness.now_ms).departed.keys() == {PEER}


# -- keeping ----------------------------------------------------------------------------------------------------------


def test_where_order_matters_apache_s_lock_is_renewed_each_20_s() -> None:
    harness = MemberHarness(ours=False, mode=ConsumeMode.ORDERLY).own(Q)
    for _ in range(3):
        harness.wait(20_000)
        harness.grant(Q)
    assert len(harness.emitted(RenewLocks)) == 3
    assert harness.state() is QueueState.OWNED
    harness.wait(20_000)
    harness.deny(Q)
    assert harness.state() is QueueState.ABSENT
    assert harness.reports()[-1] == "lost"


def test_our_lease_needs_no_renewal() -> None:
    harness = MemberHarness().own(Q)
    harness.wait(100_000)
    assert not harness.emitted(RenewLocks)


def test_an_unlock_that_failed_is_tried_again_but_not_while_the_queue_is_taken() -> None:
    harness = MemberHarness(ours=False)
    probing(harness)
    harness.step(UnlockFailed("b", (Q,)))
    harness.offset(Q)
    harness.wait(400)
    assert len(harness.emitted(UnlockQueues)) == 2


def test_what_is_lost_is_wanted_again_while_the_plan_has_it() -> None:
    harness = MemberHarness().own(Q)
    harness.disconnect()
    harness.connect()
    harness.deny(Q)
    assert harness.state() is QueueState.ABSENT
    harness.wait(200)
    assert harness.state() is QueueState.WANTED


def test_a_broker_that_left_the_routes_is_given_up_after_a_minute() -> None:
    harness = MemberHarness().own(Q)
    harness.disconnect()
    harness.wait(70_000)
    assert harness.state() is QueueState.UNSURE
    harness.rebalancer.fake_queues = frozenset()
    harness.wait(60_000)
    assert harness.state() is QueueState.ABSENT


def test_claimed_queues_are_those_held_given_up_and_being_acquired() -> None:
    harness = MemberHarness(ours=False).own(Q)
    harness.pulled(Q, 0)
    harness.plan(Q1)
    assert harness.member.claimed_queues(harness.now_ms).acquiring == ()
    harness.grant(Q1)
    claimed = harness.member.claimed_queues(harness.now_ms)
    assert (claimed.held, claimed.draining, claimed.acquiring) == ((Q,), (Q,), (Q1,))
    assert harness.member.assignment() == ()
    assert harness.rebalancer.is_unsettled


def test_a_handover_request_for_what_is_held_changes_nothing() -> None:
    harness = MemberHarness().own(Q)
    harness.actions.clear()
    assert harness.step(HandoverRequested(PEER, (Q,))) == []


def test_what_was_given_up_with_its_broker_is_wanted_again_when_it_comes_back_in_the_same_plan() -> None:
    harness = MemberHarness().own(Q, Q1)
    harness.disconnect()
    harness.rebalancer.fake_queues = frozenset({Q})
    harness.wait(60_000)
    assert (harness.state(Q), harness.state(Q1)) == (QueueState.UNSURE, QueueState.ABSENT)
    harness.wait(5_000)
    assert harness.state(Q1) is QueueState.ABSENT
    harness.rebalancer.fake_queues = frozenset({Q, Q1})
    harness.connect()
    assert (harness.state(Q), harness.state(Q1)) == (QueueState.UNSURE, QueueState.WANTED)


def test_nothing_is_planned_in_while_leaving() -> None:
    harness = MemberHarness().own(Q)
    harness.pulled(Q, 0)
    harness.step(LeaveRequested(None))
    harness.plan(Q, Q1)
    assert harness.state(Q1) is QueueState.ABSENT
    harness.wait(100_000)
    assert harness.state() is QueueState.DRAINING
    harness.handled(Q, 0)
    harness.confirmed(Q)
    harness.unlocked(Q)
    assert harness.member.has_left


def test_the_time_to_leave_counts_from_the_wish_also_for_what_was_doubted_then() -> None:
    harness = MemberHarness().own(Q)
    harness.pulled(Q, 0, 1)
    harness.handled(Q, 0)
    harness.confirmed(Q)
    harness.disconnect()
    harness.step(LeaveRequested(10_000))
    harness.wait(8_000)
    harness.connect()
    harness.grant(Q)
    harness.offset(Q, 1)
    harness.pulled(Q, 1)
    harness.wait(1_999)
    assert harness.state() is QueueState.DRAINING
    harness.wait(1)
    assert harness.reports()[-1] == "drain-timeout"
    harness.unlocked(Q)
    assert harness.member.has_left


def test_to_be_asked_to_leave_again_can_only_make_it_sooner() -> None:
    harness = MemberHarness().own(Q)
    harness.pulled(Q, 0)
    harness.step(LeaveRequested(10_000))
    harness.step(LeaveRequested(60_000))
    harness.step(LeaveRequested(1_000))
    harness.wait(1_000)
    assert harness.reports()[-1] == "drain-timeout"
    assert harness.state() is QueueState.RELEASING


def test_a_grant_for_a_queue_of_an_earlier_assignment_is_given_back() -> None:
    harness = MemberHarness().own(Q)
    harness.pulled(Q, 0)
    harness.disconnect()
    harness.connect()
    assert harness.emitted(RenewLocks)
    harness.rebalancer.fake_queues = frozenset()
    harness.step(LeaveRequested(0))
    harness.wait(3_000)
    assert harness.member.has_left
    late = MemberHarness()
    late.connect()
    late.plan(Q)
    late.plan()
    assert unlocks(late.step(LocksAnswered("b", {Q: 9}, {}))) == [(Q,)]


def test_ten_thousand_queues_are_taken_and_given_up_in_a_few_requests() -> None:
    harness = MemberHarness()
    harness.connect()
    queues = tuple(Queue("t", "b", number) for number in range(10_000))
    harness.plan(*queues)
    while harness.emitted(LockQueues):
        lock = harness.emitted(LockQueues)[-1]
        harness.actions.clear()
        harness.step(LocksAnswered("b", dict.fromkeys(lock.queues, 1), {}))
    for queue in queues:
        harness.offset(queue)
    assert len(harness.member.assignment()) == 10_000
    assert len(harness.emitted(PullMessages)) == 10_000
    harness.actions.clear()
    harness.plan()
    assert not harness.emitted(Commit)
    assert len(harness.emitted(UnlockQueues)) == 1
