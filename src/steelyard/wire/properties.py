r"""A message's properties as one text: name, ``\x01``, value, ``\x02``, again and again.

The rules of reading are the ones every other reader has: an entry without a name or without a value is dropped, a
missing last ``\x02`` is forgiven, of two entries with one name the last counts, and bytes that are not UTF-8 become
U+FFFD. So reading never fails, and a broker and a consumer never disagree about a tag.

A broker works on the bytes as they came: `find_property` looks for one name, `append_properties` adds to them. The
checksum some brokers append (``__CRC32#``) belongs to the store and not to the message: users never see it.
"""

from collections.abc import Iterator, Mapping

from steelyard.errors import ConfigurationError, LimitExceeded
from steelyard.model.message import KEYS, TAGS, UNIQUE_KEY, Message
from steelyard.wire import limits
from steelyard.wire.property_names import CRC32, WAIT

__all__ = [
    "LazyProperties",
    "append_properties",
    "encode_properties",
    "find_property",
    "parse_properties",
    "sent_properties",
]

_EQUALS = "\x01"
_END = "\x02"

# A shorter text is within the limit, whatever its characters are.
_SHORT = limits.PROPERTIES_BYTES // 4


def parse_properties(raw: bytes) -> dict[str, str]:
    r"""Read a properties text into a dict.

    >>> parse_properties(b"a\x01b\x02c\x01\x02d\x01e")
    {'a': 'b', 'd': 'e'}
    """
    properties: dict[str, str] = {}
    for entry in raw.decode("utf-8", "replace").split(_END):
        name, _, value = entry.partition(_EQUALS)
        if name and value:
            properties[name] = value
    properties.pop(CRC32, None)
    return properties


def encode_properties(properties: Mapping[str, str], *, closed: bool = True) -> bytes:
    r"""Write properties as one text. Senders of version 4.9 leave the last ``\x02`` out: ``closed=False``.

    What could not be read back is refused: separators inside, empty names and values, more than 32,767 bytes.

    >>> encode_properties({"TAGS": "paid", "region": "eu"})
    b'TAGS\x01paid\x02region\x01eu\x02'
    >>> encode_properties({"TAGS": "paid", "region": "eu"}, closed=False)
    b'TAGS\x01paid\x02region\x01eu'
    """
    text = "".join([f"{name}{_EQUALS}{value}{_END}" for name, value in properties.items()])
    count = len(properties)
    if text.count(_EQUALS) != count or text.count(_END) != count or "" in properties or "" in properties.values():
        raise _unwritable(properties)
    try:
        raw = text.encode() if closed else text[:-1].encode()
    except UnicodeEncodeError:
        raise _unwritable(properties) from None
    return _within_limit(raw)


def find_property(raw: bytes, name: bytes) -> bytes | None:
    r"""Look up one property in a properties text without reading the others; the name must hold no separator.

    >>> find_property(b"KEYS\x01TAGS\x02TAGS\x01paid\x02", b"TAGS")
    b'paid'
    """
    # Only an entry's start follows \x02, and \x02 cannot be inside a value: a value never passes for a name.
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
    r"""Add one properties text to another; a name that both have keeps the added value.

    >>> append_properties(b"TAGS\x01paid", b"CLUSTER\x01main\x02")
    b'TAGS\x01paid\x02CLUSTER\x01main\x02'
    """
    return _within_limit(raw + b"\x02" + added if raw and raw[-1] != 2 else raw + added)


def sent_properties(message: Message, *, unique_key: str = "", wait: bool = True, more: str = "") -> str:
    r"""Return all that is sent as a message's properties: the user's own, tag, keys, its id and whether to wait.

    ``more`` is a properties text that follows. Nothing is checked but the length: a message was, when it was made, and
    every message that is sent passes here.

    >>> sent_properties(Message("orders", b"{}", tags="paid", keys=["a", "b"]), unique_key="A1", more="TTL\x019\x02")
    'TAGS\x01paid\x02KEYS\x01a b\x02UNIQ_KEY\x01A1\x02WAIT\x01true\x02TTL\x019\x02'
    """
    text = f"{WAIT}\x01{'true' if wait else 'false'}\x02{more}"
    if unique_key:
        text = f"{UNIQUE_KEY}\x01{unique_key}\x02{text}"
    if message.keys:
        text = f"{KEYS}\x01{' '.join(message.keys)}\x02{text}"
    if message.tags:
        text = f"{TAGS}\x01{message.tags}\x02{text}"
    if message.properties:
        own = "".join([f"{name}\x01{value}\x02" for name, value in message.properties.items()])
        text = f"{own}{text}"
    if len(text) > _SHORT and (size := len(text.encode())) > limits.PROPERTIES_BYTES:
        raise ConfigurationError(
            f"tag, keys and properties of a message to {message.topic!r} have {size} bytes together, the limit is "
            f"{limits.PROPERTIES_BYTES}",
            next_step="say less in them, or put it into the body",
        )
    return text


class LazyProperties(Mapping[str, str]):
    r"""The properties of a stored message, read when somebody first looks: most handlers look at the body alone.

    >>> LazyProperties(b"TAGS\x01paid\x02")["TAGS"]
    'paid'
    """

    __slots__ = ("_read", "_text")

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._read: dict[str, str] | None = None

    def _properties(self) -> dict[str, str]:
        if self._read is None:
            self._read = parse_properties(self._text)
        return self._read

    def __getitem__(self, name: str) -> str:
        return self._properties()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._properties())

    def __len__(self) -> int:
        return len(self._properties())

    def __repr__(self) -> str:
        return repr(self._properties())


def _within_limit(raw: bytes) -> bytes:
    if len(raw) > limits.PROPERTIES_BYTES:
        raise LimitExceeded("properties text", where="properties", limit=limits.PROPERTIES_BYTES, found=len(raw))
    return raw


def _unwritable(properties: Mapping[str, str]) -> ConfigurationError:
    for name, value in properties.items():
        for text in (name, value):
            if not text or _EQUALS in text or _END in text or not _is_unicode(text):
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
