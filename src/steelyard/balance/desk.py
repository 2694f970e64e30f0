"""What is asked of one broker about locks: what waits to be asked, what is unanswered, and when to try again."""

from dataclasses import dataclass, field
from typing import NamedTuple
from zlib import crc32

from steelyard.balance.actions import Lock, Renew, Unlock
from steelyard.balance.member_options import MemberOptions
from steelyard.balance.record import Manner, Record
from steelyard.model import Queue

__all__ = ["Denial", "Desk", "Grant", "Request", "lock_retry_ms"]


class Grant(NamedTuple):
    """A lock that we have."""

    epoch: int | None
    sent_ms: int
    """When it was asked for."""
    manner: Manner
    is_real: bool = True
    """False where no lock is needed, or none may be had."""


class Denial(NamedTuple):
    """A lock that somebody else has."""

    holder: str | None


@dataclass(slots=True, eq=False)
class Request:
    """What is unanswered at a broker."""

    kind: type[Lock] | type[Renew] | type[Unlock]
    queues: tuple[Queue, ...]
    sent_ms: int
    owner: str | None = None


@dataclass(slots=True, eq=False)
class Desk:
    """What is to be asked of one broker, and what is unanswered there."""

    broker: str
    out: Request | None = None
    to_lock: dict[Queue, None] = field(default_factory=dict)
    to_renew: dict[Queue, None] = field(default_factory=dict)
    to_unlock: dict[Queue, int | None] = field(default_factory=dict)
    to_unlock_for: dict[str, tuple[Queue, ...]] = field(default_factory=dict)
    """In the name of members that died while they took a queue."""
    retries: dict[int, list[Record]] = field(default_factory=dict)
    """Who tries again, by when."""
    is_lockless: bool = False
    """The broker forbids us to lock: the others are asked without."""
    is_trusted: bool = False
    """A heartbeat was answered on this line, and not too long ago."""
    is_watched: bool = False
    renews: bool = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing is unanswered or waiting to be asked."""
        return self.out is None and not (self.to_lock or self.to_renew or self.to_unlock or self.to_unlock_for)


def lock_retry_ms(options: MemberOptions, broker: str, attempts: int, waited_ms: int) -> int:
    """Return how long to wait before the next try; the same for all queues of a broker that failed as often.

    >>> from steelyard.model import Subscription
    >>> options = MemberOptions("g", "m@sy1", {"t": Subscription("t")})
    >>> [lock_retry_ms(options, "b", tries, 0) for tries in (1, 2, 3, 4)]
    [59, 86, 164, 172]
    >>> 320 <= lock_retry_ms(options, "b", 20, 5_000) <= 480
    True
    """
    times = options.times
    if waited_ms >= times.lock_retry_fast_ms:
        usual = times.lock_retry_slow_ms
    else:
        usual = times.lock_retry_ms[min(max(attempts, 1), len(times.lock_retry_ms)) - 1]
    # Up to a fifth more or less, so that those who were denied together do not come back together.
    return usual * (800 + crc32(f"{options.id} {broker} {attempts}".encode()) % 401) // 1000
