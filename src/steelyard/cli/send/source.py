"""What `steelyard send` sends: a body, files, all of stdin, a message a line, or a JSON object a line.

A line is sent once it has come, and no more is read than is being sent: a pipe that never ends is no trouble.
"""

import binascii
import sys
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, repeat
from pathlib import Path
from typing import Any, Protocol, cast

import msgspec

from steelyard.errors import ConfigurationError
from steelyard.model import Message, Queue
from steelyard.model.message import RESERVED_PROPERTIES

__all__ = ["Cut", "Outgoing", "Pattern", "from_body", "from_files", "from_json", "from_lines", "from_stdin"]

_LONGEST_LINE = 4 << 20
"""A broker takes no more than that either."""

_READ_BYTES = 1 << 16
_EXAMPLE = '{"body": "hello", "tags": "paid", "keys": ["order-1"]}'


class _Stream(Protocol):
    """What bytes are read from."""

    def read(self, most: int, /) -> bytes:
        """Read so much, or up to the end."""

    def read1(self, most: int, /) -> bytes:
        """Read what is there, as soon as something is."""

    def readline(self, most: int, /) -> bytes:
        """Read up to the end of a line."""


class Outgoing(msgspec.Struct, frozen=True):
    """A message and how it is to be sent."""

    message: Message
    key: str | None = None
    delay_s: float | None = None
    queue: Queue | None = None


class Pattern(msgspec.Struct, frozen=True):
    """What all messages of one command have in common."""

    topic: str
    tags: str | None = None
    keys: tuple[str, ...] = ()
    key: str | None = None
    delay_s: float | None = None
    properties: Mapping[str, str] = {}
    queue: Queue | None = None

    def made(self, body: bytes, own_key: str | None = None) -> Outgoing:
        """Make a message of a body, and of a key that is its own."""
        keys = self.keys if own_key is None else (*self.keys, own_key)
        message = Message(self.topic, body, self.tags, keys, self.properties)
        return Outgoing(message, own_key or self.key, self.delay_s, self.queue)


class Cut(msgspec.Struct, frozen=True):
    """How lines are cut: what ends one, and what ends the key that each begins with, if it does."""

    end: bytes = b"\n"
    key_end: bytes | None = None


_BY_LINE = Cut()


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    """A line of JSON: what counts, then what `steelyard consume --json` tells besides and is passed over here."""

    body: str
    body_encoding: str = "utf-8"
    tags: str | None = None
    keys: str | list[str] = []
    properties: dict[str, str] = {}
    flag: int = 0
    key: str | None = None
    delay_s: float | None = None
    topic: Any = None
    broker: Any = None
    queue_id: Any = None
    offset: Any = None
    position: Any = None
    born_ms: Any = None
    stored_ms: Any = None
    born_host: Any = None
    store_host: Any = None
    message_id: Any = None
    offset_id: Any = None
    sys_flag: Any = None
    reconsume_times: Any = None


def from_body(pattern: Pattern, text: str, count: int) -> Iterator[Outgoing]:
    """Send one body so many times."""
    # As it came: bytes that are no text have been made into something else by the shell's argument.
    return repeat(pattern.made(text.encode(errors="surrogateescape")), count)


def from_stdin(pattern: Pattern) -> Iterator[Outgoing]:
    """Send all of stdin as one message."""
    body = _stdin().read(_LONGEST_LINE + 1)
    if len(body) > _LONGEST_LINE:
        raise ConfigurationError(
            f"stdin has more than {_LONGEST_LINE} bytes", next_step="a message cannot; send --lines, or less"
        )
    yield pattern.made(body)


def from_files(pattern: Pattern, paths: Iterable[Path]) -> Iterator[Outgoing]:
    """Send what is in each file."""
    for path in paths:
        try:
            with path.open("rb") as file:
                body = file.read(_LONGEST_LINE + 1)
        except OSError as error:
            raise ConfigurationError(
                f"the file {path} cannot be read ({error.strerror})", next_step="name one that can be"
            ) from None
        if len(body) > _LONGEST_LINE:
            raise ConfigurationError(
                f"the file {path} has more than {_LONGEST_LINE} bytes", next_step="a message cannot; send less"
            )
        yield pattern.made(body)


def from_lines(pattern: Pattern, most: int | None, cut: Cut = _BY_LINE) -> Iterator[Outgoing]:
    """Send each line of stdin, without its end; empty lines are left out."""
    for number, line in _lines(most, cut.end):
        if cut.key_end is None:
            yield pattern.made(line)
            continue
        key, found, body = line.partition(cut.key_end)
        if not found or not key:
            raise ConfigurationError(
                f"line {number} of stdin has no key before {cut.key_end.decode(errors='backslashreplace')!r}",
                next_step="give each line one, or leave --key-delimiter out",
            )
        yield pattern.made(body, key.decode(errors="replace"))


def from_json(pattern: Pattern, most: int | None) -> Iterator[Outgoing]:
    """Send each line of stdin as it says; what the command says counts where a line says nothing."""
    read = msgspec.json.Decoder(_Line)
    for number, text in _lines(most, _BY_LINE.end):
        try:
            yield _made(pattern, read.decode(text))
        except (msgspec.DecodeError, binascii.Error, ConfigurationError) as error:
            what = error.what if isinstance(error, ConfigurationError) else str(error)
            raise ConfigurationError(
                f"line {number} of stdin is no message: {what}", next_step=f"it looks like {_EXAMPLE}"
            ) from None


def _made(pattern: Pattern, line: _Line) -> Outgoing:
    if line.body_encoding not in ("utf-8", "base64"):
        raise ConfigurationError(f"body_encoding is {line.body_encoding!r}", next_step="give utf-8 or base64")
    body = b64decode(line.body, validate=True) if line.body_encoding == "base64" else line.body.encode()
    theirs = {name: text for name, text in line.properties.items() if name not in RESERVED_PROPERTIES}
    own = {**pattern.properties, **theirs}
    message = Message(pattern.topic, body, line.tags or pattern.tags, line.keys or pattern.keys, own, line.flag)
    delay_s = pattern.delay_s if line.delay_s is None else line.delay_s
    return Outgoing(message, line.key or pattern.key, delay_s, pattern.queue)


def _lines(most: int | None, end: bytes) -> Iterator[tuple[int, bytes]]:
    cut = (line.rstrip(b"\r\n") for line in _by_line(_stdin())) if end == b"\n" else _split(_stdin(), end)
    filled = ((number, line) for number, line in enumerate(cut, 1) if line)
    return islice(filled, most)


def _by_line(stdin: _Stream) -> Iterator[bytes]:
    while line := stdin.readline(_LONGEST_LINE + 1):
        yield _short(line)


def _split(stdin: _Stream, end: bytes) -> Iterator[bytes]:
    left = b""
    # One read, so that what came is sent before more comes.
    while news := stdin.read1(_READ_BYTES):
        *whole, left = (left + news).split(end)
        yield from map(_short, whole)
        _short(left)
    yield left


def _short(line: bytes) -> bytes:
    if len(line) > _LONGEST_LINE:
        raise ConfigurationError(
            f"a line of stdin has more than {_LONGEST_LINE} bytes", next_step="a message cannot; send less"
        )
    return line


def _stdin() -> _Stream:
    if sys.stdin is None:
        raise ConfigurationError("stdin is closed", next_step="give --body, or write to stdin")
    return cast("_Stream", sys.stdin.buffer)
