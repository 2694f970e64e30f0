"""How many rows the answer to one question may have.

Topics have as many queues as anybody wants, and some questions are about all queues of all topics. An answer that does
not fit into a frame reaches nobody, and everybody waits while it is made: so it is refused before it is begun.
"""

from steelyard.broker.refusals import refusal
from steelyard.wire.codes import ResponseCode

__all__ = ["check_rows"]

MOST_ROWS = 32_768
"""Rows of a few hundred bytes each; more would not fit into a frame."""


def check_rows(count: int, next_step: str, most: int = MOST_ROWS) -> None:
    """Refuse to answer with so many rows.

    >>> check_rows(100_000, "ask for one group")
    Traceback (most recent call last):
    steelyard.errors.ServerFailed: ...
    """
    if count > most:
        raise refusal(
            ResponseCode.SYSTEM_ERROR, f"the answer would tell of {count} queues, at most {most} fit: {next_step}"
        )
