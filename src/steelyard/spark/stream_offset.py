"""Offsets of a stream in a checkpoint: one canonical JSON, since Spark compares them as texts.

    {"q": {"orders": {"broker-a": {"0": 123}}}, "v": 1}

``q`` has the position of each queue, exclusive. ``base`` has the start, for queues that the offset before does not
know: all of them in the first batch, and those that were added or recreated since. So what a batch reads follows from
its end alone where its start cannot be trusted: Spark does not log the very first offset (``init``), and requests it
again after a crash, when the end of a queue has moved.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from steelyard.errors import ConfigurationError
from steelyard.model import OffsetRange, Queue

JsonObject = dict[str, object]

_VERSION = 1
_MAX_OFFSET = 1 << 63
_NEXT_STEP = "the checkpoint is of something else, or damaged: give the query another one"


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The position of each queue. Topics are without a namespace.

    >>> import json
    >>> here = StreamOffset({Queue("orders", "b", 1): 7, Queue("orders", "a", 0): 3})
    >>> json.dumps(here.encode())
    '{"q": {"orders": {"a": {"0": 3}, "b": {"1": 7}}}, "v": 1}'
    >>> StreamOffset.decode(here.encode()) == here
    True
    """

    positions: Mapping[Queue, int]
    start_offsets: Mapping[Queue, int] = field(default_factory=dict)
    is_initial: bool = False

    def encode(self) -> JsonObject:
        """Return it as JSON, with its keys in order."""
        written: JsonObject = {"base": _encode_queues(self.start_offsets)} if self.start_offsets else {}
        if self.is_initial:
            written["init"] = True
        return written | {"q": _encode_queues(self.positions), "v": _VERSION}

    @classmethod
    def decode(cls, written: object) -> "StreamOffset":
        """Parse what Spark logged; anything else is a ConfigurationError."""
        if not isinstance(written, dict) or "q" not in written:
            raise ConfigurationError(f"{str(written)[:200]} is no offset of this source", next_step=_NEXT_STEP)
        version = written.get("v")
        if version != _VERSION:
            raise ConfigurationError(
                f"the checkpoint has an offset of version {version!r}, and {_VERSION} is known here",
                next_step="run the query with the release that wrote it, or with a newer one",
            )
        return cls(_decode_queues(written["q"]), _decode_queues(written.get("base", {})), written.get("init") is True)


def ranges_between(start: StreamOffset, end: StreamOffset) -> list[OffsetRange]:
    """Return the ranges between two offsets, queue by queue; empty ones are left out."""
    found: list[OffsetRange] = []
    if start == end:
        # The starts of an offset were for the batch that ended there.
        return found
    for queue, upto in end.positions.items():
        begin = _start_of(queue, upto, start, end)
        if begin > upto:
            raise ConfigurationError(
                f"the checkpoint goes from {begin} back to {upto} in {queue}", next_step="give the query another one"
            )
        if begin < upto:
            found.append(OffsetRange(queue, begin, upto))
    return found


def _start_of(queue: Queue, end_offset: int, start: StreamOffset, end: StreamOffset) -> int:
    if queue in end.start_offsets:
        return end.start_offsets[queue]
    if start.is_initial and end.is_initial:
        # There was nothing to read when the end was logged; what arrived since is for the next batch.
        return end_offset
    begin = None if start.is_initial else start.positions.get(queue)
    if begin is None:
        raise ConfigurationError(f"the checkpoint does not say where {queue} begins", next_step=_NEXT_STEP)
    return begin


def _encode_queues(positions: Mapping[Queue, int]) -> JsonObject:
    """Nest positions by topic, broker and queue, each in order of its text, as any JSON encoder sorts."""
    written: dict[str, dict[str, dict[str, int]]] = {}
    for topic, broker, number in sorted(positions, key=lambda queue: (queue.topic, queue.broker, str(queue.queue_id))):
        of_broker = written.setdefault(topic, {}).setdefault(broker, {})
        of_broker[str(number)] = positions[Queue(topic, broker, number)]
    return {**written}


def _decode_queues(written: object) -> dict[Queue, int]:
    return {
        Queue(topic, broker, _number(key)): _number(value)
        for topic, brokers in _object(written).items()
        for broker, queues in _object(brokers).items()
        for key, value in _object(queues).items()
    }


def _object(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ConfigurationError(f"{str(value)[:200]} is no part of an offset of this source", next_step=_NEXT_STEP)
    return value


def _number(value: object) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_OFFSET:
        return value
    raise ConfigurationError(f"{str(value)[:40]!r} is no number of an offset of this source", next_step=_NEXT_STEP)
