"""What a broker tells of its disk, of its flushing and of its last start.

Brokers of ours tell all of it in a report. Apache's tell the disk and what is not flushed in words for people ("Total :
252.0 GiB, Free : 1.2 GiB."), which are read as well as they are written; what they do not tell is None, not guessed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from steelyard.client.admin.readings import position, told_bytes
from steelyard.errors import SteelyardError
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.reports import REPORT_NAME, BrokerReport, DamageReport, RecoveryReport

__all__ = ["BrokerDisk", "Flushing", "LostBytes", "Recovery", "Reports", "read_reports"]


@dataclass(frozen=True, slots=True)
class BrokerDisk:
    """The disk of a broker's log, and what the log takes of it."""

    size_bytes: int | None
    """All of the disk; None if it has no end, as in memory."""
    free_bytes: int | None
    log_bytes: int | None = None
    log_files: int | None = None


@dataclass(frozen=True, slots=True)
class Flushing:
    """How a broker makes messages safe from a loss of power."""

    mode: str | None
    """``sync``: before it answers; ``async``: some time later. None if it does not tell; its settings do."""
    interval_ms: int | None
    unflushed_bytes: int | None
    """What a loss of power would cost right now."""
    last_ms: float | None = None
    """How long the last flush took."""


@dataclass(frozen=True, slots=True)
class LostBytes:
    """A place of the log that is no message any more.

    >>> str(LostBytes("commitlog/00000000000000000000", 4_096, 120, 1, "damaged"))
    'commitlog/00000000000000000000, position 4096: 120 bytes are damaged, 1 messages lost'
    """

    path: str
    position: int
    size_bytes: int
    messages: int | None
    """How many messages it cost, as far as anything can tell."""
    what: str

    def __str__(self) -> str:
        lost = "" if self.messages is None else f", {self.messages} messages lost"
        return f"{self.path}, position {self.position}: {self.size_bytes} bytes are {self.what}{lost}"


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a broker found when it was started, and what it had to do."""

    found: str
    """``nothing``: an empty directory; ``closed``: all in order; ``unclosed``: the log had to be read again."""
    records: int
    """Whole messages that were read."""
    read_bytes: int
    cut_bytes: int
    """What was behind the last whole message, and was cut off."""
    damages: int
    """Damaged places before that."""
    took: timedelta | None

    def __str__(self) -> str:
        return f"{_FOUND.get(self.found, self.found)}{self._cost()}"

    def _cost(self) -> str:
        if self.found != "unclosed":
            return ""
        took = "" if self.took is None else f" in {self.took.total_seconds():.1f} s"
        cut = f", {self.cut_bytes} bytes cut off" if self.cut_bytes else ""
        damaged = f", {self.damages} damaged place{'s' * (self.damages != 1)}" if self.damages else ""
        return f"; {self.records} messages read again{took}{cut}{damaged}"


_CUT_OFF = "cut off"
"""What a broker calls the bytes behind the last whole message."""

_FOUND = {
    "nothing": "the directory was empty",
    "closed": "the last process closed it in order",
    "unclosed": "the last process did not close it",
}


@dataclass(frozen=True, slots=True)
class Reports:
    """All of it. What a broker does not tell is None."""

    disk: BrokerDisk | None = None
    flushing: Flushing | None = None
    recovery: Recovery | None = None
    damages: int | None = None
    """Damaged places that were found since the start, those of the start too."""
    lost: tuple[LostBytes, ...] = ()
    """The first of them."""
    refusal: str | None = None
    """Why it takes no messages; None if it takes them, or does not tell."""

    @property
    def loss(self) -> str | None:
        """What is lost, in words; None if nothing is, or it does not tell. A tail that nobody knew of is no loss."""
        lost = [each for each in self.lost if each.what != _CUT_OFF or each.messages]
        if not lost:
            return None
        messages = sum(each.messages or 0 for each in lost)
        is_all = self.damages == len(self.lost) and all(each.messages is not None for each in lost)
        count = f"{'' if is_all else 'at least '}{messages} message{'s are' if messages != 1 else ' is'} lost"
        where = f"in {len(lost)} places, the first at" if len(lost) > 1 else "at"
        return f"its log is damaged, and {count}: {where} {lost[0]}"


def read_reports(told: Mapping[str, str]) -> Reports:
    """Read what a broker tells of itself in its runtime table.

    >>> read_reports({"commitLogDirCapacity": "Total : 252.0 GiB, Free : 1.0 KiB."}).disk
    BrokerDisk(size_bytes=270582939648, free_bytes=1024, log_bytes=None, log_files=None)
    >>> read_reports({})
    Reports(disk=None, flushing=None, recovery=None, damages=None, lost=(), refusal=None)
    """
    try:
        report = decode_body(BrokerReport, told[REPORT_NAME].encode()) if REPORT_NAME in told else None
    except SteelyardError:
        report = None
    return _of_apache(told) if report is None else _of_ours(report)


def _of_apache(told: Mapping[str, str]) -> Reports:
    total, _, free = told.get("commitLogDirCapacity", "").partition(",")
    size_bytes, free_bytes = (told_bytes(text.partition(":")[2].strip(" .")) for text in (total, free))
    waiting = told_bytes(told.get("remainHowManyDataToFlush", ""))
    start, end = (position(told.get(f"commitLog{which}Offset")) for which in ("Min", "Max"))
    log_bytes = None if start is None or end is None else max(0, end - start)
    return Reports(
        None if size_bytes is None and free_bytes is None else BrokerDisk(size_bytes, free_bytes, log_bytes),
        None if waiting is None else Flushing(None, None, waiting),
    )


def _of_ours(report: BrokerReport) -> Reports:
    last_us = report.flush_last_us
    return Reports(
        BrokerDisk(report.disk_bytes, report.disk_free_bytes, report.log_bytes, report.log_files),
        Flushing(
            report.flush,
            report.flush_interval_ms,
            report.unflushed_bytes,
            None if last_us is None else last_us / 1_000,
        ),
        None if report.recovery is None else _recovery(report.recovery),
        report.damages,
        tuple(map(_lost, report.damage or ())),
        report.refusal,
    )


def _recovery(told: RecoveryReport) -> Recovery:
    took = None if told.took_ms is None else timedelta(milliseconds=min(max(0, told.took_ms), _LONGEST_START_MS))
    return Recovery(told.found, told.records, told.read_bytes, told.cut_bytes, told.damages, took)


_LONGEST_START_MS = 366 * 24 * 3_600_000
"""A broker that says more is mistaken, and no span may come of it that cannot be."""


def _lost(told: DamageReport) -> LostBytes:
    return LostBytes(told.path, told.position, told.size, told.records, told.what)
