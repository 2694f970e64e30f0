"""What a server puts up with: each limit has a name, and its reason beside it.

Anybody who reaches the port can open lines, send halves of frames, ask for much and read nothing. None of it may cost
the others more than a little speed.
"""

from dataclasses import dataclass, fields

from steelyard.errors import ConfigurationError

__all__ = ["LineLimits"]

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class LineLimits:
    """The limits of a server's lines.

    >>> LineLimits(idle_ms=0)
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: idle_ms is 0; give a positive number
    """

    lines: int = 16_384
    """Lines in all: a line takes some kilobytes and a file handle, and processes have few of these."""
    lines_of_address: int = 8_192
    """Lines of one host. Many clients may share one, behind a gateway or in a test; one must not take all there are."""

    turn_ms: int = 5
    """What the commands of one read may take before everybody else has a turn: a line that brings a thousand requests
    at once must not cost the others the time of all of them."""

    idle_ms: int = 120_000
    """A line on which nobody said anything for so long is closed, as Apache does on both ends."""
    frame_ms: int = 30_000
    """How long a frame may take from its first byte to its last: 16 MiB in it is a slow line, a byte a second is no
    line at all."""
    stall_ms: int = 30_000
    """How long a peer may take to read what it is owed, in steps of ``step_bytes``."""
    step_bytes: int = 65_536
    """What a peer must read within ``stall_ms``, if it is owed so much: who reads this slowly pins files of the log
    that are long removed."""
    closing_ms: int = 2_000
    """How long a line that is being closed may take to get rid of the last answer."""

    pause_bytes: int = 262_144
    """What may lie ready for a peer before nothing more is read from it: one full pull."""
    backlog_bytes: int = 64 * _MIB
    """What may lie ready for a peer before it is given up: pulls that waited are answered all at once, whether their
    line is paused or not."""
    all_backlogs_bytes: int = 512 * _MIB
    """What may lie ready for all peers together; beyond it, those with most go first."""
    all_halves_bytes: int = 256 * _MIB
    """What half frames of all peers together may have; beyond it, the largest go first. One has at most 16 MiB."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value: int = getattr(self, each.name)
            if value <= 0:
                raise ConfigurationError(f"{each.name} is {value}", next_step="give a positive number")
