"""How one member takes and keeps queues: batches, pauses, peers, foreign members, brokers that forbid or vanish."""

import itertools

from tests.balance.stage import ME, PEER, Q1, Q, Stage, asking, kinds, unlocks

from steelyard.balance.actions import (
    AskGroup,
    AskHolders,
    AskOffset,
    Commit,
    Heartbeat,
    Lock,
    Pull,
    Renew,
    Report,
    Start,
    StartAt,
    Unlock,
)
from steelyard.balance.events import (
    GroupFailed,
    GroupSeen,
    HoldersFailed,
    HoldersSeen,
    LeaveAsked,
    LockFailed,
    LocksAnswered,
    OffsetFailed,
    Poked,
    UnlockFailed,
)
from steelyard.balance.life import State
from steelyard.balance.member_options import Mode
from steelyard.model import Queue

JAVA = "10.0.0.9@1234"


# -- batches and pauses -----------------------------------------------------------------------------------------------


def test_all_queues_of_a_broker_are_locked_by_one_request() -> None:
    stage = Stage()
    stage.connect("b")
    stage.connect("c")
    queues = [Queue("t", broker, number) for broker in "bc" for number in range(3)]
    stage.plan(*queues)
    assert [(lock.broker, len(lock.queues)) for lock in stage.said(Lock)] == [("b", 3), ("c", 3)]


def test_nothing_is_asked_of_a_broker_that_did_not_answer_a_heartbeat() -> None:
    stage = Stage()
    stage.answers_beats = False
    stage.connect()
    stage.plan(Q)
    assert kinds(stage.actions) == ["AskUptime"]


def test_a_denied_lock_is_tried_again_soon_and_then_less_often() -> None:
    stage = Stage()
    stage.connect()
    stage.plan(Q)
    times = []
    for _ in range(25):
        times.append(stage.now_ms)
        stage.deny(Q, holder="")
        locks = len(stage.said(Lock))
        while len(stage.said(Lock)) == locks:
            stage.wait(1)
    waits = [after - before for before, after in itertools.pairwise(times)]
    assert 40 <= waits[0] <= 60
    assert 80 <= waits[1] <= 120
    assert all(160 <= wait <= 240 for wait in waits[2:9])
    assert all(320 <= wait <= 480 for wait in waits[-5:])


def test_an_offset_that_cannot_be_learnt_is_asked_again() -> None:
    stage = Stage(start=Start(StartAt.TIME, 5))
    stage.connect()
    stage.plan(Q)
    stage.grant(Q)
    stage.step(OffsetFailed(Q))
    stage.wait(300)
    assert [ask.start for ask in stage.said(AskOffset)] == [Start(StartAt.TIME, 5)] * 2
    stage.plan()
    assert stage.state() is State.STARTING
    stage.step(OffsetFailed(Q))
    assert stage.state() is State.RELEASING


def test_a_change_of_what_is_owned_is_told_at_once_and_a_storm_of_them_seldom() -> None:
    stage = Stage()
    stage.connect()
    queues = tuple(Queue("t", "b", number) for number in range(50))
    stage.plan(*queues)
    stage.grant(*queues)
    stage.actions.clear()
    for queue in queues:
        stage.offset(queue)
    assert len(stage.said(Heartbeat)) == 1
    stage.wait(200)
    assert len(stage.said(Heartbeat)) == 2
    assert [len(report.queues) for report in stage.said(Report)] == [1] * 50


# -- asking -----------------------------------------------------------------------------------------------------------


def test_a_peer_that_holds_a_queue_is_asked_until_it_does_not() -> None:
    stage = asking(Stage(ours=False), PEER, "other@sy1")
    assert {ask.member for ask in stage.said(AskHolders)} == {PEER, "other@sy1"}
    stage.holds("other@sy1")
    stage.holds(PEER, Q)
    assert stage.state() is State.ASKING
    stage.actions.clear()
    stage.wait(60)
    stage.list_group(ME, PEER, "other@sy1")
    assert [ask.member for ask in stage.said(AskHolders)] == [PEER]
    stage.holds(PEER)
    assert stage.state() is State.STARTING


def test_a_peer_that_left_the_list_does_not_hold() -> None:
    stage = asking(Stage(ours=False), PEER)
    stage.step(HoldersFailed("b", PEER, gone=True, ticket=stage.last_ticket(PEER)))
    assert stage.state() is State.ASKING
    stage.wait(60)
    stage.list_group(ME)
    assert stage.state() is State.STARTING


def test_four_are_asked_at_a_time() -> None:
    peers = [f"p{number}@sy1" for number in range(10)]
    stage = asking(Stage(ours=False), *peers)
    asked = stage.said(AskHolders)
    assert len(asked) == 4
    for ask in asked:
        stage.step(HoldersSeen("b", ask.member, frozenset(), ticket=ask.ticket))
    assert len(stage.said(AskHolders)) == 8


def test_who_is_not_on_the_list_takes_nothing() -> None:
    stage = Stage(ours=False)
    stage.connect()
    stage.plan(Q)
    stage.grant(Q)
    stage.list_group(PEER)
    assert not stage.said(AskHolders)
    assert stage.state() is State.ASKING
    stage.wait(60)
    stage.step(GroupFailed("b", stage.last_ticket()))
    stage.wait(120)
    stage.list_group(ME)
    assert stage.state() is State.STARTING


def test_a_list_that_was_asked_for_before_the_lock_does_not_count() -> None:
    stage = Stage(ours=False)
    stage.connect()
    stage.plan(Q)
    stage.grant(Q)
    stage.step(GroupSeen("b", (ME,), ticket=0))
    assert stage.state() is State.ASKING
    assert stage.said(AskGroup)[0].ticket % 2 == 1


def test_a_foreign_member_is_waited_for_two_seconds() -> None:
    stage = asking(Stage(ours=False), JAVA)
    for _ in range(30):
        asked = stage.said(AskHolders)
        if asked and asked[-1].ticket == stage.last_ticket(JAVA) and stage.state() is State.ASKING:
            stage.holds(JAVA, Q)
        groups = len(stage.said(AskGroup))
        stage.wait(100)
        if len(stage.said(AskGroup)) > groups:
            stage.list_group(ME, JAVA)
        if stage.state() is not State.ASKING:
            break
    assert stage.state() is State.STARTING
    assert 2_000 <= stage.now_ms - 1_000_000 <= 3_000


def test_towards_foreign_members_a_drain_is_short() -> None:
    stage = Stage(ours=False).own(Q)
    stage.pulled(Q, 0)
    stage.views.foreign = True
    stage.plan()
    stage.wait(1_000)
    assert stage.reports()[-1] == "drain-bound"
    assert stage.state() is State.COMMITTING


def test_a_broker_that_forbids_locks_is_asked_without() -> None:
    stage = Stage(ours=False)
    stage.connect()
    stage.plan(Q)
    stage.step(LockFailed("b", (Q,), forbidden=True))
    assert stage.reports() == ["degraded"]
    stage.wait(60)
    stage.list_group(ME)
    assert stage.state() is State.STARTING
    stage.offset(Q)
    stage.plan(Q, Q1)
    assert stage.reports().count("degraded") == 1
    assert not stage.said(Unlock)


def test_a_lock_of_a_member_that_died_while_taking_is_let_go_in_its_name() -> None:
    stage = Stage(ours=False)
    stage.connect()
    stage.step(GroupSeen("b", (ME, PEER)))
    stage.views.hand_listed = (ME,)
    stage.views.hand_departed = frozenset({PEER})
    stage.plan(Q)
    for _ in range(5):
        stage.deny(Q)
        stage.wait(240)
        if stage.said(Unlock):
            break
    (unlock,) = stage.said(Unlock)
    assert (unlock.owner, unlock.queues) == (PEER, (Q,))
    assert stage.member.holdings(stage.now_ms).departed.keys() == {PEER}


# -- keeping ----------------------------------------------------------------------------------------------------------


def test_where_order_matters_apache_s_lock_is_renewed_each_20_s() -> None:
    stage = Stage(ours=False, mode=Mode.ORDERLY).own(Q)
    for _ in range(3):
        stage.wait(20_000)
        stage.grant(Q)
    assert len(stage.said(Renew)) == 3
    assert stage.state() is State.OWNED
    stage.wait(20_000)
    stage.deny(Q)
    assert stage.state() is State.ABSENT
    assert stage.reports()[-1] == "lost"


def test_our_lease_needs_no_renewal() -> None:
    stage = Stage().own(Q)
    stage.wait(100_000)
    assert not stage.said(Renew)


def test_an_unlock_that_failed_is_tried_again_but_not_while_the_queue_is_taken() -> None:
    stage = Stage(ours=False)
    asking(stage)
    stage.step(UnlockFailed("b", (Q,)))
    stage.offset(Q)
    stage.wait(400)
    assert len(stage.said(Unlock)) == 2


def test_what_is_lost_is_wanted_again_while_the_plan_has_it() -> None:
    stage = Stage().own(Q)
    stage.cut()
    stage.connect()
    stage.deny(Q)
    assert stage.state() is State.ABSENT
    stage.wait(200)
    assert stage.state() is State.WANTED


def test_a_broker_that_left_the_routes_is_given_up_after_a_minute() -> None:
    stage = Stage().own(Q)
    stage.cut()
    stage.wait(70_000)
    assert stage.state() is State.UNSURE
    stage.views.hand_queues = frozenset()
    stage.wait(60_000)
    assert stage.state() is State.ABSENT


def test_holdings_tell_what_is_held_given_up_and_being_taken() -> None:
    stage = Stage(ours=False).own(Q)
    stage.pulled(Q, 0)
    stage.plan(Q1)
    assert stage.member.holdings(stage.now_ms).wanted == ()
    stage.grant(Q1)
    holdings = stage.member.holdings(stage.now_ms)
    assert (holdings.held, holdings.draining, holdings.wanted) == ((Q,), (Q,), (Q1,))
    assert stage.member.assignment() == ()
    assert stage.views.restless


def test_a_poke_for_what_is_held_changes_nothing() -> None:
    stage = Stage().own(Q)
    stage.actions.clear()
    assert stage.step(Poked(PEER, (Q,))) == []


def test_what_was_given_up_with_its_broker_is_wanted_again_when_it_comes_back_in_the_same_plan() -> None:
    stage = Stage().own(Q, Q1)
    stage.cut()
    stage.views.hand_queues = frozenset({Q})
    stage.wait(60_000)
    assert (stage.state(Q), stage.state(Q1)) == (State.UNSURE, State.ABSENT)
    stage.wait(5_000)
    assert stage.state(Q1) is State.ABSENT
    stage.views.hand_queues = frozenset({Q, Q1})
    stage.connect()
    assert (stage.state(Q), stage.state(Q1)) == (State.UNSURE, State.WANTED)


def test_nothing_is_planned_in_while_leaving() -> None:
    stage = Stage().own(Q)
    stage.pulled(Q, 0)
    stage.step(LeaveAsked(None))
    stage.plan(Q, Q1)
    assert stage.state(Q1) is State.ABSENT
    stage.wait(100_000)
    assert stage.state() is State.DRAINING
    stage.handled(Q, 0)
    stage.confirmed(Q)
    stage.unlocked(Q)
    assert stage.member.is_done


def test_the_time_to_leave_counts_from_the_wish_also_for_what_was_doubted_then() -> None:
    stage = Stage().own(Q)
    stage.pulled(Q, 0, 1)
    stage.handled(Q, 0)
    stage.confirmed(Q)
    stage.cut()
    stage.step(LeaveAsked(10_000))
    stage.wait(8_000)
    stage.connect()
    stage.grant(Q)
    stage.offset(Q, 1)
    stage.pulled(Q, 1)
    stage.wait(1_999)
    assert stage.state() is State.DRAINING
    stage.wait(1)
    assert stage.reports()[-1] == "drain-bound"
    stage.unlocked(Q)
    assert stage.member.is_done


def test_to_be_asked_to_leave_again_can_only_make_it_sooner() -> None:
    stage = Stage().own(Q)
    stage.pulled(Q, 0)
    stage.step(LeaveAsked(10_000))
    stage.step(LeaveAsked(60_000))
    stage.step(LeaveAsked(1_000))
    stage.wait(1_000)
    assert stage.reports()[-1] == "drain-bound"
    assert stage.state() is State.RELEASING


def test_a_grant_for_a_queue_of_an_earlier_life_is_given_back() -> None:
    stage = Stage().own(Q)
    stage.pulled(Q, 0)
    stage.cut()
    stage.connect()
    assert stage.said(Renew)
    stage.views.hand_queues = frozenset()
    stage.step(LeaveAsked(0))
    stage.wait(3_000)
    assert stage.member.is_done
    late = Stage()
    late.connect()
    late.plan(Q)
    late.plan()
    assert unlocks(late.step(LocksAnswered("b", {Q: 9}, {}))) == [(Q,)]


def test_ten_thousand_queues_are_taken_and_given_up_in_a_few_requests() -> None:
    stage = Stage()
    stage.connect()
    queues = tuple(Queue("t", "b", number) for number in range(10_000))
    stage.plan(*queues)
    while stage.said(Lock):
        lock = stage.said(Lock)[-1]
        stage.actions.clear()
        stage.step(LocksAnswered("b", dict.fromkeys(lock.queues, 1), {}))
    for queue in queues:
        stage.offset(queue)
    assert len(stage.member.assignment()) == 10_000
    assert len(stage.said(Pull)) == 10_000
    stage.actions.clear()
    stage.plan()
    assert not stage.said(Commit)
    assert len(stage.said(Unlock)) == 1
