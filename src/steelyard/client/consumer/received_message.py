"""ReceivedMessage: a message as a handler gets it, with the topic it was sent to and names without the namespace.

A message is a plain value, thousands of them a millisecond, and has no reference to its consumer. What is the same for
all messages of one handler task is in a `DeliveryContext`, a context variable that is set once before the first of them
is handled: `message.later()` costs nothing if it is not called.
"""

import asyncio
from collections.abc import Coroutine, Generator
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Protocol

from steelyard.client.namespace import ClientNamespace
from steelyard.errors import ConfigurationError
from steelyard.model import Queue, StoredMessage
from steelyard.model.reserved_names import RETRY_PREFIX
from steelyard.protocol.send import delay_level_for
from steelyard.wire.property_names import RETRY_TOPIC


class ReplySender(Protocol):
    """Sends the reply to a message that was sent as a request."""

    def send_reply(self, message: StoredMessage, body: bytes) -> Coroutine[Any, Any, None]:
        """Send the reply; raises if it cannot."""


@dataclass(slots=True, eq=False)
class DeliveryContext:
    """What a handler may do with the messages of one task, besides reading them."""

    queue: Queue
    fence: int | None
    """The epoch of the queue lock."""
    attempt: int
    """How often these messages were handled here before."""
    loop: asyncio.AbstractEventLoop
    reply_sender: ReplySender | None = None
    later: dict[int, int] = field(default_factory=dict)
    """Offsets that are to be redelivered, each with a delay level."""
    left: set[int] = field(default_factory=set)
    """Offsets that the handler left as if not begun."""


_current: ContextVar[DeliveryContext | None] = ContextVar("steelyard_delivery", default=None)


set_delivery = _current.set
"""Sets the delivery of this context."""


def _current_delivery(message: StoredMessage, what: str) -> DeliveryContext:
    """Return the delivery of a message that is being handled here."""
    delivery = _current.get()
    if delivery is None or delivery.queue != message.queue:
        raise ConfigurationError(
            f"{what} of a message of {message.topic!r} was used outside its handler",
            next_step="use it in the handler that was given the message, before it returns",
        )
    return delivery


def leave_unhandled(message: StoredMessage) -> None:
    """Leave a message that is being handled as if it had not been begun: neither done nor failed.

    Messages behind it in its task are not begun, and those before it are done. While the queue is owned it is
    handled again at once, so this is for a consumer that is about to stop.
    """
    _current_delivery(message, "leave()").left.add(message.offset)


def origin_topic(message: StoredMessage) -> str:
    """Return the topic that a message was first sent to, as servers know it."""
    topic = message.queue.topic
    return message.properties.get(RETRY_TOPIC, topic) if topic.startswith(RETRY_PREFIX) else topic


class ReceivedMessage(StoredMessage, frozen=True, gc=False):
    """A stored message as a consumer received it."""

    namespace: ClassVar[ClientNamespace] = ClientNamespace()

    @property
    def topic(self) -> str:
        """The topic it was sent to."""
        return self.namespace.unwrap(origin_topic(self))

    @property
    def attempt(self) -> int:
        """Which attempt at it this is, counted from 1, over all members of the group."""
        return 1 + self.reconsume_times + _current_delivery(self, "the attempt").attempt

    @property
    def fence(self) -> int | None:
        """A number that grows with each owner of the queue, for a sink that rejects late writes of former owners.

        None if the broker has no such numbers.
        """
        return _current_delivery(self, "the fence").fence

    def later(self, delay_s: float = 0) -> None:
        """Have this message redelivered, not sooner than after the delay, without an error.

        Brokers have 18 delay levels from 1 s to 2 h, and the first that is long enough is used; 0 leaves the choice to
        the broker, which waits longer each time. In an orderly queue it is handled again after a second, before
        anything behind it.
        """
        if delay_s < 0:
            raise ConfigurationError(f"the delay is {delay_s} s", next_step="give 0 or more")
        level = delay_level_for(int(delay_s * 1000)) if delay_s else 0
        _current_delivery(self, "later()").later[self.offset] = level

    def reply(self, body: bytes) -> Any:
        """Reply to a message that was sent as a request.

        In a plain handler the reply is sent when this returns, or an error raised; in an ``async def`` one, await it.
        The returned value has no other use.
        """
        delivery = _current_delivery(self, "reply()")
        if delivery.reply_sender is None:
            raise ConfigurationError("a reply is not possible here", next_step="reply in a consumer's handler")
        work = delivery.reply_sender.send_reply(self, body)
        if _is_running(delivery.loop):
            return asyncio.ensure_future(work)
        asyncio.run_coroutine_threadsafe(work, delivery.loop).result()
        return _Done()


class _Done:
    """An awaitable that is done."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


@lru_cache(maxsize=64)
def message_type_for(namespace: ClientNamespace) -> type[ReceivedMessage]:
    """Return the message type of a namespace, which shows names without it."""
    if not namespace.name:
        return ReceivedMessage

    class NamespacedMessage(ReceivedMessage, frozen=True, gc=False):
        pass

    NamespacedMessage.namespace = namespace
    NamespacedMessage.__name__ = NamespacedMessage.__qualname__ = "ReceivedMessage"
    return NamespacedMessage
