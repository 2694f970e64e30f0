"""Publish lists and sends for the tests of the producer's rules."""

from collections.abc import Sequence

from hypothesis import strategies as st

from steelyard.balance.producer.broker_latency import LatencyTracker
from steelyard.balance.producer.queue_selection import QueueRotation
from steelyard.model import PublishList, Queue


def listed(**sizes: int) -> PublishList:
    """Make a list of so many queues on each broker."""
    return PublishList("orders", tuple(Queue("orders", name, n) for name, size in sizes.items() for n in range(size)))


def rotation(start: int = 0, tracker: LatencyTracker | None = None, **sizes: int) -> QueueRotation:
    """Make a rotation over so many queues on each broker."""
    return QueueRotation(listed(**sizes), start, tracker)


def brokers_of(queues: Sequence[Queue]) -> str:
    """Return the brokers as one text, for brokers with names of one letter."""
    return "".join(queue.broker for queue in queues)


def traffic_share(tracker: LatencyTracker, broker: str, now_ms: int) -> float:
    """Return the share of its turns that a broker gets; an unknown one gets all."""
    return next((health.share for health in tracker.snapshot(now_ms) if health.broker == broker), 1.0)


@st.composite
def publish_lists(draw: st.DrawFn) -> PublishList:
    """Draw a list: usually broker after broker, sometimes mixed as an administrator may order it."""
    names = draw(st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=5, unique=True))
    queues = [Queue("orders", name, n) for name in sorted(names) for n in range(draw(st.integers(1, 5)))]
    return PublishList("orders", tuple(draw(st.permutations(queues)) if draw(st.booleans()) else queues))
