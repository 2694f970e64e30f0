"""Send requests (310), receipts, delays and transaction ends (37).

The queue is in the header, so a message that is tried on another broker is encoded again. 0, 10, 11 and 12 mean stored,
the last three late. The receipt of a half message has its offset in the half topic and, in its id, its position in the
log: both name it in the end. A body may be compressed: the broker stores it as it is.

Delays: a level counts from 1, and overrides a time. Brokers since release 5, and Steelyard's, have timers: any delay up
to a limit (3 days; 13 beyond), to the second. Brokers of 4.9 deliver a message with only a time at once, so a delay is
rounded up to the next level there. A delay counts by the broker's clock, from arrival.

Transactions: a broker that waits too long writes the half message again and checks it (39): the check has the new
position, and the message with the user's topic and queue. The reply is an end, sent to the broker that asked. An Apache
broker stores a second copy if a commit comes twice: do not repeat it.
"""

from bisect import bisect_left
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from math import ceil, isfinite

from msgspec import Struct

from steelyard.errors import ConfigurationError, error_for
from steelyard.model import Message, Queue, StoredMessage
from steelyard.model.reserved_names import DEFAULT_TOPIC
from steelyard.protocol.server_requests import single_message
from steelyard.wire.batch import BatchItem
from steelyard.wire.codes import STORED_CODES, RequestCode, Version
from steelyard.wire.command import ONEWAY_FLAG, Command
from steelyard.wire.compression import compress, with_compression
from steelyard.wire.headers.send import CheckTransactionState, EndTransaction, SendMessageResponse, SendMessageV2
from steelyard.wire.message_ids import parse_offset_id
from steelyard.wire.properties import append_properties, build_properties, encode_properties
from steelyard.wire.property_names import (
    DELAY_LEVEL,
    PRODUCER_GROUP,
    TIMER_DELAY_MS,
    TIMER_DELIVER_MS,
    TRANSACTION_PREPARED,
)
from steelyard.wire.sysflag import Compression, TransactionFlag

_DEFAULT_QUEUES = 4
_NOTHING: Mapping[str, str] = {}
_SEND = RequestCode.SEND_MESSAGE_V2
_PREPARED = int(TransactionFlag.PREPARED)
_ZLIB = Compression.ZLIB


class HalfMessageRef(Struct, frozen=True, gc=False):
    """Where a half message is: in the half topic, and in its broker's log."""

    offset: int
    position: int
    unique_key: str


class SendReceipt(Struct, frozen=True, gc=False):
    """A broker's confirmation that it stored a message."""

    queue: Queue
    offset: int
    message_id: str
    """Made of its position; a user sees the unique key instead."""
    is_late: bool = False
    half: HalfMessageRef | None = None
    """Of a half message: what its end has to name. Its ``offset`` is not one of its queue."""


def send_request(
    group: str,
    message: Message,
    queue: Queue,
    *,
    unique_key: str,
    now_ms: int,
    delay_level: int = 0,
    extra_properties: Mapping[str, str] = _NOTHING,
    compress_from: int | None = None,
    compression: Compression = _ZLIB,
    is_half: bool = False,
    is_oneway: bool = False,
    opaque: int = 0,
) -> Command:
    """Encode a message for a queue.

    ``more`` are additional properties, such as a delay or those of a request-reply. A body of at least
    ``compress_from`` bytes is compressed, if that makes it smaller.

    >>> command = send_request("shop", Message("orders", b"{}"), Queue("orders", "a", 3), unique_key="U1", now_ms=7)
    >>> command.header(SendMessageV2).queue_id, command.header(SendMessageV2).born_timestamp
    (3, 7)
    """
    if is_half:
        extra_properties = {**extra_properties, TRANSACTION_PREPARED: "true", PRODUCER_GROUP: group}
    elif delay_level:
        extra_properties = {**extra_properties, DELAY_LEVEL: str(delay_level)}
    added = encode_properties(extra_properties).decode() if extra_properties else ""
    body, sys_flag = message.body, _PREPARED if is_half else 0
    if compress_from is not None and len(body) >= compress_from:
        body, sys_flag = _compress_if_smaller(body, sys_flag, compression)
    # By position and not by name, which takes half the time.
    header = SendMessageV2(
        group,
        message.topic,
        DEFAULT_TOPIC,
        _DEFAULT_QUEUES,
        queue.queue_id,
        sys_flag,
        now_ms,
        message.flag,
        build_properties(message, unique_key=unique_key, extra=added),
        0,  # reconsume times
        False,  # unit mode
        None,  # max reconsume times
        False,  # batch
        queue.broker,
    )
    return Command(_SEND, header, body, opaque, ONEWAY_FLAG if is_oneway else 0)


def batch_item_request(
    group: str, item: BatchItem, queue: Queue, *, now_ms: int, extra_properties: Mapping[str, str] = _NOTHING
) -> Command:
    """Encode an item of a batch as a message of its own, with additional properties."""
    text = (
        append_properties(item.properties, encode_properties(extra_properties)) if extra_properties else item.properties
    )
    header = batch_header(group, queue, text.decode(errors="replace"), now_ms=now_ms, flag=item.flag)
    return Command(_SEND, header, item.body)


def batch_header(
    group: str, queue: Queue, properties: str, *, now_ms: int, flag: int = 0, is_batch: bool = False
) -> SendMessageV2:
    """Return the header of a request whose body is encoded already: one item, or a batch of them."""
    return SendMessageV2(
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


def _compress_if_smaller(body: bytes, sys_flag: int, kind: Compression) -> tuple[bytes, int]:
    """Return a body and its system flag as they are sent: compressed, unless that does not make it smaller.

    >>> _compress_if_smaller(b"steelyard" * 100, 0, Compression.ZLIB)[1] == 0x301
    True
    >>> _compress_if_smaller(b"x", 0, Compression.ZLIB)
    (b'x', 0)
    """
    smaller = compress(body, kind)
    return (smaller, with_compression(sys_flag, kind)) if len(smaller) < len(body) else (body, sys_flag)


def read_receipt(answer: Command, queue: Queue, *, unique_key: str, is_half: bool = False) -> SendReceipt:
    """Decode the response to a send; an error response is raised as the error that it stands for."""
    if answer.code not in STORED_CODES:
        raise error_for(answer.code, answer.remark or "", server=queue.broker)
    header = answer.header(SendMessageResponse)
    half = None
    if is_half:
        half = HalfMessageRef(
            header.queue_offset, parse_offset_id(header.msg_id)[1], header.transaction_id or unique_key
        )
    stored = queue if header.queue_id == queue.queue_id else Queue(queue.topic, queue.broker, header.queue_id)
    return SendReceipt(stored, header.queue_offset, header.msg_id, is_late=answer.code != 0, half=half)


_SECOND_MS, _MINUTE_MS, _HOUR_MS = 1_000, 60_000, 3_600_000

DELAY_LEVELS_MS = (
    *(seconds * _SECOND_MS for seconds in (1, 5, 10, 30)),
    *(minutes * _MINUTE_MS for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30)),
    *(hours * _HOUR_MS for hours in (1, 2)),
)
"""The delay of each level, from level 1."""

_LEVEL_OF = {delay_ms: level for level, delay_ms in enumerate(DELAY_LEVELS_MS, 1)}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


class Delay(Struct, frozen=True):
    """The properties of a delay."""

    properties: Mapping[str, str]
    note: str = ""
    """Why the message waits longer than requested; empty if it does not."""


def resolve_delay(delay_s: float | None, deliver_at: datetime | None, *, now_ms: int, has_timers: bool) -> Delay | None:
    """Return the properties of a delayed message; None if it is not delayed.

    >>> resolve_delay(30, None, now_ms=0, has_timers=False).properties
    {'DELAY': '4'}
    >>> resolve_delay(45, None, now_ms=0, has_timers=True).properties
    {'TIMER_DELAY_MS': '45000'}
    >>> resolve_delay(45, None, now_ms=0, has_timers=False)
    Delay(properties={'DELAY': '5'}, note='a delay of 45 s becomes 60 s, the next level of a broker without timers')
    """
    if deliver_at is not None:
        if delay_s is not None:
            raise ConfigurationError("a delay and a moment are given for one message", next_step="leave one out")
        return _resolve_deliver_at(_checked_moment(deliver_at), now_ms, has_timers)
    if delay_s is None:
        return None
    delay_ms = _checked_delay(delay_s)
    if delay_ms == 0:
        return None
    if delay_ms in _LEVEL_OF:
        return Delay({DELAY_LEVEL: str(_LEVEL_OF[delay_ms])})
    return Delay({TIMER_DELAY_MS: str(delay_ms)}) if has_timers else _round_up_to_level(delay_ms)


def delivery_time_ms(delay_s: float | None, deliver_at: datetime | None, *, now_ms: int) -> int | None:
    """Return when a message is to be delivered; None if it is not delayed.

    >>> delivery_time_ms(30, None, now_ms=1_000)
    31000
    """
    if deliver_at is not None:
        return _checked_moment(deliver_at)
    return None if delay_s is None else now_ms + _checked_delay(delay_s)


def supports_timers(version: int) -> bool:
    """Say whether a broker has timers, by the release in its responses.

    >>> supports_timers(Version.V4_9_7), supports_timers(Version.V5_5_0)
    (False, True)
    """
    return version >= Version.V5_0_0


def delay_level_for(delay_ms: int) -> int:
    """Return the first level that waits at least this long.

    >>> delay_level_for(0), delay_level_for(1_000), delay_level_for(1_001), delay_level_for(7_200_000)
    (1, 1, 2, 18)
    """
    if delay_ms > DELAY_LEVELS_MS[-1]:
        raise ConfigurationError(
            f"a delay of {_seconds(delay_ms)} is more than the highest level waits",
            next_step=f"wait at most {_seconds(DELAY_LEVELS_MS[-1])}, or use brokers with timers: release 5 or ours",
        )
    return bisect_left(DELAY_LEVELS_MS, delay_ms) + 1


def _resolve_deliver_at(due_ms: int, now_ms: int, has_timers: bool) -> Delay | None:
    if due_ms <= now_ms:
        return None
    return Delay({TIMER_DELIVER_MS: str(due_ms)}) if has_timers else _round_up_to_level(due_ms - now_ms)


def _round_up_to_level(delay_ms: int) -> Delay:
    level = delay_level_for(delay_ms)
    waits_ms = DELAY_LEVELS_MS[level - 1]
    note = ""
    if waits_ms > delay_ms:
        note = (
            f"a delay of {_seconds(delay_ms)} becomes {_seconds(waits_ms)}, the next level of a broker without timers"
        )
    return Delay({DELAY_LEVEL: str(level)}, note)


def _checked_delay(delay_s: float) -> int:
    if not isinstance(delay_s, int | float) or not isfinite(delay_s) or delay_s < 0:
        raise ConfigurationError(f"the delay of a message is {delay_s!r}", next_step="give seconds, 0 or more")
    # Never early, but 0.1 + 0.2 is 300 ms.
    return ceil(round(delay_s * 1_000, 3))


def _checked_moment(moment: datetime) -> int:
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise ConfigurationError(
            f"the moment to deliver a message at is {moment!r}",
            next_step="give a datetime with a time zone, such as datetime.now(UTC) + timedelta(hours=1)",
        )
    return -((_EPOCH - moment) // _MS)


def _seconds(time_ms: int) -> str:
    return f"{time_ms / 1_000:.12g} s"


def end_transaction_request(
    group: str,
    topic: str,
    half: HalfMessageRef,
    *,
    is_commit: bool,
    is_check_response: bool = False,
    is_oneway: bool = False,
    opaque: int = 0,
) -> Command:
    """Encode the end of a transaction; ``was_asked`` in reply to a broker's check."""
    header = EndTransaction(
        producer_group=group,
        tran_state_table_offset=half.offset,
        commit_log_offset=half.position,
        commit_or_rollback=int(TransactionFlag.COMMITTED if is_commit else TransactionFlag.ROLLED_BACK),
        msg_id=half.unique_key,
        from_transaction_check=is_check_response,
        transaction_id=half.unique_key,
        topic=topic,
    )
    return Command(RequestCode.END_TRANSACTION, header, opaque=opaque, flag=ONEWAY_FLAG if is_oneway else 0)


def checked_half(check: Command) -> HalfMessageRef:
    """Decode which half message a broker checks."""
    header = check.header(CheckTransactionState)
    key = header.transaction_id or header.msg_id or ""
    return HalfMessageRef(header.tran_state_table_offset, header.commit_log_offset, key)


def read_transaction_check(check: Command, broker: str) -> tuple[HalfMessageRef, StoredMessage]:
    """Decode which half message a broker checks, and the message itself; its group is the property PGROUP."""
    return checked_half(check), single_message(StoredMessage, check, broker)
