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
from steelyard.wire import property_names as names
from steelyard.wire.headers.send import SendMessageV2
from steelyard.wire.properties import encode_properties

_MAX_REASON = 1_000
_DROPPED_PROPERTIES = (
    names.DELAY_LEVEL,
    names.TIMER_DELAY_MS,
    names.TIMER_DELAY_SECONDS,
    names.TIMER_DELIVER_MS,
    names.TRANSACTION_PREPARED,
    names.INNER_COUNT,
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
        names.RETRY_TOPIC: message.properties.get(names.RETRY_TOPIC) or queue.topic,
        names.DLQ_ORIGIN_MESSAGE_ID: message.message_id,
        names.ORIGIN_MESSAGE_ID: message.properties.get(names.ORIGIN_MESSAGE_ID) or message.offset_id,
        names.UNIQUE_KEY: message.properties.get(names.UNIQUE_KEY, ""),
        names.UNREADABLE_REASON: _without_separators(reason[:_MAX_REASON]),
        names.UNREADABLE_QUEUE: str(queue),
        names.UNREADABLE_OFFSET: str(message.offset),
        names.UNREADABLE_SYS_FLAG: str(message.sys_flag),
    }
    about[names.DLQ_ORIGIN_TOPIC] = about[names.RETRY_TOPIC]
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
