"""What a look at a whole directory found: one line each, and the sum of it.

Two kinds. *Damage* is what is not as it was written: a message is lost or may be, or a file lies about the log. A
*note* is what a crash leaves behind, or another program, and the next start puts right without losing anything.
"""

from msgspec import Struct

__all__ = ["Finding", "Verdict", "counted"]


class Finding(Struct, frozen=True, gc=False):
    """Something that is not as it should be. A position counts as the names of the files do, from the very first byte.

    >>> print(Finding("commitlog/00000000000000000000", 4096, 180, "no message", lost=1))
    commitlog/00000000000000000000, position 4096, 180 bytes: no message, 1 message lost
    """

    path: str
    position: int
    size: int
    what: str
    lost: int | None = None
    """How many messages are lost by it, as far as anything can tell; None where nothing can."""
    is_damage: bool = True

    def __str__(self) -> str:
        lost = "" if self.lost is None else f", {counted(self.lost, 'message')} lost"
        return f"{self.path}, position {self.position}, {counted(self.size, 'byte')}: {self.what}{lost}"


class Verdict(Struct, frozen=True):
    """What is in a directory, and whether it is sound."""

    state: str
    """Whether it was closed, in words."""
    segments: int
    bytes: int
    """How long the log is, from its oldest message to its end."""
    messages: int
    topics: int
    queues: int
    findings: tuple[Finding, ...]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is damaged; notes do not count."""
        return not any(finding.is_damage for finding in self.findings)


def counted(count: int, what: str) -> str:
    """Return a number and a noun.

    >>> counted(1, "queue"), counted(16, "queue")
    ('1 queue', '16 queues')
    """
    return f"{count} {what}{'' if count == 1 else 's'}"
