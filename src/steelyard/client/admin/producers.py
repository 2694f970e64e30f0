"""Producers that are online, as brokers know them from heartbeats.

A producer sends heartbeats to the brokers that it has sent messages to, so each broker knows only some: their lists are
merged. Our producers with ``avoid_slow_brokers`` report broker latencies to our brokers.
"""

import builtins
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from steelyard.client.admin.admin_session import AdminPart, check_ok
from steelyard.client.suggestions import closest_match
from steelyard.client.times import from_epoch_ms
from steelyard.errors import GroupNotFound
from steelyard.model.reserved_names import DEFAULT_PRODUCER_GROUP, is_system_group
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.members import ClientExtension, ProducerConnections, ProducerTable
from steelyard.wire.codes import RequestCode, release_name
from steelyard.wire.headers.admin import GetProducerConnections

_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_MAX_AGE_MS = 366 * 24 * 3_600_000
"""A broker that sends more is mistaken; without a limit the date could not be represented."""


@dataclass(frozen=True, slots=True)
class ProducerBrokerLatency:
    """The latency of one broker as a producer measures it."""

    broker: str
    latency_ms: int
    """Of its last attempt; a failure counts as a fixed long time."""
    usual_ms: int | None
    """The moving average of response times; None if the broker never answered."""
    share: float
    """The share of its usual messages that the broker gets: 0 while it is avoided, 1 when all is well."""
    avoided_ms: int | None
    """For how long it will still be avoided; None if it is not avoided."""
    why: str
    """Why its share is below 1; empty if it is 1."""
    failures: int
    """Failed attempts since the producer knows this broker."""


@dataclass(frozen=True, slots=True)
class ProducerStatus:
    """A producer of a group, as its brokers know it."""

    group: str
    id: str
    address: str
    """Of its connection to one of the brokers."""
    language: str
    release: str
    brokers: tuple[str, ...]
    seen_at: datetime | None = None
    """The time of its last heartbeat; known only from `ProducerAdmin.list`."""
    latencies: tuple[ProducerBrokerLatency, ...] | None = None
    """Broker latencies by name; None if it reports none, or it or the broker is Apache's."""
    reported_at: datetime | None = None


class ProducerAdmin(AdminPart):
    """Producers: `Admin.producers`."""

    async def of_group(self, group: str) -> builtins.list[ProducerStatus]:
        """List the producers of a group; for a group without any the error suggests which was meant."""
        places = await self._session.broker_places()
        code, fields = RequestCode.GET_PRODUCER_CONNECTION_LIST, GetProducerConnections(self._namespace.wrap(group))
        found = [
            ProducerStatus(
                group,
                each.client_id or "",
                each.client_address or "",
                each.language or "",
                release_name(each.version),
                (place.name,),
                None,
                *_latencies(each.steelyard),
            )
            # A group that is not online is an error of the server without a code of its own.
            for place, body in await self._session.decode_each(ProducerConnections, places.values(), code, fields)
            for each in body.connections
        ]
        if not found:
            known = sorted({each.group for each in await self.list()})
            meant = closest_match(group, known)
            namesrv = str(self._session.config)
            raise GroupNotFound(
                server=namesrv,
                what=f"no producer of group {group!r} is online on {namesrv} (asked {', '.join(places)}).",
                next_step=f"Did you mean {meant!r}?" if meant else f"Online are: {', '.join(known) or 'none'}",
            )
        return _merge_producers(found)

    async def list(self) -> builtins.list[ProducerStatus]:
        """List every producer that brokers know, by group."""
        places = (await self._session.broker_places()).values()
        found = [
            ProducerStatus(
                self._namespace.unwrap(group),
                each.client_id or "",
                (each.remote_ip or "").removeprefix("/"),  # Java writes an address with a name before it, or without
                each.language or "",
                release_name(each.version),
                (place.name,),
                from_epoch_ms(each.seen_ms),
                *_latencies(each.steelyard),
            )
            for place, answer in await self._session.request_each(places, RequestCode.GET_ALL_PRODUCER_INFO)
            for group, connections in decode_body(ProducerTable, check_ok(answer, place.name).body).groups.items()
            # The default group is shown too: producers without a group of their own are in it.
            if group == DEFAULT_PRODUCER_GROUP or (self._session.in_namespace(group) and not is_system_group(group))
            for each in connections
        ]
        return _merge_producers(found)


def _merge_producers(producers: Iterable[ProducerStatus]) -> list[ProducerStatus]:
    """Merge what several brokers know of the same producer."""
    found: dict[tuple[str, str], ProducerStatus] = {}
    for producer in producers:
        known = found.setdefault((producer.group, producer.id), producer)
        seen_at = max((each for each in (known.seen_at, producer.seen_at) if each is not None), default=None)
        brokers = tuple(sorted({*known.brokers, *producer.brokers}))
        # All brokers get the same report, but not at the same time.
        newest = max(known, producer, key=lambda each: _LONG_AGO if each.reported_at is None else each.reported_at)
        found[producer.group, producer.id] = replace(
            known, brokers=brokers, seen_at=seen_at, latencies=newest.latencies, reported_at=newest.reported_at
        )
    return [found[key] for key in sorted(found)]


def _latencies(extension: ClientExtension | None) -> tuple[tuple[ProducerBrokerLatency, ...] | None, datetime | None]:
    """Return the latencies that a producer reports, and when it did."""
    if extension is None or extension.broker_latency is None:
        return None, None
    reported_at = datetime.now(UTC) - timedelta(milliseconds=min(max(0, extension.ago_ms), _MAX_AGE_MS))
    return tuple(
        ProducerBrokerLatency(
            each.broker,
            each.latency_ms,
            each.typical_ms,
            min(1.0, max(0.0, each.share / 1_000)),
            each.avoided_ms,
            each.why or "",
            each.failures,
        )
        for each in sorted(extension.broker_latency, key=lambda each: each.broker)
    ), reported_at
