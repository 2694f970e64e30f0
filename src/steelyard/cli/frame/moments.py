"""Times on the command line: read as people write them (model/times_in_words.py), and written for tables."""

from datetime import datetime

from steelyard.model.times_in_words import HOW_TO_WRITE, in_short, moment, seconds

__all__ = ["HOW_TO_WRITE", "in_short", "moment", "on_the_clock", "seconds"]


def on_the_clock(when: datetime) -> str:
    """Write a moment for a table, in this machine's zone; programs get all of it.

    >>> len(on_the_clock(datetime.now()))
    14
    """
    return f"{when.astimezone():%m-%d %H:%M:%S}"
