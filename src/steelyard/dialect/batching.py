"""Many messages in one request (320): which go together, how they are said, and what the answer means.

Spec facts. All messages of a batch go to one topic and one queue, and none of them waits: a batch knows no delays, no
transactions and no retry topics. Each has an id of its own. It is never compressed, and its whole body must fit into
what the broker takes as one message (4 MiB). The broker stores them one after the other; the answer has the offset of
the first and the ids made of their places. Topics of release 5 may keep a batch as one record if it has an id itself;
ours has none, so that each message can be found by its own. If a broker does it all the same, offsets count up alike,
and all have the one id.
"""

from collections.abc import Sequence

from steelyard.dialect.sending import Receipt, items_header
from steelyard.errors import ConfigurationError, MalformedHeader, error_for
from steelyard.model import Message, Queue
from steelyard.model.names import RETRY
from steelyard.wire.batch import encode_batch, item_of
from steelyard.wire.codes import STORED, RequestCode
from steelyard.wire.command import ONEWAY, Command
from steelyard.wire.headers.send import SendAnswer
from steelyard.wire.properties import encode_properties
from steelyard.wire.property_names import WAIT

__all__ = [
    "BATCH_BYTES",
    "BATCH_MESSAGES",
    "batch_request",
    "items_request",
    "may_batch",
    "most_bytes_of",
    "pack",
    "read_batch_receipts",
]

BATCH_BYTES = 1024 * 1024
"""How large a batch is made. A quarter of what a broker takes: larger ones are no faster, and one that is late costs
more. It also leaves room for what a broker adds to each message, which some count."""

BATCH_MESSAGES = 512
"""How many messages a batch has. Its answer lists an id of up to 57 bytes for each, and a header's value has room for
574 of them."""

_PROPERTIES = encode_properties({WAIT: "true"}).decode()

# An item's own numbers, the unique key, whether to wait, and the separators of tag and keys.
_ITEM_BYTES = 22 + len("UNIQ_KEY\1\2WAIT\1true\2TAGS\1\2KEYS\1\2") + 56  # digits of the longest unique key


def may_batch(message: Message) -> bool:
    """Say whether a message may be part of a batch, as far as it knows itself: whoever delays it does not batch it.

    >>> may_batch(Message("orders", b"{}")), may_batch(Message("%RETRY%billing", b"{}"))
    (True, False)
    """
    return not message.topic.startswith(RETRY)


def pack(
    messages: Sequence[Message], *, most_bytes: int = BATCH_BYTES, most_messages: int = BATCH_MESSAGES
) -> list[list[int]]:
    """Put messages together that may travel as one, and return their places in the list, group by group.

    A group has one topic; messages of a topic keep their order, within a group and from one to the next. What may not
    be batched, or is too large for it, is a group of its own, to be sent as a single message.

    >>> pack([Message("orders", b"1"), Message("audit", b"2"), Message("orders", b"3"), Message("%RETRY%g", b"4")])
    [[0, 2], [1], [3]]
    """
    groups: list[list[int]] = []
    open_groups: dict[str, tuple[list[int], int]] = {}
    for place, message in enumerate(messages):
        topic, size = message.topic, most_bytes_of(message)
        group, filled = open_groups.get(topic, (None, 0))
        if group is None or not may_batch(message) or filled + size > most_bytes or len(group) >= most_messages:
            group, filled = [], 0
            groups.append(group)
        group.append(place)
        open_groups[topic] = group, filled + size
    return groups


def most_bytes_of(message: Message) -> int:
    """Return how much room a message takes in a batch, or a little more: its text is not written yet.

    >>> most_bytes_of(Message("orders", b"{}"))
    113
    """
    texts = [*message.keys, message.tags or ""]
    for name, value in message.properties.items():
        texts += (name, value)
    letters = "".join(texts)
    size = len(letters) if letters.isascii() else len(letters.encode())
    return _ITEM_BYTES + len(message.body) + size + len(texts)  # behind each text there is a separator


def batch_request(
    group: str,
    messages: Sequence[Message],
    queue: Queue,
    *,
    unique_keys: Sequence[str],
    now_ms: int,
    is_oneway: bool = False,
    opaque: int = 0,
) -> Command:
    """Write messages for a queue as one request; each has its unique key at the same place.

    >>> from steelyard.wire.headers.send import SendShort
    >>> orders = [Message("orders", b"1"), Message("orders", b"2")]
    >>> command = batch_request("shop", orders, Queue("orders", "a", 3), unique_keys=["U1", "U2"], now_ms=7)
    >>> command.header(SendShort).batch, len(command.body)
    (True, 90)
    """
    topic = queue.topic
    for message in messages:
        if message.topic != topic or not may_batch(message):
            raise ConfigurationError(
                f"a message to {message.topic!r} is in a batch for {topic!r}",
                next_step="batch messages of one topic, and none of a retry topic",
            )
    if not messages or len(messages) != len(unique_keys):
        raise ConfigurationError(
            f"a batch has {len(messages)} messages and {len(unique_keys)} unique keys",
            next_step="give one message or more, and a key for each",
        )
    body = encode_batch(item_of(message, unique_key=key) for message, key in zip(messages, unique_keys, strict=True))
    return items_request(group, body, queue, now_ms=now_ms, is_oneway=is_oneway, opaque=opaque)


def items_request(
    group: str, items: bytes, queue: Queue, *, now_ms: int, is_oneway: bool = False, opaque: int = 0
) -> Command:
    """Write a batch for a queue whose items lie back to back already, each with a unique key and ``WAIT`` said."""
    header = items_header(group, queue, _PROPERTIES, now_ms=now_ms, is_batch=True)
    return Command(RequestCode.SEND_BATCH_MESSAGE, header, items, opaque, ONEWAY if is_oneway else 0)


def read_batch_receipts(answer: Command, queue: Queue, unique_keys: Sequence[str]) -> list[Receipt]:
    """Read the answer to a batch, one receipt a message; one that says no is raised as the error it stands for."""
    if answer.code not in STORED:
        raise error_for(answer.code, answer.remark or "", server=queue.broker)
    header = answer.header(SendAnswer)
    count = len(unique_keys)
    if header.queue_offset < 0:
        raise MalformedHeader(f"the first offset is {header.queue_offset}", where="answer to a batch")
    ids = header.msg_id.split(",", count)
    # One id for all: it was stored as one record. Another number of them names none of the messages for sure.
    known = ids if len(ids) == count else ids * count if len(ids) == 1 else [""] * count
    stored, late = Queue(queue.topic, queue.broker, header.queue_id), answer.code != 0
    return [Receipt(stored, header.queue_offset + place, known[place], late=late) for place in range(count)]
