"""Who owned which queue when: from event files of members, or from polling the group.

Members write events with ``steelyard consume --group … --events json``, each with all queues that a member owns from
then on: ``{"at_ms": 1793520000123, "id": "10.0.0.7@till-1#47#11@sy1", "queues": [["orders", "broker-a", 0]], "why":
"…"}``. Other lines are skipped and counted. Times are those of the member's machine.

A *holding* is one member's time with one queue. What follows from holdings, such as hand-overs and overlaps, is in
report/rebalance_history.py.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import attrgetter
from typing import IO, Annotated, NamedTuple, Protocol

import msgspec

from steelyard.client.admin.group_description import GroupDescription
from steelyard.errors import TransportError
from steelyard.model import Queue

LEAVE_REASON = "it leaves the group"
"""The reason of a member's last event; any other event without queues means that it is idle."""

MAX_EVENTS = 100_000  # the limit over all files: a group that changes once a minute writes as many in two months
POLL_INTERVAL_S = 0.5  # the time between two polls, unless there would be more than `_MAX_POLLS`

MAX_TIMESTAMP_MS = 253_402_300_799_999  # the last millisecond of the year 9999, the end of `datetime`

_MAX_LINE_BYTES = 4 << 20  # enough for fifty thousand queues
_MAX_POLLS = 2_000
_OBSERVED_REASON = "observed by polling"


def to_datetime(at_ms: int) -> datetime:
    """Return a time, at most the end of `datetime`."""
    at_ms = min(max(at_ms, 0), MAX_TIMESTAMP_MS)
    return datetime.fromtimestamp(at_ms // 1_000, UTC).replace(microsecond=at_ms % 1_000 * 1_000)


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


class EventFile(NamedTuple):
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
    # A line that is too long for an event comes in pieces, none of which is one.
    while line := file.readline(_MAX_LINE_BYTES):
        if not line.strip():
            continue
        try:
            event = _decode_event(line)
        except msgspec.DecodeError:
            others += 1
            continue
        if len(events) == most:
            return EventFile(tuple(events), others, is_truncated=True)
        events.append(event)
    return EventFile(tuple(events), others, is_truncated=False)


@dataclass(frozen=True, slots=True)
class LagSample:
    """The lag of the group in the topic at a moment."""

    at_ms: int
    messages: int


class GroupViewer(Protocol):
    """What can describe a group, as `Admin.groups` can."""

    def describe(self, name: str, earlier: GroupDescription | None = None) -> GroupDescription:
        """Describe a group."""


@dataclass(slots=True)
class WatchedGroup:
    """What was observed by polling. A change between two polls is dated at the second."""

    topic: str
    view: GroupDescription | None = None  # the last poll
    events: list[OwnershipEvent] = field(default_factory=list)
    lag_samples: list[LagSample] = field(default_factory=list)
    failed_polls: int = 0  # polls without an answer
    _owned: dict[str, frozenset[Queue]] = field(default_factory=dict)

    def add_view(self, view: GroupDescription) -> None:
        """Add a poll."""
        mine = [each for each in view.queues if each.queue.topic == self.topic]
        owned: dict[str, set[Queue]] = {member.id: set() for member in view.members}
        for each in mine:
            for owner in each.owners:
                owned.setdefault(owner, set()).add(each.queue)
        gone = sorted(self._owned.keys() - owned.keys())
        self.events += (OwnershipEvent(view.at_ms, name, (), LEAVE_REASON) for name in gone)
        for name, queues in owned.items():
            if self._owned.get(name) != frozenset(queues):
                self.events.append(OwnershipEvent(view.at_ms, name, tuple(sorted(queues)), _OBSERVED_REASON))
        self._owned = {name: frozenset(queues) for name, queues in owned.items()}
        self.lag_samples.append(LagSample(view.at_ms, sum(each.lag or 0 for each in mine)))
        self.view = view


def watch_group(
    groups: GroupViewer, group: str, topic: str, *, for_s: float, sleep: Callable[[float], object]
) -> WatchedGroup:
    """Poll a group for a time, and once at least."""
    watched = WatchedGroup(topic)
    watched.add_view(groups.describe(group))
    polls = min(int(for_s / POLL_INTERVAL_S), _MAX_POLLS)
    for _ in range(polls):
        sleep(for_s / polls)
        try:
            watched.add_view(groups.describe(group, earlier=watched.view))
        except TransportError:
            # A server that is unavailable for a moment is part of what is observed.
            watched.failed_polls += 1
    return watched


def merge_events(written: Iterable[OwnershipEvent], observed: Iterable[OwnershipEvent]) -> list[OwnershipEvent]:
    """Merge what members wrote and what was observed: for a member that wrote events, those win.

    >>> queue = Queue("orders", "broker-a", 0)
    >>> written = [OwnershipEvent(5, "c1", (queue,))]
    >>> observed = [OwnershipEvent(7, "c1", (queue,)), OwnershipEvent(7, "c2", ())]
    >>> [(event.at_ms, event.id) for event in merge_events(written, observed)]
    [(5, 'c1'), (7, 'c2')]
    """
    events = list(written)
    writers = {event.id for event in events}
    return events + [event for event in observed if event.id not in writers]


@dataclass(frozen=True, slots=True, order=True)
class QueueHolding:
    """A member's time with a queue."""

    queue: Queue
    acquired_ms: int
    ended_ms: int  # when it released it; if it never did, when it was last known to own it
    member: str
    released: bool = False  # whether it released it
    why: str = ""  # why it acquired it


def queue_holdings(events: Iterable[OwnershipEvent], topic: str) -> list[QueueHolding]:
    """Return who owned which queue of a topic when, by queue and time.

    A killed member never releases a queue. If another acquires it later, the holding ends at the member's last event.

    >>> queue = Queue("orders", "broker-a", 0)
    >>> events = [OwnershipEvent(0, "c1", (queue,)), OwnershipEvent(5_000, "c1", ())]
    >>> held = queue_holdings([*events, OwnershipEvent(5_120, "c2", (queue,))], "orders")
    >>> [(each.member, each.acquired_ms, each.ended_ms) for each in held]
    [('c1', 0, 5000), ('c2', 5120, 5120)]
    """
    holdings: list[QueueHolding] = []
    owned: dict[str, dict[Queue, OwnershipEvent]] = {}  # with what event each member acquired what it owns
    last_event_ms: dict[str, int] = {}
    last_acquired_ms: dict[Queue, int] = {}
    end_ms = 0
    for event in sorted(events, key=attrgetter("at_ms")):
        end_ms = last_event_ms[event.id] = event.at_ms
        mine, owns = owned.setdefault(event.id, {}), {queue for queue in event.queues if queue.topic == topic}
        for queue in mine.keys() - owns:
            since = mine.pop(queue)
            holdings.append(QueueHolding(queue, since.at_ms, event.at_ms, event.id, released=True, why=since.why))
        for queue in owns - mine.keys():
            mine[queue], last_acquired_ms[queue] = event, event.at_ms
    for member, mine in owned.items():
        last_ms = last_event_ms[member]
        for queue, since in mine.items():
            ended_ms = last_ms if last_acquired_ms[queue] > last_ms else end_ms
            holdings.append(QueueHolding(queue, since.at_ms, ended_ms, member, why=since.why))
    return sorted(holdings)
