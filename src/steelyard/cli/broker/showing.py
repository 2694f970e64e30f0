"""One broker as `steelyard broker show` prints it: in words for people, in numbers for programs."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from steelyard.cli.broker.words import release, share, size, span
from steelyard.cli.frame.counting import counted

if TYPE_CHECKING:
    from steelyard.client.admin.broker_reports import BrokerDisk, Flushing, Reports
    from steelyard.client.admin.brokers import BrokerState
    from steelyard.client.admin.readings import Rates

__all__ = ["as_values", "in_words"]


def in_words(state: "BrokerState") -> dict[str, object]:
    """Return a broker for people: what it does not tell is None."""

    def shown(value: float | None, show: Callable[[float], str]) -> str | None:
        return None if value is None else show(value)

    log_bytes = None if state.log_start is None or state.log_end is None else state.log_end - state.log_start
    return {
        "broker": str(state.server),
        "cluster": state.server.cluster,
        "address": state.server.address,
        "version": state.version and release(state.version),
        "up": state.up and span(state.up),
        "started": state.started_at,
        "stored": _flow(state.put, state.stored_today),
        "delivered": _flow(state.delivered, state.delivered_today),
        "log": shown(log_bytes, lambda count: f"{size(count)}, from {state.log_start} to {state.log_end}"),
        "oldest message": state.oldest_at,
        "disk": _disk(state.reports.disk),
        "disk of the log": shown(state.log_disk_used, lambda part: f"{share(part)} full"),
        "disk of the indexes": shown(state.index_disk_used, lambda part: f"{share(part)} full"),
        "indexes behind": shown(state.index_behind_bytes, size),
        "page cache": shown(state.page_cache_ms, lambda ms: f"held for {ms:.0f} ms by the last writer"),
        "sends waiting": _waiting(state.sends_waiting, state.send_wait_ms),
        "pulls waiting": _waiting(state.pulls_waiting, state.pull_wait_ms),
        "flushing": _flushing(state.reports.flushing),
        "last start": state.reports.recovery and str(state.reports.recovery),
        "damaged places": state.reports.damages,
        "takes messages": _takes_messages(state.reports),
    }


def _takes_messages(reports: "Reports") -> str | None:
    if reports.refusal is not None:
        return f"no: {reports.refusal}"
    return None if reports.recovery is None else "yes"


def _disk(disk: "BrokerDisk | None") -> str | None:
    if disk is None or disk.free_bytes is None:
        return None
    free = "no end to it" if disk.size_bytes is None else f"{size(disk.size_bytes)}, {size(disk.free_bytes)} free"
    return free if disk.log_files is None else f"{free}, {counted(disk.log_files, 'log file')}"


def _flushing(flushing: "Flushing | None") -> str | None:
    if flushing is None:
        return None
    how = {"sync": "before each answer", "async": f"every {flushing.interval_ms} ms"}.get(flushing.mode or "")
    waiting = None if flushing.unflushed_bytes is None else f"{size(flushing.unflushed_bytes)} not flushed"
    took = None if flushing.last_ms is None else f"the last took {flushing.last_ms:.1f} ms"
    return ", ".join(each for each in (how, waiting, took) if each)


def _flow(rates: "Rates | None", today: int | None) -> str | None:
    if rates is None:
        return None
    now = f"{rates.ten_seconds:.1f}/s"
    if rates.minute is not None and rates.ten_minutes is not None:
        now += f" (last minute {rates.minute:.1f}/s, ten minutes {rates.ten_minutes:.1f}/s)"
    return now if today is None else f"{now}, {today} today"


def _waiting(count: int | None, first_ms: int | None) -> str | None:
    if count is None:
        return None
    return str(count) if not count or first_ms is None else f"{count}, the first for {first_ms} ms"


def as_values(state: "BrokerState") -> dict[str, object]:
    """Return a broker for programs."""
    return {
        "broker": state.server.broker,
        "cluster": state.server.cluster,
        "id": state.server.broker_id,
        "address": state.server.address,
        "version": state.version and release(state.version),
        "started_at": state.started_at,
        "up": state.up,
        "in_tps": state.put,
        "out_tps": state.delivered,
        "in_today": state.stored_today,
        "out_today": state.delivered_today,
        "log_start": state.log_start,
        "log_end": state.log_end,
        "oldest_at": state.oldest_at,
        "log_disk_used": state.log_disk_used,
        "index_disk_used": state.index_disk_used,
        "index_behind_bytes": state.index_behind_bytes,
        "page_cache_ms": state.page_cache_ms,
        "sends_waiting": state.sends_waiting,
        "send_wait_ms": state.send_wait_ms,
        "pulls_waiting": state.pulls_waiting,
        "pull_wait_ms": state.pull_wait_ms,
        **_report_values(state.reports),
    }


def _report_values(reports: "Reports") -> dict[str, object]:
    disk, flushing = reports.disk, reports.flushing
    return {
        "disk_bytes": disk and disk.size_bytes,
        "disk_free_bytes": disk and disk.free_bytes,
        "log_files": disk and disk.log_files,
        "flush": flushing and flushing.mode,
        "flush_interval_ms": flushing and flushing.interval_ms,
        "unflushed_bytes": flushing and flushing.unflushed_bytes,
        "last_flush_ms": flushing and flushing.last_ms,
        "recovery": reports.recovery,
        "damages": reports.damages,
        "lost": reports.lost,
        "refusal": reports.refusal,
    }
