r"""The properties of a message as one text: name, ``\x01``, value, ``\x02``, repeated.

Decoding never fails, and follows the rules of all other clients: an entry without a name or a value is dropped, the
last ``\x02`` may be missing, the last of two entries with one name counts, and bytes that are not UTF-8 become U+FFFD.
The checksum that some brokers append (``__CRC32#``) belongs to the store and is not shown to users.
"""

from collections.abc import Iterator, Mapping

from steelyard.errors import ConfigurationError, LimitExceeded
from steelyard.model.message import KEYS, TAGS, UNIQUE_KEY, Message
from steelyard.wire import limits
from steelyard.wire.property_names import CRC32, WAIT

_NAME_END = "\x01"
_ENTRY_END = "\x02"

# A shorter text is within the limit, whatever its characters are.
_SAFE_LENGTH = limits.PROPERTIES_BYTES // 4


def decode_properties(raw: bytes) -> dict[str, str]:
    """Decode a properties text."""
    properties: dict[str, str] = {}
    for entry in raw.decode("utf-8", "replace").split(_ENTRY_END):
        name, _, value = entry.partition(_NAME_END)
        if name and value:
            properties[name] = value
    properties.pop(CRC32, None)
    return properties


def encode_properties(properties: Mapping[str, str], *, closed: bool = True) -> bytes:
    r"""Encode properties as one text. Clients of 4.9 leave the last ``\x02`` out: ``closed=False``.

    Refused is what could not be decoded again: separators, empty names and values, more than 32,767 bytes.
    """
    text = "".join([f"{name}{_NAME_END}{value}{_ENTRY_END}" for name, value in properties.items()])
    count = len(properties)
    if (
        text.count(_NAME_END) != count
        or text.count(_ENTRY_END) != count
        or "" in properties
        or "" in properties.values()
    ):
        raise _property_error(properties)
    try:
        raw = text.encode() if closed else text[:-1].encode()
    except UnicodeEncodeError:
        raise _property_error(properties) from None
    return _check_size(raw)


def property_text(text: str, max_bytes: int) -> str:
    r"""Return a text as the value of a property: on one line, without control characters, at most ``max_bytes`` long.

    >>> property_text("no such\n customer: \x01 42", 100), property_text("too long", 7)
    ('no such customer: 42', 'too …')
    """
    # A character has a byte at least, so what is beyond would be cut off anyway.
    printable = "".join([each if each.isprintable() else " " for each in text[: max_bytes + 1]])
    raw = " ".join(printable.split()).encode()
    return raw.decode() if len(raw) <= max_bytes else raw[: max_bytes - 3].decode(errors="ignore") + "…"


def find_property(raw: bytes, name: bytes) -> bytes | None:
    """Find one property in a properties text without decoding the others; the name must hold no separator."""
    # \x02 cannot be inside a value, so a value is never taken for a name.
    opening = b"\x02" + name + b"\x01"
    end = len(raw)
    while (at := raw.rfind(opening, 0, end)) >= 0:
        start = at + len(opening)
        stop = raw.find(b"\x02", start)
        if value := raw[start:] if stop < 0 else raw[start:stop]:
            return value
        end = at
    if raw.startswith(opening[1:]):
        return raw[len(opening) - 1 :].partition(b"\x02")[0] or None
    return None


def append_properties(raw: bytes, added: bytes) -> bytes:
    """Append one properties text to another; a name in both gets the appended value."""
    return _check_size(raw + b"\x02" + added if raw and raw[-1] != 2 else raw + added)


def build_properties(message: Message, *, unique_key: str = "", wait: bool = True, extra: str = "") -> str:
    r"""Return the properties of a message to send: the user's own, tag, keys, unique key and WAIT.

    ``extra`` is a properties text to append. Only the length is checked here: the rest was, when the message was made,
    and this runs for every message.

    >>> build_properties(Message("orders", b"{}", tags="paid", keys=["a", "b"]), unique_key="A1", extra="TTL\x019\x02")
    'TAGS\x01paid\x02KEYS\x01a b\x02UNIQ_KEY\x01A1\x02WAIT\x01true\x02TTL\x019\x02'
    """
    text = f"{WAIT}\x01{'true' if wait else 'false'}\x02{extra}"
    if unique_key:
        text = f"{UNIQUE_KEY}\x01{unique_key}\x02{text}"
    if message.keys:
        text = f"{KEYS}\x01{' '.join(message.keys)}\x02{text}"
    if message.tags:
        text = f"{TAGS}\x01{message.tags}\x02{text}"
    if message.properties:
        own = "".join([f"{name}\x01{value}\x02" for name, value in message.properties.items()])
        text = f"{own}{text}"
    if len(text) > _SAFE_LENGTH and (size := len(text.encode())) > limits.PROPERTIES_BYTES:
        raise ConfigurationError(
            f"tag, keys and properties of a message to {message.topic!r} have {size} bytes together, the limit is "
            f"{limits.PROPERTIES_BYTES}",
            next_step="shorten them, or use the body",
        )
    return text


class LazyProperties(Mapping[str, str]):
    """The properties of a stored message, decoded on first use: most handlers read the body only."""

    __slots__ = ("_decoded", "_text")

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._decoded: dict[str, str] | None = None

    def _decode(self) -> dict[str, str]:
        if self._decoded is None:
            self._decoded = decode_properties(self._text)
        return self._decoded

    def __getitem__(self, name: str) -> str:
        return self._decode()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._decode())

    def __len__(self) -> int:
        return len(self._decode())

    def __repr__(self) -> str:
        return repr(self._decode())


def _check_size(raw: bytes) -> bytes:
    if len(raw) > limits.PROPERTIES_BYTES:
        raise LimitExceeded("properties text", where="properties", limit=limits.PROPERTIES_BYTES, found=len(raw))
    return raw


def _property_error(properties: Mapping[str, str]) -> ConfigurationError:
    for name, value in properties.items():
        for text in (name, value):
            if not text or _NAME_END in text or _ENTRY_END in text or not _is_unicode(text):
                return ConfigurationError(
                    f"the property {name!r} with the value {value!r} cannot be written",
                    next_step="both must be text, not empty, and hold neither of the separators \\x01 and \\x02",
                )
    return ConfigurationError("these properties cannot be written")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
