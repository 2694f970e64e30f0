"""Cluster export: topics, groups, settings and rates as plain values, to be stored, compared or imported elsewhere.

Topics and groups have the form of Apache's tools, with ``brokers`` where not every broker has the same. An export is
complete or an error: otherwise a broker that cannot be reached would be missing without a sign.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from steelyard.client.admin.admin_session import AdminSession, gather_limited
from steelyard.client.admin.brokers import BrokerAdmin, BrokerThroughput, is_secret_setting
from steelyard.client.admin.name_servers import NameServerAdmin
from steelyard.client.admin.topics import TopicAdmin, TopicThroughput, system_topics, topic_configs_at
from steelyard.client.times import from_epoch_ms
from steelyard.model.reserved_names import DLQ_PREFIX, RETRY_PREFIX, is_system_group, is_system_topic
from steelyard.net.clock import now_ms
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.groups import SubscriptionGroupTable
from steelyard.wire.codes import RequestCode
from steelyard.wire.json_body import JsonBody

_LEFT_OUT = "(left out)"


@dataclass(frozen=True, slots=True)
class ExportedMetrics:
    """The rates at one moment."""

    taken_at: datetime | None
    brokers: list[BrokerThroughput]
    topics: list[TopicThroughput]


@dataclass(frozen=True, slots=True)
class ClusterExport:
    """A cluster at one moment; each part fits a file."""

    topics: list[dict[str, Any]]
    groups: list[dict[str, Any]]
    settings: dict[str, dict[str, dict[str, str]]]
    """Of ``brokers`` by name, and of ``name_servers`` by address."""
    metrics: ExportedMetrics


async def export_cluster(
    session: AdminSession, topics: TopicAdmin, brokers: BrokerAdmin, name_servers: NameServerAdmin
) -> ClusterExport:
    """Return everything of a cluster except messages. Secrets in settings are left out."""
    places = await session.broker_places()
    own = await system_topics(session, places.values())
    tables = await gather_limited(lambda place: topic_configs_at(session, place), places.values())
    found_topics = _by_broker(
        (name, place, config)
        for place, table in zip(places, tables, strict=True)
        for name, config in table.items()
        if name not in own and not is_system_topic(name) and not name.startswith((RETRY_PREFIX, DLQ_PREFIX))
    )
    code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    answers = await gather_limited(lambda place: session.request_ok(place, code), places.values())
    found_groups = _by_broker(
        (name, place, config)
        for place, answer in zip(places, answers, strict=True)
        for name, config in decode_body(SubscriptionGroupTable, answer.body).groups.items()
        if not is_system_group(name)
    )
    return ClusterExport(
        topics=_entries(session, found_topics, "topicName", len(places)),
        groups=_entries(session, found_groups, "groupName", len(places)),
        settings={
            "brokers": _without_secrets(zip(places, await gather_limited(brokers.config, places), strict=True)),
            "name_servers": _without_secrets((await name_servers.config()).items()),
        },
        metrics=ExportedMetrics(from_epoch_ms(now_ms()), await brokers.throughput(), await topics.throughput()),
    )


def _entries(
    session: AdminSession, found: Mapping[str, Mapping[bytes, list[str]]], name: str, brokers: int
) -> list[dict[str, Any]]:
    """Return the entries of all names in this namespace."""
    entries = []
    for full, versions in sorted(found.items()):
        for text, places in versions.items():
            if session.in_namespace(full):
                entry = msgspec.json.decode(text, type=dict[str, Any]) | {name: session.namespace.unwrap(full)}
                if attributes := entry.get("attributes"):
                    # Requests that create topics take attributes as changes.
                    entry["attributes"] = {f"+{each}": value for each, value in attributes.items()}
                entries.append(entry if len(places) == brokers else entry | {"brokers": places})
    return entries


def _by_broker(found: Iterable[tuple[str, str, JsonBody]]) -> dict[str, dict[bytes, list[str]]]:
    """Return the brokers with equal settings, by name and settings."""
    brokers: dict[str, dict[bytes, list[str]]] = {}
    for name, broker, settings in found:
        brokers.setdefault(name, {}).setdefault(msgspec.json.encode(settings), []).append(broker)
    return brokers


def _without_secrets(servers: Iterable[tuple[str, Mapping[str, str]]]) -> dict[str, dict[str, str]]:
    """Replace the secret settings of servers.

    >>> _without_secrets([("broker-a", {"brokerId": "0", "innerClientAuthenticationCredentials": "{}"})])
    {'broker-a': {'brokerId': '0', 'innerClientAuthenticationCredentials': '(left out)'}}
    """
    return {
        server: {name: _LEFT_OUT if value and is_secret_setting(name) else value for name, value in settings.items()}
        for server, settings in servers
    }
