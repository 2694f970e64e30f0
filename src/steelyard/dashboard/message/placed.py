"""The message that an address names by its place: topic, broker, queue and offset."""

from steelyard.client.admin.messages import no_message
from steelyard.dashboard.asking import Ask
from steelyard.dashboard.desk import Desk
from steelyard.errors import ConfigurationError
from steelyard.model import Queue, StoredMessage

__all__ = ["placed", "show_command"]

_MOST_DIGITS = 18


async def placed(desk: Desk, ask: Ask) -> StoredMessage:
    """Return the message at the place in the path; an error if there is none."""
    queue = Queue(ask.path("topic"), ask.path("broker"), _number(ask, "queue"))
    offset = _number(ask, "offset")
    message = await desk.admin.message_at(queue, offset)
    if message is None:
        raise no_message(
            f"{queue} has no message at offset {offset}",
            server=queue.broker,
            next_step="it may be older than what is kept, or not be there yet",
        )
    return message


def show_command(desk: Desk, message: StoredMessage) -> str:
    """Return the command line that shows a message."""
    queue = message.queue
    return desk.command(
        "message", "show", "--topic", queue.topic, "--at", f"{queue.broker}:{queue.queue_id}:{message.offset}"
    )


def _number(ask: Ask, name: str) -> int:
    text = ask.path(name)
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise ConfigurationError(f"{name} is {text[:40]!r}", next_step="it is a number from 0 on")
    return int(text)
