"""Route table: how many queues of each topic every broker has (RouteInfoManager).

The table is kept both ways, so that a broker's topics can be removed without a scan of all others. Static topics also
have queue mappings, which are removed with the broker, too; Apache's stay for ever.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from msgspec.structs import replace

from steelyard.nameserver.validation import MAX_MAPPED_QUEUES, MAX_QUEUE_ENTRIES, MAX_TOPIC_NAME_BYTES
from steelyard.wire.bodies.topics import QueueEntry, QueueMapping


class RouteTable:
    """Queues by topic and broker. `put` and `put_mapping` return False if there is no room."""

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[str, QueueEntry]] = {}
        self._by_broker: dict[str, dict[str, QueueEntry]] = {}
        self._mappings: dict[str, dict[str, QueueMapping]] = {}
        self._entries = self._name_bytes = self._mapped = 0

    def __len__(self) -> int:
        """Count the pairs of a topic and a broker that has it."""
        return self._entries

    def topics(self) -> Collection[str]:
        """Return the names of all topics."""
        return self._by_topic.keys()

    def topics_of(self, broker: str) -> Collection[str]:
        """Return the names of a broker's topics."""
        return self._by_broker.get(broker, {}).keys()

    def topics_on(self, brokers: Iterable[str]) -> list[str]:
        """List the topics that any of these brokers has."""
        wanted = frozenset(brokers)
        return [topic for topic, having in self._by_topic.items() if not wanted.isdisjoint(having)]

    def has(self, topic: str, broker: str) -> bool:
        """Return whether a broker has a topic."""
        return topic in self._by_broker.get(broker, {})

    def queues(self, topic: str) -> tuple[QueueEntry, ...]:
        """Return a topic's queues on each broker, ordered by broker; empty if the topic is unknown."""
        brokers = self._by_topic.get(topic, {})
        return tuple(brokers[broker] for broker in sorted(brokers))

    def mappings(self, topic: str) -> Mapping[str, QueueMapping] | None:
        """Return the queue mappings of a static topic, by broker."""
        return self._mappings.get(topic)

    def topics_with_flags(self) -> Iterator[tuple[str, int]]:
        """Iterate over all topics with their flags: all bits that any broker has set."""
        for topic, brokers in self._by_topic.items():
            flags = 0
            for entry in brokers.values():
                flags |= entry.sys_flag
            yield topic, flags

    def put(self, topic: str, entry: QueueEntry) -> bool:
        """Store a topic's queues on a broker; return False if there is no room."""
        broker = entry.broker_name
        brokers = self._by_topic.get(topic)
        if brokers is None or broker not in brokers:
            name_bytes = self._name_bytes + (len(topic.encode()) if brokers is None else 0)
            if self._entries == MAX_QUEUE_ENTRIES or name_bytes > MAX_TOPIC_NAME_BYTES:
                return False
            self._entries, self._name_bytes = self._entries + 1, name_bytes
        self._by_topic.setdefault(topic, {})[broker] = entry
        self._by_broker.setdefault(broker, {})[topic] = entry
        return True

    def put_mapping(self, topic: str, broker: str, mapping: QueueMapping) -> bool:
        """Store the queue mapping of a static topic on a broker; return False if there is no room."""
        if not self.has(topic, broker):
            return True  # without queues there is no route
        known = self._mappings.get(topic, {}).get(broker)
        mapped = self._mapped + len(mapping.current) - (0 if known is None else len(known.current))
        if mapped > MAX_MAPPED_QUEUES:
            return False
        self._mapped = mapped
        self._mappings.setdefault(topic, {})[broker] = mapping
        return True

    def remove(self, topic: str, broker: str) -> None:
        """Remove a topic from a broker; a topic without brokers is removed."""
        of_broker = self._by_broker.get(broker, {})
        if of_broker.pop(topic, None) is None:
            return
        if not of_broker:
            del self._by_broker[broker]
        brokers = self._by_topic[topic]
        del brokers[broker]
        self._entries -= 1
        if not brokers:
            del self._by_topic[topic]
            self._name_bytes -= len(topic.encode())
        self._remove_mapping(topic, broker)

    def remove_topic(self, topic: str) -> None:
        """Remove a topic."""
        for broker in list(self._by_topic.get(topic, {})):
            self.remove(topic, broker)

    def remove_broker(self, broker: str) -> None:
        """Remove all topics of a broker."""
        for topic in list(self.topics_of(broker)):
            self.remove(topic, broker)

    def change_permissions(self, broker: str, change: Callable[[int], int]) -> int:
        """Change the permission of all topics on a broker; return their number."""
        topics = list(self._by_broker.get(broker, {}).items())
        for topic, entry in topics:
            self.put(topic, replace(entry, permission=change(entry.permission)))
        return len(topics)

    def _remove_mapping(self, topic: str, broker: str) -> None:
        mappings = self._mappings.get(topic, {})
        if (mapping := mappings.pop(broker, None)) is not None:
            self._mapped -= len(mapping.current)
            if not mappings:
                del self._mappings[topic]
