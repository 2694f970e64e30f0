"""Who is at the other end of a line, and what a server wants sent there.

A core never sees a socket. It sees a `Peer`, which is a line and not a program: one that connects again is another
peer. What it wants said leaves as a `Reply`, to the peer that asked or to any other.
"""

from msgspec import Struct

from steelyard.wire.command import Command
from steelyard.wire.hosts import host_bytes

__all__ = ["Hangup", "Peer", "Reply"]


class Peer(Struct, frozen=True, gc=False):
    """One line to this server. ``number`` is never given twice in the life of a process: key tables by it.

    >>> peer = Peer.at("127.0.0.1", 50_123, number=7)
    >>> peer.address, peer.born_host.hex()
    ('127.0.0.1:50123', '7f0000010000c3cb')
    """

    number: int
    host: str
    port: int
    address: str
    """Host and port as Java prints them."""
    born_host: bytes
    """Host and port as a record has them."""

    @classmethod
    def at(cls, host: str, port: int, *, number: int) -> "Peer":
        """Make the peer of a line."""
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return cls(number, host, port, address, host_bytes(address))


class Reply(Struct, frozen=True, gc=False):
    """A command that a server wants sent: the answer to one that came, or a request of its own."""

    peer: Peer
    command: Command


class Hangup(Struct, frozen=True, gc=False):
    """A line that a server wants closed, and why."""

    peer: Peer
    why: str
