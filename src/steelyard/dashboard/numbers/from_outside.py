"""A cluster in numbers, seen from outside: whatever an administrator may ask, of our brokers or of Apache's.

The families have the names that brokers themselves use. A label that nobody tells is empty, which for Prometheus is the
same as not there; a number that nobody tells is missing. Messages that came in are counted by the ends of queues, for
topics that some group reads; messages that went out for whole brokers; how long messages waited is not told. Members
are counted once, and not once for each broker that they have a line to.

Nothing here hangs: what is not answered in time is left out, and counted.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

from steelyard.client.admin.admin import Admin
from steelyard.client.admin.asking import together
from steelyard.client.admin.brokers import BrokerState, GroupLag
from steelyard.client.admin.cluster import Broker
from steelyard.errors import SteelyardError
from steelyard.model import own_measures as own
from steelyard.model import rocketmq_measures as rocketmq
from steelyard.model.measures import Family, Node, Row, joined
from steelyard.model.names import DEAD, RETRY, is_system_group, is_system_topic

__all__ = ["measure_from_outside"]

_PART_S = 4.0
"""How long a part of the look may take: who scrapes waits for ten seconds at most, unless told otherwise."""
_MOST_ROWS = 20_000
"""Pairs of group and topic that are told, of one broker."""
_MOST_GROUPS = 1_000
"""Groups whose members are counted: each takes questions of its own."""

T = TypeVar("T")


class _Seen(NamedTuple):
    """What one broker told."""

    broker: Broker
    state: BrokerState | None
    lags: list[GroupLag] | None


async def measure_from_outside(admin: Admin) -> list[Family]:
    """Return what a cluster lets be seen; an error if not even its name servers answer."""
    brokers, topics, groups = await asyncio.gather(
        admin.cluster(), _in_time(admin.topics(system=True)), _in_time(_members(admin))
    )
    seen = await together(lambda broker: _look(admin, broker), brokers)
    cluster = Node(brokers[0].cluster if brokers else "", "", "")
    found = [family for each in seen for family in _of_broker(each)]
    on_each = Counter(broker for topic in topics or () for broker in topic.brokers)
    if topics is not None:
        found += [_node(each).tell(rocketmq.TOPICS, [((), on_each[each.name])]) for each in brokers]
    found.append(cluster.tell(rocketmq.CONSUMERS, groups or ()))
    unanswered = [topics, groups, *(part for each in seen if each.broker.problem is None for part in each[1:])].count(
        None
    )
    found.append(cluster.tell(own.UNANSWERED, [((), unanswered)]))
    return joined(found)


async def _in_time(work: Awaitable[T]) -> T | None:
    """Return an answer, or None if there is none in time."""
    try:
        async with asyncio.timeout(_PART_S):
            return await work
    except (TimeoutError, SteelyardError):
        return None


async def _look(admin: Admin, broker: Broker) -> _Seen:
    if broker.problem is not None:
        return _Seen(broker, None, None)
    told = await asyncio.gather(_in_time(admin.broker(broker.name)), _in_time(admin.broker_lag(broker.name)))
    return _Seen(broker, *told)


async def _members(admin: Admin) -> list[Row] | None:
    if len(await admin.group_names()) > _MOST_GROUPS:
        return None
    return [
        ((each.name, "", "", "remoting", each.kind or "", _word(is_system_group(each.name))), each.members)
        for each in await admin.groups()
        if each.members
    ]


def _node(broker: Broker) -> Node:
    return Node(broker.cluster, "broker", broker.name)


def _of_broker(seen: _Seen) -> Iterator[Family]:
    node = _node(seen.broker)
    yield node.tell(own.REACHED, [((), int(seen.broker.problem is None))])
    if seen.state is not None:
        yield from _state(node, seen.state)
    if seen.lags is not None:
        yield from _lags(node, seen.lags)


def _state(node: Node, state: BrokerState) -> Iterator[Family]:
    local = ("local", "disk")
    delivered = state.told.get("msgGetTotalTodayNow", "")
    if delivered.isdecimal():
        yield node.tell(rocketmq.MESSAGES_OUT, [(("", "", ""), int(delivered))])
    if state.index_behind_bytes is not None:
        yield node.tell(rocketmq.DISPATCH_BEHIND, [(local, state.index_behind_bytes)])
    if state.oldest_at is not None:
        kept_ms = (datetime.now(UTC) - state.oldest_at).total_seconds() * 1_000
        yield node.tell(rocketmq.RESERVED_TIME, [(local, max(0, round(kept_ms)))])
    if state.started_at is not None:
        yield node.tell(own.STARTED, [((state.version or "",), state.started_at.timestamp())])


def _lags(node: Node, lags: Iterable[GroupLag]) -> Iterator[Family]:
    pairs: dict[tuple[str, str], list[GroupLag]] = defaultdict(list)
    ends: dict[str, dict[int, int]] = defaultdict(dict)
    for lag in lags:
        pairs[lag.group, lag.queue.topic].append(lag)
        ends[lag.queue.topic][lag.queue.queue_id] = lag.end
    yield node.tell(
        rocketmq.MESSAGES_IN,
        (
            ((topic, "", _word(is_system_topic(topic))), sum(queues.values()))
            for topic, queues in list(ends.items())[:_MOST_ROWS]
            if not topic.startswith((RETRY, DEAD))
        ),
    )
    told = list(pairs.items())[:_MOST_ROWS]
    labels = [
        (group, topic, _word(topic.startswith((RETRY, DEAD))), _word(is_system_group(group) or is_system_topic(topic)))
        for (group, topic), _ in told
    ]
    yield node.tell(rocketmq.LAG, ((label, _lag(each)) for label, (_, each) in zip(labels, told, strict=True)))
    pulled = [(label, each) for label, (_, each) in zip(labels, told, strict=True) if _tells_pulls(each)]
    yield node.tell(rocketmq.IN_FLIGHT, ((label, _in_flight(each)) for label, each in pulled))
    yield node.tell(rocketmq.READY, ((label, _lag(each) - _in_flight(each)) for label, each in pulled))
    yield node.tell(own.LEFT_OUT, [((), len(pairs) - len(told))])


def _lag(queues: Iterable[GroupLag]) -> int:
    return sum(each.lag for each in queues)


def _tells_pulls(queues: Iterable[GroupLag]) -> bool:
    return all(each.pulled is not None for each in queues)


def _in_flight(queues: Iterable[GroupLag]) -> int:
    return sum(max(0, min(each.pulled or 0, each.end) - each.committed) for each in queues)


def _word(is_so: bool) -> str:
    return "true" if is_so else "false"
