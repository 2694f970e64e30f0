"""A message that cannot be read: it never stops its queue unseen, and is passed only once its dead letter is stored."""

import pytest
from tests.balance.stage import Q, Stage

from steelyard.balance.actions import Commit, Handle, Heartbeat, Pull, Report, SendBack
from steelyard.balance.events import Handled, OffsetReset, SendBackFailed, SentBack, Unreadable
from steelyard.balance.life import State
from steelyard.balance.member_options import Mode, OnUnreadable

_BAD = Unreadable("it is cut off")


def _found(stage: Stage, offset: int, bad: Unreadable = _BAD, *, skipped: tuple[int, ...] = ()) -> None:
    stage.step(Handled(Q, stage.generation(Q), (), skipped=skipped, unreadable={offset: bad}))


def _letters(stage: Stage) -> list[tuple[int, int, str]]:
    return [(back.offset, back.delay_level, back.unreadable) for back in stage.said(SendBack)]


def _answer(stage: Stage, kind: type[SentBack | SendBackFailed], offset: int) -> None:
    stage.step(kind(Q, stage.generation(Q), offset))


def _committed(stage: Stage) -> int | None:
    while True:
        stage.wait(6_000)
        before = len(stage.said(Commit))
        if before:
            stage.confirmed(Q)
        stage.wait(6_000)
        commits = stage.said(Commit)
        if len(commits) == before:
            return commits[-1].offset if commits else None


@pytest.mark.parametrize(
    ("mode", "has_retries"),
    [(Mode.CONCURRENT, True), (Mode.CONCURRENT, False), (Mode.ORDERLY, True), (Mode.BROADCAST, True)],
    ids=["concurrent", "polled", "orderly", "broadcast"],
)
def test_nothing_is_committed_behind_it_before_its_dead_letter_is_stored(mode: Mode, has_retries: bool) -> None:
    stage = Stage(mode=mode, has_retries=has_retries, chunk=1 if mode is Mode.CONCURRENT else 3).own(Q)
    stage.pulled(Q, 0, 1, 2)
    if mode is Mode.CONCURRENT:
        stage.handled(Q, 0, 2)
        _found(stage, 1)
    else:
        stage.step(Handled(Q, stage.generation(Q), (0,), skipped=(2,), unreadable={1: _BAD}))
    assert _letters(stage) == [(1, -1, "it is cut off")]
    assert _committed(stage) == 1
    _answer(stage, SentBack, 1)
    if mode is not Mode.CONCURRENT:
        assert stage.said(Handle)[-1].offsets == (2,)
        stage.handled(Q, 2)
    assert _committed(stage) == 3
    (report,) = [report for report in stage.said(Report) if report.kind == "unreadable"]
    assert report.sentence == "t@b:0, offset 1, cannot be read and goes to the dead letters: it is cut off"


@pytest.mark.parametrize("mode", list(Mode))
def test_a_letter_that_could_not_be_stored_is_sent_again(mode: Mode) -> None:
    stage = Stage(mode=mode).own(Q)
    stage.pulled(Q, 0)
    _found(stage, 0)
    _answer(stage, SendBackFailed, 0)
    stage.wait(5_000)
    assert [handle.offsets for handle in stage.said(Handle)] == [[0], (0,)]
    _found(stage, 0)
    assert len(_letters(stage)) == 2
    assert _committed(stage) != 1
    _answer(stage, SentBack, 0)
    assert _committed(stage) == 1


def test_a_letter_whose_answer_is_lost_is_sent_again_once_the_queue_is_proven() -> None:
    stage = Stage().own(Q)
    stage.pulled(Q, 0)
    _found(stage, 0)
    stage.cut()
    stage.connect()
    stage.grant(Q)
    stage.offset(Q, 0)
    stage.pulled(Q, 0)
    stage.wait(5_000)
    _found(stage, 0)
    assert [offset for offset, _, _ in _letters(stage)] == [0, 0]


def test_what_is_found_while_a_queue_is_unsure_is_sent_once_it_is_proven() -> None:
    stage = Stage().own(Q)
    stage.pulled(Q, 0)
    generation = stage.generation(Q)
    stage.cut()
    assert stage.state() is State.UNSURE
    stage.step(Handled(Q, generation, (), unreadable={0: _BAD}))
    assert _letters(stage) == []
    stage.connect()
    stage.grant(Q)
    stage.offset(Q, 0)
    assert _letters(stage) == [(0, -1, "it is cut off")]


def test_a_queue_that_is_given_up_waits_for_the_letter() -> None:
    stage = Stage().own(Q)
    stage.pulled(Q, 0)
    stage.plan()
    _found(stage, 0)
    assert stage.state() is State.DRAINING
    _answer(stage, SentBack, 0)
    assert stage.state() is State.COMMITTING
    assert stage.said(Commit)[-1].offset == 1


@pytest.mark.parametrize("mode", list(Mode))
def test_what_is_to_be_skipped_is_passed_at_once(mode: Mode) -> None:
    stage = Stage(mode=mode, on_unreadable=OnUnreadable.SKIP).own(Q)
    stage.pulled(Q, 0)
    _found(stage, 0)
    assert _letters(stage) == []
    assert _committed(stage) == 1
    assert "offset 0, cannot be read and is skipped: it is cut off" in stage.said(Report)[-1].sentence


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize(
    ("choice", "bad"),
    [
        (OnUnreadable.STOP, _BAD),
        (OnUnreadable.SKIP, Unreadable("an extra is missing", is_here=True)),
        (OnUnreadable.DEAD_LETTER, Unreadable("an extra is missing", is_here=True)),
    ],
    ids=["stop", "skip, and an extra is missing", "dead-letter, and an extra is missing"],
)
def test_a_queue_that_stands_still_begins_nothing_and_says_so(
    mode: Mode, choice: OnUnreadable, bad: Unreadable
) -> None:
    stage = Stage(mode=mode, on_unreadable=choice, handlers=1).own(Q)
    stage.pulled(Q, 0, 1, 2)
    stage.handled(Q, 0)
    _found(stage, 1, bad)
    begun = len(stage.said(Handle))
    assert _committed(stage) == 1
    assert len(stage.said(Handle)) == begun
    assert not stage.member.may_start(Q, stage.generation(Q), stage.now_ms)
    assert _letters(stage) == []
    (hazard,) = stage.member.hazards()
    assert hazard.sentence == f"t@b:0 stands still at offset 1, which cannot be read: {bad.why}"
    assert stage.member.looks()[0].stopped == (1, bad.why)
    assert stage.said(Heartbeat)[-1].stopped == (hazard.sentence,)
    assert stage.member.holdings(stage.now_ms).stopped == (hazard.sentence,)
    stage.step(OffsetReset(Q, 2))
    assert stage.said(Pull)[-1].offset == 2
    stage.pulled(Q, 2)
    assert stage.said(Handle)[-1].offsets == [2]
    assert stage.member.hazards() == ()
    stage.wait(4_000)
    assert stage.said(Heartbeat)[-1].stopped == ()
