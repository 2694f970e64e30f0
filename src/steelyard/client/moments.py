"""Where to begin in a queue, as people say it: at its first message, behind its last, or at a time."""

from datetime import UTC, datetime, timedelta

from steelyard.balance.actions import Start, StartAt
from steelyard.errors import ConfigurationError

__all__ = ["StartFrom", "start_of"]

StartFrom = str | datetime
"""``"first"``, ``"last"``, or a time; one without a zone is of this machine's zone."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def start_of(start_from: StartFrom) -> Start:
    """Return what was said as the machine knows it.

    >>> start_of("first").at.value, start_of(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)).time_ms
    ('first', 1000)
    """
    if isinstance(start_from, datetime):
        return Start(StartAt.TIME, max(0, (start_from.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)))
    if start_from == "first":
        return Start(StartAt.FIRST)
    if start_from == "last":
        return Start(StartAt.LAST)
    raise ConfigurationError(f"{start_from!r} is no place in a queue", next_step='give "first", "last" or a datetime')
