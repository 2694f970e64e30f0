"""Where to move a group, as people write it: an end, an offset, so many on or back, or a time."""

from datetime import datetime

from steelyard.client.admin.resets import Shift, Target
from steelyard.errors import ConfigurationError
from steelyard.model.times_in_words import moment

__all__ = ["target_of"]


def target_of(text: str, now: datetime) -> Target:
    """Read where to go.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 11, 1, 12, tzinfo=UTC)
    >>> target_of("first", noon), target_of("42", noon), target_of("-10", noon)
    ('first', 42, Shift(by=-10))
    """
    words = text.strip()
    if words == "first":
        return "first"
    if words == "last":
        return "last"
    digits = words.lstrip("+-")
    if digits.isascii() and digits.isdigit() and len(words) - len(digits) <= 1 and len(digits) < 19:
        return int(words) if digits == words else Shift(int(words))
    try:
        return moment(words, now)
    except ConfigurationError:
        raise ConfigurationError(
            f"{text!r} is no place to move to",
            next_step="give first, last, 2026-11-01T08:00:00Z or '2 hours ago', an offset, or +10 or -10",
        ) from None
