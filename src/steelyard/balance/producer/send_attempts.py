"""Send attempts: one send, attempt after attempt, until the message is stored or a limit is reached.

There are up to 1 + 2 attempts under one deadline. Each may take the time that is left, but leaves a third of it while
another broker is untried. An error says whether another broker may help (`SteelyardError.retry`) and whether it counts
against the broker (`fault`). Stored but late is a result. Every outcome lists all attempts.

Asynchronous sends retry like synchronous ones. A one-way send is tried once. A send to a queue that the caller chose
goes to no other queue; optionally it is tried there again.

>>> from steelyard.errors import ConnectionClosed
>>> from steelyard.model import PublishList
>>> rotation = QueueRotation(PublishList("orders", (Queue("orders", "a", 0), Queue("orders", "b", 0))), start=0)
>>> send = SendAttempts(rotation)
>>> send.begin(now_ms=0)
SendAttempt(queue=Queue(topic='orders', broker='a', queue_id=0), timeout_ms=2000, number=1, pause_ms=0)
>>> send.failed(ConnectionClosed("the connection to a was closed"), now_ms=40).queue.broker
'b'
>>> send.succeeded(now_ms=45).queue.broker
'b'
"""

from dataclasses import dataclass
from enum import Enum

from msgspec import Struct

from steelyard.balance.producer.queue_selection import QueueRotation
from steelyard.errors import ConfigurationError, Fault, Retry, SendFailed, SteelyardError, TransportError
from steelyard.model import Queue

_RESERVED_TIME_DIVISOR = 3
"""An attempt leaves this part of the time for brokers that were not tried yet. Half would cut off more responses that
were on their way, and each of those is a message stored twice."""

_LOOKUP_TIME_DIVISOR = 3
"""A route look-up may take this fraction of the time left: the brokers may come back, too."""


@dataclass(frozen=True, slots=True)
class SendOptions:
    """How a message is sent; its timeout is for all attempts together."""

    timeout_ms: int = 3_000
    retries: int = 2
    """Attempts after the first."""
    retry_other_broker_if_not_stored: bool = False
    """Whether to try another broker if a message is stored, but its flush or its replica was late."""
    retry_same_queue: bool = False
    """Whether to try again if the caller chose the queue, as long as that cannot reorder two sends."""
    is_oneway: bool = False
    retry_pause_ms: int = 100
    """Before a broker is tried again that failed in this send: a refused connection would be refused again."""

    spent_ms: int = 0
    """The part of the timeout that the lookup of the topic took."""

    def __post_init__(self) -> None:
        if self.timeout_ms < 1 or self.retries < 0 or self.retry_pause_ms < 0:
            raise ConfigurationError(
                f"a send has {self.timeout_ms} ms, {self.retries} retries and pauses of {self.retry_pause_ms} ms",
                next_step="give at least 1 ms, and no negative numbers",
            )


class SendAttempt(Struct, frozen=True, gc=False):
    """Send to this queue, after a pause, and wait this long for the response."""

    queue: Queue
    timeout_ms: int
    number: int
    pause_ms: int = 0


class FailedAttempt(Struct, frozen=True):
    """An attempt that failed: where, for how long, and why."""

    queue: Queue
    took_ms: int
    error: SteelyardError | None
    """None if the message is stored, but late."""

    @property
    def why(self) -> str:
        """The reason, in words."""
        return "stored, but flush or replica late" if self.error is None else self.error.what


class SendStored(Struct, frozen=True):
    """The message is stored. ``is_late``: its flush or its replica was not done in time."""

    queue: Queue
    is_late: bool = False
    failed_attempts: tuple[FailedAttempt, ...] = ()


class AttemptLimit(Enum):
    """What ended the attempts."""

    ATTEMPTS = "no attempt is left"
    DEADLINE = "the time is over"
    ANSWER = "another attempt would not help"


class SendGaveUp(Struct, frozen=True):
    """The message is not known to be stored."""

    failed_attempts: tuple[FailedAttempt, ...]
    limit: AttemptLimit
    error: SendFailed


SendStep = SendAttempt | SendStored | SendGaveUp
"""What comes next."""


def first_attempt(
    rotation: QueueRotation, options: SendOptions, chosen: Queue | None, now_ms: int
) -> tuple[Queue, int]:
    """Return queue and timeout of a send's first attempt. Only a send that goes on after it needs `SendAttempts`."""
    left_ms = max(1, options.timeout_ms - options.spent_ms)
    if chosen is not None:
        return chosen, left_ms
    queue = rotation.next_queue(now_ms)
    is_last = not options.retries or rotation.has_one_broker
    return queue, left_ms if is_last else left_ms - left_ms // _RESERVED_TIME_DIVISOR


class SendAttempts:
    """One send, from its first attempt to its end."""

    __slots__ = (
        "_began_ms",
        "_chosen",
        "_current_queue",
        "_deadline_ms",
        "_earlier_attempts",
        "_failed_attempts",
        "_failed_brokers",
        "_options",
        "_rotation",
        "_stored_late",
    )

    def __init__(
        self, rotation: QueueRotation, options: SendOptions | None = None, *, chosen: Queue | None = None
    ) -> None:
        self._rotation = rotation
        self._options = options or _DEFAULT_OPTIONS
        self._chosen = chosen
        """The queue that a selector or the caller chose."""
        self._failed_attempts: list[FailedAttempt] = []
        self._earlier_attempts = 0
        """Attempts that were made with a route that was replaced."""
        self._failed_brokers: set[str] = set()
        self._stored_late: Queue | None = None
        self._current_queue: Queue | None = None
        self._began_ms = self._deadline_ms = 0

    def begin(self, now_ms: int) -> SendAttempt:
        """Start the first attempt."""
        queue, timeout_ms = first_attempt(self._rotation, self._options, self._chosen, now_ms)
        self.begun(queue, now_ms)
        return SendAttempt(queue, timeout_ms, 1)

    def begun(self, queue: Queue, now_ms: int) -> None:
        """Record the first attempt, which `first_attempt` decided at this time."""
        self._current_queue, self._began_ms = queue, now_ms
        self._deadline_ms = now_ms + max(1, self._options.timeout_ms - self._options.spent_ms)

    def failed(self, error: SteelyardError, now_ms: int) -> SendStep:
        """End the attempt with an error or a timeout; return the next step."""
        queue = self._end_attempt(error, now_ms)
        if counts_against_broker(error):
            self._record_latency(queue, failed=True, now_ms=now_ms)
        if self._options.is_oneway or not self._may_retry(error):
            return self._end(AttemptLimit.ANSWER)
        return self._next(now_ms)

    def succeeded(self, now_ms: int, *, is_late: bool = False) -> SendStep:
        """End the attempt with a stored message; if it is late, another broker may be tried."""
        queue = self._current_queue or self._raise_not_begun()
        if not self._options.is_oneway:  # a one-way message has no latency
            self._record_latency(queue, failed=False, now_ms=now_ms)
        if not is_late:
            return SendStored(queue, failed_attempts=tuple(self._failed_attempts))
        self._stored_late = self._stored_late or queue
        self._end_attempt(None, now_ms)
        if self._options.retry_other_broker_if_not_stored and self._chosen is None:
            return self._next(now_ms)
        return self._end(AttemptLimit.ANSWER)

    @property
    def have_all_brokers_failed(self) -> bool:
        """Whether every broker that may be tried has failed: the route may be outdated."""
        if self._chosen is not None:
            return self._chosen.broker in self._failed_brokers
        return self._failed_brokers.issuperset(self._rotation.brokers)

    def route_lookup_ms(self, error: SteelyardError, now_ms: int) -> int:
        """Return how long to look for another route after a failed attempt; 0 if that would not help."""
        if not isinstance(error, TransportError) or not self.have_all_brokers_failed:
            return 0
        return max(0, self._deadline_ms - now_ms) // _LOOKUP_TIME_DIVISOR

    def route_renewed(self, now_ms: int) -> SendStep:
        """Go on after the route was replaced, between two attempts: all of its brokers may be tried."""
        self._failed_brokers.clear()
        self._earlier_attempts = len(self._failed_attempts)
        return self._next(now_ms)

    @property
    def failed_attempts(self) -> tuple[FailedAttempt, ...]:
        """The attempts that failed."""
        return tuple(self._failed_attempts)

    def _next(self, now_ms: int) -> SendStep:
        if len(self._failed_attempts) - self._earlier_attempts > self._options.retries:
            return self._end(AttemptLimit.ATTEMPTS)
        left_ms = self._deadline_ms - now_ms
        if left_ms <= 0:
            return self._end(AttemptLimit.DEADLINE)
        return self._attempt(left_ms, now_ms)

    def _attempt(self, left_ms: int, now_ms: int) -> SendAttempt:
        queue = self._chosen or self._rotation.next_queue(now_ms, self._failed_brokers)
        # At most half of the time left: the pause must not use it up.
        pause_ms = min(self._options.retry_pause_ms, left_ms // 2) if queue.broker in self._failed_brokers else 0
        self._current_queue, self._began_ms = queue, now_ms + pause_ms
        number = len(self._failed_attempts) + 1
        return SendAttempt(queue, self._allowed_ms(queue, left_ms - pause_ms, number), number, pause_ms)

    def _allowed_ms(self, queue: Queue, left_ms: int, number: int) -> int:
        """Return the timeout of an attempt."""
        if number - self._earlier_attempts > self._options.retries or self._chosen is not None:
            return left_ms
        failed = self._failed_brokers
        is_last = all(each == queue.broker or each in failed for each in self._rotation.brokers)
        return left_ms if is_last else left_ms - left_ms // _RESERVED_TIME_DIVISOR

    def _may_retry(self, error: SteelyardError) -> bool:
        if self._chosen is None:
            return error.retry is Retry.ELSEWHERE
        return self._options.retry_same_queue and error.retry is not Retry.NEVER and counts_against_broker(error)

    def _end_attempt(self, error: SteelyardError | None, now_ms: int) -> Queue:
        queue = self._current_queue or self._raise_not_begun()
        self._current_queue = None
        self._failed_attempts.append(FailedAttempt(queue, max(0, now_ms - self._began_ms), error))
        self._failed_brokers.add(queue.broker)
        return queue

    def _record_latency(self, queue: Queue, *, failed: bool, now_ms: int) -> None:
        if self._rotation.latency is not None:
            self._rotation.latency.record_latency(queue.broker, max(0, now_ms - self._began_ms), failed, now_ms)

    def _end(self, limit: AttemptLimit) -> SendStored | SendGaveUp:
        tried = tuple(self._failed_attempts)
        if self._stored_late is not None:
            return SendStored(self._stored_late, is_late=True, failed_attempts=tried)
        if limit is AttemptLimit.ATTEMPTS:
            why = f"{len(tried)} attempts were made"
        elif limit is AttemptLimit.DEADLINE:
            why = f"its {self._options.timeout_ms} ms are over"
        else:
            why = "another attempt would not help"
        error = SendFailed(
            f"the message to {self._rotation.topic!r} was not stored, and {why}",
            attempts=tuple((each.queue.broker, each.took_ms, each.why) for each in tried),
            limit=limit.value,
            last=tried[-1].error,
        )
        return SendGaveUp(tried, limit, error)

    def _raise_not_begun(self) -> Queue:
        raise ConfigurationError(
            f"a send to {self._rotation.topic!r} has no attempt under way",
            next_step="begin it, and end each attempt once",
        )


_DEFAULT_OPTIONS = SendOptions()


def counts_against_broker(error: SteelyardError) -> bool:
    """Say whether an error counts as a failure of the broker: a caller's fault does not.

    >>> from steelyard.errors import error_for
    >>> counts_against_broker(error_for(13)), counts_against_broker(error_for(14))
    (False, True)
    """
    return error.fault is not Fault.CALLER
