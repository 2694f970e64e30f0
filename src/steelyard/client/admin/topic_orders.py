"""The fixed lists of ordered topics: which queues a producer chooses from, whatever brokers are there.

A name server keeps the list as a setting of its own, such as ``broker-a:4;broker-b:4``, and tells clients of it with
the topic's route; Apache's does so only if it was started with ``orderMessageEnable``.
"""

from collections.abc import Iterable, Mapping

from steelyard.client.admin.topics import Topics
from steelyard.errors import ConfigurationError, error_for
from steelyard.model import Permission, Route
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.shared import TextTable
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.headers.nameserver import KeyValue, KeyValueAnswer, Namespace

__all__ = ["ORDER_NAMESPACE", "TopicOrders"]

ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"
"""Where name servers keep the lists, by topic."""


class TopicOrders(Topics):
    """What an administrator does with the lists of ordered topics."""

    async def topic_order(self, name: str) -> dict[str, int] | None:
        """Return a topic's fixed list, as the queues of each broker; None if it has none."""
        full = self._names.full(name)
        answer = await self._ask_names(RequestCode.GET_KV_CONFIG, KeyValue(ORDER_NAMESPACE, full))
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            await self._route(full)
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise error_for(answer.code, answer.remark or "", server=str(self._connect))
        return _counts(full, answer.header(KeyValueAnswer).value or "")

    async def fix_order(self, name: str, counts: Mapping[str, int] | None = None) -> dict[str, int]:
        """Fix a topic's list: so many queues of each broker, or all that can be written to."""
        full = self._names.full(name)
        route = await self._route(full)
        there = {each.broker: each.write for each in route.counts if Permission.WRITE in each.permission}
        fixed = dict(there if counts is None else counts)
        for broker, count in fixed.items():
            if not 0 < count <= there.get(broker, 0):
                raise ConfigurationError(
                    f"{broker} has {there.get(broker, 0)} queues of topic {name!r} to write to, and the list would "
                    f"have {count}",
                    next_step=f"there are: {_listed(there) or 'none'}",
                )
        if not fixed:
            raise ConfigurationError(
                f"nothing of topic {name!r} can be written to, so there is nothing to fix",
                next_step="let clients write to it first, or name brokers and how many queues they have",
            )
        await self._put_order(full, fixed)
        return fixed

    async def clear_order(self, name: str) -> None:
        """Take a topic's fixed list away; one that has none is as wanted."""
        full = self._names.full(name)
        await self._route(full)
        await self._drop_order(full)

    async def _orders(self, topics: Iterable[str]) -> dict[str, dict[str, int]]:
        """Return the fixed lists of those topics that have one, by their full names.

        Name servers are who knows: a broker of 4.9 forgets whether it was told that a topic is ordered.
        """
        answer = await self._ask_names(RequestCode.GET_KVLIST_BY_NAMESPACE, Namespace(ORDER_NAMESPACE))
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return {}
        if answer.code != ResponseCode.SUCCESS:
            raise error_for(answer.code, answer.remark or "", server=str(self._connect))
        kept = decode_body(TextTable, answer.body).table
        return {topic: _counts(topic, kept[topic]) for topic in topics if topic in kept}

    async def _put_order(self, topic: str, counts: Mapping[str, int]) -> None:
        asked = KeyValue(ORDER_NAMESPACE, topic, _listed(counts))
        await self._tell_name_servers(RequestCode.PUT_KV_CONFIG, asked)

    async def _drop_order(self, topic: str) -> None:
        await self._tell_name_servers(RequestCode.DELETE_KV_CONFIG, KeyValue(ORDER_NAMESPACE, topic))


def _counts(topic: str, order: str) -> dict[str, int]:
    """Read a fixed list.

    >>> _counts("orders", "broker-a:4;broker-b:2")
    {'broker-a': 4, 'broker-b': 2}
    """
    counts: dict[str, int] = {}
    for queue in Route(topic, (), (), order).publish_list().queues:
        counts[queue.broker] = counts.get(queue.broker, 0) + 1
    return counts


def _listed(counts: Mapping[str, int]) -> str:
    return ";".join(f"{broker}:{count}" for broker, count in sorted(counts.items()))
