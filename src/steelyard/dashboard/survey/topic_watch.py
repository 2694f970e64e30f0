"""One topic, looked at again and again: its queues, how fast and how evenly they grow, and who reads it.

Queues are asked for with each look. Groups are asked for every few seconds, a few of them at a time: a topic may have
hundreds of readers, and each takes questions of its own.
"""

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct

from steelyard.client.admin.asking import together
from steelyard.client.admin.group_view import GroupView
from steelyard.client.admin.topic_wishes import may_in_words
from steelyard.client.admin.topics import QueueEnds, TopicView
from steelyard.client.moments import since_1970_ms
from steelyard.client.skew import rush, skew
from steelyard.dashboard.desk import Desk
from steelyard.dashboard.survey.pace import Meter
from steelyard.errors import SteelyardError
from steelyard.model import Queue, QueueCounts
from steelyard.model.names import DEAD, RETRY, is_system_topic
from steelyard.net.clock import now_ms

__all__ = ["BrokerPart", "QueueRow", "ReaderRow", "TopicAnswer", "TopicWatch"]

_GROUPS_MS = 3_000
_MOST_GROUPS = 24
"""Groups that are looked at: so many are asked for every few seconds."""
_MOST_QUEUES = 4_096


class QueueRow(Struct, frozen=True):
    """A queue, and how much of the topic is in it."""

    broker: str
    queue: int
    first: int
    next: int
    messages: int
    stored_ms: int | None
    in_rate: float | None
    """Messages stored a second; None until it was looked at twice."""
    share: float | None
    """Of the messages that are there; None if there is none."""
    in_share: float | None
    """Of the messages that come in now; None if none comes."""


class BrokerPart(Struct, frozen=True):
    """How a broker has the topic."""

    broker: str
    read: int
    write: int
    may: str
    messages: int
    in_rate: float | None
    share: float | None


class ReaderRow(Struct, frozen=True):
    """A group that reads the topic."""

    name: str
    members: int | None = None
    lag: int | None = None
    """How many messages of this topic wait; None where nobody tells."""
    out_rate: float | None = None
    problem: str | None = None
    """Why nothing is known of it."""


class TopicAnswer(Struct, frozen=True, kw_only=True):
    """A topic as it was at a moment."""

    topic: str
    kind: str
    at_ms: int
    queues: tuple[QueueRow, ...]
    brokers: tuple[BrokerPart, ...]
    messages: int
    in_rate: float | None
    stored_ms: int | None
    order: str | None
    """The fixed list of an ordered topic."""
    skew: str
    """How evenly messages lie, in a sentence."""
    rush: str | None
    """Where far more come in now than elsewhere."""
    groups: tuple[ReaderRow, ...]
    groups_more: int
    """How many more groups read it, which were not looked at."""
    groups_at_ms: int
    notes: tuple[str, ...]
    commands: tuple[str, ...]
    """What shows the same on the command line."""


class TopicWatch:
    """Looks at one topic, and remembers enough to tell how it grows."""

    def __init__(self, desk: Desk, topic: str) -> None:
        self.topic = topic
        self._desk = desk
        self._grown = Meter[Queue]()
        self._done: dict[str, Meter[Queue]] = {}
        self._names: list[str] = []
        self._groups: tuple[ReaderRow, ...] = ()
        self._groups_at_ms = 0

    async def look(self, before: TopicAnswer | None) -> TopicAnswer:
        """Look once more."""
        del before
        view = await self._desk.admin.topic(self.topic)
        at_ms = now_ms()
        self._grown.note(at_ms, {each.queue: each.end for each in view.queues})
        if at_ms - self._groups_at_ms >= _GROUPS_MS:
            await self._look_at_groups()
        return self._answer(view, at_ms)

    async def _look_at_groups(self) -> None:
        self._names = await self._desk.admin.topic_groups(self.topic)
        self._groups = tuple(await together(self._group, self._names[:_MOST_GROUPS], at_once=4))
        self._done = {row.name: self._done[row.name] for row in self._groups if row.name in self._done}
        self._groups_at_ms = now_ms()

    async def _group(self, name: str) -> ReaderRow:
        try:
            view = await self._desk.admin.glance(name)
        except SteelyardError as error:
            return ReaderRow(name, problem=error.what)
        mine = [each for each in view.queues if each.queue.topic == self.topic]
        meter = self._done.setdefault(name, Meter())
        meter.note(view.at_ms, {each.queue: each.committed for each in mine if each.committed is not None})
        return ReaderRow(name, len(view.members), _lag(view, self.topic), None if view.broadcast else meter.rate)

    def _answer(self, view: TopicView, at_ms: int) -> TopicAnswer:
        came, span_ms = self._grown.grown(), self._grown.span_ms
        rates = {queue: count * 1_000 / span_ms for queue, count in came.items()} if span_ms > 0 else {}
        total, total_rate = view.messages, sum(rates.values())
        return TopicAnswer(
            topic=self.topic,
            kind=_kind(self.topic),
            at_ms=at_ms,
            queues=tuple(_row(each, rates, total, total_rate) for each in view.queues[:_MOST_QUEUES]),
            brokers=tuple(_part(each, view, rates) for each in view.counts),
            messages=total,
            in_rate=self._grown.rate,
            stored_ms=_ms(view.stored_at),
            order=view.order,
            skew=skew(view.queues),
            rush=rush(came),
            groups=self._groups,
            groups_more=max(0, len(self._names) - len(self._groups)),
            groups_at_ms=self._groups_at_ms,
            notes=tuple(self._untold(view)),
            commands=(
                self._desk.command("topic", "show", self.topic),
                self._desk.command("topic", "settings", self.topic),
            ),
        )

    def _untold(self, view: TopicView) -> Iterable[str]:
        if len(view.queues) > _MOST_QUEUES:
            yield f"The topic has {len(view.queues):,} queues, and the first {_MOST_QUEUES:,} are shown."
        unknown = [row.name for row in self._groups if row.lag is None and row.problem is None]
        if unknown:
            yield (
                f"How far {', '.join(unknown[:3])}{' and others are' if len(unknown) > 3 else ' is'} behind, no broker "
                "tells: nothing was committed yet, or each member keeps its own offsets."
            )


def _lag(view: GroupView, topic: str) -> int | None:
    told = [each.lag for each in view.queues if each.queue.topic == topic and each.lag is not None]
    return None if view.broadcast or not told else sum(told)


def _row(each: QueueEnds, rates: dict[Queue, float], total: int, total_rate: float) -> QueueRow:
    rate = rates.get(each.queue)
    return QueueRow(
        each.queue.broker,
        each.queue.queue_id,
        each.start,
        each.end,
        each.messages,
        _ms(each.stored_at),
        rate,
        each.messages / total if total else None,
        rate / total_rate if rate is not None and total_rate else None,
    )


def _part(counts: QueueCounts, view: TopicView, rates: dict[Queue, float]) -> BrokerPart:
    messages = sum(each.messages for each in view.queues if each.queue.broker == counts.broker)
    mine = [rate for queue, rate in rates.items() if queue.broker == counts.broker]
    return BrokerPart(
        counts.broker,
        counts.read,
        counts.write,
        may_in_words(counts.permission),
        messages,
        sum(mine) if mine else None,
        messages / view.messages if view.messages else None,
    )


def _kind(topic: str) -> str:
    if topic.startswith(RETRY):
        return "retry"
    if topic.startswith(DEAD):
        return "dead letters"
    return "system" if is_system_topic(topic) else "users"


def _ms(when: datetime | None) -> int | None:
    return None if when is None else since_1970_ms(when)
