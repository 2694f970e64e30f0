"""A member whose handler is a user that polls: messages are lent, nothing is sent back, commits can be asked for."""

from tests.balance.stage import Q1, Q, Stage

from steelyard.balance.actions import Commit, Handle, Pull, SendBack
from steelyard.balance.events import CommitAsked, Handled, Lent, OffsetReset
from steelyard.balance.life import State
from steelyard.balance.member_options import MemberOptions
from steelyard.model import Subscription


def _polled(*, queue_messages: int = 1_000) -> Stage:
    return Stage(has_retries=False, handlers=1 << 30, chunk=32, queue_messages=queue_messages)


def test_who_polls_reads_no_retries() -> None:
    options = MemberOptions("g", "m@sy1", {"t": Subscription("t")}, has_retries=False)
    assert options.all_topics == ("t",)


def test_messages_stay_with_who_polled_them_for_as_long_as_that_takes() -> None:
    stage = _polled().own(Q)
    stage.pulled(Q, 0, 1)
    stage.pulled(Q)
    for _ in range(60):
        stage.wait(60_000)
        stage.pulled(Q)
    assert not stage.said(SendBack)
    assert stage.state() is State.OWNED


def test_what_failed_is_tried_again_here() -> None:
    stage = _polled().own(Q)
    stage.pulled(Q, 0)
    stage.handled(Q, failed=(0,))
    stage.wait(5_000)
    assert [(list(handle.offsets), handle.attempt) for handle in stage.said(Handle)] == [([0], 0), ([0], 1)]
    assert not stage.said(SendBack)


def test_what_is_lent_does_not_hold_up_the_next_pull() -> None:
    stage = _polled(queue_messages=2).own(Q)
    stage.pulled(Q, 0, 1, 2)
    assert len(stage.said(Pull)) == 1
    generation = stage.generation(Q)
    stage.step(Lent(Q, generation - 1, 3))
    assert len(stage.said(Pull)) == 1
    stage.step(Lent(Q, generation, 1))
    assert [pull.offset for pull in stage.said(Pull)] == [0, 3]
    stage.pulled(Q, 3, 4)
    assert len(stage.said(Pull)) == 2
    stage.step(Lent(Q, generation, 5))
    assert len(stage.said(Pull)) == 3
    assert stage.member.progress(Q) == (State.OWNED, generation, 0, 5, 0)


def test_a_commit_that_is_asked_for_does_not_wait_for_its_turn() -> None:
    stage = _polled().own(Q)
    stage.pulled(Q, 0, 1, 2)
    stage.handled(Q, 0)
    assert [commit.offset for commit in stage.said(Commit)] == [1]
    stage.confirmed(Q)
    stage.handled(Q, 1)
    assert len(stage.said(Commit)) == 1
    stage.step(CommitAsked(Q))
    assert [commit.offset for commit in stage.said(Commit)] == [1, 2]
    stage.step(CommitAsked(Q))
    stage.step(CommitAsked(Q1))
    assert len(stage.said(Commit)) == 2


def test_a_queue_that_is_given_away_starts_nothing_more_and_waits_for_what_is_lent() -> None:
    stage = _polled().own(Q)
    stage.pulled(Q, 0, 1, 2)
    generation, changes = stage.generation(Q), stage.member.changes
    assert stage.member.may_start(Q, generation, stage.now_ms)
    stage.plan()
    assert stage.member.changes == changes + 1
    assert not stage.member.may_start(Q, generation, stage.now_ms)
    stage.step(Handled(Q, generation, (), skipped=[1, 2]))
    assert stage.state() is State.DRAINING
    stage.handled(Q, 0)
    assert stage.state() is State.COMMITTING
    assert stage.said(Commit)[-1].offset == 1


def test_what_was_given_back_by_a_stranger_is_no_news() -> None:
    stage = _polled().own(Q)
    stage.pulled(Q, 0, 1)
    generation = stage.generation(Q)
    stage.step(OffsetReset(Q, 7))
    stage.step(Handled(Q, generation, (), skipped=[1]))
    assert "stranger" not in stage.reports()
    stage.step(Handled(Q, generation, [0]))
    assert "stranger" in stage.reports()
