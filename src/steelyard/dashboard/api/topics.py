"""Topics: the list, from the cluster poller; and one topic by its queues, polled each second while it is shown.

Its groups are polled every few seconds, a few at a time: a topic may have hundreds of readers.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime

from msgspec import Struct

from steelyard.client.admin.admin_session import gather_limited
from steelyard.client.admin.group_description import GroupDescription
from steelyard.client.admin.offsets import QueueOffsets
from steelyard.client.admin.topic_plan import describe_permission
from steelyard.client.admin.topics import TopicDescription
from steelyard.client.describe import describe_hot_queues, describe_skew
from steelyard.client.times import to_epoch_ms
from steelyard.dashboard.api_routing import ApiRequest, query_route, stream_route
from steelyard.dashboard.cluster_poller import cluster_poller
from steelyard.dashboard.cluster_snapshot import DashboardSnapshot, TopicRow
from steelyard.dashboard.context import DashboardContext
from steelyard.dashboard.polling import PollFailure
from steelyard.dashboard.rate_history import KEPT_MS
from steelyard.dashboard.rates import RateMeter
from steelyard.errors import SteelyardError
from steelyard.model import Queue, QueueCounts
from steelyard.model.reserved_names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from steelyard.net.clock import now_ms

_GROUPS_MS = 3_000
_MAX_GROUPS = 24  # groups that are polled, every few seconds
_MAX_QUEUES = 4_096


class _QueueRow(Struct, frozen=True):
    """A queue, and how much of the topic is in it."""

    broker: str
    queue: int
    min_offset: int
    max_offset: int
    messages: int
    stored_ms: int | None
    in_rate: float | None  # messages stored per second; None until the second poll
    share: float | None  # of the stored messages; None if there are none
    in_share: float | None  # of the messages that arrive now; None if none do


class _TopicBroker(Struct, frozen=True):
    """The topic on one broker."""

    broker: str
    read_queues: int
    write_queues: int
    permission: str
    messages: int
    in_rate: float | None
    share: float | None


class _TopicReaderRow(Struct, frozen=True):
    """A group that reads the topic."""

    name: str
    members: int | None = None
    lag: int | None = None  # its lag in this topic; None if unknown
    out_rate: float | None = None
    problem: str | None = None  # why it could not be polled


class _TopicResponse(Struct, frozen=True, kw_only=True):
    """One topic."""

    topic: str
    kind: str
    at_ms: int
    queues: tuple[_QueueRow, ...]
    brokers: tuple[_TopicBroker, ...]
    messages: int
    in_rate: float | None
    stored_ms: int | None
    order: str | None  # the fixed list of an ordered topic
    skew: str  # how evenly messages are distributed, in a sentence
    hot_queue: str | None  # a queue that gets far more messages than the others now
    groups: tuple[_TopicReaderRow, ...]
    groups_more: int  # how many more groups read it, which were not polled
    groups_at_ms: int
    notes: tuple[str, ...]
    commands: tuple[str, ...]  # the command lines that show the same


class _TopicPoller:
    """Polls one topic, and keeps what is needed to measure its rates."""

    def __init__(self, context: DashboardContext, topic: str) -> None:
        self.topic = topic
        self._context = context
        self._in_meter = RateMeter[Queue]()
        self._out_meters: dict[str, RateMeter[Queue]] = {}
        self._names: list[str] = []
        self._groups: tuple[_TopicReaderRow, ...] = ()
        self._groups_at_ms = 0

    async def poll(self, _: _TopicResponse | None) -> _TopicResponse:
        """Poll once."""
        view = await self._context.admin.topics.describe(self.topic)
        at_ms = now_ms()
        self._in_meter.add(at_ms, {each.queue: each.end for each in view.queues})
        if at_ms - self._groups_at_ms >= _GROUPS_MS:
            await self._poll_groups()
        return self._response(view, at_ms)

    async def _poll_groups(self) -> None:
        self._names = await self._context.admin.topics.groups(self.topic)
        self._groups = tuple(await gather_limited(self._poll_group, self._names[:_MAX_GROUPS], limit=4))
        names = {row.name for row in self._groups}
        self._out_meters = {name: meter for name, meter in self._out_meters.items() if name in names}
        self._groups_at_ms = now_ms()

    async def _poll_group(self, name: str) -> _TopicReaderRow:
        try:
            view = await self._context.admin.groups.summarize(name)
        except SteelyardError as error:
            return _TopicReaderRow(name, problem=error.what)
        mine = [each for each in view.queues if each.queue.topic == self.topic]
        meter = self._out_meters.setdefault(name, RateMeter())
        meter.add(view.at_ms, {each.queue: each.committed for each in mine if each.committed is not None})
        return _TopicReaderRow(name, len(view.members), _lag(view, self.topic), None if view.broadcast else meter.rate)

    def _response(self, view: TopicDescription, at_ms: int) -> _TopicResponse:
        growth, span_ms = self._in_meter.growth(), self._in_meter.span_ms
        rates = {queue: count * 1_000 / span_ms for queue, count in growth.items()} if span_ms > 0 else {}
        total, total_rate = view.messages, sum(rates.values())
        return _TopicResponse(
            topic=self.topic,
            kind=_kind(self.topic),
            at_ms=at_ms,
            queues=tuple(_queue_row(each, rates, total, total_rate) for each in view.queues[:_MAX_QUEUES]),
            brokers=tuple(_topic_broker(each, view, rates) for each in view.counts),
            messages=total,
            in_rate=self._in_meter.rate,
            stored_ms=_ms(view.stored_at),
            order=view.order,
            skew=describe_skew(view.queues),
            hot_queue=describe_hot_queues(growth),
            groups=self._groups,
            groups_more=max(0, len(self._names) - len(self._groups)),
            groups_at_ms=self._groups_at_ms,
            notes=tuple(self._missing_notes(view)),
            commands=(
                self._context.command("topic", "show", self.topic),
                self._context.command("topic", "settings", self.topic),
            ),
        )

    def _missing_notes(self, view: TopicDescription) -> Iterable[str]:
        if len(view.queues) > _MAX_QUEUES:
            yield f"The topic has {len(view.queues):,} queues, and the first {_MAX_QUEUES:,} are shown."
        unknown = [row.name for row in self._groups if row.lag is None and row.problem is None]
        if unknown:
            yield (
                f"No broker knows the lag of {', '.join(unknown[:3])}{' and others' if len(unknown) > 3 else ''}: "
                "nothing was committed yet, or each member keeps its own offsets."
            )


def _lag(view: GroupDescription, topic: str) -> int | None:
    known = [each.lag for each in view.queues if each.queue.topic == topic and each.lag is not None]
    return None if view.broadcast or not known else sum(known)


def _queue_row(each: QueueOffsets, rates: dict[Queue, float], total: int, total_rate: float) -> _QueueRow:
    rate = rates.get(each.queue)
    return _QueueRow(
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


def _topic_broker(counts: QueueCounts, view: TopicDescription, rates: dict[Queue, float]) -> _TopicBroker:
    messages = sum(each.messages for each in view.queues if each.queue.broker == counts.broker)
    mine = [rate for queue, rate in rates.items() if queue.broker == counts.broker]
    return _TopicBroker(
        counts.broker,
        counts.read,
        counts.write,
        describe_permission(counts.permission),
        messages,
        sum(mine) if mine else None,
        messages / view.messages if view.messages else None,
    )


def _kind(topic: str) -> str:
    if topic.startswith(RETRY_PREFIX):
        return "retry"
    if topic.startswith(DLQ_PREFIX):
        return "dead letters"
    return "system" if is_system_topic(topic) else "users"


def _ms(when: datetime | None) -> int | None:
    return None if when is None else to_epoch_ms(when)


_PERIOD_MS = 1_000


class _TopicListResponse(Struct, frozen=True, kw_only=True):
    """All topics, or those that changed since the last event."""

    at_ms: int
    topics_seen_ms: int | None  # when the oldest row was polled; None while some topics were not polled at all
    is_full: bool
    rows: tuple[TopicRow, ...]
    removed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    command: str


def _topic_list(
    snapshot: DashboardSnapshot, command: str, previous: Mapping[str, TopicRow] | None = None
) -> _TopicListResponse:
    rows = snapshot.topics.values()
    return _TopicListResponse(
        at_ms=snapshot.at_ms,
        topics_seen_ms=snapshot.topics_seen_ms,
        is_full=previous is None,
        rows=tuple(rows if previous is None else (row for row in rows if previous.get(row.name) != row)),
        removed=() if previous is None else tuple(name for name in previous if name not in snapshot.topics),
        command=command,
    )


@query_route("/api/topics")
async def _topics(context: DashboardContext, _: ApiRequest) -> _TopicListResponse:
    return _topic_list(await cluster_poller(context).snapshot(), context.command("topic", "ls"))


@stream_route("/api/topics/live")
async def _topics_live(context: DashboardContext, _: ApiRequest) -> AsyncIterator[_TopicListResponse | PollFailure]:
    before: Mapping[str, TopicRow] | None = None
    command = context.command("topic", "ls")
    async for snapshot in cluster_poller(context).subscribe():
        if isinstance(snapshot, PollFailure):
            yield snapshot
        else:
            yield _topic_list(snapshot, command, before)
            before = snapshot.topics


@query_route("/api/topics/{topic}")
async def _topic(context: DashboardContext, request: ApiRequest) -> _TopicResponse:
    poller = _TopicPoller(context, request.path("topic"))
    return await context.polls.latest(("topic", poller.topic), _PERIOD_MS, poller.poll)


@stream_route("/api/topics/{topic}/live")
def _topic_live(context: DashboardContext, request: ApiRequest) -> AsyncIterator[_TopicResponse | PollFailure]:
    poller = _TopicPoller(context, request.path("topic"))
    return context.polls.subscribe(("topic", poller.topic), _PERIOD_MS, poller.poll)


@query_route("/api/topics/{topic}/rates")
async def _topic_rates(context: DashboardContext, request: ApiRequest) -> dict[str, object]:
    return {"points": context.rates.of_topic(request.path("topic")), "kept_ms": KEPT_MS}


ROUTES = (_topics, _topics_live, _topic, _topic_live, _topic_rates)
