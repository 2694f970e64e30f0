"""An unreadable message as a dead letter: its bytes as they are stored, and why they cannot be read.

A failed message is named by its position, and its broker copies it (36). That copy would be unreadable too, without a
reason; so the message is sent again, to the group's retry topic, as one without attempts left: Apache and Steelyard
brokers store such a send in ``%DLQ%group``, and create that topic if necessary. Permission to read as the group is
enough for it.

The dead letter is not marked as compressed: every client can read its bytes. Its system flag is kept as a property, and
restored when it is resent to its group (client/admin/dead_letters.py).
"""

from steelyard.errors import SteelyardError
from steelyard.model import StoredMessage
from steelyard.model.reserved_names import DEFAULT_TOPIC, RETRY_PREFIX
from steelyard.wire.headers.send import SendMessageV2
from steelyard.wire.properties import encode_properties
from steelyard.wire.property_names import (
    DELAY_LEVEL,
    DLQ_ORIGIN_MESSAGE_ID,
    DLQ_ORIGIN_TOPIC,
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
    UNREADABLE_REASON,
    UNREADABLE_SYS_FLAG,
)

__all__ = ["dead_letter_header"]

_MAX_REASON = 1_000
_DROPPED_PROPERTIES = (
    DELAY_LEVEL,
    TIMER_DELAY_MS,
    TIMER_DELAY_SECONDS,
    TIMER_DELIVER_MS,
    TRANSACTION_PREPARED,
    INNER_COUNT,
)
"""Properties that a broker would act on a second time."""


def dead_letter_header(group: str, message: StoredMessage, reason: str) -> SendMessageV2:
    """Return the header of a send (310) that stores a message as a dead letter; the body is the message's own.

    >>> from steelyard.model import Queue
    >>> message = StoredMessage(Queue("orders", "a", 3), 41, b"?", sys_flag=0x301)
    >>> letter = dead_letter_header("billing", message, "it is cut off")
    >>> letter.topic, letter.sys_flag, letter.reconsume_times > letter.max_reconsume_times
    ('%RETRY%billing', 0, True)
    """
    queue = message.queue
    about = {
        RETRY_TOPIC: message.properties.get(RETRY_TOPIC) or queue.topic,
        DLQ_ORIGIN_MESSAGE_ID: message.message_id,
        ORIGIN_MESSAGE_ID: message.properties.get(ORIGIN_MESSAGE_ID) or message.offset_id,
        UNIQUE_KEY: message.properties.get(UNIQUE_KEY, ""),
        UNREADABLE_REASON: _without_separators(reason[:_MAX_REASON]),
        UNREADABLE_QUEUE: str(queue),
        UNREADABLE_OFFSET: str(message.offset),
        UNREADABLE_SYS_FLAG: str(message.sys_flag),
    }
    about[DLQ_ORIGIN_TOPIC] = about[RETRY_TOPIC]
    about = {name: text for name, text in about.items() if text}
    own = {name: text for name, text in message.properties.items() if name not in _DROPPED_PROPERTIES}
    try:
        properties = encode_properties(own | about)
    except SteelyardError:
        # Together they are too long, or its own are no text: keep only where the message came from.
        properties = encode_properties(about)
    return SendMessageV2(
        producer_group=group,
        topic=f"{RETRY_PREFIX}{group}",
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


def _without_separators(text: str) -> str:
    """Return a text without the two separators of properties."""
    return text.replace("\x01", " ").replace("\x02", " ")
