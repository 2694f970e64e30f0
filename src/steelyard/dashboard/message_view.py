"""A stored message as the dashboard shows it: as a row of a list, by itself, and found by its place in the URL.

What users sent goes to the browser as JSON strings, truncated, with the whole size beside it; never as markup.
"""

from base64 import b64encode
from codecs import getincrementaldecoder

from msgspec import Struct

from steelyard.client.pull_consumer.queue_browser import preview_body
from steelyard.dashboard.api_routing import ApiRequest
from steelyard.dashboard.context import DashboardContext
from steelyard.errors import ConfigurationError, NoMessage
from steelyard.model import Queue, StoredMessage

_MAX_SHOWN_BYTES = 64 * 1024  # how much of a body is shown; all of it can be downloaded

_decoder = getincrementaldecoder("utf-8")

_PREVIEW_LETTERS = 160
_PREVIEW_BYTES = 4 * _PREVIEW_LETTERS
_PREVIEW_HEX_BYTES = 24
_MAX_NAME_LETTERS = 256
_MAX_KEYS = 20


class BodyView(Struct, frozen=True):
    """A body, or its beginning."""

    text: str | None  # the text, where all of the body is UTF-8
    base64: str | None  # the bytes, where it is not UTF-8
    size: int | None  # bytes of the whole body; null if it was decompressed only in part
    is_text: bool
    is_truncated: bool  # whether there is more, or it could not be decompressed


class MessageRow(Struct, frozen=True, gc=False):
    """A message in a list."""

    topic: str
    broker: str
    queue: int
    offset: int
    stored_ms: int
    id: str
    tag: str | None
    keys: list[str]
    preview: str  # the beginning of its body: text, or bytes in hexadecimal
    is_text: bool
    size: int  # bytes of the body; if it was decompressed only in part, of that part
    is_truncated: bool  # whether the body continues after the preview


def body_view(message: StoredMessage, max_bytes: int = _MAX_SHOWN_BYTES) -> BodyView:
    r"""Return the body of a message as it is shown; of a compressed one no more is decompressed.

    >>> body_view(StoredMessage(Queue("t", "b", 0), 0, "né".encode()), max_bytes=2)
    BodyView(text='n', base64=None, size=3, is_text=True, is_truncated=True)
    """
    message, is_whole = preview_body(message, max_bytes)
    body = message.body
    is_truncated = not is_whole or len(body) > max_bytes
    size = len(body) if is_whole else None
    if _decode_text(body, is_truncated=not is_whole) is None:
        return BodyView(None, b64encode(body[:max_bytes]).decode(), size, is_text=False, is_truncated=is_truncated)
    text = _decode_text(body[:max_bytes], is_truncated=is_truncated)
    return BodyView(text, None, size, is_text=True, is_truncated=is_truncated)


def message_row(topic: str, message: StoredMessage) -> MessageRow:
    """Return a message as a list shows it; ``topic`` is the name that the browser used for it."""
    message, is_whole = preview_body(message, _MAX_SHOWN_BYTES)
    body = message.body
    text = _decode_text(body[:_PREVIEW_BYTES], is_truncated=not is_whole or len(body) > _PREVIEW_BYTES)
    preview = body[:_PREVIEW_HEX_BYTES].hex(" ") if text is None else text[:_PREVIEW_LETTERS]
    shown = _PREVIEW_HEX_BYTES if text is None else len(preview.encode())
    return MessageRow(
        topic,
        message.queue.broker,
        message.queue.queue_id,
        message.offset,
        message.stored_ms,
        message.message_id[:_MAX_NAME_LETTERS],
        None if message.tags is None else message.tags[:_MAX_NAME_LETTERS],
        [key[:_MAX_NAME_LETTERS] for key in message.keys[:_MAX_KEYS]],
        preview,
        text is not None,
        len(body),
        not is_whole or len(body) > shown,
    )


def _decode_text(part: bytes, *, is_truncated: bool = False) -> str | None:
    """Decode UTF-8, or return None; a character that was cut in two is left out."""
    try:
        return _decoder().decode(part, not is_truncated)
    except UnicodeDecodeError:
        return None


_MAX_DIGITS = 18


async def message_at(context: DashboardContext, request: ApiRequest, *, opened: bool = False) -> StoredMessage:
    """Return the message at the queue and offset in the path, as it is stored; an error if there is none."""
    queue = Queue(request.path("topic"), request.path("broker"), _path_number(request, "queue"))
    offset = _path_number(request, "offset")
    message = await context.admin.messages.at(queue, offset, opened=opened)
    if message is None:
        raise NoMessage(
            server=queue.broker,
            what=f"{queue} has no message at offset {offset}",
            next_step="it may be older than what is kept, or not be there yet",
        )
    return message


def _path_number(request: ApiRequest, name: str) -> int:
    text = request.path(name)
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        raise ConfigurationError(f"{name} is {text[:40]!r}", next_step="it is a number from 0 on")
    return int(text)
