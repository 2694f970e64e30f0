"""A whole cluster as plain values, to be kept, compared or taken elsewhere: topics, groups, settings and rates.

Topics and groups are in the form that Apache's tools take lists of them in, with ``brokers`` beside where not every
broker has the same: so `steelyard topic apply` and mqadmin's `updateTopicList` read what this writes. It is whole or an
error: a broker that cannot be asked would be missing without a sign of it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from steelyard.client.admin.asking import together
from steelyard.client.admin.brokers import is_secret
from steelyard.client.admin.groups import Groups
from steelyard.client.admin.name_servers import NameServers
from steelyard.client.admin.statistics import BrokerFlow, Statistics, TopicFlow
from steelyard.client.admin.times import moment
from steelyard.model.names import DEAD, RETRY, is_system_group, is_system_topic
from steelyard.net.clock import now_ms
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.groups import GroupTable
from steelyard.wire.body import Body
from steelyard.wire.codes import RequestCode

__all__ = ["Export", "Exporting", "Metrics"]

_LEFT_OUT = "(left out)"


@dataclass(frozen=True, slots=True)
class Metrics:
    """How much passed at one moment."""

    taken_at: datetime | None
    brokers: list[BrokerFlow]
    topics: list[TopicFlow]


@dataclass(frozen=True, slots=True)
class Export:
    """A cluster at one moment; each part is a file's worth."""

    topics: list[dict[str, Any]]
    groups: list[dict[str, Any]]
    settings: dict[str, dict[str, dict[str, str]]]
    """Of ``brokers`` by name, and of ``name_servers`` by address."""
    metrics: Metrics


class Exporting(Groups, Statistics, NameServers):
    """What an administrator takes along."""

    async def export(self) -> Export:
        """Return all of a cluster that is not messages. What is secret in settings is left out."""
        places = await self._places()
        own = await self._system_topics(places.values())
        tables = await together(self._all_settings, places.values())
        topics = _by_broker(
            (name, place, settings)
            for place, table in zip(places, tables, strict=True)
            for name, settings in table.items()
            if name not in own and not is_system_topic(name) and not name.startswith((RETRY, DEAD))
        )
        asked = await together(
            lambda place: self._ask_well(place, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG), places.values()
        )
        groups = _by_broker(
            (name, place, settings)
            for place, answer in zip(places, asked, strict=True)
            for name, settings in decode_body(GroupTable, answer.body).groups.items()
            if not is_system_group(name)
        )
        return Export(
            topics=self._entries(topics, "topicName", len(places)),
            groups=self._entries(groups, "groupName", len(places)),
            settings={
                "brokers": _without_secrets(zip(places, await together(self.broker_config, places), strict=True)),
                "name_servers": _without_secrets((await self.name_server_config()).items()),
            },
            metrics=Metrics(moment(now_ms()), await self.broker_flows(), await self.topic_flows()),
        )

    def _entries(self, found: Mapping[str, Mapping[bytes, list[str]]], name: str, brokers: int) -> list[dict[str, Any]]:
        """Return what is to be written of each name of this namespace."""
        entries = []
        for full, versions in sorted(found.items()):
            for text, places in versions.items():
                if self._is_here(full):
                    entry = msgspec.json.decode(text, type=dict[str, Any]) | {name: self._names.bare(full)}
                    if attributes := entry.get("attributes"):
                        # A list of them to be made is told as changes.
                        entry["attributes"] = {f"+{each}": value for each, value in attributes.items()}
                    entries.append(entry if len(places) == brokers else entry | {"brokers": places})
        return entries


def _by_broker(found: Iterable[tuple[str, str, Body]]) -> dict[str, dict[bytes, list[str]]]:
    """Return the brokers that have the same settings under a name, by name and settings."""
    together_by: dict[str, dict[bytes, list[str]]] = {}
    for name, broker, settings in found:
        together_by.setdefault(name, {}).setdefault(msgspec.json.encode(settings), []).append(broker)
    return together_by


def _without_secrets(servers: Iterable[tuple[str, Mapping[str, str]]]) -> dict[str, dict[str, str]]:
    """Return settings of servers as they may be passed on.

    >>> _without_secrets([("broker-a", {"brokerId": "0", "innerClientAuthenticationCredentials": "{}"})])
    {'broker-a': {'brokerId': '0', 'innerClientAuthenticationCredentials': '(left out)'}}
    """
    return {
        server: {name: _LEFT_OUT if value and is_secret(name) else value for name, value in settings.items()}
        for server, settings in servers
    }
