"""When a stream runs: once over what is there, or again and again, as people write it."""

import re
from dataclasses import dataclass

from steelyard.errors import ConfigurationError

__all__ = ["Trigger"]

_ONCE = ("once", "available-now", "available_now", "availablenow")
_SPAN = re.compile(r"(\d{1,6})\s*(ms|s|m|h)")
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}


@dataclass(frozen=True, slots=True)
class Trigger:
    """``every_ms`` is None for once: then the stream ends with what was there when it began.

    >>> Trigger.of("once"), Trigger.of("10s")
    (Trigger(every_ms=None), Trigger(every_ms=10000))
    >>> Trigger.of("soon")
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: 'soon' is no trigger; write once, or how often: 10s, 500ms, 5m
    """

    every_ms: int | None = None

    @classmethod
    def of(cls, text: str) -> "Trigger":
        """Read what was written."""
        words = text.strip().lower()
        if words in _ONCE:
            return cls()
        found = _SPAN.fullmatch(words)
        if found is None:
            raise ConfigurationError(f"{text!r} is no trigger", next_step="write once, or how often: 10s, 500ms, 5m")
        return cls(int(found[1]) * _UNITS_MS[found[2]])

    def __str__(self) -> str:
        return (
            "once over what is there"
            if self.every_ms is None
            else f"every {self.every_ms / 1000:g} s, until told to end"
        )
