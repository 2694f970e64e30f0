"""Brokers: status, disk, flushing, the last recovery, and configuration.

Our brokers report all of it; Apache's report rates, positions and disk, and the rest is null. How Apache's flush is in
their configuration. Secrets in a configuration are hidden from everyone.
"""

from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from steelyard.client.admin.broker_reports import (
    BrokerDisk,
    BrokerRecovery,
    BrokerReports,
    FlushStatus,
    LogDamage,
    RateAverages,
    parse_int,
)
from steelyard.client.admin.brokers import BrokerRuntime, BrokerStatus, is_secret_setting
from steelyard.client.admin.name_servers import NameServerStatus
from steelyard.dashboard.api_routing import ApiRequest, query_route, stream_route
from steelyard.dashboard.context import DashboardContext

__all__ = [
    "ROUTES",
    "BrokerResponse",
    "BrokerRow",
    "BrokerSettingsResponse",
    "BrokersResponse",
    "LastRecovery",
    "StorageHealth",
]

_ALL_PERIOD_MS = 2_000
_ONE_PERIOD_MS = 1_000
_MAX_BROKERS = 500
_FLUSH_MODES = {"SYNC_FLUSH": "sync", "ASYNC_FLUSH": "async"}
_HIDDEN = "(hidden)"


class StorageHealth(Struct, frozen=True, kw_only=True):
    """Disk, flushing and the last recovery; what a broker does not report is null."""

    disk_bytes: int | None = None
    free_bytes: int | None = None
    log_bytes: int | None = None
    log_files: int | None = None
    flush: str | None = None
    flush_interval_ms: int | None = None
    unflushed_bytes: int | None = None
    last_flush_ms: float | None = None
    recovery: "LastRecovery | None" = None
    damages: int | None = None
    lost: tuple[LogDamage, ...] = ()
    refusal: str | None = None


class LastRecovery(Struct, frozen=True):
    """The recovery at the last start."""

    found: str
    records: int
    read_bytes: int
    cut_bytes: int
    damages: int
    took_ms: int | None


class BrokerRow(Struct, frozen=True, kw_only=True):
    """One broker in the list; ``problem`` says why it does not answer."""

    broker: str
    cluster: str
    addresses: Mapping[int, str]
    version: str | None
    started_at: datetime | None
    up_ms: int | None
    in_tps: float | None
    out_tps: float | None
    disk_used: float | None
    problem: str | None
    health: StorageHealth


class BrokersResponse(Struct, frozen=True):
    """All brokers and name servers."""

    count: int
    brokers: list[BrokerRow]
    name_servers: list[NameServerStatus]
    command: str


class BrokerResponse(Struct, frozen=True, kw_only=True):
    """One broker in full."""

    broker: str
    cluster: str
    address: str
    version: str | None
    started_at: datetime | None
    up_ms: int | None
    put: RateAverages | None
    delivered: RateAverages | None
    stored_today: int | None
    delivered_today: int | None
    log_start: int | None
    log_end: int | None
    oldest_at: datetime | None
    disk_used: float | None
    index_behind_bytes: int | None
    page_cache_ms: int | None
    sends_waiting: int | None
    pulls_waiting: int | None
    health: StorageHealth
    command: str


class BrokerSettingsResponse(Struct, frozen=True):
    """The configuration of a broker, and how it flushes by it."""

    settings: dict[str, str]
    flush: str | None
    flush_interval_ms: int | None
    command: str


@stream_route("/api/brokers/live")
async def _brokers(context: DashboardContext, _: ApiRequest) -> AsyncIterator[object]:
    async def poll(_before: BrokersResponse | None) -> BrokersResponse:
        found = sorted(await context.admin.brokers.list(), key=lambda each: (each.cluster, each.name))
        rows = [_broker_row(each) for each in found[:_MAX_BROKERS]]
        return BrokersResponse(
            len(found), rows, await context.admin.name_servers.list(), context.command("broker", "ls")
        )

    async for value in context.polls.subscribe("brokers", _ALL_PERIOD_MS, poll):
        yield value


@stream_route("/api/brokers/{broker}/live")
async def _broker(context: DashboardContext, request: ApiRequest) -> AsyncIterator[object]:
    name = request.path("broker")

    async def poll(_before: BrokerResponse | None) -> BrokerResponse:
        return _broker_response(context, await context.admin.brokers.describe(name))

    async for value in context.polls.subscribe(("broker", name), _ONE_PERIOD_MS, poll):
        yield value


@query_route("/api/brokers/{broker}/settings")
async def _settings(context: DashboardContext, request: ApiRequest) -> BrokerSettingsResponse:
    name = request.path("broker")
    found = await context.admin.brokers.config(name)
    return BrokerSettingsResponse(
        {key: _HIDDEN if value and is_secret_setting(key) else value for key, value in sorted(found.items())},
        _FLUSH_MODES.get(found.get("flushDiskType", "")),
        parse_int(found.get("flushIntervalCommitLog")),
        context.command("broker", "config", "show", name),
    )


def _broker_row(broker: BrokerStatus) -> BrokerRow:
    return BrokerRow(
        broker=broker.name,
        cluster=broker.cluster,
        addresses=broker.addresses,
        version=broker.version,
        started_at=broker.started_at,
        up_ms=_ms(broker.up),
        in_tps=broker.put_tps,
        out_tps=broker.get_tps,
        disk_used=broker.disk_used,
        problem=broker.problem,
        health=_storage_health(broker.reports or BrokerReports()),
    )


def _broker_response(context: DashboardContext, state: BrokerRuntime) -> BrokerResponse:
    return BrokerResponse(
        broker=state.server.broker,
        cluster=state.server.cluster,
        address=state.server.address,
        version=state.version,
        started_at=state.started_at,
        up_ms=_ms(state.up),
        put=state.put,
        delivered=state.delivered,
        stored_today=state.stored_today,
        delivered_today=state.delivered_today,
        log_start=state.log_start,
        log_end=state.log_end,
        oldest_at=state.oldest_at,
        disk_used=state.log_disk_used,
        index_behind_bytes=state.index_behind_bytes,
        page_cache_ms=state.page_cache_ms,
        sends_waiting=state.sends_waiting,
        pulls_waiting=state.pulls_waiting,
        health=_storage_health(state.reports),
        command=context.command("broker", "show", state.server.broker),
    )


def _storage_health(reports: BrokerReports) -> StorageHealth:
    disk, flushing = reports.disk or BrokerDisk(None, None), reports.flushing or FlushStatus(None, None, None)
    return StorageHealth(
        disk_bytes=disk.size_bytes,
        free_bytes=disk.free_bytes,
        log_bytes=disk.log_bytes,
        log_files=disk.log_files,
        flush=flushing.mode,
        flush_interval_ms=flushing.interval_ms,
        unflushed_bytes=flushing.unflushed_bytes,
        last_flush_ms=flushing.last_ms,
        recovery=None if reports.recovery is None else _last_recovery(reports.recovery),
        damages=reports.damages,
        lost=reports.lost,
        refusal=reports.refusal,
    )


def _last_recovery(recovery: BrokerRecovery) -> LastRecovery:
    return LastRecovery(
        recovery.found,
        recovery.records,
        recovery.read_bytes,
        recovery.cut_bytes,
        recovery.damages,
        _ms(recovery.took),
    )


def _ms(span: timedelta | None) -> int | None:
    return None if span is None else round(span.total_seconds() * 1_000)


ROUTES = (_brokers, _broker, _settings)
