"""What a survey has written down: rows of brokers, topics and groups, and what follows from several looks. Pure.

`Notebook.seen` is made when somebody wants it, from what was noted until then.
"""

import re
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from steelyard.balance.hazards import Hazard
from steelyard.client.admin.group_view import GroupView
from steelyard.client.admin.statistics import BrokerFlow
from steelyard.client.admin.topics import Topic, TopicKind, TopicView
from steelyard.client.checkup.groups import passes
from steelyard.client.short_names import short_names, shortened
from steelyard.dashboard.survey import hazards
from steelyard.dashboard.survey.pace import Meter
from steelyard.dashboard.survey.rows import broker_row, group_row, topic_row
from steelyard.dashboard.survey.values import BrokerRow, GroupRow, HazardRow, Point, Seen, TopicRow
from steelyard.model import Queue
from steelyard.model.names import DEAD

__all__ = ["Notebook"]

_MOST_POINTS = 600
"""Twenty minutes, a point every two seconds."""
_RATE_MS = 6_000
"""Over how long it is counted what passes through brokers."""
_GAP_MS = 15_000
"""Points that are further apart are not of one line."""
_GONE_MS = 3_600_000
"""How long a broker is missed that has signed off: by then somebody meant it."""
_BUSY_MS = 60_000
_DEAD_WINDOW_MS = 600_000
_ASKED_MS = 10_000
"""How long members of a group are left in peace."""
_FRESH_MS = 180_000
"""How long it counts what members said."""
_SAID = "said by a broker"
_PORT = re.compile(r":\d+")
_MOST_ROWS = 20_000
"""Topics, or groups, that are written down."""


_Flow = Meter[tuple[str, int]]
"""Of servers: a broker's name, and an id."""


@dataclass(slots=True)
class _TopicNote:
    listed: Topic
    row: TopicRow
    view: TopicView | None = None
    at_ms: int | None = None
    meter: Meter[Queue] = field(default_factory=Meter)


@dataclass(slots=True)
class _GroupNote:
    row: GroupRow
    view: GroupView | None = None
    close: GroupView | None = None
    """The last view for which members were asked."""
    asked_ms: int = 0
    """When that was tried."""
    found: tuple[Hazard, ...] = ()
    meter: Meter[Queue] = field(default_factory=Meter)


class Notebook:
    """All that is known, and by which looks."""

    def __init__(self) -> None:
        self._points: deque[Point] = deque(maxlen=_MOST_POINTS)
        self.forget()

    def forget(self) -> None:
        """Begin anew: what was seen long ago is not what is. The line of the last minutes stays."""
        self._brokers: tuple[BrokerRow, ...] = ()
        self._gone: dict[str, int] = {}
        """Brokers that were there, and when they were seen last."""
        self._in, self._out = _Flow(_RATE_MS), _Flow(_RATE_MS)
        self._topics: dict[str, _TopicNote] = {}
        self._groups: dict[str, _GroupNote] = {}
        self._left_out = ""
        self._seen: Seen | None = None
        self._at_ms = 0
        self.has_lists = False
        """Whether it is known which topics and groups there are."""
        self.masters = 1
        """How many brokers a question to all of them goes to."""

    @property
    def seen(self) -> Seen:
        """All of it, as it is known now."""
        if self._seen is None:
            self._seen = self._made()
        return self._seen

    # -- brokers ------------------------------------------------------------------------------------------------------

    def note_brokers(self, flows: Sequence[BrokerFlow], at_ms: int) -> None:
        """Write down what servers said, and how much passes now."""
        self._miss({each.broker for each in flows}, at_ms)
        self._at_ms, self._seen = at_ms, None
        servers = {(each.broker, each.id): each for each in flows}
        self._in.note(at_ms, {key: each.in_today for key, each in servers.items() if each.in_today is not None})
        self._out.note(at_ms, {key: each.out_today for key, each in servers.items() if each.out_today is not None})
        came, went = self._in.grown(), self._out.grown()
        span_ms = self._in.span_ms
        self._brokers = tuple(
            broker_row(each, _per_second(came.get(key), span_ms), _per_second(went.get(key), span_ms))
            for key, each in servers.items()
        )
        self.masters = max(1, sum(each.id == 0 for each in self._brokers))
        self._add_point(at_ms)

    def _miss(self, there: Collection[str], at_ms: int) -> None:
        """Remember brokers that were there at the last look, until they are back or an hour is over."""
        gone = self._gone | {each.name: self._at_ms for each in self._brokers if each.name not in there}
        self._gone = {name: ms for name, ms in gone.items() if name not in there and at_ms - ms < _GONE_MS}

    def _add_point(self, at_ms: int) -> None:
        if self._points and at_ms - self._points[-1].at_ms > _GAP_MS:
            self._points.append(Point(self._points[-1].at_ms + 1, None, None, None))
        # Replicas store what their masters store.
        came = _sum(each.in_rate for each in self._brokers if each.id == 0)
        went = _sum(each.out_rate for each in self._brokers)
        lags = [note.row.lag for note in self._groups.values() if note.row.lag is not None]
        is_known = self.has_lists and all(note.row.at_ms is not None for note in self._groups.values())
        self._points.append(Point(at_ms, came, went, sum(lags) if is_known else None))

    # -- topics -------------------------------------------------------------------------------------------------------

    def note_topics(self, listed: Iterable[Topic]) -> list[str]:
        """Write down which topics there are; return those that are worth a look."""
        self.has_lists, self._seen = True, None
        before, self._topics = self._topics, {}
        for each in listed:
            if len(self._topics) == _MOST_ROWS:
                self._left_out = f"There are more than {_MOST_ROWS:,} topics: the first of them are shown."
                break
            note = before.get(each.name) or _TopicNote(each, topic_row(each, None, None, None))
            if note.listed != each:
                note.listed, note.row = each, topic_row(each, note.view, note.meter.rate, note.at_ms)
            self._topics[each.name] = note
        return [
            name
            for name, note in self._topics.items()
            if note.listed.kind in (TopicKind.USERS, TopicKind.DEAD) and note.listed.brokers
        ]

    def note_topic(self, view: TopicView, at_ms: int) -> bool:
        """Write down the queues of a topic; return whether it is busy."""
        note = self._topics.get(view.name)
        if note is None:
            return False
        if note.listed.kind is TopicKind.DEAD and not note.at_ms:
            note.meter = Meter(_DEAD_WINDOW_MS)
        note.view, note.at_ms, self._seen = view, at_ms, None
        note.meter.note(at_ms, {each.queue: each.end for each in view.queues})
        note.row = topic_row(note.listed, view, note.meter.rate, at_ms)
        return note.row.stored_ms is not None and at_ms - note.row.stored_ms < _BUSY_MS

    # -- groups -------------------------------------------------------------------------------------------------------

    def note_groups(self, names: Sequence[str]) -> list[str]:
        """Write down which groups there are; return those that are worth a look."""
        before, kept = self._groups, names[:_MOST_ROWS]
        self._groups = {name: before.get(name) or _GroupNote(GroupRow(name=name)) for name in kept}
        self._seen = None
        return list(kept)

    def note_group(self, view: GroupView) -> None:
        """Write down a group as it is seen from afar."""
        note = self._groups.get(view.group)
        if note is None:
            return
        known = {hazard.kind for hazard in note.view.hazards} if note.view is not None else set()
        found = {each.kind: each for each in view.hazards if not passes(each) or each.kind in known}
        notes = view.notes
        if note.close is not None and view.members and view.at_ms - note.close.at_ms < _FRESH_MS:
            found |= {each.kind: each for each in note.close.hazards}
            notes = tuple(dict.fromkeys((*notes, *note.close.notes)))
        names = short_names(view.owned())
        told = _once(_named(each, names) for each in found.values())
        note.meter.note(view.at_ms, {each.queue: each.committed for each in view.queues if each.committed is not None})
        note.view, note.found, self._seen = view, told, None
        note.row = group_row(view, told, tuple(shortened(each, names) for each in notes), note.meter.rate)

    def note_unseen_group(self, name: str, why: str, at_ms: int) -> None:
        """Write down that a group could not be looked at."""
        note = self._groups.get(name)
        if note is not None:
            note.row = GroupRow(name=name, notes=(f"it could not be looked at: {why}",), at_ms=at_ms)
            self._seen = None

    def note_closely(self, view: GroupView) -> None:
        """Write down what members said; it is told with the next look from afar."""
        note = self._groups.get(view.group)
        if note is not None:
            note.close = view

    def view_of(self, group: str) -> GroupView | None:
        """Return the last view of a group."""
        note = self._groups.get(group)
        return None if note is None else note.view

    def close_view_of(self, group: str) -> GroupView | None:
        """Return the last view of a group for which its members were asked."""
        note = self._groups.get(group)
        return None if note is None else note.close

    def least_known(self, now_ms: int) -> str | None:
        """Return the group whose members have not been asked for longest, of those where only members know."""
        wanting = [
            (note.asked_ms, name)
            for name, note in self._groups.items()
            if now_ms - note.asked_ms >= _ASKED_MS and _wants(note)
        ]
        if not wanting:
            return None
        _, name = min(wanting)
        self._groups[name].asked_ms = now_ms
        return name

    # -- all ----------------------------------------------------------------------------------------------------------

    def _made(self) -> Seen:
        readers: dict[str, list[str]] = {}
        for name, note in self._groups.items():
            for topic in note.row.topics:
                readers.setdefault(topic, []).append(name)
        topics = {name: _read_by(note, tuple(readers.get(name, ()))) for name, note in self._topics.items()}
        groups = {name: self._with_dead(note.row) for name, note in self._groups.items()}
        asked = [name for name, note in self._groups.items() if _wants(note)]
        walked = [row.at_ms for row in topics.values() if row.kind in ("users", "dead letters") and row.brokers]
        # That there is none is known from the lists.
        nothing_ms = self._at_ms if self.has_lists else None
        return Seen(
            at_ms=self._at_ms,
            brokers=self._brokers,
            topics=topics,
            groups=groups,
            hazards=hazards.in_order_of_weight(self._hazards(topics)),
            points=tuple(self._points),
            notes=tuple(filter(None, (*hazards.untold(self._brokers, groups, asked), self._left_out))),
            groups_seen_ms=_oldest((row.at_ms for row in groups.values()), nothing_ms),
            topics_seen_ms=_oldest(walked, nothing_ms),
        )

    def _with_dead(self, row: GroupRow) -> GroupRow:
        if row.at_ms is None:
            return row
        dead = self._topics.get(f"{DEAD}{row.name}")
        # A group that never gave anything up has no topic for it.
        messages = (
            (0 if self.has_lists else None) if dead is None else None if dead.view is None else dead.view.messages
        )
        return replace(row, dead=messages)

    def _hazards(self, topics: dict[str, TopicRow]) -> Iterable[HazardRow]:
        yield from hazards.broker_hazards(self._brokers)
        yield from hazards.gone_brokers(self._gone, self._at_ms)
        for note in self._groups.values():
            yield from hazards.group_hazards(note.row, note.found)
        for name, topic in self._topics.items():
            if topic.listed.kind is TopicKind.DEAD and topic.view is not None:
                grown, span_ms = sum(topic.meter.grown().values()), topic.meter.span_ms
                group = name.removeprefix(DEAD)
                found = hazards.dead_letter_hazard(
                    group, topic.view.messages, topic.row.stored_ms, grown, span_ms, self._at_ms
                )
                if found is not None:
                    yield found
        yield from hazards.topic_hazards(topics.values())


def _read_by(note: _TopicNote, groups: tuple[str, ...]) -> TopicRow:
    """Return the row of a topic with its readers; one that is the same is not made anew, there are thousands."""
    if note.row.groups != groups:
        note.row = replace(note.row, groups=groups)
    return note.row


def _named(hazard: Hazard, names: Mapping[str, str]) -> Hazard:
    """Return a hazard with short names; what a broker of ours says is about whole ids, and comes without a kind."""
    if hazard.kind == hazard.sentence:
        return Hazard(_SAID, hazard.sentence)
    return Hazard(hazard.kind, shortened(hazard.sentence, names))


def _once(found: Iterable[Hazard]) -> tuple[Hazard, ...]:
    """Leave out what another broker said already: it sees the same with other ports."""
    told: dict[str, Hazard] = {}
    for each in found:
        told.setdefault(_PORT.sub("", each.sentence) if each.kind == _SAID else each.sentence, each)
    return tuple(told.values())


def _wants(note: _GroupNote) -> bool:
    """Say whether only members of a group know who has what."""
    view = note.view
    return (
        view is not None and bool(view.members) and not view.broadcast and not any(each.owners for each in view.queues)
    )


def _per_second(grown: int | None, span_ms: int) -> float | None:
    return None if grown is None or span_ms <= 0 else grown * 1_000 / span_ms


def _sum(rates: Iterable[float | None]) -> float | None:
    told = [rate for rate in rates if rate is not None]
    return sum(told) if told else None


def _oldest(times: Iterable[int | None], nothing_ms: int | None) -> int | None:
    known = list(times)
    if any(each is None for each in known):
        return None
    return min((each for each in known if each is not None), default=nothing_ms)
