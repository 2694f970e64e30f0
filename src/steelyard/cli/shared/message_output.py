r"""Messages as text: one line, one JSON object, or by a pattern such as ``'%t %q %o %k %s\n'``.

| directive | stands for | | directive | stands for |
|---|---|---|---|---|
| `%t` | topic | | `%i` | message id (unique key) |
| `%b` | broker | | `%I` | offset id |
| `%q`, `%p` | queue id | | `%T` | store time, in milliseconds since 1970 |
| `%o` | offset | | `%D` | store time as 2026-11-01T08:00:00.000Z |
| `%s` | body | | `%B` | born time, in milliseconds since 1970 |
| `%S` | size of the body in bytes | | `%h` | properties: name=value, separated by commas |
| `%R` | the same as 4 bytes, big-endian | | `%r` | redeliveries so far |
| `%k` | keys, separated by blanks | | `%%` | a percent sign |
| `%K` | size of the keys in bytes | | `%g` | tag |

Escapes are ``\n \r \t \0 \\`` and ``\xNN``. A pattern is parsed before anything else is done. A pipe or file gets raw
bytes; on a terminal control characters are escaped. What one poll returned is written and flushed together, before more
is read: a single message is seen at once, and a printed message is consumed.
"""

import errno
import os
import re
import select
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import IO

import msgspec

from steelyard.cli.shared.terminal import StopSignal, printable_json
from steelyard.errors import ConfigurationError
from steelyard.model import Queue, StoredMessage
from steelyard.model.formatting import pluralize, printable

_PREVIEW_CHARS = 60
_PREVIEW_BYTES = 64 << 10
"""How much of a compressed body is decompressed for a preview."""
_NO_QUEUE = Queue("", "", 0)
_SECOND_CHARS = len("2026-11-01T08:00:00")


def _format_line(message: StoredMessage) -> str:
    """Return queue and offset, store time, keys, tag and the beginning of the body."""
    # A message from a broker's directory has no broker name.
    queue = str(message.queue) if message.queue.broker else f"{message.topic}:{message.queue.queue_id}"
    words = (
        f"{queue}:{message.offset}",
        _format_stored_time(message),
        ",".join(message.keys) or "-",
        message.tags or "-",
        body_preview(message.body),
    )
    return printable(" ".join(words))


def _format_stored_time(message: StoredMessage) -> str:
    """Return the store time to the millisecond."""
    second, ms = divmod(message.stored_ms, 1000)
    return f"{_format_second(second)}.{ms:03d}Z"


@lru_cache(maxsize=1024)
def _format_second(epoch_s: int) -> str:
    # Cached: many messages share a second, and this is the slowest part.
    return StoredMessage(_NO_QUEUE, 0, b"", stored_ms=epoch_s * 1000).stored_at.isoformat()[:_SECOND_CHARS]


def body_preview(body: bytes) -> str:
    """Return the beginning of a body as text, or its bytes in hexadecimal."""
    try:
        # This may cut a character in two: ``ignore`` drops the rest of it.
        text = body[: 4 * _PREVIEW_CHARS].decode(errors="strict" if len(body) <= 4 * _PREVIEW_CHARS else "ignore")
    except UnicodeDecodeError:
        cut = "..." if len(body) > _PREVIEW_CHARS // 4 else ""
        return f"{body[: _PREVIEW_CHARS // 4].hex()}{cut} ({pluralize(len(body), 'byte')})"
    return text if len(text) <= _PREVIEW_CHARS else f"{text[:_PREVIEW_CHARS]}..."


def open_bodies(messages: Iterable[StoredMessage], *, preview: bool = False) -> Iterator[StoredMessage]:
    """Yield messages with their bodies decompressed, one at a time; with ``preview`` only the beginning of each."""
    from steelyard.client.consumer.decompression import MAX_OPEN_BYTES
    from steelyard.client.pull_consumer.queue_browser import preview_body

    return (preview_body(message, _PREVIEW_BYTES if preview else MAX_OPEN_BYTES)[0] for message in messages)


def format_json_line(message: StoredMessage) -> str:
    """Return all fields of a message as one JSON object."""
    return msgspec.json.encode(message_fields(message)).decode()


def message_fields(message: StoredMessage) -> dict[str, object]:
    """Return all fields of a message; a body that is not UTF-8 is in base64, as ``body_encoding`` says."""
    try:
        body, encoding = message.body.decode(), "utf-8"
    except UnicodeDecodeError:
        body, encoding = b64encode(message.body).decode(), "base64"
    return {
        "topic": message.topic,
        # A message from a broker's directory has no broker name.
        **({"broker": message.queue.broker} if message.queue.broker else {}),
        "queue_id": message.queue.queue_id,
        "offset": message.offset,
        "position": message.position,
        "born_ms": message.born_ms,
        "stored_ms": message.stored_ms,
        "born_host": message.born_host,
        "store_host": message.store_host,
        "message_id": message.message_id,
        "tags": message.tags,
        "keys": message.keys,
        "properties": dict(message.properties),
        "flag": message.flag,
        "sys_flag": message.sys_flag,
        "reconsume_times": message.reconsume_times,
        "body": body,
        "body_encoding": encoding,
    }


MessageFormat = Callable[[StoredMessage], bytes]
"""Formats a message as bytes."""

_TOKEN = re.compile(r"%(?P<word>.?)|\\(?P<escape>x[0-9A-Fa-f]{2}|.?)|[^%\\]+", re.DOTALL)
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_MAX_SIZE = (1 << 32) - 1


def _text_field(getter: Callable[[StoredMessage], str]) -> MessageFormat:
    return lambda message: getter(message).encode(errors="surrogateescape")


def _keys_text(message: StoredMessage) -> str:
    return " ".join(message.keys)


_DIRECTIVES: dict[str, MessageFormat] = {
    "t": _text_field(lambda message: message.topic),
    "b": _text_field(lambda message: message.queue.broker),
    "q": lambda message: b"%d" % message.queue.queue_id,
    "p": lambda message: b"%d" % message.queue.queue_id,
    "o": lambda message: b"%d" % message.offset,
    "s": lambda message: message.body,
    "S": lambda message: b"%d" % len(message.body),
    "R": lambda message: min(len(message.body), _MAX_SIZE).to_bytes(4, "big"),
    "k": _text_field(_keys_text),
    "K": lambda message: b"%d" % len(_keys_text(message).encode(errors="surrogateescape")),
    "g": _text_field(lambda message: message.tags or ""),
    "i": _text_field(lambda message: message.message_id),
    "I": _text_field(lambda message: message.offset_id),
    "T": lambda message: b"%d" % message.stored_ms,
    "D": _text_field(_format_stored_time),
    "B": lambda message: b"%d" % message.born_ms,
    "h": _text_field(lambda message: ",".join(f"{name}={text}" for name, text in message.properties.items())),
    "r": lambda message: b"%d" % message.reconsume_times,
}

ALL_DIRECTIVES = "".join(_DIRECTIVES)


def parse_format(pattern: str, *, for_terminal: bool = False, allowed: str = ALL_DIRECTIVES) -> MessageFormat:
    r"""Parse a pattern; ``allowed`` are the directives that it may have.

    >>> from steelyard.model import Queue
    >>> message = StoredMessage(Queue("orders", "broker-0", 3), 41, b"a\x1b[2J", {"KEYS": "k1"})
    >>> parse_format(r"%t:%q:%o\t%k %s %%\n")(message)
    b'orders:3:41\tk1 a\x1b[2J %\n'
    >>> parse_format("%s", for_terminal=True)(message)
    b'a\\x1b[2J'
    """
    parts = list(_parse_tokens(pattern, for_terminal, allowed))

    def write(message: StoredMessage) -> bytes:
        return b"".join([part if isinstance(part, bytes) else part(message) for part in parts])

    return write


def parse_escapes(text: str, *, option: str) -> bytes:
    r"""Return a text as bytes, with escapes decoded; ``option`` names it in errors.

    >>> parse_escapes(r"\0", option="--delimiter"), parse_escapes("a%b", option="--delimiter")
    (b'\x00', b'a%b')
    """
    return b"".join(
        _decode_escape(found["escape"], option) if found["escape"] is not None else _encode_raw(found[0])
        for found in _TOKEN.finditer(text.replace("%", "\\x25"))
    )


def _parse_tokens(pattern: str, for_terminal: bool, allowed: str) -> Iterator[bytes | MessageFormat]:
    for found in _TOKEN.finditer(pattern):
        word, escape = found["word"], found["escape"]
        if word == "%":
            yield b"%"
        elif word is not None:
            if not word or word not in allowed:
                listed = " ".join(f"%{each}" for each in allowed)
                raise ConfigurationError(f"--format has no directive %{word}", next_step=f"there are: {listed} %%")
            yield _printable_field(_DIRECTIVES[word]) if for_terminal else _DIRECTIVES[word]
        elif escape is not None:
            yield _decode_escape(escape, "--format")
        else:
            yield _encode_raw(found[0])


def _decode_escape(letters: str, option: str) -> bytes:
    if len(letters) == 3:
        return bytes.fromhex(letters[1:])
    if letters not in _ESCAPES:
        raise ConfigurationError(
            rf"{option} has no escape \{letters}", next_step=r"there are \n, \r, \t, \0, \\ and \xNN"
        )
    return _ESCAPES[letters]


def _encode_raw(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _printable_field(field: MessageFormat) -> MessageFormat:
    return lambda message: printable(field(message).decode(errors="backslashreplace")).encode(errors="backslashreplace")


_WRITE_CHUNK_BYTES = 1 << 18
"""Bytes that are written at a time: messages may be large."""


def message_format(pattern: str | None, *, as_json: bool = False) -> MessageFormat:
    """Return the format of messages: by a pattern, as lines of JSON, or as lines for people."""
    if pattern is not None:
        return parse_format(pattern, for_terminal=sys.stdout.isatty())
    if as_json:
        escape = printable_json if sys.stdout.isatty() else str
        return lambda message: f"{escape(format_json_line(message))}\n".encode()
    encoding = sys.stdout.encoding or "utf-8"
    return lambda message: f"{_format_line(message)}\n".encode(encoding, "backslashreplace")


class MessagePrinter:
    """Prints messages from any thread, until there are enough of them or the reader is gone."""

    def __init__(self, stop: StopSignal, format_message: MessageFormat, *, count: int | None, work_ms: int) -> None:
        sys.stdout.flush()
        self._out: IO[bytes] = sys.stdout.buffer
        self._format_message = format_message
        self._stop, self._left, self._work_s = stop, count, work_ms / 1000
        self._lock = threading.Lock()

    @property
    def wants_more(self) -> bool:
        """Whether messages are still printed."""
        return self._left != 0 and self._stop.error is None

    def batch_limit(self, max_messages: int) -> int:
        """Return how many messages to poll next: no more than are wanted, and one if work is simulated."""
        return 1 if self._work_s else max_messages if not self._left else min(max_messages, self._left)

    def print(self, messages: Sequence[StoredMessage]) -> bool:
        """Print messages, each after its simulated work; return False if not all of them were wanted."""
        if not self._work_s:
            return self._print_batch(messages)
        for message in messages:
            time.sleep(self._work_s)
            if not self._print_batch((message,)):
                return False
        return True

    def _print_batch(self, messages: Sequence[StoredMessage]) -> bool:
        with self._lock:
            wanted = messages if self._left is None else messages[: self._left]
            if not self.wants_more:
                return False
            try:
                for piece in _chunks(map(self._format_message, wanted)):
                    self._out.write(piece)
                    self._out.flush()
            except OSError as error:
                self._stop.set(error)
                return False
            if self._left is not None:
                self._left -= len(wanted)
                if not self._left:
                    self._stop.set()
            return len(wanted) == len(messages)

    def stop_if_reader_gone(self) -> None:
        """Stop if the reader closed the pipe: without new messages no write would detect that."""
        with suppress(OSError):  # not a file descriptor
            poll = select.poll()
            poll.register(self._out.fileno(), 0)
            if any(event & select.POLLERR for _, event in poll.poll(0)):
                self._stop.set(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)))


def _chunks(lines: Iterable[bytes]) -> Iterator[bytes]:
    piece: list[bytes] = []
    size = 0
    for line in lines:
        piece.append(line)
        size += len(line)
        if size >= _WRITE_CHUNK_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
    if piece:
        yield b"".join(piece)
