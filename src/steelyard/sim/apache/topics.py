"""Apache's topics: made by the first send after the pattern of the default topic, and kept over restarts."""

from collections.abc import Mapping

from steelyard.model.names import DEAD, DEFAULT_TOPIC, RETRY
from steelyard.wire.bodies.shared import TableVersion
from steelyard.wire.bodies.topics import TopicSettings, TopicTable

__all__ = ["Topics"]

_INHERIT, _USUAL = 1, 6


class Topics:
    """The table of topics. ``changes`` grows with each change."""

    def __init__(self, broker: str, cluster: str, topics: Mapping[str, int]) -> None:
        self._table: dict[str, TopicSettings] = {}
        self.changes = 0
        self._put(DEFAULT_TOPIC, 8, _USUAL | _INHERIT)
        self._put(cluster, 16, _USUAL | _INHERIT)
        self._put(broker, 1, _USUAL | _INHERIT)
        for name, queues in topics.items():
            self._put(name, queues)

    def get(self, name: str) -> TopicSettings | None:
        """Return a topic, or None."""
        return self._table.get(name)

    def put(self, name: str, queues: int) -> TopicSettings:
        """Make a topic, or give it another number of queues."""
        known = self._table.get(name)
        return known if known is not None and known.read_queues == queues else self._put(name, queues)

    def own(self, name: str) -> TopicSettings:
        """Return a topic for retries or dead letters, which has one queue."""
        return self._table.get(name) or self._put(name, 1)

    def for_send(self, name: str, default: str, wanted: int) -> TopicSettings | None:
        """Return the topic of a send, made if it may be; None if it may not."""
        known = self._table.get(name)
        if known is not None:
            return known
        pattern = self._table.get(default)
        if pattern is not None and pattern.permission & _INHERIT:
            return self._put(name, max(1, min(wanted, pattern.write_queues)), pattern.permission & ~_INHERIT)
        return self._put(name, 1) if name.startswith((RETRY, DEAD)) else None

    def table(self, now_ms: int) -> TopicTable:
        """Return what a name server is told."""
        return TopicTable(version=TableVersion(counter=self.changes, timestamp=now_ms), topics=dict(self._table))

    def _put(self, name: str, queues: int, permission: int = _USUAL) -> TopicSettings:
        self.changes += 1
        topic = TopicSettings(name=name, read_queues=queues, write_queues=queues, permission=permission)
        self._table[name] = topic
        return topic
