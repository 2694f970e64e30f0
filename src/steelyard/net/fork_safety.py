"""A forked child gives up its parent's connections.

A child has copies of all sockets. While it keeps them, a server does not notice that the parent died, and a dead member
would keep its queues. Closing them would be wrong, too: an object of the parent that is collected later would close a
descriptor that is another file by then. So each descriptor is redirected to /dev/null and stays in use.
"""

import os
from contextlib import suppress

_filenos: set[int] = set()


def detach_in_child(fileno: int) -> None:
    """Remember the descriptor of a socket that a child must not keep."""
    _filenos.add(fileno)


def forget_socket(fileno: int) -> None:
    """Forget a socket that is closed."""
    _filenos.discard(fileno)


def _detach_sockets() -> None:
    if not _filenos:
        return
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in _filenos:
        with suppress(OSError):
            os.dup2(nothing, number, inheritable=False)
    os.close(nothing)
    _filenos.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_detach_sockets)
