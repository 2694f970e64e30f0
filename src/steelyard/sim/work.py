"""The user's code in a simulated world: how long a message takes, and whether it fails.

It is a function of the seed, the group and the message alone, not of who handles it or when: a message that is bound to
fail twice fails twice, wherever it comes back.
"""

from collections.abc import Callable
from zlib import crc32

from steelyard.model import StoredMessage
from steelyard.sim.plan import Work

__all__ = ["worker"]


def worker(work: Work, seed: int, group: str) -> Callable[[StoredMessage, int], tuple[int, bool]]:
    """Return what takes a message and how often it was tried here, and says how long it takes and whether it is fine.

    >>> do = worker(Work(failing_percent=100, failures=2), 7, "billing")
    >>> from steelyard.model import Queue
    >>> message = StoredMessage(Queue("t", "b", 0), 0, b"p1-1")
    >>> [do(message, attempt)[1] for attempt in range(3)]
    [False, False, True]
    """
    prefix = f"{seed}/{group}/".encode()

    def do(message: StoredMessage, attempt: int) -> tuple[int, bool]:
        drawn = crc32(prefix + message.body)
        is_failing = drawn % 100 < work.failing_percent
        is_slow = drawn // 100 % 100 < work.slow_percent
        span = work.slow_ms if is_slow else work.most_ms - work.least_ms
        took_ms = work.least_ms + drawn // 10_000 % (span + 1)
        return took_ms, not (is_failing and attempt + message.reconsume_times < work.failures)

    return do
