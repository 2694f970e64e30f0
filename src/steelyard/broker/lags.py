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
    stored_ms, offsets = state.store.lookup.stored_ms, state.offsets
    behind = in_flight = ready = 0
    oldest_ms = oldest_ready_ms = now_ms
    for number in range(topic.read_queues):
        low, high = state.store.bounds(topic.key, number)
        committed = offsets.get(group, topic.name, number)
        pulled = offsets.pulled(group, topic.name, number)
        if committed is not None and committed < high:
            behind += high - committed
            oldest_ms = min(oldest_ms, stored_ms(topic.key, number, max(low, committed)) or now_ms)
        if pulled is not None:
            in_flight += max(0, min(pulled, high) - (pulled if committed is None else committed))
            if pulled < high:
                ready += high - pulled
                oldest_ready_ms = min(oldest_ready_ms, stored_ms(topic.key, number, max(low, pulled)) or now_ms)
    return Lag(behind, now_ms - oldest_ms, in_flight, ready, now_ms - oldest_ready_ms)


def wanted_topics(state: State, group: str, topics: Iterable[str], now_ms: int) -> list[str]:
    """Return the topics that a group subscribes to or reads otherwise; all of them if nobody of it is there."""
    members = state.members.group(group)
    if members is None or not members.subscriptions:
        return list(topics)
    return [topic for topic in topics if topic in members.subscriptions or _is_read(state, group, topic, now_ms)]


def _is_read(state: State, group: str, topic: str, now_ms: int) -> bool:
    counter = state.rates.of_group(group, topic)
    return counter is not None and counter.within(HOUR, now_ms).messages > 0
