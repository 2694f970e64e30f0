"""Offsets as Spark keeps them in a checkpoint: one canonical JSON, since Spark compares them as texts.

    {"q": {"orders": {"broker-a": {"0": 123}}}, "v": 1}

``q`` is up to where each queue is read, exclusively. ``base`` says from where, for queues about which the offset before
says nothing: all of them in the first batch, and those that came, or were made anew, since. So what a batch reads
follows from its end alone where its start is not to be trusted: Spark does not keep the very first offset (``init``),
and asks for it again after a crash, when the end of a queue is elsewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from steelyard.errors import ConfigurationError
from steelyard.model import OffsetRange, Queue

__all__ = ["Json", "Offsets", "ranges_between"]

Json = dict[str, object]

_VERSION = 1
_LARGEST = 1 << 63
_NEXT = "the checkpoint is of something else, or damaged: give the query another one"


@dataclass(frozen=True, slots=True)
class Offsets:
    """How far each queue is read. Topics are as users write them.

    >>> import json
    >>> here = Offsets({Queue("orders", "b", 1): 7, Queue("orders", "a", 0): 3})
    >>> json.dumps(here.json())
    '{"q": {"orders": {"a": {"0": 3}, "b": {"1": 7}}}, "v": 1}'
    >>> Offsets.of(here.json()) == here
    True
    """

    places: Mapping[Queue, int]
    base: Mapping[Queue, int] = field(default_factory=dict)
    is_initial: bool = False

    def json(self) -> Json:
        """Return it as Spark keeps it, with its keys in order."""
        written: Json = {"base": _nested(self.base)} if self.base else {}
        if self.is_initial:
            written["init"] = True
        return written | {"q": _nested(self.places), "v": _VERSION}

    @classmethod
    def of(cls, written: object) -> "Offsets":
        """Read what Spark kept; anything else is a ConfigurationError."""
        if not isinstance(written, dict) or "q" not in written:
            raise ConfigurationError(f"{str(written)[:200]} is no offset of this source", next_step=_NEXT)
        version = written.get("v")
        if version != _VERSION:
            raise ConfigurationError(
                f"the checkpoint has an offset of version {version!r}, and {_VERSION} is known here",
                next_step="run the query with the release that wrote it, or with a newer one",
            )
        return cls(_flat(written["q"]), _flat(written.get("base", {})), written.get("init") is True)


def ranges_between(start: Offsets, end: Offsets) -> list[OffsetRange]:
    """Return what is to be read between two offsets, queue by queue; empty ranges are left out."""
    found: list[OffsetRange] = []
    if start == end:
        # What an offset tells of beginnings was for the batch that ended there.
        return found
    for queue, upto in end.places.items():
        begin = _begin(queue, upto, start, end)
        if begin > upto:
            raise ConfigurationError(
                f"the checkpoint goes from {begin} back to {upto} in {queue}", next_step="give the query another one"
            )
        if begin < upto:
            found.append(OffsetRange(queue, begin, upto))
    return found


def _begin(queue: Queue, upto: int, start: Offsets, end: Offsets) -> int:
    if queue in end.base:
        return end.base[queue]
    if start.is_initial and end.is_initial:
        # Nothing was there to read when the end was written down; what came since is the next batch's.
        return upto
    begin = None if start.is_initial else start.places.get(queue)
    if begin is None:
        raise ConfigurationError(f"the checkpoint does not say where {queue} begins", next_step=_NEXT)
    return begin


def _nested(places: Mapping[Queue, int]) -> Json:
    """Write numbers of queues by topic, broker and queue, each in order of its text, as any writer of JSON sorts."""
    written: dict[str, dict[str, dict[str, int]]] = {}
    for topic, broker, number in sorted(places, key=lambda queue: (queue.topic, queue.broker, str(queue.queue_id))):
        of_broker = written.setdefault(topic, {}).setdefault(broker, {})
        of_broker[str(number)] = places[Queue(topic, broker, number)]
    return {**written}


def _flat(written: object) -> dict[Queue, int]:
    return {
        Queue(topic, broker, _number(key)): _number(value)
        for topic, brokers in _object(written).items()
        for broker, queues in _object(brokers).items()
        for key, value in _object(queues).items()
    }


def _object(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ConfigurationError(f"{str(value)[:200]} is no part of an offset of this source", next_step=_NEXT)
    return value


def _number(value: object) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST:
        return value
    raise ConfigurationError(f"{str(value)[:40]!r} is no number of an offset of this source", next_step=_NEXT)
