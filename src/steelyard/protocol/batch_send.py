"""Batch send (320): which messages go together, the request, and the receipts.

All messages of a batch go to one topic and one queue; a batch has no delays, no transactions and no retry topics. It is
never compressed, and its body must fit into the maximal message size of the broker (4 MiB). The broker stores the
messages one after the other; the response has the offset of the first and the ids of all. Release 5 may store a batch
as one record if it has a unique key itself; ours has none, so that each message can be found by its own. If a broker
does so all the same, offsets count up alike, and all messages have the one id.
"""

from collections.abc import Sequence

from steelyard.errors import ConfigurationError, MalformedHeader, error_for
from steelyard.model import Message, Queue
from steelyard.model.reserved_names import RETRY_PREFIX
from steelyard.protocol.send import SendReceipt, batch_header
from steelyard.wire.batch import encode_batch, make_batch_item
from steelyard.wire.codes import STORED_CODES, RequestCode
from steelyard.wire.command import ONEWAY_FLAG, Command
from steelyard.wire.headers.send import SendMessageResponse
from steelyard.wire.properties import encode_properties
from steelyard.wire.property_names import WAIT

MAX_BATCH_BYTES = 1024 * 1024
"""The maximal bytes of a batch. A quarter of what a broker accepts: larger ones are no faster, and a late one costs
more. It also leaves room for what a broker adds to each message, which some count."""

MAX_BATCH_MESSAGES = 512
"""The maximal number of messages. The response lists an id of up to 57 bytes for each, and a header value has room for
574 of them."""

_PROPERTIES = encode_properties({WAIT: "true"}).decode()

# The numbers of an item, the unique key, WAIT, and the separators of tag and keys.
_ITEM_BYTES = 22 + len("UNIQ_KEY\1\2WAIT\1true\2TAGS\1\2KEYS\1\2") + 56  # digits of the longest unique key


def can_batch(message: Message) -> bool:
    """Say whether a message may be part of a batch; whether it is delayed is up to the caller.

    >>> can_batch(Message("orders", b"{}")), can_batch(Message("%RETRY%billing", b"{}"))
    (True, False)
    """
    return not message.topic.startswith(RETRY_PREFIX)


def group_into_batches(
    messages: Sequence[Message], *, max_bytes: int = MAX_BATCH_BYTES, max_messages: int = MAX_BATCH_MESSAGES
) -> list[list[int]]:
    """Group messages that may be sent as one batch; return their indexes, group by group.

    A group has one topic; messages of a topic keep their order, within a group and from one to the next. A message that
    may not be batched, or is too large, is a group of its own, to be sent by itself.

    >>> messages = [Message("orders", b"1"), Message("audit", b"2"), Message("orders", b"3"), Message("%RETRY%g", b"4")]
    >>> group_into_batches(messages)
    [[0, 2], [1], [3]]
    """
    groups: list[list[int]] = []
    open_groups: dict[str, tuple[list[int], int]] = {}
    for place, message in enumerate(messages):
        topic, size = message.topic, max_batched_bytes(message)
        group, filled = open_groups.get(topic, (None, 0))
        if group is None or not can_batch(message) or filled + size > max_bytes or len(group) >= max_messages:
            group, filled = [], 0
            groups.append(group)
        group.append(place)
        open_groups[topic] = group, filled + size
    return groups


def max_batched_bytes(message: Message) -> int:
    """Return the bytes of a message in a batch, or a little more: it is not encoded yet.

    >>> max_batched_bytes(Message("orders", b"{}"))
    113
    """
    texts = [*message.keys, message.tags or ""]
    for name, value in message.properties.items():
        texts += (name, value)
    letters = "".join(texts)
    size = len(letters) if letters.isascii() else len(letters.encode())
    return _ITEM_BYTES + len(message.body) + size + len(texts)  # a separator follows each text


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
    """Encode messages for a queue as one request; ``unique_keys`` are in the same order.

    >>> from steelyard.wire.headers.send import SendMessageV2
    >>> orders = [Message("orders", b"1"), Message("orders", b"2")]
    >>> command = batch_request("shop", orders, Queue("orders", "a", 3), unique_keys=["U1", "U2"], now_ms=7)
    >>> command.header(SendMessageV2).batch, len(command.body)
    (True, 90)
    """
    topic = queue.topic
    for message in messages:
        if message.topic != topic or not can_batch(message):
            raise ConfigurationError(
                f"a message to {message.topic!r} is in a batch for {topic!r}",
                next_step="batch messages of one topic, and none of a retry topic",
            )
    if not messages or len(messages) != len(unique_keys):
        raise ConfigurationError(
            f"a batch has {len(messages)} messages and {len(unique_keys)} unique keys",
            next_step="give one message or more, and a key for each",
        )
    body = encode_batch(
        make_batch_item(message, unique_key=key) for message, key in zip(messages, unique_keys, strict=True)
    )
    return encoded_batch_request(group, body, queue, now_ms=now_ms, is_oneway=is_oneway, opaque=opaque)


def encoded_batch_request(
    group: str, items: bytes, queue: Queue, *, now_ms: int, is_oneway: bool = False, opaque: int = 0
) -> Command:
    """Encode a batch for a queue from encoded items, each with a unique key and ``WAIT``."""
    header = batch_header(group, queue, _PROPERTIES, now_ms=now_ms, is_batch=True)
    return Command(RequestCode.SEND_BATCH_MESSAGE, header, items, opaque, ONEWAY_FLAG if is_oneway else 0)


def read_batch_receipts(answer: Command, queue: Queue, unique_keys: Sequence[str]) -> list[SendReceipt]:
    """Decode the response to a batch, one receipt per message; an error response is raised as its error."""
    if answer.code not in STORED_CODES:
        raise error_for(answer.code, answer.remark or "", server=queue.broker)
    header = answer.header(SendMessageResponse)
    count = len(unique_keys)
    if header.queue_offset < 0:
        raise MalformedHeader(f"the first offset is {header.queue_offset}", where="answer to a batch")
    ids = header.msg_id.split(",", count)
    # One id for all: it was stored as one record. Another number of ids names no message for certain.
    known = ids if len(ids) == count else ids * count if len(ids) == 1 else [""] * count
    stored, late = Queue(queue.topic, queue.broker, header.queue_id), answer.code != 0
    return [SendReceipt(stored, header.queue_offset + place, known[place], is_late=late) for place in range(count)]
