"""How far a group is behind in a topic, and which topics it reads at all.

The numbers are those of Apache's metrics. A queue in which the group has committed nothing counts for nothing, since
nobody knows yet where it will begin; a message that no filter of the group matches counts like any other.
"""

from collections.abc import Iterable
from typing import NamedTuple

from steelyard.broker.rates import HOUR
from steelyard.broker.state import State
from steelyard.broker.topics import Topic

__all__ = ["Lag", "lag_of", "wanted_topics"]


class Lag(NamedTuple):
    """How far a group is behind in all queues of a topic on this broker."""

    behind: int
    """Messages that it has not committed."""
    behind_ms: int
    """How long ago the oldest of them was stored; 0 if there is none."""
    in_flight: int
    """Messages that it pulled, and has not committed."""
    ready: int
    """Messages that it has not pulled."""
    ready_ms: int
    """How long ago the oldest of them was stored; 0 if there is none."""


def lag_of(state: State, group: str, topic: Topic, now_ms: int) -> Lag:
    """Return how far a group is behind in a topic."""
    store, offsets = state.store, state.offsets
    committed, pulled = offsets.of(group, topic.name), offsets.pulls_of(group, topic.name)
    behind = in_flight = ready = 0
    waiting, unpulled = [], []
    for number in range(topic.read_queues):
        done, got = committed.get(number), pulled.get(number)
        if done is None and got is None:
            continue
        low, high = store.bounds(topic.key, number)
        if done is not None and done < high:
            behind += high - done
            waiting.append((number, max(low, done)))
        if got is not None:
            in_flight += max(0, min(got, high) - (got if done is None else done))
            if got < high:
                ready += high - got
                unpulled.append((number, max(low, got)))
    first_ms, first_unpulled_ms = (store.lookup.first_stored_ms(topic.key, places) for places in (waiting, unpulled))
    return Lag(
        behind,
        0 if first_ms is None else max(0, now_ms - first_ms),
        in_flight,
        ready,
        0 if first_unpulled_ms is None else max(0, now_ms - first_unpulled_ms),
    )


def wanted_topics(state: State, group: str, topics: Iterable[str], now_ms: int) -> list[str]:
    """Return the topics that a group subscribes to or reads otherwise; all of them if nobody of it is there."""
    members = state.members.group(group)
    if members is None or not members.subscriptions:
        return list(topics)
    return [topic for topic in topics if topic in members.subscriptions or _is_read(state, group, topic, now_ms)]


def _is_read(state: State, group: str, topic: str, now_ms: int) -> bool:
    counter = state.rates.of_group(group, topic)
    return counter is not None and counter.within(HOUR, now_ms).messages > 0
