"""What the doctor says: of what, how it is, and what to do about it."""

from dataclasses import dataclass
from enum import Enum

__all__ = ["Finding", "Mark", "look", "ok", "wrong"]


class Mark(Enum):
    """How something is."""

    OK = "ok"
    LOOK = "look"
    """It works, and perhaps not as somebody thinks."""
    WRONG = "wrong"
    """It does not work, or not for long."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    mark: Mark
    about: str
    """Of what: ``name server mq-1:9876``, ``group billing``."""
    what: str
    """How it is, and where that is known why."""
    next_step: str = ""


def ok(about: str, what: str) -> Finding:
    """Say that something is well."""
    return Finding(Mark.OK, about, what)


def look(about: str, what: str, next_step: str = "") -> Finding:
    """Say that somebody should have a look."""
    return Finding(Mark.LOOK, about, what, next_step)


def wrong(about: str, what: str, next_step: str) -> Finding:
    """Say that something is wrong, and what to do."""
    return Finding(Mark.WRONG, about, what, next_step)
