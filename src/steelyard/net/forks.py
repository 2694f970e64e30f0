"""What a forked child does with its parent's lines: it lets go of them.

A child has copies of all sockets. While it keeps them, a server does not see that its parent died, and a dead member
would keep its queues. Closing them would be wrong too: an object of the parent's that is thrown away later would close
a number that is somebody else's file by then. So each number is made to mean nothing, and stays taken.
"""

import os
from contextlib import suppress

__all__ = ["keep", "let_go"]

_kept: set[int] = set()


def keep(number: int) -> None:
    """Remember the number of a socket that a child must not keep."""
    _kept.add(number)


def let_go(number: int) -> None:
    """Forget a socket that is closed."""
    _kept.discard(number)


def _in_child() -> None:
    if not _kept:
        return
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in _kept:
        with suppress(OSError):
            os.dup2(nothing, number, inheritable=False)
    os.close(nothing)
    _kept.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
