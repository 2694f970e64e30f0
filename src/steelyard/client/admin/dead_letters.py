"""Dead letters: the messages that a group gave up, and giving them to it again.

A group's dead letters lie in a topic of their own and stay there: giving one to its group again makes a copy, which
comes to that group alone. So what was given twice comes twice.
"""

from dataclasses import dataclass
from datetime import datetime

from steelyard.client.admin.asking import together
from steelyard.client.admin.messages import Messages, place_in
from steelyard.client.admin.times import Moment
from steelyard.client.admin.topic_changes import TopicChanges
from steelyard.client.producing.sent import Sent
from steelyard.errors import ConfigurationError, MalformedRecord, NoMessage, error_for
from steelyard.model import Queue, StoredMessage
from steelyard.model.names import DEAD, DEFAULT_TOPIC, RETRY
from steelyard.wire.codes import STORED, RequestCode, ResponseCode
from steelyard.wire.headers.send import SendAnswer, SendShort
from steelyard.wire.properties import encode_properties
from steelyard.wire.property_names import (
    DEAD_ORIGIN_ID,
    DEAD_ORIGIN_TOPIC,
    DELAY_LEVEL,
    MAX_RECONSUME_TIMES,
    ORIGIN_MESSAGE_ID,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    RECONSUME_TIME,
    RETRY_TOPIC,
    UNREADABLE_OFFSET,
    UNREADABLE_QUEUE,
    UNREADABLE_SYS_FLAG,
    UNREADABLE_WHY,
)
from steelyard.wire.sysflag import COMPRESSED, COMPRESSION_BITS, WRAPPED

__all__ = ["DeadLetters", "GivenUp", "origin_id_of", "topic_of", "unreadable_because"]

_ON_ITS_WAY = (
    DELAY_LEVEL,
    REAL_TOPIC,
    REAL_QUEUE_ID,
    RECONSUME_TIME,
    MAX_RECONSUME_TIMES,
    DEAD_ORIGIN_TOPIC,
    DEAD_ORIGIN_ID,
    UNREADABLE_WHY,
    UNREADABLE_QUEUE,
    UNREADABLE_OFFSET,
    UNREADABLE_SYS_FLAG,
)
"""What a message got on its way to the dead letters and does not take along."""
_LONGEST_FLAG = 10


@dataclass(frozen=True, slots=True)
class GivenUp:
    """How many messages a group gave up, and when the last one."""

    group: str
    messages: int
    last_at: datetime | None


def topic_of(dead: StoredMessage) -> str:
    """Return the topic that a dead letter was sent to, and that it comes from again; empty if it does not say so."""
    return dead.properties.get(RETRY_TOPIC) or dead.properties.get(DEAD_ORIGIN_TOPIC) or ""


def origin_id_of(dead: StoredMessage) -> str | None:
    """Return the id of the message that was given up, as it lay in the topic that it was sent to; None if not told."""
    return dead.properties.get(DEAD_ORIGIN_ID) or dead.properties.get(ORIGIN_MESSAGE_ID)


def unreadable_because(dead: StoredMessage) -> str | None:
    """Return why a dead letter could not be read; None for one that handlers had and failed with."""
    return dead.properties.get(UNREADABLE_WHY)


def _sealed_flag(dead: StoredMessage) -> int:
    """Return the bits that a message had which could not be read, and which its copy needs in order to be read."""
    text = dead.properties.get(UNREADABLE_SYS_FLAG, "")
    known = int(text) if text.isdecimal() and len(text) <= _LONGEST_FLAG else 0
    return known & (COMPRESSED | COMPRESSION_BITS | WRAPPED)


class DeadLetters(Messages, TopicChanges):
    """What an administrator does with dead letters."""

    async def given_up(self) -> list[GivenUp]:
        """List the groups that have dead letters."""
        topics = [
            self._names.bare(name)
            for name in await self._topic_names()
            if name.startswith(DEAD) and self._is_here(name)
        ]
        views = await together(self.topic, topics)
        return [GivenUp(view.name.removeprefix(DEAD), view.messages, view.stored_at) for view in views if view.messages]

    async def dead_letters(
        self,
        group: str,
        *,
        start: Moment | int | None = None,
        end: Moment | None = None,
        most: int = 100,
        newest: bool = False,
        queue: Queue | None = None,
        opened: bool = True,
    ) -> list[StoredMessage]:
        """Read the messages that a group gave up, from ``start`` on and before ``end``, the oldest first.

        A number as ``start`` is an offset; with ``queue`` that one of `dead_letter_queues` alone is read. With
        ``newest`` the last ones are read and not the first. With ``opened`` False bodies stay as they are stored.
        """
        topic = f"{DEAD}{group}"
        if await self._find_route(self._names.full(topic)) is None:
            return []
        return await self.messages(topic, start=start, end=end, most=most, newest=newest, queue=queue, opened=opened)

    async def dead_letter_queues(self, group: str) -> list[Queue]:
        """Return the queues that a group's dead letters lie in; none if it never gave anything up."""
        route = await self._find_route(self._names.full(f"{DEAD}{group}"))
        return [] if route is None else [self._names.bare_queue(queue) for queue in route.readable()]

    async def dead_letter(self, group: str, message_id: str, *, opened: bool = True) -> StoredMessage:
        """Find one dead letter of a group by its id: that of its place, or the one that its producer gave it."""
        topic, next_step = f"{DEAD}{group}", f"see which there are: steelyard dead-letters ls {group}"
        if await self._find_route(self._names.full(topic)) is not None:
            try:
                found = await self.message(message_id, topic, opened=opened)
                if found.topic == topic:
                    return found
            except NoMessage:
                pass
            except MalformedRecord:
                raise ConfigurationError(
                    f"an id of a message has 32 or 56 hexadecimal digits, and {message_id!r} is not one",
                    next_step=next_step,
                ) from None
        raise NoMessage(
            code=int(ResponseCode.NO_MESSAGE),
            server=str(self._connect),
            what=f"group {group!r} has no dead letter with the id {message_id}",
            next_step=next_step,
        )

    async def delete_dead_letters(self, group: str) -> int:
        """Delete all dead letters of a group, and return how many there were."""
        topic = f"{DEAD}{group}"
        if await self._find_route(self._names.full(topic)) is None:
            return 0
        there = (await self.topic(topic)).messages
        await self.delete_topic(topic)
        return there

    async def resend(self, dead: StoredMessage) -> Sent:
        """Give a dead letter to its group again: to that group alone, with all its attempts before it.

        The dead letter stays where it is. One that could not be read is given as it was: whether it can be read now is
        for the group to find out. Apache's brokers from 5.1.3 on put it straight back if members of the group
        hold locks, as orderly ones do.
        """
        topic = self._names.full(dead.topic)
        if not topic.startswith(DEAD):
            raise ConfigurationError(
                f"a message of {dead.topic} is no dead letter", next_step="take one that dead_letters gave"
            )
        group = topic.removeprefix(DEAD)
        place = place_in(await self._route(topic), dead.queue.broker)
        properties = {**dead.properties, RETRY_TOPIC: topic_of(dead)}
        kept = {name: text for name, text in properties.items() if text and name not in _ON_ITS_WAY}
        header = SendShort(
            producer_group=group,
            topic=f"{RETRY}{group}",
            default_topic=DEFAULT_TOPIC,
            default_topic_queue_nums=1,
            queue_id=0,
            sys_flag=dead.sys_flag | _sealed_flag(dead),
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
