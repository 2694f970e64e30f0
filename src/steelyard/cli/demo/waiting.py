"""Waiting in the demo: for what a scene shows, for people to look, and for nobody who wants it to end.

Ctrl-C, SIGTERM and a terminal that is closed are heard wherever the demo is, and it ends at the next wait: nothing is
cut off while it is being started, or while it is being tidied up, so nothing can be left behind. Telling it twice
makes it no faster. Whoever looks on is told every few seconds what is being waited for.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from steelyard.cli.frame.ending import Ending
from steelyard.errors import TimedOut

__all__ = ["Patience", "told_to_end"]

_LOOK_S = 0.01
_TELL_S = 5.0


@contextmanager
def told_to_end() -> Iterator[Ending]:
    """Take every wish to end, and keep it; one that whoever started the demo ignores (nohup) stays ignored."""
    ending = Ending()
    wishes = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in wishes}
    heard = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, lambda *_: ending.now())
    try:
        yield ending
    finally:
        for number in heard:
            signal.signal(number, before[number])


class Patience:
    """Waits, and raises KeyboardInterrupt when it is told to end.

    ``complaint`` says what may be the matter, and ``tell`` shows people every few seconds what is waited for; ``doing``
    may say it better.
    """

    def __init__(
        self,
        ending: Ending,
        seconds: float,
        complaint: Callable[[], str],
        tell: Callable[[str], None],
        doing: Callable[[], str] = str,
    ) -> None:
        self._ending, self._seconds, self._complaint, self._tell, self._doing = ending, seconds, complaint, tell, doing

    def pause(self, seconds: float) -> None:
        """Wait a while."""
        if self._ending.wait(seconds):
            signal.default_int_handler(signal.SIGINT, None)

    def comes_true(self, what: str, is_so: Callable[[], bool]) -> bool:
        """Wait until something is so; False if it takes longer than anybody waits."""
        begin = time.monotonic()
        told_s = _TELL_S
        while not is_so():
            waited_s = time.monotonic() - begin
            if waited_s >= self._seconds:
                return False
            if waited_s >= told_s:
                self._tell(f"{told_s:.0f} s: {self._doing() or f'still waiting until {what}'}")
                told_s += _TELL_S
            self.pause(_LOOK_S)
        return True

    def until(self, what: str, is_so: Callable[[], bool]) -> None:
        """Wait until something is so; the story ends with a sentence if it never is."""
        if not self.comes_true(what, is_so):
            said = self._complaint()
            raise TimedOut(f"the demo ends here: that {what} did not come true{f' ({said})' if said else ''}")
