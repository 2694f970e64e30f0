"""Events → who had each queue when, how it changed hands, and how that compares with the least possible.

- A *holding* is one member's time with one queue. It ends when the member says so; a member that was killed never does.
- A *hand-over* is two holdings of a queue, one after the other. Its *gap* is from where the first ends to where the
  second begins: nobody read the queue then. It is a *move* if the owner is another one.
- An *overlap* is a time with two owners: both handle the queue's messages. It is a hazard.
- A *change* is a stretch of events with a quiet time before and after it: somebody came or went, and queues followed.
  What moved in it is held against the least that any even plan moves (balance/explain.py).

A member is *silent* if a queue it never gave up is taken by another after its own last word: it was killed, or its
record ends there. When it lost the queue nobody knows, so such a hand-over has no gap, and it is no overlap.

Whatever the events say, the work is in proportion to how many queues they name.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter

from steelyard.model import Queue, in_order
from steelyard.pipelines.report.changes import Change, changes_of
from steelyard.pipelines.report.events import Event

__all__ = ["Change", "HandOver", "History", "Holding", "Overlap", "history"]


@dataclass(frozen=True, slots=True)
class Holding:
    """A member's time with a queue."""

    queue: Queue
    member: str
    taken_ms: int
    ended_ms: int
    """When it gave it up; if it never said so, when it was last known to have it."""
    released: bool
    """Whether it said that it gave it up."""
    why: str = ""
    """Why it took it."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """A queue's way from one holding to the next."""

    queue: Queue
    before: str
    after: str
    released_ms: int | None
    """None if the owner before never said so."""
    taken_ms: int
    why: str = ""

    @property
    def is_move(self) -> bool:
        """Whether the owner is another one; else a member took back what it had given up."""
        return self.before != self.after

    @property
    def gap_ms(self) -> int | None:
        """How long nobody read it; None if that is not known."""
        return None if self.released_ms is None else max(0, self.taken_ms - self.released_ms)


@dataclass(frozen=True, slots=True)
class Overlap:
    """A time in which two members had a queue."""

    queue: Queue
    before: str
    after: str
    start_ms: int
    end_ms: int

    @property
    def span_ms(self) -> int:
        """How long it was."""
        return self.end_ms - self.start_ms


@dataclass(frozen=True, slots=True)
class History:
    """What became of a topic's queues in a group, from the first event to the last."""

    start_ms: int
    end_ms: int
    members: tuple[str, ...]
    """In the order in which they first spoke."""
    holdings: Mapping[Queue, tuple[Holding, ...]]
    hand_overs: tuple[HandOver, ...]
    """By time."""
    overlaps: tuple[Overlap, ...]
    changes: tuple[Change, ...]
    silent: tuple[str, ...]
    """Members that never said that they gave up what others took."""

    @property
    def moves(self) -> tuple[HandOver, ...]:
        """Hand-overs to another member."""
        return tuple(each for each in self.hand_overs if each.is_move)

    @property
    def gaps_ms(self) -> tuple[int, ...]:
        """The gaps that are known, from short to long."""
        return tuple(sorted(each.gap_ms for each in self.hand_overs if each.gap_ms is not None))

    @property
    def needed(self) -> int:
        """How many of the moves had to be, over all changes."""
        return sum(change.needed for change in self.changes)


@dataclass(slots=True)
class _Open:
    taken_ms: int
    why: str


@dataclass(slots=True)
class _Record:
    """What is known of one member while its events are gone through."""

    spoke_ms: int = 0
    has: dict[Queue, _Open] = field(default_factory=dict)


def history(events: Iterable[Event], topic: str | None = None) -> History | None:
    """Work out the history of a topic's queues, or of all; None if the events tell of none.

    >>> queue = Queue("orders", "broker-a", 0)
    >>> told = history([Event(0, "c1", (queue,), "c1 came"), Event(5_000, "c1", (), "c2 came"),
    ...                 Event(5_120, "c2", (queue,), "c2 came")])
    >>> [(each.before, each.after, each.gap_ms) for each in told.hand_overs]
    [('c1', 'c2', 120)]
    """
    in_time = sorted(_of_topic(events, topic), key=attrgetter("at_ms"))
    records: dict[str, _Record] = {}
    holdings: dict[Queue, list[Holding]] = {}
    for event in in_time:
        record = records.setdefault(event.id, _Record())
        record.spoke_ms = event.at_ms
        owns = frozenset(event.queues)
        for queue in [queue for queue in record.has if queue not in owns]:
            was = record.has.pop(queue)
            holdings.setdefault(queue, []).append(
                Holding(queue, event.id, was.taken_ms, event.at_ms, released=True, why=was.why)
            )
        for queue in event.queues:
            record.has.setdefault(queue, _Open(event.at_ms, event.why))
    if not any(record.has for record in records.values()) and not holdings:
        return None
    end_ms = in_time[-1].at_ms
    taken = _taken(records, holdings)
    silent: dict[str, int] = {}
    for member, record in records.items():
        for queue, has in record.has.items():
            # Taken by another after its last word: it did not live to say so.
            after = bisect_right(taken[queue], record.spoke_ms)
            is_silent = after < len(taken[queue])
            ended = record.spoke_ms if is_silent else end_ms
            holdings.setdefault(queue, []).append(
                Holding(queue, member, has.taken_ms, ended, released=False, why=has.why)
            )
            if is_silent:
                silent[member] = min(silent.get(member, end_ms), taken[queue][after])
    by_queue = {
        queue: tuple(sorted(holdings[queue], key=lambda each: (each.taken_ms, each.ended_ms, each.member)))
        for queue in in_order(holdings)
    }
    overs = sorted((over for held in by_queue.values() for over in _hand_overs(held)), key=attrgetter("taken_ms"))
    return History(
        start_ms=in_time[0].at_ms,
        end_ms=end_ms,
        members=tuple(records),
        holdings=by_queue,
        hand_overs=tuple(overs),
        overlaps=tuple(overlap for held in by_queue.values() for overlap in _overlaps(held)),
        changes=tuple(changes_of(in_time, silent, [over.taken_ms for over in overs if over.is_move])),
        silent=tuple(silent),
    )


def _of_topic(events: Iterable[Event], topic: str | None) -> Iterable[Event]:
    for event in events:
        if topic is None:
            yield event
        else:
            yield Event(event.at_ms, event.id, tuple(q for q in event.queues if q.topic == topic), event.why)


def _taken(records: Mapping[str, _Record], holdings: Mapping[Queue, Sequence[Holding]]) -> dict[Queue, list[int]]:
    """Return when each queue was taken, by time."""
    taken = {queue: [each.taken_ms for each in held] for queue, held in holdings.items()}
    for record in records.values():
        for queue, has in record.has.items():
            taken.setdefault(queue, []).append(has.taken_ms)
    return {queue: sorted(times) for queue, times in taken.items()}


def _hand_overs(held: Sequence[Holding]) -> Iterable[HandOver]:
    for one, next_one in pairwise(held):
        released_ms = one.ended_ms if one.released else None
        yield HandOver(one.queue, one.member, next_one.member, released_ms, next_one.taken_ms, next_one.why)


def _overlaps(held: Sequence[Holding]) -> Iterable[Overlap]:
    """Find times with two owners: each holding against the one before it that lasts longest."""
    longest: Holding | None = None
    for each in held:
        if longest is not None and longest.ended_ms > each.taken_ms:
            end_ms = min(longest.ended_ms, each.ended_ms)
            if end_ms > each.taken_ms:
                yield Overlap(each.queue, longest.member, each.member, each.taken_ms, end_ms)
        if longest is None or each.ended_ms > longest.ended_ms:
            longest = each
