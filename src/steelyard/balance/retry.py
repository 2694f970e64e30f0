"""What becomes of a message that could not be handled: it comes again after a while, at last it is a dead letter.

The broker decides, by the same rule as Apache's: a message that comes back for the n-th time waits for delay level
3 + n, and after as many times as the group allows (16) it goes to the group's dead letters. A member says 0 to leave it
at that, a level to choose one, -1 for the dead letters at once. A member of a group that keeps its order does not send
back: it tries again by itself, and gives up after as many tries (-1: never).
"""

from steelyard.errors import ConfigurationError

__all__ = ["BY_ATTEMPTS", "DEAD_LETTER", "HIGHEST_LEVEL", "gives_up", "next_level"]

BY_ATTEMPTS = 0
"""The level that leaves the choice to the broker."""

DEAD_LETTER = -1
"""In place of a level: do not try again."""

HIGHEST_LEVEL = 18

_FIRST_LEVEL = 3


def next_level(tried: int, *, most_tries: int = 16, wanted: int = BY_ATTEMPTS) -> int:
    """Return the delay level after which a message comes again, or `DEAD_LETTER`. ``tried`` is how often it came back.

    >>> [next_level(tried) for tried in (0, 1, 15, 16)]
    [3, 4, 18, -1]
    >>> next_level(2, wanted=1), next_level(2, wanted=DEAD_LETTER)
    (1, -1)
    """
    if tried < 0 or most_tries < -1:
        raise ConfigurationError(
            f"a message was tried {tried} times, of at most {most_tries}", next_step="give 0 or more; -1 for no limit"
        )
    if wanted < 0 or 0 <= most_tries <= tried:
        return DEAD_LETTER
    return min(wanted or _FIRST_LEVEL + tried, HIGHEST_LEVEL)


def gives_up(tried: int, most_tries: int) -> bool:
    """Say whether an orderly member stops trying a message after so many tries; -1 means never.

    >>> gives_up(15, 16), gives_up(16, 16), gives_up(10_000, -1)
    (False, True, False)
    """
    return 0 <= most_tries <= tried
