"""What our broker tells our tools of itself, beyond Java: its disk, how it flushes, and what its last start found.

It travels as a text of the runtime table, under the name `REPORT_NAME`. Every field may be absent.
"""

from steelyard.wire.body import Body, always
from steelyard.wire.numbers import Int32, Int64

__all__ = ["REPORT_NAME", "BrokerReport", "DamageReport", "RecoveryReport"]

REPORT_NAME = "steelyard"
"""What the report is called in the table."""


class DamageReport(Body, frozen=True, kw_only=True):
    """Bytes that are no message any more: where, how many, and how many messages as far as known."""

    path: str = always("")
    position: Int64 = always(0)
    records: Int64 | None = None
    size: Int64 = always(0)
    what: str = always("")


class RecoveryReport(Body, frozen=True, kw_only=True):
    """What had to be done when the broker was started."""

    cut_bytes: Int64 = always(0)
    damages: Int64 = always(0)
    """How many places were damaged, apart from the tail that was cut off."""
    found: str = always("")
    """``nothing``, ``closed`` or ``unclosed``."""
    read_bytes: Int64 = always(0)
    records: Int64 = always(0)
    took_ms: Int64 | None = None


class BrokerReport(Body, frozen=True, kw_only=True):
    """A broker of ours, for people to look at."""

    damage: tuple[DamageReport, ...] | None = None
    """The first places that were found damaged since the start, and then."""
    damages: Int64 = always(0)
    """How many there are."""
    disk_bytes: Int64 | None = None
    """How many bytes the disk has at all; absent if it has no end."""
    disk_free_bytes: Int64 | None = None
    flush: str | None = None
    """``sync`` or ``async``."""
    flush_interval_ms: Int64 | None = None
    flush_last_us: Int64 | None = None
    """How long the last sync of the log took, in microseconds."""
    log_bytes: Int64 | None = None
    log_files: Int64 | None = None
    recovery: RecoveryReport | None = None
    refusal: str | None = None
    """Why it takes no messages, if it takes none."""
    unflushed_bytes: Int64 | None = None
    """What a loss of power would cost right now."""
    v: Int32 = always(1)
