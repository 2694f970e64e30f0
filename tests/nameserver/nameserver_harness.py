"""A name server core under test: brokers register with one call, and responses are decoded."""

import zlib
from collections.abc import Mapping
from typing import TypeVar

from steelyard.nameserver import NameServerCore, NameServerOptions
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.common import TableVersion, TopicNames
from steelyard.wire.bodies.topics import (
    BrokerRegistration,
    ClusterBody,
    QueueMapping,
    RouteBody,
    TopicConfig,
    TopicConfigTable,
)
from steelyard.wire.codes import SERVER_VERSION, RequestCode
from steelyard.wire.command import ONEWAY_FLAG, CloseConnection, Command, CommandFields, Peer
from steelyard.wire.headers.nameserver import BrokerIdentity, RegisterBroker

B = TypeVar("B")


def connection(number: int) -> Peer:
    """Make a connection to the name server."""
    return Peer.at("127.0.0.1", 40_000 + number, connection_id=number)


def topic(name: str, queues: int = 4, *, permission: int = 6, sys_flag: int = 0) -> TopicConfig:
    """Make a topic's settings."""
    return TopicConfig(
        name=name, read_queues=queues, write_queues=queues, permission=permission, sys_flag=sys_flag, attributes={}
    )


def registration(
    *topics: TopicConfig | str,
    version: int = 1,
    state: int | None = 0,
    filter_servers: tuple[str, ...] = (),
    mappings: Mapping[str, QueueMapping] | None = None,
) -> BrokerRegistration:
    """Build the body of a registration."""
    settings = [topic(each) if isinstance(each, str) else each for each in topics]
    table = TopicConfigTable(
        version=TableVersion(counter=version, state_version=state, timestamp=version),
        topics={each.name: each for each in settings},
        mappings=mappings,
    )
    return BrokerRegistration(filter_servers=filter_servers, table=table)


def crc(body: bytes) -> int:
    """Return a body's checksum as brokers send it."""
    return zlib.crc32(body) & 0x7FFF_FFFF


class NameServerHarness:
    """A name server, a clock and a default connection."""

    def __init__(self, options: NameServerOptions | None = None, saved: bytes | None = None) -> None:
        self.now_ms = 1_000_000
        self.core = NameServerCore(options or NameServerOptions(), saved=saved)

    def request(
        self,
        code: int,
        fields: CommandFields | None = None,
        body: bytes = b"",
        *,
        version: int = SERVER_VERSION,
        peer: Peer | None = None,
    ) -> Command:
        """Send a request and return the response."""
        request = Command(code, fields if fields is not None else {}, body, opaque=7, version=version)
        (reply,) = self.core.handle(request, peer or connection(0), self.now_ms)
        assert reply.peer == (peer or connection(0))
        assert reply.command.is_response
        assert reply.command.opaque == 7
        return reply.command

    def read(self, kind: type[B], code: int, fields: CommandFields | None = None) -> B:
        """Send a request and return the decoded body of the response."""
        answer = self.request(code, fields)
        assert answer.code == 0, answer.remark
        return decode_body(kind, answer.body)

    def register(
        self,
        broker: str,
        body: BrokerRegistration,
        *,
        broker_id: int = 0,
        address: str | None = None,
        cluster: str = "DefaultCluster",
        peer: Peer | None = None,
        acting: bool | None = False,
        silence_ms: int | None = None,
        oneway: bool = False,
        zone: str | None = None,
    ) -> Command | None:
        """Register a broker as a 5.x broker does; return the response, if there is one."""
        data = encode_body(body)
        header = RegisterBroker(
            broker_name=broker,
            broker_addr=address or f"{broker}:{broker_id}",
            cluster_name=cluster,
            broker_id=broker_id,
            ha_server_addr=f"ha-{broker}:{broker_id}",
            heartbeat_timeout_millis=silence_ms,
            enable_acting_master=acting,
            body_crc32=crc(data),
            zone_name=zone,
        )
        command = Command(
            RequestCode.REGISTER_BROKER, header, data, flag=ONEWAY_FLAG if oneway else 0, version=SERVER_VERSION
        )
        replies = self.core.handle(command, peer or connection(0), self.now_ms)
        return replies[0].command if replies else None

    def unregister(
        self, broker: str, *, broker_id: int = 0, address: str | None = None, cluster: str = "DefaultCluster"
    ) -> Command:
        """Unregister a broker."""
        header = BrokerIdentity(broker, address or f"{broker}:{broker_id}", cluster, broker_id)
        return self.request(RequestCode.UNREGISTER_BROKER, header)

    def route(self, topic_name: str) -> RouteBody | None:
        """Return a topic's route, None if the name server does not know it."""
        answer = self.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic_name})
        if answer.code == 17:
            return None
        assert answer.code == 0, answer.remark
        return decode_body(RouteBody, answer.body)

    def brokers_of(self, topic_name: str) -> dict[str, dict[int, str]]:
        """Return the brokers of a topic's route with their addresses."""
        route = self.route(topic_name)
        return {entry.broker_name: dict(entry.addresses) for entry in route.brokers} if route else {}

    def permission(self, topic_name: str) -> int:
        """Return the permission of a topic that one broker has."""
        route = self.route(topic_name)
        assert route is not None
        (queue,) = route.queues
        return queue.permission

    def clusters(self) -> ClusterBody:
        """Return all brokers."""
        return self.read(ClusterBody, RequestCode.GET_BROKER_CLUSTER_INFO)

    def topics(self, code: int = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, **fields: str) -> set[str]:
        """Return the names in a list of topics."""
        return set(self.read(TopicNames, code, fields).topics)

    def advance(self, milliseconds: int) -> list[CloseConnection]:
        """Let time pass, and return the connections to close."""
        self.now_ms += milliseconds
        return [action for action in self.core.tick(self.now_ms) if isinstance(action, CloseConnection)]
