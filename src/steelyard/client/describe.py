"""Descriptions for people: a message's history, the content of an id, and skew of queues.

An id of 32 or 56 digits is either an offset id (a broker's address, port and log position) or a unique key that a
producer made (of address, process and clock). Where a key has the process, an offset id has the upper half of a port,
which is zero: this tells them apart nearly always. 34 digits are a unique key of a gRPC client.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from steelyard.client.admin.offsets import QueueOffsets
from steelyard.client.pull_consumer.queue_browser import PREVIEW_BYTES
from steelyard.client.times import from_epoch_ms
from steelyard.diagnostics.topic import measure_skew
from steelyard.model import Queue, StoredMessage
from steelyard.model.formatting import format_percent, pluralize
from steelyard.model.message import RESERVED_PROPERTIES
from steelyard.protocol.send import DELAY_LEVELS_MS
from steelyard.wire import property_names as names
from steelyard.wire.compression import decompress_prefix
from steelyard.wire.message_ids import parse_grpc_key, parse_offset_id, parse_unique_key
from steelyard.wire.stored_messages import BODY_ERRORS, unseal_message
from steelyard.wire.sysflag import COMPRESSED, SEALED, TRANSACTION_BITS, TransactionFlag

_TRANSACTIONS = {
    TransactionFlag.PREPARED: "half",
    TransactionFlag.COMMITTED: "committed",
    TransactionFlag.ROLLED_BACK: "rolled back",
}
_MAX_DIGITS = 18


class MessageProperty(Struct, frozen=True):
    """A property of a message."""

    name: str
    value: str
    is_own: bool
    """Whether its sender chose the name; the others are the protocol's."""


class MessageHistory(Struct, frozen=True, omit_defaults=True):
    """What the fields of a message say; unknown fields are None."""

    came_back: int = 0
    """How often a group sent it back before this copy was stored."""
    sent_to: str | None = None
    """The topic it belongs to, while it is in a topic of retries, delays or transactions."""
    dead_of: str | None = None
    origin_id: str | None = None
    delay_level: int | None = None
    delay_ms: int | None = None
    deliver_ms: int | None = None
    """When it is due, or was delivered."""
    transaction: str | None = None
    """``half``, ``committed`` or ``rolled back``."""
    producer_group: str | None = None
    checks: int | None = None
    """How often a broker checked its transaction."""
    correlation_id: str | None = None
    """Of a request, or of its reply."""
    sharding_key: str | None = None
    is_compressed: bool = False
    unreadable: str | None = None
    """Why its body cannot be read, or could not be when it became a dead letter."""


def message_properties(message: StoredMessage) -> list[MessageProperty]:
    """Return a message's properties: its producer's own first, each kind by name."""
    listed = [
        MessageProperty(name, value, name not in RESERVED_PROPERTIES and not name.startswith("__"))
        for name, value in message.properties.items()
    ]
    return sorted(listed, key=lambda each: (not each.is_own, each.name))


def message_history(message: StoredMessage) -> MessageHistory:
    """Return what the fields of a message say."""
    found = message.properties
    level = _integer_property(found, names.DELAY_LEVEL)
    known_level = level if level is not None and 1 <= level <= len(DELAY_LEVELS_MS) else None
    seconds = _integer_property(found, names.TIMER_DELAY_SECONDS)
    delay_ms = _integer_property(found, names.TIMER_DELAY_MS)
    if delay_ms is None and seconds is not None:
        delay_ms = 1000 * seconds
    if delay_ms is None and known_level is not None:
        delay_ms = DELAY_LEVELS_MS[known_level - 1]
    deliver_ms = _integer_property(found, names.TIMER_OUT_MS) or _integer_property(found, names.TIMER_DELIVER_MS)
    real = found.get(names.REAL_TOPIC) or found.get(names.RETRY_TOPIC)
    return MessageHistory(
        came_back=message.reconsume_times,
        sent_to=real if real != message.topic else None,
        dead_of=found.get(names.DLQ_ORIGIN_TOPIC),
        origin_id=found.get(names.DLQ_ORIGIN_MESSAGE_ID) or found.get(names.ORIGIN_MESSAGE_ID),
        delay_level=known_level,
        delay_ms=delay_ms,
        deliver_ms=deliver_ms,
        transaction=_TRANSACTIONS.get(TransactionFlag(message.sys_flag & TRANSACTION_BITS)),
        producer_group=found.get(names.PRODUCER_GROUP),
        checks=_integer_property(found, names.CHECK_TIMES),
        correlation_id=found.get(names.CORRELATION_ID),
        sharding_key=found.get(names.SHARDING_KEY),
        is_compressed=bool(message.sys_flag & COMPRESSED),
        unreadable=_unreadable(message),
    )


def _unreadable(message: StoredMessage) -> str | None:
    # Damage behind the first megabyte is found by readers only: a description must not take 16 MiB.
    try:
        if message.sys_flag & COMPRESSED and message.body:
            decompress_prefix(message.body, message.sys_flag, PREVIEW_BYTES)
        elif message.sys_flag & SEALED:
            unseal_message(message)
    except BODY_ERRORS as error:
        return str(error)
    return message.properties.get(names.ERROR) if names.UNREADABLE_SYS_FLAG in message.properties else None


def _integer_property(found: Mapping[str, str], name: str) -> int | None:
    """Return a property that is a number, else None."""
    text = found.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else None


_CARD_KEY_LETTERS = 34


def describe_message_id(message_id: str, now: datetime) -> dict[str, object]:
    """Return what an id contains, by name; raises MalformedRecord if it is none.

    >>> describe_message_id("C0A8010200002A9F0000000000000400", datetime(2026, 11, 1))["port"]
    10911
    """
    if len(message_id) == _CARD_KEY_LETTERS:
        card = parse_grpc_key(message_id)
        return {
            "id": message_id,
            "kind": "key of a gRPC client",
            "network_card": card.mac_address,
            "process": card.pid,
            "made_at": from_epoch_ms(card.made_ms),
            "counter": card.counter,
        }
    key = parse_unique_key(message_id, now_ms=int(now.timestamp() * 1000))
    if key.pid == 0:
        host, position = parse_offset_id(message_id)
        address, _, port = host.rpartition(":")
        return {
            "id": message_id,
            "kind": "place",
            "address": address.strip("[]"),
            "port": int(port),
            "position": position,
        }
    return {
        "id": message_id,
        "kind": "key of a producer",
        "address": key.address,
        "process": key.pid,
        "process_hash": f"{key.process:08X}",
        # A key has no month: this is the last time that fits, by a clock without a time zone.
        "made_at": from_epoch_ms(key.made_ms),
        "counter": key.counter,
    }


_MIN_PER_QUEUE = 10


def describe_skew(queues: Sequence[QueueOffsets]) -> str:
    """Describe how evenly messages are distributed over queues.

    >>> describe_skew([QueueOffsets(Queue("t", "a", number), 0, 100) for number in range(4)])
    'messages lie evenly: 100 in each of 4 queues'
    """
    counts = [each.messages for each in queues]
    total = sum(counts)
    if not total:
        return "it is empty"
    low, high = min(counts), max(counts)
    if low == high:
        return f"messages lie evenly: {low} in each of {pluralize(len(counts), 'queue')}"
    if total < _MIN_PER_QUEUE * len(counts):
        return f"messages are too few to say how evenly they lie: {low} to {high} in a queue"
    parts = list(_uneven({each.queue: each.messages for each in queues}, "has", "of all messages"))
    if empty := counts.count(0):
        parts.append(f"{empty} of {pluralize(len(counts), 'queue')} {'is' if empty == 1 else 'are'} empty")
    return "; ".join(parts) or f"messages lie evenly enough: {low} to {high} in a queue"


def describe_hot_queues(received: Mapping[Queue, int]) -> str | None:
    """Describe which queues get far more messages than others now; None if it is even, or if there are few.

    >>> came = {Queue("t", "a", number): count for number, count in enumerate((900, 40, 30, 30))}
    >>> describe_hot_queues(came)
    'queue 0 of a gets 90 % of what comes in now, 3.6 times its share; do many messages have one key?'
    """
    if sum(received.values()) < _MIN_PER_QUEUE * len(received):
        return None
    parts = list(_uneven(received, "gets", "of what comes in now"))
    if any(each.startswith("queue ") for each in parts):
        parts.append("do many messages have one key?")
    return "; ".join(parts) or None


def _uneven(weights: Mapping[Queue, int], has: str, of_all: str) -> Iterator[str]:
    """Describe which queue, and which broker, has far more than its share."""
    weighed = measure_skew(weights)
    if weighed.busiest is not None and weighed.is_uneven:
        yield (
            f"queue {weighed.busiest.queue_id} of {weighed.busiest.broker} {has} "
            f"{format_percent(weighed.max_load, weighed.total)} {of_all}, {weighed.ratio:.1f} times its share"
        )
    held: dict[str, list[int]] = {}
    for queue, weight in weights.items():
        held.setdefault(queue.broker, []).append(weight)
    # A broker counts for as much as one of its queues holds on average.
    brokers = measure_skew({broker: sum(mine) / len(mine) for broker, mine in held.items()})
    if brokers.busiest is not None and brokers.is_uneven:
        mine = held[brokers.busiest]
        yield (
            f"{brokers.busiest} {has} {format_percent(sum(mine), weighed.total)} {of_all} "
            f"in {len(mine)} of {len(weights)} queues"
        )
