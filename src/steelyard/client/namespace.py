"""Namespaces: a prefix that separates the topics and groups of one tenant from those of others.

On the wire a topic is ``tenant%orders``; the topics of a group have it inside: ``%RETRY%tenant%billing``. Users read
and write ``orders``. Topics and groups of the servers themselves have no namespace.
"""

from dataclasses import dataclass

from msgspec import structs

from steelyard.model import Queue, StoredMessage
from steelyard.model.reserved_names import DLQ_PREFIX, RETRY_PREFIX, is_system_group, is_system_topic

_PREFIXES = (RETRY_PREFIX, DLQ_PREFIX)


@dataclass(frozen=True, slots=True)
class ClientNamespace:
    """Adds and removes one namespace; the empty one changes nothing.

    >>> names = ClientNamespace("eu")
    >>> names.wrap("orders"), names.wrap("%RETRY%billing"), names.wrap("TBW102"), names.wrap("eu%orders")
    ('eu%orders', '%RETRY%eu%billing', 'TBW102', 'eu%orders')
    >>> names.wrap("CID_RMQ_SYS_TRANS")
    'CID_RMQ_SYS_TRANS'
    >>> names.unwrap("%DLQ%eu%billing"), names.unwrap("us%orders")
    ('%DLQ%billing', 'us%orders')
    """

    name: str = ""

    def wrap(self, name: str) -> str:
        """Return a topic or group with the namespace, as servers know it."""
        if not self.name:
            return name
        prefix, rest = _split(name)
        if is_system_topic(rest) or is_system_group(rest) or rest.startswith(f"{self.name}%"):
            return name
        return f"{prefix}{self.name}%{rest}"

    def unwrap(self, name: str) -> str:
        """Return a topic or group without the namespace, as users know it."""
        if not self.name:
            return name
        prefix, rest = _split(name)
        return prefix + rest.removeprefix(f"{self.name}%")

    def unwrap_text(self, text: str) -> str:
        """Return a text with topics and groups as users know them.

        >>> ClientNamespace("eu").unwrap_text("group eu%billing waits for eu%orders")
        'group billing waits for orders'
        """
        return text.replace(f"{self.name}%", "") if self.name else text

    def wrap_queue(self, queue: Queue) -> Queue:
        """Return a queue with the namespace."""
        return Queue(self.wrap(queue.topic), queue.broker, queue.queue_id) if self.name else queue

    def unwrap_queue(self, queue: Queue) -> Queue:
        """Return a queue without the namespace."""
        return Queue(self.unwrap(queue.topic), queue.broker, queue.queue_id) if self.name else queue

    def unwrap_stored(self, message: StoredMessage) -> StoredMessage:
        """Return a message with its queue as users know it."""
        return structs.replace(message, queue=self.unwrap_queue(message.queue)) if self.name else message


def _split(name: str) -> tuple[str, str]:
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name
