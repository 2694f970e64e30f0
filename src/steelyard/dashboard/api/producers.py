"""Producers, and the latency of each broker as each producer measures it, live.

Our producers with ``avoid_slow_brokers`` report it to our brokers. Of all others it is unknown: null here, not empty.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime

from msgspec import Struct

from steelyard.client.admin.producers import ProducerBrokerLatency, ProducerStatus
from steelyard.dashboard.api_routing import ApiRequest, stream_route
from steelyard.dashboard.context import DashboardContext

__all__ = ["ROUTES", "ProducerRow", "ProducersResponse", "rank_producers"]

_PERIOD_MS = 1_000
_MAX_ROWS = 2_000  # producers that are shown; all are counted


class ProducerRow(Struct, frozen=True):
    """One producer."""

    group: str
    id: str
    address: str
    client: str
    brokers: tuple[str, ...]
    last_heartbeat_at: datetime | None
    reported_at: datetime | None
    latency: tuple[ProducerBrokerLatency, ...] | None


class ProducersResponse(Struct, frozen=True):
    """All producers that brokers know."""

    count: int
    producers: list[ProducerRow]
    brokers: list[str]  # the brokers of all latency reports
    command: str


@stream_route("/api/producers/live")
async def _live(context: DashboardContext, _: ApiRequest) -> AsyncIterator[object]:
    async def poll(_before: ProducersResponse | None) -> ProducersResponse:
        return _producers_response(context, await context.admin.producers.list())

    async for value in context.polls.subscribe("producers", _PERIOD_MS, poll):
        yield value


def _producers_response(context: DashboardContext, found: Sequence[ProducerStatus]) -> ProducersResponse:
    shown = rank_producers(found)[:_MAX_ROWS]
    brokers = {row.broker for each in shown for row in each.latencies or ()}
    return ProducersResponse(
        len(found), [_producer_row(each) for each in shown], sorted(brokers), context.command("producer", "latency")
    )


def rank_producers(found: Sequence[ProducerStatus]) -> list[ProducerStatus]:
    """Put those first that report most: one that avoids a broker must not be cut off."""
    return sorted(found, key=lambda each: (not _avoids_a_broker(each), each.latencies is None, each.group, each.id))


def _avoids_a_broker(producer: ProducerStatus) -> bool:
    return any(row.avoided_ms is not None for row in producer.latencies or ())


def _producer_row(producer: ProducerStatus) -> ProducerRow:
    return ProducerRow(
        producer.group,
        producer.id,
        producer.address,
        f"{producer.language} {producer.release}".strip(),
        producer.brokers,
        producer.seen_at,
        producer.reported_at,
        producer.latencies,
    )


ROUTES = (_live,)
