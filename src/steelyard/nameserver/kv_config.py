"""Key-value config: strings by namespace and key, which any client may write and read.

One namespace has a meaning: `ORDER_TOPICS` holds, for strictly ordered topics, how many queues each broker has of them,
whatever brokers come and go. As in Apache's, a namespace stays when its last key is deleted; it is dropped when its
space is needed, and is not saved.
"""

from collections.abc import Mapping

from steelyard.nameserver.validation import MAX_KEY_VALUE_BYTES, MAX_KEY_VALUES, request_error
from steelyard.wire.codes import ResponseCode

__all__ = ["ORDER_TOPICS", "KVConfig"]

ORDER_TOPICS = "ORDER_TOPIC_CONFIG"


class KVConfig:
    """The table of namespaces.

    >>> table = KVConfig({})
    >>> table.put("team", "lead", "Ada")
    >>> table.get("team", "lead"), table.get("team", "other"), table.namespace_values("nobody")
    ('Ada', None, None)
    """

    def __init__(self, saved: Mapping[str, Mapping[str, str]]) -> None:
        self._namespaces = {namespace: dict(entries) for namespace, entries in saved.items() if entries}
        self._count = len(self._namespaces) + sum(map(len, self._namespaces.values()))
        self._bytes = sum(_size(namespace) + _sizes(entries) for namespace, entries in self._namespaces.items())

    def get(self, namespace: str, key: str) -> str | None:
        """Return a value."""
        return self._namespaces.get(namespace, {}).get(key)

    def namespace_values(self, namespace: str) -> Mapping[str, str] | None:
        """Return all keys and values of a namespace; None if it does not exist."""
        return self._namespaces.get(namespace)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Put a value; refuse it if there is no room."""
        if not self._fits(namespace, key, value):
            self._drop_empty()
            if not self._fits(namespace, key, value):
                raise request_error(
                    ResponseCode.SYSTEM_ERROR,
                    f"there is no room for another setting: the limit is {MAX_KEY_VALUES} of them, and "
                    f"{MAX_KEY_VALUE_BYTES} bytes together; delete some (102) first",
                )
        count, size = self._size_change(namespace, key, value)
        self._count, self._bytes = self._count + count, self._bytes + size
        self._namespaces.setdefault(namespace, {})[key] = value

    def delete(self, namespace: str, key: str) -> bool:
        """Delete a value; return whether there was one."""
        entries = self._namespaces.get(namespace, {})
        value = entries.pop(key, None)
        if value is None:
            return False
        self._count -= 1
        self._bytes -= _size(key) + _size(value)
        return True

    def export(self) -> dict[str, dict[str, str]]:
        """Return what is worth saving."""
        return {namespace: dict(entries) for namespace, entries in self._namespaces.items() if entries}

    def _fits(self, namespace: str, key: str, value: str) -> bool:
        count, size = self._size_change(namespace, key, value)
        return self._count + count <= MAX_KEY_VALUES and self._bytes + size <= MAX_KEY_VALUE_BYTES

    def _size_change(self, namespace: str, key: str, value: str) -> tuple[int, int]:
        entries = self._namespaces.get(namespace)
        count, size = (1, _size(namespace)) if entries is None else (0, 0)
        old = (entries or {}).get(key)
        if old is None:
            return count + 1, size + _size(key) + _size(value)
        return count, size + _size(value) - _size(old)

    def _drop_empty(self) -> None:
        for namespace in [name for name, entries in self._namespaces.items() if not entries]:
            del self._namespaces[namespace]
            self._count -= 1
            self._bytes -= _size(namespace)


def _size(text: str) -> int:
    return len(text.encode())


def _sizes(entries: Mapping[str, str]) -> int:
    return sum(_size(key) + _size(value) for key, value in entries.items())
