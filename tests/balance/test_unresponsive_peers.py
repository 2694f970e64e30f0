"""Taking a queue on Apache's broker while a member does not answer: if it cannot hold it, and then under a lock."""

from steelyard.balance.group.actions import ProbeOwnership, RenewLocks
from steelyard.balance.group.events import (
    HandoverRequested,
    MemberListReceived,
    OwnershipProbeFailed,
    OwnershipReported,
)
from steelyard.balance.group.queue_states import QueueState
from steelyard.model import Queue
from tests.balance.member_harness import ME, PEER, Q1, MemberHarness, Q, probing, unlocks

OTHER = "other@sy1"


def _reported_then_silent(*held: Queue) -> MemberHarness:
    """Make a peer that reports, hangs, and does not answer a member that acquires a queue."""
    harness = MemberHarness(ours=False)
    harness.connect()
    harness.step(MemberListReceived("b", (ME, PEER), request_id=0))
    harness.step(OwnershipReported("b", PEER, frozenset(held), request_id=0, asked_ms=harness.now_ms))
    harness.wait(1)
    return harness


def _poke(harness: MemberHarness, member: str | None, *queues: Queue) -> None:
    harness.step(HandoverRequested(member, queues))
    harness.unlocked(*queues)


def _acquire_from(harness: MemberHarness) -> MemberHarness:
    probing(harness, PEER)
    harness.step(OwnershipProbeFailed("b", PEER, request_id=harness.last_request_id(PEER)))
    return harness


def test_a_silent_peer_that_cannot_hold_a_queue_is_not_waited_for_and_the_lock_is_kept() -> None:
    harness = _acquire_from(_reported_then_silent(Q1))
    assert harness.state() is QueueState.STARTING
    assert not unlocks(harness.actions)
    assert [renew.queues for renew in harness.emitted(RenewLocks)] == [(Q,)]
    harness.grant(Q)
    harness.offset(Q)
    assert harness.state() is QueueState.OWNED
    for _ in range(3):
        harness.wait(20_000)
        harness.grant(Q)
    assert len(harness.emitted(RenewLocks)) == 4
    harness.confirmed(Q)
    harness.plan()
    harness.confirmed(Q)
    assert unlocks(harness.actions) == [(Q,)]


def test_a_lock_that_was_kept_and_ran_out_loses_its_queue() -> None:
    harness = _acquire_from(_reported_then_silent())
    harness.grant(Q)
    harness.offset(Q)
    harness.wait(20_000)
    harness.deny(Q)
    assert harness.state() is QueueState.ABSENT
    assert harness.reports()[-1] == "lost"


def test_a_silent_peer_is_waited_for_if_it_may_hold_the_queue() -> None:
    held = _reported_then_silent(Q)
    asked = _reported_then_silent()
    _poke(asked, PEER, Q)
    somebody = _reported_then_silent()
    _poke(somebody, None, Q)
    many = _reported_then_silent()
    _poke(many, PEER, *(Queue("u", "b", number) for number in range(200)))
    cut = _reported_then_silent()
    cut.disconnect()
    unlisted = _reported_then_silent()
    unlisted.step(MemberListReceived("b", (PEER,), request_id=0))
    never = MemberHarness(ours=False)
    for harness in (held, asked, somebody, many, cut, unlisted, never):
        assert _acquire_from(harness).state() is QueueState.ASKING
    other = _reported_then_silent()
    _poke(other, OTHER, Q)
    assert _acquire_from(other).state() is QueueState.STARTING


def test_a_question_that_overtakes_the_report_before_it_is_not_forgotten() -> None:
    harness = _reported_then_silent()
    asked_ms = harness.now_ms
    harness.wait(1_000)
    _poke(harness, PEER, Q)
    harness.wait(1_000)
    harness.step(OwnershipReported("b", PEER, frozenset(), request_id=0, asked_ms=asked_ms))
    assert _acquire_from(harness).state() is QueueState.ASKING


def test_a_question_that_overtakes_the_first_report_is_not_forgotten() -> None:
    many = tuple(Queue("u", "b", number) for number in range(200))
    for asked in ((Q,), many):
        for asked_ms, state in ((0, QueueState.ASKING), (1, QueueState.STARTING)):
            harness = MemberHarness(ours=False)
            harness.connect()
            harness.step(MemberListReceived("b", (ME, PEER), request_id=0))
            _poke(harness, PEER, *asked)
            asked_ms += harness.now_ms
            harness.wait(1_000)
            harness.step(OwnershipReported("b", PEER, frozenset(), request_id=0, asked_ms=asked_ms))
            assert _acquire_from(harness).state() is state


def test_a_report_that_was_asked_for_before_we_were_listed_proves_nothing() -> None:
    for asked_ms, state in ((-1, QueueState.ASKING), (0, QueueState.STARTING)):
        harness = MemberHarness(ours=False)
        harness.connect()
        harness.wait(100)
        asked_ms += harness.now_ms
        harness.step(MemberListReceived("b", (ME, PEER), request_id=0))
        harness.step(OwnershipReported("b", PEER, frozenset(), request_id=0, asked_ms=asked_ms))
        assert _acquire_from(harness).state() is state


def test_of_two_reports_that_which_was_asked_for_later_counts() -> None:
    harness = _reported_then_silent()
    asked_ms = harness.now_ms
    harness.wait(10)
    harness.step(OwnershipReported("b", PEER, frozenset({Q}), request_id=0, asked_ms=harness.now_ms))
    harness.step(OwnershipReported("b", PEER, frozenset(), request_id=0, asked_ms=asked_ms))
    assert _acquire_from(harness).state() is QueueState.ASKING


def _acquire_with_help(harness: MemberHarness, may_hold: dict[str, tuple[Queue, ...]]) -> MemberHarness:
    """Acquire a queue of which a peer knows more than we do."""
    probing(harness, PEER, OTHER)
    tickets = {ask.member: ask.request_id for ask in harness.emitted(ProbeOwnership)}
    harness.step(OwnershipProbeFailed("b", PEER, request_id=tickets[PEER]))
    harness.step(OwnershipReported("b", OTHER, frozenset(), request_id=tickets[OTHER], may_hold=may_hold))
    return harness


def test_a_member_without_a_report_of_a_silent_peer_takes_what_others_know_it_cannot_hold() -> None:
    assert _acquire_with_help(MemberHarness(ours=False), {}).state() is QueueState.ASKING
    assert _acquire_with_help(MemberHarness(ours=False), {PEER: (Q,)}).state() is QueueState.ASKING
    harness = _acquire_with_help(MemberHarness(ours=False), {PEER: ()})
    assert harness.state() is QueueState.STARTING
    assert not unlocks(harness.actions), "a lock that is needed is kept"


def test_peer_claims_count_for_as_long_as_the_lock_that_they_were_made_under() -> None:
    harness = MemberHarness(ours=False)
    probing(harness, PEER, OTHER)
    tickets = {ask.member: ask.request_id for ask in harness.emitted(ProbeOwnership)}
    harness.step(OwnershipProbeFailed("b", PEER, request_id=tickets[PEER]))
    harness.step(OwnershipReported("b", OTHER, frozenset({Q}), request_id=tickets[OTHER], may_hold={PEER: ()}))
    assert harness.state() is QueueState.ASKING
    harness.wait(200)
    harness.step(MemberListReceived("b", (ME, PEER, OTHER), request_id=harness.last_request_id()))
    harness.step(OwnershipProbeFailed("b", PEER, request_id=harness.last_request_id(PEER)))
    harness.holds(OTHER)
    assert harness.state() is QueueState.STARTING
    harness.disconnect()
    harness.connect()
    harness.wait(400)
    assert _acquire_from(harness).state() is QueueState.ASKING


def test_an_answer_to_who_lost_the_lock_meanwhile_does_not_count() -> None:
    harness = probing(MemberHarness(ours=False), PEER)
    harness.wait(20_000)
    harness.holds(PEER, Q)
    harness.wait(400)
    harness.list_group(ME, PEER)
    before = harness.last_request_id(PEER)
    harness.deny(Q)
    assert harness.state() is QueueState.WANTED
    harness.wait(100)
    harness.grant(Q)
    harness.step(OwnershipReported("b", PEER, frozenset(), request_id=before, may_hold={OTHER: ()}))
    assert harness.state() is QueueState.ASKING, "somebody may have taken it in between"
    harness.list_group(ME, PEER, OTHER)
    harness.step(OwnershipProbeFailed("b", OTHER, request_id=harness.last_request_id(OTHER)))
    harness.holds(PEER)
    assert harness.state() is QueueState.ASKING


def test_a_member_reports_what_others_may_hold_to_one_that_acquires_a_queue() -> None:
    harness = _reported_then_silent(Q)
    claimed = harness.member.claimed_queues(harness.now_ms, (Q, Q1))
    assert claimed.may_hold == {PEER: (Q,)}
    harness.disconnect()
    assert harness.member.claimed_queues(harness.now_ms, (Q, Q1)).may_hold == {}


def test_a_peer_that_answered_no_is_not_what_a_lock_is_kept_for() -> None:
    harness = probing(_reported_then_silent(), PEER)
    harness.holds(PEER)
    assert unlocks(harness.actions) == [(Q,)]
