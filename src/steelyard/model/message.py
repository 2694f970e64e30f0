"""`Message`, which a producer sends, and `StoredMessage`, which a broker has stored.

A `Message` is validated once, when it is made. Properties are a mapping that may be decoded lazily: most handlers read
the body only.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from ipaddress import ip_address

from msgspec import Struct
from msgspec.structs import force_setattr

from steelyard.errors import ConfigurationError
from steelyard.model.queue import Queue

KEYS = "KEYS"
TAGS = "TAGS"
UNIQUE_KEY = "UNIQ_KEY"

# Java refuses these as user properties; the broker and the clients set them.
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

_EPOCH = datetime.fromtimestamp(0, UTC)


class Message(Struct, frozen=True, gc=False):
    """A message to send. ``keys`` is one key or several, without blanks.

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
    properties: Mapping[str, str] = {}
    flag: int = 0

    def __post_init__(self) -> None:
        if not self.topic or not isinstance(self.topic, str):
            raise ConfigurationError("a message names no topic", next_step="give the topic's name")
        if not _is_sendable(self.topic):
            raise _unsendable_error("topic", self.topic, self.topic)
        if isinstance(self.body, bytearray | memoryview):
            force_setattr(self, "body", bytes(self.body))
        elif not isinstance(self.body, bytes):
            raise ConfigurationError(
                f"the body of a message to {self.topic!r} is a {type(self.body).__name__}",
                next_step="encode it: text.encode()",
            )
        if self.keys != ():
            force_setattr(self, "keys", _checked_keys(self.keys, self.topic))
        if self.tags is not None and not _is_sendable(self.tags):
            raise _unsendable_error("tag", self.tags, self.topic)
        if self.properties:
            force_setattr(self, "properties", _checked_properties(self.properties, self.topic))
        if not isinstance(self.flag, int) or not -(1 << 31) <= self.flag < 1 << 31:
            raise ConfigurationError(
                f"the flag of a message to {self.topic!r} is {self.flag!r}",
                next_step="give a number that fits in 32 signed bits",
            )


def _checked_keys(keys: str | Iterable[str], topic: str) -> tuple[str, ...]:
    if not isinstance(keys, Iterable):
        raise ConfigurationError(
            f"the keys of a message to {topic!r} are a {type(keys).__name__}",
            next_step="give one key as text, or several as a list",
        )
    checked = (keys,) if isinstance(keys, str) else tuple(keys)
    for key in checked:
        if not _is_sendable(key):
            raise _unsendable_error("key", key, topic)
        if " " in key:
            raise ConfigurationError(
                f"the key {key!r} of a message to {topic!r} contains a blank",
                next_step="blanks separate keys: give several keys as a list",
            )
    return checked


def _checked_properties(properties: Mapping[str, str], topic: str) -> dict[str, str]:
    if not isinstance(properties, Mapping):
        raise ConfigurationError(
            f"the properties of a message to {topic!r} are a {type(properties).__name__}",
            next_step="give a mapping of names to texts",
        )
    # A copy: the caller may change the mapping later, and what was validated must not change.
    checked = dict(properties)
    for name, text in checked.items():
        if name in RESERVED_PROPERTIES:
            raise ConfigurationError(
                f"the property {name!r} of a message to {topic!r} is reserved",
                next_step="choose another name; tags and keys have parameters of their own",
            )
        if not _is_sendable(name):
            raise _unsendable_error("property name", name, topic)
        if not _is_sendable(text):
            raise _unsendable_error(f"property {name!r}", text, topic)
    return checked


def _is_sendable(text: str) -> bool:
    """Whether a text can be stored in a record: half of a surrogate pair or a separator cannot."""
    if not text or not isinstance(text, str) or "\x01" in text or "\x02" in text:
        return False
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _unsendable_error(what: str, text: str, topic: str) -> ConfigurationError:
    return ConfigurationError(
        f"the {what} of a message to {topic!r} is {text!r}",
        next_step="it must be text, not empty, fit for UTF-8, and hold neither of the separators \\x01 and \\x02",
    )


class StoredMessage(Struct, frozen=True, gc=False):
    """A message as a broker stored it.

    ``offset`` is that in the queue, ``position`` that in the broker's commit log. ``body`` is decompressed. Hosts are
    text such as ``10.0.0.1:10911``.

    >>> stored = StoredMessage(Queue("orders", "a", 0), 41, b"{}", {"TAGS": "paid", "KEYS": "a b"}, born_ms=1_000)
    >>> stored.topic, stored.tags, stored.keys, stored.born_at.isoformat()
    ('orders', 'paid', ('a', 'b'), '1970-01-01T00:00:01+00:00')
    """

    queue: Queue
    offset: int
    body: bytes
    properties: Mapping[str, str] = {}
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
        return tuple(filter(None, self.properties.get(KEYS, "").split(" ")))

    @property
    def offset_id(self) -> str:
        """The id made of store host and position; empty if the store host is not known."""
        return offset_id(self.store_host, self.position) if self.store_host else ""

    @property
    def message_id(self) -> str:
        """The id that its producer set, or else its offset id."""
        return self.properties.get(UNIQUE_KEY) or self.offset_id

    @property
    def born_at(self) -> datetime:
        """When the producer created it."""
        return _to_datetime(self.born_ms)

    @property
    def stored_at(self) -> datetime:
        """When the broker stored it."""
        return _to_datetime(self.stored_ms)


def offset_id(store_host: str, position: int) -> str:
    """Return the offset id: the broker's address and port, then the position in its commit log.

    >>> offset_id("192.168.1.2:10911", 1024)
    'C0A8010200002A9F0000000000000400'
    """
    return f"{host_hex(store_host)}{position & 0xFFFFFFFFFFFFFFFF:016X}"


@lru_cache(maxsize=4096)
def host_hex(host: str) -> str:
    """Return the hexadecimal digits of a host: 8 or 32 of its address, then 8 of its port.

    >>> host_hex("192.168.1.2:10911"), host_hex("[::1]:10911")
    ('C0A8010200002A9F', '0000000000000000000000000000000100002A9F')
    """
    address, _, port = host.rpartition(":")
    try:
        packed = ip_address(address.removeprefix("[").removesuffix("]")).packed
        return (packed + int(port).to_bytes(4, "big", signed=True)).hex().upper()
    except (ValueError, OverflowError):
        raise ConfigurationError(
            f"{host!r} is not a host", next_step="give an address and a port, such as 10.0.0.1:10911 or [::1]:10911"
        ) from None


def _to_datetime(time_ms: int) -> datetime:
    """Convert milliseconds of a foreign clock; times before year 1 or after year 9999 become the nearest one."""
    try:
        return _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC) if time_ms < 0 else datetime.max.replace(tzinfo=UTC)
