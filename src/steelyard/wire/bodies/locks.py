"""Locks on queues, for groups that handle each queue in order."""

from typing import NamedTuple

from msgspec import field

from steelyard.wire.body import Body, always
from steelyard.wire.maps import QueueRef
from steelyard.wire.numbers import Int32, Int64

__all__ = ["Denied", "LockAnswer", "LockAnswerWord", "LockRequest", "LockWord"]


class LockWord(Body, frozen=True, kw_only=True):
    """What our member adds to a lock or an unlock; ``epochs`` goes with the queues, one for one, -1 if not known."""

    epochs: tuple[Int64, ...] | None = None
    renew: bool | None = None
    v: Int32 = always(1)


class LockRequest(Body, frozen=True, kw_only=True):
    """Queues to lock or to unlock (Java: LockBatchRequestBody, UnlockBatchRequestBody)."""

    client_id: str
    group: str = field(name="consumerGroup")
    queues: tuple[QueueRef, ...] = always((), "mqSet")
    only_this_broker: bool | None = None
    steelyard: LockWord | None = None


class Denied(NamedTuple):
    """A queue that was not locked, and who holds it."""

    topic: str
    queue_id: Int32
    holder: str


class LockAnswerWord(Body, frozen=True, kw_only=True):
    """What our broker adds to its answer; ``epochs`` goes with the granted queues, one for one."""

    denied: tuple[Denied, ...] | None = None
    epochs: tuple[Int64, ...] | None = None
    v: Int32 = always(1)


class LockAnswer(Body, frozen=True, kw_only=True):
    """The queues that the member now holds (Java: LockBatchResponseBody)."""

    granted: tuple[QueueRef, ...] = always((), "lockOKMQSet")
    steelyard: LockAnswerWord | None = None
