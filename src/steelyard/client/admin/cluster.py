"""Brokers and name servers: who is there, and how they are."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from steelyard.client.admin.asking import together
from steelyard.client.admin.broker_reports import Reports, read_reports
from steelyard.client.admin.readings import rates, share, whole
from steelyard.client.admin.servers import Servers
from steelyard.client.admin.times import moment
from steelyard.dialect.hearing import uptime_ms
from steelyard.errors import ServerFailed, SteelyardError
from steelyard.model import BrokerPlace
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.routes import ClusterBody
from steelyard.wire.bodies.shared import TextTable
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command

__all__ = ["Broker", "Brokers", "NameServer"]

_COUNTED_S = 1.2


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker as it is right now. What it does not tell is None; ``problem`` says why it tells nothing at all."""

    name: str
    cluster: str
    addresses: Mapping[int, str]
    """By id: 0 is the master, others are replicas."""
    version: str | None = None
    started_at: datetime | None = None
    up: timedelta | None = None
    put_tps: float | None = None
    """Messages stored a second, over the last ten."""
    get_tps: float | None = None
    """Messages delivered a second, over the last ten."""
    disk_used: float | None = None
    """The share of its disk that is full, from 0 to 1."""
    problem: str | None = None
    reports: Reports | None = None
    """Its disk, its flushing, and what its last start found."""


@dataclass(frozen=True, slots=True)
class NameServer:
    """A name server, and how many brokers it knows; ``problem`` says why it does not tell."""

    address: str
    brokers: int | None = None
    problem: str | None = None


class Brokers(Servers):
    """What an administrator does with brokers and name servers."""

    async def cluster(self) -> list[Broker]:
        """List the brokers and how they are; one that does not answer is listed with its problem."""
        return await together(self._state_of, (await self._places()).values())

    async def name_servers(self) -> list[NameServer]:
        """List the name servers that this client was given, and whether they answer."""
        return await together(self._name_server, self._connect.name_servers)

    async def _runtime(self, place: BrokerPlace) -> Command:
        try:
            return await self._ask_well(place, RequestCode.GET_BROKER_RUNTIME_INFO)
        except ServerFailed:
            # A broker of Apache's stumbles over its own rates until it has counted for a second.
            await asyncio.sleep(_COUNTED_S)
            return await self._ask_well(place, RequestCode.GET_BROKER_RUNTIME_INFO)

    async def _state_of(self, place: BrokerPlace) -> Broker:
        try:
            told = decode_body(TextTable, (await self._runtime(place)).body).table
        except SteelyardError as error:
            return Broker(place.name, place.cluster, place.addresses, problem=error.what)
        up_ms = uptime_ms(told.get("runtime", ""))
        put, got = rates(told.get("putTps")), rates(told.get("getTransferredTps") or told.get("getTransferedTps"))
        return Broker(
            place.name,
            place.cluster,
            place.addresses,
            version=told.get("brokerVersionDesc"),
            started_at=moment(whole(told.get("bootTimestamp")) or 0),
            up=None if up_ms is None else timedelta(milliseconds=up_ms),
            put_tps=put.ten_seconds if put is not None else None,
            get_tps=got.ten_seconds if got is not None else None,
            disk_used=share(told.get("commitLogDiskRatio")),
            reports=read_reports(told),
        )

    async def _name_server(self, address: str) -> NameServer:
        try:
            answer = await self._ask_at(address, RequestCode.GET_BROKER_CLUSTER_INFO)
            if answer.code != ResponseCode.SUCCESS:
                return NameServer(address, problem=answer.remark or f"it answered {answer.code}")
            return NameServer(address, len(decode_body(ClusterBody, answer.body).brokers))
        except SteelyardError as error:
            return NameServer(address, problem=error.what)
