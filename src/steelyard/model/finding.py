"""Finding: one thing that a diagnostic rule says about a cluster. One type for members, brokers, doctor and reports."""

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

    >>> Finding("idle members", "group billing has 5 members and 4 queues", Severity.WARNING).message
    'group billing has 5 members and 4 queues'
    """

    kind: str
    """A word for the rule. It stays the same while the same thing lasts, so it can be reported once."""
    message: str
    severity: Severity = Severity.ERROR
    subject: str = ""
    """What it is about, where the message does not name it: ``broker broker-a``."""
    next_step: str = ""
    """What to do about it, where the message does not say so."""

    def __str__(self) -> str:
        return f"{self.message}; {self.next_step}" if self.next_step else self.message
