"""How a verb that runs for long is told to end: Ctrl-C, SIGTERM, or by itself."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Ending", "until_told"]


class Ending:
    """Whether it is time to end, and why if something went wrong. Any thread may say so."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.error: BaseException | None = None

    def __bool__(self) -> bool:
        """Say whether it is time."""
        return self._event.is_set()

    def now(self, error: BaseException | None = None) -> None:
        """End it; the first reason counts."""
        if not self._event.is_set():
            self.error = error
            self._event.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is time; False if that takes longer."""
        return self._event.wait(seconds)


@contextmanager
def until_told() -> Iterator[Ending]:
    """Take Ctrl-C and SIGTERM as a wish to end, and give them back afterwards. A second one ends it at once."""
    ending = Ending()

    def told(number: int, frame: FrameType | None) -> None:
        if ending:
            signal.default_int_handler(number, frame)
        ending.now()

    if threading.current_thread() is not threading.main_thread():
        yield ending
        return
    before = {number: signal.signal(number, told) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
