"""Where to begin in a queue, as people say it: at its first message, behind its last, or at a time."""

from datetime import UTC, datetime, timedelta

from steelyard.balance.actions import Start, StartAt
from steelyard.errors import ConfigurationError

__all__ = ["StartFrom", "since_1970_ms", "start_of"]

StartFrom = str | datetime
"""``"first"``, ``"last"``, or a time, which needs a zone."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def since_1970_ms(moment: datetime) -> int:
    """Return a time in milliseconds; one without a zone is refused, since it means another time on each machine.

    >>> since_1970_ms(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    1000
    """
    if moment.utcoffset() is None:
        raise ConfigurationError(
            f"the time {moment} has no zone",
            next_step="say which: datetime(…, tzinfo=UTC), or .astimezone() for this machine's",
        )
    return max(0, (moment - _EPOCH) // timedelta(milliseconds=1))


def start_of(start_from: StartFrom) -> Start:
    """Return what was said as the machine knows it.

    >>> start_of("first").at.value, start_of(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)).time_ms
    ('first', 1000)
    """
    if isinstance(start_from, datetime):
        return Start(StartAt.TIME, since_1970_ms(start_from))
    if start_from == "first":
        return Start(StartAt.FIRST)
    if start_from == "last":
        return Start(StartAt.LAST)
    raise ConfigurationError(f"{start_from!r} is no place in a queue", next_step='give "first", "last" or a datetime')
