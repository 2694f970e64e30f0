"""Ownership events of members → who owned each queue when, hand-overs, overlaps, and changes of the group. Pure.

Members write events with ``steelyard consume --group … --events json``, each with all queues that a member owns from
then on: ``{"at_ms": 1793520000123, "id": "10.0.0.7@till-1#47#11@sy1", "queues": [["orders", "broker-a", 0]], "why":
"…"}``. Other lines are skipped and counted. Times are those of the member's machine.

- A *holding* is one member's time with one queue. It ends when the member releases it; a killed member never does.
- A *hand-over* is two consecutive holdings. Its *gap* had no owner. It is a *move* if the owner is another member.
- An *overlap* is a time with two owners: both handle the queue's messages.
- A *change* is a burst of events between quiet times. Its moves are compared with the minimum of any even plan
  (balance/assignors/explain.py). A queue without an owner counts for its last one, so that it is not taken for new.

A member is *silent* if another acquires a queue that it never released, after its last event: it was killed, or its
file ends there. Such a hand-over has no known gap, and is no overlap. The work is proportional to the queues in the
events; of a very long history only the first changes are explained.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import IO, Annotated

import msgspec

from steelyard.balance.assignors.explain import Explanation, explain
from steelyard.model import Queue, sort_names, sort_queues
from steelyard.pipelines.report.formatting import MAX_TIMESTAMP_MS

__all__ = [
    "LEAVE_REASON",
    "MAX_EVENTS",
    "SETTLED_AFTER_MS",
    "EventFile",
    "Handover",
    "OwnershipChange",
    "OwnershipEvent",
    "OwnershipHistory",
    "OwnershipOverlap",
    "QueueHolding",
    "build_history",
    "read_events",
]


LEAVE_REASON = "it leaves the group"
"""The reason of a member's last event; any other event without queues means that it is idle."""

MAX_EVENTS = 100_000  # the limit over all files: a group that changes once a minute writes as many in two months

_MAX_LINE_BYTES = 4 << 20  # enough for fifty thousand queues


class OwnershipEvent(msgspec.Struct, frozen=True):
    """All queues that a member owns from a moment on."""

    at_ms: Annotated[int, msgspec.Meta(ge=0, le=MAX_TIMESTAMP_MS)]
    id: str
    queues: tuple[Queue, ...]
    why: str = ""

    @property
    def is_leave(self) -> bool:
        """Whether the member leaves in order."""
        return not self.queues and self.why == LEAVE_REASON


class EventFile(msgspec.Struct, frozen=True):
    """The events of a file."""

    events: tuple[OwnershipEvent, ...]
    skipped_lines: int  # lines that are no events
    is_truncated: bool  # whether there are more events than the limit


_decode_event = msgspec.json.Decoder(OwnershipEvent).decode


def read_events(file: IO[bytes], *, most: int = MAX_EVENTS) -> EventFile:
    r"""Read the events of a file, and count other lines.

    >>> from io import BytesIO
    >>> lines = read_events(BytesIO(b'{"at_ms": 5, "id": "c1", "queues": [["orders", "broker-a", 0]]}\nstopped\n'))
    >>> lines.events[0].queues, lines.skipped_lines
    ((Queue(topic='orders', broker='broker-a', queue_id=0),), 1)
    """
    events: list[OwnershipEvent] = []
    others = 0
    for line in _whole_lines(file):
        if not line.strip():
            continue
        event = _parse_event(line)
        if event is None:
            others += 1
        elif len(events) == most:
            return EventFile(tuple(events), others, is_truncated=True)
        else:
            events.append(event)
    return EventFile(tuple(events), others, is_truncated=False)


def _whole_lines(file: IO[bytes]) -> Iterable[bytes]:
    """Iterate over lines; one that is too long for an event comes in pieces, none of which is one."""
    while line := file.readline(_MAX_LINE_BYTES):
        yield line


def _parse_event(line: bytes) -> OwnershipEvent | None:
    try:
        return _decode_event(line)
    except msgspec.DecodeError:
        return None


SETTLED_AFTER_MS = 1_000
"""A change is over when there was no event for this time; hand-overs of a planned change take less.

Rather too short than too long: two changes that count as one seem to move more than necessary, while one that is split
only shows its queues in two rows.
"""

_MAX_WORK = 5_000_000  # queues and members, summed over changes, up to which changes are explained


@dataclass(frozen=True, slots=True)
class OwnershipChange:
    """One change of a group: who joined and left, how many queues moved, and the minimum."""

    start_ms: int
    end_ms: int
    joined: tuple[str, ...]
    left: tuple[str, ...]
    lost: tuple[str, ...]  # members that became silent
    moves: int  # how many queues moved to another member
    explanation: Explanation

    members: int = 0  # the number of members after it

    @property
    def minimum_moves(self) -> int:
        """The minimum of moves of any even plan."""
        return self.explanation.least

    @property
    def necessary_moves(self) -> int:
        """How many of its moves were necessary; an unfinished change has made fewer than the minimum."""
        return min(self.moves, self.minimum_moves)

    @property
    def cause(self) -> str:
        """Who joined and left, as text.

        >>> OwnershipChange(0, 9, ("c3",), ("c1",), (), 2, explain({}, {})).cause
        'c3 joined, c1 left'
        """
        parts = [("joined", self.joined), ("left", self.left), ("became silent", self.lost)]
        return ", ".join(f"{', '.join(who)} {verb}" for verb, who in parts if who) or "no member joined or left"


def _find_changes(
    events: Sequence[OwnershipEvent], silent: Mapping[str, int], moved_ms: Sequence[int]
) -> Iterator[OwnershipChange]:
    """Split events into changes. ``silent`` has when silent members lost a queue; ``moved_ms`` are moves, by time."""
    owned: dict[str, frozenset[Queue]] = {}
    last_owner: dict[Queue, str] = {}
    work = 0
    for burst in _bursts(events):
        work += len(owned) + len(last_owner)
        if work > _MAX_WORK:
            return
        start_ms, end_ms = burst[0].at_ms, burst[-1].at_ms
        before = _with_unowned(owned, last_owner)
        present = set(owned)
        lost = sort_names(name for name in owned if silent.get(name, end_ms + 1) <= end_ms)
        for event in burst:
            if event.is_leave:
                owned.pop(event.id, None)
            else:
                owned[event.id] = frozenset(event.queues)
            last_owner.update(dict.fromkeys(event.queues, event.id))
        for name in lost:
            owned.pop(name, None)
        joined = tuple(name for name in sort_names(owned) if name not in present)
        left = tuple(name for name in sort_names(present) if name not in owned and name not in lost)
        moves = bisect_right(moved_ms, end_ms) - bisect_left(moved_ms, start_ms)
        if not (joined or left or lost or moves):
            continue
        explanation = explain(before, {name: list(mine) for name, mine in owned.items()})
        yield OwnershipChange(start_ms, end_ms, joined, left, tuple(lost), moves, explanation, len(owned))


def _bursts(events: Sequence[OwnershipEvent]) -> Iterator[list[OwnershipEvent]]:
    burst: list[OwnershipEvent] = []
    for event in events:
        if burst and event.at_ms - burst[-1].at_ms > SETTLED_AFTER_MS:
            yield burst
            burst = []
        burst.append(event)
    if burst:
        yield burst


def _with_unowned(owned: Mapping[str, Iterable[Queue]], last_owner: Mapping[Queue, str]) -> dict[str, list[Queue]]:
    before = {name: list(mine) for name, mine in owned.items()}
    has_owner = {queue for mine in owned.values() for queue in mine}
    for queue, name in last_owner.items():
        if queue not in has_owner:
            before.setdefault(name, []).append(queue)
    return before


@dataclass(frozen=True, slots=True)
class QueueHolding:
    """A member's time with a queue."""

    queue: Queue
    member: str
    acquired_ms: int
    ended_ms: int  # when it released it; if it never did, when it was last known to own it
    released: bool  # whether it released it
    why: str = ""  # why it acquired it


@dataclass(frozen=True, slots=True)
class Handover:
    """A queue between two holdings."""

    queue: Queue
    before: str
    after: str
    released_ms: int | None  # None if the previous owner never released it
    acquired_ms: int
    why: str = ""

    @property
    def is_move(self) -> bool:
        """Whether the owner is another member; else a member reacquired a queue."""
        return self.before != self.after

    @property
    def gap_ms(self) -> int | None:
        """How long it had no owner; None if unknown."""
        return None if self.released_ms is None else max(0, self.acquired_ms - self.released_ms)


@dataclass(frozen=True, slots=True)
class OwnershipOverlap:
    """A time with two owners of a queue."""

    queue: Queue
    before: str
    after: str
    start_ms: int
    end_ms: int

    @property
    def span_ms(self) -> int:
        """Its duration."""
        return self.end_ms - self.start_ms


@dataclass(frozen=True, slots=True)
class OwnershipHistory:
    """The ownership of a topic's queues in a group, from the first event to the last."""

    start_ms: int
    end_ms: int
    members: tuple[str, ...]  # in the order of their first events
    holdings: Mapping[Queue, tuple[QueueHolding, ...]]
    handovers: tuple[Handover, ...]  # by time
    overlaps: tuple[OwnershipOverlap, ...]
    changes: tuple[OwnershipChange, ...]
    silent: tuple[str, ...]  # members that never released what others acquired

    @property
    def moves(self) -> tuple[Handover, ...]:
        """Hand-overs to another member."""
        return tuple(each for each in self.handovers if each.is_move)

    @property
    def gaps_ms(self) -> tuple[int, ...]:
        """The known gaps, in ascending order."""
        return tuple(sorted(each.gap_ms for each in self.handovers if each.gap_ms is not None))

    @property
    def necessary_moves(self) -> int:
        """How many of the moves were necessary, over all changes."""
        return sum(change.necessary_moves for change in self.changes)


@dataclass(slots=True)
class _OpenHolding:
    acquired_ms: int
    why: str


@dataclass(slots=True)
class _MemberTimeline:
    """The state of one member while its events are processed."""

    last_event_ms: int = 0
    open: dict[Queue, _OpenHolding] = field(default_factory=dict)


def build_history(events: Iterable[OwnershipEvent], topic: str | None = None) -> OwnershipHistory | None:
    """Build the history of a topic's queues, or of all; None if the events have none.

    >>> queue = Queue("orders", "broker-a", 0)
    >>> events = [OwnershipEvent(0, "c1", (queue,)), OwnershipEvent(5_000, "c1", ())]
    >>> history = build_history([*events, OwnershipEvent(5_120, "c2", (queue,))])
    >>> [(each.before, each.after, each.gap_ms) for each in history.handovers]
    [('c1', 'c2', 120)]
    """
    in_time = sorted(_of_topic(events, topic), key=attrgetter("at_ms"))
    records: dict[str, _MemberTimeline] = {}
    holdings: dict[Queue, list[QueueHolding]] = {}
    for event in in_time:
        record = records.setdefault(event.id, _MemberTimeline())
        record.last_event_ms = event.at_ms
        owns = frozenset(event.queues)
        for queue in [queue for queue in record.open if queue not in owns]:
            was = record.open.pop(queue)
            holdings.setdefault(queue, []).append(
                QueueHolding(queue, event.id, was.acquired_ms, event.at_ms, released=True, why=was.why)
            )
        for queue in event.queues:
            record.open.setdefault(queue, _OpenHolding(event.at_ms, event.why))
    if not any(record.open for record in records.values()) and not holdings:
        return None
    end_ms = in_time[-1].at_ms
    acquired = _acquisition_times(records, holdings)
    silent: dict[str, int] = {}
    for member, record in records.items():
        for queue, has in record.open.items():
            # Acquired by another after its last event: it was killed, or its file ends there.
            after = bisect_right(acquired[queue], record.last_event_ms)
            is_silent = after < len(acquired[queue])
            ended = record.last_event_ms if is_silent else end_ms
            holdings.setdefault(queue, []).append(
                QueueHolding(queue, member, has.acquired_ms, ended, released=False, why=has.why)
            )
            if is_silent:
                silent[member] = min(silent.get(member, end_ms), acquired[queue][after])
    by_queue = {
        queue: tuple(sorted(holdings[queue], key=lambda each: (each.acquired_ms, each.ended_ms, each.member)))
        for queue in sort_queues(holdings)
    }
    overs = sorted((over for held in by_queue.values() for over in _handovers(held)), key=attrgetter("acquired_ms"))
    return OwnershipHistory(
        start_ms=in_time[0].at_ms,
        end_ms=end_ms,
        members=tuple(records),
        holdings=by_queue,
        handovers=tuple(overs),
        overlaps=tuple(overlap for held in by_queue.values() for overlap in _overlaps(held)),
        changes=tuple(_find_changes(in_time, silent, [over.acquired_ms for over in overs if over.is_move])),
        silent=tuple(silent),
    )


def _of_topic(events: Iterable[OwnershipEvent], topic: str | None) -> Iterable[OwnershipEvent]:
    for event in events:
        if topic is None:
            yield event
        else:
            yield OwnershipEvent(event.at_ms, event.id, tuple(q for q in event.queues if q.topic == topic), event.why)


def _acquisition_times(
    records: Mapping[str, _MemberTimeline], holdings: Mapping[Queue, Sequence[QueueHolding]]
) -> dict[Queue, list[int]]:
    """Return when each queue was acquired, in ascending order."""
    acquired = {queue: [each.acquired_ms for each in held] for queue, held in holdings.items()}
    for record in records.values():
        for queue, has in record.open.items():
            acquired.setdefault(queue, []).append(has.acquired_ms)
    return {queue: sorted(times) for queue, times in acquired.items()}


def _handovers(held: Sequence[QueueHolding]) -> Iterable[Handover]:
    for one, next_one in pairwise(held):
        released_ms = one.ended_ms if one.released else None
        yield Handover(one.queue, one.member, next_one.member, released_ms, next_one.acquired_ms, next_one.why)


def _overlaps(held: Sequence[QueueHolding]) -> Iterable[OwnershipOverlap]:
    """Find times with two owners: compare each holding with the longest one before it."""
    longest: QueueHolding | None = None
    for each in held:
        if longest is not None and longest.ended_ms > each.acquired_ms:
            end_ms = min(longest.ended_ms, each.ended_ms)
            if end_ms > each.acquired_ms:
                yield OwnershipOverlap(each.queue, longest.member, each.member, each.acquired_ms, end_ms)
        if longest is None or each.ended_ms > longest.ended_ms:
            longest = each
