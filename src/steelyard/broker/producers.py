"""Which producers are there, on which lines: for check-backs of transactions and for replies.

A group's producers are kept by line, each with the time it was heard of in this group: one client may have several
lines, and a group it no longer speaks of grows old by itself. Beside the groups stands who speaks on which line at all,
and what producers of ours told of brokers: the newest ledger of each line, shortened where it is too long, and none of
those that would be too many.
"""

from collections.abc import Iterable

from msgspec import Struct, structs

from steelyard.broker.refusals import refusal
from steelyard.wire.bodies.heartbeat import LedgerLine
from steelyard.wire.bodies.members import ClientWord
from steelyard.wire.codes import ResponseCode
from steelyard.wire.peers import Peer

__all__ = ["Producer", "Producers"]

_MOST_PRODUCERS = 100_000

_MOST_LEDGER_LINES = 16_384
"""Of all ledgers together: an answer that tells all of them has to fit into a frame."""
_LONGEST_LEDGER = 256
_LONGEST_BROKER = 255
_LONGEST_WHY = 200


class Producer(Struct, gc=False):
    """One client on one line, as a producer of one group."""

    id: str
    peer: Peer
    language: str
    version: int
    seen_ms: int


class _Told(Struct, frozen=True, gc=False):
    """The ledger of a line, and when it was told."""

    ledger: tuple[LedgerLine, ...]
    at_ms: int
    weight: int
    """How many lines of ledgers an answer may have because of it: it is told with each group of the line."""


class Producers:
    """The registry of producers."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[int, Producer]] = {}
        self._on_line: dict[int, set[str]] = {}
        self._speaker: dict[int, str] = {}
        self._lines_of: dict[str, dict[int, Peer]] = {}
        self._turns: dict[str, int] = {}
        self._count = 0
        self._told: dict[int, _Told] = {}
        self._weight = 0

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
            self._forget_ledger(peer.number)

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

    def told(self, peer: Peer, ledger: tuple[LedgerLine, ...] | None, now_ms: int) -> None:
        """Keep what the producer on a line knows of brokers, in the place of what it told before."""
        self._forget_ledger(peer.number)
        if ledger is None or peer.number not in self._on_line:
            return
        kept = tuple(map(_shortened, ledger[:_LONGEST_LEDGER]))
        weight = len(kept) * len(self._on_line[peer.number])
        if self._weight + weight <= _MOST_LEDGER_LINES:
            self._told[peer.number] = _Told(kept, now_ms, weight)
            self._weight += weight

    def _forget_ledger(self, number: int) -> None:
        told = self._told.pop(number, None)
        if told is not None:
            self._weight -= told.weight

    def word_of(self, producer: Producer, now_ms: int) -> ClientWord | None:
        """Return what a producer told of brokers, as it is by now; None if it tells nothing."""
        told = self._told.get(producer.peer.number)
        if told is None:
            return None
        ago_ms = max(0, now_ms - told.at_ms)
        return ClientWord(ago_ms=ago_ms, ledger=tuple(_aged(line, ago_ms) for line in told.ledger))

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


def _shortened(line: LedgerLine) -> LedgerLine:
    if len(line.broker) <= _LONGEST_BROKER and len(line.why or "") <= _LONGEST_WHY:
        return line
    return structs.replace(line, broker=line.broker[:_LONGEST_BROKER], why=(line.why or "")[:_LONGEST_WHY])


def _aged(line: LedgerLine, ago_ms: int) -> LedgerLine:
    """Count down how long a broker is avoided: that ends by itself, and nobody says so."""
    if line.avoided_ms is None:
        return line
    left_ms = line.avoided_ms - ago_ms
    return structs.replace(line, avoided_ms=left_ms if left_ms > 0 else None)
