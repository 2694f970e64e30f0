"""A queue that holds too much does not pull, and pulls again when something of it was finished."""

from steelyard.balance.group.actions import PullMessages
from steelyard.balance.group.flow_control import FlowControl
from steelyard.balance.group.inflight_window import InflightWindow
from steelyard.balance.group.options import ConsumeMode, MemberOptions
from steelyard.model import Subscription
from tests.balance.member_harness import Q1, MemberHarness, Q


def _flow_control(
    mode: ConsumeMode = ConsumeMode.CONCURRENT,
    *,
    queue_messages: int = 1_000,
    queue_bytes: int = 100 << 20,
    topic_messages: int | None = None,
    topic_bytes: int | None = None,
) -> FlowControl:
    return FlowControl(
        MemberOptions(
            "g",
            "m@sy1",
            {"t": Subscription("t")},
            mode=mode,
            queue_messages=queue_messages,
            queue_bytes=queue_bytes,
            topic_messages=topic_messages,
            topic_bytes=topic_bytes,
        )
    )


def _window(*offsets: int, body_bytes: int = 0) -> InflightWindow:
    window = InflightWindow(0)
    window.add(offsets, offsets[-1] + 1, body_bytes)
    return window


def test_too_many_messages_hold_a_queue_back() -> None:
    flow = _flow_control(queue_messages=3)
    assert flow.may_pull("t", _window(0, 1, 2))
    assert not flow.may_pull("t", _window(0, 1, 2, 3))


def test_too_many_bytes_hold_a_queue_back() -> None:
    flow = _flow_control(queue_bytes=100)
    assert flow.may_pull("t", _window(0, body_bytes=100))
    assert not flow.may_pull("t", _window(0, body_bytes=101))


def test_too_wide_a_span_holds_a_queue_back_but_where_order_matters() -> None:
    window = _window(0, 2_001)
    assert not _flow_control().may_pull("t", window)
    assert _flow_control(ConsumeMode.ORDERLY).may_pull("t", window)


def test_limits_of_a_topic_are_shared_over_the_queues_owned() -> None:
    flow = _flow_control(topic_messages=10, topic_bytes=1_000)
    flow.set_owned_queues("t", 4)
    assert flow.may_pull("t", _window(0, 1))
    assert not flow.may_pull("t", _window(0, 1, 2))
    assert not flow.may_pull("t", _window(0, body_bytes=251))
    flow.set_owned_queues("t", 1)
    assert flow.may_pull("t", _window(0, 1, 2))
    flow.set_owned_queues("t", 100)
    assert flow.may_pull("t", _window(0))


def test_a_queue_that_was_held_back_pulls_once_something_is_finished() -> None:
    harness = MemberHarness(queue_messages=2).own(Q)
    harness.pulled(Q, 0, 1, 2)
    assert len(harness.emitted(PullMessages)) == 1
    harness.wait(10_000)
    assert len(harness.emitted(PullMessages)) == 1
    harness.handled(Q, 1)
    assert [pull.offset for pull in harness.emitted(PullMessages)] == [0, 3]


def test_a_queue_that_was_held_back_pulls_once_its_topic_has_fewer_owners() -> None:
    harness = MemberHarness(topic_messages=4).own(Q, Q1)
    harness.pulled(Q, 0, 1, 2)
    assert len([pull for pull in harness.emitted(PullMessages) if pull.queue == Q]) == 1
    harness.plan(Q)
    assert len([pull for pull in harness.emitted(PullMessages) if pull.queue == Q]) == 2
