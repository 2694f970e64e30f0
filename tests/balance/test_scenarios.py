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
    Heartbeat,
    Left,
    Lock,
    Pull,
    Renew,
    StartAt,
    Unlock,
    Unregister,
)
from steelyard.balance.events import (
    BeatFailed,
    CommitConfirmed,
    CommitRefused,
    LeaveAsked,
    LockFailed,
    LocksAnswered,
    OffsetSeen,
    Poked,
    Tick,
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
