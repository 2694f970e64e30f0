"""A line to a server that is kept open: when one is gone, another is asked for, soon at first and then less often.

A server may have several addresses, such as those of all name servers: each attempt takes the next one.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from steelyard.sim.process import Process
from steelyard.wire.command import Command

if TYPE_CHECKING:
    from steelyard.sim.line import Line

__all__ = ["Caller"]

_PAUSES_MS = (0, 50, 100, 200, 400, 800, 1_000)
"""Before each attempt since the server was heard last; the last one repeats."""


class Caller:
    """One server, as a process calls it."""

    def __init__(self, process: Process, server: str | None, addresses: Sequence[str]) -> None:
        self.server = server
        """A broker's name, None for the name servers."""
        self.addresses = tuple(addresses)
        self.failures = 0
        """Lines that broke, or never came up, since the server was heard last."""
        self.line: Line | None = None
        """The one that is open or being opened; what comes from another is not heard."""
        self._process = process
        self._turn = 0
        self._was_open = False

    @property
    def is_open(self) -> bool:
        """Whether it can be spoken to."""
        return self.line is not None and self.line.is_open

    def opened(self) -> None:
        """Take note that the line is open."""
        self._was_open = True

    def call(self) -> None:
        """Ask for a line."""
        address = self.addresses[self._turn % len(self.addresses)]
        self._turn += 1
        self.line = self._process.world.network.connect(self._process, address)

    def say(self, command: Command) -> bool:
        """Send a command, if there is a line."""
        if self.line is None or not self.line.is_open:
            return False
        self.line.say(command)
        return True

    def heard(self) -> None:
        """Take note that the server is there."""
        self.failures = 0

    def lost(self) -> bool:
        """Take note that the line is gone, and call again; say whether it was ever open."""
        self.line = None
        was_open, self._was_open = self._was_open, False
        pause_ms = _PAUSES_MS[min(self.failures, len(_PAUSES_MS) - 1)]
        self.failures += 1
        self._process.after(pause_ms, self.call)
        return was_open

    def hang_up(self) -> None:
        """Close the line for good."""
        if self.line is not None:
            self.line.close()
            self.line = None
