"""Start positions and times: as users write them, and as members and servers count them."""

from datetime import UTC, datetime, timedelta

from steelyard.balance.group.actions import StartAt, StartPosition
from steelyard.errors import ConfigurationError

StartFrom = str | datetime
"""``"first"``, ``"last"``, or a time, which needs a zone."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_epoch_ms(time: datetime) -> int:
    """Return a time in epoch milliseconds; one without a zone is ambiguous, so it is refused.

    >>> to_epoch_ms(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    1000
    """
    if time.utcoffset() is None:
        raise ConfigurationError(
            f"the time {time} has no zone",
            next_step="say which: datetime(…, tzinfo=UTC), or .astimezone() for this machine's",
        )
    return max(0, (time - _EPOCH) // timedelta(milliseconds=1))


def parse_start(start_from: StartFrom) -> StartPosition:
    """Return a start position as the member state machine takes it.

    >>> parse_start("first").at.value, parse_start(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)).time_ms
    ('first', 1000)
    """
    if isinstance(start_from, datetime):
        return StartPosition(StartAt.TIME, to_epoch_ms(start_from))
    if start_from in ("first", "last"):
        return StartPosition(StartAt(start_from))
    raise ConfigurationError(f"{start_from!r} is no start position", next_step='give "first", "last" or a datetime')


TimeOrAge = datetime | timedelta
"""A time, or how long ago it was. A time needs a zone."""


def from_epoch_ms(time_ms: int) -> datetime | None:
    """Return epoch milliseconds as a time; None for "never", which servers write as 0 or -1.

    >>> from_epoch_ms(1_000), from_epoch_ms(-1)
    (datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.timezone.utc), None)
    """
    if time_ms <= 0:
        return None
    try:
        return _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return None


def resolve_epoch_ms(when: TimeOrAge, *, now_ms: int) -> int:
    """Return a time, or how long ago it was, in epoch milliseconds.

    >>> resolve_epoch_ms(timedelta(hours=2), now_ms=7_200_500)
    500
    """
    if isinstance(when, timedelta):
        if when < timedelta(0):
            raise ConfigurationError(f"{when} ago is in the future", next_step="give a time span that is not negative")
        return max(0, now_ms - when // timedelta(milliseconds=1))
    if not isinstance(when, datetime):
        raise ConfigurationError(
            f"a {type(when).__name__} is no time", next_step="give a datetime, or a timedelta (relative to now)"
        )
    return to_epoch_ms(when)
