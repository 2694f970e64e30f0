"""Waiting for facts: a test says what is to come true, and goes on as soon as it is."""

import time
from collections.abc import Callable

from steelyard.errors import GroupNotFound

LONGEST_S = 60.0
"""How long anything may take on a busy machine: long enough that it never decides a test that passes."""


def until(
    condition: Callable[[], object],
    what: str = "it comes true",
    seconds: float = LONGEST_S,
    *,
    meanwhile: Callable[[], object] | None = None,
) -> None:
    """Wait until something is so, and fail with what it was if it never is; ``meanwhile`` is done after each look.

    A consumer starts before its first heartbeat makes its group. What is asked of a group that is not there yet is not
    so yet.
    """
    end = time.monotonic() + seconds
    while not _holds(condition):
        assert time.monotonic() < end, f"not in {seconds:g} s: {what}"
        time.sleep(0.005)
        if meanwhile is not None:
            meanwhile()


def _holds(condition: Callable[[], object]) -> bool:
    try:
        return bool(condition())
    except GroupNotFound:
        return False
