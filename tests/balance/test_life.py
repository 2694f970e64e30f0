"""The table of a queue's life is whole: every row can be done, every state can be reached and left."""

import pytest
from tests.balance.stage import Q, Stage

from steelyard.balance.board import Board
from steelyard.balance.life import HELD, LIFE, WORKED_ON, Seen, State
from steelyard.balance.lives import Lives
from steelyard.balance.record import Record
from steelyard.errors import ImpossibleEvent


def _board() -> Board:
    stage = Stage()
    board = Board(stage.options, stage.member.lines, stage.views, 0)
    Lives(board)
    return board


def test_every_row_names_a_method() -> None:
    assert [row.does for row in LIFE.values() if not callable(getattr(Lives, row.does, None))] == []


def test_every_state_can_be_reached_and_left() -> None:
    reached = {State.ABSENT}
    for _ in State:
        reached |= {after for (before, _), row in LIFE.items() if before in reached for after in row.leads_to}
    assert reached == set(State)
    for state in State:
        assert any(set(row.leads_to) - {state} for (before, _), row in LIFE.items() if before is state)


def test_every_event_has_a_row() -> None:
    assert {seen for _, seen in LIFE} == set(Seen)


def test_a_cut_line_leaves_nothing_that_counts_as_owned() -> None:
    for state in WORKED_ON:
        assert LIFE[state, Seen.LINE_CUT].leads_to == (State.UNSURE,)
        assert LIFE[state, Seen.PROOF_OLD].leads_to == (State.UNSURE,)


def test_a_drain_is_never_undone() -> None:
    given_up = {State.DRAINING, State.COMMITTING, State.RELEASING}
    for (before, _), row in LIFE.items():
        if before in given_up:
            assert State.OWNED not in row.leads_to


def test_only_who_is_starting_or_unsure_becomes_an_owner() -> None:
    sources = {before for (before, _), row in LIFE.items() if State.OWNED in row.leads_to} - {State.OWNED}
    assert sources == {State.STARTING, State.UNSURE}


def test_all_that_is_worked_on_is_told_to_whoever_asks() -> None:
    assert WORKED_ON < HELD


def test_a_pair_that_cannot_be_is_named() -> None:
    board, record = _board(), Record(Q, 1, 0)
    record.state = State.DRAINING
    with pytest.raises(ImpossibleEvent, match="t@b:0 is DRAINING and met NOBODY_HOLDS") as caught:
        board.see(record, Seen.NOBODY_HOLDS)
    assert (caught.value.state, caught.value.event, caught.value.after) == ("DRAINING", "NOBODY_HOLDS", None)


def test_a_row_that_leads_elsewhere_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def go_astray(_lives: Lives, record: Record, _about: object) -> None:
        record.state = State.OWNED

    monkeypatch.setattr(Lives, "stay", go_astray)
    board, record = _board(), Record(Q, 1, 0)
    record.state = State.WANTED
    with pytest.raises(ImpossibleEvent, match="is WANTED and met POKED and became OWNED"):
        board.see(record, Seen.POKED)
