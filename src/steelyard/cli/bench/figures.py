"""The figures of a run: counted while it goes on, told now and then on stderr, and in the end as the answer."""

import sys
import time
from typing import TYPE_CHECKING

from steelyard.cli.bench.latencies import Latencies
from steelyard.cli.frame.screen import Progress, note, refuse

if TYPE_CHECKING:
    from steelyard.errors import SteelyardError

__all__ = ["Figures", "Teller"]

_LOG_EVERY_S = 5.0
_MB = 1_000_000
_PERCENTILES = (50, 99)


class Figures:
    """What was done so far, how quickly, and what failed."""

    def __init__(self, verb: str) -> None:
        self.verb = verb
        """What was done with each message: ``sent`` or ``received``."""
        self.messages = self.failed = self.body_bytes = 0
        self.latencies = Latencies()
        self._start_s = self._last_s = time.perf_counter()

    def begin(self) -> None:
        """Count the time from now on."""
        self._start_s = self._last_s = time.perf_counter()

    def add(self, messages: int, body_bytes: int) -> None:
        """Count messages, done now."""
        self.messages += messages
        self.body_bytes += body_bytes
        self._last_s = time.perf_counter()

    def fail(self, messages: int, error: "SteelyardError") -> None:
        """Count messages that failed; the first failure is told."""
        if not self.failed:
            refuse(str(error))
        self.failed += messages

    @property
    def took_s(self) -> float:
        """From the beginning to the last message."""
        return self._last_s - self._start_s

    def line(self) -> str:
        """Say how far it is."""
        p99 = self.latencies.percentile_us(99)
        latency = "" if p99 is None else f", p99 {p99 / 1000:.2f} ms"
        return f"{self.messages} {self.verb}, {self._rate(self.messages):.0f}/s{latency}, {self.failed} failed"

    def values(self) -> dict[str, object]:
        """Return all of them."""
        times = self.latencies
        return {
            self.verb: self.messages,
            "failed": self.failed,
            "bytes": self.body_bytes,
            "seconds": round(self.took_s, 3),
            "per_second": round(self._rate(self.messages), 1),
            "mb_per_second": round(self._rate(self.body_bytes / _MB), 3),
            "min_ms": _ms(times.least_us),
            "avg_ms": _ms(times.average_us),
            **{f"p{percent}_ms": _ms(times.percentile_us(percent)) for percent in _PERCENTILES},
            "max_ms": _ms(times.greatest_us),
        }

    def _rate(self, amount: float) -> float:
        return amount / self.took_s if self.took_s > 0 else 0.0


def _ms(us: float | None) -> float | None:
    return None if us is None else round(us / 1000, 3)


class Teller:
    """Tells how far it is: a line that changes for who sits at a terminal, a line every five seconds in a log."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures
        self._progress = Progress()
        self._next_s = time.monotonic() + _LOG_EVERY_S

    def tell(self) -> None:
        """Tell it, if it is time."""
        if sys.stderr.isatty():
            self._progress.tell(self._figures.line)
        elif time.monotonic() >= self._next_s:
            self._next_s += _LOG_EVERY_S
            note(self._figures.line())

    def clear(self) -> None:
        """Wipe the line that changes."""
        self._progress.clear()
