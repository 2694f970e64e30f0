"""Pulls that a broker answers with no: which of these answers will stay, as far as one can know.

A queue is at one broker, so there is nobody else to ask, whatever an error says of other brokers. What is the caller's
fault, and what never helps to repeat, stays. What is the broker's fault may pass, and is taken for lasting only once it
was the answer many times in a row. What a heartbeat or a moment mends is no reason to give up.
"""

from steelyard.errors import Fault, MalformedRecord, Retry, ServerError, SteelyardError, error_for
from steelyard.model import Queue
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command

__all__ = ["Refusals", "refusal_of"]

_IN_A_ROW = 10


def refusal_of(queue: Queue, answer: Command, server: str, why: str = "") -> SteelyardError:
    """Return what an answer to a pull says that brought nothing to go on with; ``why`` it cannot be read."""
    if answer.code == ResponseCode.SUCCESS:
        what = f"the next message of {queue} is damaged{f': {why}' if why else ''}"
        return MalformedRecord(what, where="record", next_step="seek behind it, or reset the group's offset, to go on")
    return error_for(answer.code, answer.remark or "", server=server)


class Refusals:
    """What was refused of each queue since something of it was answered well.

    >>> from steelyard.errors import error_for
    >>> refusals, queue = Refusals(), Queue("orders", "broker-a", 0)
    >>> refusals.note(queue, error_for(16)), refusals.note(queue, error_for(25)), refusals.note(queue, error_for(1))
    (True, False, False)
    >>> [refusals.note(queue, error_for(1)) for _ in range(10)][-2:]
    [True, True]
    """

    def __init__(self) -> None:
        self._found: dict[Queue, tuple[SteelyardError, int]] = {}

    def note(self, queue: Queue, error: SteelyardError) -> bool:
        """Take note of a refusal, and say whether it will last."""
        last, before = self._found.get(queue, (error, 0))
        count = before + 1 if type(last) is type(error) else 1
        self._found[queue] = error, count
        return _lasts(error, count)

    def clear(self, queue: Queue) -> SteelyardError | None:
        """Take note that a queue was answered well, and return its last refusal."""
        return self._found.pop(queue, (None, 0))[0] if self._found else None

    def lasting(self) -> dict[Queue, SteelyardError]:
        """Return the queues whose refusals will last."""
        return {queue: error for queue, (error, count) in self._found.items() if _lasts(error, count)}


def _lasts(error: SteelyardError, count: int) -> bool:
    if not isinstance(error, ServerError) or error.fault is Fault.CALLER or error.retry is Retry.NEVER:
        return True
    return error.retry is Retry.ELSEWHERE and count >= _IN_A_ROW
