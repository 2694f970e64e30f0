"""Brokers: how each is, its disk, its flushing, what its last start found, and its settings.

Brokers of ours tell all of it; Apache's tell rates, positions and disk, and the rest is null. How Apache's flush is in
their settings. What is secret in settings is hidden, whoever asks.
"""

from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from steelyard.client.admin.broker_reports import BrokerDisk, Flushing, LostBytes, Recovery, Reports
from steelyard.client.admin.brokers import BrokerState, is_secret
from steelyard.client.admin.cluster import Broker, NameServer
from steelyard.client.admin.readings import Rates, whole
from steelyard.dashboard.asking import Ask
from steelyard.dashboard.desk import Desk
from steelyard.dashboard.routes import reads, streams

__all__ = ["ROUTES", "BrokerAnswer", "BrokerRow", "BrokersAnswer", "Health", "SettingsAnswer", "Start"]

_ALL_PERIOD_MS = 2_000
_ONE_PERIOD_MS = 1_000
_MOST_BROKERS = 500
_FLUSHES = {"SYNC_FLUSH": "sync", "ASYNC_FLUSH": "async"}
_HIDDEN = "(hidden)"


class Health(Struct, frozen=True, kw_only=True):
    """Disk, flushing and the last start; what a broker does not tell is null."""

    disk_bytes: int | None = None
    free_bytes: int | None = None
    log_bytes: int | None = None
    log_files: int | None = None
    flush: str | None = None
    flush_interval_ms: int | None = None
    unflushed_bytes: int | None = None
    last_flush_ms: float | None = None
    recovery: "Start | None" = None
    damages: int | None = None
    lost: tuple[LostBytes, ...] = ()
    refusal: str | None = None


class Start(Struct, frozen=True):
    """What the last start found."""

    found: str
    records: int
    read_bytes: int
    cut_bytes: int
    damages: int
    took_ms: int | None


class BrokerRow(Struct, frozen=True, kw_only=True):
    """One broker in the list; ``problem`` says why it tells nothing."""

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
    health: Health


class BrokersAnswer(Struct, frozen=True):
    """All brokers and name servers."""

    count: int
    brokers: list[BrokerRow]
    name_servers: list[NameServer]
    command: str


class BrokerAnswer(Struct, frozen=True, kw_only=True):
    """One broker in full."""

    broker: str
    cluster: str
    address: str
    version: str | None
    started_at: datetime | None
    up_ms: int | None
    put: Rates | None
    delivered: Rates | None
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
    health: Health
    command: str


class SettingsAnswer(Struct, frozen=True):
    """The settings of a broker, in its own words, and how it flushes by them."""

    settings: dict[str, str]
    flush: str | None
    flush_interval_ms: int | None
    command: str


@streams("/api/brokers/live")
async def _brokers(desk: Desk, ask: Ask) -> AsyncIterator[object]:
    del ask

    async def look(_before: BrokersAnswer | None) -> BrokersAnswer:
        found = sorted(await desk.admin.cluster(), key=lambda each: (each.cluster, each.name))
        rows = [_row(each) for each in found[:_MOST_BROKERS]]
        return BrokersAnswer(len(found), rows, await desk.admin.name_servers(), desk.command("broker", "ls"))

    async for value in desk.watches.watch("brokers", _ALL_PERIOD_MS, look):
        yield value


@streams("/api/brokers/{broker}/live")
async def _broker(desk: Desk, ask: Ask) -> AsyncIterator[object]:
    name = ask.path("broker")

    async def look(_before: BrokerAnswer | None) -> BrokerAnswer:
        return _answer(desk, await desk.admin.broker(name))

    async for value in desk.watches.watch(("broker", name), _ONE_PERIOD_MS, look):
        yield value


@reads("/api/brokers/{broker}/settings")
async def _settings(desk: Desk, ask: Ask) -> SettingsAnswer:
    name = ask.path("broker")
    found = await desk.admin.broker_config(name)
    return SettingsAnswer(
        {key: _HIDDEN if value and is_secret(key) else value for key, value in sorted(found.items())},
        _FLUSHES.get(found.get("flushDiskType", "")),
        whole(found.get("flushIntervalCommitLog")),
        desk.command("broker", "config", "show", name),
    )


def _row(broker: Broker) -> BrokerRow:
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
        health=_health(broker.reports or Reports()),
    )


def _answer(desk: Desk, state: BrokerState) -> BrokerAnswer:
    return BrokerAnswer(
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
        health=_health(state.reports),
        command=desk.command("broker", "show", state.server.broker),
    )


def _health(reports: Reports) -> Health:
    disk, flushing = reports.disk or BrokerDisk(None, None), reports.flushing or Flushing(None, None, None)
    return Health(
        disk_bytes=disk.size_bytes,
        free_bytes=disk.free_bytes,
        log_bytes=disk.log_bytes,
        log_files=disk.log_files,
        flush=flushing.mode,
        flush_interval_ms=flushing.interval_ms,
        unflushed_bytes=flushing.unflushed_bytes,
        last_flush_ms=flushing.last_ms,
        recovery=None if reports.recovery is None else _start(reports.recovery),
        damages=reports.damages,
        lost=reports.lost,
        refusal=reports.refusal,
    )


def _start(recovery: Recovery) -> Start:
    return Start(
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
