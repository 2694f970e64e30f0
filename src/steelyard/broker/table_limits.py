"""Table limits: the size of a saved table, the rate at which a connection may create names, and table versions.

A table is saved as one document that must be readable as a whole. One that cannot be saved is lost with the process,
and the client that fills it need not be the one that suffers. So entries are measured, and one too many is refused.

Each new group or topic is stored, saved, and sent to name servers, and any client can create them by a heartbeat or a
send. A connection has a budget that is more than any application needs at its start, and that refills slowly; beyond
it, a request that would create a name is refused as too busy. Names that exist are served as ever. What the broker
creates by itself is not counted.
"""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from steelyard.broker.options import BrokerOptions
from steelyard.broker.request_errors import request_error, system_error
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.common import TableVersion
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Peer
from steelyard.wire.limits import FRAME_BYTES, JSON_MARKS

V = TypeVar("V")


_MAX_BYTES = FRAME_BYTES - 64 * 1024
# Quotes, a colon and a comma around the name of an entry.
_ENTRY_OVERHEAD_BYTES = 4
# The reader of the document limits its brackets, commas and colons as well as its bytes.
_COUNTED_MARKS = (b"{", b"}", b"[", b"]", b",", b":")
_MARK_BYTES = -(-FRAME_BYTES // JSON_MARKS)


class TableSizeLimit:
    """Measures the saved document of one table.

    >>> limit = TableSizeLimit("topics")
    >>> limit.add("a", {"perm": 6}); limit.add("a", {}); limit.remove("a"); limit.bytes
    0
    """

    def __init__(self, table_name: str, max_bytes: int = _MAX_BYTES) -> None:
        self._table_name, self._max_bytes = table_name, max_bytes
        self._sizes: dict[str, int] = {}
        self.bytes = 0
        """The size of all entries."""

    def add(self, name: str, settings: object, *, is_saved: bool = False) -> None:
        """Count an entry, replacing one of its name; one that does not fit is refused, unless it was loaded."""
        text = encode_body(settings)
        size = max(len(text), sum(map(text.count, _COUNTED_MARKS)) * _MARK_BYTES) + len(name) + _ENTRY_OVERHEAD_BYTES
        after = self.bytes + size - self._sizes.get(name, 0)
        if after > self._max_bytes and not is_saved:
            raise system_error(
                f"the {self._table_name} of this broker take {self.bytes} bytes, with {name[:255]} they would take "
                f"{after}, and at most {self._max_bytes} can be saved: delete some, or use shorter settings"
            )
        self._sizes[name], self.bytes = size, after

    def remove(self, name: str) -> None:
        """Stop counting an entry."""
        self.bytes -= self._sizes.pop(name, 0)


class SavedTable(Generic[V]):
    """A table by name that is saved, and has a version. ``changes`` grows with each change."""

    def __init__(self, kind: str, version: TableVersion | None, now_ms: int) -> None:
        self.version = next_data_version(version, now_ms)
        self.changes = 0
        self._entries: dict[str, V] = {}
        self.get: Callable[[str], V | None] = self._entries.get
        """Returns an entry, or None; the dictionary's own function, because each message calls it."""
        self._size_limit = TableSizeLimit(kind)

    def __iter__(self) -> Iterator[V]:
        """Iterate over all entries, by name."""
        return iter([self._entries[name] for name in sorted(self._entries)])

    def __len__(self) -> int:
        """Count the entries."""
        return len(self._entries)

    def remove(self, name: str, now_ms: int) -> bool:
        """Remove an entry; return whether it existed."""
        if self._entries.pop(name, None) is None:
            return False
        self._size_limit.remove(name)
        self._record_change(now_ms)
        return True

    def _record_change(self, now_ms: int) -> None:
        self.version = next_data_version(self.version, now_ms)
        self.changes += 1


class CreationRateLimit:
    """What each connection may still create. ``creator`` is the peer of the present request, or None."""

    def __init__(self, options: BrokerOptions) -> None:
        self._burst, self._per_s = options.new_names, options.new_names_per_s
        self.creator: Peer | None = None
        self._tokens: dict[int, tuple[int, int]] = {}
        """By connection: what was left, a thousand per name, and when. Without an entry the budget is full."""

    def count_creation(self, now_ms: int) -> None:
        """Count a name that is about to be created, or refuse the request."""
        if self.creator is None:
            return
        number, budget = self.creator.connection_id, self._burst * 1000
        left, since_ms = self._tokens.get(number, (budget, now_ms))
        left = min(budget, left + max(0, now_ms - since_ms) * self._per_s)
        if left < 1000:
            raise request_error(
                ResponseCode.SYSTEM_BUSY,
                f"[TOO MANY NEW NAMES]this connection created {self._burst} groups and topics in a short time, and may "
                f"create {self._per_s} more each second: try again later, or reuse names",
            )
        self._tokens[number] = left - 1000, now_ms

    def connection_closed(self, peer: Peer) -> None:
        """Forget a connection."""
        self._tokens.pop(peer.connection_id, None)


def next_data_version(version: TableVersion | None, now_ms: int) -> TableVersion:
    """Return the data version after a change, by which name servers and replicas notice it.

    >>> next_data_version(TableVersion(counter=4, timestamp=1), 9).counter
    5
    """
    counter = 0 if version is None else version.counter
    return TableVersion(counter=counter + 1, state_version=0, timestamp=now_ms)
