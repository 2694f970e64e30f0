"""Admin session: the requests that all parts of `Admin` share, to name servers, brokers and processes of a broker.

Nothing is cached between two calls. A request goes to a broker's master, or to a replica if there is no master. When
several servers are asked, one that cannot be reached is left out and logged once; it is an error only if none can be
reached. Names of topics and groups are full names here, with the namespace; parts convert them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from steelyard.client.config import ClientConfig
from steelyard.client.namespace import ClientNamespace
from steelyard.client.process_guard import ProcessGuard, closed_error
from steelyard.client.session import Session
from steelyard.client.suggestions import closest_match, group_not_found, topic_not_found
from steelyard.errors import (
    BrokerNotFound,
    CannotConnect,
    RequestNotSupported,
    TopicNotFound,
    TransportError,
    error_for,
)
from steelyard.model import BrokerAddresses, Queue, TopicRoute
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.common import KVTable, TopicNames
from steelyard.wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupTable
from steelyard.wire.bodies.topics import ClusterBody, RouteBody
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command, CommandFields
from steelyard.wire.headers.nameserver import GetRoute, KVNamespaceRequest
from steelyard.wire.headers.pull import PullMessage, PullMessageResponse

TOOLS_GROUP = "TOOLS_CONSUMER"
"""The group that every broker has for administration tools."""

_REQUEST_TIMEOUT_MS = 5_000
_MAX_PARALLEL = 16
"""Requests in flight: Apache's brokers have 16 threads for administration requests."""
_MASTER = 0
_NO_FIELDS: CommandFields = {}
_HAS_SUBSCRIPTION_FLAG = 4
_SUCCESS = ResponseCode.SUCCESS
_EMPTY_CODES = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_OFFSET_MOVED)

_log = logging.getLogger("steelyard.client")

T = TypeVar("T")
X = TypeVar("X")
Asked = TypeVar("Asked", str, BrokerAddresses)


async def gather_limited(
    work: Callable[[X], Awaitable[T]], items: Iterable[X], *, limit: int = _MAX_PARALLEL
) -> list[T]:
    """Do the same for many items, several at a time; the results in order, or the first error after all have ended."""
    slots = asyncio.Semaphore(limit)

    async def one(item: X) -> tuple[T]:
        # In a tuple: an error that is returned, and not raised, is one of the results.
        async with slots:
            return (await work(item),)

    done = await asyncio.gather(*map(one, items), return_exceptions=True)
    for result in done:
        if isinstance(result, BaseException):
            raise result
    return [result[0] for result in done if not isinstance(result, BaseException)]


def check_ok(answer: Command, server: object) -> Command:
    """Return a successful response; any other code is raised as its error."""
    if answer.code != _SUCCESS:
        raise error_for(answer.code, answer.remark or "", server=str(server))
    return answer


def release_4_error(broker: str, lacks: str, next_step: str) -> RequestNotSupported:
    """Make the error for a request that a broker of release 4 cannot carry out."""
    return RequestNotSupported(server=broker, what=f"{broker} is of release 4, {lacks}", next_step=next_step)


@dataclass(frozen=True, slots=True)
class BrokerInstance:
    """One process of a broker: its master or a replica.

    >>> str(BrokerInstance("broker-a", "DefaultCluster", 0, "10.0.0.1:10911"))
    'broker-a'
    >>> str(BrokerInstance("broker-a", "DefaultCluster", 1, "10.0.0.2:10911"))
    'broker-a (replica 1)'
    """

    broker: str
    cluster: str
    broker_id: int
    """0 is the master, others are replicas."""
    address: str

    @property
    def is_master(self) -> bool:
        """Whether it accepts writes."""
        return self.broker_id == _MASTER

    def __str__(self) -> str:
        return self.broker if self.is_master else f"{self.broker} (replica {self.broker_id})"


AdminServer: TypeAlias = BrokerAddresses | BrokerInstance | str
"""Where a request goes: to a broker, to one of its processes, or to an address."""


class AdminSession:
    """The connections and requests of one `Admin`. It connects with the first request.

    ``owner`` is the client that users hold: errors name it, and its process is the only one that may send requests.
    """

    def __init__(self, config: ClientConfig, owner: ProcessGuard) -> None:
        self.config = config
        self.namespace = ClientNamespace(config.namespace)
        self.only_brokers: frozenset[str] | None = None
        """If set, all other brokers are treated as if they did not exist."""
        self._owner = owner
        self._session: Session | None = None
        self._starting = asyncio.Lock()
        self._is_closed = False
        self._warned: set[str] = set()

    async def open(self) -> Session:
        """Connect, if it is not connected."""
        self._owner.check_process()
        async with self._starting:
            if self._is_closed:
                raise closed_error(type(self._owner).__name__)
            if self._session is None:
                session = Session(self.config)
                await session.start()
                self._session = session
            self._session.check_loop()
            return self._session

    async def close(self) -> None:
        """Disconnect; no request can be sent afterwards."""
        self._is_closed = True
        async with self._starting:
            session, self._session = self._session, None
        if session is not None:
            await session.close()

    def warn_once(self, text: str) -> None:
        """Log a warning, unless the same was logged before."""
        if text not in self._warned:
            self._warned.add(text)
            _log.warning("%s", text)

    # Requests. Without "ok" in its name a method returns the response whatever its code is.

    async def request_name_server(self, code: int, fields: CommandFields = _NO_FIELDS) -> Command:
        """Send a request to one of the name servers."""
        session = await self.open()
        return await session.routes.request_name_server(Command(code, fields))

    async def request(
        self,
        server: AdminServer,
        code: int,
        fields: CommandFields = _NO_FIELDS,
        body: bytes = b"",
        *,
        timeout_ms: int = _REQUEST_TIMEOUT_MS,
    ) -> Command:
        """Send a request to a broker, to one of its processes, or to the server at an address."""
        session = await self.open()
        if isinstance(server, BrokerAddresses):
            address = server.master or next(iter(server.addresses.values()), None)
            if address is None:
                raise CannotConnect(f"broker {server.name} has no address", next_step="see whether it runs")
        else:
            address = server if isinstance(server, str) else server.address
        return await session.connection_at(address).request(Command(code, fields, body), timeout_ms)

    async def request_ok(
        self, server: AdminServer, code: int, fields: CommandFields = _NO_FIELDS, body: bytes = b""
    ) -> Command:
        """Send a request; a refusal is raised."""
        answer = await self.request(server, code, fields, body)
        return check_ok(answer, server.name if isinstance(server, BrokerAddresses) else server)

    async def request_each(
        self, places: Iterable[BrokerAddresses], code: int, fields: CommandFields = _NO_FIELDS
    ) -> list[tuple[BrokerAddresses, Command]]:
        """Send a request to several brokers; the responses of those that can be reached."""
        return await self.for_each_reachable(places, lambda place: self.request(place, code, fields))

    async def decode_each(
        self, kind: type[T], places: Iterable[BrokerAddresses], code: int, fields: CommandFields = _NO_FIELDS
    ) -> list[tuple[BrokerAddresses, T]]:
        """Send a request to several brokers; the decoded bodies of those that can be reached and do not refuse it."""
        answers = await self.request_each(places, code, fields)
        return [(place, decode_body(kind, answer.body)) for place, answer in answers if answer.code == _SUCCESS]

    async def pull(
        self, place: BrokerAddresses, queue: Queue, offset: int, most: int, tags: str, max_bytes: int | None = None
    ) -> tuple[bytes, int]:
        """Pull stored messages for no group; return their bytes, empty if there are none, and the next offset."""
        flag = _HAS_SUBSCRIPTION_FLAG
        fields = PullMessage(
            TOOLS_GROUP, queue.topic, queue.queue_id, offset, most, flag, 0, 0, 0, tags, "TAG", max_msg_bytes=max_bytes
        )
        answer = await self.request(place, RequestCode.PULL_MESSAGE, fields)
        body = b"" if answer.code in _EMPTY_CODES else check_ok(answer, place.name).body
        return body, answer.header(PullMessageResponse).next_begin_offset

    async def key_values(self, namespace: str) -> dict[str, str]:
        """Return the key-value settings that the name servers keep in a namespace."""
        fields = KVNamespaceRequest(namespace)
        answer = await self.request_name_server(RequestCode.GET_KVLIST_BY_NAMESPACE, fields)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return {}
        return dict(sorted(decode_body(KVTable, check_ok(answer, self.config).body).table.items()))

    async def request_each_name_server(
        self, code: int, fields: CommandFields = _NO_FIELDS, body: bytes = b""
    ) -> list[tuple[str, Command]]:
        """Send a request to every name server; the responses of those that can be reached, by address."""
        return await self.for_each_reachable(
            self.config.name_servers, lambda address: self.request(address, code, fields, body)
        )

    async def update_name_servers(self, code: int, fields: CommandFields, body: bytes = b"") -> None:
        """Send a change to every name server, since they do not know of each other; a refusal is raised."""
        for _, answer in await self.request_each_name_server(code, fields, body):
            check_ok(answer, self.config)

    async def for_each_reachable(
        self, servers: Iterable[Asked], work: Callable[[Asked], Awaitable[T]]
    ) -> list[tuple[Asked, T]]:
        """Do the same at several brokers or name servers; those that cannot be reached are left out and logged once.

        If none can be reached, the first error is raised.
        """

        async def one(server: Asked) -> tuple[Asked, T] | TransportError:
            try:
                return server, await work(server)
            except TransportError as error:
                label = f"name server {server}" if isinstance(server, str) else f"broker {server.name}"
                self.warn_once(f"{label} is left out: {error.what}")
                return error

        found = await gather_limited(one, servers)
        results = [each for each in found if not isinstance(each, TransportError)]
        if found and not results:
            raise next(each for each in found if isinstance(each, TransportError))
        return results

    # Brokers, routes and groups as the servers have them now.

    async def broker_places(self) -> dict[str, BrokerAddresses]:
        """Return every broker that the name servers know, by name."""
        answer = check_ok(await self.request_name_server(RequestCode.GET_BROKER_CLUSTER_INFO), self.config)
        places = decode_body(ClusterBody, answer.body).places()
        return {name: places[name] for name in places if self.only_brokers is None or name in self.only_brokers}

    async def select_brokers(self, brokers: Iterable[str] | None, cluster: str | None) -> list[BrokerAddresses]:
        """Return the named brokers, those of a cluster, or all."""
        places = await self.broker_places()
        if brokers is None:
            found = [place for place in places.values() if cluster in (None, place.cluster)]
            if not found:
                raise self._broker_not_found("cluster", cluster, sorted({place.cluster for place in places.values()}))
            return found
        wanted = (brokers,) if isinstance(brokers, str) else tuple(brokers)
        for name in wanted:
            if name not in places:
                raise self._broker_not_found("broker", name, list(places))
        return [places[name] for name in dict.fromkeys(wanted)]

    def _broker_not_found(self, kind: str, name: str | None, known: list[str]) -> BrokerNotFound:
        meant = closest_match(name or "", known)
        return BrokerNotFound(
            server=str(self.config),
            what=f"{self.config} knows no {kind}{f' {name!r}' if name else ''}",
            next_step=f"known are: {', '.join(known) or 'none'}{f'; did you mean {meant!r}?' if meant else ''}",
        )

    async def find_route(self, topic: str, address: str | None = None) -> TopicRoute | None:
        """Return a topic's route, or None; from one name server if its address is given."""
        code, fields = RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute(topic)
        answer = await (self.request(address, code, fields) if address else self.request_name_server(code, fields))
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        return decode_body(RouteBody, check_ok(answer, address or self.config).body).route(topic)

    async def require_route(self, topic: str) -> TopicRoute:
        """Return a topic's route; for an unknown topic the error suggests which was meant."""
        found = await self.find_route(topic)
        if found is None:
            raise await self.topic_not_found(topic)
        return found

    async def topic_not_found(self, topic: str) -> TopicNotFound:
        """Make the error for a topic that does not exist."""
        known, brokers = await self.own_topic_names(), await self.broker_places()
        return topic_not_found(self.namespace.unwrap(topic), known, namesrv=str(self.config), asked=brokers)

    async def topic_names(self) -> list[str]:
        """Return the full names of all topics that a name server knows; none if it does not list them."""
        answer = await self.request_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        if answer.code != ResponseCode.SUCCESS:
            self.warn_once(f"the name server does not list topics: {answer.remark or answer.code}")
            return []
        return sorted(decode_body(TopicNames, answer.body).topics)

    async def own_topic_names(self) -> list[str]:
        """Return the topics of this namespace, as users name them."""
        return [self.namespace.unwrap(name) for name in await self.topic_names() if self.in_namespace(name)]

    async def group_tables(self, places: Iterable[BrokerAddresses]) -> dict[str, dict[str, SubscriptionGroupConfig]]:
        """Return the settings of all groups, by full name and broker."""
        groups: dict[str, dict[str, SubscriptionGroupConfig]] = {}
        for place, answer in await self.request_each(places, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG):
            body = check_ok(answer, place.name).body
            for name, settings in decode_body(SubscriptionGroupTable, body).groups.items():
                groups.setdefault(name, {})[place.name] = settings
        return groups

    async def require_group(self, group: str, places: dict[str, BrokerAddresses]) -> dict[str, SubscriptionGroupConfig]:
        """Return a group's settings by broker; for an unknown group the error suggests which was meant."""
        tables = await self.group_tables(places.values())
        if group not in tables:
            known = [self.namespace.unwrap(name) for name in tables if self.in_namespace(name)]
            raise group_not_found(self.namespace.unwrap(group), known, namesrv=str(self.config), asked=places)
        return tables[group]

    def in_namespace(self, name: str) -> bool:
        """Whether a full name belongs to this client's namespace."""
        return self.namespace.wrap(self.namespace.unwrap(name)) == name


class AdminPart:
    """A part of `Admin`, such as `Admin.topics`. A method ``list`` is the last of its class: it hides the builtin."""

    def __init__(self, session: AdminSession) -> None:
        self._session = session
        self._namespace = session.namespace
