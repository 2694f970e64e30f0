"""Half messages: sent, and not yet committed or rolled back.

A transaction is known by the offset of its first record in the topic of halves. Each question to its producer writes
the half anew, at another offset, and what counts is the latest; an answer about an earlier one is an answer all the
same. How a transaction ended is remembered for a while, so that to end it twice does no harm.
"""

from collections import Counter, deque
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from msgspec import Struct

from steelyard.broker.progress import Progress
from steelyard.broker.refusals import refusal
from steelyard.wire.codes import ResponseCode

__all__ = ["MOST_OPEN", "Ended", "Ending", "Half", "Halves"]

MOST_OPEN = 500_000
"""Half messages that may be open; each takes some three hundred bytes of memory."""

_REMEMBERED = 65_536
"""Ends of transactions that are remembered."""

_FEW = 256
_MOST_OPS = 65_536
"""Records of ends whose places are known one by one; of more, those of two and two together."""


class Ending(Enum):
    """How a transaction ended; the letters are written to the log."""

    COMMITTED = "c"
    ROLLED_BACK = "r"
    GIVEN_UP = "g"
    UNKNOWN = "u"
    """Another broker wrote that it ended, and not how."""


class Ended(NamedTuple):
    """An end that is on its way into the log, and the position behind it there."""

    ending: Ending
    end: int


class Half(Struct, frozen=True, gc=False):
    """An open half message, and where its latest record is."""

    origin: int
    """The offset of its first record."""
    offset: int
    position: int
    stored_ms: int
    ask_ms: int
    """From this time on its producer may be asked."""
    topic: str = ""
    """What the message is for."""


class Halves:
    """Which half messages are open, how others ended, and how far both topics were read."""

    def __init__(self) -> None:
        self.open: dict[int, Half] = {}
        """By origin."""
        self.topics = Counter[str]()
        """How many are open for each topic."""
        self.fed = self.fed_ops = -1
        """The next offsets of halves and of their ends to be looked at; negative before the start."""
        self.is_unsure = True
        """Whether an earlier process may have committed what it did not write down."""
        self.ending: dict[int, Ended] = {}
        """Ends that are not in the log yet."""
        self.round: list[int] = []
        """Whom to ask about in this round, the last first."""
        self.round_ms: int | None = None
        """When the next round begins."""
        self.resumed: dict[int, int] = {}
        """Positions of given up messages that were taken up again, and the positions behind what was written then."""
        self.progress = Progress[tuple[int, int]]()
        self._noted = (-1, -1)
        self._ended: dict[int, Ending] = {}
        self._origins: dict[int, int] = {}
        """Of open halves that were written anew, by their latest offset."""
        self._offsets: list[tuple[int, int]] = []
        self._ops: deque[tuple[int, int]] = deque()

    def check_room(self) -> None:
        """Refuse one more if too many are open."""
        if len(self.open) >= MOST_OPEN:
            raise refusal(
                ResponseCode.SYSTEM_BUSY, f"{len(self.open)} transactions are open on this broker: end some of them"
            )

    def add(self, half: Half) -> None:
        """Take note of a record; it takes the place of an earlier one of the same transaction."""
        if half.origin not in self._ended:
            self._forget(half.origin)
            self.open[half.origin] = half
            self.topics[half.topic] += 1
            if half.offset != half.origin:
                self._origins[half.offset] = half.origin
            heappush(self._offsets, (half.offset, half.origin))
            if len(self._offsets) > 2 * len(self.open) + _FEW:
                # One half that stays open for a day must not keep all that ended behind it.
                self._offsets = [(each.offset, origin) for origin, each in self.open.items()]
                heapify(self._offsets)

    def _forget(self, origin: int) -> None:
        half = self.open.pop(origin, None)
        if half is not None:
            self._origins.pop(half.offset, None)
            self.topics[half.topic] -= 1
            if not self.topics[half.topic]:
                del self.topics[half.topic]

    def add_op(self, op_offset: int, offsets: list[int], ending: Ending | None) -> None:
        """Take note of an end that is in the log: of all these records, or without ``ending`` of replaced ones.

        What we write about a transaction names its origin last; another broker knows nothing of origins.
        """
        self._ops.append((op_offset, max(offsets, default=-1)))
        if len(self._ops) > _MOST_OPS:
            self._join_ops()
        if ending is None:
            return
        is_ours = ending is not Ending.UNKNOWN
        for origin in offsets[-1:] if is_ours else [self._origins.get(offset, offset) for offset in offsets]:
            self._forget(origin)
            self._ended[origin] = ending
        while len(self._ended) > _REMEMBERED:
            del self._ended[next(iter(self._ended))]

    def _join_ops(self) -> None:
        """Take each two records of ends for one, that is as early as the first and as new as the newer."""
        ops = list(self._ops)
        pairs = zip(ops[::2], ops[1::2], strict=False)
        self._ops = deque((first, max(one, other)) for (first, one), (_, other) in pairs)
        self._ops.extend(ops[len(ops) // 2 * 2 :])

    def ending_of(self, origin: int) -> Ending | None:
        """Return how a transaction ended, or None if it is open, or nobody knows it any more."""
        on_its_way = self.ending.get(origin)
        return on_its_way.ending if on_its_way is not None else self._ended.get(origin)

    def not_written(self, end: int) -> None:
        """Take note that what was to be written behind a position of the log was not."""
        self.resumed = {position: behind for position, behind in self.resumed.items() if behind <= end}
        # Of a commit that lay across two files the message may be there and its end not: that has to be looked for.
        self.is_unsure |= bool(self.ending)

    def note(self, end: int) -> None:
        """Remember how far all is resolved; it is saved once the log is safe up to a position."""
        heap = self._offsets
        while heap and ((half := self.open.get(heap[0][1])) is None or half.offset != heap[0][0]):
            heappop(heap)
        first_open = heap[0][0] if heap else self.fed
        while self._ops and self._ops[0][1] < first_open:
            self._ops.popleft()
        reached = first_open, self._ops[0][0] if self._ops else self.fed_ops
        if reached != self._noted:
            self._noted = reached
            self.progress.note(end, reached)
