"""Taking a queue on Apache's broker while a member does not answer: if it cannot hold it, and then under a lock."""

from tests.balance.stage import ME, PEER, Q1, Q, Stage, asking, unlocks

from steelyard.balance.actions import AskHolders, Renew
from steelyard.balance.events import GroupSeen, HoldersFailed, HoldersSeen, Poked
from steelyard.balance.life import State
from steelyard.model import Queue

OTHER = "other@sy1"


def _reported_then_silent(*held: Queue) -> Stage:
    """Make a peer that reports, hangs, and does not answer who takes a queue."""
    stage = Stage(ours=False)
    stage.connect()
    stage.step(GroupSeen("b", (ME, PEER), ticket=0))
    stage.step(HoldersSeen("b", PEER, frozenset(held), ticket=0, asked_ms=stage.now_ms))
    stage.wait(1)
    return stage


def _poke(stage: Stage, member: str | None, *queues: Queue) -> None:
    stage.step(Poked(member, queues))
    stage.unlocked(*queues)


def _take_from(stage: Stage) -> Stage:
    asking(stage, PEER)
    stage.step(HoldersFailed("b", PEER, ticket=stage.last_ticket(PEER)))
    return stage


def test_a_silent_peer_that_cannot_hold_a_queue_is_not_waited_for_and_the_lock_is_kept() -> None:
    stage = _take_from(_reported_then_silent(Q1))
    assert stage.state() is State.STARTING
    assert not unlocks(stage.actions)
    assert [renew.queues for renew in stage.said(Renew)] == [(Q,)]
    stage.grant(Q)
    stage.offset(Q)
    assert stage.state() is State.OWNED
    for _ in range(3):
        stage.wait(20_000)
        stage.grant(Q)
    assert len(stage.said(Renew)) == 4
    stage.confirmed(Q)
    stage.plan()
    stage.confirmed(Q)
    assert unlocks(stage.actions) == [(Q,)]


def test_a_lock_that_was_kept_and_ran_out_loses_its_queue() -> None:
    stage = _take_from(_reported_then_silent())
    stage.grant(Q)
    stage.offset(Q)
    stage.wait(20_000)
    stage.deny(Q)
    assert stage.state() is State.ABSENT
    assert stage.reports()[-1] == "lost"


def test_a_silent_peer_is_waited_for_if_it_may_hold_the_queue() -> None:
    held = _reported_then_silent(Q)
    asked = _reported_then_silent()
    _poke(asked, PEER, Q)
    somebody = _reported_then_silent()
    _poke(somebody, None, Q)
    many = _reported_then_silent()
    _poke(many, PEER, *(Queue("u", "b", number) for number in range(200)))
    cut = _reported_then_silent()
    cut.cut()
    unlisted = _reported_then_silent()
    unlisted.step(GroupSeen("b", (PEER,), ticket=0))
    never = Stage(ours=False)
    for stage in (held, asked, somebody, many, cut, unlisted, never):
        assert _take_from(stage).state() is State.ASKING
    other = _reported_then_silent()
    _poke(other, OTHER, Q)
    assert _take_from(other).state() is State.STARTING


def test_a_question_that_overtakes_the_report_before_it_is_not_forgotten() -> None:
    stage = _reported_then_silent()
    asked_ms = stage.now_ms
    stage.wait(1_000)
    _poke(stage, PEER, Q)
    stage.wait(1_000)
    stage.step(HoldersSeen("b", PEER, frozenset(), ticket=0, asked_ms=asked_ms))
    assert _take_from(stage).state() is State.ASKING


def test_a_question_that_overtakes_the_first_report_is_not_forgotten() -> None:
    many = tuple(Queue("u", "b", number) for number in range(200))
    for asked in ((Q,), many):
        for asked_ms, state in ((0, State.ASKING), (1, State.STARTING)):
            stage = Stage(ours=False)
            stage.connect()
            stage.step(GroupSeen("b", (ME, PEER), ticket=0))
            _poke(stage, PEER, *asked)
            asked_ms += stage.now_ms
            stage.wait(1_000)
            stage.step(HoldersSeen("b", PEER, frozenset(), ticket=0, asked_ms=asked_ms))
            assert _take_from(stage).state() is state


def test_a_report_that_was_asked_for_before_we_were_listed_proves_nothing() -> None:
    for asked_ms, state in ((-1, State.ASKING), (0, State.STARTING)):
        stage = Stage(ours=False)
        stage.connect()
        stage.wait(100)
        asked_ms += stage.now_ms
        stage.step(GroupSeen("b", (ME, PEER), ticket=0))
        stage.step(HoldersSeen("b", PEER, frozenset(), ticket=0, asked_ms=asked_ms))
        assert _take_from(stage).state() is state


def test_of_two_reports_that_which_was_asked_for_later_counts() -> None:
    stage = _reported_then_silent()
    asked_ms = stage.now_ms
    stage.wait(10)
    stage.step(HoldersSeen("b", PEER, frozenset({Q}), ticket=0, asked_ms=stage.now_ms))
    stage.step(HoldersSeen("b", PEER, frozenset(), ticket=0, asked_ms=asked_ms))
    assert _take_from(stage).state() is State.ASKING


def _take_with_help(stage: Stage, may_hold: dict[str, tuple[Queue, ...]]) -> Stage:
    """Take a queue of which somebody else knows more than we do."""
    asking(stage, PEER, OTHER)
    tickets = {ask.member: ask.ticket for ask in stage.said(AskHolders)}
    stage.step(HoldersFailed("b", PEER, ticket=tickets[PEER]))
    stage.step(HoldersSeen("b", OTHER, frozenset(), ticket=tickets[OTHER], may_hold=may_hold))
    return stage


def test_who_never_heard_of_a_silent_peer_takes_what_others_know_it_cannot_hold() -> None:
    assert _take_with_help(Stage(ours=False), {}).state() is State.ASKING
    assert _take_with_help(Stage(ours=False), {PEER: (Q,)}).state() is State.ASKING
    stage = _take_with_help(Stage(ours=False), {PEER: ()})
    assert stage.state() is State.STARTING
    assert not unlocks(stage.actions), "a lock that is needed is kept"


def test_what_others_know_counts_for_as_long_as_the_lock_that_it_was_said_under() -> None:
    stage = Stage(ours=False)
    asking(stage, PEER, OTHER)
    tickets = {ask.member: ask.ticket for ask in stage.said(AskHolders)}
    stage.step(HoldersFailed("b", PEER, ticket=tickets[PEER]))
    stage.step(HoldersSeen("b", OTHER, frozenset({Q}), ticket=tickets[OTHER], may_hold={PEER: ()}))
    assert stage.state() is State.ASKING
    stage.wait(200)
    stage.step(GroupSeen("b", (ME, PEER, OTHER), ticket=stage.last_ticket()))
    stage.step(HoldersFailed("b", PEER, ticket=stage.last_ticket(PEER)))
    stage.holds(OTHER)
    assert stage.state() is State.STARTING
    stage.cut()
    stage.connect()
    stage.wait(400)
    assert _take_from(stage).state() is State.ASKING


def test_an_answer_to_who_lost_the_lock_meanwhile_does_not_count() -> None:
    stage = asking(Stage(ours=False), PEER)
    stage.wait(20_000)
    stage.holds(PEER, Q)
    stage.wait(400)
    stage.list_group(ME, PEER)
    before = stage.last_ticket(PEER)
    stage.deny(Q)
    assert stage.state() is State.WANTED
    stage.wait(100)
    stage.grant(Q)
    stage.step(HoldersSeen("b", PEER, frozenset(), ticket=before, may_hold={OTHER: ()}))
    assert stage.state() is State.ASKING, "somebody may have taken it in between"
    stage.list_group(ME, PEER, OTHER)
    stage.step(HoldersFailed("b", OTHER, ticket=stage.last_ticket(OTHER)))
    stage.holds(PEER)
    assert stage.state() is State.ASKING


def test_a_member_tells_who_takes_a_queue_what_others_may_hold() -> None:
    stage = _reported_then_silent(Q)
    holdings = stage.member.holdings(stage.now_ms, (Q, Q1))
    assert holdings.may_hold == {PEER: (Q,)}
    stage.cut()
    assert stage.member.holdings(stage.now_ms, (Q, Q1)).may_hold == {}


def test_a_peer_that_answered_no_is_not_what_a_lock_is_kept_for() -> None:
    stage = asking(_reported_then_silent(), PEER)
    stage.holds(PEER)
    assert unlocks(stage.actions) == [(Q,)]
