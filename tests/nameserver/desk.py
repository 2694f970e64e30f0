"""A name server to talk to in tests: brokers register in one line, answers come back read."""

import zlib
from collections.abc import Mapping
from typing import TypeVar

from steelyard.nameserver import NameServer, NameServerOptions
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.registration import Registration
from steelyard.wire.bodies.routes import ClusterBody, QueueMapping, RouteBody
from steelyard.wire.bodies.shared import TableVersion, TopicNames
from steelyard.wire.bodies.topics import TopicSettings, TopicTable
from steelyard.wire.codes import SERVER_VERSION, RequestCode
from steelyard.wire.command import ONEWAY, Command, Fields
from steelyard.wire.headers.nameserver import BrokerIdentity, RegisterBroker
from steelyard.wire.peers import Hangup, Peer

__all__ = ["Desk", "crc", "line", "registration", "topic"]

B = TypeVar("B")


def line(number: int) -> Peer:
    """Make a line to the name server."""
    return Peer.at("127.0.0.1", 40_000 + number, number=number)


def topic(name: str, queues: int = 4, *, permission: int = 6, sys_flag: int = 0) -> TopicSettings:
    """Make a topic's settings."""
    return TopicSettings(
        name=name, read_queues=queues, write_queues=queues, permission=permission, sys_flag=sys_flag, attributes={}
    )


def registration(
    *topics: TopicSettings | str,
    version: int = 1,
    state: int | None = 0,
    filter_servers: tuple[str, ...] = (),
    mappings: Mapping[str, QueueMapping] | None = None,
) -> Registration:
    """Make what a broker brings."""
    settings = [topic(each) if isinstance(each, str) else each for each in topics]
    table = TopicTable(
        version=TableVersion(counter=version, state_version=state, timestamp=version),
        topics={each.name: each for each in settings},
        mappings=mappings,
    )
    return Registration(filter_servers=filter_servers, table=table)


def crc(body: bytes) -> int:
    """Return a body's checksum as brokers send it."""
    return zlib.crc32(body) & 0x7FFF_FFFF


class Desk:
    """A name server, a clock and a line for those who do not bring their own."""

    def __init__(self, options: NameServerOptions | None = None, saved: bytes | None = None) -> None:
        self.now_ms = 1_000_000
        self.core = NameServer(options or NameServerOptions(), now_ms=self.now_ms, saved=saved)

    def ask(
        self,
        code: int,
        fields: Fields | None = None,
        body: bytes = b"",
        *,
        version: int = SERVER_VERSION,
        peer: Peer | None = None,
    ) -> Command:
        """Ask, and return the answer."""
        asked = Command(code, fields if fields is not None else {}, body, opaque=7, version=version)
        (reply,) = self.core.handle(asked, peer or line(0), self.now_ms)
        assert reply.peer == (peer or line(0))
        assert reply.command.is_answer
        assert reply.command.opaque == 7
        return reply.command

    def read(self, kind: type[B], code: int, fields: Fields | None = None) -> B:
        """Ask, and return the body of the answer."""
        answer = self.ask(code, fields)
        assert answer.code == 0, answer.remark
        return decode_body(kind, answer.body)

    def register(
        self,
        broker: str,
        body: Registration,
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
        """Register a broker as a 5.x broker does; return the answer, if there is one."""
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
            RequestCode.REGISTER_BROKER, header, data, flag=ONEWAY if oneway else 0, version=SERVER_VERSION
        )
        replies = self.core.handle(command, peer or line(0), self.now_ms)
        return replies[0].command if replies else None

    def unregister(
        self, broker: str, *, broker_id: int = 0, address: str | None = None, cluster: str = "DefaultCluster"
    ) -> Command:
        """Let a broker say that it goes."""
        header = BrokerIdentity(broker, address or f"{broker}:{broker_id}", cluster, broker_id)
        return self.ask(RequestCode.UNREGISTER_BROKER, header)

    def route(self, topic_name: str) -> RouteBody | None:
        """Return a topic's route, None if the name server does not know it."""
        answer = self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic_name})
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

    def later(self, milliseconds: int) -> list[Hangup]:
        """Let time pass, and return the lines that are to be hung up."""
        self.now_ms += milliseconds
        return [action for action in self.core.tick(self.now_ms) if isinstance(action, Hangup)]
