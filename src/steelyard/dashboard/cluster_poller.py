"""Polls the whole cluster in the background, a little at a time, for all views that list something.

Polling starts with the first subscriber, and ends a minute after the last. Brokers are polled every two seconds; groups
and topics in turn, with a limit on requests per second and a pause as long as each poll took. More of them make a round
longer, and never a broker's work harder. What only members know is asked rarely, one group at a time. `PolledCluster`
is pure: what was polled goes in, and a snapshot is made of it on demand.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from msgspec.structs import replace

from steelyard.client.admin.admin import Admin
from steelyard.client.admin.brokers import BrokerThroughput
from steelyard.client.admin.group_description import GroupDescription
from steelyard.client.admin.topics import TopicDescription, TopicKind, TopicSummary
from steelyard.client.cluster_facts import describe_settled_group
from steelyard.dashboard import diagnostics
from steelyard.dashboard.cluster_snapshot import (
    DashboardSnapshot,
    GroupRow,
    RatePoint,
    ServerRow,
    TopicRow,
    WarningRow,
    group_row,
    server_row,
    topic_row,
)
from steelyard.dashboard.context import DashboardContext
from steelyard.dashboard.polling import PollFailure
from steelyard.dashboard.rates import PollQueue, RateMeter
from steelyard.diagnostics.group import is_transient
from steelyard.errors import SteelyardError
from steelyard.model import Queue
from steelyard.model.finding import Finding
from steelyard.model.formatting import short_names, shorten_ids
from steelyard.model.reserved_names import DLQ_PREFIX
from steelyard.net.clock import now_ms, steady_ms

_MAX_POINTS = 600  # twenty minutes, a point every two seconds
_RATE_WINDOW_MS = 6_000  # the window of the rates of brokers
_GAP_MS = 15_000  # points that are further apart are not connected in a chart
_FORGET_BROKER_MS = 3_600_000  # how long an unregistered broker is reported as missing: after that, it was meant
_BUSY_MS = 60_000
_DEAD_WINDOW_MS = 600_000
_ASK_INTERVAL_MS = 10_000  # how long members of a group are not asked again
_MEMBER_VIEW_TTL_MS = 180_000  # how long the answers of members are valid
_MAX_ROWS = 20_000  # topics, or groups, that are kept


_ServerMeter = RateMeter[tuple[str, int]]  # by broker name and id


@dataclass(slots=True)
class _TopicRecord:
    listed: TopicSummary
    row: TopicRow
    view: TopicDescription | None = None
    at_ms: int | None = None
    meter: RateMeter[Queue] = field(default_factory=RateMeter)


@dataclass(slots=True)
class _GroupRecord:
    row: GroupRow
    view: GroupDescription | None = None
    member_view: GroupDescription | None = None  # the last description for which members were asked
    asked_ms: int = 0  # when members were last asked
    warnings: tuple[Finding, ...] = ()
    meter: RateMeter[Queue] = field(default_factory=RateMeter)


class PolledCluster:
    """The newest state of everything that was polled."""

    def __init__(self) -> None:
        self._points: deque[RatePoint] = deque(maxlen=_MAX_POINTS)
        self.reset()

    def reset(self) -> None:
        """Forget everything but the points of the last minutes: what was polled long ago is stale."""
        self._brokers: tuple[ServerRow, ...] = ()
        self._gone: dict[str, int] = {}  # brokers that are not registered any more, and when they last were
        self._in_meter, self._out_meter = _ServerMeter(_RATE_WINDOW_MS), _ServerMeter(_RATE_WINDOW_MS)
        self._topics: dict[str, _TopicRecord] = {}
        self._groups: dict[str, _GroupRecord] = {}
        self._omission_note = ""
        self._snapshot: DashboardSnapshot | None = None
        self._at_ms = 0
        self.has_lists = False  # whether the lists of topics and groups are known
        self.master_count = 1  # how many requests a request to all brokers takes

    @property
    def snapshot(self) -> DashboardSnapshot:
        """Everything, as of now."""
        if self._snapshot is None:
            self._snapshot = self._make_snapshot()
        return self._snapshot

    def record_brokers(self, flows: Sequence[BrokerThroughput], at_ms: int) -> None:
        """Record the status of brokers, and compute their rates."""
        self._track_gone({each.broker for each in flows}, at_ms)
        self._at_ms, self._snapshot = at_ms, None
        servers = {(each.broker, each.id): each for each in flows}
        self._in_meter.add(at_ms, {key: each.in_today for key, each in servers.items() if each.in_today is not None})
        self._out_meter.add(at_ms, {key: each.out_today for key, each in servers.items() if each.out_today is not None})
        stored, delivered = self._in_meter.growth(), self._out_meter.growth()
        span_ms = self._in_meter.span_ms
        self._brokers = tuple(
            server_row(each, _per_second(stored.get(key), span_ms), _per_second(delivered.get(key), span_ms))
            for key, each in servers.items()
        )
        self.master_count = max(1, sum(each.id == 0 for each in self._brokers))
        self._add_point(at_ms)

    def _track_gone(self, present: Collection[str], at_ms: int) -> None:
        """Remember brokers that were registered before, until they are back or an hour is over."""
        gone = self._gone | {each.name: self._at_ms for each in self._brokers if each.name not in present}
        self._gone = {name: ms for name, ms in gone.items() if name not in present and at_ms - ms < _FORGET_BROKER_MS}

    def _add_point(self, at_ms: int) -> None:
        if self._points and at_ms - self._points[-1].at_ms > _GAP_MS:
            self._points.append(RatePoint(self._points[-1].at_ms + 1, None, None, None))
        # Replicas store what their masters store.
        stored = _sum(each.in_rate for each in self._brokers if each.id == 0)
        delivered = _sum(each.out_rate for each in self._brokers)
        lags = [record.row.lag for record in self._groups.values() if record.row.lag is not None]
        is_known = self.has_lists and all(record.row.at_ms is not None for record in self._groups.values())
        self._points.append(RatePoint(at_ms, stored, delivered, sum(lags) if is_known else None))

    def record_topics(self, listed: Iterable[TopicSummary]) -> list[str]:
        """Record the list of topics; return those to poll."""
        self.has_lists, self._snapshot = True, None
        before, self._topics = self._topics, {}
        for each in listed:
            if len(self._topics) == _MAX_ROWS:
                self._omission_note = f"There are more than {_MAX_ROWS:,} topics: the first of them are shown."
                break
            record = before.get(each.name) or _TopicRecord(each, topic_row(each, None, None, None))
            if record.listed != each:
                record.listed, record.row = each, topic_row(each, record.view, record.meter.rate, record.at_ms)
            self._topics[each.name] = record
        return [
            name
            for name, record in self._topics.items()
            if record.listed.kind in (TopicKind.USERS, TopicKind.DEAD) and record.listed.brokers
        ]

    def record_topic(self, view: TopicDescription, at_ms: int) -> bool:
        """Record the queues of a topic; return whether it is busy."""
        record = self._topics.get(view.name)
        if record is None:
            return False
        if record.listed.kind is TopicKind.DEAD and not record.at_ms:
            record.meter = RateMeter(_DEAD_WINDOW_MS)
        record.view, record.at_ms, self._snapshot = view, at_ms, None
        record.meter.add(at_ms, {each.queue: each.end for each in view.queues})
        record.row = topic_row(record.listed, view, record.meter.rate, at_ms)
        return record.row.stored_ms is not None and at_ms - record.row.stored_ms < _BUSY_MS

    def record_groups(self, names: Sequence[str]) -> list[str]:
        """Record the list of groups; return those to poll."""
        before, kept = self._groups, names[:_MAX_ROWS]
        self._groups = {name: before.get(name) or _GroupRecord(GroupRow(name=name)) for name in kept}
        self._snapshot = None
        return list(kept)

    def record_group(self, view: GroupDescription) -> None:
        """Record a group as its brokers describe it."""
        record = self._groups.get(view.group)
        if record is None:
            return
        known = {finding.kind for finding in record.view.findings} if record.view is not None else set()
        found = {each.kind: each for each in view.findings if not is_transient(each) or each.kind in known}
        notes = view.notes
        if (
            record.member_view is not None
            and view.members
            and view.at_ms - record.member_view.at_ms < _MEMBER_VIEW_TTL_MS
        ):
            found |= {each.kind: each for each in record.member_view.findings}
            notes = tuple(dict.fromkeys((*notes, *record.member_view.notes)))
        names = short_names(view.owned())
        warnings = tuple(_with_short_names(each, names) for each in found.values())
        record.meter.add(view.at_ms, {each.queue: each.committed for each in view.queues if each.committed is not None})
        record.view, record.warnings, self._snapshot = view, warnings, None
        record.row = group_row(view, warnings, tuple(shorten_ids(each, names) for each in notes), record.meter.rate)

    def record_unreachable_group(self, name: str, why: str, at_ms: int) -> None:
        """Record that a group could not be polled."""
        record = self._groups.get(name)
        if record is not None:
            record.row = GroupRow(name=name, notes=(f"it could not be polled: {why}",), at_ms=at_ms)
            self._snapshot = None

    def record_member_view(self, view: GroupDescription) -> None:
        """Record what members answered; it is merged with the next poll of the brokers."""
        record = self._groups.get(view.group)
        if record is not None:
            record.member_view = view

    def view_of(self, group: str) -> GroupDescription | None:
        """Return the last description of a group."""
        record = self._groups.get(group)
        return None if record is None else record.view

    def member_view_of(self, group: str) -> GroupDescription | None:
        """Return the last description of a group for which its members were asked."""
        record = self._groups.get(group)
        return None if record is None else record.member_view

    def next_group_to_ask(self, now_ms: int) -> str | None:
        """Return the group whose members were asked longest ago, of those where only members know the owners."""
        candidates = [
            (record.asked_ms, name)
            for name, record in self._groups.items()
            if now_ms - record.asked_ms >= _ASK_INTERVAL_MS and _needs_members(record)
        ]
        if not candidates:
            return None
        _, name = min(candidates)
        self._groups[name].asked_ms = now_ms
        return name

    def _make_snapshot(self) -> DashboardSnapshot:
        readers: dict[str, list[str]] = {}
        for name, record in self._groups.items():
            for topic in record.row.topics:
                readers.setdefault(topic, []).append(name)
        topics = {name: _with_readers(record, tuple(readers.get(name, ()))) for name, record in self._topics.items()}
        groups = {name: self._with_dead_letters(record.row) for name, record in self._groups.items()}
        asked = [name for name, record in self._groups.items() if _needs_members(record)]
        polled = [row.at_ms for row in topics.values() if row.kind in ("users", "dead letters") and row.brokers]
        # The lists say that there is none.
        nothing_ms = self._at_ms if self.has_lists else None
        return DashboardSnapshot(
            at_ms=self._at_ms,
            brokers=self._brokers,
            topics=topics,
            groups=groups,
            warnings=diagnostics.sort_by_severity(self._warnings(topics)),
            points=tuple(self._points),
            notes=tuple(filter(None, (*diagnostics.missing_notes(self._brokers, groups, asked), self._omission_note))),
            groups_seen_ms=_oldest((row.at_ms for row in groups.values()), nothing_ms),
            topics_seen_ms=_oldest(polled, nothing_ms),
        )

    def _with_dead_letters(self, row: GroupRow) -> GroupRow:
        if row.at_ms is None:
            return row
        dead = self._topics.get(f"{DLQ_PREFIX}{row.name}")
        # A group without dead letters has no topic for them.
        messages = (
            (0 if self.has_lists else None) if dead is None else None if dead.view is None else dead.view.messages
        )
        return replace(row, dead_letters=messages)

    def _warnings(self, topics: dict[str, TopicRow]) -> Iterable[WarningRow]:
        yield from diagnostics.broker_warnings(self._brokers, self._gone, self._at_ms)
        for group, seen in self._groups.items():
            yield from (diagnostics.warning_row("group", group, finding) for finding in seen.warnings)
        for name, topic in self._topics.items():
            if topic.listed.kind is TopicKind.DEAD and topic.view is not None:
                grown, span_ms = sum(topic.meter.growth().values()), topic.meter.span_ms
                yield from diagnostics.dead_letter_warnings(
                    name.removeprefix(DLQ_PREFIX), topic.view.messages, topic.row.stored_ms, grown, span_ms, self._at_ms
                )
        yield from diagnostics.topic_warnings(topics.values())


def _with_readers(record: _TopicRecord, groups: tuple[str, ...]) -> TopicRow:
    """Return the row of a topic with its readers; an equal row is reused, since there are thousands."""
    if record.row.groups != groups:
        record.row = replace(record.row, groups=groups)
    return record.row


def _with_short_names(warning: Finding, names: Mapping[str, str]) -> Finding:
    """Return a finding with short names."""
    what, step = (shorten_ids(text, names) for text in (warning.message, warning.next_step))
    return replace(warning, message=what, next_step=step)


def _needs_members(record: _GroupRecord) -> bool:
    """Say whether only the members of a group know who owns which queue."""
    view = record.view
    return (
        view is not None and bool(view.members) and not view.broadcast and not any(each.owners for each in view.queues)
    )


def _per_second(growth: int | None, span_ms: int) -> float | None:
    return None if growth is None or span_ms <= 0 else growth * 1_000 / span_ms


def _sum(rates: Iterable[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


def _oldest(times: Iterable[int | None], nothing_ms: int | None) -> int | None:
    known = list(times)
    if any(each is None for each in known):
        return None
    return min((each for each in known if each is not None), default=nothing_ms)


_PERIOD_MS = 2_000  # how often brokers are polled, and at most anything else
_LIST_POLL_MS = 10_000  # how often topics and groups are listed
_LINGER_MS = 60_000
_RESET_AFTER_MS = 60_000  # after a pause as long as that, everything is polled anew
_FIRST_WAIT_MS = 800  # how long a first request waits for rows; what was not polled by then comes later
_REQUESTS_PER_SECOND = 120  # for groups and for topics each
_MS_PER_GROUP, _MS_PER_TOPIC = 50, 60  # how much each of them adds to the time until it is polled again
_MEMBER_VIEW_POLL_MS = 3_000
_RETRY_S = 2.0
_IDLE_PAUSE_S = 0.05

_log = logging.getLogger("steelyard.dashboard")


class ClusterPoller:
    """Polls a cluster while there are subscribers, and for a while afterwards."""

    def __init__(self, admin: Admin, closing: asyncio.Event) -> None:
        self._admin, self._closing = admin, closing
        self._cluster = PolledCluster()
        self._group_queue, self._topic_queue = PollQueue(), PollQueue()
        self._began_ms = self._last_wanted_ms = self._stopped_ms = 0
        self._subscribers = 0
        self._poll_count = 0  # how many times brokers were polled
        self._is_announced = False  # whether subscribers were notified that everything was polled once
        self._failure: PollFailure | None = None
        self._updated = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def snapshot(self) -> DashboardSnapshot:
        """Return the newest snapshot; an error if not even name servers answer."""
        await self._first_poll()
        if self._failure is not None:
            raise self._failure.error
        return self._cluster.snapshot

    async def subscribe(self) -> AsyncIterator[DashboardSnapshot | PollFailure]:
        """Yield the newest snapshot, now and after each poll of the brokers."""
        self._subscribers += 1
        try:
            await self._first_poll()
            while True:
                updated = self._updated
                yield self._failure or self._cluster.snapshot
                await updated.wait()
        finally:
            self._subscribers -= 1
            self._last_wanted_ms = steady_ms()

    async def _first_poll(self) -> None:
        """Start polling, if it has stopped, and wait for enough to show."""
        self._last_wanted_ms = steady_ms()
        if self._task is None or self._task.done():
            if self._last_wanted_ms - self._stopped_ms > _RESET_AFTER_MS:
                self._cluster.reset()
                self._group_queue, self._topic_queue = PollQueue(), PollQueue()
                self._poll_count, self._is_announced = 0, False
            self._task = asyncio.get_running_loop().create_task(self._run())
            self._began_ms = self._last_wanted_ms
        until_ms = self._began_ms + _FIRST_WAIT_MS
        while not self._poll_count:
            await self._updated.wait()
        while self._is_incomplete and self._failure is None and (left_ms := until_ms - steady_ms()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left_ms / 1_000):
                    await self._updated.wait()

    @property
    def _is_incomplete(self) -> bool:
        return not (self._cluster.has_lists and self._group_queue.has_polled_all and self._topic_queue.has_polled_all)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        tasks = [
            loop.create_task(_repeat(work))
            for work in (
                self._refresh_lists,
                lambda: self._poll_in_turn(self._group_queue, self._poll_group),
                lambda: self._poll_in_turn(self._topic_queue, self._poll_topic),
                self._poll_members,
                self._poll_brokers,
            )
        ]
        try:
            while self._subscribers or steady_ms() - self._last_wanted_ms < _LINGER_MS:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_PERIOD_MS / 1_000):
                        await self._closing.wait()
                        return
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._stopped_ms = steady_ms()

    async def _poll_brokers(self) -> None:
        began_ms = steady_ms()
        try:
            self._cluster.record_brokers(await self._admin.brokers.throughput(), now_ms())
            self._failure = None
        except SteelyardError as error:
            self._failure = PollFailure(error)
        self._poll_count += 1
        self._notify()
        took_ms = steady_ms() - began_ms
        await asyncio.sleep(max(_PERIOD_MS - took_ms, took_ms) / 1_000)

    def _notify(self) -> None:
        self._updated.set()
        self._updated = asyncio.Event()

    def _notify_when_complete(self) -> None:
        """Notify subscribers at once when everything was polled for the first time: they wait for it."""
        if not self._is_announced and not self._is_incomplete:
            self._is_announced = True
            self._notify()

    async def _refresh_lists(self) -> None:
        """List the topics and groups."""
        began_ms = steady_ms()
        with suppress(SteelyardError):
            topics = await self._admin.topics.list(system=True)
            groups = await self._admin.groups.names()
            self._topic_queue.set_names(self._cluster.record_topics(topics))
            self._group_queue.set_names(self._cluster.record_groups(groups))
            self._notify_when_complete()
        took_ms = steady_ms() - began_ms
        await asyncio.sleep(max(_LIST_POLL_MS, 20 * took_ms) / 1_000 if self._cluster.has_lists else _RETRY_S)

    async def _poll_in_turn(self, queue: PollQueue, poll: Callable[[str], Awaitable[tuple[int, int]]]) -> None:
        """Poll the one that is due; a poll returns its number of requests, and when the next is due."""
        began_ms = steady_ms()
        name = queue.next_due(began_ms)
        if name is None:
            await asyncio.sleep(_IDLE_PAUSE_S)
            return
        requests, period_ms = await poll(name)
        queue.reschedule(name, began_ms + period_ms)
        self._notify_when_complete()
        # The cluster rests at least as long as the poll took, however slow it is.
        await asyncio.sleep(max(requests / _REQUESTS_PER_SECOND, (steady_ms() - began_ms) / 1_000))

    async def _poll_group(self, name: str) -> tuple[int, int]:
        try:
            self._cluster.record_group(await self._admin.groups.summarize(name, self._cluster.view_of(name)))
        except SteelyardError as error:
            self._cluster.record_unreachable_group(name, error.what, now_ms())
        return 1 + 2 * self._cluster.master_count, max(_PERIOD_MS, _MS_PER_GROUP * len(self._group_queue))

    async def _poll_topic(self, name: str) -> tuple[int, int]:
        is_busy = False
        # A deleted topic is missing in the next list.
        with suppress(SteelyardError):
            is_busy = self._cluster.record_topic(await self._admin.topics.describe(name), now_ms())
        return 1 + self._cluster.master_count, _PERIOD_MS if is_busy else max(
            _PERIOD_MS, _MS_PER_TOPIC * len(self._topic_queue)
        )

    async def _poll_members(self) -> None:
        """Ask the members of one group for their queues, where no broker knows."""
        await asyncio.sleep(_MEMBER_VIEW_POLL_MS / 1_000)
        name = self._cluster.next_group_to_ask(now_ms())
        if name is not None:
            # A member that does not answer now is asked again in its turn.
            with suppress(SteelyardError):
                view = await describe_settled_group(
                    self._admin, name, self._cluster.member_view_of(name), is_known=True
                )
                self._cluster.record_member_view(view)


async def _repeat(work: Callable[[], Awaitable[None]]) -> None:
    """Repeat something; a bug is logged, and does not end it."""
    while True:
        try:
            await work()
        except Exception:
            _log.exception("bug while polling the cluster")
            await asyncio.sleep(_RETRY_S)


def cluster_poller(context: DashboardContext) -> ClusterPoller:
    """Return the poller of this dashboard, made on first use."""
    poller: ClusterPoller | None = context.cache.get("cluster poller")
    if poller is None:
        poller = context.cache["cluster poller"] = ClusterPoller(context.admin, context.closing)
    return poller
