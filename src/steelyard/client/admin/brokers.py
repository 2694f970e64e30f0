"""Brokers: listed, described in numbers, configured, probed; writes stopped and allowed, expired files cleaned.

Settings have the server's own names. A name that a broker does not list is refused here: Apache's brokers accept it
silently and ignore it. Whether clients may write to a broker is a part of the routes, which each name server keeps for
itself: a change is sent to all of them. A probe sends one message to the topic that has the name of the broker.

Of disk, flushing and last start our brokers send a report. Apache's send text for people ("Total : 252.0 GiB, Free :
1.2 GiB."), which is parsed as far as it goes; what they do not send is None, not guessed.
"""

import asyncio
import builtins
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum

from steelyard.client.admin.admin_session import AdminPart, BrokerInstance, gather_limited
from steelyard.client.suggestions import closest_match
from steelyard.client.times import from_epoch_ms
from steelyard.errors import (
    BrokerNotFound,
    CannotConnect,
    ConfigurationError,
    InvalidParameter,
    NoPermission,
    NotFound,
    ServerFailed,
    SteelyardError,
    error_for,
)
from steelyard.model import BrokerAddresses, Permission, Queue
from steelyard.model.formatting import format_duration, pluralize
from steelyard.model.reserved_names import is_system_topic
from steelyard.net.clock import now_ms, steady_ns
from steelyard.protocol.member_responses import parse_uptime_ms
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.common import KVTable, decode_settings, encode_settings
from steelyard.wire.bodies.stats import REPORT_NAME, BrokerConsumeStats, BrokerReport, RecoveryReport
from steelyard.wire.bodies.topics import TopicConfigTable
from steelyard.wire.codes import STORED_CODES, RequestCode, ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.headers.admin import GetBrokerConsumeStats
from steelyard.wire.headers.nameserver import WritePermissionRequest, WritePermissionResponse
from steelyard.wire.headers.send import SendMessageV2

_FIRST_RATES_S = 1.2
_SECRET_WORDS = ("password", "secret", "credential", "token", "initauthenticationuser", "exporterheader")
_PROBE_GROUP = "TOOLS_PROBE"
_MAX_PROBE_BYTES = 4 * 1024 * 1024
_MAX_START_MS = 366 * 24 * 3_600_000
"""A broker that sends more is mistaken; without a limit the time span could not be represented."""
_UNITS = {"B": 1, **{f"{letter}iB": 1 << 10 * power for power, letter in enumerate("KMGTPE", 1)}}


@dataclass(frozen=True, slots=True)
class RateAverages:
    """A rate a second over the last ten seconds, minute and ten minutes; a young broker does not have all."""

    ten_seconds: float
    minute: float | None = None
    ten_minutes: float | None = None


def _parse_rates(text: str | None) -> RateAverages | None:
    """Parse up to three numbers with blanks between them.

    >>> _parse_rates("12.5 11.9 10.0"), _parse_rates("soon")
    (RateAverages(ten_seconds=12.5, minute=11.9, ten_minutes=10.0), None)
    """
    try:
        numbers = [float(each) for each in (text or "").split()]
    except ValueError:
        return None
    return RateAverages(*numbers[:3]) if numbers else None


def _parse_ratio(text: str | None) -> float | None:
    """Parse a share of a disk, from 0 to 1; Apache writes -1 where it is unknown.

    >>> _parse_ratio("0.25"), _parse_ratio("-1.0"), _parse_ratio("")
    (0.25, None, None)
    """
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number <= 1 else None


def _parse_position(text: str | None) -> int | None:
    """Parse a position in the log; Apache writes -1 for the beginning of an empty one.

    >>> _parse_position("4096"), _parse_position("-1"), _parse_position(None)
    (4096, 0, None)
    """
    number = parse_int(text)
    return None if number is None else max(0, number)


def parse_int(text: str | None) -> int | None:
    """Parse an integer, if it is one."""
    try:
        return int(text or "")
    except ValueError:
        return None


def _parse_bytes(text: str) -> int | None:
    """Parse a number of bytes as Apache prints it, if it is one.

    >>> _parse_bytes("940 B"), _parse_bytes("1.2 KiB"), _parse_bytes("plenty")
    (940, 1229, None)
    """
    number, _, unit = text.partition(" ")
    try:
        count = float(number) * _UNITS[unit]
    except (KeyError, ValueError):
        return None
    return round(count) if 0 <= count < 1 << 63 else None


@dataclass(frozen=True, slots=True)
class BrokerDisk:
    """The disk of a broker's log, and how much of it the log uses."""

    size_bytes: int | None
    """The size of the disk; None if it has no limit, as in memory."""
    free_bytes: int | None
    log_bytes: int | None = None
    log_files: int | None = None


@dataclass(frozen=True, slots=True)
class FlushStatus:
    """How a broker flushes messages to disk."""

    mode: str | None
    """``sync``: before it answers; ``async``: some time later. None if only its settings say so."""
    interval_ms: int | None
    unflushed_bytes: int | None
    """What a power failure would lose now."""
    last_ms: float | None = None


@dataclass(frozen=True, slots=True)
class LogDamage:
    """A damaged place of the log.

    >>> str(LogDamage("commitlog/00000000000000000000", 4_096, 120, 1, "damaged"))
    'commitlog/00000000000000000000, position 4096: 120 bytes are damaged, 1 message lost'
    """

    path: str
    position: int
    size_bytes: int
    messages: int | None
    """How many messages were lost, as far as that is known."""
    what: str

    def __str__(self) -> str:
        lost = "" if self.messages is None else f", {pluralize(self.messages, 'message')} lost"
        return f"{self.path}, position {self.position}: {self.size_bytes} bytes are {self.what}{lost}"


@dataclass(frozen=True, slots=True)
class BrokerRecovery:
    """What a broker found when it was started, and what it had to do."""

    found: str
    """``nothing``: an empty directory; ``closed``: a clean shutdown; ``unclosed``: the log had to be scanned."""
    records: int
    """Complete messages that were read."""
    read_bytes: int
    cut_bytes: int
    """Bytes after the last complete message, which were cut off."""
    damages: int
    """Damaged places before it."""
    took: timedelta | None

    def __str__(self) -> str:
        found = _FOUND.get(self.found, self.found)
        if self.found != "unclosed":
            return found
        took = "" if self.took is None else f" in {format_duration(self.took)}"
        cut = f", {pluralize(self.cut_bytes, 'byte')} cut off" if self.cut_bytes else ""
        damaged = f", {pluralize(self.damages, 'damaged place')}" if self.damages else ""
        return f"{found}; {pluralize(self.records, 'message')} read again{took}{cut}{damaged}"


_CUT_OFF = "cut off"
"""What a broker calls the bytes after the last complete message."""
_FOUND = {
    "nothing": "the directory was empty",
    "closed": "the last process closed it in order",
    "unclosed": "the last process did not close it",
}


@dataclass(frozen=True, slots=True)
class BrokerReports:
    """Disk, flushing and last start of a broker. What it does not report is None."""

    disk: BrokerDisk | None = None
    flushing: FlushStatus | None = None
    recovery: BrokerRecovery | None = None
    damages: int | None = None
    """Damaged places that were found since and during its start."""
    lost: tuple[LogDamage, ...] = ()
    """The first of them."""
    refusal: str | None = None
    """Why it rejects messages; None if it accepts them, or does not report it."""
    product: str | None = None
    """Its name and release, such as ``Steelyard 0.1.0``: only our brokers report it."""

    @property
    def loss(self) -> str | None:
        """What is lost, as text; None if nothing is known to be. A tail without acknowledged messages is no loss."""
        lost = [each for each in self.lost if each.what != _CUT_OFF or each.messages]
        if not lost:
            return None
        messages = sum(each.messages or 0 for each in lost)
        is_all = self.damages == len(self.lost) and all(each.messages is not None for each in lost)
        count = f"{'' if is_all else 'at least '}{messages} message{'s are' if messages != 1 else ' is'} lost"
        where = f"in {len(lost)} places, the first at" if len(lost) > 1 else "at"
        return f"its log is damaged, and {count}: {where} {lost[0]}"


def parse_reports(table: Mapping[str, str]) -> BrokerReports:
    """Parse the runtime table of a broker.

    >>> parse_reports({"commitLogDirCapacity": "Total : 252.0 GiB, Free : 1.0 KiB."}).disk
    BrokerDisk(size_bytes=270582939648, free_bytes=1024, log_bytes=None, log_files=None)
    >>> parse_reports({})
    BrokerReports(disk=None, flushing=None, recovery=None, damages=None, lost=(), refusal=None, product=None)
    """
    with suppress(SteelyardError):
        if REPORT_NAME in table:
            return _from_report(decode_body(BrokerReport, table[REPORT_NAME].encode()))
    return _parse_apache_table(table)


def _parse_apache_table(table: Mapping[str, str]) -> BrokerReports:
    total, _, free = table.get("commitLogDirCapacity", "").partition(",")
    size_bytes, free_bytes = (_parse_bytes(text.partition(":")[2].strip(" .")) for text in (total, free))
    waiting = _parse_bytes(table.get("remainHowManyDataToFlush", ""))
    start, end = (_parse_position(table.get(f"commitLog{which}Offset")) for which in ("Min", "Max"))
    log_bytes = None if start is None or end is None else max(0, end - start)
    return BrokerReports(
        None if size_bytes is None and free_bytes is None else BrokerDisk(size_bytes, free_bytes, log_bytes),
        None if waiting is None else FlushStatus(None, None, waiting),
    )


def _from_report(report: BrokerReport) -> BrokerReports:
    last_ms = None if report.flush_last_us is None else report.flush_last_us / 1_000
    return BrokerReports(
        BrokerDisk(report.disk_bytes, report.disk_free_bytes, report.log_bytes, report.log_files),
        FlushStatus(report.flush, report.flush_interval_ms, report.unflushed_bytes, last_ms),
        None if report.recovery is None else _broker_recovery(report.recovery),
        report.damages,
        tuple(LogDamage(each.path, each.position, each.size, each.records, each.what) for each in report.damage or ()),
        report.refusal,
        report.product,
    )


def _broker_recovery(report: RecoveryReport) -> BrokerRecovery:
    took = None if report.took_ms is None else timedelta(milliseconds=min(max(0, report.took_ms), _MAX_START_MS))
    return BrokerRecovery(report.found, report.records, report.read_bytes, report.cut_bytes, report.damages, took)


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """The state of a broker. What it does not report is None; ``problem`` says why it reports nothing at all."""

    name: str
    cluster: str
    addresses: Mapping[int, str]
    """By id: 0 is the master, others are replicas."""
    version: str | None = None
    started_at: datetime | None = None
    up: timedelta | None = None
    put_tps: float | None = None
    """Messages stored a second, over the last ten."""
    get_tps: float | None = None
    """Messages delivered a second, over the last ten."""
    disk_used: float | None = None
    """The share of its disk that is full, from 0 to 1."""
    problem: str | None = None
    reports: BrokerReports | None = None
    took_ms: int | None = None
    """How long it took to report that."""


@dataclass(frozen=True, slots=True)
class BrokerRuntime:
    """A broker in numbers. What it does not report is None; ``reported`` is its whole runtime table."""

    server: BrokerInstance
    version: str | None
    started_at: datetime | None
    up: timedelta | None
    put: RateAverages | None
    """Messages stored a second."""
    delivered: RateAverages | None
    """Messages delivered a second."""
    stored_today: int | None
    """Messages stored since midnight of the broker's clock."""
    delivered_today: int | None
    log_start: int | None
    log_end: int | None
    oldest_at: datetime | None
    log_disk_used: float | None
    """The share of the log's disk that is full, from 0 to 1."""
    index_disk_used: float | None
    index_behind_bytes: int | None
    """What is in the log and not in the indexes yet."""
    page_cache_ms: int | None
    """For how long the last writer has held the log; long times mean that the disk is too slow."""
    sends_waiting: int | None
    send_wait_ms: int | None
    """How long the first of them has waited."""
    pulls_waiting: int | None
    pull_wait_ms: int | None
    reports: BrokerReports
    reported: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A setting before and after."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class GroupLag:
    """A group's offset in one queue of a broker."""

    group: str
    queue: Queue
    committed: int
    end: int
    pulled: int | None
    """Up to where it was delivered; 4.9 does not report it."""
    consumed_at: datetime | None
    """When the last message that the group is done with was stored."""

    @property
    def lag(self) -> int:
        """The lag in messages."""
        return max(0, self.end - self.committed)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerThroughput:
    """The rates of one process: a broker's master, or a replica. What it does not report is None."""

    cluster: str
    broker: str
    id: int
    """0 is the master."""
    address: str
    version: str | None = None
    product: str | None = None
    in_tps: float | None = None
    """Messages stored a second, over the last ten."""
    out_tps: float | None = None
    """Messages delivered a second, over the last ten."""
    in_today: int | None = None
    out_today: int | None = None
    in_yesterday: int | None = None
    out_yesterday: int | None = None
    oldest_at: datetime | None = None
    disk_used: float | None = None
    """The share of its disk that is full, from 0 to 1."""
    up: timedelta | None = None
    refusal: str | None = None
    """Why it rejects messages, as it says."""
    took_ms: int | None = None
    """How long it took to report that."""
    problem: str | None = None
    """Why it reports nothing at all."""


class CleanTarget(Enum):
    """What a broker can clean now instead of on its schedule."""

    LOG = RequestCode.DELETE_EXPIRED_COMMITLOG
    """Log files whose messages are older than the broker keeps them."""
    INDEXES = RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE
    """Indexes of messages that are gone from the log."""
    TOPICS = RequestCode.CLEAN_UNUSED_TOPIC
    """Indexes of topics that are deleted."""


@dataclass(frozen=True, slots=True)
class NameServerUpdate:
    """A name server that got a change of a broker's write permission: how many topics changed, or its problem."""

    address: str
    topics: int | None = None
    problem: str | None = None


class BrokerAdmin(AdminPart):
    """Brokers: `Admin.brokers`."""

    async def instances(
        self, broker: str | None = None, *, cluster: str | None = None
    ) -> builtins.list[BrokerInstance]:
        """List the processes of a broker, of a cluster, or all: masters and replicas."""
        places = await self._session.select_brokers(None if broker is None else [broker], cluster)
        return [
            BrokerInstance(place.name, place.cluster, broker_id, address)
            for place in places
            for broker_id, address in sorted(place.addresses.items())
        ]

    async def describe(self, name: str, *, broker_id: int | None = None) -> BrokerRuntime:
        """Describe a broker in numbers; its master, unless another id is given."""
        server = await self._instance(name, broker_id)
        answer = await self._session.request_ok(server, RequestCode.GET_BROKER_RUNTIME_INFO)
        return _parse_runtime(server, decode_body(KVTable, answer.body).table)

    async def config(self, broker: str, *, broker_id: int | None = None) -> dict[str, str]:
        """Return the settings of a broker, by the server's own names."""
        return await self._instance_settings(await self._instance(broker, broker_id))

    async def plan_config(
        self, broker: str, settings: Mapping[str, str], *, broker_id: int | None = None
    ) -> builtins.list[SettingChange]:
        """Plan a change of settings, and change nothing; a name that the broker does not list is an error."""
        known = await self.config(broker, broker_id=broker_id)
        for name in settings:
            if name not in known:
                raise setting_not_found(name, known, broker)
        return [SettingChange(name, known[name], value) for name, value in settings.items()]

    async def set_config(
        self, broker: str, settings: Mapping[str, str], *, broker_id: int | None = None
    ) -> builtins.list[SettingChange]:
        """Change settings of a running broker, and return their values before and after.

        Not every change has an effect: some settings are read only when the broker starts.
        """
        planned = await self.plan_config(broker, settings, broker_id=broker_id)
        server = await self._instance(broker, broker_id)
        try:
            await self._session.request_ok(server, RequestCode.UPDATE_BROKER_CONFIG, {}, encode_settings(settings))
        except (NoPermission, InvalidParameter) as error:
            # The next step of these errors is about messages.
            what = f"{server} refuses: {error.remark}"
            raise type(error)(error.remark, code=error.code, server=error.server, what=what, next_step="") from None
        now = await self._instance_settings(server)
        return [SettingChange(each.name, each.before, now.get(each.name, "")) for each in planned]

    async def lag(self, broker: str, *, ordered_only: bool = False) -> builtins.list[GroupLag]:
        """Return the offsets of every group in the queues of a broker, by group and queue."""
        server = await self._instance(broker)
        answer = await self._session.request_ok(
            server, RequestCode.GET_BROKER_CONSUME_STATS, GetBrokerConsumeStats(is_order=ordered_only)
        )
        found = [
            GroupLag(
                self._namespace.unwrap(group),
                self._namespace.unwrap_queue(queue),
                place.consumer_offset,
                place.broker_offset,
                place.pull_offset,
                from_epoch_ms(place.consumed_ms),
            )
            for by_group in decode_body(BrokerConsumeStats, answer.body).groups
            for group, stats in by_group.items()
            if self._session.in_namespace(group)
            for each in stats
            for queue, place in each.queues.items()
        ]
        return sorted(found, key=lambda each: (each.group, each.queue.topic, each.queue.queue_id))

    async def throughput(self) -> builtins.list[BrokerThroughput]:
        """Return the rates of every process of every broker; one that does not answer has a problem instead."""
        return await gather_limited(self._broker_throughput, await self.instances())

    async def probe(self, broker: str, *, size: int = 128) -> float:
        """Send one message of so many bytes to a broker, and return the milliseconds until it is stored."""
        if not 0 < size <= _MAX_PROBE_BYTES:
            raise ConfigurationError(f"a message cannot have {size} bytes", next_step=f"give 1 to {_MAX_PROBE_BYTES}")
        (place,) = await self._session.select_brokers([broker], None)
        header = SendMessageV2(_PROBE_GROUP, broker, "TBW102", 1, 0, 0, now_ms(), 0, None, 0, False, None, False)
        began_ns = steady_ns()
        answer = await self._session.request(place, RequestCode.SEND_MESSAGE_V2, header, b"x" * size)
        took_ms = (steady_ns() - began_ns) / 1e6
        if answer.code not in STORED_CODES:
            raise error_for(answer.code, answer.remark or "", server=broker)
        return took_ms

    async def stop_writes(self, broker: str) -> builtins.list[NameServerUpdate]:
        """Remove the write permission of a broker at all name servers; it lasts until the broker changes a topic."""
        return await self._set_write_permission(RequestCode.WIPE_WRITE_PERM_OF_BROKER, broker)

    async def allow_writes(self, broker: str) -> builtins.list[NameServerUpdate]:
        """Restore the write permission of a broker at all name servers, for all its topics."""
        return await self._set_write_permission(RequestCode.ADD_WRITE_PERM_OF_BROKER, broker)

    async def read_only_topics(self, broker: str) -> builtins.list[str]:
        """List the topics of a broker whose own settings do not allow writes."""
        server = await self._instance(broker)
        answer = await self._session.request_ok(server, RequestCode.GET_ALL_TOPIC_CONFIG)
        return sorted(
            self._namespace.unwrap(name)
            for name, each in decode_body(TopicConfigTable, answer.body).topics.items()
            if not each.permission & Permission.WRITE and not is_system_topic(name)
        )

    async def clean(self, broker: str, what: CleanTarget) -> None:
        """Have a broker clean something now instead of on its schedule."""
        await self._session.request_ok(await self._instance(broker), what.value)

    async def _instance(self, broker: str, broker_id: int | None = None) -> BrokerInstance:
        """Return the process of a broker with an id; without one its master, or a replica if it has none."""
        servers = await self.instances(broker)
        if not servers:
            raise CannotConnect(f"broker {broker} has no address", next_step="see whether it runs")
        for server in servers:
            if broker_id in (None, server.broker_id):
                return server
        raise BrokerNotFound(
            server=str(self._session.config),
            what=f"broker {broker!r} has no process with id {broker_id}",
            next_step=f"known are: {', '.join(str(server.broker_id) for server in servers)}",
        )

    async def _instance_settings(self, server: BrokerInstance) -> dict[str, str]:
        return decode_settings((await self._session.request_ok(server, RequestCode.GET_BROKER_CONFIG)).body)

    async def _runtime(self, place: BrokerAddresses) -> Command:
        try:
            return await self._session.request_ok(place, RequestCode.GET_BROKER_RUNTIME_INFO)
        except ServerFailed:
            # Apache's brokers fail to compute their rates in the first second.
            await asyncio.sleep(_FIRST_RATES_S)
            return await self._session.request_ok(place, RequestCode.GET_BROKER_RUNTIME_INFO)

    async def _broker_status(self, place: BrokerAddresses) -> BrokerStatus:
        status, began_ns = BrokerStatus(place.name, place.cluster, place.addresses), steady_ns()
        try:
            table = decode_body(KVTable, (await self._runtime(place)).body).table
        except SteelyardError as error:
            return replace(status, problem=error.what)
        runtime = _parse_runtime(BrokerInstance(place.name, place.cluster, 0, place.master or ""), table)
        return replace(
            status,
            version=runtime.version,
            started_at=runtime.started_at,
            up=runtime.up,
            put_tps=None if runtime.put is None else runtime.put.ten_seconds,
            get_tps=None if runtime.delivered is None else runtime.delivered.ten_seconds,
            disk_used=runtime.log_disk_used,
            reports=runtime.reports,
            took_ms=_passed_ms(began_ns),
        )

    async def _broker_throughput(self, server: BrokerInstance) -> BrokerThroughput:
        place = BrokerThroughput(
            cluster=server.cluster, broker=server.broker, id=server.broker_id, address=server.address
        )
        began_ns = steady_ns()
        try:
            state = await self.describe(server.broker, broker_id=server.broker_id)
        except SteelyardError as error:
            return replace(place, problem=error.what)
        return replace(
            place,
            version=state.version,
            product=state.reports.product,
            in_tps=None if state.put is None else state.put.ten_seconds,
            out_tps=None if state.delivered is None else state.delivered.ten_seconds,
            in_today=state.stored_today,
            out_today=state.delivered_today,
            in_yesterday=_count_between(state.reported, "Put", "YesterdayMorning", "TodayMorning"),
            out_yesterday=_count_between(state.reported, "Get", "YesterdayMorning", "TodayMorning"),
            oldest_at=state.oldest_at,
            disk_used=state.log_disk_used,
            up=state.up,
            refusal=None if state.reports is None else state.reports.refusal,
            took_ms=_passed_ms(began_ns),
        )

    async def _set_write_permission(self, code: RequestCode, broker: str) -> builtins.list[NameServerUpdate]:
        await self._session.select_brokers([broker], None)

        async def send(address: str) -> NameServerUpdate:
            try:
                answer = await self._session.request(address, code, WritePermissionRequest(broker))
            except SteelyardError as error:
                return NameServerUpdate(address, problem=error.what)
            if answer.code != ResponseCode.SUCCESS:
                return NameServerUpdate(address, problem=answer.remark or f"it answered {answer.code}")
            counts = answer.header(WritePermissionResponse)
            return NameServerUpdate(address, counts.wipe_topic_count or counts.add_topic_count or 0)

        return await gather_limited(send, self._session.config.name_servers)

    async def list(self) -> builtins.list[BrokerStatus]:
        """List the brokers with their state; one that does not answer is listed with its problem."""
        return await gather_limited(self._broker_status, (await self._session.broker_places()).values())


def _passed_ms(began_ns: int) -> int:
    return (steady_ns() - began_ns) // 1_000_000


def is_secret_setting(setting: str) -> bool:
    """Whether the value of a setting is secret and not to be shown.

    >>> is_secret_setting("innerClientAuthenticationCredentials"), is_secret_setting("authenticationEnabled")
    (True, False)
    >>> is_secret_setting("metricsGrpcExporterHeader")
    True
    """
    return any(word in setting.lower() for word in _SECRET_WORDS)


def setting_not_found(name: str, known: Mapping[str, str], server: str) -> NotFound:
    """Make the error for a setting that a server does not list.

    >>> print(setting_not_found("flushDiskTyp", {"flushDiskType": "ASYNC_FLUSH"}, "broker-a"))
    broker-a has no setting 'flushDiskTyp'. Did you mean 'flushDiskType'?
    """
    meant = closest_match(name, known)
    return NotFound(
        server=server,
        what=f"{server} has no setting {name!r}.",
        next_step=f"Did you mean {meant!r}?" if meant else f"See which it has: steelyard broker config show {server}",
    )


def _parse_runtime(server: BrokerInstance, table: Mapping[str, str]) -> BrokerRuntime:
    up_ms = parse_uptime_ms(table.get("runtime", ""))
    return BrokerRuntime(
        server=server,
        version=table.get("brokerVersionDesc"),
        started_at=from_epoch_ms(parse_int(table.get("bootTimestamp")) or 0),
        up=None if up_ms is None else timedelta(milliseconds=up_ms),
        put=_parse_rates(table.get("putTps")),
        delivered=_parse_rates(table.get("getTransferredTps") or table.get("getTransferedTps")),
        stored_today=_count_between(table, "Put", "TodayMorning", "TodayNow"),
        delivered_today=_count_between(table, "Get", "TodayMorning", "TodayNow"),
        log_start=_parse_position(table.get("commitLogMinOffset")),
        log_end=_parse_position(table.get("commitLogMaxOffset")),
        oldest_at=from_epoch_ms(parse_int(table.get("earliestMessageTimeStamp")) or 0),
        log_disk_used=_parse_ratio(table.get("commitLogDiskRatio")),
        index_disk_used=_parse_ratio(table.get("consumeQueueDiskRatio")),
        index_behind_bytes=parse_int(table.get("dispatchBehindBytes")),
        page_cache_ms=parse_int(table.get("pageCacheLockTimeMills")),
        sends_waiting=parse_int(table.get("sendThreadPoolQueueSize")),
        send_wait_ms=parse_int(table.get("sendThreadPoolQueueHeadWaitTimeMills")),
        pulls_waiting=parse_int(table.get("pullThreadPoolQueueSize")),
        pull_wait_ms=parse_int(table.get("pullThreadPoolQueueHeadWaitTimeMills")),
        reports=parse_reports(table),
        reported=dict(sorted(table.items())),
    )


def _count_between(table: Mapping[str, str], kind: str, start: str, end: str) -> int | None:
    """Return how many messages were stored or delivered between two times, such as midnights of the broker's clock."""
    first, last = (parse_int(table.get(f"msg{kind}Total{when}")) for when in (start, end))
    return None if first is None or last is None else max(0, last - first)
