"""A broker that answers pulls at once with nothing, instead of holding them, is not asked without end."""

from steelyard.balance.group.actions import PullMessages
from tests.balance.member_harness import MemberHarness, Q


def test_a_queue_with_quick_empty_pulls_pauses_between_them() -> None:
    harness = MemberHarness().own(Q)
    for _ in range(2):
        harness.pulled(Q)
    pulls = len(harness.emitted(PullMessages))
    for _ in range(10):
        assert not harness.wait(harness.options.times.pull_empty_ms - 1), "it waits"
        harness.wait(1)
        pulls += 1
        assert len(harness.emitted(PullMessages)) == pulls
        harness.pulled(Q)
        assert len(harness.emitted(PullMessages)) == pulls


def test_a_broker_that_holds_pulls_or_has_something_is_asked_at_once() -> None:
    harness = MemberHarness().own(Q)
    for _ in range(5):
        pulls = len(harness.emitted(PullMessages))
        harness.wait(harness.options.times.pull_empty_ms)
        harness.pulled(Q)
        assert len(harness.emitted(PullMessages)) == pulls + 1
    for first in range(0, 10, 2):
        pulls = len(harness.emitted(PullMessages))
        harness.pulled(Q, first)
        harness.pulled(Q, next_offset=first + 2)
        assert len(harness.emitted(PullMessages)) == pulls + 2, "what a filter leaves out is progress, too"


def test_the_pause_is_over_with_the_first_message() -> None:
    harness = MemberHarness().own(Q)
    for _ in range(2):
        harness.pulled(Q)
    harness.wait(harness.options.times.pull_empty_ms)
    pulls = len(harness.emitted(PullMessages))
    harness.pulled(Q, 0)
    assert len(harness.emitted(PullMessages)) == pulls + 1
