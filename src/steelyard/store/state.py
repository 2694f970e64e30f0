r"""The small state beside the log: topics, groups, offsets. Each is one JSON document in a file of its own.

The files have the names and the shapes of Apache RocketMQ's own, and one more key at the end, which Java ignores::

    {"offsetTable":{"orders@billing":{0:12}},"steelyard":{"crc32":3735928559,"v":1}}

The number is the CRC-32 of the document without that key: of all that is before its comma, and a closing brace. The
key is compared byte by byte, so that no flipped bit goes unseen, not even in the key itself. A file with no trace of it
was written by another program, and is taken as it is if it can be read: who edits a file by hand removes the key.

A document is replaced whole (replace.py), and the one before stays as ``.bak`` where Java looks for it too. What is
damaged never becomes a backup. When to write is the caller's business: once it changed, and not more often than useful.
"""

from dataclasses import dataclass
from operator import eq
from typing import Generic, TypeVar
from zlib import crc32

from msgspec import Struct

from steelyard.errors import LimitExceeded, MalformedBody
from steelyard.store.disk import Disk
from steelyard.store.replace import replace_file
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.groups import GroupTable, SubscriptionTable
from steelyard.wire.bodies.offsets import DelayOffsets, GroupOffsets
from steelyard.wire.bodies.topics import TopicTable
from steelyard.wire.json_text import check_shape

__all__ = [
    "CLOSED",
    "DELAY_OFFSETS",
    "FORMAT",
    "GROUPS",
    "GROUP_OFFSETS",
    "SUBSCRIPTIONS",
    "TOPICS",
    "Closed",
    "Document",
    "Format",
    "Loaded",
    "load",
    "save",
]

T = TypeVar("T")

_SEAL = b',"steelyard":{"crc32":%d,"v":1}}'
_SEAL_START, _, _ = _SEAL.partition(b"%d")
# One of each length, for the digits of the number.
_SEALS = tuple(_SEAL % 10**digits for digits in range(10))


class Format(Struct, frozen=True, kw_only=True):
    """How the directory is laid out; a release refuses a number that it does not know."""

    v: int = 1


class Closed(Struct, frozen=True, kw_only=True):
    """What a clean close leaves behind, so that the next start need not look at everything."""

    end: int
    """The position after the last record of the log."""
    closed_ms: int
    segment_bytes: int
    indexes_crc32: int = 0
    """A checksum of all queue indexes."""


@dataclass(frozen=True, slots=True)
class Document(Generic[T]):
    """A file that holds one JSON document: where it is, what is in it, and whether the one before is kept."""

    path: str
    kind: type[T]
    keeps_backup: bool = True

    @property
    def backup(self) -> str:
        """Where the document before this one is kept."""
        return f"{self.path}.bak"


TOPICS = Document("config/topics.json", TopicTable)
GROUPS = Document("config/subscriptionGroup.json", GroupTable)
GROUP_OFFSETS = Document("config/consumerOffset.json", GroupOffsets)
DELAY_OFFSETS = Document("config/delayOffset.json", DelayOffsets)
SUBSCRIPTIONS = Document("steelyard/subscriptions.json", SubscriptionTable, keeps_backup=False)
FORMAT = Document("steelyard/format.json", Format, keeps_backup=False)
# No backup: what an earlier close left behind says nothing true about the log as it is now.
CLOSED = Document("steelyard/closed.json", Closed, keeps_backup=False)


@dataclass(frozen=True, slots=True)
class Loaded(Generic[T]):
    """What was read: the value, if there is one, and a sentence about what was wrong, if anything was."""

    value: T | None
    note: str | None = None


def save(disk: Disk, document: Document[T], value: T) -> None:
    """Write a document in the place of the one before, safe from a loss of power when this returns.

    A crash at any moment leaves the one or the other readable. Errors of the disk pass through. A value that cannot be
    written, or that is too large to be read back (`LimitExceeded`), is refused before anything is touched.
    """
    text = encode_body(value)
    check_shape(text, document.path)
    backup = document.backup if document.keeps_backup and _is_whole(disk, document) else None
    replace_file(disk, document.path, _sealed(text), backup=backup)


def load(disk: Disk, document: Document[T]) -> Loaded[T]:
    """Read a document, or its backup where the document is missing or damaged. Nothing at all is no damage."""
    found = _read(disk, document.path, document.kind)
    if found.value is not None or not document.keeps_backup:
        return found
    kept = _read(disk, document.backup, document.kind)
    if kept.value is not None:
        return Loaded(kept.value, f"{found.note or f'{document.path} is missing'}; its backup was used")
    notes = [note for note in (found.note, kept.note) if note]
    return Loaded(None, "; ".join(notes) or None)


def _is_whole(disk: Disk, document: Document[T]) -> bool:
    """Say whether the file as it is now could serve as a backup; a checksum that fits is enough, and quick to see."""
    content = disk.read(document.path)
    text = None if content is None else _unsealed(content)
    return text is not None and (text != content or _read(disk, document.path, document.kind).value is not None)


def _read(disk: Disk, path: str, kind: type[T]) -> Loaded[T]:
    """Read one file; a file that is not there has neither a value nor anything wrong with it."""
    content = disk.read(path)
    if content is None:
        return Loaded(None)
    text = _unsealed(content)
    if text is None:
        return Loaded(None, f"{path} is damaged (its checksum does not fit)")
    try:
        return Loaded(decode_body(kind, text))
    except (MalformedBody, LimitExceeded) as error:
        return Loaded(None, f"{path} is damaged ({error.what})")


def _sealed(text: bytes) -> bytes:
    """Add the checksum of an object's text as its last key.

    >>> _sealed(b'{"v":1}')
    b'{"v":1,"steelyard":{"crc32":2229004093,"v":1}}'
    """
    return text[:-1] + _SEAL % crc32(text)


def _unsealed(content: bytes) -> bytes | None:
    """Return the text without its checksum; None if they do not fit. A text that never had one comes back as it is."""
    at = content.rfind(_SEAL_START)
    if at >= 0:
        text = content[:at] + b"}"
        return text if _sealed(text) == content else None
    return None if _has_trace_of_seal(content) else content


def _has_trace_of_seal(content: bytes) -> bool:
    """Say whether a text ends with something that was a seal: a damaged one must not pass for none.

    Most of it being there is enough. No other document ends with half as many of the same bytes in the same places.
    """
    return any(2 * sum(map(eq, seal, content[-len(seal) :])) > len(seal) for seal in _SEALS)
