"""A broker's upkeep: writes stopped and allowed, old files cleaned away, reads from disk held back, containers filled.

Whether clients may write to a broker is told by the name servers, each for itself; so all of them are told, and one
that cannot be reached is said. What a server does not know is an error that says who does.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from steelyard.client.admin.asking import together
from steelyard.client.admin.servers import Lacking, Servers, lacking
from steelyard.client.admin.times import Moment, epoch_ms, moment
from steelyard.errors import ConfigurationError, SteelyardError, error_for
from steelyard.model import Permission
from steelyard.model.names import is_system_topic
from steelyard.net.clock import now_ms
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.settings_text import encode_settings
from steelyard.wire.bodies.topics import TopicTable
from steelyard.wire.bodies.upkeep import ColdReads, IndexCheck
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.headers.nameserver import BrokerName, WipeAnswer
from steelyard.wire.headers.upkeep import AddBroker, CheckIndex, FlushOffset, ReadAhead, RemoveBroker

__all__ = ["Cleaning", "ColdReader", "IndexState", "ToldNameServer", "Upkeep"]

_NO_COLD_READS = Lacking("does not hold back reads from disk", "Apache RocketMQ does from 5.1.2 on")
_NO_READ_AHEAD = Lacking("cannot be told how to read ahead", "Apache RocketMQ can from 5.1.2 on")
_ONE_INDEX = Lacking("has only one kind of index", "Apache RocketMQ may have two from 5.3.1 on")
_NO_FLUSHED = Lacking("cannot be told what is flushed", "Apache RocketMQ can from 5.0 on")
_NO_CONTAINER = Lacking("is no container", "Apache RocketMQ has them from 5.0 on, each with an address of its own")
_INDEX_STATES = ("the same", "different", "being compared", "not comparable")


class Cleaning(Enum):
    """What a broker can be told to clean away before it does so by itself."""

    LOG = RequestCode.DELETE_EXPIRED_COMMITLOG
    """Log files whose messages are older than the broker keeps them."""
    INDEXES = RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE
    """Indexes of messages that are gone from the log."""
    TOPICS = RequestCode.CLEAN_UNUSED_TOPIC
    """Indexes of topics that are deleted."""


@dataclass(frozen=True, slots=True)
class ToldNameServer:
    """A name server that was told about a broker's writes: how many topics that changed, or why it was not told."""

    address: str
    topics: int | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ColdReader:
    """A group that reads from disk, or whose reads from disk have a limit of their own."""

    group: str
    limit_bytes: int
    """What it may read within a few seconds."""
    has_own_limit: bool
    read_bytes: int | None = None
    """What it has read in these seconds; None if it did not read from disk lately."""
    read_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class IndexState:
    """What a broker says of its two kinds of index."""

    broker: str
    state: str
    detail: str | None = None


class Upkeep(Servers):
    """What an administrator does to a broker."""

    async def stop_writes(self, broker: str) -> list[ToldNameServer]:
        """Have all name servers tell clients not to write to a broker; it lasts until the broker changes a topic."""
        return await self._change_writes(RequestCode.WIPE_WRITE_PERM_OF_BROKER, broker)

    async def allow_writes(self, broker: str) -> list[ToldNameServer]:
        """Have all name servers tell clients that they may write to a broker, to every topic of it."""
        return await self._change_writes(RequestCode.ADD_WRITE_PERM_OF_BROKER, broker)

    async def not_writable(self, broker: str) -> list[str]:
        """List the topics of a broker that clients may not write to by their own settings."""
        server = await self._server(broker)
        answer = await self._ask_server(server, RequestCode.GET_ALL_TOPIC_CONFIG)
        topics = decode_body(TopicTable, answer.body).topics
        return sorted(
            self._names.bare(name)
            for name, each in topics.items()
            if not each.permission & Permission.WRITE and not is_system_topic(name)
        )

    async def clean_broker(self, broker: str, what: Cleaning) -> None:
        """Have a broker clean something away now instead of later."""
        server = await self._server(broker)
        await self._ask_server(server, what.value)

    async def cold_reads(self, broker: str) -> list[ColdReader]:
        """List the groups that read from disk, or have a limit for it."""
        server = await self._server(broker)
        answer = await self._ask_server(server, RequestCode.GET_COLD_DATA_FLOW_CTR_INFO, unknown=_NO_COLD_READS)
        told = decode_body(ColdReads, answer.body)
        found = []
        for group in sorted({*told.limits, *told.readers}):
            reader = told.readers.get(group)
            found.append(
                ColdReader(
                    self._names.bare(group),
                    told.limits.get(group, told.group_limit),
                    group in told.limits,
                    None if reader is None else reader.read_bytes,
                    None if reader is None else moment(reader.read_ms),
                )
            )
        return found

    async def limit_cold_reads(self, broker: str, group: str, limit_bytes: int) -> None:
        """Limit how many bytes a group may read from disk within a few seconds."""
        server = await self._server(broker)
        body = encode_settings({self._names.full(group): str(limit_bytes)})
        await self._ask_server(server, RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, body=body, unknown=_NO_COLD_READS)

    async def unlimit_cold_reads(self, broker: str, group: str) -> None:
        """Take a group's own limit away."""
        server = await self._server(broker)
        await self._ask_server(
            server,
            RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG,
            body=self._names.full(group).encode(),
            unknown=_NO_COLD_READS,
        )

    async def set_read_ahead(self, broker: str, on: bool, *, broker_id: int | None = None) -> None:
        """Have a broker's system read log files ahead, or not: reading at random is cheaper without."""
        server = await self._server(broker, broker_id)
        await self._ask_server(
            server, RequestCode.SET_COMMITLOG_READ_MODE, ReadAhead(0 if on else 1), unknown=_NO_READ_AHEAD
        )

    async def check_index(self, broker: str, topic: str, since: Moment) -> IndexState:
        """Have a broker compare its two kinds of index of a topic; its log tells what it finds later."""
        server = await self._server(broker)
        asked = CheckIndex(self._names.full(topic), epoch_ms(since, now_ms=now_ms()))
        answer = await self._ask_server(server, RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, asked, unknown=_ONE_INDEX)
        told = decode_body(IndexCheck, answer.body)
        known = 0 <= told.status < len(_INDEX_STATES)
        return IndexState(broker, _INDEX_STATES[told.status] if known else f"state {told.status}", told.result or None)

    async def set_flushed(self, broker: str, broker_id: int, position: int) -> None:
        """Tell a replica up to where its master has flushed."""
        server = await self._server(broker, broker_id)
        if server.is_master:
            raise ConfigurationError(
                f"{server} is the master, and takes this from nobody", next_step="give the id of a replica"
            )
        await self._ask_server(
            server,
            RequestCode.RESET_MASTER_FLUSH_OFFSET,
            FlushOffset(position),
            unknown=_NO_FLUSHED,
        )

    async def add_to_container(self, container: str, config_path: str) -> None:
        """Start a broker in a container, from a file that the container can read."""
        await self._ask_container(container, RequestCode.ADD_BROKER, AddBroker(config_path))

    async def remove_from_container(self, container: str, cluster: str, broker: str, broker_id: int) -> None:
        """Stop a broker that runs in a container."""
        await self._ask_container(container, RequestCode.REMOVE_BROKER, RemoveBroker(cluster, broker, broker_id))

    async def _ask_container(self, address: str, code: RequestCode, fields: AddBroker | RemoveBroker) -> None:
        answer = await self._ask_at(address, code, fields)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise lacking(address, _NO_CONTAINER)
        if answer.code != ResponseCode.SUCCESS:
            raise error_for(answer.code, answer.remark or "", server=address)

    async def _change_writes(self, code: RequestCode, broker: str) -> list[ToldNameServer]:
        await self._chosen([broker], None)

        async def tell(address: str) -> ToldNameServer:
            try:
                answer = await self._ask_at(address, code, BrokerName(broker))
            except SteelyardError as error:
                return ToldNameServer(address, problem=error.what)
            if answer.code != ResponseCode.SUCCESS:
                return ToldNameServer(address, problem=answer.remark or f"it answered {answer.code}")
            told = answer.header(WipeAnswer)
            return ToldNameServer(address, told.wipe_topic_count or told.add_topic_count or 0)

        return await together(tell, self._connect.name_servers)
