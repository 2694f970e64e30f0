"""A message as a handler gets it: what the broker stored, and what can be done about it.

A message that failed comes back through a topic of its group's own; here it shows the topic it was sent to. Names are
those the user wrote, without the namespace.
"""

import asyncio
from collections.abc import Generator
from functools import lru_cache
from typing import Any, ClassVar

from steelyard.client.consuming.delivery import current_delivery
from steelyard.client.names import Names
from steelyard.dialect.delays import level_for
from steelyard.errors import ConfigurationError
from steelyard.model import StoredMessage
from steelyard.model.names import RETRY
from steelyard.wire.property_names import RETRY_TOPIC

__all__ = ["Received", "received_in", "sent_to"]


def sent_to(message: StoredMessage) -> str:
    """Return the topic that a message was sent to, as servers call it, however often it came back since."""
    topic = message.queue.topic
    return message.properties.get(RETRY_TOPIC, topic) if topic.startswith(RETRY) else topic


class Received(StoredMessage, frozen=True, gc=False):
    """A stored message in the hands of a consumer."""

    names: ClassVar[Names] = Names()

    @property
    def topic(self) -> str:
        """The topic it was sent to."""
        return self.names.bare(sent_to(self))

    @property
    def attempt(self) -> int:
        """Which attempt at it this is, counted from 1, over all members of the group."""
        return 1 + self.reconsume_times + current_delivery(self, "the attempt").attempt

    @property
    def fence(self) -> int | None:
        """A number that grows with each owner of the queue, for a sink that refuses those that come too late.

        None where the broker gives no such numbers.
        """
        return current_delivery(self, "the fence").fence

    def later(self, delay_s: float = 0) -> None:
        """Ask for this message again, not sooner than in so many seconds, without an error.

        Brokers know eighteen delays from 1 s to 2 h, and the first that is long enough is taken; 0 leaves the choice to
        the broker, which waits longer each time. In an orderly queue it is tried again after a second, before anything
        behind it.
        """
        if delay_s < 0:
            raise ConfigurationError(f"the delay is {delay_s} s", next_step="give 0 or more")
        level = level_for(int(delay_s * 1000)) if delay_s else 0
        current_delivery(self, "later()").later[self.offset] = level

    def reply(self, body: bytes) -> Any:
        """Answer a message that was sent as a request.

        In a plain handler the answer is sent when this returns, or an error raised; in an ``async def`` one, await it.
        What it returns is good for nothing else.
        """
        delivery = current_delivery(self, "reply()")
        if delivery.replier is None:
            raise ConfigurationError("there is nobody to reply here", next_step="reply in a consumer's handler")
        work = delivery.replier.send_reply(self, body)
        if _is_running(delivery.loop):
            return asyncio.ensure_future(work)
        asyncio.run_coroutine_threadsafe(work, delivery.loop).result()
        return _Done()


class _Done:
    """What has happened already: to be awaited or not."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


@lru_cache(maxsize=64)
def received_in(names: Names) -> type[Received]:
    """Return the kind of message that shows the names of a namespace."""
    if not names.namespace:
        return Received

    class ReceivedHere(Received, frozen=True, gc=False):
        pass

    ReceivedHere.names = names
    ReceivedHere.__name__ = ReceivedHere.__qualname__ = "Received"
    return ReceivedHere
