"""One send: attempt after attempt until a message is stored, a limit is reached, or it is the caller's fault.

The rules: up to 1 + 2 attempts under one deadline; each attempt gets what is left, but while another broker is untried
it leaves a third for it; none is begun without time. An error says by itself whether another broker may help
(`SteelyardError.retry`) and whether it counts against the broker (`fault`). Stored but late is a result. Whatever ends
a send, all attempts are listed.

Asynchronous sends use the same machine and so retry as synchronous ones do. A one-way send is tried once. A send to a
queue that the caller chose goes nowhere else; by option it is tried there again.

>>> from steelyard.errors import LineClosed
>>> from steelyard.model import PublishList
>>> picker = Picker(PublishList("orders", (Queue("orders", "a", 0), Queue("orders", "b", 0))), start=0)
>>> send = Sending(picker)
>>> send.begin(now_ms=0)
Attempt(queue=Queue(topic='orders', broker='a', queue_id=0), timeout_ms=2000, number=1, pause_ms=0)
>>> send.failed(LineClosed("the line to a was closed"), now_ms=40).queue.broker
'b'
>>> send.succeeded(now_ms=45).queue.broker
'b'
"""

from dataclasses import dataclass
from enum import Enum

from msgspec import Struct

from steelyard.balance.pick import Picker
from steelyard.errors import ConfigurationError, Fault, Retry, SendFailed, SteelyardError
from steelyard.model import Queue

__all__ = [
    "Attempt",
    "GaveUp",
    "Limit",
    "SendOptions",
    "Sending",
    "Step",
    "Stored",
    "Tried",
    "counts_against_broker",
]

_KEPT = 3
"""The part of the time left, one in so many, that an attempt leaves for brokers not tried yet. Half would cut off more
answers that were on their way, and each of those is a message stored twice."""


@dataclass(frozen=True, slots=True)
class SendOptions:
    """How a message is sent; its time is for all attempts together."""

    timeout_ms: int = 3_000
    retries: int = 2
    """How many attempts there may be after the first."""
    another_when_late: bool = False
    """Whether to try another broker where a message is stored, but its flush or its replica was late."""
    again_on_the_same: bool = False
    """Whether to try again where the caller chose the queue, as long as that cannot change the order of two sends."""
    is_oneway: bool = False
    pause_ms: int = 100
    """Before a broker is tried again that failed in this send: a line that was just refused is refused again."""

    spent_ms: int = 0
    """What is gone of the time before the first attempt, since the topic had to be looked up."""

    @property
    def left_ms(self) -> int:
        """The time for all attempts together."""
        return max(1, self.timeout_ms - self.spent_ms)

    def __post_init__(self) -> None:
        if self.timeout_ms < 1 or self.retries < 0 or self.pause_ms < 0:
            raise ConfigurationError(
                f"a send has {self.timeout_ms} ms, {self.retries} retries and pauses of {self.pause_ms} ms",
                next_step="give at least 1 ms, and no negative numbers",
            )


class Attempt(Struct, frozen=True, gc=False):
    """Send to this queue, after a pause, and wait no longer than this for the answer."""

    queue: Queue
    timeout_ms: int
    number: int
    pause_ms: int = 0


class Tried(Struct, frozen=True):
    """An attempt that did not do: where, for how long, and why not."""

    queue: Queue
    took_ms: int
    error: SteelyardError | None
    """None where the message is stored, but late."""

    @property
    def why(self) -> str:
        """The reason, in words."""
        return "stored, but flush or replica late" if self.error is None else self.error.what


class Stored(Struct, frozen=True):
    """The message is stored. ``late``: its flush or its replica was not done in time."""

    queue: Queue
    late: bool = False
    tried: tuple[Tried, ...] = ()


class Limit(Enum):
    """What ended the attempts."""

    ATTEMPTS = "no attempt is left"
    DEADLINE = "the time is over"
    ANSWER = "another attempt would not help"


class GaveUp(Struct, frozen=True):
    """The message is not known to be stored."""

    tried: tuple[Tried, ...]
    limit: Limit
    error: SendFailed


Step = Attempt | Stored | GaveUp
"""What comes next."""


class Sending:
    """One send, from its first attempt to its end."""

    __slots__ = (
        "_began_ms",
        "_chosen",
        "_deadline_ms",
        "_earlier",
        "_failed",
        "_late",
        "_now",
        "_options",
        "_picker",
        "_tried",
    )

    def __init__(self, picker: Picker, options: SendOptions | None = None, *, chosen: Queue | None = None) -> None:
        self._picker = picker
        self._options = options or _USUAL
        self._chosen = chosen
        """The queue that a selector, or the caller, decided for."""
        self._tried: list[Tried] = []
        self._earlier = 0
        """How many attempts were made by a route that is replaced."""
        self._failed: set[str] = set()
        self._late: Queue | None = None
        self._now: Queue | None = None
        self._began_ms = self._deadline_ms = 0

    def begin(self, now_ms: int) -> Attempt:
        """Begin the first attempt."""
        left_ms = self._options.left_ms
        self._deadline_ms = now_ms + left_ms
        return self._attempt(left_ms, now_ms)

    def failed(self, error: SteelyardError, now_ms: int) -> Step:
        """Hear that the attempt failed: an error came, or no answer in time."""
        queue = self._end_attempt(error, now_ms)
        if counts_against_broker(error):
            self._note(queue, failed=True, now_ms=now_ms)
        if self._options.is_oneway or not self._may_help(error):
            return self._end(Limit.ANSWER)
        return self._next(now_ms)

    def succeeded(self, now_ms: int, *, late: bool = False) -> Step:
        """Hear that the message is stored; where it is late, another broker may be tried."""
        queue = self._now or self._nothing_begun()
        if not self._options.is_oneway:  # a one-way message that left says nothing about how fast its broker is
            self._note(queue, failed=False, now_ms=now_ms)
        if not late:
            return Stored(queue, tried=tuple(self._tried))
        self._late = self._late or queue
        self._end_attempt(None, now_ms)
        if self._options.another_when_late and self._chosen is None:
            return self._next(now_ms)
        return self._end(Limit.ANSWER)

    @property
    def is_shut_out(self) -> bool:
        """Whether every broker that may be tried has failed: the route may be an old one."""
        if self._chosen is not None:
            return self._chosen.broker in self._failed
        return self._failed.issuperset(self._picker.brokers)

    def renewed(self, now_ms: int) -> Step:
        """Hear, between two attempts, that the picker has another route: all of its brokers may be tried again."""
        self._failed.clear()
        self._earlier = len(self._tried)
        return self._next(now_ms)

    @property
    def tried(self) -> tuple[Tried, ...]:
        """The attempts that did not do."""
        return tuple(self._tried)

    def _next(self, now_ms: int) -> Step:
        if len(self._tried) - self._earlier > self._options.retries:
            return self._end(Limit.ATTEMPTS)
        left_ms = self._deadline_ms - now_ms
        if left_ms <= 0:
            return self._end(Limit.DEADLINE)
        return self._attempt(left_ms, now_ms)

    def _attempt(self, left_ms: int, now_ms: int) -> Attempt:
        queue = self._chosen or self._picker.pick(now_ms, self._failed)
        # Half of what is left at most: a pause must not be what the rest of the time goes into.
        pause_ms = min(self._options.pause_ms, left_ms // 2) if queue.broker in self._failed else 0
        self._now, self._began_ms = queue, now_ms + pause_ms
        number = len(self._tried) + 1
        return Attempt(queue, self._allowed_ms(queue, left_ms - pause_ms, number), number, pause_ms)

    def _allowed_ms(self, queue: Queue, left_ms: int, number: int) -> int:
        """Return what an attempt may take of the time left."""
        if number - self._earlier > self._options.retries or self._chosen is not None:
            return left_ms
        brokers, failed = self._picker.brokers, self._failed
        # Nearly always it is the first attempt: then nothing is looked through.
        is_last = all(each == queue.broker or each in failed for each in brokers) if failed else len(brokers) == 1
        return left_ms if is_last else left_ms - left_ms // _KEPT

    def _may_help(self, error: SteelyardError) -> bool:
        if self._chosen is None:
            return error.retry is Retry.ELSEWHERE
        return self._options.again_on_the_same and error.retry is not Retry.NEVER and counts_against_broker(error)

    def _end_attempt(self, error: SteelyardError | None, now_ms: int) -> Queue:
        queue = self._now or self._nothing_begun()
        self._now = None
        self._tried.append(Tried(queue, max(0, now_ms - self._began_ms), error))
        self._failed.add(queue.broker)
        return queue

    def _note(self, queue: Queue, *, failed: bool, now_ms: int) -> None:
        if self._picker.ledger is not None:
            self._picker.ledger.note(queue.broker, max(0, now_ms - self._began_ms), failed, now_ms)

    def _end(self, limit: Limit) -> Stored | GaveUp:
        tried = tuple(self._tried)
        if self._late is not None:
            return Stored(self._late, late=True, tried=tried)
        if limit is Limit.ATTEMPTS:
            why = f"{len(tried)} attempts were made"
        elif limit is Limit.DEADLINE:
            why = f"its {self._options.timeout_ms} ms are over"
        else:
            why = "another attempt would not help"
        error = SendFailed(
            f"the message to {self._picker.topic!r} was not stored, and {why}",
            attempts=tuple((each.queue.broker, each.took_ms, each.why) for each in tried),
            limit=limit.value,
            last=tried[-1].error,
        )
        return GaveUp(tried, limit, error)

    def _nothing_begun(self) -> Queue:
        raise ConfigurationError(
            f"a send to {self._picker.topic!r} has no attempt under way",
            next_step="begin it, and end each attempt once",
        )


_USUAL = SendOptions()


def counts_against_broker(error: SteelyardError) -> bool:
    """Say whether an error may be noted in the ledger: a caller's fault may not.

    >>> from steelyard.errors import error_for
    >>> counts_against_broker(error_for(13)), counts_against_broker(error_for(14))
    (False, True)
    """
    return error.fault is not Fault.CALLER
