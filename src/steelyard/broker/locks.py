"""Who holds which queue for which group: locks of Java's members and leases of ours, each with an epoch."""

from msgspec import Struct

__all__ = ["Lock", "Locks"]


class Lock(Struct, gc=False):
    """A held queue."""

    owner: str
    epoch: int
    proven_ms: int


class Locks:
    """The table of locks."""

    def holder(self, group: str, topic: str, queue_id: int, now_ms: int) -> Lock | None:
        """Return the live lock or lease of a queue, or None."""
        raise NotImplementedError

    def bump(self, group: str, topic: str, queue_id: int) -> None:
        """Give a held queue a new epoch, so that its owner asks again where it is."""
        raise NotImplementedError
