"""Producers, and the latency of each broker as each producer measures it, live.

Our producers with ``avoid_slow_brokers`` report it to our brokers. Of all others it is unknown: null here, not empty.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from steelyard.client.admin.producers import ProducerBrokerLatency, ProducerStatus
from steelyard.dashboard.api_routing import ApiRequest, copy_fields, live_route
from steelyard.dashboard.context import DashboardContext

_PERIOD_MS = 1_000
_MAX_ROWS = 2_000  # producers that are shown; all are counted


class _ProducerRow(Struct, frozen=True):
    """One producer."""

    group: str
    id: str
    address: str
    client: str
    brokers: tuple[str, ...]
    last_heartbeat_at: datetime | None
    reported_at: datetime | None
    latency: tuple[ProducerBrokerLatency, ...] | None


@live_route("/api/producers/live", lambda: _PERIOD_MS)
async def _live(context: DashboardContext, _: ApiRequest) -> dict[str, object]:
    found = await context.admin.producers.list()
    shown = rank_producers(found)[:_MAX_ROWS]
    return {
        "count": len(found),
        "producers": [_producer_row(each) for each in shown],
        "brokers": sorted({row.broker for each in shown for row in each.latencies or ()}),
        "command": context.command("producer", "latency"),
    }


def rank_producers(found: Sequence[ProducerStatus]) -> list[ProducerStatus]:
    """Put those first that report most: one that avoids a broker must not be cut off."""
    return sorted(found, key=lambda each: (not _avoids_a_broker(each), each.latencies is None, each.group, each.id))


def _avoids_a_broker(producer: ProducerStatus) -> bool:
    return any(row.avoided_ms is not None for row in producer.latencies or ())


def _producer_row(producer: ProducerStatus) -> _ProducerRow:
    client = f"{producer.language} {producer.release}".strip()
    return copy_fields(
        _ProducerRow, producer, client=client, last_heartbeat_at=producer.seen_at, latency=producer.latencies
    )


ROUTES = (_live,)
