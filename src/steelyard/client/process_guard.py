"""Process guard: a client belongs to the process that made it. And the base of asyncio clients, which all have one.

A fork copies a client without its threads and shares its sockets: two processes would write to one connection. So a
client refuses to work in another process, and cannot be pickled, which is how `spawn` would carry it.
"""

import os
from abc import ABC, abstractmethod
from typing import Self

from steelyard.errors import ConfigurationError

_current_pid = os.getpid()


def _update_pid() -> None:
    global _current_pid
    _current_pid = os.getpid()


if hasattr(os, "register_at_fork"):
    # A system call at every use would cost more than all the rest of the check.
    os.register_at_fork(after_in_child=_update_pid)


def closed_error(client: str) -> ConfigurationError:
    """Return the error for a client that is used after it was closed.

    >>> print(closed_error("Producer"))
    the Producer is closed; make another one
    """
    return ConfigurationError(f"the {client} is closed", next_step="make another one")


class ProcessGuard:
    """Remembers the process it was made in."""

    def __init__(self) -> None:
        self._pid = _current_pid

    @property
    def is_forked(self) -> bool:
        """Whether this is another process than the one it was made in."""
        return self._pid != _current_pid

    def check_process(self) -> None:
        """Raise ConfigurationError in another process."""
        if self.is_forked:
            raise ConfigurationError(
                f"a {type(self).__name__} was made in process {self._pid} and is used in process {_current_pid}",
                next_step="make one in each process, after the fork",
            )

    def __reduce__(self) -> str | tuple[object, ...]:
        raise ConfigurationError(
            f"a {type(self).__name__} cannot be sent to another process", next_step="make one in each process"
        )


class AsyncClient(ProcessGuard, ABC):
    """A client that is open within ``async with``."""

    @abstractmethod
    async def open(self) -> Self:
        """Connect unless connected."""

    @abstractmethod
    async def close(self) -> None:
        """Finish and disconnect; calling it again does nothing."""

    async def __aenter__(self) -> Self:
        """Open it."""
        return await self.open()

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        """Close it."""
        await self.close()
