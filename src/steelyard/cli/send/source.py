"""What `steelyard send` sends: one body, all of stdin, a message a line, or a JSON object a line.

A line is sent once it has come, and no more is read than is being sent: a pipe that never ends is no trouble.
"""

import binascii
import sys
from base64 import b64decode
from collections.abc import Iterator
from itertools import islice, repeat
from typing import IO, Any

import msgspec

from steelyard.errors import ConfigurationError
from steelyard.model import Message
from steelyard.model.message import RESERVED_PROPERTIES

__all__ = ["Outgoing", "Pattern", "from_body", "from_json", "from_lines", "from_stdin"]

_LONGEST_LINE = 4 << 20
"""A broker takes no more than that either."""

_EXAMPLE = '{"body": "hello", "tags": "paid", "keys": ["order-1"]}'


class Outgoing(msgspec.Struct, frozen=True):
    """A message and how it is to be sent."""

    message: Message
    key: str | None = None
    delay_s: float | None = None


class Pattern(msgspec.Struct, frozen=True):
    """What all messages of one command have in common."""

    topic: str
    tags: str | None = None
    keys: tuple[str, ...] = ()
    key: str | None = None
    delay_s: float | None = None

    def made(self, body: bytes) -> Outgoing:
        """Make a message of a body."""
        return Outgoing(Message(self.topic, body, self.tags, self.keys), self.key, self.delay_s)


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


def from_lines(pattern: Pattern, most: int | None) -> Iterator[Outgoing]:
    """Send each line of stdin, without its end; empty lines are left out."""
    return (pattern.made(line) for _, line in _lines(most))


def from_json(pattern: Pattern, most: int | None) -> Iterator[Outgoing]:
    """Send each line of stdin as it says; what the command says counts where a line says nothing."""
    read = msgspec.json.Decoder(_Line)
    for number, text in _lines(most):
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
    own = {name: text for name, text in line.properties.items() if name not in RESERVED_PROPERTIES}
    message = Message(pattern.topic, body, line.tags or pattern.tags, line.keys or pattern.keys, own, line.flag)
    delay_s = pattern.delay_s if line.delay_s is None else line.delay_s
    return Outgoing(message, line.key or pattern.key, delay_s)


def _lines(most: int | None) -> Iterator[tuple[int, bytes]]:
    stdin = _stdin()
    filled = ((number, line) for number, line in enumerate(_cut(stdin), 1) if line)
    return islice(filled, most)


def _cut(stdin: IO[bytes]) -> Iterator[bytes]:
    while line := stdin.readline(_LONGEST_LINE + 1):
        if len(line) > _LONGEST_LINE:
            raise ConfigurationError(
                f"a line of stdin has more than {_LONGEST_LINE} bytes", next_step="a message cannot; send less"
            )
        yield line.rstrip(b"\r\n")


def _stdin() -> IO[bytes]:
    if sys.stdin is None:
        raise ConfigurationError("stdin is closed", next_step="give --body, or write to stdin")
    return sys.stdin.buffer
