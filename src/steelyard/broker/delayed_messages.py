"""Delayed messages: which timers are due when, and how far each delay level was delivered.

Timers, messages with a delivery time, lie in one topic in order of arrival. A heap knows which is due next, and a byte
per message since the oldest open one knows what is delivered. Both are rebuilt after a start, by reading the topic from
that oldest one on. All messages of a delay level wait equally long, so a level is delivered in the order of its queue,
and one offset says it all.

Apache stores a timer again that waits longer than its wheel spans, and marks it; the earlier one is void. To recall
one, it stores a note among the timers that names it by topic and unique key: neither is ever delivered. Ours does
neither, so only timers from before the start are inspected for this.
"""

from collections.abc import Mapping
from hashlib import blake2b
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from steelyard.broker.delivery_dedup import DurableProgress
from steelyard.broker.request_errors import system_error
from steelyard.model.reserved_names import TIMER_TOPIC
from steelyard.store.tags_code import DELAY_LEVELS_MS
from steelyard.store.timer_files import TimerCheckpoint
from steelyard.wire.bodies.common import TableVersion
from steelyard.wire.bodies.offsets import DelayOffsetTable
from steelyard.wire.json_body import ById
from steelyard.wire.property_names import REAL_TOPIC, TIMER_DELETED_KEY, TIMER_ROLL_TIMES, UNIQUE_KEY

MAX_TIMERS = 1_000_000
"""Timers that may wait; each takes some fifty bytes of memory."""

# Due time and offset are one number: a heap of numbers takes a third of the memory of a heap of pairs.
_OFFSET_BITS = 48
_OFFSETS = (1 << _OFFSET_BITS) - 1


class TimerProgress(NamedTuple):
    """Delivered: every timer before ``first_open``, and of those before ``end`` all that were due at ``due_ms``."""

    first_open: int
    due_ms: int
    end: int


class TimerMessages:
    """The waiting timers, by due time.

    >>> timers = TimerMessages(MAX_TIMERS)
    >>> timers.resume(TimerProgress(0, 0, 0))
    >>> timers.add(0, due_ms=2_000), timers.add(1, due_ms=1_000)
    (True, True)
    >>> timers.next_due(), timers.pop_due(), timers.snapshot(1_500)
    (1000, 1, TimerProgress(first_open=0, due_ms=1500, end=2))
    """

    def __init__(self, max_timers: int = MAX_TIMERS) -> None:
        self._max_timers = max_timers
        self.loaded_to = -1
        """The next offset of the topic to load; negative before the start."""
        self.progress = DurableProgress[TimerProgress]()
        self.durable: TimerProgress | None = None
        """The durable progress since the start."""
        self._own_progress, self._apache_checkpoint = TimerProgress(0, 0, 0), TimerCheckpoint(0, 0)
        self._heap: list[int] = []
        self._first = 0
        self._delivered_flags = bytearray()

    def __len__(self) -> int:
        """Count the waiting timers."""
        return len(self._heap)

    def resume(self, own_progress: TimerProgress, apache_checkpoint: TimerCheckpoint | None = None) -> None:
        """Continue where an earlier process of ours or of Apache's stopped: what either delivered is done."""
        self._own_progress, self.loaded_to, self._first = own_progress, own_progress.first_open, own_progress.first_open
        self._apache_checkpoint = apache_checkpoint or self._apache_checkpoint

    def check_capacity(self, topic: str) -> None:
        """Refuse a message for the timer topic if too many wait."""
        if topic == TIMER_TOPIC and len(self._heap) >= self._max_timers:
            raise system_error(f"timer message is under flow control, max num limit is {self._max_timers}")

    def add(self, offset: int, *, due_ms: int, out_ms: int | None = None) -> bool:
        """Add the next message of the topic, unless it was delivered before the start; return whether it waits.

        ``out_ms`` is the start of the second in which it is due, as Apache counts.
        """
        self._skip_to(offset)
        is_done = offset < self._own_progress.end and due_ms <= self._own_progress.due_ms
        if out_ms is not None and not is_done:
            is_done = self._apache_checkpoint.is_delivered(offset, out_ms)
        self._delivered_flags.append(is_done)
        self.loaded_to = offset + 1
        if not is_done:
            heappush(self._heap, due_ms << _OFFSET_BITS | offset)
        return not is_done

    def withdraw(self, offsets: set[int]) -> None:
        """Remove timers that are void."""
        if offsets:
            for offset in offsets:
                self.mark_delivered(offset)
            self._heap = [number for number in self._heap if number & _OFFSETS not in offsets]
            heapify(self._heap)

    def mark_loaded_to(self, offset: int) -> None:
        """Record that everything before an offset is loaded; offsets without a message are not open."""
        self._skip_to(offset)
        self.loaded_to = max(self.loaded_to, offset)

    def _skip_to(self, offset: int) -> None:
        missing = offset - self._first - len(self._delivered_flags)
        if missing > 0 and not self._delivered_flags:
            self._first = offset
        elif missing > 0:
            self._delivered_flags += b"\1" * missing

    def next_due(self) -> int | None:
        """Return when the next timer is due; None if none waits."""
        return self._heap[0] >> _OFFSET_BITS if self._heap else None

    def waiting(self) -> list[tuple[int, int]]:
        """List due time and offset of each waiting timer, the next one first."""
        return [(number >> _OFFSET_BITS, number & _OFFSETS) for number in sorted(self._heap)]

    def pop_due(self) -> int:
        """Remove the timer that is due next and return its offset; call `mark_delivered` when it is delivered."""
        return heappop(self._heap) & _OFFSETS

    def push_back(self, offset: int, *, due_ms: int) -> None:
        """Add a timer again that could not be delivered."""
        heappush(self._heap, due_ms << _OFFSET_BITS | offset)

    def mark_delivered(self, offset: int) -> None:
        """Record that a timer was delivered."""
        self._delivered_flags[offset - self._first] = 1

    def snapshot(self, now_ms: int) -> TimerProgress:
        """Return the present progress."""
        open_at = self._delivered_flags.find(0)
        count = len(self._delivered_flags) if open_at < 0 else open_at
        del self._delivered_flags[:count]
        self._first += count
        next_ms = self.next_due()
        return TimerProgress(self._first, now_ms if next_ms is None else min(now_ms, next_ms - 1), self.loaded_to)


DELAY_LEVEL_COUNT = len(DELAY_LEVELS_MS)
"""The number of delay levels; the queue id of a level is one less than the level."""


class DelayLevelOffsets:
    """Up to which offset each level was delivered. ``changes`` grows with each change."""

    def __init__(self, saved: DelayOffsetTable | None) -> None:
        self.changes = 0
        self._version = (saved and saved.version) or TableVersion(state_version=0)
        self._durable_offsets = dict(saved.offsets) if saved is not None else {}
        self.next_offsets = [
            max(0, self._durable_offsets.get(queue_id + 1, 0)) for queue_id in range(DELAY_LEVEL_COUNT)
        ]
        """The next offset to deliver, by queue."""
        self.next_due_ms = [0] * DELAY_LEVEL_COUNT
        """By queue: nothing is due before this time."""
        self._progress = DurableProgress[list[int]]()

    def record_progress(self, end: int) -> None:
        """Record the present progress; it is saved once the log is durable up to a position."""
        self._progress.record(end, self.next_offsets[:])

    def apply_durable(self, durable: int) -> None:
        """Apply the progress that is durable by now."""
        reached = self._progress.pop_durable(durable)
        if reached is not None:
            self._durable_offsets |= {queue_id + 1: offset for queue_id, offset in enumerate(reached) if offset}
            self.changes += 1

    def table(self) -> DelayOffsetTable:
        """Return the offsets as they are saved, by level."""
        return DelayOffsetTable(version=self._version, offsets=ById(self._durable_offsets))


class RolledTimers:
    """Finds timers that Apache rolled or recalled, given all waiting timers in order.

    >>> rolled = RolledTimers()
    >>> rolled.inspect(4, {"REAL_TOPIC": "orders", "UNIQ_KEY": "AC11"})
    >>> rolled.inspect(9, {"REAL_TOPIC": "orders", "UNIQ_KEY": "AC11", "TIMER_ROLL_TIMES": "1"})
    >>> rolled.withdrawn
    {4}
    """

    def __init__(self) -> None:
        self._waiting: dict[bytes, int] = {}
        """Offsets by hashed name of the timer; hashed, since there may be a million."""
        self.withdrawn: set[int] = set()
        """Offsets of void timers."""

    def inspect(self, offset: int, properties: Mapping[str, str]) -> None:
        """Inspect the next waiting timer."""
        recalled = properties.get(TIMER_DELETED_KEY)
        if recalled is not None:
            self.withdrawn.add(offset)
            self._withdraw(_name_hash(recalled))
        elif UNIQUE_KEY in properties:
            name = _name_hash(f"{properties.get(REAL_TOPIC)}+{properties[UNIQUE_KEY]}")
            if TIMER_ROLL_TIMES in properties:
                self._withdraw(name)
            self._waiting[name] = offset

    def _withdraw(self, name: bytes) -> None:
        previous = self._waiting.pop(name, None)
        if previous is not None:
            self.withdrawn.add(previous)


def _name_hash(name: str) -> bytes:
    return blake2b(name.encode(errors="surrogatepass"), digest_size=8).digest()
