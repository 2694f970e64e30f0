"""Places in queues as options name them: where a read begins, and where a batch ends.

A place says nothing about which queues there are. Some places are offsets already, others must be asked of brokers
(asking.py) or have the driver's clock in them: a place such as "two hours ago" becomes a time once, when a query is
planned, and stays that time.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from steelyard.client.moments import since_1970_ms
from steelyard.model import Queue
from steelyard.spark.options.values import Given, span_ms, wrong

__all__ = [
    "EARLIEST",
    "FIRST",
    "LAST",
    "LATEST",
    "Ago",
    "AtOffsets",
    "AtTime",
    "AtTimes",
    "Edge",
    "OfGroup",
    "Place",
    "end_of",
    "start_of",
]

EARLIEST, LATEST = -2, -1
"""How offsets in JSON say it, as with Kafka."""

_AGO = re.compile(r"-\s*(\d{1,15}\s*(?:ms|s|m|min|h|d))", re.IGNORECASE)
_DIGITS = re.compile(r"\d{1,18}")
_SHAPE = 'write offsets as {"orders": {"broker-a": {"0": 123}}}'


@dataclass(frozen=True, slots=True)
class Edge:
    """The first message of every queue, or behind the last one."""

    is_end: bool


FIRST, LAST = Edge(is_end=False), Edge(is_end=True)


@dataclass(frozen=True, slots=True)
class OfGroup:
    """How far a group is."""


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for each queue, by topics as users write them; `EARLIEST` and `LATEST` are among them."""

    offsets: Mapping[Queue, int]


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first message stored at a time or later."""

    time_ms: int
    must_be: bool = False
    """Whether a queue without such a message is an error; otherwise its end is meant."""


@dataclass(frozen=True, slots=True)
class Ago:
    """As `AtTime`, so long before the query is planned."""

    span_ms: int
    must_be: bool = False

    def at(self, now_ms: int) -> AtTime:
        """Return the time that it means now."""
        return AtTime(max(0, now_ms - self.span_ms), self.must_be)


@dataclass(frozen=True, slots=True)
class AtTimes:
    """A time for each queue."""

    times_ms: Mapping[Queue, int] = field(default_factory=dict)
    must_be: bool = False


Place = Edge | OfGroup | AtOffsets | AtTime | Ago | AtTimes


def start_of(given: Given, *, streaming: bool) -> Place:
    """Read where to begin: at the end by default for a stream, and at the first message for a batch."""
    strategy = given.text("startingOffsetsByTimestampStrategy") or ""
    if strategy not in ("error", "latest"):
        raise wrong("startingOffsetsByTimestampStrategy", strategy, "give error or latest")
    name = given.one_of("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
    if name is None:
        return LAST if streaming else FIRST
    place = _read(given, name, must_be=strategy == "error")
    if not streaming and (place == LAST or _has(place, LATEST)):
        raise wrong(name, given.text(name) or "", "a batch that begins at the end reads nothing: give earliest or such")
    return place


def end_of(given: Given) -> Place:
    """Read where a batch ends: by default where the queues end when it is planned."""
    name = given.one_of("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
    if name is None:
        return LAST
    place = _read(given, name, must_be=False)
    if place == FIRST or _has(place, EARLIEST):
        raise wrong(name, given.text(name) or "", "a batch that ends at the first message reads nothing: give latest")
    return place


def _has(place: Place, offset: int) -> bool:
    return isinstance(place, AtOffsets) and offset in place.offsets.values()


def _read(given: Given, name: str, *, must_be: bool) -> Place:
    if name.endswith("ByTimestamp"):
        return AtTimes(_by_queue(given, name, least=0), must_be)
    value = given.text(name) or ""
    ago = _AGO.fullmatch(value)
    if ago is not None:
        return Ago(span_ms(ago[1]) or 0, must_be)
    if name.endswith("Timestamp"):
        return AtTime(_time_ms(name, value), must_be)
    match value.lower():
        case "earliest":
            return FIRST
        case "latest":
            return LAST
        case "group":
            return OfGroup()
    if not value.startswith("{"):
        raise wrong(name, value, f"give earliest, latest, group, so long ago such as -2h, or JSON: {_SHAPE}")
    return AtOffsets(_by_queue(given, name, least=EARLIEST))


def _time_ms(name: str, value: str) -> int:
    if _DIGITS.fullmatch(value):
        return int(value)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        moment = None
    if moment is None or moment.utcoffset() is None:
        raise wrong(name, value, "give milliseconds since 1970, a time with its zone as in 2026-01-31T08:00Z, or -2h")
    return since_1970_ms(moment)


def _by_queue(given: Given, name: str, *, least: int) -> dict[Queue, int]:
    """Read a number for each queue: ``{topic: {broker: {queue: number}}}``."""
    return {
        Queue(topic, broker, _number(given, name, key, 0)): _number(given, name, value, least)
        for topic, brokers in _object(given, name, given.json(name)).items()
        for broker, queues in _object(given, name, brokers).items()
        for key, value in _object(given, name, queues).items()
    }


def _object(given: Given, name: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise wrong(name, given.text(name) or "", _SHAPE)
    return value


def _number(given: Given, name: str, value: object, least: int) -> int:
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 1 << 63:
        raise wrong(name, given.text(name) or "", _SHAPE)
    return value
