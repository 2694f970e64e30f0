"""How a delay is said: by one of the eighteen levels that every broker has, or by a time of one's own.

Spec facts. A level counts from 1, and counts more than any time beside it. Brokers from release 5 on, and ours, have
timers: they take any delay up to a limit of theirs (3 days, and code 13 beyond), with a precision of a second. Brokers
of 4.9 have none, and deliver at once what has only a time: so who sends there rounds up to the next level, and says so.

A delay counts by the broker's clock, from when the message arrives; a moment is a moment by everybody's clock.
"""

from bisect import bisect_left
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from math import ceil, isfinite

from msgspec import Struct

from steelyard.errors import ConfigurationError
from steelyard.wire.codes import Version
from steelyard.wire.property_names import DELAY_LEVEL, TIMER_DELAY_MS, TIMER_DELIVER_MS

__all__ = ["LEVELS_MS", "Delay", "delay_of", "has_timers", "level_for"]

_SECOND_MS, _MINUTE_MS, _HOUR_MS = 1_000, 60_000, 3_600_000

LEVELS_MS = (
    *(seconds * _SECOND_MS for seconds in (1, 5, 10, 30)),
    *(minutes * _MINUTE_MS for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30)),
    *(hours * _HOUR_MS for hours in (1, 2)),
)
"""How long a message of each level waits; level 1 is the first."""

_LEVEL_OF = {delay_ms: level for level, delay_ms in enumerate(LEVELS_MS, 1)}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


class Delay(Struct, frozen=True):
    """What a delay adds to a message."""

    properties: Mapping[str, str]
    note: str = ""
    """Why the message waits longer than it was told to, as a sentence; empty if it does not."""


def delay_of(delay_s: float | None, deliver_at: datetime | None, *, now_ms: int, timers: bool) -> Delay | None:
    """Return what to add to a message so that it is delivered later; None if it is not to wait.

    ``timers`` says whether the broker that it goes to has them: see `has_timers`.

    >>> delay_of(30, None, now_ms=0, timers=False).properties, delay_of(45, None, now_ms=0, timers=True).properties
    ({'DELAY': '4'}, {'TIMER_DELAY_MS': '45000'})
    >>> delay_of(45, None, now_ms=0, timers=False)
    Delay(properties={'DELAY': '5'}, note='a delay of 45 s becomes 60 s, the next level of a broker without timers')
    """
    if deliver_at is not None:
        if delay_s is not None:
            raise ConfigurationError("a delay and a moment are given for one message", next_step="leave one out")
        return _until(_checked_moment(deliver_at), now_ms, timers)
    if delay_s is None:
        return None
    delay_ms = _checked_delay(delay_s)
    if delay_ms == 0:
        return None
    if delay_ms in _LEVEL_OF:
        return Delay({DELAY_LEVEL: str(_LEVEL_OF[delay_ms])})
    return Delay({TIMER_DELAY_MS: str(delay_ms)}) if timers else _rounded_up(delay_ms)


def has_timers(version: int) -> bool:
    """Say whether a broker has timers, by the release that any of its answers names.

    >>> has_timers(Version.V4_9_7), has_timers(Version.V5_5_0)
    (False, True)
    """
    return version >= Version.V5_0_0


def level_for(delay_ms: int) -> int:
    """Return the first level that waits at least so long.

    >>> level_for(0), level_for(1_000), level_for(1_001), level_for(7_200_000)
    (1, 1, 2, 18)
    """
    if delay_ms > LEVELS_MS[-1]:
        raise ConfigurationError(
            f"a delay of {_seconds(delay_ms)} is more than the highest level waits",
            next_step=f"wait at most {_seconds(LEVELS_MS[-1])}, or use brokers with timers: release 5 or ours",
        )
    return bisect_left(LEVELS_MS, delay_ms) + 1


def _until(due_ms: int, now_ms: int, timers: bool) -> Delay | None:
    if due_ms <= now_ms:
        return None
    return Delay({TIMER_DELIVER_MS: str(due_ms)}) if timers else _rounded_up(due_ms - now_ms)


def _rounded_up(delay_ms: int) -> Delay:
    level = level_for(delay_ms)
    waits_ms = LEVELS_MS[level - 1]
    note = ""
    if waits_ms > delay_ms:
        note = (
            f"a delay of {_seconds(delay_ms)} becomes {_seconds(waits_ms)}, the next level of a broker without timers"
        )
    return Delay({DELAY_LEVEL: str(level)}, note)


def _checked_delay(delay_s: float) -> int:
    if not isinstance(delay_s, int | float) or not isfinite(delay_s) or delay_s < 0:
        raise ConfigurationError(f"the delay of a message is {delay_s!r}", next_step="give seconds, 0 or more")
    # Never early, but 0.1 + 0.2 is 300 ms.
    return ceil(round(delay_s * 1_000, 3))


def _checked_moment(moment: datetime) -> int:
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise ConfigurationError(
            f"the moment to deliver a message at is {moment!r}",
            next_step="give a datetime with a time zone, such as datetime.now(UTC) + timedelta(hours=1)",
        )
    return -((_EPOCH - moment) // _MS)


def _seconds(time_ms: int) -> str:
    return f"{time_ms / 1_000:.12g} s"
