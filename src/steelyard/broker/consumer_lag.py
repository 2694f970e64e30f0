"""Consumer lag: how far a group is behind in a topic, and which topics it reads.

The numbers are those of Apache's metrics. A queue without a committed offset does not count, since it is unknown where
the group will begin; a message that no filter of the group matches counts like any other.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from steelyard.broker.state import BrokerCoreState
from steelyard.broker.stats import HOUR
from steelyard.broker.topics import BrokerTopic
from steelyard.diagnostics.group import WaitingQueue
from steelyard.model import Queue


class ConsumerLag(NamedTuple):
    """The lag of a group in all queues of a topic on this broker."""

    lag: int
    """Messages that are not committed."""
    lag_ms: int
    """The age of the oldest of them; 0 if there is none."""
    in_flight: int
    """Messages that were pulled and are not committed."""
    ready: int
    """Messages that were not pulled."""
    ready_ms: int
    """The age of the oldest of them; 0 if there is none."""
    stuck_ms: int
    """For how long the queue that is stuck longest has made no progress, though messages wait; 0 if none is."""


def compute_lag(state: BrokerCoreState, group: str, topic: BrokerTopic, now_ms: int) -> ConsumerLag:
    """Return the lag of a group in a topic."""
    store, offsets = state.store, state.offsets
    committed, pulled = offsets.committed_in(group, topic.name), offsets.pulled_in(group, topic.name)
    lag = in_flight = ready = 0
    waiting, unpulled = [], []
    for number in range(topic.read_queues):
        done, got = committed.get(number), pulled.get(number)
        if done is None and got is None:
            continue
        low, high = store.bounds(topic.name_bytes, number)
        if done is not None and done < high:
            lag += high - done
            waiting.append((number, max(low, done)))
        if got is not None:
            in_flight += max(0, min(got, high) - (got if done is None else done))
            if got < high:
                ready += high - got
                unpulled.append((number, max(low, got)))
    first_ms, first_unpulled_ms = (
        store.lookup.first_stored_ms(topic.name_bytes, places) for places in (waiting, unpulled)
    )
    return ConsumerLag(
        lag,
        0 if first_ms is None else max(0, now_ms - first_ms),
        in_flight,
        ready,
        0 if first_unpulled_ms is None else max(0, now_ms - first_unpulled_ms),
        max((now_ms - each.stuck_since_ms for each in waiting_queues(state, group, topic, now_ms, 1_000)), default=0),
    )


def waiting_queues(
    state: BrokerCoreState, group: str, topic: BrokerTopic, now_ms: int, since_ms: int
) -> Iterator[WaitingQueue]:
    """Yield the queues with waiting messages in which a group committed nothing for at least ``since_ms``."""
    members = state.consumers.group(group)
    joined_ms = 0 if members is None else members.changed_ms
    for number, offset in state.offsets.committed_in(group, topic.name).items():
        # A member that joined since has had no longer to do something.
        moved_ms = max(joined_ms, state.offsets.moved_ms(group, topic.name, number) or state.started_ms)
        low, high = state.store.bounds(topic.name_bytes, number)
        if offset < high and now_ms - moved_ms >= since_ms:
            oldest_ms = state.store.lookup.first_stored_ms(topic.name_bytes, [(number, max(low, offset))])
            queue = Queue(topic.name, state.options.name, number)
            yield WaitingQueue(queue, moved_ms, offset, high - offset, oldest_ms)


def topics_read_by(state: BrokerCoreState, group: str, topics: Iterable[str], now_ms: int) -> list[str]:
    """Return the topics that a group subscribes to or has read within the last hour; all if it has no members."""
    members = state.consumers.group(group)
    if members is None or not members.subscriptions:
        return list(topics)
    return [topic for topic in topics if topic in members.subscriptions or _is_read(state, group, topic, now_ms)]


def _is_read(state: BrokerCoreState, group: str, topic: str, now_ms: int) -> bool:
    counter = state.traffic.group_counter(group, topic)
    return counter is not None and counter.totals_within(HOUR, now_ms).messages > 0
