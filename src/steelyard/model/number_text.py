"""Numbers with their nouns, as sentences have them."""


def pluralize(number: int, noun: str, *, thousands: str = "") -> str:
    """Return a number with its noun; ``thousands`` separates them.

    >>> pluralize(1, "row"), pluralize(2_000, "row"), pluralize(2_000, "message", thousands=",")
    ('1 row', '2000 rows', '2,000 messages')
    """
    return f"{number:{thousands}} {noun}{'' if number == 1 else 's'}"
