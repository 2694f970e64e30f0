"""The copy of a message as a dead letter, with the error that put it there.

A failed message is named by its position, and its broker copies it (36). Apache's broker takes no error with that; and
the copy of an unreadable message would be unreadable too. So these are sent again, to the group's retry topic, as
messages without attempts left: Apache and Steelyard brokers store such a send in ``%DLQ%group``, and create that topic
if necessary. Permission to read as the group is enough for it. Java's orderly consumers do the same.

The dead letter of an unreadable message is not marked as compressed: every client can read its bytes. Its system flag
is kept as a property, and restored when it is resent to its group (client/admin/dead_letters.py).
"""

from steelyard.errors import SteelyardError
from steelyard.model import StoredMessage
from steelyard.model.reserved_names import DEFAULT_TOPIC, RETRY_PREFIX
from steelyard.wire import property_names as names
from steelyard.wire.headers.send import SendMessageV2
from steelyard.wire.limits import ERROR_BYTES
from steelyard.wire.properties import encode_properties, property_text
from steelyard.wire.sysflag import COMPRESSED, COMPRESSION_BITS, WRAPPED

_DROPPED_PROPERTIES = (
    names.DELAY_LEVEL,
    names.TIMER_DELAY_MS,
    names.TIMER_DELAY_SECONDS,
    names.TIMER_DELIVER_MS,
    names.TRANSACTION_PREPARED,
    names.INNER_COUNT,
)
"""Properties that a broker would act on a second time."""


def dead_letter_header(group: str, message: StoredMessage, error: str) -> SendMessageV2 | None:
    """Return the header of a send (310) that stores a failed message as a dead letter; the body is the message's own.

    None if only its broker can copy it: it is one of a stored batch, or its properties leave no room for the error.
    """
    if message.sys_flag & WRAPPED:
        return None
    try:
        properties = encode_properties(_own_properties(message) | _origin_properties(message, error))
    except SteelyardError:
        return None
    return _header(group, message, properties, message.sys_flag & (COMPRESSED | COMPRESSION_BITS))


def unreadable_letter_header(group: str, message: StoredMessage, why: str) -> SendMessageV2:
    """Return the header of a send (310) that stores an unreadable message as a dead letter; the body is its own.

    >>> from steelyard.model import Queue
    >>> message = StoredMessage(Queue("orders", "a", 3), 41, b"?", sys_flag=0x301)
    >>> letter = unreadable_letter_header("billing", message, "it is cut off")
    >>> letter.topic, letter.sys_flag, letter.reconsume_times > letter.max_reconsume_times
    ('%RETRY%billing', 0, True)
    """
    about = _origin_properties(message, why) | {
        names.UNREADABLE_QUEUE: str(message.queue),
        names.UNREADABLE_OFFSET: str(message.offset),
        names.UNREADABLE_SYS_FLAG: str(message.sys_flag),
    }
    try:
        properties = encode_properties(_own_properties(message) | about)
    except SteelyardError:
        # Together they are too long, or its own are no text: keep only where the message came from.
        properties = encode_properties(about)
    return _header(group, message, properties, sys_flag=0)


def _own_properties(message: StoredMessage) -> dict[str, str]:
    return {name: text for name, text in message.properties.items() if name not in _DROPPED_PROPERTIES}


def _origin_properties(message: StoredMessage, error: str) -> dict[str, str]:
    topic = message.properties.get(names.RETRY_TOPIC) or message.queue.topic
    about = {
        names.RETRY_TOPIC: topic,
        names.DLQ_ORIGIN_TOPIC: topic,
        names.DLQ_ORIGIN_MESSAGE_ID: message.message_id,
        names.ORIGIN_MESSAGE_ID: message.properties.get(names.ORIGIN_MESSAGE_ID) or message.offset_id,
        names.UNIQUE_KEY: message.properties.get(names.UNIQUE_KEY, ""),
        names.ERROR: property_text(error, ERROR_BYTES),
    }
    return {name: text for name, text in about.items() if text}


def _header(group: str, message: StoredMessage, properties: bytes, sys_flag: int) -> SendMessageV2:
    return SendMessageV2(
        producer_group=group,
        topic=f"{RETRY_PREFIX}{group}",
        default_topic=DEFAULT_TOPIC,
        default_topic_queue_nums=1,
        queue_id=0,
        sys_flag=sys_flag,
        born_timestamp=message.born_ms,
        flag=message.flag,
        properties=properties.decode(),
        reconsume_times=message.reconsume_times + 1,
        unit_mode=False,
        max_reconsume_times=0,
        batch=False,
        broker=message.queue.broker,
    )
