"""A message before it is sent, and one that a broker has stored.

`Message` is what a user makes: checked once, when it is made, so that nothing later has to doubt it. `StoredMessage` is
what came back: the same, plus where it lies and what the broker knows of it. Properties are a mapping that may be read
lazily: most handlers look at the body alone.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import force_setattr

from steelyard.errors import ConfigurationError
from steelyard.model.queue import Queue

__all__ = ["RESERVED_PROPERTIES", "Message", "StoredMessage"]

KEYS = "KEYS"
TAGS = "TAGS"
UNIQUE_KEY = "UNIQ_KEY"

# Java refuses these in user properties; the broker and the clients write them themselves.
RESERVED_PROPERTIES = frozenset(
    """
    KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET BUYER_ID
    ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME MSG_REGION TRACE_ON UNIQ_KEY
    EXTEND_UNIQ_INFO MAX_RECONSUME_TIMES CONSUME_START_TIME POP_CK POP_CK_OFFSET 1ST_POP_TIME
    TRAN_PREPARED_QUEUE_OFFSET DUP_INFO INSTANCE_ID CORRELATION_ID REPLY_TO_CLIENT TTL ARRIVE_TIME PUSH_REPLY_TIME
    CLUSTER MSG_TYPE INNER_MULTI_QUEUE_OFFSET TIMER_DELAY_MS TIMER_DELAY_SEC TIMER_DELIVER_MS TIMER_ENQUEUE_MS
    TIMER_DEQUEUE_MS TIMER_ROLL_TIMES TIMER_OUT_MS TIMER_DEL_UNIQKEY TIMER_DELAY_LEVEL __BORNHOST BORN_TIMESTAMP
    DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID __CRC32#
    """.split()
)

_NOTHING: Mapping[str, str] = MappingProxyType({})
_SEPARATORS = ("\x01", "\x02")


class Message(Struct, frozen=True, gc=False):
    """What a producer sends. ``keys`` takes one key or several; they must not contain blanks.

    >>> order = Message("orders", b"{}", tags="paid", keys=["order-1", "customer-7"], properties={"region": "eu"})
    >>> order.keys
    ('order-1', 'customer-7')
    >>> Message("orders", "text")
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: the body of a message to 'orders' is a str; encode it: text.encode()
    """

    topic: str
    body: bytes
    tags: str | None = None
    keys: str | Iterable[str] = ()
    properties: Mapping[str, str] = _NOTHING
    flag: int = 0

    def __post_init__(self) -> None:
        if not self.topic or not isinstance(self.topic, str):
            raise ConfigurationError("a message names no topic", next_step="give the topic's name")
        if isinstance(self.body, bytearray | memoryview):
            force_setattr(self, "body", bytes(self.body))
        elif not isinstance(self.body, bytes):
            raise ConfigurationError(
                f"the body of a message to {self.topic!r} is a {type(self.body).__name__}",
                next_step="encode it: text.encode()",
            )
        if self.keys != ():
            keys = (self.keys,) if isinstance(self.keys, str) else tuple(self.keys)
            force_setattr(self, "keys", keys)
            for key in keys:
                if not key or " " in key:
                    raise ConfigurationError(
                        f"the key {key!r} of a message to {self.topic!r} is empty or contains a blank",
                        next_step="blanks separate keys: give several keys as a list",
                    )
                _check_text("key", key, self.topic)
        if self.tags is not None:
            _check_text("tag", self.tags, self.topic)
        for name, text in self.properties.items():
            if name in RESERVED_PROPERTIES:
                raise ConfigurationError(
                    f"the property {name!r} of a message to {self.topic!r} is reserved",
                    next_step="choose another name; tags and keys have parameters of their own",
                )
            _check_text("property name", name, self.topic)
            _check_text(f"property {name!r}", text, self.topic)


def _check_text(what: str, text: str, topic: str) -> None:
    if not isinstance(text, str) or not text or any(mark in text for mark in _SEPARATORS):
        raise ConfigurationError(
            f"the {what} of a message to {topic!r} is {text!r}",
            next_step="it must be text, not empty, and hold neither of the separators \\x01 and \\x02",
        )


class StoredMessage(Struct, frozen=True, gc=False):
    """A message as a broker stored it.

    ``offset`` counts in the queue, ``position`` is the place in the broker's log. ``body`` is as the sender gave it:
    decompressed where it had been compressed.

    >>> stored = StoredMessage(Queue("orders", "a", 0), 41, b"{}", {"TAGS": "paid", "KEYS": "a b"}, born_ms=1_000)
    >>> stored.topic, stored.tags, stored.keys, stored.born_at.isoformat()
    ('orders', 'paid', ('a', 'b'), '1970-01-01T00:00:01+00:00')
    """

    queue: Queue
    offset: int
    body: bytes
    properties: Mapping[str, str] = _NOTHING
    born_ms: int = 0
    stored_ms: int = 0
    position: int = 0
    size: int = 0
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    prepared_offset: int = 0
    born_host: str = ""
    store_host: str = ""
    offset_id: str = ""

    @property
    def topic(self) -> str:
        """The topic it was stored under."""
        return self.queue.topic

    @property
    def tags(self) -> str | None:
        """Its tag, or None."""
        return self.properties.get(TAGS)

    @property
    def keys(self) -> tuple[str, ...]:
        """Its keys, in the order given."""
        return tuple(self.properties.get(KEYS, "").split())

    @property
    def message_id(self) -> str:
        """The id its producer gave it, or the one made of its place where it has none."""
        return self.properties.get(UNIQUE_KEY) or self.offset_id

    @property
    def born_at(self) -> datetime:
        """When the producer made it."""
        return datetime.fromtimestamp(self.born_ms / 1000, UTC)

    @property
    def stored_at(self) -> datetime:
        """When the broker stored it."""
        return datetime.fromtimestamp(self.stored_ms / 1000, UTC)
