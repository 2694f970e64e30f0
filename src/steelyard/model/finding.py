"""Finding: one thing that a diagnostic rule says about a cluster. One type for members, brokers, doctor and reports."""

from collections.abc import Iterable
from enum import Enum

from msgspec import Struct


class Severity(Enum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    """It works, though perhaps not as intended."""
    ERROR = "error"
    """Messages are lost, late, refused or handled twice, or will be soon."""


class Finding(Struct, frozen=True):
    """One thing that was found.

    >>> print(Finding("idle members", "group billing has 5 members and 4 queues", next_step="add queues"))
    group billing has 5 members and 4 queues; add queues
    """

    kind: str
    """The rule and what it is about: ``stuck: c1``. It stays the same while it lasts, so that it is reported once."""
    message: str
    severity: Severity = Severity.ERROR
    subject: str = ""
    """What it is about, where the message does not name it: ``broker broker-a``."""
    next_step: str = ""
    """What to do about it, where the message does not say so."""
    evidence: tuple[tuple[str, float], ...] = ()
    """The numbers that the rule compared, by name."""

    @property
    def rule(self) -> str:
        """The rule alone, for counting: the kind without what it is about."""
        return self.kind.partition(":")[0]

    def __str__(self) -> str:
        return f"{self.message}; {self.next_step}" if self.next_step else self.message


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings by severity; equally severe ones keep their order.

    >>> [each.kind for each in worst_first([Finding("a", "", Severity.OK), Finding("b", ""), Finding("c", "")])]
    ['b', 'c', 'a']
    """
    order = list(Severity)[::-1]
    return sorted(findings, key=lambda each: order.index(each.severity))
