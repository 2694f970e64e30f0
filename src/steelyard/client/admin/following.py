"""What became of a message, and having it handled once more.

Which groups are past it is told by their offsets. What happened to it on its way is told by records that clients of
all makes write into a topic, if they are told to. A broker passes a message on to one member of a group that handles
it at once (309): no offset moves, and nobody else gets it. What a queue's index says of its messages is 321.

200056 has a broker of 5.x write what POP consumers have in hand from its database into its files, for a return to an
older release.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from steelyard.client.admin.members import Members
from steelyard.client.admin.messages import Messages, no_message, opened_or_not, place_in
from steelyard.errors import ConsumerOffline, TopicNotFound, error_for
from steelyard.model import Queue, StoredMessage
from steelyard.model.names import TRACE_TOPIC, is_system_group
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.running import DirectOutcome, DirectResult
from steelyard.wire.bodies.stats import IndexView
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.headers.common import OffsetAnswer
from steelyard.wire.headers.group import ConsumeDirectly, QueryOffset
from steelyard.wire.headers.pull import QueryIndex
from steelyard.wire.traces import Trace, read_traces

__all__ = ["Following", "HandledNow", "IndexPart", "IndexRow", "Reader"]

_HANDLING_MS = 15_000
"""A broker waits ten seconds for the member."""
_OFFLINE = "not online"
"""What brokers of all releases remark then; their code is that of any failure."""
_MOST_TRACES = 64
_EXPORT_MS = 30_000
_OUTCOMES = {
    DirectOutcome.SUCCESS: "done",
    DirectOutcome.COMMIT: "done",
    DirectOutcome.LATER: "wanted again later",
    DirectOutcome.ROLLBACK: "wanted again later",
    DirectOutcome.RAISED: "raised",
    DirectOutcome.RETURNED_NOTHING: "returned nothing",
}


@dataclass(frozen=True, slots=True)
class Reader:
    """A group that reads the topic of a message, and whether it is past the message."""

    group: str
    is_past: bool
    committed: int | None
    """The group's offset in the message's queue; None if it never stored one there."""


@dataclass(frozen=True, slots=True)
class HandledNow:
    """What a member made of a message that it was told to handle."""

    group: str
    member: str
    outcome: str
    """``done``, ``wanted again later``, ``raised`` or ``returned nothing``."""
    took_ms: int
    remark: str | None
    """What the handler raised."""

    @property
    def is_done(self) -> bool:
        """Whether the handler took it."""
        return self.outcome == _OUTCOMES[DirectOutcome.SUCCESS]


@dataclass(frozen=True, slots=True)
class IndexRow:
    """One entry of a queue's index: where the message of an offset lies, and the hash of its tag."""

    offset: int
    position: int
    size: int
    tag_hash: int
    matches: bool | None
    """Whether a group would get it; None if none was asked about, or it is not online."""
    remark: str | None


@dataclass(frozen=True, slots=True)
class IndexPart:
    """A part of a queue's index."""

    queue: Queue
    start: int
    """The first offset that the queue has."""
    end: int
    rows: tuple[IndexRow, ...]
    remark: str | None
    """What the broker has to say about the group that was asked about."""


class Following(Members, Messages):
    """What an administrator asks about a message that was found."""

    async def readers(self, message: StoredMessage) -> list[Reader]:
        """List the groups that read a message's topic, and whether they are past it."""
        full = self._names.full_queue(message.queue)
        route = await self._route(full.topic)
        place = place_in(route, full.broker)
        found = []
        for group in await self._readers(full.topic, route.brokers):
            if is_system_group(group):
                continue
            asked = QueryOffset(group, full.topic, full.queue_id, set_zero_if_not_found=False)
            answer = await self._ask(place, RequestCode.QUERY_CONSUMER_OFFSET, asked)
            is_known = answer.code == ResponseCode.SUCCESS
            committed = answer.header(OffsetAnswer).offset if is_known else None
            is_past = committed is not None and committed > message.offset
            found.append(Reader(self._names.bare(group), is_past, committed))
        return sorted(found, key=lambda reader: reader.group)

    async def traces(self, message_id: str, topic: str = TRACE_TOPIC) -> list[Trace]:
        """Read what clients wrote down about a message, in order of time; ``topic`` is where they write it."""
        try:
            records = await self._by_key(
                topic, message_id, most=_MOST_TRACES, start_ms=0, end_ms=(1 << 63) - 1, unique=False
            )
        except TopicNotFound as error:
            raise TopicNotFound(
                code=error.code,
                server=str(self._connect),
                what=f"nobody keeps traces on {self._connect}: there is no topic {topic!r}",
                next_step="have brokers make it (traceTopicEnable) and clients write to it (message_trace=True)",
            ) from None
        found = [
            replace(trace, client_host=record.born_host)
            for record in records
            for trace in read_traces(opened_or_not(record).body.decode(errors="replace"))
            if message_id in (trace.message_id, trace.offset_id)
        ]
        if not found:
            raise no_message(
                f"no client wrote down what became of {message_id} in topic {topic!r}",
                server=str(self._connect),
                next_step="producers and consumers do so only if they are told to (message_trace=True)",
            )
        return sorted(found, key=lambda trace: trace.at_ms or 0)

    async def redeliver(self, message: StoredMessage, group: str, member: str | None = None) -> HandledNow:
        """Have a member of a group handle a message now, any if none is named, and return what came of it."""
        if member is None:
            found = [each.id for each in await self.members(group) if message.queue.broker in each.brokers]
            if not found:
                raise _offline(f"group {group!r} has no member online at {message.queue.broker}", message.queue.broker)
            member = found[0]
        full = self._names.full_queue(message.queue)
        place = place_in(await self._route(full.topic), full.broker)
        asked = ConsumeDirectly(
            consumer_group=self._names.full(group),
            client_id=member,
            msg_id=message.offset_id,
            broker_name=full.broker,
            topic=full.topic,
        )
        answer = await self._ask(place, RequestCode.CONSUME_MESSAGE_DIRECTLY, asked, timeout_ms=_HANDLING_MS)
        if answer.code == ResponseCode.SYSTEM_ERROR and _OFFLINE in (answer.remark or ""):
            raise _offline(f"{member!r} of group {group!r} is not online at {place.name}", place.name)
        if answer.code != ResponseCode.SUCCESS:
            raise error_for(answer.code, answer.remark or "", server=place.name)
        result = decode_body(DirectResult, answer.body)
        outcome = "returned nothing" if result.outcome is None else _OUTCOMES[result.outcome]
        return HandledNow(group, member, outcome, result.spent_ms, result.remark)

    async def queue_index(self, queue: Queue, start: int = 0, most: int = 32, group: str | None = None) -> IndexPart:
        """Read a part of a queue's index; with ``group``, whether that group would get the messages."""
        full = self._names.full_queue(queue)
        route = await self._route(full.topic)
        place = place_in(route, full.broker)
        ends = await self._queue_ends(place, full)
        if ends.start == ends.end and full in route.readable():
            return IndexPart(
                queue, ends.start, ends.end, (), None
            )  # of an empty queue brokers say that it is not there
        reader = None if group is None else self._names.full(group)
        asked = QueryIndex(full.topic, full.queue_id, start, most, reader)
        answer = await self._ask_well(place, RequestCode.QUERY_CONSUME_QUEUE, asked)
        view = decode_body(IndexView, answer.body)
        first = max(start, view.min_index)
        is_judged = view.subscription is not None
        rows = tuple(
            IndexRow(
                first + number,
                entry.position,
                entry.size,
                entry.tags_code,
                entry.matches if is_judged else None,
                entry.remark,
            )
            for number, entry in enumerate(view.entries or ())
        )
        return IndexPart(queue, view.min_index, view.max_index, rows, view.filter_text)

    async def export_pop_records(self, brokers: Iterable[str] | None = None) -> list[str]:
        """Have brokers write what POP consumers have in hand from their database into their files; return which did."""
        done = []
        for place in await self._chosen(brokers, None):
            answer = await self._ask(place, RequestCode.POP_ROLLBACK, timeout_ms=_EXPORT_MS)
            if answer.code != ResponseCode.SUCCESS:
                raise error_for(answer.code, answer.remark or "", server=place.name)
            done.append(place.name)
        return done


def _offline(what: str, broker: str) -> ConsumerOffline:
    return ConsumerOffline(
        code=int(ResponseCode.CONSUMER_NOT_ONLINE),
        server=broker,
        what=f"{what}, which has the message",
        next_step="start one, or send a copy to every group: steelyard message resend ID",
    )
