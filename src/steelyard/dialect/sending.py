"""What a producer says: sends (310), the end of a transaction (37), and what the answers mean.

Spec facts. The queue is in the header, so a message that is tried on another broker is written anew for the queue
chosen there. 0, 10, 11 and 12 mean stored, the last three late. Of a half message the answer has the place in the queue
of halves and, in its id, the position in the log: both name it in the end. A delay is not for messages of a
transaction.

Left out: batches (320), replies (325) and compression, which come with the client.
"""

from msgspec import Struct

from steelyard.errors import error_for
from steelyard.model import Message, Queue
from steelyard.wire.codes import STORED, RequestCode
from steelyard.wire.command import Command
from steelyard.wire.headers.send import CheckTransaction, EndTransaction, SendAnswer, SendShort
from steelyard.wire.message_ids import read_offset_id
from steelyard.wire.properties import encode_properties, properties_of
from steelyard.wire.property_names import DELAY_LEVEL, PRODUCER_GROUP, TRANSACTION_PREPARED
from steelyard.wire.sysflag import Transaction

__all__ = ["DEFAULT_TOPIC", "Half", "Receipt", "end_request", "half_asked_for", "read_receipt", "send_request"]

DEFAULT_TOPIC = "TBW102"
"""Whose route is used for a topic that does not exist yet."""

_DEFAULT_QUEUES = 4


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
    is_half: bool = False,
    opaque: int = 0,
) -> Command:
    """Write a message for a queue.

    >>> command = send_request("shop", Message("orders", b"{}"), Queue("orders", "a", 3), unique_key="U1", now_ms=7)
    >>> command.header(SendShort).queue_id, command.header(SendShort).born_timestamp
    (3, 7)
    """
    properties = properties_of(message, unique_key=unique_key)
    if is_half:
        properties |= {TRANSACTION_PREPARED: "true", PRODUCER_GROUP: group}
    elif delay_level:
        properties[DELAY_LEVEL] = str(delay_level)
    header = SendShort(
        producer_group=group,
        topic=message.topic,
        default_topic=DEFAULT_TOPIC,
        default_topic_queue_nums=_DEFAULT_QUEUES,
        queue_id=queue.queue_id,
        sys_flag=int(Transaction.PREPARED) if is_half else 0,
        born_timestamp=now_ms,
        flag=message.flag,
        properties=encode_properties(properties).decode(),
        reconsume_times=0,
        unit_mode=False,
        batch=False,
        broker=queue.broker,
    )
    return Command(RequestCode.SEND_MESSAGE_V2, header, message.body, opaque)


def read_receipt(answer: Command, queue: Queue, *, unique_key: str, is_half: bool = False) -> Receipt:
    """Read the answer to a send to a queue; one that says no is raised as the error it stands for."""
    if answer.code not in STORED:
        raise error_for(answer.code, answer.remark or "", server=queue.broker)
    header = answer.header(SendAnswer)
    half = None
    if is_half:
        half = Half(header.queue_offset, read_offset_id(header.msg_id)[1], header.transaction_id or unique_key)
    stored = Queue(queue.topic, queue.broker, header.queue_id)
    return Receipt(stored, header.queue_offset, header.msg_id, late=answer.code != 0, half=half)


def half_asked_for(question: Command) -> Half:
    """Read which half a broker asks about (39)."""
    header = question.header(CheckTransaction)
    key = header.transaction_id or header.msg_id or ""
    return Half(header.tran_state_table_offset, header.commit_log_offset, key)


def end_request(
    group: str, topic: str, half: Half, *, commits: bool, was_asked: bool = False, opaque: int = 0
) -> Command:
    """Write the end of a transaction; ``was_asked`` in answer to a broker's question."""
    header = EndTransaction(
        producer_group=group,
        tran_state_table_offset=half.offset,
        commit_log_offset=half.position,
        commit_or_rollback=int(Transaction.COMMITTED if commits else Transaction.ROLLED_BACK),
        msg_id=half.unique_key,
        from_transaction_check=was_asked,
        transaction_id=half.unique_key,
        topic=topic,
    )
    return Command(RequestCode.END_TRANSACTION, header, opaque=opaque)
