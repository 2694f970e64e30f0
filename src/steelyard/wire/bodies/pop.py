"""Batch acknowledgement of popped messages."""

from collections.abc import Iterable, Iterator
from typing import ClassVar

from msgspec import field

from steelyard.errors import ConfigurationError, LimitExceeded
from steelyard.wire.java_json import Int32, Int64
from steelyard.wire.json_body import JsonBody, always_written

__all__ = ["BatchAck", "QueueAcks", "offset_bits"]

# The messages of one pop are close together; 128 KiB of bits are more than any pop can have.
_MAX_BITS = 1 << 20


def offset_bits(start: int, offsets: Iterable[int]) -> bytes:
    """Pack offsets into a bit set: bit n, lowest first, stands for the offset ``start + n``.

    >>> offset_bits(100, [100, 103, 109]).hex()
    '0902'
    """
    bits = 0
    for offset in offsets:
        if not 0 <= offset - start < _MAX_BITS:
            raise ConfigurationError(
                f"the offset {offset} cannot be acknowledged together with {start}",
                next_step="start with the lowest offset, and acknowledge those far away on their own",
            )
        bits |= 1 << (offset - start)
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


class QueueAcks(JsonBody, frozen=True, kw_only=True):
    """Messages of one queue and one pop that were handled (Java: BatchAck); long names are decoded as well.

    >>> acks = QueueAcks(group="g", topic="t", retry="0", start_offset=100, queue_id=0, revive_queue_id=0, pop_ms=0,
    ...     invisible_ms=0, bits=offset_bits(100, [100, 103, 109]))
    >>> list(acks.offsets())
    [100, 103, 109]
    """

    legacy_names: ClassVar[dict[str, str]] = {
        "bitSet": "b",
        "consumerGroup": "c",
        "invisibleTime": "it",
        "popTime": "pt",
        "queueId": "q",
        "retry": "r",
        "reviveQueueId": "rq",
        "startOffset": "so",
        "topic": "t",
    }

    bits: bytes = field(name="b")
    group: str = field(name="c")
    invisible_ms: Int64 = field(name="it")
    pop_ms: Int64 = field(name="pt")
    queue_id: Int32 = field(name="q")
    retry: str = field(name="r")
    """The topic of the pop: 0 its own, 1 and 2 the retry topics of the two versions."""
    revive_queue_id: Int32 = field(name="rq")
    start_offset: Int64 = field(name="so")
    topic: str = field(name="t")

    def offsets(self) -> Iterator[int]:
        """Yield the offsets in ascending order."""
        if len(self.bits) * 8 > _MAX_BITS:
            raise LimitExceeded("number of bits", where="body of QueueAcks", limit=_MAX_BITS, found=len(self.bits) * 8)
        for place, byte in enumerate(self.bits):
            for bit in range(8):
                if byte >> bit & 1:
                    yield self.start_offset + place * 8 + bit


class BatchAck(JsonBody, frozen=True, kw_only=True):
    """Handled messages of one broker (Java: BatchAckMessageRequestBody)."""

    acks: tuple[QueueAcks, ...] = always_written(())
    broker_name: str | None = None
