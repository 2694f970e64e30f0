"""How a broker's replicas follow its master.

What a process says of itself comes first; its master knows who is connected, and a controller, where brokers have one,
says who may become master. Before 5.0 brokers tell only where their log ends, which is enough to see who is behind.
"""

from dataclasses import dataclass
from datetime import datetime

from steelyard.client.admin.asking import together
from steelyard.client.admin.brokers import BrokerCare
from steelyard.client.admin.readings import position
from steelyard.client.admin.servers import Lacking, Server, lacking
from steelyard.client.admin.times import moment
from steelyard.errors import ServerFailed, SteelyardError
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.replicas import Epochs, Replication
from steelyard.wire.bodies.shared import TextTable
from steelyard.wire.codes import RequestCode, ResponseCode

__all__ = ["EpochOfLog", "FollowingLine", "ReplicaState", "Replicas"]

_NO_EPOCHS = Lacking("has no epochs", "only brokers of Apache RocketMQ 5 that have a controller know them")
_OPEN_END = (1 << 63) - 1
"""How Java writes that an epoch has not ended."""


@dataclass(frozen=True, slots=True)
class FollowingLine:
    """A replica as its master sees it: by the address of its line, which is none that it answers at."""

    address: str
    behind_bytes: int
    in_sync: bool
    bytes_a_second: int


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """One process of a broker, and how far its log is."""

    server: Server
    log_end: int | None = None
    behind_bytes: int | None = None
    """What it does not have of its master's log; None if one of the two does not tell."""
    bytes_a_second: int | None = None
    heard_at: datetime | None = None
    """When a replica heard of its master last."""
    lines: tuple[FollowingLine, ...] = ()
    """Who follows it, if it is a master that tells."""
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class EpochOfLog:
    """The part of a log that was written under one master; ``end`` is None for the part that is being written."""

    epoch: int
    start: int
    end: int | None


class Replicas(BrokerCare):
    """What an administrator asks about replicas."""

    async def replicas(self, broker: str) -> list[ReplicaState]:
        """Tell how the processes of a broker follow its master; one that does not answer is listed with its problem."""
        found = await together(self._replica, await self.servers(broker))
        end = next((each.log_end for each in found if each.server.is_master), None)
        return [_compared(each, end) for each in found]

    async def epochs(self, broker: str, *, broker_id: int | None = None) -> list[EpochOfLog]:
        """List under which masters a broker's log was written; only brokers with a controller know."""
        server = await self._server(broker, broker_id)
        try:
            answer = await self._ask_server(server, RequestCode.GET_BROKER_EPOCH_CACHE, unknown=_NO_EPOCHS)
        except ServerFailed as error:
            # Without a controller Apache's broker meets its own assertion, or says that it is in another mode.
            raise lacking(server, _NO_EPOCHS, code=error.code, remark=error.remark) from None
        return [
            EpochOfLog(each.epoch, each.start, None if each.end == _OPEN_END else each.end)
            for each in decode_body(Epochs, answer.body).epochs
        ]

    async def _replica(self, server: Server) -> ReplicaState:
        try:
            runtime = await self._ask_server(server, RequestCode.GET_BROKER_RUNTIME_INFO)
            log_end = position(decode_body(TextTable, runtime.body).table.get("commitLogMaxOffset"))
            answer = await self._ask_at(server.address, RequestCode.GET_BROKER_HA_STATUS)
            if answer.code != ResponseCode.SUCCESS:
                return ReplicaState(server, log_end)
            told = decode_body(Replication, answer.body)
        except SteelyardError as error:
            return ReplicaState(server, problem=error.what)
        lines = tuple(
            FollowingLine(line.address or "", line.behind_bytes, line.in_sync, line.bytes_a_second)
            for line in told.lines
        )
        if told.is_master or told.following is None:
            return ReplicaState(server, log_end, bytes_a_second=sum(each.bytes_a_second for each in lines), lines=lines)
        following = told.following
        return ReplicaState(
            server, log_end, bytes_a_second=following.bytes_a_second, heard_at=moment(following.read_ms)
        )


def _compared(replica: ReplicaState, end: int | None) -> ReplicaState:
    if replica.server.is_master or end is None or replica.log_end is None:
        return replica
    return ReplicaState(
        replica.server,
        replica.log_end,
        max(0, end - replica.log_end),
        replica.bytes_a_second,
        replica.heard_at,
        replica.lines,
    )
