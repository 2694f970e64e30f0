"""How many messages a handler is given at once: one while it is slow, more when it takes microseconds.

To hand a message to a thread costs more than a quick handler does, so quick ones get several. Slow ones get one, so
that others can work on the next. The rule is the time that a chunk takes: about a millisecond. The time of a message is
the median of its chunk, since one among them may have waited for the interpreter; it counts at once when it grows, and
half when it falls.
"""

from collections.abc import Sequence

__all__ = ["Chunking"]

_CHUNK_NS = 1_000_000


class Chunking:
    """The size of the next chunk of one handler.

    >>> chunking = Chunking(most=32)
    >>> chunking.size, chunking.note([2_000]), chunking.note([200_000] * 32), chunking.note([30_000_000])
    (1, 32, 5, 1)
    """

    __slots__ = ("_message_ns", "most", "size")

    def __init__(self, most: int = 32) -> None:
        self.most = most
        self.size = 1
        self._message_ns: int | None = None

    def note(self, took_ns: Sequence[int]) -> int:
        """Take note of how long each message of a chunk took, and return the size of the next chunk."""
        if took_ns:
            now_ns = max(1, sorted(took_ns)[len(took_ns) // 2])
            before_ns = self._message_ns
            self._message_ns = now_ns if before_ns is None or now_ns >= before_ns else (before_ns + now_ns) // 2
            self.size = max(1, min(self.most, _CHUNK_NS // self._message_ns))
        return self.size
