"""Messages that wait for a time of their own: which are due when.

They lie in one topic, in the order they came. A heap knows which is due next, and a byte for each message since the
oldest open one knows what is delivered. Both are made again after a start, by reading the topic from that oldest one
on; of what was due before a known time nothing is open.
"""

from heapq import heapify, heappop, heappush
from typing import NamedTuple

from steelyard.broker.progress import Progress
from steelyard.broker.refusals import refusal
from steelyard.model.names import TIMER_TOPIC
from steelyard.store.timer_files import TimerCheck
from steelyard.wire.codes import ResponseCode

__all__ = ["MOST_TIMERS", "Delivered", "Timers"]

MOST_TIMERS = 1_000_000
"""Messages that may wait for a time of their own; each takes some fifty bytes of memory."""

# Due time and offset are one number: a heap of numbers takes a third of what one of pairs does.
_OFFSET_BITS = 48
_OFFSETS = (1 << _OFFSET_BITS) - 1


class Delivered(NamedTuple):
    """What is delivered: every message before an offset, and of those before ``end`` all that were due at a time."""

    first_open: int
    due_ms: int
    end: int


class Timers:
    """What waits, by time.

    >>> timers = Timers(MOST_TIMERS)
    >>> timers.start(Delivered(0, 0, 0))
    >>> timers.add(0, due_ms=2_000), timers.add(1, due_ms=1_000)
    (True, True)
    >>> timers.next_due(), timers.take(), timers.delivered(1_500)
    (1000, 1, Delivered(first_open=0, due_ms=1500, end=2))
    """

    def __init__(self, most: int = MOST_TIMERS) -> None:
        self._most = most
        self.fed = -1
        """The next offset of the topic to be looked at; negative before the start."""
        self.progress = Progress[Delivered]()
        self.safe: Delivered | None = None
        """What is delivered and safe on the disk, as far as it is known since the start."""
        self._before, self._elsewhere = Delivered(0, 0, 0), TimerCheck(0, 0)
        self._heap: list[int] = []
        self._first = 0
        self._done = bytearray()

    def __len__(self) -> int:
        """Count the messages that wait."""
        return len(self._heap)

    def start(self, before: Delivered, elsewhere: TimerCheck | None = None) -> None:
        """Begin where an earlier process left off, and where another broker did: what either delivered is."""
        self._before, self.fed, self._first = before, before.first_open, before.first_open
        self._elsewhere = elsewhere or self._elsewhere

    def check_room(self, topic: str) -> None:
        """Refuse a message for the topic of timers if too many wait."""
        if topic == TIMER_TOPIC and len(self._heap) >= self._most:
            raise refusal(
                ResponseCode.SYSTEM_ERROR, f"timer message is under flow control, max num limit is {self._most}"
            )

    def add(self, offset: int, *, due_ms: int, out_ms: int | None = None) -> bool:
        """Let a message wait, the next of the topic, unless it was delivered before the start; say if it waits.

        ``out_ms`` is the start of the second in which it is due, as Apache counts.
        """
        self._skip_to(offset)
        is_done = offset < self._before.end and due_ms <= self._before.due_ms
        if out_ms is not None and not is_done:
            is_done = self._elsewhere.has_done(offset, out_ms)
        self._done.append(is_done)
        self.fed = offset + 1
        if not is_done:
            heappush(self._heap, due_ms << _OFFSET_BITS | offset)
        return not is_done

    def withdraw(self, offsets: set[int]) -> None:
        """Let some messages wait no more."""
        if offsets:
            for offset in offsets:
                self.done(offset)
            self._heap = [number for number in self._heap if number & _OFFSETS not in offsets]
            heapify(self._heap)

    def pass_to(self, offset: int) -> None:
        """Take note that all before an offset was looked at; what is not there is not open."""
        self._skip_to(offset)
        self.fed = max(self.fed, offset)

    def _skip_to(self, offset: int) -> None:
        missing = offset - self._first - len(self._done)
        if missing > 0 and not self._done:
            self._first = offset
        elif missing > 0:
            self._done += b"\1" * missing

    def next_due(self) -> int | None:
        """Return when the next message is due; None if none waits."""
        return self._heap[0] >> _OFFSET_BITS if self._heap else None

    def waiting(self) -> list[tuple[int, int]]:
        """List when each message is due that waits, and its offset, the next one first."""
        return [(number >> _OFFSET_BITS, number & _OFFSETS) for number in sorted(self._heap)]

    def take(self) -> int:
        """Return the offset of the message that is due next, which then waits no more; say `done` when it is so."""
        return heappop(self._heap) & _OFFSETS

    def put_back(self, offset: int, *, due_ms: int) -> None:
        """Let a message wait again that was taken and could not be delivered."""
        heappush(self._heap, due_ms << _OFFSET_BITS | offset)

    def done(self, offset: int) -> None:
        """Take note that a message was delivered."""
        self._done[offset - self._first] = 1

    def delivered(self, now_ms: int) -> Delivered:
        """Return what is delivered."""
        open_at = self._done.find(0)
        count = len(self._done) if open_at < 0 else open_at
        del self._done[:count]
        self._first += count
        next_ms = self.next_due()
        return Delivered(self._first, now_ms if next_ms is None else min(now_ms, next_ms - 1), self.fed)
