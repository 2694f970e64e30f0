"""A message that cannot be read as a dead letter: its bytes as they are stored, and why they cannot be read.

A message that failed is named by its place, and its broker copies it (36). That copy could be read by nobody, and would
not say why; so one that cannot be read is sent anew. It goes to the group's topic of retries as one that may not come
again: Apache's brokers and ours put such a send into ``%DLQ%group``, and make that topic if it is not there. Whoever
may read as the group may do that, also where access is controlled.

The letter is no compressed message any more: every client can read its bytes. What its system flag was is a property,
and giving it to its group again puts that back (client/admin/dead_letters.py).
"""

from steelyard.errors import SteelyardError
from steelyard.model import StoredMessage
from steelyard.model.names import DEFAULT_TOPIC, RETRY
from steelyard.wire.headers.send import SendShort
from steelyard.wire.properties import encode_properties
from steelyard.wire.property_names import (
    DEAD_ORIGIN_ID,
    DEAD_ORIGIN_TOPIC,
    DELAY_LEVEL,
    INNER_COUNT,
    ORIGIN_MESSAGE_ID,
    RETRY_TOPIC,
    TIMER_DELAY_MS,
    TIMER_DELAY_SECONDS,
    TIMER_DELIVER_MS,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
    UNREADABLE_OFFSET,
    UNREADABLE_QUEUE,
    UNREADABLE_SYS_FLAG,
    UNREADABLE_WHY,
)

__all__ = ["unreadable_letter"]

_LONGEST_WHY = 1_000
_OVER = (DELAY_LEVEL, TIMER_DELAY_MS, TIMER_DELAY_SECONDS, TIMER_DELIVER_MS, TRANSACTION_PREPARED, INNER_COUNT)
"""What a broker would act on a second time."""


def unreadable_letter(group: str, message: StoredMessage, why: str) -> SendShort:
    """Return the header of a send (310) that has a message stored as a dead letter; its body is the message's own.

    >>> from steelyard.model import Queue
    >>> message = StoredMessage(Queue("orders", "a", 3), 41, b"?", sys_flag=0x301)
    >>> letter = unreadable_letter("billing", message, "it is cut off")
    >>> letter.topic, letter.sys_flag, letter.reconsume_times > letter.max_reconsume_times
    ('%RETRY%billing', 0, True)
    """
    queue = message.queue
    about = {
        RETRY_TOPIC: message.properties.get(RETRY_TOPIC) or queue.topic,
        DEAD_ORIGIN_ID: message.message_id,
        ORIGIN_MESSAGE_ID: message.properties.get(ORIGIN_MESSAGE_ID) or message.offset_id,
        UNIQUE_KEY: message.properties.get(UNIQUE_KEY, ""),
        UNREADABLE_WHY: _plain(why[:_LONGEST_WHY]),
        UNREADABLE_QUEUE: str(queue),
        UNREADABLE_OFFSET: str(message.offset),
        UNREADABLE_SYS_FLAG: str(message.sys_flag),
    }
    about[DEAD_ORIGIN_TOPIC] = about[RETRY_TOPIC]
    about = {name: text for name, text in about.items() if text}
    own = {name: text for name, text in message.properties.items() if name not in _OVER}
    try:
        properties = encode_properties(own | about)
    except SteelyardError:
        # Together they are too long, or its own are no text: where it came from says where they are.
        properties = encode_properties(about)
    return SendShort(
        producer_group=group,
        topic=f"{RETRY}{group}",
        default_topic=DEFAULT_TOPIC,
        default_topic_queue_nums=1,
        queue_id=0,
        sys_flag=0,
        born_timestamp=message.born_ms,
        flag=message.flag,
        properties=properties.decode(),
        reconsume_times=message.reconsume_times + 1,
        unit_mode=False,
        max_reconsume_times=0,
        batch=False,
        broker=queue.broker,
    )


def _plain(text: str) -> str:
    """Return a text without the two characters that part properties."""
    return text.replace("\x01", " ").replace("\x02", " ")
