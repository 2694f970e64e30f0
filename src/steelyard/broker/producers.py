"""Which producers are there, on which lines: for check-backs of transactions and for replies.

A group's producers are kept by line, each with the time it was heard of in this group: one client may have several
lines, and a group it no longer speaks of grows old by itself. Beside the groups stands who speaks on which line at all.
"""

from collections.abc import Iterable

from msgspec import Struct

from steelyard.broker.refusals import refusal
from steelyard.wire.codes import ResponseCode
from steelyard.wire.peers import Peer

__all__ = ["Producer", "Producers"]

_MOST_PRODUCERS = 100_000


class Producer(Struct, gc=False):
    """One client on one line, as a producer of one group."""

    id: str
    peer: Peer
    language: str
    version: int
    seen_ms: int


class Producers:
    """The registry of producers."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[int, Producer]] = {}
        self._on_line: dict[int, set[str]] = {}
        self._speaker: dict[int, str] = {}
        self._lines_of: dict[str, dict[int, Peer]] = {}
        self._turns: dict[str, int] = {}
        self._count = 0

    def speaks(self, client_id: str, peer: Peer) -> None:
        """Take note that this client speaks on this line, producer or not."""
        before = self._speaker.get(peer.number)
        if before != client_id:
            self._silence(peer.number)
            self._speaker[peer.number] = client_id
            self._lines_of.setdefault(client_id, {})[peer.number] = peer

    def _silence(self, number: int) -> None:
        client_id = self._speaker.pop(number, None)
        if client_id is not None:
            lines = self._lines_of[client_id]
            del lines[number]
            if not lines:
                del self._lines_of[client_id]

    def heard(self, group: str, producer: Producer) -> None:
        """Register a producer, or take note that it is still there."""
        lines = self._groups.setdefault(group, {})
        number = producer.peer.number
        if number not in lines:
            if self._count >= _MOST_PRODUCERS:
                self._drop_if_empty(group)
                raise refusal(ResponseCode.SYSTEM_ERROR, f"this broker has {self._count} producers and takes no more")
            self._count += 1
            self._on_line.setdefault(number, set()).add(group)
        lines[number] = producer

    def leave(self, group: str, peer: Peer) -> None:
        """Take a line out of a group."""
        if self._groups.get(group, {}).pop(peer.number, None) is None:
            return
        self._count -= 1
        self._drop_if_empty(group)
        groups = self._on_line[peer.number]
        groups.discard(group)
        if not groups:
            del self._on_line[peer.number]

    def _drop_if_empty(self, group: str) -> None:
        if not self._groups[group]:
            del self._groups[group]
            self._turns.pop(group, None)

    def closed(self, peer: Peer) -> None:
        """Forget a line that closed."""
        for group in list(self._on_line.get(peer.number, ())):
            self.leave(group, peer)
        self._silence(peer.number)

    def excuse(self, missed_ms: int, now_ms: int) -> None:
        """Count a time as not passed for all producers, since nobody listened to them."""
        for lines in self._groups.values():
            for producer in lines.values():
                producer.seen_ms = max(producer.seen_ms, min(producer.seen_ms + missed_ms, now_ms))

    def expire(self, heard_before_ms: int) -> None:
        """Forget producers that were last heard before this time."""
        for group in list(self._groups):
            for producer in [each for each in self._groups[group].values() if each.seen_ms < heard_before_ms]:
                self.leave(group, producer.peer)

    def next_of(self, group: str) -> Peer | None:
        """Return a line of the group, each in its turn, or None."""
        lines = self._groups.get(group)
        if not lines:
            return None
        later = [number for number in lines if number > self._turns.get(group, -1)]
        number = self._turns[group] = min(later or lines)
        return lines[number].peer

    def by_id(self, client_id: str) -> Peer | None:
        """Return the newest line of the client with this id, producer or not, or None."""
        lines = self._lines_of.get(client_id)
        return lines[max(lines)] if lines else None

    def of(self, group: str) -> list[Producer]:
        """List the producers of a group, in the order of their lines."""
        lines = self._groups.get(group, {})
        return [lines[number] for number in sorted(lines)]

    def groups(self) -> Iterable[str]:
        """List the groups that have producers."""
        return sorted(self._groups)
