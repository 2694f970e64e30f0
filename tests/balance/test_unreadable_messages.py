"""A message that cannot be read: it never stops its queue unseen, and is passed only once its dead letter is stored."""

import pytest

from steelyard.balance.group.actions import (
    Commit,
    HandleMessages,
    MemberReport,
    PullMessages,
    SendBackMessage,
    SendHeartbeat,
)
from steelyard.balance.group.events import Handled, OffsetReset, SendBackFailed, SentBack, UnreadableMessage
from steelyard.balance.group.options import ConsumeMode, UnreadablePolicy
from steelyard.balance.group.queue_states import QueueState
from tests.balance.member_harness import MemberHarness, Q

_BAD = UnreadableMessage("it is cut off")


def _found(
    harness: MemberHarness, offset: int, bad: UnreadableMessage = _BAD, *, skipped: tuple[int, ...] = ()
) -> None:
    harness.step(Handled(Q, harness.generation(Q), (), skipped=skipped, unreadable={offset: bad}))


def _letters(harness: MemberHarness) -> list[tuple[int, int, str]]:
    return [(back.offset, back.delay_level, back.error) for back in harness.emitted(SendBackMessage)]


def _answer(harness: MemberHarness, kind: type[SentBack | SendBackFailed], offset: int) -> None:
    harness.step(kind(Q, harness.generation(Q), offset))


def _committed(harness: MemberHarness) -> int | None:
    while True:
        harness.wait(6_000)
        before = len(harness.emitted(Commit))
        if before:
            harness.confirmed(Q)
        harness.wait(6_000)
        commits = harness.emitted(Commit)
        if len(commits) == before:
            return commits[-1].offset if commits else None


@pytest.mark.parametrize(
    ("mode", "has_retries"),
    [
        (ConsumeMode.CONCURRENT, True),
        (ConsumeMode.CONCURRENT, False),
        (ConsumeMode.ORDERLY, True),
        (ConsumeMode.BROADCAST, True),
    ],
    ids=["concurrent", "polled", "orderly", "broadcast"],
)
def test_nothing_is_committed_behind_it_before_its_dead_letter_is_stored(mode: ConsumeMode, has_retries: bool) -> None:
    harness = MemberHarness(mode=mode, has_retries=has_retries, chunk=1 if mode is ConsumeMode.CONCURRENT else 3).own(Q)
    harness.pulled(Q, 0, 1, 2)
    if mode is ConsumeMode.CONCURRENT:
        harness.handled(Q, 0, 2)
        _found(harness, 1)
    else:
        harness.step(Handled(Q, harness.generation(Q), (0,), skipped=(2,), unreadable={1: _BAD}))
    assert _letters(harness) == [(1, -1, "it is cut off")]
    assert _committed(harness) == 1
    _answer(harness, SentBack, 1)
    if mode is not ConsumeMode.CONCURRENT:
        assert harness.emitted(HandleMessages)[-1].offsets == (2,)
        harness.handled(Q, 2)
    assert _committed(harness) == 3
    (report,) = [report for report in harness.emitted(MemberReport) if report.kind == "unreadable"]
    assert report.sentence == "t@b:0, offset 1, cannot be read and goes to the dead letters: it is cut off"


@pytest.mark.parametrize("mode", list(ConsumeMode))
def test_a_letter_that_could_not_be_stored_is_sent_again(mode: ConsumeMode) -> None:
    harness = MemberHarness(mode=mode).own(Q)
    harness.pulled(Q, 0)
    _found(harness, 0)
    _answer(harness, SendBackFailed, 0)
    harness.wait(5_000)
    assert [handle.offsets for handle in harness.emitted(HandleMessages)] == [[0], (0,)]
    _found(harness, 0)
    assert len(_letters(harness)) == 2
    assert _committed(harness) != 1
    _answer(harness, SentBack, 0)
    assert _committed(harness) == 1


def test_a_letter_whose_answer_is_lost_is_sent_again_once_the_queue_is_proven() -> None:
    harness = MemberHarness().own(Q)
    harness.pulled(Q, 0)
    _found(harness, 0)
    harness.disconnect()
    harness.connect()
    harness.grant(Q)
    harness.offset(Q, 0)
    harness.pulled(Q, 0)
    harness.wait(5_000)
    _found(harness, 0)
    assert [offset for offset, _, _ in _letters(harness)] == [0, 0]


def test_what_is_found_while_a_queue_is_unsure_is_sent_once_it_is_proven() -> None:
    harness = MemberHarness().own(Q)
    harness.pulled(Q, 0)
    generation = harness.generation(Q)
    harness.disconnect()
    assert harness.state() is QueueState.UNSURE
    harness.step(Handled(Q, generation, (), unreadable={0: _BAD}))
    assert _letters(harness) == []
    harness.connect()
    harness.grant(Q)
    harness.offset(Q, 0)
    assert _letters(harness) == [(0, -1, "it is cut off")]


def test_a_queue_that_is_given_up_waits_for_the_letter() -> None:
    harness = MemberHarness().own(Q)
    harness.pulled(Q, 0)
    harness.plan()
    _found(harness, 0)
    assert harness.state() is QueueState.DRAINING
    _answer(harness, SentBack, 0)
    assert harness.state() is QueueState.COMMITTING
    assert harness.emitted(Commit)[-1].offset == 1


@pytest.mark.parametrize("mode", list(ConsumeMode))
def test_what_is_to_be_skipped_is_passed_at_once(mode: ConsumeMode) -> None:
    harness = MemberHarness(mode=mode, on_unreadable=UnreadablePolicy.SKIP).own(Q)
    harness.pulled(Q, 0)
    _found(harness, 0)
    assert _letters(harness) == []
    assert _committed(harness) == 1
    assert "offset 0, cannot be read and is skipped: it is cut off" in harness.emitted(MemberReport)[-1].sentence


@pytest.mark.parametrize("mode", list(ConsumeMode))
@pytest.mark.parametrize(
    ("choice", "bad"),
    [
        (UnreadablePolicy.STOP, _BAD),
        (UnreadablePolicy.SKIP, UnreadableMessage("an extra is missing", is_local=True)),
        (UnreadablePolicy.DEAD_LETTER, UnreadableMessage("an extra is missing", is_local=True)),
    ],
    ids=["stop", "skip, and an extra is missing", "dead-letter, and an extra is missing"],
)
def test_a_queue_that_stands_still_begins_nothing_and_reports_it(
    mode: ConsumeMode, choice: UnreadablePolicy, bad: UnreadableMessage
) -> None:
    harness = MemberHarness(mode=mode, on_unreadable=choice, handlers=1).own(Q)
    harness.pulled(Q, 0, 1, 2)
    harness.handled(Q, 0)
    _found(harness, 1, bad)
    begun = len(harness.emitted(HandleMessages))
    assert _committed(harness) == 1
    assert len(harness.emitted(HandleMessages)) == begun
    assert not harness.member.may_start(Q, harness.generation(Q), harness.now_ms)
    assert _letters(harness) == []
    (finding,) = harness.member.findings()
    assert finding.message == f"t@b:0 stands still at offset 1, which cannot be read: {bad.why}"
    assert harness.member.queue_statuses()[0].stopped_at == (1, bad.why)
    assert harness.emitted(SendHeartbeat)[-1].stopped_queues == (finding.message,)
    assert harness.member.claimed_queues(harness.now_ms).stopped_queues == (finding.message,)
    harness.step(OffsetReset(Q, 2))
    assert harness.emitted(PullMessages)[-1].offset == 2
    harness.pulled(Q, 2)
    assert harness.emitted(HandleMessages)[-1].offsets == [2]
    assert harness.member.findings() == ()
    harness.wait(4_000)
    assert harness.emitted(SendHeartbeat)[-1].stopped_queues == ()
