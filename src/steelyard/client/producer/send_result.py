"""SendResult: what a producer returns for a message that is stored."""

from msgspec import Struct

from steelyard.balance.producer.send_attempts import FailedAttempt
from steelyard.model import Queue

FailedAttempts = tuple[tuple[str, int, str], ...]
"""Failed attempts: broker, milliseconds and reason of each, as in `SendFailed.attempts`."""


class SendResult(Struct, frozen=True, gc=False):
    """A broker has stored a message.

    >>> SendResult(Queue("orders", "broker-a", 3), 41, "0A000007109218B4AAC247B760000001").offset
    41
    """

    queue: Queue
    offset: int
    """Its offset in the queue. A delayed or half message has that of an internal queue of the broker."""
    message_id: str
    late: bool = False
    """Whether its flush or replication timed out: it is stored, and a crash now may lose it."""
    attempts: FailedAttempts = ()
    """Failed attempts before it was stored."""
    offset_id: str = ""
    """The id made of its position in the broker's log, which `mqadmin` knows too."""


def failed_attempts(tried: tuple[FailedAttempt, ...]) -> FailedAttempts:
    """Return attempts in the form that users get."""
    return tuple((each.queue.broker, each.took_ms, each.why) for each in tried) if tried else ()
