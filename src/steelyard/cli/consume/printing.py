"""Where `steelyard consume` prints: whole lines, from any thread, each seen at once; it counts, and knows its end."""

import threading
import time
from typing import IO

from steelyard.cli.frame.ending import Ending
from steelyard.cli.frame.print_message import as_json_line, as_line
from steelyard.cli.frame.screen import screen
from steelyard.model import StoredMessage

__all__ = ["Printer"]


class Printer:
    """Prints messages until there are enough of them, or nobody reads them any more."""

    def __init__(self, ending: Ending, *, as_json: bool, count: int | None, work_ms: int) -> None:
        self._out: IO[str] = screen().file
        self._write = as_json_line if as_json else as_line
        self._ending, self._left, self._work_s = ending, count, work_ms / 1000
        self._lock = threading.Lock()

    @property
    def left(self) -> int | None:
        """How many more are wanted; None for all."""
        return self._left

    @property
    def wants_more(self) -> bool:
        """Whether messages are still printed."""
        return self._left != 0 and self._ending.error is None

    def take(self, message: StoredMessage) -> bool:
        """Print a message, after the time that work on it is to take; False if it is not wanted any more."""
        if self._work_s:
            time.sleep(self._work_s)
        line = self._write(message) + "\n"
        with self._lock:
            if not self.wants_more:
                return False
            try:
                self._out.write(line)
                self._out.flush()
            except OSError as error:
                self._ending.now(error)
                return False
            if self._left is not None:
                self._left -= 1
                if not self._left:
                    self._ending.now()
        return True
