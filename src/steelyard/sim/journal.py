"""What happened in a world, written down: its facts, a digest of everything, and lines for people if they are wanted.

The digest is taken over the time, the line and the bytes of everything that arrived anywhere, and over every fact. Two
histories with the same digest were the same, so it is what a replay is compared by.
"""

from collections.abc import Callable
from hashlib import blake2b

from msgspec import msgpack

from steelyard.sim.facts import Fact
from steelyard.sim.telling import tell_command, tell_fact
from steelyard.wire.command import Command

__all__ = ["Journal"]

_DIGEST_BYTES = 16


class Journal:
    """The book of one history."""

    def __init__(self, now_ms: Callable[[], int], *, trace: bool = False) -> None:
        self.facts: list[Fact] = []
        self.listeners: list[Callable[[Fact], object]] = []
        """Who hears of each fact when it is told, in this order."""
        self.lines: list[str] | None = [] if trace else None
        """What people read; None if nobody wants to."""
        self.deliveries = 0
        self._now_ms = now_ms
        self._digest = blake2b(digest_size=_DIGEST_BYTES)

    def tell(self, fact: Fact) -> None:
        """Write a fact down and pass it on."""
        self.facts.append(fact)
        self._digest.update(type(fact).__name__.encode() + msgpack.encode(fact))
        if self.lines is not None:
            self.lines.append(f"{self._stamp()} {tell_fact(fact)}")
        for listener in self.listeners:
            listener(fact)

    def delivered(self, now_us: int, line: int, data: bytes) -> None:
        """Take note of bytes that arrived at the end of a line."""
        self.deliveries += 1
        self._digest.update(b"%d:%d:" % (now_us, line) + data)

    def heard(self, source: str, target: str, command: Command) -> None:
        """Write down what one program heard of another, if anybody wants to read it."""
        if self.lines is not None:
            self.lines.append(f"{self._stamp()} {source} → {target} {tell_command(command)}")

    def remark(self, sentence: str) -> None:
        """Write a sentence for people, if anybody wants to read it; it is no fact."""
        if self.lines is not None:
            self.lines.append(f"{self._stamp()} {sentence}")

    def digest(self) -> str:
        """Return the digest of all that happened so far."""
        return self._digest.hexdigest()

    def _stamp(self) -> str:
        now_ms = self._now_ms()
        return f"{now_ms // 1000}.{now_ms % 1000:03}"
