"""A stored message as the page shows it: in a list, and by itself.

What users sent is text to the page, never markup: it goes to the browser as JSON strings, cut to a size that a browser
can show, with the whole size beside it. A body that is not UTF-8 goes as base64.
"""

from base64 import b64encode
from codecs import getincrementaldecoder

from msgspec import Struct

from steelyard.client.pulling.peeking import beginning
from steelyard.model import StoredMessage

__all__ = ["SHOWN_BYTES", "Body", "Row", "body_of", "row_of"]

SHOWN_BYTES = 64 * 1024
"""So much of a body is shown; all of it can be downloaded."""

_decoder = getincrementaldecoder("utf-8")

_START_LETTERS = 160
_START_BYTES = 4 * _START_LETTERS
_START_HEX_BYTES = 24
_NAME_LETTERS = 256
_MOST_KEYS = 20


class Body(Struct, frozen=True):
    """A body, or its beginning."""

    text: str | None
    """The text, where all of the body is UTF-8."""
    base64: str | None
    """The bytes, where it is not."""
    size: int
    """Bytes of the whole body."""
    is_text: bool
    is_cut: bool
    """Whether this is its beginning only."""


class Row(Struct, frozen=True, gc=False):
    """A message in a list."""

    topic: str
    broker: str
    queue: int
    offset: int
    stored_ms: int
    id: str
    tag: str | None
    keys: list[str]
    start: str
    """The beginning of its body: text, or bytes in hexadecimal."""
    is_text: bool
    size: int
    """Bytes of the body; of one that is compressed and was not opened whole, of what was."""
    is_cut: bool
    """Whether the body goes on after its beginning."""


def body_of(body: bytes, most: int = SHOWN_BYTES) -> Body:
    r"""Return a body as it is shown.

    >>> body_of(b'{"a": 1}').text, body_of(b"\xff\x00").base64
    ('{"a": 1}', '/wA=')
    >>> body_of("né".encode(), most=2)
    Body(text='n', base64=None, size=3, is_text=True, is_cut=True)
    """
    is_cut = len(body) > most
    if _text(body) is None:
        return Body(None, b64encode(body[:most]).decode(), len(body), is_text=False, is_cut=is_cut)
    return Body(_text(body[:most], is_cut=is_cut), None, len(body), is_text=True, is_cut=is_cut)


def row_of(topic: str, message: StoredMessage) -> Row:
    """Return a message as a list shows it; ``topic`` is what it was asked for by."""
    message, is_whole = beginning(message, SHOWN_BYTES)
    body = message.body
    text = _text(body[:_START_BYTES], is_cut=not is_whole or len(body) > _START_BYTES)
    start = body[:_START_HEX_BYTES].hex(" ") if text is None else text[:_START_LETTERS]
    shown = _START_HEX_BYTES if text is None else len(start.encode())
    return Row(
        topic,
        message.queue.broker,
        message.queue.queue_id,
        message.offset,
        message.stored_ms,
        message.message_id[:_NAME_LETTERS],
        None if message.tags is None else message.tags[:_NAME_LETTERS],
        [key[:_NAME_LETTERS] for key in message.keys[:_MOST_KEYS]],
        start,
        text is not None,
        len(body),
        not is_whole or len(body) > shown,
    )


def _text(part: bytes, *, is_cut: bool = False) -> str | None:
    """Decode UTF-8, or say that it is none; a character that a cut went through is left out."""
    try:
        return _decoder().decode(part, not is_cut)
    except UnicodeDecodeError:
        return None
