"""What all nouns share: the session, the brokers there are, and questions to one of them or to each.

Nothing is remembered between two calls: an administrator wants to see what is, not what was. A question goes to a
broker's master, or to a replica where there is none. Of a question to every broker the answers that come are good
enough: who does not answer is named once in the log, and only if nobody answers is it an error.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Self, TypeVar

from steelyard.client.connect import Connect, Where
from steelyard.client.context import Context
from steelyard.client.guard import closed
from steelyard.client.names import Names
from steelyard.client.nearest import missing_group, missing_topic, nearest
from steelyard.client.session import Session
from steelyard.errors import (
    BrokerNotFound,
    CannotConnect,
    TransportError,
    error_for,
)
from steelyard.model import BrokerPlace, Route
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.groups import GroupSettings, GroupTable
from steelyard.wire.bodies.routes import ClusterBody, RouteBody
from steelyard.wire.bodies.shared import TopicNames
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command, Fields
from steelyard.wire.headers.nameserver import GetRoute

__all__ = ["TOOLS_GROUP", "Asking", "together"]

TOOLS_GROUP = "TOOLS_CONSUMER"
"""The group that every broker has for the tools of administrators."""

_ASK_MS = 5_000
_AT_ONCE = 16
"""Questions under way at a time: a broker of Apache's has 16 threads for an administrator's questions."""

_NOTHING: Fields = {}

_log = logging.getLogger("steelyard")

T = TypeVar("T")
X = TypeVar("X")


async def together(work: Callable[[X], Awaitable[T]], things: Iterable[X], *, at_once: int = _AT_ONCE) -> list[T]:
    """Do the same for many things, several at a time; the results in order, or the first error after all ended."""
    room = asyncio.Semaphore(at_once)

    async def one(thing: X) -> tuple[T]:
        # In a tuple: an error that is a result, and was not raised, is one of the results.
        async with room:
            return (await work(thing),)

    done = await asyncio.gather(*map(one, things), return_exceptions=True)
    for result in done:
        if isinstance(result, BaseException):
            raise result
    return [result[0] for result in done if not isinstance(result, BaseException)]


class Asking(Context):
    """The part of an administrator's client that asks."""

    def __init__(self, where: Where = None) -> None:
        super().__init__()
        self._connect = Connect.of(where)
        self._names = Names(self._connect.namespace)
        self._session: Session | None = None
        self._starting = asyncio.Lock()
        self._is_closed = False
        self._told: set[str] = set()

    async def open(self) -> Self:
        """Connect now; otherwise that is done with the first question."""
        await self._ready()
        return self

    async def close(self) -> None:
        """Hang up. It may be called again; nothing can be asked afterwards."""
        if self.is_elsewhere:
            return
        self._is_closed = True
        async with self._starting:
            session, self._session = self._session, None
        if session is not None:
            await session.close()

    def __repr__(self) -> str:
        """Say where it goes."""
        return f"{type(self).__name__}({str(self._connect)!r})"

    async def _ready(self) -> Session:
        self.check_process()
        async with self._starting:
            if self._is_closed:
                raise closed(type(self).__name__)
            if self._session is None:
                session = Session(self._connect)
                await session.start()
                self._session = session
            self._session.check_loop()
            return self._session

    # -- questions ----------------------------------------------------------------------------------------------------

    async def _ask_names(self, code: int, fields: Fields = _NOTHING, body: bytes = b"") -> Command:
        """Ask one of the name servers; the answer, whatever it says."""
        session = await self._ready()
        return await session.routes.ask_a_name_server(Command(code, fields, body))

    async def _ask_at(self, address: str, code: int, fields: Fields = _NOTHING, body: bytes = b"") -> Command:
        """Ask the server at an address; the answer, whatever it says."""
        session = await self._ready()
        return await session.at(address).ask(Command(code, fields, body), _ASK_MS)

    async def _ask(
        self, place: BrokerPlace, code: int, fields: Fields = _NOTHING, body: bytes = b"", *, timeout_ms: int = _ASK_MS
    ) -> Command:
        """Ask a broker; the answer, whatever it says."""
        session = await self._ready()
        address = place.master or next(iter(place.addresses.values()), None)
        if address is None:
            raise CannotConnect(f"broker {place.name} has no address", next_step="see whether it runs")
        return await session.at(address).ask(Command(code, fields, body), timeout_ms)

    async def _ask_well(self, place: BrokerPlace, code: int, fields: Fields = _NOTHING, body: bytes = b"") -> Command:
        """Ask a broker; an answer that says no is raised."""
        answer = await self._ask(place, code, fields, body)
        if answer.code != ResponseCode.SUCCESS:
            raise error_for(answer.code, answer.remark or "", server=place.name)
        return answer

    async def _ask_all(
        self, places: Iterable[BrokerPlace], code: int, fields: Fields = _NOTHING
    ) -> list[tuple[BrokerPlace, Command]]:
        """Ask several brokers; the answers that came, whatever they say. An error only if there is none."""

        async def ask(place: BrokerPlace) -> tuple[BrokerPlace, Command] | TransportError:
            try:
                return place, await self._ask(place, code, fields)
            except TransportError as error:
                self._tell_once(f"broker {place.name} is left out: {error.what}")
                return error

        found = await together(ask, places)
        answers = [each for each in found if not isinstance(each, TransportError)]
        if found and not answers:
            raise next(each for each in found if isinstance(each, TransportError))
        return answers

    async def _ask_each_name_server(self, code: int, fields: Fields, body: bytes = b"") -> list[Command]:
        """Ask every name server there is; the answers that came."""

        async def ask(address: str) -> Command | TransportError:
            try:
                return await self._ask_at(address, code, fields, body)
            except TransportError as error:
                self._tell_once(f"name server {address} is left out: {error.what}")
                return error

        found = await together(ask, self._connect.name_servers)
        answers = [each for each in found if isinstance(each, Command)]
        if not answers:
            raise next(each for each in found if isinstance(each, TransportError))
        return answers

    async def _tell_name_servers(self, code: int, fields: Fields, body: bytes = b"") -> None:
        """Tell every name server there is; one that says no is raised."""
        for answer in await self._ask_each_name_server(code, fields, body):
            if answer.code != ResponseCode.SUCCESS:
                raise error_for(answer.code, answer.remark or "", server=str(self._connect))

    def _tell_once(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            _log.warning("%s", sentence)

    # -- what is there ------------------------------------------------------------------------------------------------

    async def _places(self) -> dict[str, BrokerPlace]:
        """Return every broker that the name servers know, by name."""
        answer = await self._ask_names(RequestCode.GET_BROKER_CLUSTER_INFO)
        if answer.code != ResponseCode.SUCCESS:
            raise error_for(answer.code, answer.remark or "", server=str(self._connect))
        entries = decode_body(ClusterBody, answer.body).brokers
        return {
            name: BrokerPlace(name, entries[name].cluster or "", dict(sorted(entries[name].addresses.items())))
            for name in sorted(entries)
        }

    async def _chosen(self, brokers: Iterable[str] | None, cluster: str | None) -> list[BrokerPlace]:
        """Return the brokers that were named, those of a cluster, or all."""
        places = await self._places()
        if brokers is None:
            found = [place for place in places.values() if cluster in (None, place.cluster)]
            if not found:
                known = sorted({place.cluster for place in places.values()})
                raise _no_broker("cluster", cluster, known, str(self._connect))
            return found
        wanted = (brokers,) if isinstance(brokers, str) else tuple(brokers)
        for name in wanted:
            if name not in places:
                raise _no_broker("broker", name, places, str(self._connect))
        return [places[name] for name in dict.fromkeys(wanted)]

    async def _route(self, topic: str) -> Route:
        """Return where a topic is, by its full name; one that is nowhere is an error that says which was meant."""
        found = await self._find_route(topic)
        if found is None:
            known = [self._names.bare(name) for name in await self._topic_names() if self._is_here(name)]
            brokers = await self._places()
            raise missing_topic(self._names.bare(topic), known, where=str(self._connect), asked=brokers)
        return found

    async def _find_route(self, topic: str, address: str | None = None) -> Route | None:
        """Return where a topic is, or None; from one name server if an address is given."""
        code, asked = RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute(topic)
        answer = await (self._ask_names(code, asked) if address is None else self._ask_at(address, code, asked))
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise error_for(answer.code, answer.remark or "", server=address or str(self._connect))
        return decode_body(RouteBody, answer.body).route(topic)

    async def _topic_names(self) -> list[str]:
        """Return the full names of all topics that a name server knows; none if it does not tell."""
        answer = await self._ask_names(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        if answer.code != ResponseCode.SUCCESS:
            self._tell_once(f"the name server does not list topics: {answer.remark or answer.code}")
            return []
        return sorted(decode_body(TopicNames, answer.body).topics)

    async def _group_tables(self, places: Iterable[BrokerPlace]) -> dict[str, dict[str, GroupSettings]]:
        """Return the settings of all groups, by their full name and by broker."""
        groups: dict[str, dict[str, GroupSettings]] = {}
        for place, answer in await self._ask_all(places, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG):
            if answer.code != ResponseCode.SUCCESS:
                raise error_for(answer.code, answer.remark or "", server=place.name)
            for name, settings in decode_body(GroupTable, answer.body).groups.items():
                groups.setdefault(name, {})[place.name] = settings
        return groups

    async def _known_group(self, group: str, places: dict[str, BrokerPlace]) -> dict[str, GroupSettings]:
        """Return a group's settings by broker; one that is nowhere is an error that says which was meant."""
        tables = await self._group_tables(places.values())
        if group not in tables:
            known = [self._names.bare(name) for name in tables if self._is_here(name)]
            raise missing_group(self._names.bare(group), known, where=str(self._connect), asked=places)
        return tables[group]

    def _is_here(self, name: str) -> bool:
        """Say whether a full name is one of this client's namespace."""
        return self._names.full(self._names.bare(name)) == name


def _no_broker(kind: str, name: str | None, known: Iterable[str], where: str) -> BrokerNotFound:
    names = list(known)
    meant = nearest(name or "", names)
    return BrokerNotFound(
        code=int(ResponseCode.BROKER_NOT_EXIST),
        server=where,
        what=f"{where} knows no {kind}{f' {name!r}' if name else ''}",
        next_step=f"known are: {', '.join(names) or 'none'}{f'; did you mean {meant!r}?' if meant else ''}",
    )
