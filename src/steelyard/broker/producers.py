"""Which producers are there, on which lines: for check-backs of transactions and for replies."""

from steelyard.wire.peers import Peer

__all__ = ["Producers"]


class Producers:
    """The registry of producers."""

    def next_of(self, group: str) -> Peer | None:
        """Return a line of the group, each in its turn, or None."""
        raise NotImplementedError

    def by_id(self, client_id: str) -> Peer | None:
        """Return the line of the client with this id, producer or not, or None."""
        raise NotImplementedError
