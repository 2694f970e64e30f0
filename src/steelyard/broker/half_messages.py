"""Half messages: sent in a transaction, and not yet committed or rolled back.

A transaction is known by the offset of its first record in the half topic. Each check of its producer rewrites the half
message at another offset, and the latest counts; a response about an earlier one is valid, too. Outcomes are remembered
for a while, so that ending a transaction twice does no harm.
"""

from collections import Counter, deque
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from msgspec import Struct

from steelyard.broker.delivery_dedup import DurableProgress
from steelyard.broker.request_errors import request_error
from steelyard.wire.codes import ResponseCode

MAX_OPEN = 500_000
"""Half messages that may be open; each takes some three hundred bytes of memory."""

_MAX_OUTCOMES = 65_536
"""Outcomes of transactions that are remembered."""

_HEAP_SLACK = 256
_MAX_OPS = 65_536
"""Op records whose offsets are kept one by one; beyond that they are merged in pairs."""


class TransactionOutcome(Enum):
    """The outcome of a transaction; the letters are written to the log."""

    COMMITTED = "c"
    ROLLED_BACK = "r"
    GIVEN_UP = "g"
    UNKNOWN = "u"
    """Another broker recorded its end, but not how it ended."""


class PendingOutcome(NamedTuple):
    """An outcome that is not written yet, and the log position behind it."""

    outcome: TransactionOutcome
    end: int


class OpenHalfMessage(Struct, frozen=True, gc=False):
    """An open half message, and its latest record."""

    first_offset: int
    """The offset of its first record."""
    offset: int
    position: int
    stored_ms: int
    check_after_ms: int
    """From this time on its producer may be checked."""
    topic: str = ""
    """The real topic of the message."""


class HalfMessages:
    """Open half messages, outcomes of others, and how far both topics were read."""

    def __init__(self) -> None:
        self.open: dict[int, OpenHalfMessage] = {}
        """By first offset."""
        self.open_by_topic = Counter[str]()
        """The number of open ones by real topic."""
        self.loaded_to = self.ops_loaded_to = -1
        """The next offsets of the half and op topics to load; negative before the start."""
        self.needs_commit_scan = True
        """Whether an earlier process may have committed messages without recording it."""
        self.pending_outcomes: dict[int, PendingOutcome] = {}
        """Outcomes that are not in the log yet."""
        self.check_round: list[int] = []
        """The transactions to check in this round, the last one first."""
        self.next_round_ms: int | None = None
        """When the next round begins."""
        self.resumed: dict[int, int] = {}
        """Positions of given up messages that were resumed, and the log positions behind what was written then."""
        self.progress = DurableProgress[tuple[int, int]]()
        self._recorded = (-1, -1)
        self._outcomes: dict[int, TransactionOutcome] = {}
        self._first_offsets: dict[int, int] = {}
        """First offsets of rewritten half messages, by latest offset."""
        self._offsets: list[tuple[int, int]] = []
        self._ops: deque[tuple[int, int]] = deque()

    def check_capacity(self) -> None:
        """Refuse a new half message if too many are open."""
        if len(self.open) >= MAX_OPEN:
            raise request_error(
                ResponseCode.SYSTEM_BUSY, f"{len(self.open)} transactions are open on this broker: end some of them"
            )

    def add(self, half: OpenHalfMessage) -> None:
        """Add a record; it replaces an earlier one of the same transaction."""
        if half.first_offset not in self._outcomes:
            self._forget(half.first_offset)
            self.open[half.first_offset] = half
            self.open_by_topic[half.topic] += 1
            if half.offset != half.first_offset:
                self._first_offsets[half.offset] = half.first_offset
            heappush(self._offsets, (half.offset, half.first_offset))
            if len(self._offsets) > 2 * len(self.open) + _HEAP_SLACK:
                # One half message that stays open for a day must not keep all ended ones behind it.
                self._offsets = [(each.offset, first_offset) for first_offset, each in self.open.items()]
                heapify(self._offsets)

    def _forget(self, first_offset: int) -> None:
        half = self.open.pop(first_offset, None)
        if half is not None:
            self._first_offsets.pop(half.offset, None)
            self.open_by_topic[half.topic] -= 1
            if not self.open_by_topic[half.topic]:
                del self.open_by_topic[half.topic]

    def add_op_record(self, op_offset: int, offsets: list[int], outcome: TransactionOutcome | None) -> None:
        """Add an op record of the log: the outcome of these half messages, or without ``outcome`` their replacement.

        Ours names the first offset of a transaction last; other brokers do not know first offsets.
        """
        self._ops.append((op_offset, max(offsets, default=-1)))
        if len(self._ops) > _MAX_OPS:
            self._merge_ops()
        if outcome is None:
            return
        is_ours = outcome is not TransactionOutcome.UNKNOWN
        for first_offset in (
            offsets[-1:] if is_ours else [self._first_offsets.get(offset, offset) for offset in offsets]
        ):
            self._forget(first_offset)
            self._outcomes[first_offset] = outcome
        while len(self._outcomes) > _MAX_OUTCOMES:
            del self._outcomes[next(iter(self._outcomes))]

    def _merge_ops(self) -> None:
        """Merge op records in pairs, each as early as the first and as late as the later."""
        ops = list(self._ops)
        pairs = zip(ops[::2], ops[1::2], strict=False)
        self._ops = deque((first, max(one, other)) for (first, one), (_, other) in pairs)
        self._ops.extend(ops[len(ops) // 2 * 2 :])

    def outcome_of(self, first_offset: int) -> TransactionOutcome | None:
        """Return the outcome of a transaction, or None if it is open or forgotten."""
        pending = self.pending_outcomes.get(first_offset)
        return pending.outcome if pending is not None else self._outcomes.get(first_offset)

    def discard_unwritten(self, end: int) -> None:
        """Discard what was not written behind a log position."""
        self.resumed = {position: behind for position, behind in self.resumed.items() if behind <= end}
        # A commit across two files may be written without its op record: that has to be looked for.
        self.needs_commit_scan |= bool(self.pending_outcomes)

    def record_progress(self, end: int) -> None:
        """Record how far all is resolved; it is saved once the log is durable up to a position."""
        heap = self._offsets
        while heap and ((half := self.open.get(heap[0][1])) is None or half.offset != heap[0][0]):
            heappop(heap)
        first_open = heap[0][0] if heap else self.loaded_to
        while self._ops and self._ops[0][1] < first_open:
            self._ops.popleft()
        reached = first_open, self._ops[0][0] if self._ops else self.ops_loaded_to
        if reached != self._recorded:
            self._recorded = reached
            self.progress.record(end, reached)
