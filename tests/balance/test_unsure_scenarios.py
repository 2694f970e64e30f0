"""Ways in which commits and lost connections once broke handovers, played to one member by hand."""

from steelyard.balance.group.actions import (
    Commit,
    HandleMessages,
    LockQueues,
    PullMessages,
    QueryStartOffset,
    RenewLocks,
    SendBackMessage,
    SendHeartbeat,
)
from steelyard.balance.group.events import (
    CommitRefused,
    ConnectionOpened,
    Handled,
    OwnershipProbeFailed,
    Tick,
    UptimeReceived,
)
from steelyard.balance.group.options import ConsumeMode
from steelyard.balance.group.queue_states import QueueState
from tests.balance.member_harness import ME, PEER, Q1, MemberHarness, Q, kinds, unlocks

# -- commits ----------------------------------------------------------------------------------------------------------


def test_a_late_commit_of_a_dead_connection_is_not_the_last_word() -> None:
    harness = MemberHarness(ours=False).own(Q, offset=7)
    harness.wait(5_000)
    assert [commit.offset for commit in harness.emitted(Commit)] == [7]
    harness.confirmed(Q)
    harness.wait(5_000)
    assert [commit.offset for commit in harness.emitted(Commit)] == [7, 7]
    ours = MemberHarness(ours=True).own(Q, offset=7)
    ours.wait(20_000)
    assert not ours.emitted(Commit)


def test_two_commits_on_one_connection_may_swap() -> None:
    harness = MemberHarness().own(Q)
    harness.pulled(Q, 0, 1, 2)
    harness.handled(Q, 0)
    harness.handled(Q, 1)
    harness.wait(2_500)
    assert [commit.offset for commit in harness.emitted(Commit)] == [1]
    harness.confirmed(Q)
    assert [commit.offset for commit in harness.emitted(Commit)] == [1, 2]


def test_a_commit_of_an_earlier_assignment_holds_back_the_next_one() -> None:
    harness = MemberHarness().own(Q)
    harness.pulled(Q, 0, 1)
    harness.handled(Q, 0)
    harness.disconnect()
    harness.answers_heartbeats = True
    harness.connect()
    harness.deny(Q)
    harness.wait(300)
    harness.grant(Q, epoch=9)
    harness.offset(Q, 4, stored=False)
    assert [commit.epoch for commit in harness.emitted(Commit)] == [1, 9]


def test_a_pull_never_carries_a_commit() -> None:
    assert not {"commit", "commit_offset"} & set(PullMessages.__struct_fields__)
    harness = MemberHarness().own(Q)
    harness.pulled(Q, 0)
    harness.handled(Q, 0)
    assert kinds(harness.actions)[-1] == "Commit"


# -- cuts and doubt ---------------------------------------------------------------------------------------------------


def test_a_lost_connection_before_the_first_offset_keeps_no_window() -> None:
    harness = MemberHarness()
    harness.connect()
    harness.plan(Q)
    harness.grant(Q)
    assert harness.state() is QueueState.STARTING
    harness.disconnect()
    assert harness.state() is QueueState.WANTED
    harness.connect()
    harness.grant(Q, epoch=2)
    assert len(harness.emitted(QueryStartOffset)) == 2
    harness.offset(Q, 30)
    assert harness.emitted(PullMessages)[-1].offset == 30


def test_an_overtaken_window_is_dropped_after_a_lost_connection() -> None:
    harness = MemberHarness().own(Q)
    harness.pulled(Q, 0, 1, 2, 3)
    first = harness.generation(Q)
    harness.disconnect()
    harness.connect()
    harness.grant(Q)
    harness.offset(Q, 3)
    assert harness.state() is QueueState.OWNED
    assert harness.emitted(PullMessages)[-1].offset == 3
    assert harness.emitted(PullMessages)[-1].generation > first
    harness.actions.clear()
    harness.step(Handled(Q, first, [0, 1, 2, 3]))
    assert harness.reports() == ["late-result"]
    harness.wait(2_000)
    assert not harness.emitted(Commit)


def test_a_connection_blip_moves_nothing() -> None:
    for ours in (True, False):
        harness = MemberHarness(ours=ours).own(Q)
        harness.pulled(Q, 0, 1, 2)
        generation = harness.generation(Q)
        harness.handled(Q, 0)
        harness.disconnect()
        harness.handled(Q, 1)
        claims = [a for a in harness.step(ConnectionOpened("b")) if isinstance(a, SendHeartbeat)]
        assert claims[0].held == ({Q: 1} if ours else {})
        harness.step(UptimeReceived("b", 10**9))
        harness.grant(Q)
        if not ours:
            harness.list_group(ME, PEER)
            harness.holds(PEER)
            harness.unlocked(Q)
        harness.offset(Q, 1)
        assert harness.state() is QueueState.OWNED
        harness.pulled(Q, 2)
        harness.handled(Q, 2)
        assert harness.generation(Q) == generation
        assert [handle.offsets[0] for handle in harness.emitted(HandleMessages)] == [0, 1, 2]
        harness.wait(1_000)
        assert harness.emitted(Commit)[-1].offset in (2, 3)


def test_an_unsure_owner_gives_way_to_an_asking_peer() -> None:
    denied = MemberHarness(ours=False).own(Q)
    denied.disconnect()
    denied.connect()
    assert len(denied.emitted(LockQueues)) == 2
    denied.deny(Q)
    assert denied.state() is QueueState.ABSENT

    for answer in ((Q,), ()):
        asked = MemberHarness(ours=False).own(Q)
        asked.disconnect()
        asked.connect()
        asked.grant(Q)
        asked.list_group(ME, PEER)
        asked.holds(PEER, *answer, wanted=(Q,))
        assert asked.state() is QueueState.ABSENT
        assert unlocks(asked.actions)[-1] == (Q,)
        assert asked.rebalancer.rebalances_requested == 1


def test_an_unsure_owner_waits_for_a_silent_peer() -> None:
    harness = MemberHarness(ours=False).own(Q)
    harness.disconnect()
    harness.connect()
    harness.grant(Q)
    harness.list_group(ME, PEER)
    harness.step(OwnershipProbeFailed("b", PEER, request_id=harness.last_request_id(PEER)))
    assert harness.state() is QueueState.UNSURE
    harness.wait(100)
    harness.grant(Q)
    harness.list_group(ME)
    harness.offset(Q)
    assert harness.state() is QueueState.OWNED


def test_a_draining_window_never_returns_to_owned() -> None:
    harness = MemberHarness(handlers=1).own(Q)
    harness.pulled(Q, 0, 1, 2)
    harness.plan()
    harness.plan(Q)
    assert harness.state() is QueueState.DRAINING
    harness.disconnect()
    harness.connect()
    harness.grant(Q)
    harness.offset(Q)
    assert harness.state() is QueueState.DRAINING
    harness.pulled(Q, 2)
    harness.handled(Q, 0)
    assert harness.emitted(Commit)[-1].offset == 1
    harness.confirmed(Q)
    harness.unlocked(Q)
    assert harness.state() is QueueState.WANTED
    assert [handle.offsets[0] for handle in harness.emitted(HandleMessages)] == [0]


def test_a_drain_that_another_member_overtook_is_lost() -> None:
    harness = MemberHarness(handlers=1).own(Q)
    harness.pulled(Q, 0, 1, 2)
    harness.plan()
    harness.disconnect()
    harness.connect()
    harness.grant(Q)
    harness.offset(Q, 2)
    assert harness.state() is QueueState.ABSENT
    assert harness.reports()[-1] == "lost"


def test_a_restarted_broker_gives_everything_to_the_first_client() -> None:
    """On a young Apache broker only what we had is locked; the rest waits until all had time to come back."""
    harness = MemberHarness(ours=False).own(Q)
    harness.disconnect()
    harness.plan(Q, Q1)
    harness.connect(uptime_ms=100)
    assert [lock.queues for lock in harness.emitted(LockQueues)] == [(Q,), (Q,)]
    harness.grant(Q)
    harness.list_group(ME)
    harness.unlocked(Q)
    harness.offset(Q)
    harness.wait(2_000)
    assert len(harness.emitted(LockQueues)) == 2
    harness.wait(1_500)
    assert harness.emitted(LockQueues)[-1].queues == (Q1,)


def test_a_resumed_process_starts_nothing_before_its_proof() -> None:
    for ours, pause_ms in ((True, 9_000), (False, 90_000)):
        harness = MemberHarness(ours=ours, handlers=1).own(Q)
        harness.pulled(Q, 0, 1, 2)
        assert harness.member.may_start(Q, harness.generation(Q), harness.now_ms)
        harness.answers_heartbeats = False
        harness.now_ms += pause_ms
        assert not harness.member.may_start(Q, harness.generation(Q), harness.now_ms)
        harness.actions.clear()
        harness.step(Handled(Q, 1 if ours else 2, [0]))
        harness.step(Tick())
        assert not harness.emitted(HandleMessages)
        assert harness.state() is QueueState.UNSURE


def test_a_lock_in_order_is_trusted_for_half_a_minute() -> None:
    harness = MemberHarness(ours=False, mode=ConsumeMode.ORDERLY, handlers=1).own(Q)
    harness.pulled(Q, 0, 1)
    harness.now_ms += 30_000
    harness.actions.clear()
    harness.step(Tick())
    assert harness.state() is QueueState.UNSURE
    assert not harness.emitted(HandleMessages)
    assert [renew.queues for renew in harness.emitted(RenewLocks)] == [(Q,)]


def test_a_handler_past_the_drain_timeout_cannot_commit() -> None:
    harness = MemberHarness().own(Q)
    harness.pulled(Q, 0, 1)
    harness.handled(Q, 1)
    harness.plan()
    harness.wait(29_900)
    assert harness.state() is QueueState.DRAINING
    harness.wait(200)
    assert harness.reports()[-1] == "drain-timeout"
    assert harness.state() is QueueState.RELEASING
    assert not harness.emitted(Commit)
    assert [report for report in harness.reports() if report == "late-result"] == []
    harness.handled(Q, 0)
    assert harness.reports()[-1] == "late-result"
    assert not harness.emitted(Commit)
    assert not harness.emitted(SendBackMessage)


def test_a_message_that_fails_after_its_queue_was_lost_is_not_sent_back() -> None:
    harness = MemberHarness().own(Q)
    harness.pulled(Q, 0)
    harness.handled(Q, failed=(0,))
    assert len(harness.emitted(SendBackMessage)) == 1
    lost = MemberHarness().own(Q)
    lost.pulled(Q, 0, 1)
    lost.handled(Q, 0)
    lost.step(CommitRefused(Q, 1))
    assert lost.state() is QueueState.ABSENT
    lost.handled(Q, failed=(1,))
    assert not lost.emitted(SendBackMessage)
    assert not [commit for commit in lost.emitted(Commit) if commit.offset > 1]
