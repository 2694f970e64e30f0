"""Messages: one by its id or place, some by key or time, dead letters, and sending one of those on its way again.

Two kinds of ids look alike. One is made of a message's place: the address in it must be one of a broker's, and that
broker has it (33). The other was made by its producer and is found by the key index of the topic's brokers (12), which
finds by a hash: what was found is looked at again.
"""

from msgspec.structs import replace

from steelyard.client.admin.asking import TOOLS_GROUP, together
from steelyard.client.admin.times import Moment, epoch_ms
from steelyard.client.admin.topics import Topics
from steelyard.client.producing.sent import Sent
from steelyard.errors import ConfigurationError, NoMessage, error_for
from steelyard.model import BrokerPlace, Queue, Route, StoredMessage
from steelyard.model.message import UNIQUE_KEY
from steelyard.model.names import DEAD, DEFAULT_TOPIC, RETRY
from steelyard.net.clock import now_ms
from steelyard.wire.codes import STORED, RequestCode, ResponseCode
from steelyard.wire.headers.common import OffsetAnswer
from steelyard.wire.headers.group import SearchOffset
from steelyard.wire.headers.pull import Pull, PullAnswer, QueryMessages, ViewMessage
from steelyard.wire.headers.send import SendAnswer, SendShort
from steelyard.wire.message_ids import read_offset_id
from steelyard.wire.properties import encode_properties
from steelyard.wire.property_names import (
    DEAD_ORIGIN_ID,
    DEAD_ORIGIN_TOPIC,
    DELAY_LEVEL,
    MAX_RECONSUME_TIMES,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    RECONSUME_TIME,
    RETRY_TOPIC,
)
from steelyard.wire.stored import messages as read_messages

__all__ = ["Messages"]

_BY_UNIQUE_KEY = 32
_MOST_BY_KEY = 64
_PULLED = 32
_SUBSCRIBED = 4
_FOR_EVER_MS = (1 << 63) - 1
_ON_ITS_WAY = (
    DELAY_LEVEL,
    REAL_TOPIC,
    REAL_QUEUE_ID,
    RECONSUME_TIME,
    MAX_RECONSUME_TIMES,
    DEAD_ORIGIN_TOPIC,
    DEAD_ORIGIN_ID,
)
"""What a message got on its way to the dead letters and does not take along."""


class Messages(Topics):
    """What an administrator does with messages."""

    async def message(self, message_id: str, topic: str | None = None) -> StoredMessage:
        """Find one message by its id: by that of its place, or with its topic by that of its producer."""
        places = await self._places()
        for place in places.values():
            found = await self._at_place(place, message_id)
            if found is not None:
                return found
        if topic is None:
            raise ConfigurationError(
                f"{message_id} is not the place of a message on {self._connect}",
                next_step="give its topic too, if it is an id that a producer gave",
            )
        named = await self._by_key(topic, message_id, most=_BY_UNIQUE_KEY, start_ms=0, end_ms=_FOR_EVER_MS, unique=True)
        if not named:
            raise NoMessage(
                code=int(ResponseCode.NO_MESSAGE),
                server=str(self._connect),
                what=f"topic {topic!r} has no message with the id {message_id}",
            )
        return named[-1]

    async def messages_by_key(
        self,
        topic: str,
        key: str,
        *,
        start: Moment | None = None,
        end: Moment | None = None,
        most: int = _MOST_BY_KEY,
    ) -> list[StoredMessage]:
        """Find the messages of a topic that have a key, oldest first; the newest of too many."""
        here_ms = now_ms()
        start_ms = 0 if start is None else epoch_ms(start, now_ms=here_ms)
        end_ms = _FOR_EVER_MS if end is None else epoch_ms(end, now_ms=here_ms)
        found = await self._by_key(topic, key, most=most, start_ms=start_ms, end_ms=end_ms, unique=False)
        return found[-most:]

    async def message_at(self, queue: Queue, offset: int) -> StoredMessage | None:
        """Return the message at an offset of a queue; None if there is none, or none any more."""
        route = await self._route(self._names.full(queue.topic))
        found, _ = await self._pull(route, self._names.full_queue(queue), offset, 1)
        return next((message for message in found if message.offset == offset), None)

    async def messages(
        self, topic: str, *, start: Moment | None = None, end: Moment | None = None, most: int = 100
    ) -> list[StoredMessage]:
        """Read a topic's messages that were stored from ``start`` on and before ``end``, the oldest first."""
        route = await self._route(self._names.full(topic))
        here_ms = now_ms()
        start_ms = None if start is None else epoch_ms(start, now_ms=here_ms)
        end_ms = _FOR_EVER_MS if end is None else epoch_ms(end, now_ms=here_ms)
        parts = await together(lambda queue: self._read(route, queue, start_ms, end_ms, most), route.readable())
        found = [message for part in parts for message in part]
        return sorted(found, key=lambda message: (message.stored_ms, message.queue, message.offset))[:most]

    async def dead_letters(self, group: str, *, most: int = 100) -> list[StoredMessage]:
        """Read the messages that a group gave up, the oldest first."""
        topic = f"{DEAD}{group}"
        if await self._find_route(self._names.full(topic)) is None:
            return []
        return await self.messages(topic, most=most)

    async def resend(self, dead: StoredMessage) -> Sent:
        """Give a dead letter to its group again: to that group alone, with all its attempts before it.

        The dead letter stays where it is. Apache's brokers from 5.1.3 on put it straight back if members of the group
        hold locks, as orderly ones do.
        """
        topic = self._names.full(dead.topic)
        if not topic.startswith(DEAD):
            raise ConfigurationError(
                f"a message of {dead.topic} is no dead letter", next_step="take one that dead_letters gave"
            )
        group = topic.removeprefix(DEAD)
        route = await self._route(topic)
        place = _place(route, dead.queue.broker)
        properties = dict(dead.properties)
        properties.setdefault(RETRY_TOPIC, properties.get(DEAD_ORIGIN_TOPIC, ""))
        kept = {name: text for name, text in properties.items() if text and name not in _ON_ITS_WAY}
        header = SendShort(
            producer_group=group,
            topic=f"{RETRY}{group}",
            default_topic=DEFAULT_TOPIC,
            default_topic_queue_nums=1,
            queue_id=0,
            sys_flag=dead.sys_flag,
            born_timestamp=dead.born_ms,
            flag=dead.flag,
            properties=encode_properties(kept).decode(),
            reconsume_times=0,
            unit_mode=False,
            max_reconsume_times=1,  # it is to be tried once more, also where the group allows no retries at all
            batch=False,
            broker=place.name,
        )
        answer = await self._ask(place, RequestCode.SEND_MESSAGE_V2, header, dead.body)
        if answer.code not in STORED:
            raise error_for(answer.code, answer.remark or "", server=place.name)
        stored = answer.header(SendAnswer)
        queue = Queue(f"{RETRY}{group}", place.name, stored.queue_id)
        return Sent(self._names.bare_queue(queue), stored.queue_offset, dead.message_id)

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
        return [self._seen(message) for message in read_messages(body, broker)]

    def _seen(self, message: StoredMessage) -> StoredMessage:
        """Return a message under the name that users give its topic."""
        if not self._names.namespace:
            return message
        return replace(message, queue=self._names.bare_queue(message.queue))

    async def _read(
        self, route: Route, queue: Queue, start_ms: int | None, end_ms: int, most: int
    ) -> list[StoredMessage]:
        """Read one queue between two times, at most so many."""
        place = _place(route, queue.broker)
        ends = await self._queue_ends(place, queue)
        offset = ends.start
        if start_ms is not None:
            asked = SearchOffset(queue.topic, queue.queue_id, start_ms)
            answer = await self._ask_well(place, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, asked)
            offset = max(offset, answer.header(OffsetAnswer).offset)
        found: list[StoredMessage] = []
        while offset < ends.end and len(found) < most:
            pulled, following = await self._pull(route, queue, offset, min(_PULLED, most - len(found)))
            for message in pulled:
                if message.stored_ms >= end_ms:
                    return found
                if message.offset >= offset and message.stored_ms >= (start_ms or 0):
                    found.append(message)
            if following <= offset:
                break
            offset = following
        return found[:most]

    async def _pull(self, route: Route, queue: Queue, offset: int, most: int) -> tuple[list[StoredMessage], int]:
        """Pull some messages; with them where to go on."""
        place = _place(route, queue.broker)
        header = Pull(TOOLS_GROUP, queue.topic, queue.queue_id, offset, most, _SUBSCRIBED, 0, 0, 0, "*", "TAG")
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


def _place(route: Route, broker: str) -> BrokerPlace:
    for place in route.brokers:
        if place.name == broker:
            return place
    known = ", ".join(place.name for place in route.brokers) or "no broker"
    raise ConfigurationError(f"{broker!r} does not have topic {route.topic!r}", next_step=f"it is on {known}")
