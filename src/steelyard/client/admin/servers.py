"""The processes that a broker consists of, a master and its replicas, and questions to one of them or to each.

Most of an administrator's questions go to a broker by name. Some are about one process of it, and some have to reach
all of them, since each keeps what it is told for itself.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from steelyard.client.admin.asking import Asking, together
from steelyard.errors import BrokerNotFound, CannotConnect, RequestNotSupported, SteelyardError, error_for
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, Fields

__all__ = ["Lacking", "Server", "Servers", "lacking"]

_MASTER = 0
_NOTHING: Fields = {}


class Lacking(NamedTuple):
    """What a server lacks that does not know a request, as the rest of a sentence about it, and who has it."""

    sentence: str
    who: str


@dataclass(frozen=True, slots=True)
class Server:
    """One process of a broker.

    >>> str(Server("broker-a", "DefaultCluster", 0, "10.0.0.1:10911"))
    'broker-a'
    >>> str(Server("broker-a", "DefaultCluster", 1, "10.0.0.2:10911"))
    'broker-a (replica 1)'
    """

    broker: str
    cluster: str
    broker_id: int
    """0 is the master, others are replicas."""
    address: str

    @property
    def is_master(self) -> bool:
        """Whether it takes writes."""
        return self.broker_id == _MASTER

    def __str__(self) -> str:
        return self.broker if self.is_master else f"{self.broker} (replica {self.broker_id})"


class Servers(Asking):
    """The part of an administrator's client that knows every process of a broker."""

    async def servers(self, broker: str | None = None, *, cluster: str | None = None) -> list[Server]:
        """List the processes of a broker, of a cluster, or all: masters and replicas."""
        places = await self._chosen(None if broker is None else [broker], cluster)
        return [
            Server(place.name, place.cluster, broker_id, address)
            for place in places
            for broker_id, address in sorted(place.addresses.items())
        ]

    async def _server(self, broker: str, broker_id: int | None = None) -> Server:
        """Return the process of a broker with an id; without one its master, or a replica if it has none."""
        servers = await self.servers(broker)
        found = [server for server in servers if broker_id in (None, server.broker_id)]
        if not servers:
            raise CannotConnect(f"broker {broker} has no address", next_step="see whether it runs")
        if not found:
            raise BrokerNotFound(
                code=int(ResponseCode.BROKER_NOT_EXIST),
                server=str(self._connect),
                what=f"broker {broker!r} has nobody with id {broker_id}",
                next_step=f"known are: {', '.join(str(server.broker_id) for server in servers) or 'none'}",
            )
        return found[0]

    async def _ask_server(
        self, server: Server, code: int, fields: Fields = _NOTHING, body: bytes = b"", *, unknown: Lacking | None = None
    ) -> Command:
        """Ask one process; an answer that says no is raised. Who does not know the request lacks ``unknown``."""
        answer = await self._ask_at(server.address, code, fields, body)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and unknown is not None:
            raise lacking(server, unknown)
        if answer.code != ResponseCode.SUCCESS:
            raise error_for(answer.code, answer.remark or "", server=str(server))
        return answer

    async def _on_each(self, servers: Iterable[Server], act: Callable[[Server], Awaitable[None]]) -> list[Server]:
        """Do something at each; return where it is done. If it fails somewhere, it is said where it is done."""

        async def one(server: Server) -> tuple[Server, SteelyardError | None]:
            try:
                await act(server)
            except SteelyardError as error:
                return server, error
            return server, None

        found = await together(one, servers)
        done = [server for server, error in found if error is None]
        failures = [error for _, error in found if error is not None]
        if failures and done:
            self._tell_once(f"it is done on {', '.join(map(str, done))} all the same")
        for error in failures[1:]:
            self._tell_once(error.what)
        if failures:
            raise failures[0]
        return done


def lacking(server: Server | str, what: Lacking, *, code: int = 3, remark: str = "") -> RequestNotSupported:
    """Make the error for a server that cannot do something.

    >>> print(lacking("broker-a", Lacking("keeps no users", "Apache RocketMQ does from 5.3 on")))
    broker-a keeps no users; Apache RocketMQ does from 5.3 on
    """
    return RequestNotSupported(
        remark, code=code, server=str(server), what=f"{server} {what.sentence}", next_step=what.who
    )
