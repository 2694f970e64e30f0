"""Brokers: status, disk, flushing, the last recovery, and configuration, in which secrets are hidden.

What Apache's brokers do not report is null; how they flush is in their configuration.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from steelyard.client.admin.brokers import (
    BrokerDisk,
    BrokerReports,
    BrokerStatus,
    FlushStatus,
    LogDamage,
    RateAverages,
    is_secret_setting,
    parse_int,
)
from steelyard.dashboard.api_routing import ApiRequest, copy_fields, live_route, query_route
from steelyard.dashboard.context import DashboardContext

_ALL_PERIOD_MS = 2_000
_ONE_PERIOD_MS = 1_000
_MAX_BROKERS = 500
_FLUSH_MODES = {"SYNC_FLUSH": "sync", "ASYNC_FLUSH": "async"}
_HIDDEN = "(hidden)"


class _LastRecovery(Struct, frozen=True):
    """The recovery at the last start."""

    found: str
    records: int
    read_bytes: int
    cut_bytes: int
    damages: int
    took_ms: int | None


class _StorageHealth(Struct, frozen=True, kw_only=True):
    """Disk, flushing and the last recovery; what a broker does not report is null."""

    disk_bytes: int | None
    free_bytes: int | None
    log_bytes: int | None
    log_files: int | None
    flush: str | None
    flush_interval_ms: int | None
    unflushed_bytes: int | None
    last_flush_ms: float | None
    recovery: _LastRecovery | None
    damages: int | None
    lost: tuple[LogDamage, ...]
    refusal: str | None


class _BrokerRow(Struct, frozen=True, kw_only=True):
    """One broker in the list; ``problem`` says why it does not answer."""

    broker: str
    cluster: str
    addresses: Mapping[int, str]
    version: str | None  # the protocol level
    product: str | None  # name and release, of our brokers
    started_at: datetime | None
    up_ms: int | None
    in_tps: float | None
    out_tps: float | None
    disk_used: float | None
    problem: str | None
    health: _StorageHealth


class _BrokerResponse(Struct, frozen=True, kw_only=True):
    """One broker in full."""

    broker: str
    cluster: str
    address: str
    version: str | None  # the protocol level
    product: str | None  # name and release, of our brokers
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
    health: _StorageHealth
    command: str


@live_route("/api/brokers/live", lambda: _ALL_PERIOD_MS)
async def _brokers(context: DashboardContext, _: ApiRequest) -> dict[str, object]:
    found = sorted(await context.admin.brokers.list(), key=lambda each: (each.cluster, each.name))
    return {
        "count": len(found),
        "brokers": [_broker_row(each) for each in found[:_MAX_BROKERS]],
        "name_servers": await context.admin.name_servers.list(),
        "command": context.command("broker", "ls"),
    }


@live_route("/api/brokers/{broker}/live", lambda: _ONE_PERIOD_MS)
async def _broker(context: DashboardContext, request: ApiRequest) -> _BrokerResponse:
    state = await context.admin.brokers.describe(request.path("broker"))
    return copy_fields(
        _BrokerResponse,
        state,
        broker=state.server.broker,
        cluster=state.server.cluster,
        address=state.server.address,
        product=state.reports.product,
        up_ms=_ms(state.up),
        disk_used=state.log_disk_used,
        health=_storage_health(state.reports),
        command=context.command("broker", "show", state.server.broker),
    )


@query_route("/api/brokers/{broker}/settings")
async def _settings(context: DashboardContext, request: ApiRequest) -> dict[str, object]:
    name = request.path("broker")
    found = await context.admin.brokers.config(name)
    shown = {key: _HIDDEN if value and is_secret_setting(key) else value for key, value in sorted(found.items())}
    return {
        "settings": shown,
        "flush": _FLUSH_MODES.get(found.get("flushDiskType", "")),
        "flush_interval_ms": parse_int(found.get("flushIntervalCommitLog")),
        "command": context.command("broker", "config", "show", name),
    }


def _broker_row(broker: BrokerStatus) -> _BrokerRow:
    return copy_fields(
        _BrokerRow,
        broker,
        broker=broker.name,
        product=None if broker.reports is None else broker.reports.product,
        up_ms=_ms(broker.up),
        in_tps=broker.put_tps,
        out_tps=broker.get_tps,
        health=_storage_health(broker.reports or BrokerReports()),
    )


def _storage_health(reports: BrokerReports) -> _StorageHealth:
    disk, flushing = reports.disk or BrokerDisk(None, None), reports.flushing or FlushStatus(None, None, None)
    recovery = reports.recovery
    return copy_fields(
        _StorageHealth,
        reports,
        disk_bytes=disk.size_bytes,
        free_bytes=disk.free_bytes,
        log_bytes=disk.log_bytes,
        log_files=disk.log_files,
        flush=flushing.mode,
        flush_interval_ms=flushing.interval_ms,
        unflushed_bytes=flushing.unflushed_bytes,
        last_flush_ms=flushing.last_ms,
        recovery=None if recovery is None else copy_fields(_LastRecovery, recovery, took_ms=_ms(recovery.took)),
    )


def _ms(span: timedelta | None) -> int | None:
    return None if span is None else round(span.total_seconds() * 1_000)


ROUTES = (_brokers, _broker, _settings)
