"""Ways in which commits and cut lines once broke hand-overs, played to one member by hand (and test_scenarios.py)."""

from tests.balance.stage import ME, PEER, Q1, Q, Stage, kinds, unlocks

from steelyard.balance.actions import (
    AskOffset,
    Commit,
    Handle,
    Heartbeat,
    Lock,
    Pull,
    Renew,
    SendBack,
)
from steelyard.balance.events import (
    CommitRefused,
    Handled,
    HoldersFailed,
    LineOpened,
    Tick,
    UptimeSeen,
)
from steelyard.balance.life import State
from steelyard.balance.member_options import Mode

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
    stage = Stage()
    stage.connect()
    stage.plan(Q)
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
        stage.pulled(Q, 2)
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
    stage.pulled(Q, 2)
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
