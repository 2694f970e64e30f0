"""One broker: how it is in numbers, its settings, and how far behind groups are on it.

Settings have the server's own names. A name that it does not list is not sent: Apache's brokers take it without a word
and do nothing, and whoever wrote it believes that it counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from steelyard.client.admin.broker_reports import Reports, read_reports
from steelyard.client.admin.cluster import Brokers
from steelyard.client.admin.readings import Rates, position, rates, share, whole
from steelyard.client.admin.servers import Server
from steelyard.client.admin.times import moment
from steelyard.client.nearest import nearest
from steelyard.dialect.hearing import uptime_ms
from steelyard.errors import InvalidParameter, NoPermission, NotFound
from steelyard.model import Queue
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.settings_text import decode_settings, encode_settings
from steelyard.wire.bodies.shared import TextTable
from steelyard.wire.bodies.stats import BrokerConsumeStats as LagBody
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.headers.admin import BrokerConsumeStats

__all__ = ["BrokerCare", "BrokerState", "Change", "GroupLag", "is_secret", "missing_setting"]

_SECRET = ("password", "secret", "credential", "token", "initauthenticationuser", "exporterheader")
"""What the names of settings have in them that are nobody's business."""


@dataclass(frozen=True, slots=True)
class BrokerState:
    """A broker in numbers. What it does not tell is None; ``told`` is all that it says, in its own words."""

    server: Server
    version: str | None
    started_at: datetime | None
    up: timedelta | None
    put: Rates | None
    """Messages stored a second."""
    delivered: Rates | None
    """Messages delivered a second."""
    stored_today: int | None
    """Messages stored since midnight of the broker's clock."""
    delivered_today: int | None
    log_start: int | None
    """The position at which its log begins."""
    log_end: int | None
    """The position at which its log ends."""
    oldest_at: datetime | None
    """When the oldest message that it still has was stored."""
    log_disk_used: float | None
    """The share of the log's disk that is full, from 0 to 1."""
    index_disk_used: float | None
    index_behind_bytes: int | None
    """What is in the log and not in the indexes yet."""
    page_cache_ms: int | None
    """How long the last writer has had the log for itself; much of it means that the disk is too slow."""
    sends_waiting: int | None
    send_wait_ms: int | None
    """How long the first of those that wait has waited."""
    pulls_waiting: int | None
    pull_wait_ms: int | None
    reports: Reports
    """Its disk, its flushing, and what its last start found."""
    told: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """A setting before and after."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class GroupLag:
    """How far a group is in one queue of a broker."""

    group: str
    queue: Queue
    committed: int
    end: int
    pulled: int | None
    """Up to where it was delivered; 4.9 does not tell."""
    consumed_at: datetime | None
    """When the last message was stored that the group is done with."""

    @property
    def lag(self) -> int:
        """Messages that the group is not done with."""
        return max(0, self.end - self.committed)


class BrokerCare(Brokers):
    """What an administrator asks of one broker."""

    async def broker(self, name: str, *, broker_id: int | None = None) -> BrokerState:
        """Tell how a broker is in numbers; its master, unless another id is given."""
        server = await self._server(name, broker_id)
        answer = await self._ask_server(server, RequestCode.GET_BROKER_RUNTIME_INFO)
        return _state(server, decode_body(TextTable, answer.body).table)

    async def broker_config(self, broker: str, *, broker_id: int | None = None) -> dict[str, str]:
        """Return the settings of a broker, in the server's own words."""
        server = await self._server(broker, broker_id)
        return await self._settings_of(server)

    async def plan_broker_config(
        self, broker: str, settings: Mapping[str, str], *, broker_id: int | None = None
    ) -> list[Change]:
        """Tell what settings would change from and to; a name that the broker does not list is an error."""
        known = await self.broker_config(broker, broker_id=broker_id)
        for name in settings:
            if name not in known:
                raise missing_setting(name, known, broker)
        return [Change(name, known[name], value) for name, value in settings.items()]

    async def set_broker_config(
        self, broker: str, settings: Mapping[str, str], *, broker_id: int | None = None
    ) -> list[Change]:
        """Change some settings of a broker while it runs, and tell what they were and are.

        What a broker takes is not always what counts: some settings are looked at only when it starts.
        """
        planned = await self.plan_broker_config(broker, settings, broker_id=broker_id)
        server = await self._server(broker, broker_id)
        try:
            await self._ask_server(server, RequestCode.UPDATE_BROKER_CONFIG, {}, encode_settings(settings))
        except (NoPermission, InvalidParameter) as error:
            # What these say to do next is about messages.
            raise type(error)(
                error.remark,
                code=error.code,
                server=error.server,
                what=f"{server} refuses: {error.remark}",
                next_step="",
            ) from None
        now = await self._settings_of(server)
        return [Change(each.name, each.before, now.get(each.name, "")) for each in planned]

    async def broker_lag(self, broker: str, *, ordered_only: bool = False) -> list[GroupLag]:
        """Tell how far every group is in the queues of a broker, by group and queue."""
        server = await self._server(broker)
        answer = await self._ask_server(
            server, RequestCode.GET_BROKER_CONSUME_STATS, BrokerConsumeStats(is_order=ordered_only)
        )
        found = [
            GroupLag(
                self._names.bare(group),
                self._names.bare_queue(queue),
                place.consumer_offset,
                place.broker_offset,
                place.pull_offset,
                moment(place.consumed_ms),
            )
            for by_group in decode_body(LagBody, answer.body).groups
            for group, stats in by_group.items()
            if self._is_here(group)
            for each in stats
            for queue, place in each.queues.items()
        ]
        return sorted(found, key=lambda each: (each.group, each.queue.topic, each.queue.queue_id))

    async def _settings_of(self, server: Server) -> dict[str, str]:
        return decode_settings((await self._ask_server(server, RequestCode.GET_BROKER_CONFIG)).body)


def is_secret(setting: str) -> bool:
    """Say whether a setting is one that is not to be seen by whoever looks over a shoulder.

    >>> is_secret("innerClientAuthenticationCredentials"), is_secret("authenticationEnabled")
    (True, False)
    >>> is_secret("metricsGrpcExporterHeader")
    True
    """
    return any(word in setting.lower() for word in _SECRET)


def missing_setting(name: str, known: Mapping[str, str], where: str) -> NotFound:
    """Make the error for a setting that a server does not list.

    >>> print(missing_setting("flushDiskTyp", {"flushDiskType": "ASYNC_FLUSH"}, "broker-a"))
    broker-a has no setting 'flushDiskTyp'. Did you mean 'flushDiskType'?
    """
    meant = nearest(name, known)
    return NotFound(
        code=int(ResponseCode.QUERY_NOT_FOUND),
        server=where,
        what=f"{where} has no setting {name!r}.",
        next_step=f"Did you mean {meant!r}?" if meant else f"See which it has: steelyard broker config show {where}",
    )


def _state(server: Server, told: Mapping[str, str]) -> BrokerState:
    up_ms = uptime_ms(told.get("runtime", ""))
    stored, delivered = (_since_morning(told, kind) for kind in ("Put", "Get"))
    return BrokerState(
        server=server,
        version=told.get("brokerVersionDesc"),
        started_at=moment(whole(told.get("bootTimestamp")) or 0),
        up=None if up_ms is None else timedelta(milliseconds=up_ms),
        put=rates(told.get("putTps")),
        delivered=rates(told.get("getTransferredTps") or told.get("getTransferedTps")),
        stored_today=stored,
        delivered_today=delivered,
        log_start=position(told.get("commitLogMinOffset")),
        log_end=position(told.get("commitLogMaxOffset")),
        oldest_at=moment(whole(told.get("earliestMessageTimeStamp")) or 0),
        log_disk_used=share(told.get("commitLogDiskRatio")),
        index_disk_used=share(told.get("consumeQueueDiskRatio")),
        index_behind_bytes=whole(told.get("dispatchBehindBytes")),
        page_cache_ms=whole(told.get("pageCacheLockTimeMills")),
        sends_waiting=whole(told.get("sendThreadPoolQueueSize")),
        send_wait_ms=whole(told.get("sendThreadPoolQueueHeadWaitTimeMills")),
        pulls_waiting=whole(told.get("pullThreadPoolQueueSize")),
        pull_wait_ms=whole(told.get("pullThreadPoolQueueHeadWaitTimeMills")),
        reports=read_reports(told),
        told=dict(sorted(told.items())),
    )


def _since_morning(told: Mapping[str, str], kind: str) -> int | None:
    now, morning = (whole(told.get(f"msg{kind}Total{when}")) for when in ("TodayNow", "TodayMorning"))
    return None if now is None or morning is None else max(0, now - morning)
