"""How many there are, in words: one queue, two queues."""

__all__ = ["counted"]


def counted(number: int, noun: str, *, by_thousands: bool = False) -> str:
    """Say how many of something there are; large numbers are easier to read with their thousands apart.

    >>> counted(1, "row"), counted(2_000, "row"), counted(2_000, "message", by_thousands=True)
    ('1 row', '2000 rows', '2,000 messages')
    """
    return f"{f'{number:,}' if by_thousands else number} {noun}{'' if number == 1 else 's'}"
