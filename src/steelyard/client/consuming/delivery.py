"""What a handler may do with the message it is given, besides reading it: found through the context it runs in.

A message is a plain value, thousands of them a millisecond, and knows nothing of its consumer. What is the same for all
messages of a chunk is one `Delivery`, set once before the first of them is handled; so `message.later()` costs nothing
to those who do not call it.
"""

import asyncio
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any, Protocol

from steelyard.errors import ConfigurationError
from steelyard.model import Queue, StoredMessage

__all__ = ["Delivery", "Replier", "current_delivery", "leave", "set_delivery"]


class Replier(Protocol):
    """Who can answer a message that was sent as a request."""

    def send_reply(self, message: StoredMessage, body: bytes) -> Coroutine[Any, Any, None]:
        """Send the answer; raises what went wrong."""


class Delivery:
    """One chunk of messages of one queue on its way through a handler."""

    __slots__ = ("attempt", "fence", "later", "left", "loop", "queue", "replier")

    def __init__(
        self,
        queue: Queue,
        fence: int | None,
        attempt: int,
        loop: asyncio.AbstractEventLoop,
        replier: Replier | None = None,
    ) -> None:
        self.queue = queue
        self.fence = fence
        """The epoch of the lock that this happens under."""
        self.attempt = attempt
        """How often these messages were tried here before."""
        self.loop = loop
        self.replier = replier
        self.later: dict[int, int] = {}
        """Offsets that are to come again, each with a delay level."""
        self.left: set[int] = set()
        """Offsets that were handed over and left alone."""


_current: ContextVar[Delivery | None] = ContextVar("steelyard_delivery", default=None)


def set_delivery(delivery: Delivery | None) -> None:
    """Say what is being handled from here on."""
    _current.set(delivery)


def current_delivery(message: StoredMessage, what: str) -> Delivery:
    """Return the delivery of a message that is being handled here."""
    delivery = _current.get()
    if delivery is None or delivery.queue != message.queue:
        raise ConfigurationError(
            f"{what} of a message of {message.topic!r} was used outside its handler",
            next_step="use it in the handler that was given the message, before it returns",
        )
    return delivery


def leave(message: StoredMessage) -> None:
    """Leave a message that is being handled as if it had never been begun; it is neither done nor failed.

    What is behind it in its chunk is not begun either, and what was before it is done. As long as the queue is owned it
    comes again at once: this is for who is about to stop.
    """
    current_delivery(message, "leave()").left.add(message.offset)
