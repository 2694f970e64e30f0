"""Times as people give them and as servers count them."""

from datetime import UTC, datetime, timedelta

from steelyard.client.moments import since_1970_ms
from steelyard.errors import ConfigurationError

__all__ = ["Moment", "epoch_ms", "moment"]

Moment = datetime | timedelta
"""A time, or how long ago it was. A time needs a zone."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(time_ms: int) -> datetime | None:
    """Return a server's milliseconds as a time; None for "never", which servers write as 0 or -1.

    >>> moment(1_000), moment(-1)
    (datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.timezone.utc), None)
    """
    if time_ms <= 0:
        return None
    try:
        return _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return None


def epoch_ms(when: Moment, *, now_ms: int) -> int:
    """Return a time in milliseconds since 1970.

    >>> epoch_ms(timedelta(hours=2), now_ms=7_200_500), epoch_ms(datetime(1970, 1, 1, tzinfo=UTC), now_ms=5)
    (500, 0)
    """
    if isinstance(when, timedelta):
        if when < timedelta(0):
            raise ConfigurationError(f"{when} ago is in the future", next_step="give a time span that is not negative")
        return max(0, now_ms - when // timedelta(milliseconds=1))
    if not isinstance(when, datetime):
        raise ConfigurationError(
            f"a {type(when).__name__} is no time", next_step="give a datetime, or a timedelta for so long ago"
        )
    return since_1970_ms(when)
