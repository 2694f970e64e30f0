"""What a producer says to have a message stored (310), and what the answer means.

Spec facts. The queue is in the header, so a message that is tried on another broker is written anew for the queue
chosen there. 0, 10, 11 and 12 mean stored, the last three late. Of a half message the answer has the place in the queue
of halves and, in its id, the position in the log: both name it in the end. A delay is not for messages of a
transaction. A body may travel compressed: the broker stores it as it is, and consumers open it.

Every message that is sent passes here; so what it may want, and mostly does not, costs one question each.

Left out: many messages at once (batching.py), how long a delay is (delays.py), replies (replying.py), how a transaction
ends (transactions.py).
"""

from collections.abc import Mapping

from msgspec import Struct

from steelyard.errors import error_for
from steelyard.model import Message, Queue
from steelyard.model.names import DEFAULT_TOPIC
from steelyard.wire.batch import BatchItem
from steelyard.wire.codes import STORED, RequestCode
from steelyard.wire.command import ONEWAY, Command
from steelyard.wire.compression import compress, flagged
from steelyard.wire.headers.send import SendAnswer, SendShort
from steelyard.wire.message_ids import read_offset_id
from steelyard.wire.properties import append_properties, encode_properties, sent_properties
from steelyard.wire.property_names import DELAY_LEVEL, PRODUCER_GROUP, TRANSACTION_PREPARED
from steelyard.wire.sysflag import Compression, Transaction

__all__ = ["Half", "Receipt", "item_request", "items_header", "read_receipt", "send_request", "shrunk"]

_DEFAULT_QUEUES = 4
_NOTHING: Mapping[str, str] = {}
_SEND = RequestCode.SEND_MESSAGE_V2
_PREPARED = int(Transaction.PREPARED)
_ZLIB = Compression.ZLIB


class Half(Struct, frozen=True, gc=False):
    """Where a half message is: in the queue of halves, and in its broker's log."""

    offset: int
    position: int
    unique_key: str


class Receipt(Struct, frozen=True, gc=False):
    """A broker's word that it has stored a message."""

    queue: Queue
    offset: int
    message_id: str
    """Made of its place; what a user sees is the unique key."""
    late: bool = False
    half: Half | None = None
    """Of a half message: what its end has to name. Its ``offset`` is not one of its queue."""


def send_request(
    group: str,
    message: Message,
    queue: Queue,
    *,
    unique_key: str,
    now_ms: int,
    delay_level: int = 0,
    more: Mapping[str, str] = _NOTHING,
    compress_from: int | None = None,
    compression: Compression = _ZLIB,
    is_half: bool = False,
    is_oneway: bool = False,
    opaque: int = 0,
) -> Command:
    """Write a message for a queue.

    ``more`` are properties beyond the message's own: what a delay or a request for a reply adds. A body of
    ``compress_from`` bytes or more is compressed, if that makes it smaller.

    >>> command = send_request("shop", Message("orders", b"{}"), Queue("orders", "a", 3), unique_key="U1", now_ms=7)
    >>> command.header(SendShort).queue_id, command.header(SendShort).born_timestamp
    (3, 7)
    """
    if is_half:
        more = {**more, TRANSACTION_PREPARED: "true", PRODUCER_GROUP: group}
    elif delay_level:
        more = {**more, DELAY_LEVEL: str(delay_level)}
    added = encode_properties(more).decode() if more else ""
    body, sys_flag = message.body, _PREPARED if is_half else 0
    if compress_from is not None and len(body) >= compress_from:
        body, sys_flag = shrunk(body, sys_flag, compression)
    # By order and not by name, which takes half the time.
    header = SendShort(
        group,
        message.topic,
        DEFAULT_TOPIC,
        _DEFAULT_QUEUES,
        queue.queue_id,
        sys_flag,
        now_ms,
        message.flag,
        sent_properties(message, unique_key=unique_key, more=added),
        0,  # reconsume times
        False,  # unit mode
        None,  # most reconsume times
        False,  # batch
        queue.broker,
    )
    return Command(_SEND, header, body, opaque, ONEWAY if is_oneway else 0)


def item_request(
    group: str, item: BatchItem, queue: Queue, *, now_ms: int, more: Mapping[str, str] = _NOTHING
) -> Command:
    """Write an item of a batch for a queue as a message of its own, with properties beyond those that it has."""
    text = append_properties(item.properties, encode_properties(more)) if more else item.properties
    header = items_header(group, queue, text.decode(errors="replace"), now_ms=now_ms, flag=item.flag)
    return Command(_SEND, header, item.body)


def items_header(
    group: str, queue: Queue, properties: str, *, now_ms: int, flag: int = 0, is_batch: bool = False
) -> SendShort:
    """Return the header of a request whose body is written already: one item, or a batch of them."""
    return SendShort(
        group,
        queue.topic,
        DEFAULT_TOPIC,
        _DEFAULT_QUEUES,
        queue.queue_id,
        sys_flag=0,
        born_timestamp=now_ms,
        flag=flag,
        properties=properties,
        reconsume_times=0,
        unit_mode=False,
        batch=is_batch,
        broker=queue.broker,
    )


def shrunk(body: bytes, sys_flag: int, kind: Compression) -> tuple[bytes, int]:
    """Return a body and its system flag as they travel: compressed, unless that does not make it smaller.

    >>> shrunk(b"steelyard" * 100, 0, Compression.ZLIB)[1] == 0x301, shrunk(b"x", 0, Compression.ZLIB)
    (True, (b'x', 0))
    """
    smaller = compress(body, kind)
    return (smaller, flagged(sys_flag, kind)) if len(smaller) < len(body) else (body, sys_flag)


def read_receipt(answer: Command, queue: Queue, *, unique_key: str, is_half: bool = False) -> Receipt:
    """Read the answer to a send to a queue; one that says no is raised as the error it stands for."""
    if answer.code not in STORED:
        raise error_for(answer.code, answer.remark or "", server=queue.broker)
    header = answer.header(SendAnswer)
    half = None
    if is_half:
        half = Half(header.queue_offset, read_offset_id(header.msg_id)[1], header.transaction_id or unique_key)
    stored = queue if header.queue_id == queue.queue_id else Queue(queue.topic, queue.broker, header.queue_id)
    return Receipt(stored, header.queue_offset, header.msg_id, late=answer.code != 0, half=half)
