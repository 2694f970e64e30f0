"""Every client belongs to the process that made it.

A fork copies a client without its threads and shares its sockets: two processes would speak on one line. So a client
that finds itself in another process refuses to work there, and cannot be pickled, which is how `spawn` would carry it.
"""

import os

from steelyard.errors import ConfigurationError

__all__ = ["Guard", "closed"]

_here = os.getpid()


def _look_again() -> None:
    global _here
    _here = os.getpid()


if hasattr(os, "register_at_fork"):
    # Asking the system at every call would cost more than all the rest of the check.
    os.register_at_fork(after_in_child=_look_again)


def closed(client: str) -> ConfigurationError:
    """Make the error for a client that is used after its end.

    >>> print(closed("Producer"))
    the Producer is closed; make another one
    """
    return ConfigurationError(f"the {client} is closed", next_step="make another one")


class Guard:
    """Remembers the process it was made in."""

    def __init__(self) -> None:
        self._pid = _here

    @property
    def is_elsewhere(self) -> bool:
        """Whether this is another process than the one it was made in."""
        return self._pid != _here

    def check_process(self) -> None:
        """Refuse to work in another process."""
        if self.is_elsewhere:
            raise ConfigurationError(
                f"a {type(self).__name__} was made in process {self._pid} and is used in process {_here}",
                next_step="make one in each process, after the fork",
            )

    def __reduce__(self) -> str | tuple[object, ...]:
        raise ConfigurationError(
            f"a {type(self).__name__} cannot be sent to another process", next_step="make one in each process"
        )
