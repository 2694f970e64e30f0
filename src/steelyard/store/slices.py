"""What a read gives back: the bytes of some messages of one queue, as they lie in the log, and where to go on."""

from msgspec import Struct

__all__ = ["Slice"]


class Slice(Struct, frozen=True, gc=False):
    """Messages of a queue. ``parts`` joined are records back to back; they are views of the log, not copies."""

    parts: list[memoryview]
    count: int
    size: int
    next_offset: int
    """Where to read on: behind the last message that was looked at, taken or not."""
    low: int
    """The first offset that the queue still has."""
    high: int
    """The next offset to be written."""

    def joined(self) -> bytes:
        """Return the records as one text of bytes."""
        return b"".join(self.parts)
