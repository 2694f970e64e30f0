"""Every client belongs to the process that made it.

A fork copies a client without its threads and shares its sockets: two processes would speak on one line. So a client
that finds itself in another process refuses to work there, and cannot be pickled, which is how `spawn` would carry it.
"""

import os

from steelyard.errors import ConfigurationError

__all__ = ["Guard"]


class Guard:
    """Remembers the process it was made in."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    @property
    def is_elsewhere(self) -> bool:
        """Whether this is another process than the one it was made in."""
        return os.getpid() != self._pid

    def check_process(self) -> None:
        """Refuse to work in another process."""
        if self.is_elsewhere:
            raise ConfigurationError(
                f"a {type(self).__name__} was made in process {self._pid} and is used in process {os.getpid()}",
                next_step="make one in each process, after the fork",
            )

    def __reduce__(self) -> str | tuple[object, ...]:
        raise ConfigurationError(
            f"a {type(self).__name__} cannot be sent to another process", next_step="make one in each process"
        )
