"""Ways in which hand-overs were once broken, played to one member by hand.

Those that need several members, or a broker, have the same names in the simulator.
"""

import pytest
from tests.balance.stage import ME, PEER, Q1, Q, Stage, kinds, unlocks

from steelyard.balance.actions import (
    AskGroup,
    AskHolders,
    AskOffset,
    Commit,
    Handle,
    Heartbeat,
    Left,
    Lock,
    Pull,
    Renew,
    SendBack,
    StartAt,
    Unlock,
    Unregister,
)
from steelyard.balance.events import (
    BeatFailed,
    CommitConfirmed,
    CommitRefused,
    Handled,
    HoldersFailed,
    LeaveAsked,
    LineOpened,
    LockFailed,
    LocksAnswered,
    OffsetSeen,
    Poked,
    Tick,
    UptimeSeen,
)
from steelyard.balance.life import State
from steelyard.balance.member_options import Mode


def _wanting(*, ours: bool) -> Stage:
    stage = Stage(ours=ours)
    stage.connect()
    stage.plan(Q)
    assert [lock.queues for lock in stage.said(Lock)] == [(Q,)]
    return stage


# -- taking -----------------------------------------------------------------------------------------------------------


def test_a_takeover_without_the_lock_meets_a_grant_in_flight() -> None:
    stage = Stage(ours=False)
    stage.connect()
    assert kinds(stage.plan(Q)) == ["Lock"]
    assert not stage.said(AskHolders)
    assert kinds(stage.grant(Q)) == ["AskGroup"]
    assert kinds(stage.list_group(ME, PEER)) == ["AskHolders"]
    assert stage.state() is State.ASKING
    assert sorted(kinds(stage.holds(PEER))) == ["AskOffset", "Unlock"]
    assert stage.state() is State.STARTING


def test_a_lock_that_expires_after_a_bypass_is_not_free() -> None:
    """Who waits for a slow holder keeps its lock alive, and takes nothing under one that may have run out."""
    stage = _wanting(ours=False)
    stage.grant(Q)
    stage.list_group(ME, PEER)
    stage.holds(PEER, Q)
    locks = len(stage.said(Lock))
    for _ in range(60):
        stage.wait(400)
        if stage.said(AskGroup)[-1].ticket == stage.last_ticket():
            stage.list_group(ME, PEER)
        if stage.said(AskHolders)[-1].ticket == stage.last_ticket(PEER):
            stage.holds(PEER, Q)
    assert len(stage.said(Lock)) == locks + 1
    assert stage.state() is State.ASKING
    # Nobody answered that, and the old one is now too old to prove anything.
    stage.wait(12_000)
    stage.list_group(ME, PEER)
    stage.holds(PEER)
    assert stage.state() is State.WANTED


def test_a_crash_nobody_saw_is_taken_at_once() -> None:
    """No lock is kept on Apache's broker while a queue is owned, so that nobody has to wait for one to expire."""
    stage = Stage(ours=False).own(Q)
    assert unlocks(stage.actions) == [(Q,)]
    stage.actions.clear()
    stage.wait(100_000)
    assert not stage.said(Renew)
    assert not stage.said(Lock)


def test_an_unlock_waits_for_the_renewal_before_it() -> None:
    stage = Stage(ours=False, mode=Mode.ORDERLY).own(Q, Q1)
    stage.wait(20_000)
    assert [renew.queues for renew in stage.said(Renew)] == [(Q, Q1)]
    stage.confirmed(Q1)
    stage.plan(Q)
    stage.confirmed(Q1)
    assert stage.state(Q1) is State.RELEASING
    assert not stage.said(Unlock)
    assert unlocks(stage.grant(Q, Q1)) == [(Q1,)]


def test_a_grant_no_longer_wanted_is_unlocked() -> None:
    for ours in (True, False):
        stage = _wanting(ours=ours)
        stage.plan()
        assert stage.state() is State.WANTED
        assert not stage.said(Unlock)
        stage.grant(Q, epoch=17)
        assert stage.state() is State.RELEASING
        (unlock,) = stage.said(Unlock)
        assert unlock.epochs == ((17,) if ours else (None,))
        stage.unlocked(Q)
        assert stage.state() is State.ABSENT


def test_a_lock_of_unknown_outcome_is_unlocked_after_a_cut() -> None:
    stage = _wanting(ours=False)
    stage.plan()
    stage.cut()
    assert stage.state() is State.RELEASING
    assert unlocks(stage.connect()) == [(Q,)]
    assert stage.unlocked(Q) == []
    assert stage.state() is State.ABSENT


def test_a_lock_of_unknown_outcome_is_unlocked_after_a_failure() -> None:
    stage = _wanting(ours=False)
    stage.plan()
    assert unlocks(stage.step(LockFailed("b", (Q,)))) == [(Q,)]


def test_a_late_lock_of_a_dead_line_is_healed_by_a_poke() -> None:
    stage = Stage(ours=False)
    stage.connect()
    stage.plan(Q1)
    stage.grant(Q1)
    assert unlocks(stage.step(Poked(PEER, (Q,)))) == [(Q,)]
    stage.unlocked(Q)
    assert unlocks(stage.step(Poked(PEER, (Q1,)))) == []


def test_a_leaver_with_a_denied_lock_still_leaves() -> None:
    for ours in (True, False):
        stage = _wanting(ours=ours)
        stage.step(LeaveAsked())
        assert not stage.said(Left)
        assert kinds(stage.deny(Q))[-2:] == ["Unregister", "Left"]
        assert stage.member.is_done


def test_a_late_unlock_of_a_dead_line_does_not_free_the_new_lease() -> None:
    stage = Stage(ours=True).own(Q)
    stage.plan()
    assert stage.said(Unlock)[-1].epochs == (1,)
    stage.cut()
    stage.connect()
    assert stage.said(Unlock)[-1].epochs == (1,)
    stage.plan(Q)
    stage.unlocked(Q)
    stage.grant(Q, epoch=2)
    stage.offset(Q)
    stage.plan()
    assert stage.said(Unlock)[-1].epochs == (2,)


def test_a_late_unlock_does_not_free_the_lock_of_a_taker() -> None:
    """On Apache's broker an unlock that is still to be sent is dropped when its queue is taken again."""
    stage = Stage(ours=False)
    stage.connect()
    stage.plan(Q)
    stage.step(Poked(PEER, (Q1,)))
    assert not stage.said(Unlock)
    stage.plan(Q, Q1)
    stage.grant(Q)
    assert not stage.said(Unlock)
    assert stage.said(Lock)[-1].queues == (Q1,)


def test_a_renewal_does_not_acquire() -> None:
    stage = Stage(ours=True).own(Q)
    stage.cut()
    assert stage.state() is State.UNSURE
    stage.connect()
    (renew,) = stage.said(Renew)
    assert (renew.queues, renew.epochs) == ((Q,), (1,))
    assert len(stage.said(Lock)) == 1
    stage.deny(Q)
    assert "lost" in stage.reports()
    assert stage.state() is State.ABSENT


# -- commits ----------------------------------------------------------------------------------------------------------


def test_a_late_commit_of_a_dead_line_is_not_the_last_word() -> None:
    stage = Stage(ours=False).own(Q, offset=7)
    stage.wait(5_000)
    assert [commit.offset for commit in stage.said(Commit)] == [7]
    stage.confirmed(Q)
    stage.wait(5_000)
    assert [commit.offset for commit in stage.said(Commit)] == [7, 7]
    ours = Stage(ours=True).own(Q, offset=7)
    ours.wait(20_000)
    assert not ours.said(Commit)


def test_two_commits_on_one_line_may_swap() -> None:
    stage = Stage().own(Q)
    stage.pulled(Q, 0, 1, 2)
    stage.handled(Q, 0)
    stage.handled(Q, 1)
    stage.wait(2_500)
    assert [commit.offset for commit in stage.said(Commit)] == [1]
    stage.confirmed(Q)
    assert [commit.offset for commit in stage.said(Commit)] == [1, 2]


def test_a_commit_of_an_earlier_life_holds_back_the_next_one() -> None:
    stage = Stage().own(Q)
    stage.pulled(Q, 0, 1)
    stage.handled(Q, 0)
    stage.cut()
    stage.answers_beats = True
    stage.connect()
    stage.deny(Q)
    stage.wait(300)
    stage.grant(Q, epoch=9)
    stage.offset(Q, 4, stored=False)
    assert [commit.epoch for commit in stage.said(Commit)] == [1, 9]


def test_a_pull_never_carries_a_commit() -> None:
    assert not {"commit", "commit_offset"} & set(Pull.__struct_fields__)
    stage = Stage().own(Q)
    stage.pulled(Q, 0)
    stage.handled(Q, 0)
    assert kinds(stage.actions)[-1] == "Commit"


# -- cuts and doubt ---------------------------------------------------------------------------------------------------


def test_a_cut_before_the_first_offset_keeps_no_window() -> None:
    stage = _wanting(ours=True)
    stage.grant(Q)
    assert stage.state() is State.STARTING
    stage.cut()
    assert stage.state() is State.WANTED
    stage.connect()
    stage.grant(Q, epoch=2)
    assert len(stage.said(AskOffset)) == 2
    stage.offset(Q, 30)
    assert stage.said(Pull)[-1].offset == 30


def test_an_overtaken_window_is_dropped_after_a_cut() -> None:
    stage = Stage().own(Q)
    stage.pulled(Q, 0, 1, 2, 3)
    first = stage.generation(Q)
    stage.cut()
    stage.connect()
    stage.grant(Q)
    stage.offset(Q, 3)
    assert stage.state() is State.OWNED
    assert stage.said(Pull)[-1].offset == 3
    assert stage.said(Pull)[-1].generation > first
    stage.actions.clear()
    stage.step(Handled(Q, first, [0, 1, 2, 3]))
    assert stage.reports() == ["stranger"]
    stage.wait(2_000)
    assert not stage.said(Commit)


def test_a_line_blip_moves_nothing() -> None:
    for ours in (True, False):
        stage = Stage(ours=ours).own(Q)
        stage.pulled(Q, 0, 1, 2)
        generation = stage.generation(Q)
        stage.handled(Q, 0)
        stage.cut()
        stage.handled(Q, 1)
        claims = [a for a in stage.step(LineOpened("b")) if isinstance(a, Heartbeat)]
        assert claims[0].held == ({Q: 1} if ours else {})
        stage.step(UptimeSeen("b", 10**9))
        stage.grant(Q)
        if not ours:
            stage.list_group(ME, PEER)
            stage.holds(PEER)
            stage.unlocked(Q)
        stage.offset(Q, 1)
        assert stage.state() is State.OWNED
        stage.handled(Q, 2)
        assert stage.generation(Q) == generation
        assert [handle.offsets[0] for handle in stage.said(Handle)] == [0, 1, 2]
        stage.wait(1_000)
        assert stage.said(Commit)[-1].offset in (2, 3)


def test_an_unsure_owner_gives_way_to_an_asking_peer() -> None:
    denied = Stage(ours=False).own(Q)
    denied.cut()
    denied.connect()
    assert len(denied.said(Lock)) == 2
    denied.deny(Q)
    assert denied.state() is State.ABSENT

    for answer in ((Q,), ()):
        asked = Stage(ours=False).own(Q)
        asked.cut()
        asked.connect()
        asked.grant(Q)
        asked.list_group(ME, PEER)
        asked.holds(PEER, *answer, wanted=(Q,))
        assert asked.state() is State.ABSENT
        assert unlocks(asked.actions)[-1] == (Q,)
        assert asked.views.asked_now == 1


def test_an_unsure_owner_waits_for_a_silent_peer() -> None:
    stage = Stage(ours=False).own(Q)
    stage.cut()
    stage.connect()
    stage.grant(Q)
    stage.list_group(ME, PEER)
    stage.step(HoldersFailed("b", PEER, ticket=stage.last_ticket(PEER)))
    assert stage.state() is State.UNSURE
    stage.wait(100)
    stage.grant(Q)
    stage.list_group(ME)
    stage.offset(Q)
    assert stage.state() is State.OWNED


def test_a_draining_window_never_returns_to_owned() -> None:
    stage = Stage(handlers=1).own(Q)
    stage.pulled(Q, 0, 1, 2)
    stage.plan()
    stage.plan(Q)
    assert stage.state() is State.DRAINING
    stage.cut()
    stage.connect()
    stage.grant(Q)
    stage.offset(Q)
    assert stage.state() is State.DRAINING
    stage.handled(Q, 0)
    assert stage.said(Commit)[-1].offset == 1
    stage.confirmed(Q)
    stage.unlocked(Q)
    assert stage.state() is State.WANTED
    assert [handle.offsets[0] for handle in stage.said(Handle)] == [0]


def test_a_drain_that_somebody_overtook_is_lost() -> None:
    stage = Stage(handlers=1).own(Q)
    stage.pulled(Q, 0, 1, 2)
    stage.plan()
    stage.cut()
    stage.connect()
    stage.grant(Q)
    stage.offset(Q, 2)
    assert stage.state() is State.ABSENT
    assert stage.reports()[-1] == "lost"


def test_a_restarted_broker_gives_everything_to_the_first_caller() -> None:
    """On a young Apache broker only what we had is locked; the rest waits until everybody had time to come back."""
    stage = Stage(ours=False).own(Q)
    stage.cut()
    stage.plan(Q, Q1)
    stage.connect(uptime_ms=100)
    assert [lock.queues for lock in stage.said(Lock)] == [(Q,), (Q,)]
    stage.grant(Q)
    stage.list_group(ME)
    stage.unlocked(Q)
    stage.offset(Q)
    stage.wait(2_000)
    assert len(stage.said(Lock)) == 2
    stage.wait(1_500)
    assert stage.said(Lock)[-1].queues == (Q1,)


def test_a_resumed_process_starts_nothing_before_its_proof() -> None:
    for ours, pause_ms in ((True, 9_000), (False, 90_000)):
        stage = Stage(ours=ours, handlers=1).own(Q)
        stage.pulled(Q, 0, 1, 2)
        assert stage.member.may_start(Q, stage.generation(Q), stage.now_ms)
        stage.answers_beats = False
        stage.now_ms += pause_ms
        assert not stage.member.may_start(Q, stage.generation(Q), stage.now_ms)
        stage.actions.clear()
        stage.step(Handled(Q, 1 if ours else 2, [0]))
        stage.step(Tick())
        assert not stage.said(Handle)
        assert stage.state() is State.UNSURE


def test_a_lock_in_order_is_trusted_for_half_a_minute() -> None:
    stage = Stage(ours=False, mode=Mode.ORDERLY, handlers=1).own(Q)
    stage.pulled(Q, 0, 1)
    stage.now_ms += 30_000
    stage.actions.clear()
    stage.step(Tick())
    assert stage.state() is State.UNSURE
    assert not stage.said(Handle)
    assert [renew.queues for renew in stage.said(Renew)] == [(Q,)]


def test_a_handler_past_the_drain_bound_cannot_commit() -> None:
    stage = Stage().own(Q)
    stage.pulled(Q, 0, 1)
    stage.handled(Q, 1)
    stage.plan()
    stage.wait(29_900)
    assert stage.state() is State.DRAINING
    stage.wait(200)
    assert stage.reports()[-1] == "drain-bound"
    assert stage.state() is State.RELEASING
    assert not stage.said(Commit)
    assert [report for report in stage.reports() if report == "stranger"] == []
    stage.handled(Q, 0)
    assert stage.reports()[-1] == "stranger"
    assert not stage.said(Commit)
    assert not stage.said(SendBack)


def test_a_message_that_fails_after_its_queue_was_lost_is_not_sent_back() -> None:
    stage = Stage().own(Q)
    stage.pulled(Q, 0)
    stage.handled(Q, failed=(0,))
    assert len(stage.said(SendBack)) == 1
    lost = Stage().own(Q)
    lost.pulled(Q, 0, 1)
    lost.handled(Q, 0)
    lost.step(CommitRefused(Q, 1))
    assert lost.state() is State.ABSENT
    lost.handled(Q, failed=(1,))
    assert not lost.said(SendBack)
    assert not [commit for commit in lost.said(Commit) if commit.offset > 1]


# -- the rest ---------------------------------------------------------------------------------------------------------


def test_a_lock_in_a_mixed_group_sends_java_retries_to_the_dead_letters() -> None:
    """Newer brokers of Apache look for a lock under the group's own name: members that need no order use another."""
    stage = Stage(ours=False)
    stage.connect()
    stage.plan(Q)
    assert stage.said(Lock)[0].lock_group == "g%LEASE"
    in_order = Stage(ours=False, mode=Mode.ORDERLY)
    in_order.connect()
    in_order.plan(Q)
    assert in_order.said(Lock)[0].lock_group == "g"


def test_notices_all_lost_a_join_still_takes_a_second() -> None:
    """Who is denied for half a second asks the holder to look at the group."""
    stage = _wanting(ours=True)
    for _ in range(6):
        stage.deny(Q)
        stage.wait(200)
    (poke,) = stage.said(AskHolders)
    assert (poke.member, poke.wanted) == (PEER, (Q,))


def test_queues_added_start_at_their_first_message() -> None:
    stage = Stage()
    stage.views.new = frozenset({Q1})
    stage.connect()
    stage.plan(Q, Q1)
    stage.grant(Q, Q1)
    assert {ask.queue: ask.start.at for ask in stage.said(AskOffset)} == {Q: StartAt.LAST, Q1: StartAt.FIRST}


def test_a_leaver_says_goodbye_after_its_last_unlock_was_answered() -> None:
    stage = Stage().own(Q, Q1)
    stage.pulled(Q, 0)
    asked = stage.step(LeaveAsked())
    assert isinstance(asked[0], Heartbeat)
    assert asked[0].leaving
    assert kinds(asked) == ["Unlock"]
    stage.handled(Q, 0)
    stage.unlocked(Q1)
    assert stage.said(Commit)[-1].offset == 1
    stage.step(CommitConfirmed(Q, 1))
    assert not stage.said(Unregister)
    assert kinds(stage.unlocked(Q)) == ["Unregister", "Left"]
    assert stage.member.due_ms() > 1 << 60
    assert stage.step(Tick()) == []


@pytest.mark.parametrize("drain_ms", [0, 500])
def test_a_leaver_whose_broker_does_not_answer_leaves_all_the_same(drain_ms: int) -> None:
    stage = Stage().own(Q)
    stage.pulled(Q, 0)
    stage.step(LeaveAsked(drain_ms))
    stage.wait(drain_ms + 2_900)
    assert not stage.member.is_done
    stage.wait(200)
    assert stage.member.is_done
    assert kinds(stage.actions)[-2:] == ["Unregister", "Left"]


def test_an_answer_of_an_earlier_life_is_not_believed() -> None:
    """Where to start is asked anew: what was stored may have changed hands in between."""
    stage = Stage(ours=True).own(Q)
    stage.pulled(Q, 0)
    stage.handled(Q, 0)
    stage.answers_beats = False
    stage.wait(9_000)
    assert stage.state() is State.UNSURE
    for _ in range(3):
        stage.step(BeatFailed("b"))
    stage.answers_beats = True
    stage.wait(3_000)
    stage.grant(Q)
    assert len(stage.said(AskOffset)) == 2
    stage.step(CommitRefused(Q, 1))
    assert stage.state() is State.ABSENT
    stage.wait(300)
    stage.step(LocksAnswered("b", {Q: 5}, {}))
    assert stage.state() is State.STARTING
    assert len(stage.said(AskOffset)) == 2
    stage.step(OffsetSeen(Q, 0, stored=True))
    assert stage.state() is State.STARTING
    assert len(stage.said(AskOffset)) == 3
    stage.offset(Q, 8)
    assert stage.said(Pull)[-1].offset == 8
