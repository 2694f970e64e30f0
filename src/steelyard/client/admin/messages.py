"""Messages: one by its id or place, some by key, place or time.

Two kinds of ids look alike. One is made of a message's place: the address in it must be one of a broker's, and that
broker has it (33). The other was made by its producer and is found by the key index of the topic's brokers (12), which
finds by a hash: what was found is looked at again.

Bodies are opened last, of what is given away. One that cannot be opened is given as it is stored, with its bits in the
system flag: who looks into a queue wants to see that too.
"""

from typing import NamedTuple

from msgspec.structs import replace

from steelyard.client.admin.asking import TOOLS_GROUP, together
from steelyard.client.admin.times import Moment, epoch_ms
from steelyard.client.admin.topics import Topics
from steelyard.errors import ConfigurationError, NoMessage, error_for
from steelyard.model import BrokerPlace, Queue, Route, StoredMessage
from steelyard.model.message import UNIQUE_KEY
from steelyard.model.names import is_system_topic
from steelyard.net.clock import now_ms
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.headers.common import OffsetAnswer
from steelyard.wire.headers.group import SearchOffset
from steelyard.wire.headers.pull import Pull, PullAnswer, QueryMessages, ViewMessage
from steelyard.wire.message_ids import read_offset_id
from steelyard.wire.stored import UNREADABLE, opened, sealed_of

__all__ = ["Messages", "no_message", "opened_or_not", "place_in"]

_BY_UNIQUE_KEY = 32
_MOST_BY_KEY = 64
_PULLED = 32
_SUBSCRIBED = 4
_FOR_EVER_MS = (1 << 63) - 1
_ALL = "*"
_CARD_KEY_LETTERS = 34
"""An id of a gRPC client's, which is never that of a place."""
_MOST_TOPICS = 2_000
"""An id is looked for in no more topics than that: each is a question to each of its brokers."""


class _Span(NamedTuple):
    """Which messages of a queue are wanted."""

    start: int | None
    start_ms: int
    end_ms: int
    tags: str
    most: int

    def wants(self, message: StoredMessage) -> bool:
        """Say whether a message has one of the tags: a broker compares only their hashes."""
        return self.tags == _ALL or (message.tags or "") in {tag.strip() for tag in self.tags.split("||")}


class Messages(Topics):
    """What an administrator does with messages."""

    async def message(self, message_id: str, topic: str | None = None, *, opened: bool = True) -> StoredMessage:
        """Find one message by its id: by that of its place, or by that of its producer.

        The latter is looked for in its topic; if that is not given, in all topics. With ``opened`` False, here and
        below, a body that is compressed stays as it is stored.
        """
        if len(message_id) != _CARD_KEY_LETTERS:
            for place in (await self._places()).values():
                found = await self._at_place(place, message_id)
                if found is not None:
                    return _given([found], opened)[0]
        named = await self._by_unique_key(message_id, topic)
        if named is None:
            where = f"topic {topic!r}" if topic is not None else str(self._connect)
            raise no_message(
                f"{where} has no message with the id {message_id}",
                server=str(self._connect),
                next_step="it may be older than what is kept; or see what the id says: steelyard message id ID",
            )
        return _given([named], opened)[0]

    async def messages_by_key(
        self,
        topic: str,
        key: str,
        *,
        start: Moment | None = None,
        end: Moment | None = None,
        most: int = _MOST_BY_KEY,
        opened: bool = True,
    ) -> list[StoredMessage]:
        """Find the messages of a topic that have a key, oldest first; the newest of too many."""
        here_ms = now_ms()
        start_ms = 0 if start is None else epoch_ms(start, now_ms=here_ms)
        end_ms = _FOR_EVER_MS if end is None else epoch_ms(end, now_ms=here_ms)
        found = await self._by_key(topic, key, most=most, start_ms=start_ms, end_ms=end_ms, unique=False)
        return _given(found[-most:], opened)

    async def message_at(self, queue: Queue, offset: int) -> StoredMessage | None:
        """Return the message at an offset of a queue; None if there is none, or none any more."""
        route = await self._route(self._names.full(queue.topic))
        found, _ = await self._pull(route, self._names.full_queue(queue), offset, 1)
        there = [message for message in found if message.offset == offset]
        return _given(there[:1], True)[0] if there else None

    async def messages(
        self,
        topic: str,
        *,
        start: Moment | int | None = None,
        end: Moment | None = None,
        most: int = 100,
        newest: bool = False,
        queue: Queue | None = None,
        tags: str | None = None,
        opened: bool = True,
    ) -> list[StoredMessage]:
        """Read a topic's messages that were stored from ``start`` on and before ``end``, the oldest first.

        A number as ``start`` is an offset, in each queue; one below 0 counts back from the end. With ``newest`` the
        last messages are read and not the first. With ``queue`` that queue alone is read, with ``tags`` only what has
        one of them (``"paid || refunded"``).
        """
        if newest:
            start, end = -most, None
        route = await self._route(self._names.full(topic))
        queues = route.readable()
        if queue is not None:
            wanted = self._names.full_queue(queue)
            if wanted not in queues:
                known = ", ".join(f"{each.broker}:{each.queue_id}" for each in queues)
                raise ConfigurationError(f"there is no queue {queue}", next_step=f"topic {topic!r} has {known}")
            queues = (wanted,)
        here_ms = now_ms()
        span = _Span(
            start if isinstance(start, int) else None,
            0 if start is None or isinstance(start, int) else epoch_ms(start, now_ms=here_ms),
            _FOR_EVER_MS if end is None else epoch_ms(end, now_ms=here_ms),
            tags or _ALL,
            most,
        )
        parts = await together(lambda each: self._read(route, each, span), queues)
        found = [message for part in parts for message in part]
        # Many are stored in one millisecond: of one broker the log knows which came first.
        found.sort(key=lambda message: (message.stored_ms, message.queue.broker, message.position))
        return _given(found[-most:] if newest else found[:most], opened)

    # -- parts --------------------------------------------------------------------------------------------------------

    async def _at_place(self, place: BrokerPlace, message_id: str) -> StoredMessage | None:
        """Return the message that an id names by its place, if that is the place of this broker."""
        host, position = read_offset_id(message_id)
        if host not in place.addresses.values():
            return None
        answer = await self._ask_at(host, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessage(position))
        if answer.code != ResponseCode.SUCCESS:
            return None
        found = self._read_body(answer.body, place.name)
        return next((message for message in found if message.position == position), None)

    async def _by_unique_key(self, message_id: str, topic: str | None) -> StoredMessage | None:
        """Return the newest message with an id of a producer's, of a topic or of any."""

        async def look(name: str) -> list[StoredMessage]:
            return await self._by_key(
                name, message_id, most=_BY_UNIQUE_KEY, start_ms=0, end_ms=_FOR_EVER_MS, unique=True
            )

        if topic is not None:
            found = await look(topic)
            return found[-1] if found else None
        names = [self._names.bare(name) for name in await self._topic_names() if self._is_here(name)]
        own = [name for name in names if not is_system_topic(name)]
        if len(own) > _MOST_TOPICS:
            raise ConfigurationError(f"{message_id} may be in any of {len(own)} topics", next_step="give its topic too")
        everywhere = [message for part in await together(look, own) for message in part]
        return max(everywhere, key=lambda message: message.stored_ms, default=None)

    async def _by_key(
        self, topic: str, key: str, *, most: int, start_ms: int, end_ms: int, unique: bool
    ) -> list[StoredMessage]:
        full = self._names.full(topic)
        route = await self._route(full)
        asked = QueryMessages(full, key, most, start_ms, end_ms, by_unique_key=unique)
        found: list[StoredMessage] = []
        for place, answer in await self._ask_all(route.brokers, RequestCode.QUERY_MESSAGE, asked):
            if answer.code == ResponseCode.SUCCESS:
                found += self._read_body(answer.body, place.name)
            elif answer.code not in (ResponseCode.QUERY_NOT_FOUND, ResponseCode.NO_MESSAGE):
                raise error_for(answer.code, answer.remark or "", server=place.name)
        right = {
            (message.queue, message.offset): message
            for message in found
            if message.topic == topic and (message.properties.get(UNIQUE_KEY) == key if unique else key in message.keys)
        }
        return sorted(right.values(), key=lambda message: message.stored_ms)

    def _read_body(self, body: bytes, broker: str) -> list[StoredMessage]:
        return [self._seen(message) for message in sealed_of(StoredMessage, body, broker)]

    def _seen(self, message: StoredMessage) -> StoredMessage:
        """Return a message under the name that users give its topic."""
        if not self._names.namespace:
            return message
        return replace(message, queue=self._names.bare_queue(message.queue))

    async def _read(self, route: Route, queue: Queue, span: "_Span") -> list[StoredMessage]:
        """Read one queue between two places or times, at most so many."""
        place = place_in(route, queue.broker)
        ends = await self._queue_ends(place, queue)
        offset = ends.start
        if span.start is not None:
            offset = max(offset, span.start if span.start >= 0 else ends.end + span.start)
        elif span.start_ms:
            asked = SearchOffset(queue.topic, queue.queue_id, span.start_ms)
            answer = await self._ask_well(place, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, asked)
            offset = max(offset, answer.header(OffsetAnswer).offset)
        found: list[StoredMessage] = []
        while offset < ends.end and len(found) < span.most:
            pulled, following = await self._pull(route, queue, offset, _PULLED, span.tags)
            for message in pulled:
                if message.stored_ms >= span.end_ms:
                    return found[: span.most]
                if message.offset >= offset and message.stored_ms >= span.start_ms and span.wants(message):
                    found.append(message)
            if following <= offset:
                break
            offset = following
        return found[: span.most]

    async def _pull(
        self, route: Route, queue: Queue, offset: int, most: int, tags: str = "*"
    ) -> tuple[list[StoredMessage], int]:
        """Pull some messages; with them where to go on."""
        place = place_in(route, queue.broker)
        header = Pull(TOOLS_GROUP, queue.topic, queue.queue_id, offset, most, _SUBSCRIBED, 0, 0, 0, tags, "TAG")
        answer = await self._ask(place, RequestCode.PULL_MESSAGE, header)
        if answer.code == ResponseCode.SUCCESS:
            found = self._read_body(answer.body, place.name)
            return found, answer.header(PullAnswer).next_begin_offset
        if answer.code in (
            ResponseCode.PULL_NOT_FOUND,
            ResponseCode.PULL_RETRY_IMMEDIATELY,
            ResponseCode.PULL_OFFSET_MOVED,
        ):
            return [], answer.header(PullAnswer).next_begin_offset
        raise error_for(answer.code, answer.remark or "", server=place.name)


def _given(found: list[StoredMessage], is_opened: bool) -> list[StoredMessage]:
    return [opened_or_not(message) for message in found] if is_opened else found


def opened_or_not(message: StoredMessage) -> StoredMessage:
    """Return a message with its body opened, if that can be."""
    try:
        return opened(message)
    except UNREADABLE:
        return message


def no_message(what: str, *, server: str, next_step: str) -> NoMessage:
    """Make the error for a message that is not there."""
    return NoMessage(code=int(ResponseCode.NO_MESSAGE), server=server, what=what, next_step=next_step)


def place_in(route: Route, broker: str) -> BrokerPlace:
    """Return one of a topic's brokers by its name."""
    for place in route.brokers:
        if place.name == broker:
            return place
    known = ", ".join(place.name for place in route.brokers) or "no broker"
    raise ConfigurationError(f"{broker!r} does not have topic {route.topic!r}", next_step=f"it is on {known}")
