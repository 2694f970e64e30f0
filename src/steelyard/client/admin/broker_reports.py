"""Broker reports: disk, flushing and last start of a broker, parsed from its runtime table.

Our brokers send a report. Apache's send the disk and the unflushed bytes as text for people ("Total : 252.0 GiB, Free :
1.2 GiB."), which is parsed as far as it goes; what they do not send is None, not guessed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from steelyard.errors import SteelyardError
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.stats import REPORT_NAME, BrokerReport, RecoveryReport

__all__ = [
    "BrokerDisk",
    "BrokerRecovery",
    "BrokerReports",
    "FlushStatus",
    "LogDamage",
    "RateAverages",
    "parse_int",
    "parse_position",
    "parse_rates",
    "parse_ratio",
    "parse_reports",
]

_MAX_START_MS = 366 * 24 * 3_600_000
"""A broker that sends more is mistaken; without a limit the time span could not be represented."""
_UNITS = {"B": 1, **{f"{letter}iB": 1 << 10 * power for power, letter in enumerate("KMGTPE", 1)}}


@dataclass(frozen=True, slots=True)
class RateAverages:
    """A rate a second over the last ten seconds, minute and ten minutes; a young broker does not have all."""

    ten_seconds: float
    minute: float | None = None
    ten_minutes: float | None = None


def parse_rates(text: str | None) -> RateAverages | None:
    """Parse up to three numbers with blanks between them.

    >>> parse_rates("12.5 11.9 10.0"), parse_rates("soon")
    (RateAverages(ten_seconds=12.5, minute=11.9, ten_minutes=10.0), None)
    """
    try:
        numbers = [float(each) for each in (text or "").split()]
    except ValueError:
        return None
    return RateAverages(*numbers[:3]) if numbers else None


def parse_ratio(text: str | None) -> float | None:
    """Parse a share of a disk, from 0 to 1; Apache writes -1 where it is unknown.

    >>> parse_ratio("0.25"), parse_ratio("-1.0"), parse_ratio("")
    (0.25, None, None)
    """
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number <= 1 else None


def parse_position(text: str | None) -> int | None:
    """Parse a position in the log; Apache writes -1 for the beginning of an empty one.

    >>> parse_position("4096"), parse_position("-1"), parse_position(None)
    (4096, 0, None)
    """
    number = parse_int(text)
    return None if number is None else max(0, number)


def parse_int(text: str | None) -> int | None:
    """Parse an integer, if it is one."""
    try:
        return int(text or "")
    except ValueError:
        return None


def _parse_bytes(text: str) -> int | None:
    """Parse a number of bytes as Apache prints it, if it is one.

    >>> _parse_bytes("940 B"), _parse_bytes("1.2 KiB"), _parse_bytes("plenty")
    (940, 1229, None)
    """
    number, _, unit = text.partition(" ")
    try:
        count = float(number) * _UNITS[unit]
    except (KeyError, ValueError):
        return None
    return round(count) if 0 <= count < 1 << 63 else None


@dataclass(frozen=True, slots=True)
class BrokerDisk:
    """The disk of a broker's log, and how much of it the log uses."""

    size_bytes: int | None
    """The size of the disk; None if it has no limit, as in memory."""
    free_bytes: int | None
    log_bytes: int | None = None
    log_files: int | None = None


@dataclass(frozen=True, slots=True)
class FlushStatus:
    """How a broker flushes messages to disk."""

    mode: str | None
    """``sync``: before it answers; ``async``: some time later. None if only its settings say so."""
    interval_ms: int | None
    unflushed_bytes: int | None
    """What a power failure would lose now."""
    last_ms: float | None = None
    """How long the last flush took."""


@dataclass(frozen=True, slots=True)
class LogDamage:
    """A damaged place of the log.

    >>> str(LogDamage("commitlog/00000000000000000000", 4_096, 120, 1, "damaged"))
    'commitlog/00000000000000000000, position 4096: 120 bytes are damaged, 1 messages lost'
    """

    path: str
    position: int
    size_bytes: int
    messages: int | None
    """How many messages were lost, as far as that is known."""
    what: str

    def __str__(self) -> str:
        lost = "" if self.messages is None else f", {self.messages} messages lost"
        return f"{self.path}, position {self.position}: {self.size_bytes} bytes are {self.what}{lost}"


@dataclass(frozen=True, slots=True)
class BrokerRecovery:
    """What a broker found when it was started, and what it had to do."""

    found: str
    """``nothing``: an empty directory; ``closed``: a clean shutdown; ``unclosed``: the log had to be scanned."""
    records: int
    """Complete messages that were read."""
    read_bytes: int
    cut_bytes: int
    """Bytes after the last complete message, which were cut off."""
    damages: int
    """Damaged places before it."""
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
"""What a broker calls the bytes after the last complete message."""

_FOUND = {
    "nothing": "the directory was empty",
    "closed": "the last process closed it in order",
    "unclosed": "the last process did not close it",
}


@dataclass(frozen=True, slots=True)
class BrokerReports:
    """Disk, flushing and last start of a broker. What it does not report is None."""

    disk: BrokerDisk | None = None
    flushing: FlushStatus | None = None
    recovery: BrokerRecovery | None = None
    damages: int | None = None
    """Damaged places that were found since and during its start."""
    lost: tuple[LogDamage, ...] = ()
    """The first of them."""
    refusal: str | None = None
    """Why it rejects messages; None if it accepts them, or does not report it."""

    @property
    def loss(self) -> str | None:
        """What is lost, as text; None if nothing is known to be. A tail without acknowledged messages is no loss."""
        lost = [each for each in self.lost if each.what != _CUT_OFF or each.messages]
        if not lost:
            return None
        messages = sum(each.messages or 0 for each in lost)
        is_all = self.damages == len(self.lost) and all(each.messages is not None for each in lost)
        count = f"{'' if is_all else 'at least '}{messages} message{'s are' if messages != 1 else ' is'} lost"
        where = f"in {len(lost)} places, the first at" if len(lost) > 1 else "at"
        return f"its log is damaged, and {count}: {where} {lost[0]}"


def parse_reports(table: Mapping[str, str]) -> BrokerReports:
    """Parse the runtime table of a broker.

    >>> parse_reports({"commitLogDirCapacity": "Total : 252.0 GiB, Free : 1.0 KiB."}).disk
    BrokerDisk(size_bytes=270582939648, free_bytes=1024, log_bytes=None, log_files=None)
    >>> parse_reports({})
    BrokerReports(disk=None, flushing=None, recovery=None, damages=None, lost=(), refusal=None)
    """
    try:
        report = decode_body(BrokerReport, table[REPORT_NAME].encode()) if REPORT_NAME in table else None
    except SteelyardError:
        report = None
    return _parse_apache_table(table) if report is None else _from_report(report)


def _parse_apache_table(table: Mapping[str, str]) -> BrokerReports:
    total, _, free = table.get("commitLogDirCapacity", "").partition(",")
    size_bytes, free_bytes = (_parse_bytes(text.partition(":")[2].strip(" .")) for text in (total, free))
    waiting = _parse_bytes(table.get("remainHowManyDataToFlush", ""))
    start, end = (parse_position(table.get(f"commitLog{which}Offset")) for which in ("Min", "Max"))
    log_bytes = None if start is None or end is None else max(0, end - start)
    return BrokerReports(
        None if size_bytes is None and free_bytes is None else BrokerDisk(size_bytes, free_bytes, log_bytes),
        None if waiting is None else FlushStatus(None, None, waiting),
    )


def _from_report(report: BrokerReport) -> BrokerReports:
    last_us = report.flush_last_us
    return BrokerReports(
        BrokerDisk(report.disk_bytes, report.disk_free_bytes, report.log_bytes, report.log_files),
        FlushStatus(
            report.flush,
            report.flush_interval_ms,
            report.unflushed_bytes,
            None if last_us is None else last_us / 1_000,
        ),
        None if report.recovery is None else _broker_recovery(report.recovery),
        report.damages,
        tuple(LogDamage(each.path, each.position, each.size, each.records, each.what) for each in report.damage or ()),
        report.refusal,
    )


def _broker_recovery(report: RecoveryReport) -> BrokerRecovery:
    took = None if report.took_ms is None else timedelta(milliseconds=min(max(0, report.took_ms), _MAX_START_MS))
    return BrokerRecovery(report.found, report.records, report.read_bytes, report.cut_bytes, report.damages, took)
