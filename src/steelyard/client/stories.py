"""What a message's own fields say of its way: attempts, delays, transactions, and where it came from.

Only what is written in the message is told; what became of it afterwards is told by offsets and traces.
"""

from collections.abc import Mapping

from msgspec import Struct

from steelyard.balance.events import Unreadable
from steelyard.client.consuming.opening import open_message
from steelyard.dialect.delays import LEVELS_MS
from steelyard.model import StoredMessage
from steelyard.model.message import RESERVED_PROPERTIES
from steelyard.wire import property_names as names
from steelyard.wire.sysflag import COMPRESSED, Transaction, transaction_of

__all__ = ["Property", "Story", "properties_of", "story_of"]

_TRANSACTIONS = {
    Transaction.PREPARED: "half",
    Transaction.COMMITTED: "committed",
    Transaction.ROLLED_BACK: "rolled back",
}
_MOST_DIGITS = 18


class Property(Struct, frozen=True):
    """A property of a message."""

    name: str
    value: str
    is_own: bool
    """Whether its sender chose the name; the others are the protocol's."""


class Story(Struct, frozen=True, omit_defaults=True):
    """What is known; the rest is left out."""

    came_back: int = 0
    """How often it was sent back by a group before this copy was stored."""
    sent_to: str | None = None
    """The topic it belongs to, while it lies in one of retries, delays or transactions."""
    dead_of: str | None = None
    """The topic of a dead letter."""
    origin_id: str | None = None
    """The id of the first copy."""
    delay_level: int | None = None
    delay_ms: int | None = None
    deliver_ms: int | None = None
    """When it is to be delivered, or was."""
    transaction: str | None = None
    """``half``, ``committed`` or ``rolled back``."""
    producer_group: str | None = None
    checks: int | None = None
    """How often its producer was asked how the transaction ended."""
    correlation_id: str | None = None
    """It is a request, or the reply to one."""
    sharding_key: str | None = None
    is_compressed: bool = False
    """Whether its sender had compressed it."""
    unreadable: str | None = None
    """Why its body cannot be read, or could not be when it became a dead letter."""


def properties_of(message: StoredMessage) -> list[Property]:
    """Return a message's properties: its sender's own first, each kind by name."""
    listed = [
        Property(name, value, name not in RESERVED_PROPERTIES and not name.startswith("__"))
        for name, value in message.properties.items()
    ]
    return sorted(listed, key=lambda each: (not each.is_own, each.name))


def story_of(message: StoredMessage) -> Story:
    """Return what the fields of a message tell."""
    found = message.properties
    level = _number(found, names.DELAY_LEVEL)
    known_level = level if level is not None and 1 <= level <= len(LEVELS_MS) else None
    seconds = _number(found, names.TIMER_DELAY_SECONDS)
    delay_ms = _number(found, names.TIMER_DELAY_MS)
    if delay_ms is None and seconds is not None:
        delay_ms = 1000 * seconds
    if delay_ms is None and known_level is not None:
        delay_ms = LEVELS_MS[known_level - 1]
    deliver_ms = _number(found, names.TIMER_OUT_MS) or _number(found, names.TIMER_DELIVER_MS)
    real = found.get(names.REAL_TOPIC) or found.get(names.RETRY_TOPIC)
    return Story(
        came_back=message.reconsume_times,
        sent_to=real if real != message.topic else None,
        dead_of=found.get(names.DEAD_ORIGIN_TOPIC),
        origin_id=found.get(names.DEAD_ORIGIN_ID) or found.get(names.ORIGIN_MESSAGE_ID),
        delay_level=known_level,
        delay_ms=delay_ms,
        deliver_ms=deliver_ms,
        transaction=_TRANSACTIONS.get(transaction_of(message.sys_flag)),
        producer_group=found.get(names.PRODUCER_GROUP),
        checks=_number(found, names.CHECK_TIMES),
        correlation_id=found.get(names.CORRELATION_ID),
        sharding_key=found.get(names.SHARDING_KEY),
        is_compressed=bool(message.sys_flag & COMPRESSED),
        unreadable=_unreadable(message),
    )


def _unreadable(message: StoredMessage) -> str | None:
    found = open_message(message)
    return found.why if isinstance(found, Unreadable) else message.properties.get(names.UNREADABLE_WHY)


def _number(found: Mapping[str, str], name: str) -> int | None:
    """Return a property that is a number; None if it is not there, or something else."""
    text = found.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None
