"""Where timers are, written down for the Java broker that may open the directory next (store/timer_files.py).

With each save it hears of the first timer that is open, and at a stop of each one that waits.
"""

from collections.abc import Callable

from steelyard.broker.deliveries import feed_timers
from steelyard.broker.state import State
from steelyard.model.names import TIMER_TOPIC
from steelyard.store.timer_files import WaitingTimer, whole_second, write_all_open, write_waiting

__all__ = ["hand_over", "progress_of"]

_TIMER_KEY = TIMER_TOPIC.encode()


def progress_of(state: State) -> Callable[[], None] | None:
    """Return what writes how far timers are, for a thread to run; None while nothing is known."""
    disk, safe = state.disk, state.timers.safe
    if safe is None:
        return None
    return lambda: write_all_open(disk, whole_second(safe.due_ms), safe.first_open)


def hand_over(state: State, now_ms: int) -> None:
    """Write down which timers wait. All that was delivered is safe on the disk; nothing is delivered afterwards."""
    store, timers = state.store, state.timers
    _, end = store.bounds(_TIMER_KEY, 0)
    if not end or not feed_timers(state):
        return  # not all is known yet, so nothing was delivered either: what the last broker wrote is still true
    waiting = [(due_ms, store.lookup.place(_TIMER_KEY, 0, offset)) for due_ms, offset in timers.waiting()]
    last = store.lookup.place(_TIMER_KEY, 0, end - 1)
    if last is not None:
        write_waiting(
            state.disk,
            (WaitingTimer(due_ms, *place) for due_ms, place in waiting if place is not None),
            WaitingTimer(0, *last),
            now_ms=now_ms,
            first_open=timers.delivered(now_ms).first_open,
            end=end,
        )
