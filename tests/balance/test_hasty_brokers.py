"""A broker that answers pulls at once with nothing, instead of holding them, is not asked without end."""

from tests.balance.stage import Q, Stage

from steelyard.balance.actions import Pull


def test_who_is_told_nothing_again_and_again_at_once_pauses_between_pulls() -> None:
    stage = Stage().own(Q)
    for _ in range(2):
        stage.pulled(Q)
    pulls = len(stage.said(Pull))
    for _ in range(10):
        assert not stage.wait(stage.options.times.pull_empty_ms - 1), "it waits"
        stage.wait(1)
        pulls += 1
        assert len(stage.said(Pull)) == pulls
        stage.pulled(Q)
        assert len(stage.said(Pull)) == pulls


def test_a_broker_that_holds_pulls_or_has_something_is_asked_at_once() -> None:
    stage = Stage().own(Q)
    for _ in range(5):
        pulls = len(stage.said(Pull))
        stage.wait(stage.options.times.pull_empty_ms)
        stage.pulled(Q)
        assert len(stage.said(Pull)) == pulls + 1
    for first in range(0, 10, 2):
        pulls = len(stage.said(Pull))
        stage.pulled(Q, first)
        stage.pulled(Q, next_offset=first + 2)
        assert len(stage.said(Pull)) == pulls + 2, "what a filter leaves out is progress, too"


def test_the_pause_is_over_with_the_first_message() -> None:
    stage = Stage().own(Q)
    for _ in range(2):
        stage.pulled(Q)
    stage.wait(stage.options.times.pull_empty_ms)
    pulls = len(stage.said(Pull))
    stage.pulled(Q, 0)
    assert len(stage.said(Pull)) == pulls + 1
