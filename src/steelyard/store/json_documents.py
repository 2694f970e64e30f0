"""JSON documents: the small state beside the log (topics, groups, offsets), each in a file of its own.

The files have the names and shapes of Apache RocketMQ's own, and one more key at the end, which Java ignores::

    {"offsetTable":{"orders@billing":{0:12}},"steelyard":{"crc32":3735928559,"v":1}}

The number is the CRC-32 of the document without that key, which is compared byte by byte. A file without any trace of
it was written by another program and is accepted if it parses: to edit a file by hand, remove the key. A document is
replaced atomically, and its predecessor stays as ``.bak``, where Java looks too; a damaged one never becomes a backup.
"""

from dataclasses import dataclass
from operator import eq
from typing import Generic, TypeVar
from zlib import crc32

from msgspec import Struct

from steelyard.errors import LimitExceeded, MalformedBody
from steelyard.store.disk import Disk, replace_file
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.groups import SavedSubscriptionTable, SubscriptionGroupTable
from steelyard.wire.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from steelyard.wire.bodies.topics import TopicConfigTable
from steelyard.wire.java_json import check_json_limits

T = TypeVar("T")

_CHECKSUM_KEY = b',"steelyard":{"crc32":%d,"v":1}}'
_CHECKSUM_START, _, _ = _CHECKSUM_KEY.partition(b"%d")
# One of each length, for the digits of the number.
_CHECKSUM_SHAPES = tuple(_CHECKSUM_KEY % 10**digits for digits in range(10))


class StoreFormat(Struct, frozen=True, kw_only=True):
    """The version of the directory's layout; a release refuses one that it does not know."""

    v: int = 1


class CleanShutdown(Struct, frozen=True, kw_only=True):
    """What a clean close saves, so that the next start need not scan the log."""

    end: int
    """The position after the last record of the log."""
    closed_ms: int
    segment_bytes: int
    indexes_crc32: int = 0
    """A checksum of all consume queues."""


@dataclass(frozen=True, slots=True)
class JsonDocument(Generic[T]):
    """A file with one JSON document: its path, the type of its value, and whether a backup is backup."""

    path: str
    value_type: type[T]
    keeps_backup: bool = True

    @property
    def backup(self) -> str:
        """The path of the previous document."""
        return f"{self.path}.bak"


TOPICS = JsonDocument("config/topics.json", TopicConfigTable)
GROUPS = JsonDocument("config/subscriptionGroup.json", SubscriptionGroupTable)
GROUP_OFFSETS = JsonDocument("config/consumerOffset.json", ConsumerOffsetTable)
DELAY_OFFSETS = JsonDocument("config/delayOffset.json", DelayOffsetTable)
SUBSCRIPTIONS = JsonDocument("steelyard/subscriptions.json", SavedSubscriptionTable, keeps_backup=False)
STORE_FORMAT = JsonDocument("steelyard/format.json", StoreFormat, keeps_backup=False)
# No backup: what an earlier close saved is not true of the log as it is now.
CLEAN_SHUTDOWN = JsonDocument("steelyard/closed.json", CleanShutdown, keeps_backup=False)


@dataclass(frozen=True, slots=True)
class LoadedDocument(Generic[T]):
    """The value, if there is one, and a sentence about the problem, if there was one."""

    value: T | None
    problem: str | None = None


def save_document(disk: Disk, document: JsonDocument[T], value: T) -> None:
    """Replace a document durably; a crash at any moment leaves the old or the new one readable.

    Errors of the disk pass through. A value that is too large to be read back (`LimitExceeded`) is refused before
    anything is written.
    """
    text = encode_body(value)
    check_json_limits(text, document.path)
    backup = document.backup if document.keeps_backup and _is_intact(disk, document) else None
    replace_file(disk, document.path, _with_checksum(text), backup=backup)


def load_document(disk: Disk, document: JsonDocument[T]) -> LoadedDocument[T]:
    """Read a document, or its backup if the document is missing or damaged. It is no problem if both are missing."""
    found = _read_document(disk, document.path, document.value_type)
    if found.value is not None or not document.keeps_backup:
        return found
    backup = _read_document(disk, document.backup, document.value_type)
    if backup.value is not None:
        return LoadedDocument(backup.value, f"{found.problem or f'{document.path} is missing'}; its backup was used")
    return LoadedDocument(None, "; ".join(filter(None, (found.problem, backup.problem))) or None)


def _is_intact(disk: Disk, document: JsonDocument[T]) -> bool:
    """Return whether the present file can serve as a backup; a matching checksum is enough, and fast."""
    content = disk.read(document.path)
    text = None if content is None else _without_checksum(content)
    return text is not None and (
        text != content or _read_document(disk, document.path, document.value_type).value is not None
    )


def _read_document(disk: Disk, path: str, value_type: type[T]) -> LoadedDocument[T]:
    """Read one file; a missing file has neither a value nor a problem."""
    content = disk.read(path)
    if content is None:
        return LoadedDocument(None)
    text = _without_checksum(content)
    if text is None:
        return LoadedDocument(None, f"{path} is damaged (its checksum does not match)")
    try:
        return LoadedDocument(decode_body(value_type, text))
    except (MalformedBody, LimitExceeded) as error:
        return LoadedDocument(None, f"{path} is damaged ({error.what})")


def _with_checksum(text: bytes) -> bytes:
    """Append the checksum of an object's text as its last key."""
    return text[:-1] + _CHECKSUM_KEY % crc32(text)


def _without_checksum(content: bytes) -> bytes | None:
    """Return the text without its checksum key, unchanged if it never had one; None if the checksum is wrong."""
    at = content.rfind(_CHECKSUM_START)
    if at >= 0:
        text = content[:at] + b"}"
        return text if _with_checksum(text) == content else None
    return None if _has_checksum_remnant(content) else content


def _has_checksum_remnant(content: bytes) -> bool:
    """Return whether a text ends with a damaged checksum key: it must not pass for a text without one.

    More than half of its bytes is enough. No other document ends with that many of them in the same places.
    """
    return any(2 * sum(map(eq, key, content[-len(key) :])) > len(key) for key in _CHECKSUM_SHAPES)
