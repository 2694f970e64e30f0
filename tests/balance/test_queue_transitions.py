"""The table of transitions is complete: every state can be reached and left, and a wrong row is named."""

import pytest

from steelyard.balance.group import queue_transitions
from steelyard.balance.group.context import MemberContext
from steelyard.balance.group.process_queue import ProcessQueue
from steelyard.balance.group.queue_states import ACTIVE_STATES, HELD_STATES, QueueEvent, QueueState
from steelyard.balance.group.queue_transitions import TRANSITIONS, QueueTransitions
from steelyard.errors import ImpossibleEvent
from tests.balance.member_harness import MemberHarness, Q


def _transitions() -> QueueTransitions:
    harness = MemberHarness()
    return QueueTransitions(MemberContext(harness.options, harness.member.sessions, harness.rebalancer, 0))


def test_every_state_can_be_reached_and_left() -> None:
    reached = {QueueState.ABSENT}
    for _ in QueueState:
        reached |= {after for (before, _), row in TRANSITIONS.items() if before in reached for after in row.targets}
    assert reached == set(QueueState)
    for state in QueueState:
        assert any(set(row.targets) - {state} for (before, _), row in TRANSITIONS.items() if before is state)


def test_every_event_has_a_row() -> None:
    assert {seen for _, seen in TRANSITIONS} == set(QueueEvent)


def test_a_lost_connection_leaves_nothing_that_counts_as_owned() -> None:
    for state in ACTIVE_STATES:
        assert TRANSITIONS[state, QueueEvent.CONNECTION_LOST].targets == (QueueState.UNSURE,)
        assert TRANSITIONS[state, QueueEvent.PROOF_EXPIRED].targets == (QueueState.UNSURE,)


def test_a_drain_is_never_undone() -> None:
    given_up = {QueueState.DRAINING, QueueState.COMMITTING, QueueState.RELEASING}
    for (before, _), row in TRANSITIONS.items():
        if before in given_up:
            assert QueueState.OWNED not in row.targets


def test_only_who_is_starting_or_unsure_becomes_an_owner() -> None:
    sources = {before for (before, _), row in TRANSITIONS.items() if QueueState.OWNED in row.targets} - {
        QueueState.OWNED
    }
    assert sources == {QueueState.STARTING, QueueState.UNSURE}


def test_all_that_is_active_is_reported_to_peers() -> None:
    assert ACTIVE_STATES < HELD_STATES


def test_a_pair_that_cannot_be_is_named() -> None:
    transitions, process_queue = _transitions(), ProcessQueue(Q, 1, 0)
    process_queue.state = QueueState.DRAINING
    with pytest.raises(ImpossibleEvent, match="t@b:0 is DRAINING and met NO_PEER_HOLDS") as caught:
        transitions.apply(process_queue, QueueEvent.NO_PEER_HOLDS)
    assert (caught.value.state, caught.value.event, caught.value.after) == ("DRAINING", "NO_PEER_HOLDS", None)


def test_a_row_that_leads_elsewhere_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def go_astray(_transitions: QueueTransitions, process_queue: ProcessQueue, _payload: object) -> None:
        process_queue.state = QueueState.OWNED

    pair = QueueState.WANTED, QueueEvent.HANDOVER_REQUESTED
    rows = {**TRANSITIONS, pair: TRANSITIONS[pair]._replace(apply=go_astray)}
    monkeypatch.setattr(queue_transitions, "TRANSITIONS", rows)
    transitions, process_queue = _transitions(), ProcessQueue(Q, 1, 0)
    process_queue.state = QueueState.WANTED
    with pytest.raises(ImpossibleEvent, match="is WANTED and met HANDOVER_REQUESTED and became OWNED"):
        transitions.apply(process_queue, QueueEvent.HANDOVER_REQUESTED)
