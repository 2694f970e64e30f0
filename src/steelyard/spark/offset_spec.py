"""Start and end of a read as options name them: earliest, latest, a group, offsets or timestamps.

A spec does not know which queues there are. Some specs are offsets already, others are resolved by brokers
(cluster_client.py), and a relative time such as -2h becomes a timestamp once, when a query is planned.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from steelyard.client.times import to_epoch_ms
from steelyard.model import Queue
from steelyard.spark.option_table import OptionValues, invalid_option, parse_duration_ms

EARLIEST, LATEST = -2, -1  # in JSON offsets, as with Kafka

_RELATIVE_TIME = re.compile(r"-\s*(\d{1,15}\s*(?:ms|s|m|min|h|d))", re.IGNORECASE)
_DIGITS = re.compile(r"\d{1,18}")
_OFFSETS_SYNTAX = 'write offsets as {"orders": {"broker-a": {"0": 123}}}'


@dataclass(frozen=True, slots=True)
class QueueEdge:
    """The first message of every queue, or the end."""

    is_end: bool


EARLIEST_EDGE, LATEST_EDGE = QueueEdge(is_end=False), QueueEdge(is_end=True)


@dataclass(frozen=True, slots=True)
class CommittedOffsets:
    """The committed offsets of a group."""


@dataclass(frozen=True, slots=True)
class ExplicitOffsets:
    """An offset for each queue, also `EARLIEST` and `LATEST`; topics are without a namespace."""

    offsets: Mapping[Queue, int]


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """The first message stored at a time or later."""

    time_ms: int
    must_exist: bool = False  # whether a queue without such a message is an error; otherwise its end is used


@dataclass(frozen=True, slots=True)
class RelativeTime:
    """As `AtTimestamp`, relative to when the query is planned."""

    before_ms: int
    must_exist: bool = False

    def resolve(self, now_ms: int) -> AtTimestamp:
        """Return the timestamp that it means now."""
        return AtTimestamp(max(0, now_ms - self.before_ms), self.must_exist)


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """A timestamp for each queue."""

    times_ms: Mapping[Queue, int] = field(default_factory=dict)
    must_exist: bool = False


OffsetSpec = QueueEdge | CommittedOffsets | ExplicitOffsets | AtTimestamp | RelativeTime | AtTimestamps


def parse_starting(given: OptionValues, *, streaming: bool) -> OffsetSpec:
    """Parse the start: by default latest for a stream, and earliest for a batch."""
    strategy = given.text("startingOffsetsByTimestampStrategy") or ""
    if strategy not in ("error", "latest"):
        raise invalid_option("startingOffsetsByTimestampStrategy", strategy, "give error or latest")
    name = given.one_of("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
    if name is None:
        return LATEST_EDGE if streaming else EARLIEST_EDGE
    spec = _parse_spec(given, name, must_exist=strategy == "error")
    if not streaming and (spec == LATEST_EDGE or _includes_offset(spec, LATEST)):
        raise invalid_option(
            name, given.text(name) or "", "a batch that starts at the end reads nothing: give earliest, for example"
        )
    return spec


def parse_ending(given: OptionValues) -> OffsetSpec:
    """Parse the end of a batch: by default latest as of planning."""
    name = given.one_of("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
    if name is None:
        return LATEST_EDGE
    spec = _parse_spec(given, name, must_exist=False)
    if spec == EARLIEST_EDGE or _includes_offset(spec, EARLIEST):
        raise invalid_option(
            name, given.text(name) or "", "a batch that ends at the first message reads nothing: give latest"
        )
    return spec


def _includes_offset(spec: OffsetSpec, offset: int) -> bool:
    return isinstance(spec, ExplicitOffsets) and offset in spec.offsets.values()


def _parse_spec(given: OptionValues, name: str, *, must_exist: bool) -> OffsetSpec:
    if name.endswith("ByTimestamp"):
        return AtTimestamps(_parse_per_queue(given, name, minimum=0), must_exist)
    value = given.text(name) or ""
    ago = _RELATIVE_TIME.fullmatch(value)
    if ago is not None:
        return RelativeTime(parse_duration_ms(ago[1]) or 0, must_exist)
    if name.endswith("Timestamp"):
        return AtTimestamp(_time_ms(name, value), must_exist)
    match value.lower():
        case "earliest":
            return EARLIEST_EDGE
        case "latest":
            return LATEST_EDGE
        case "group":
            return CommittedOffsets()
    if not value.startswith("{"):
        raise invalid_option(
            name, value, f"give earliest, latest, group, a relative time such as -2h, or JSON: {_OFFSETS_SYNTAX}"
        )
    return ExplicitOffsets(_parse_per_queue(given, name, minimum=EARLIEST))


def _time_ms(name: str, value: str) -> int:
    if _DIGITS.fullmatch(value):
        return int(value)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        moment = None
    if moment is None or moment.utcoffset() is None:
        raise invalid_option(
            name, value, "give milliseconds since 1970, a time with its zone as in 2026-01-31T08:00Z, or -2h"
        )
    return to_epoch_ms(moment)


def _parse_per_queue(given: OptionValues, name: str, *, minimum: int) -> dict[Queue, int]:
    """Parse a number for each queue: ``{topic: {broker: {queue: number}}}``."""
    return {
        Queue(topic, broker, _parse_number(given, name, key, 0)): _parse_number(given, name, value, minimum)
        for topic, brokers in _object(given, name, given.json(name)).items()
        for broker, queues in _object(given, name, brokers).items()
        for key, value in _object(given, name, queues).items()
    }


def _object(given: OptionValues, name: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise invalid_option(name, given.text(name) or "", _OFFSETS_SYNTAX)
    return value


def _parse_number(given: OptionValues, name: str, value: object, minimum: int) -> int:
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value < 1 << 63:
        raise invalid_option(name, given.text(name) or "", _OFFSETS_SYNTAX)
    return value
