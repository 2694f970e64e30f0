"""What a producer gives back for a message that is stored."""

from msgspec import Struct

from steelyard.balance.attempts import Tried
from steelyard.model import Queue

__all__ = ["Attempts", "Sent", "attempts_of"]

Attempts = tuple[tuple[str, int, str], ...]
"""Attempts that did not do: broker, milliseconds and reason of each, as in `SendFailed.attempts`."""


class Sent(Struct, frozen=True, gc=False):
    """A broker has stored a message.

    >>> Sent(Queue("orders", "broker-a", 3), 41, "0A000007109218B4AAC247B760000001").offset
    41
    """

    queue: Queue
    offset: int
    """Its place in the queue. A delayed message, or half of a transaction, has one of a queue of the broker's own."""
    message_id: str
    late: bool = False
    """Whether its flush or its replica was not done in time: it is stored, and a crash now may lose it."""
    attempts: Attempts = ()
    """What was tried before that and did not do."""
    offset_id: str = ""
    """The id made of its place in the broker's log, by which `mqadmin` finds it too."""


def attempts_of(tried: tuple[Tried, ...]) -> Attempts:
    """Return attempts as people read them."""
    return tuple((each.queue.broker, each.took_ms, each.why) for each in tried) if tried else ()
