"""Messages: found by id, key, offset or time; and what became of one of them.

Two kinds of ids look alike. An offset id has the address of a broker and a position in its log: that broker has the
message (33). The other kind was made by the producer and is found by the key index of the topic's brokers (12), which
compares hashes: results are compared again. A broker can have one member of a group handle a message at once (309): no
offset moves. 321 reads the consume queue itself.

A body that cannot be decompressed is returned as it is stored: administrators want to see that too. What one call
decompresses is bounded; tools, which show beginnings, take messages as they are stored and open one at a time.
"""

import builtins
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from steelyard.client.admin.admin_session import AdminPart, AdminSession, check_ok, gather_limited
from steelyard.client.admin.groups import GroupAdmin
from steelyard.client.admin.offsets import committed_offset, offset_at_time, queue_offsets
from steelyard.client.admin.topics import subscribed_groups
from steelyard.client.times import TimeOrAge, resolve_epoch_ms
from steelyard.errors import ConfigurationError, ConsumerOffline, NoMessage, TopicNotFound
from steelyard.model import BrokerAddresses, Queue, StoredMessage, TopicRoute
from steelyard.model.message import UNIQUE_KEY
from steelyard.model.reserved_names import TRACE_TOPIC, is_system_group, is_system_topic
from steelyard.net.clock import now_ms
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.members import ConsumeDirectlyOutcome, ConsumeDirectlyResult
from steelyard.wire.bodies.stats import ConsumeQueuePart
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.headers.group import ConsumeMessageDirectly
from steelyard.wire.headers.pull import QueryConsumeQueue, QueryMessages, ViewMessage
from steelyard.wire.limits import DECOMPRESSED_BYTES
from steelyard.wire.message_ids import parse_offset_id
from steelyard.wire.message_traces import TraceEvent, decode_traces
from steelyard.wire.stored_messages import BODY_ERRORS, decode_sealed_messages, unseal_message

_BY_UNIQUE_KEY = 32
_MAX_BY_KEY = 64
_MAX_TRACES = 64
_PULL_BATCH = 32
_FOREVER_MS = (1 << 63) - 1
_ALL = "*"
_GRPC_ID_LENGTH = 34
"""The length of a gRPC client's id, which is never an offset id."""
_MAX_TOPICS = 2_000
"""An id is searched in no more topics than that: each costs a request to each of its brokers."""
_MAX_DECOMPRESSED_BYTES = 4 * DECOMPRESSED_BYTES
"""One list returns no more decompressed bodies: a megabyte of messages may hold a gigabyte."""
_REDELIVERY_TIMEOUT_MS = 15_000
"""A broker waits ten seconds for the member."""
_OFFLINE = "not online"
"""The remark of brokers of all releases for a member that is offline; their code is that of any failure."""
_OUTCOMES = {
    ConsumeDirectlyOutcome.SUCCESS: "done",
    ConsumeDirectlyOutcome.COMMIT: "done",
    ConsumeDirectlyOutcome.LATER: "wanted again later",
    ConsumeDirectlyOutcome.ROLLBACK: "wanted again later",
    ConsumeDirectlyOutcome.RAISED: "raised",
    ConsumeDirectlyOutcome.RETURNED_NOTHING: "returned nothing",
}


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """A group that reads the topic of a message, and whether it is past the message."""

    group: str
    is_past: bool
    committed: int | None
    """The group's offset in the message's queue; None if it never committed one there."""


@dataclass(frozen=True, slots=True)
class RedeliveryResult:
    """The result of a message that one member had to handle."""

    group: str
    member: str
    outcome: str
    """``done``, ``wanted again later``, ``raised`` or ``returned nothing``."""
    took_ms: int
    remark: str | None

    @property
    def is_done(self) -> bool:
        """Whether the handler succeeded."""
        return self.outcome == _OUTCOMES[ConsumeDirectlyOutcome.SUCCESS]


@dataclass(frozen=True, slots=True)
class ConsumeQueueRow:
    """One entry of a consume queue: where the message of an offset is in the log, and the hash of its tag."""

    offset: int
    position: int
    size: int
    tag_hash: int
    matches: bool | None
    """Whether a group would get it; None if none was given, or it is not online."""
    remark: str | None


@dataclass(frozen=True, slots=True)
class ConsumeQueueRange:
    """A range of a consume queue."""

    queue: Queue
    start: int
    end: int
    rows: tuple[ConsumeQueueRow, ...]
    remark: str | None
    """What the broker remarks about the given group."""


class _ReadRange(NamedTuple):
    """Which messages of a queue are wanted."""

    start: int | None
    start_ms: int
    end_ms: int
    tags: str
    most: int

    def has_tag(self, message: StoredMessage) -> bool:
        """Whether a message has one of the tags: a broker compares only their hashes."""
        return self.tags == _ALL or (message.tags or "") in {tag.strip() for tag in self.tags.split("||")}


class MessageAdmin(AdminPart):
    """Messages: `Admin.messages`. With ``opened`` False, compressed bodies stay as they are stored.

    A list whose compressed bodies hold more than 64 MiB is refused: ask for fewer, or with ``opened=False``.
    """

    def __init__(self, session: AdminSession, groups: GroupAdmin) -> None:
        super().__init__(session)
        self._groups = groups

    async def find(self, message_id: str, topic: str | None = None, *, opened: bool = True) -> StoredMessage:
        """Find one message by its offset id, or by the id that its producer gave it.

        The latter is searched in its topic; without a topic, in all topics.
        """
        if len(message_id) != _GRPC_ID_LENGTH:
            for place in (await self._session.broker_places()).values():
                found = await self._by_offset_id(place, message_id)
                if found is not None:
                    return _try_decompress(found) if opened else found
        named = await self._by_unique_key(message_id, topic)
        if named is None:
            where = f"topic {topic!r}" if topic is not None else str(self._session.config)
            raise NoMessage(
                server=str(self._session.config),
                what=f"{where} has no message with the id {message_id}",
                next_step="it may be older than what is kept; or see what the id says: steelyard message id ID",
            )
        return _try_decompress(named) if opened else named

    async def find_by_key(
        self,
        topic: str,
        key: str,
        *,
        start: TimeOrAge | None = None,
        end: TimeOrAge | None = None,
        most: int = _MAX_BY_KEY,
        opened: bool = True,
    ) -> builtins.list[StoredMessage]:
        """Find the messages of a topic that have a key, oldest first; of too many, the newest."""
        here_ms = now_ms()
        start_ms = 0 if start is None else resolve_epoch_ms(start, now_ms=here_ms)
        end_ms = _FOREVER_MS if end is None else resolve_epoch_ms(end, now_ms=here_ms)
        found = await self._by_key(topic, key, most=most, start_ms=start_ms, end_ms=end_ms)
        return _decompress(found[-most:], opened)

    async def at(self, queue: Queue, offset: int, *, opened: bool = True) -> StoredMessage | None:
        """Return the message at an offset of a queue; None if there is none, or it was deleted."""
        route = await self._session.require_route(self._namespace.wrap(queue.topic))
        found, _ = await self._pull(route, self._namespace.wrap_queue(queue), offset, 1)
        message = next((message for message in found if message.offset == offset), None)
        return _try_decompress(message) if opened and message is not None else message

    async def group_progress(self, message: StoredMessage) -> builtins.list[GroupProgress]:
        """List the groups that read a message's topic, and whether they are past it."""
        full = self._namespace.wrap_queue(message.queue)
        route = await self._session.require_route(full.topic)
        place = broker_in_route(route, full.broker)
        found = []
        for group in await subscribed_groups(self._session, route):
            if not is_system_group(group):
                committed = await committed_offset(self._session, place, group, full)
                is_past = committed is not None and committed > message.offset
                found.append(GroupProgress(self._namespace.unwrap(group), is_past, committed))
        return sorted(found, key=lambda each: each.group)

    async def traces(self, message_id: str, topic: str = TRACE_TOPIC) -> builtins.list[TraceEvent]:
        """Return the trace events of a message, ordered by time; ``topic`` is where clients write them."""
        try:
            records = await self._by_key(topic, message_id, most=_MAX_TRACES)
        except TopicNotFound as error:
            raise TopicNotFound(
                code=error.code,
                server=str(self._session.config),
                what=f"{self._session.config} keeps no traces: there is no topic {topic!r}",
                next_step="let brokers create it (traceTopicEnable) and clients write to it (message_trace=True)",
            ) from None
        found = [
            replace(trace, client_host=record.born_host)
            for record in records
            for trace in decode_traces(_try_decompress(record).body.decode(errors="replace"))
            if message_id in (trace.message_id, trace.offset_id)
        ]
        if not found:
            raise NoMessage(
                server=str(self._session.config),
                what=f"topic {topic!r} has no trace of message {message_id}",
                next_step="producers and consumers write traces only with message_trace=True",
            )
        return sorted(found, key=lambda trace: trace.at_ms or 0)

    async def redeliver(self, message: StoredMessage, group: str, member: str | None = None) -> RedeliveryResult:
        """Have a member of a group handle a message now, any if none is named, and return the result."""
        if member is None:
            found = [each.id for each in await self._groups.members(group) if message.queue.broker in each.brokers]
            if not found:
                broker = message.queue.broker
                raise _consumer_offline(f"group {group!r} has no member online at {broker}", broker)
            member = found[0]
        full = self._namespace.wrap_queue(message.queue)
        place = broker_in_route(await self._session.require_route(full.topic), full.broker)
        fields = ConsumeMessageDirectly(
            consumer_group=self._namespace.wrap(group),
            client_id=member,
            msg_id=message.offset_id,
            broker_name=full.broker,
            topic=full.topic,
        )
        answer = await self._session.request(
            place, RequestCode.CONSUME_MESSAGE_DIRECTLY, fields, timeout_ms=_REDELIVERY_TIMEOUT_MS
        )
        if answer.code == ResponseCode.SYSTEM_ERROR and _OFFLINE in (answer.remark or ""):
            raise _consumer_offline(f"{member!r} of group {group!r} is not online at {place.name}", place.name)
        result = decode_body(ConsumeDirectlyResult, check_ok(answer, place.name).body)
        outcome = "returned nothing" if result.outcome is None else _OUTCOMES[result.outcome]
        return RedeliveryResult(group, member, outcome, result.spent_ms, result.remark)

    async def consume_queue(
        self, queue: Queue, start: int = 0, most: int = 32, group: str | None = None
    ) -> ConsumeQueueRange:
        """Read a range of a consume queue; with ``group``, whether that group would get the messages."""
        full = self._namespace.wrap_queue(queue)
        route = await self._session.require_route(full.topic)
        place = broker_in_route(route, full.broker)
        ends = await queue_offsets(self._session, place, full)
        if ends.start == ends.end and full in route.readable_queues():
            # Brokers answer that an empty queue does not exist.
            return ConsumeQueueRange(queue, ends.start, ends.end, (), None)
        reader = None if group is None else self._namespace.wrap(group)
        fields = QueryConsumeQueue(full.topic, full.queue_id, start, most, reader)
        answer = await self._session.request_ok(place, RequestCode.QUERY_CONSUME_QUEUE, fields)
        part = decode_body(ConsumeQueuePart, answer.body)
        is_judged = part.subscription is not None
        rows = tuple(
            ConsumeQueueRow(
                offset, each.position, each.size, each.tags_code, each.matches if is_judged else None, each.remark
            )
            for offset, each in enumerate(part.entries or (), max(start, part.min_index))
        )
        return ConsumeQueueRange(queue, part.min_index, part.max_index, rows, part.filter_text)

    async def _by_offset_id(self, place: BrokerAddresses, message_id: str) -> StoredMessage | None:
        """Return the message of an offset id, if its address is one of this broker's."""
        host, position = parse_offset_id(message_id)
        if host not in place.addresses.values():
            return None
        answer = await self._session.request(host, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessage(position))
        if answer.code != ResponseCode.SUCCESS:
            return None
        found = self._decode(answer.body, place.name)
        return next((message for message in found if message.position == position), None)

    async def _by_unique_key(self, message_id: str, topic: str | None) -> StoredMessage | None:
        """Return the newest message with a producer's id, in a topic or in any."""

        async def search(name: str) -> list[StoredMessage]:
            return await self._by_key(name, message_id, most=_BY_UNIQUE_KEY, unique=True)

        if topic is not None:
            return next(reversed(await search(topic)), None)
        own = [name for name in await self._session.own_topic_names() if not is_system_topic(name)]
        if len(own) > _MAX_TOPICS:
            raise ConfigurationError(f"{message_id} may be in any of {len(own)} topics", next_step="give its topic too")
        everywhere = [message for part in await gather_limited(search, own) for message in part]
        return max(everywhere, key=lambda message: message.stored_ms, default=None)

    async def _by_key(
        self, topic: str, key: str, *, most: int, start_ms: int = 0, end_ms: int = _FOREVER_MS, unique: bool = False
    ) -> builtins.list[StoredMessage]:
        route = await self._session.require_route(self._namespace.wrap(topic))
        fields = QueryMessages(route.topic, key, most, start_ms, end_ms, by_unique_key=unique)
        return await query_messages(self._session, route.brokers, fields)

    def _decode(self, body: bytes, broker: str) -> builtins.list[StoredMessage]:
        return [*map(self._namespace.unwrap_stored, decode_sealed_messages(StoredMessage, body, broker))]

    async def _read(self, route: TopicRoute, queue: Queue, wanted: _ReadRange) -> builtins.list[StoredMessage]:
        """Read the wanted messages of one queue."""
        place = broker_in_route(route, queue.broker)
        ends = await queue_offsets(self._session, place, queue)
        offset = ends.start
        if wanted.start is not None:
            offset = max(offset, wanted.start if wanted.start >= 0 else ends.end + wanted.start)
        elif wanted.start_ms:
            offset = max(offset, await offset_at_time(self._session, place, queue, wanted.start_ms))
        found: list[StoredMessage] = []
        while offset < ends.end and len(found) < wanted.most:
            pulled, following = await self._pull(route, queue, offset, _PULL_BATCH, wanted.tags)
            for message in pulled:
                if message.stored_ms >= wanted.end_ms:
                    return found[: wanted.most]
                if message.offset >= offset and message.stored_ms >= wanted.start_ms and wanted.has_tag(message):
                    found.append(message)
            if following <= offset:
                break
            offset = following
        return found[: wanted.most]

    async def _pull(
        self, route: TopicRoute, queue: Queue, offset: int, most: int, tags: str = _ALL
    ) -> tuple[builtins.list[StoredMessage], int]:
        """Pull some messages; with them the next offset."""
        body, following = await self._session.pull(broker_in_route(route, queue.broker), queue, offset, most, tags)
        return self._decode(body, queue.broker), following

    async def list(
        self,
        topic: str,
        *,
        start: TimeOrAge | int | None = None,
        end: TimeOrAge | None = None,
        most: int = 100,
        newest: bool = False,
        queue: Queue | None = None,
        tags: str | None = None,
        opened: bool = True,
    ) -> builtins.list[StoredMessage]:
        """Read a topic's messages that were stored from ``start`` on and before ``end``, the oldest first.

        A number as ``start`` is an offset, in each queue; one below 0 counts back from the end. With ``newest`` the
        last messages are read instead of the first. With ``queue`` only that queue is read, with ``tags`` only messages
        with one of them (``"paid || refunded"``).
        """
        if newest:
            start, end = -most, None
        route = await self._session.require_route(self._namespace.wrap(topic))
        queues = route.readable_queues()
        if queue is not None:
            full = self._namespace.wrap_queue(queue)
            if full not in queues:
                known = ", ".join(f"{each.broker}:{each.queue_id}" for each in queues)
                raise ConfigurationError(f"there is no queue {queue}", next_step=f"topic {topic!r} has {known}")
            queues = (full,)
        here_ms = now_ms()
        wanted = _ReadRange(
            start if isinstance(start, int) else None,
            0 if start is None or isinstance(start, int) else resolve_epoch_ms(start, now_ms=here_ms),
            _FOREVER_MS if end is None else resolve_epoch_ms(end, now_ms=here_ms),
            tags or _ALL,
            most,
        )
        parts = await gather_limited(lambda each: self._read(route, each, wanted), queues)
        found = [message for part in parts for message in part]
        # Many are stored in one millisecond: within one broker the position in the log decides.
        found.sort(key=lambda message: (message.stored_ms, message.queue.broker, message.position))
        return _decompress(found[-most:] if newest else found[:most], opened)


async def query_messages(
    session: AdminSession, brokers: Iterable[BrokerAddresses], query: QueryMessages
) -> list[StoredMessage]:
    """Return the messages that brokers find by a key, without those that only have its hash, oldest first."""
    found: dict[tuple[Queue, int], StoredMessage] = {}
    for place, answer in await session.request_each(brokers, RequestCode.QUERY_MESSAGE, query):
        if answer.code in (ResponseCode.QUERY_NOT_FOUND, ResponseCode.NO_MESSAGE):
            continue
        for message in decode_sealed_messages(StoredMessage, check_ok(answer, place.name).body, place.name):
            keys = (message.properties.get(UNIQUE_KEY),) if query.by_unique_key else message.keys
            if query.key in keys and message.queue.topic == query.topic:
                found[message.queue, message.offset] = session.namespace.unwrap_stored(message)
    return sorted(found.values(), key=lambda message: message.stored_ms)


def _decompress(found: list[StoredMessage], is_opened: bool) -> list[StoredMessage]:
    if not is_opened:
        return found
    decompressed, size = [], 0
    for message in found:
        whole = _try_decompress(message)
        if whole is not message:
            size += len(whole.body)
        if size > _MAX_DECOMPRESSED_BYTES:
            raise ConfigurationError(
                f"the bodies of {len(found)} messages have more than {_MAX_DECOMPRESSED_BYTES >> 20} MiB decompressed",
                next_step="ask for fewer, or with opened=False, or read them with a consumer",
            )
        decompressed.append(whole)
    return decompressed


def _try_decompress(message: StoredMessage) -> StoredMessage:
    try:
        return unseal_message(message)
    except BODY_ERRORS:
        return message


def _consumer_offline(what: str, broker: str) -> ConsumerOffline:
    return ConsumerOffline(
        server=broker,
        what=f"{what}, which has the message",
        next_step="start one, or send a copy to every group: steelyard message resend ID",
    )


def broker_in_route(route: TopicRoute, broker: str) -> BrokerAddresses:
    """Return one of a topic's brokers by its name."""
    for place in route.brokers:
        if place.name == broker:
            return place
    known = ", ".join(place.name for place in route.brokers) or "no broker"
    raise ConfigurationError(f"{broker!r} does not have topic {route.topic!r}", next_step=f"it is on {known}")
