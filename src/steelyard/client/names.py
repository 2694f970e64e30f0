"""Namespaces: a prefix that keeps the topics and groups of one tenant apart from those of others.

On the wire a topic is ``tenant%orders``; topics that a group brings along have it inside: ``%RETRY%tenant%billing``.
Users see and write ``orders``. What belongs to the servers themselves has no namespace.
"""

from dataclasses import dataclass

from steelyard.model import Queue
from steelyard.model.names import DEAD, RETRY, is_system_group, is_system_topic

__all__ = ["Names"]

_PREFIXES = (RETRY, DEAD)


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one namespace; the empty one changes nothing.

    >>> names = Names("eu")
    >>> names.full("orders"), names.full("%RETRY%billing"), names.full("TBW102"), names.full("eu%orders")
    ('eu%orders', '%RETRY%eu%billing', 'TBW102', 'eu%orders')
    >>> names.full("CID_RMQ_SYS_TRANS")
    'CID_RMQ_SYS_TRANS'
    >>> names.bare("%DLQ%eu%billing"), names.bare("us%orders")
    ('%DLQ%billing', 'us%orders')
    """

    namespace: str = ""

    def full(self, name: str) -> str:
        """Return a topic or group as servers know it."""
        if not self.namespace:
            return name
        prefix, rest = _split(name)
        if is_system_topic(rest) or is_system_group(rest) or rest.startswith(f"{self.namespace}%"):
            return name
        return f"{prefix}{self.namespace}%{rest}"

    def bare(self, name: str) -> str:
        """Return a topic or group as users know it."""
        if not self.namespace:
            return name
        prefix, rest = _split(name)
        return prefix + rest.removeprefix(f"{self.namespace}%")

    def bare_text(self, sentence: str) -> str:
        """Return a sentence about topics and groups as users know them.

        >>> Names("eu").bare_text("group eu%billing waits for eu%orders")
        'group billing waits for orders'
        """
        return sentence.replace(f"{self.namespace}%", "") if self.namespace else sentence

    def full_queue(self, queue: Queue) -> Queue:
        """Return a queue as servers know it."""
        return Queue(self.full(queue.topic), queue.broker, queue.queue_id) if self.namespace else queue

    def bare_queue(self, queue: Queue) -> Queue:
        """Return a queue as users know it."""
        return Queue(self.bare(queue.topic), queue.broker, queue.queue_id) if self.namespace else queue


def _split(name: str) -> tuple[str, str]:
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name
