"""Limits of a server's connections, each with its reason.

Whoever reaches the port can open connections, send partial frames, request much and read nothing. None of that may cost
other clients more than a little speed.
"""

from dataclasses import dataclass, fields

from steelyard.errors import ConfigurationError

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of a server's connections."""

    connections: int = 16_384
    """Connections in all: each takes some kilobytes and a file descriptor, and processes have few of these."""
    connections_per_host: int = 8_192
    """Connections of one host. Many clients may share it, behind a gateway or in a test; it must not take all."""

    turn_ms: int = 5
    """What the commands of one read may take before other connections get a turn: a thousand requests at once must not
    delay all others by the time that they take."""

    idle_ms: int = 120_000
    """A connection that is idle for so long is closed, as Apache does on both ends."""
    frame_timeout_ms: int = 30_000
    """From the first byte of a frame to its last: enough for 16 MiB over a slow network, and too little for a byte a
    second."""
    stall_timeout_ms: int = 30_000
    """How long a peer may take to read ``min_read_bytes`` of its responses."""
    min_read_bytes: int = 65_536
    """What a peer must read within ``stall_timeout_ms``, if so much waits: a slower one pins log files that are long
    deleted."""
    close_timeout_ms: int = 2_000
    """How long a connection that is being closed may take to send its last response."""

    write_pause_bytes: int = 262_144
    """What may wait for a peer before nothing more is read from it: one full pull."""
    backlog_bytes: int = 64 * _MIB
    """What may wait for a peer before it is aborted: held pulls are answered all at once, whether their connection is
    paused or not."""
    total_backlog_bytes: int = 512 * _MIB
    """What may wait for all peers together; beyond it, those with the most are aborted first."""
    total_partial_frame_bytes: int = 256 * _MIB
    """Partial frames of all peers together; beyond it, the largest are aborted first. One has at most 16 MiB."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value: int = getattr(self, each.name)
            if value <= 0:
                raise ConfigurationError(f"{each.name} is {value}", next_step="give a positive number")
