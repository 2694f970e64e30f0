"""The memory that work needs at its peak, for readers of foreign bytes."""

import gc
import tracemalloc
from collections.abc import Callable

_TRIES = 3


def assert_peak_below(limit: int, work: Callable[[], object]) -> None:
    """Assert that work never needs so many bytes at once.

    Python counts the memory of all threads, and those of servers that other tests share allocate meanwhile. The same
    work needs the same memory each time, so the smallest of a few peaks is at most a little above its own.
    """
    peaks: list[int] = []
    while len(peaks) < _TRIES and not any(peak < limit for peak in peaks):
        gc.collect()
        tracemalloc.start()
        try:
            work()
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert min(peaks) < limit
