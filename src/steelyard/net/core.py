"""What a server's core is to the lines: commands in, replies out, and word of lines that are gone."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from steelyard.wire.command import Command
from steelyard.wire.peers import Hangup, Peer, Reply

__all__ = ["Core", "Replies"]

Replies: TypeAlias = Sequence[Reply | Hangup]
"""What a core wants done, in this order."""


class Core(Protocol):
    """One server's rules. It does not wait, and says no by its answers: whatever it raises is a bug."""

    def handle(self, command: Command, peer: Peer, now_ms: int) -> Replies:
        """Take a command of a line."""

    def flush(self, now_ms: int) -> Replies:
        """Finish what the commands of one read of a socket have in common."""

    def tick(self, now_ms: int) -> Replies:
        """Do what is due."""

    def closed(self, peer: Peer, now_ms: int) -> Replies:
        """Take note that a line is gone."""
