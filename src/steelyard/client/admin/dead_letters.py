"""Dead letters: messages that a group failed to handle too often, and resending them.

They stay in a topic of their own: resending one makes a copy, which only that group gets. One that is resent twice is
delivered twice.
"""

import builtins
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from steelyard.client.admin.admin_session import AdminPart, AdminSession, gather_limited
from steelyard.client.admin.messages import MessageAdmin, broker_in_route, query_messages
from steelyard.client.admin.topics import TopicAdmin
from steelyard.client.producer.send_result import SendResult
from steelyard.client.times import TimeOrAge, from_epoch_ms
from steelyard.errors import ConfigurationError, LimitExceeded, MalformedRecord, NoMessage, error_for
from steelyard.model import Queue, StoredMessage
from steelyard.model.reserved_names import DEFAULT_TOPIC, DLQ_PREFIX, RETRY_PREFIX
from steelyard.net.clock import now_ms
from steelyard.wire.codes import STORED_CODES, RequestCode
from steelyard.wire.headers.pull import QueryMessages
from steelyard.wire.headers.send import SendMessageResponse, SendMessageV2
from steelyard.wire.properties import encode_properties
from steelyard.wire.property_names import (
    DELAY_LEVEL,
    DLQ_ORIGIN_MESSAGE_ID,
    DLQ_ORIGIN_TOPIC,
    ERROR,
    MAX_RECONSUME_TIMES,
    ORIGIN_MESSAGE_ID,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    RECONSUME_TIME,
    RESENT_AT,
    RESENT_BY,
    RETRY_TOPIC,
    UNIQUE_KEY,
    UNREADABLE_OFFSET,
    UNREADABLE_QUEUE,
    UNREADABLE_SYS_FLAG,
)
from steelyard.wire.sysflag import COMPRESSED, COMPRESSION_BITS, WRAPPED

_RETRY_PROPERTIES = (
    DELAY_LEVEL,
    REAL_TOPIC,
    REAL_QUEUE_ID,
    RECONSUME_TIME,
    MAX_RECONSUME_TIMES,
    DLQ_ORIGIN_TOPIC,
    DLQ_ORIGIN_MESSAGE_ID,
    ERROR,
    UNREADABLE_QUEUE,
    UNREADABLE_OFFSET,
    UNREADABLE_SYS_FLAG,
)
"""Properties of a dead letter that its copy does not get."""
_LONGEST_FLAG = 10
_MAX_TIME_DIGITS = 14
_MAX_COPIES = 32
_FOREVER_MS = (1 << 63) - 1
_INDEX_STEP_MS = 1_000
"""Key indexes round times down to the second."""


@dataclass(frozen=True, slots=True)
class DeadLetterCount:
    """How many dead letters a group has, and when the last one was stored."""

    group: str
    messages: int
    last_at: datetime | None


def dead_letter_topic(dead: StoredMessage) -> str:
    """Return the topic that a dead letter was sent to; empty if it does not say so."""
    return dead.properties.get(RETRY_TOPIC) or dead.properties.get(DLQ_ORIGIN_TOPIC) or ""


def origin_message_id(dead: StoredMessage) -> str | None:
    """Return the offset id that a dead letter had in its original topic; None if it does not say so."""
    return dead.properties.get(DLQ_ORIGIN_MESSAGE_ID) or dead.properties.get(ORIGIN_MESSAGE_ID)


def dead_letter_error(dead: StoredMessage) -> str | None:
    """Return why the last attempt at a dead letter failed; None if it does not say so."""
    error = dead.properties.get(ERROR)
    return f"the body cannot be read: {error}" if error and UNREADABLE_SYS_FLAG in dead.properties else error


@dataclass(frozen=True, slots=True)
class DeadLetterResend:
    """When the message of a dead letter was resent to its group, and by which client."""

    at: datetime
    by: str

    @classmethod
    def of(cls, message: StoredMessage) -> "DeadLetterResend | None":
        """Return the mark of a resent message; None if it has none."""
        text = message.properties.get(RESENT_AT, "")
        at = from_epoch_ms(int(text)) if text.isascii() and text.isdigit() and len(text) <= _MAX_TIME_DIGITS else None
        return None if at is None else cls(at, message.properties.get(RESENT_BY, ""))


def _compression_flag(dead: StoredMessage) -> int:
    """Return the compression bits of a message that could not be read: its copy needs them."""
    text = dead.properties.get(UNREADABLE_SYS_FLAG, "")
    known = int(text) if text.isdecimal() and len(text) <= _LONGEST_FLAG else 0
    return known & (COMPRESSED | COMPRESSION_BITS | WRAPPED)


class DeadLetterAdmin(AdminPart):
    """Dead letters: `Admin.dead_letters`."""

    def __init__(self, session: AdminSession, topics: TopicAdmin, messages: MessageAdmin) -> None:
        super().__init__(session)
        self._topics = topics
        self._messages = messages

    async def counts(self) -> builtins.list[DeadLetterCount]:
        """List the groups that have dead letters."""
        topics = [name for name in await self._session.own_topic_names() if name.startswith(DLQ_PREFIX)]
        found = await gather_limited(self._topics.describe, topics)
        return [
            DeadLetterCount(topic.name.removeprefix(DLQ_PREFIX), topic.messages, topic.stored_at)
            for topic in found
            if topic.messages
        ]

    async def queues(self, group: str) -> builtins.list[Queue]:
        """Return the queues of a group's dead letters; none if it never had any."""
        route = await self._session.find_route(self._namespace.wrap(f"{DLQ_PREFIX}{group}"))
        return [] if route is None else [self._namespace.unwrap_queue(queue) for queue in route.readable_queues()]

    async def find(self, group: str, message_id: str, *, opened: bool = True) -> StoredMessage:
        """Find one dead letter of a group by its offset id, or by the id that its producer gave it."""
        topic, next_step = f"{DLQ_PREFIX}{group}", f"see which there are: steelyard dead-letters ls {group}"
        if await self._session.find_route(self._namespace.wrap(topic)) is not None:
            try:
                found = await self._messages.find(message_id, topic, opened=opened)
                if found.topic == topic:
                    return found
            except NoMessage:
                pass
            except MalformedRecord:
                raise ConfigurationError(
                    f"an id of a message has 32 or 56 hexadecimal digits, and {message_id!r} is not one",
                    next_step=next_step,
                ) from None
        what = f"group {group!r} has no dead letter with the id {message_id}"
        raise NoMessage(server=str(self._session.config), what=what, next_step=next_step)

    async def delete(self, group: str) -> int:
        """Delete all dead letters of a group, and return their number."""
        topic = f"{DLQ_PREFIX}{group}"
        if await self._session.find_route(self._namespace.wrap(topic)) is None:
            return 0
        there = (await self._topics.describe(topic)).messages
        await self._topics.delete(topic)
        return there

    async def resend(self, dead: StoredMessage) -> SendResult:
        """Send a copy of a dead letter to its group, and to no other.

        The dead letter stays. One that could not be read is sent as it was: members may be able to read it now.
        Apache's brokers from 5.1.3 on make it a dead letter again at once if members of the group hold locks, as
        orderly ones do. The copy says when it was resent and by which client: `resends` finds it.
        """
        topic = self._namespace.wrap(dead.topic)
        if not topic.startswith(DLQ_PREFIX):
            raise ConfigurationError(
                f"a message of {dead.topic} is no dead letter", next_step="take one of dead_letters.list"
            )
        group = topic.removeprefix(DLQ_PREFIX)
        place = broker_in_route(await self._session.require_route(topic), dead.queue.broker)
        properties = {**dead.properties, RETRY_TOPIC: dead_letter_topic(dead)}
        kept = {name: text for name, text in properties.items() if text and name not in _RETRY_PROPERTIES}
        header = SendMessageV2(
            producer_group=group,
            topic=f"{RETRY_PREFIX}{group}",
            default_topic=DEFAULT_TOPIC,
            default_topic_queue_nums=1,
            queue_id=0,
            sys_flag=dead.sys_flag | _compression_flag(dead),
            born_timestamp=dead.born_ms,
            flag=dead.flag,
            properties=await self._marked_properties(kept),
            reconsume_times=0,
            unit_mode=False,
            max_reconsume_times=1,  # it is delivered once, even if the group allows no retries at all
            batch=False,
            broker=place.name,
        )
        answer = await self._session.request(place, RequestCode.SEND_MESSAGE_V2, header, dead.body)
        if answer.code not in STORED_CODES:
            raise error_for(answer.code, answer.remark or "", server=place.name)
        stored = answer.header(SendMessageResponse)
        queue = Queue(f"{RETRY_PREFIX}{group}", place.name, stored.queue_id)
        return SendResult(self._namespace.unwrap_queue(queue), stored.queue_offset, dead.message_id)

    async def _marked_properties(self, properties: dict[str, str]) -> str:
        """Encode the properties of a resent message, with its mark if there is room."""
        mark = {RESENT_AT: str(now_ms()), RESENT_BY: (await self._session.open()).client_id}
        try:
            return encode_properties(properties | mark).decode()
        except LimitExceeded:
            return encode_properties(properties).decode()

    async def resends(self, letters: Iterable[StoredMessage]) -> builtins.list[DeadLetterResend | None]:
        """Return for each dead letter when its message was last resent to the group; None if it never was.

        A resent message is found by its id as long as its broker keeps it. One that failed again is another dead
        letter, and has the mark itself.
        """
        found = tuple(letters)
        retries = {dead.topic: f"{RETRY_PREFIX}{dead.topic.removeprefix(DLQ_PREFIX)}" for dead in found}
        names = list(map(self._namespace.wrap, retries.values()))
        routes = dict(zip(retries, await gather_limited(self._session.find_route, names), strict=True))

        async def last_resend(dead: StoredMessage) -> DeadLetterResend | None:
            route, key = routes[dead.topic], dead.properties.get(UNIQUE_KEY)
            copies: list[StoredMessage] = []
            if route is not None and key:
                start_ms = dead.stored_ms - _INDEX_STEP_MS
                query = QueryMessages(route.topic, key, _MAX_COPIES, start_ms, _FOREVER_MS, by_unique_key=True)
                places = [place for place in route.brokers if place.name == dead.queue.broker]
                copies = await query_messages(self._session, places, query)
            return next(filter(None, map(DeadLetterResend.of, reversed([dead, *copies]))), None)

        return await gather_limited(last_resend, found)

    async def list(
        self,
        group: str,
        *,
        start: TimeOrAge | int | None = None,
        end: TimeOrAge | None = None,
        most: int = 100,
        newest: bool = False,
        queue: Queue | None = None,
        opened: bool = True,
    ) -> builtins.list[StoredMessage]:
        """Read the dead letters of a group from ``start`` on and before ``end``, the oldest first.

        A number as ``start`` is an offset; with ``queue`` only that one of `queues` is read. With ``newest`` the last
        ones are read instead of the first. With ``opened`` False, compressed bodies stay as they are stored.
        """
        topic = f"{DLQ_PREFIX}{group}"
        if await self._session.find_route(self._namespace.wrap(topic)) is None:
            return []
        return await self._messages.list(
            topic, start=start, end=end, most=most, newest=newest, queue=queue, opened=opened
        )
