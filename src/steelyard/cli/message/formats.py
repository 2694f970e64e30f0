r"""How a message is printed by a pattern of the user's: ``'%t %q %o %k %s\n'``.

| word | what it stands for | | word | what it stands for |
|---|---|---|---|---|
| `%t` | the topic | | `%i` | the id that its producer gave it |
| `%b` | the broker | | `%I` | the id that is made of its place |
| `%q`, `%p` | the queue's number | | `%T` | when it was stored, in milliseconds since 1970 |
| `%o` | the offset in the queue | | `%D` | the same as a date: 2026-11-01T08:00:00.000Z |
| `%s` | the body | | `%B` | when it was born, in milliseconds since 1970 |
| `%S` | how many bytes the body has | | `%h` | its properties: name=value, with commas between them |
| `%R` | the same as 4 bytes, the highest first | | `%r` | how often it came back before |
| `%k` | its keys, with blanks between them | | `%%` | a percent sign |
| `%K` | how many bytes those have | | `%g` | its tag |

The escapes are ``\n \r \t \0 \\`` and ``\xNN``. A pattern is read once, before anything else is done: a word that does
not exist is an error then. Into a pipe or a file everything goes as the bytes that it is; on a terminal a character
that is a command to it is shown by its number.
"""

import re
from collections.abc import Callable, Iterator

from steelyard.cli.frame.print_message import stored_at
from steelyard.cli.frame.screen import visible
from steelyard.errors import ConfigurationError
from steelyard.model import StoredMessage

__all__ = ["ALL_WORDS", "Format", "escaped", "read_format"]

Format = Callable[[StoredMessage], bytes]
"""Makes of a message what is printed."""

_PART = re.compile(r"%(?P<word>.?)|\\(?P<escape>x[0-9A-Fa-f]{2}|.?)|[^%\\]+", re.DOTALL)
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_LONGEST_SIZE = (1 << 32) - 1


def _text(read: Callable[[StoredMessage], str]) -> Format:
    return lambda message: read(message).encode(errors="surrogateescape")


def _keys(message: StoredMessage) -> str:
    return " ".join(message.keys)


def _properties(message: StoredMessage) -> str:
    return ",".join(f"{name}={text}" for name, text in message.properties.items())


def _size(message: StoredMessage) -> bytes:
    return min(len(message.body), _LONGEST_SIZE).to_bytes(4, "big")


def _body(message: StoredMessage) -> bytes:
    return message.body


_WORDS: dict[str, Format] = {
    "t": _text(lambda message: message.topic),
    "b": _text(lambda message: message.queue.broker),
    "q": lambda message: b"%d" % message.queue.queue_id,
    "p": lambda message: b"%d" % message.queue.queue_id,
    "o": lambda message: b"%d" % message.offset,
    "s": _body,
    "S": lambda message: b"%d" % len(message.body),
    "R": _size,
    "k": _text(_keys),
    "K": lambda message: b"%d" % len(_keys(message).encode(errors="surrogateescape")),
    "g": _text(lambda message: message.tags or ""),
    "i": _text(lambda message: message.message_id),
    "I": _text(lambda message: message.offset_id),
    "T": lambda message: b"%d" % message.stored_ms,
    "D": _text(stored_at),
    "B": lambda message: b"%d" % message.born_ms,
    "h": _text(_properties),
    "r": lambda message: b"%d" % message.reconsume_times,
}

ALL_WORDS = "".join(_WORDS)


def read_format(pattern: str, *, for_terminal: bool = False, known: str = ALL_WORDS) -> Format:
    r"""Read a pattern; ``known`` are the words that may be in it.

    >>> from steelyard.model import Queue
    >>> message = StoredMessage(Queue("orders", "broker-0", 3), 41, b"a\x1b[2J", {"KEYS": "k1"})
    >>> read_format(r"%t:%q:%o\t%k %s %%\n")(message)
    b'orders:3:41\tk1 a\x1b[2J %\n'
    >>> read_format("%s", for_terminal=True)(message)
    b'a\\x1b[2J'
    """
    parts = list(_parts(pattern, for_terminal, known))

    def write(message: StoredMessage) -> bytes:
        return b"".join([part if isinstance(part, bytes) else part(message) for part in parts])

    return write


def escaped(text: str, *, where: str) -> bytes:
    r"""Return a text with its escapes read, as bytes; ``where`` names what it was given for.

    >>> escaped(r"\0", where="--delimiter"), escaped("a%b", where="--delimiter")
    (b'\x00', b'a%b')
    """
    return b"".join(
        _escape(found["escape"], where) if found["escape"] is not None else _raw(found[0])
        for found in _PART.finditer(text.replace("%", "\\x25"))
    )


def _parts(pattern: str, for_terminal: bool, known: str) -> Iterator[bytes | Format]:
    for found in _PART.finditer(pattern):
        word, escape = found["word"], found["escape"]
        if word == "%":
            yield b"%"
        elif word is not None:
            if not word or word not in known:
                listed = " ".join(f"%{each}" for each in known)
                raise ConfigurationError(f"--format has no word %{word}", next_step=f"there are: {listed} %%")
            yield _seen(_WORDS[word]) if for_terminal else _WORDS[word]
        elif escape is not None:
            yield _escape(escape, "--format")
        else:
            yield _raw(found[0])


def _escape(letters: str, where: str) -> bytes:
    if len(letters) == 3:
        return bytes.fromhex(letters[1:])
    if letters not in _ESCAPES:
        raise ConfigurationError(
            rf"{where} has no escape \{letters}", next_step=r"there are \n, \r, \t, \0, \\ and \xNN"
        )
    return _ESCAPES[letters]


def _raw(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _seen(word: Format) -> Format:
    return lambda message: visible(word(message).decode(errors="backslashreplace")).encode(errors="backslashreplace")
