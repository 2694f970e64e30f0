"""What is where in many records at once: the heads and the bounds of body, topic and properties, all checked.

Reading is the one of wire/record.py, done for all rows together: each length is checked before it is used, and where
one does not fit, the first damaged record is looked at again by wire/record_damage.py to say what is wrong.
"""

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from steelyard.spark.record_walk import unaligned
from steelyard.spark.segments import numbers, parts
from steelyard.wire.record_damage import explain_damage
from steelyard.wire.record_layout import IPV4_HEAD, V1_MAGIC, V2_MAGIC
from steelyard.wire.sysflag import BORN_IPV6, STORE_IPV6

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MOMENT", "Rows"]

_HEAD_BYTES = IPV4_HEAD.size
_HEAD = np.dtype(
    {
        "names": ["size", "magic", "queue_id", "offset", "position", "sys_flag", "born_ms"],
        "formats": [">i4", ">i4", ">i4", ">i8", ">i8", ">i4", ">i8"],
        "offsets": [0, 4, 12, 20, 28, 36, 40],
        "itemsize": 48,
    }
)

# Where a field lies after the born host and after both hosts of IPv4; each IPv6 host moves it by 12.
_STORED_MS_AT = 56
_STORE_HOST_AT = 64
_RECONSUME_AT = 72
_BODY_BYTES_AT = 84
_IPV6_MORE = 12

_HOST_AND_POSITION_BYTES = 16

# Moments that both Python and Spark can name, years 1 to 9999, as in `StoredMessage.born_at`.
_EARLIEST_MS = -62_135_596_800_000
_LATEST_MS = 253_402_300_799_999
_LATEST_US = 253_402_300_799_999_999

MOMENT = pa.timestamp("us", tz="UTC")
_HEX = np.array([int.from_bytes(b"%02X" % byte, "little") for byte in range(256)], "<u2")


class Rows:
    """Records as rows: where each begins, its numbers, and the bounds of its parts."""

    def __init__(self, data: bytes | memoryview, starts: "NDArray[np.int64]") -> None:
        self.data, self.starts = data, starts
        self._heads = unaligned(data, "V48")[starts].view(_HEAD)
        self.offsets = self._heads["offset"].astype(np.int64)
        self.sys_flags = self._heads["sys_flag"].astype(np.int32)
        self.ends = starts + self._heads["size"]
        self._bound()

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def buffer(self) -> pa.Buffer:
        """The bytes, as Arrow has them."""
        return pa.py_buffer(self.data)

    def _bound(self) -> None:
        """Find the bounds of body, topic and properties, checking each length before it is used."""
        data, magics = np.frombuffer(self.data, np.uint8), self._heads["magic"]
        is_long = magics == V2_MAGIC
        self._refuse(~(is_long | (magics == V1_MAGIC)))
        self._shifts: NDArray[np.int64] | int = self._shifted(BORN_IPV6 | STORE_IPV6)
        self.bodies = self.starts + (_HEAD_BYTES + self._shifts)
        long_lengths: NDArray[np.int64] | int = is_long.astype(np.int64) if is_long.any() else 0
        last = self.ends - 3 - long_lengths
        # With hosts of IPv6 even the length of the body may lie outside a record that claims to be a small one.
        self._refuse(self.bodies > last)
        body_bytes = unaligned(self.data, ">i4")[self.bodies - 4].astype(np.int64)
        self.body_ends = self.bodies + body_bytes
        self._refuse((body_bytes < 0) | (self.body_ends > last))
        topic_bytes = data[self.body_ends].astype(np.int8).astype(np.int64)
        if is_long.any():
            topic_bytes = np.where(is_long, unaligned(self.data, ">i2")[self.body_ends], topic_bytes)
        self.topics = self.body_ends + 1 + long_lengths
        self.topic_ends = self.topics + topic_bytes
        self._refuse((topic_bytes < 0) | (self.topic_ends + 2 > self.ends))
        self.properties = self.topic_ends + 2
        properties_bytes = unaligned(self.data, ">i2")[self.topic_ends]
        self._refuse(self.properties + properties_bytes != self.ends)

    def _shifted(self, bits: int) -> "NDArray[np.int64] | int":
        """Return by how much the hosts of IPv6 among these bits move what follows them."""
        if not (self.sys_flags & bits).any():
            return 0
        moved = [np.where(self.sys_flags & bit, _IPV6_MORE, 0) for bit in (BORN_IPV6, STORE_IPV6) if bits & bit]
        return sum(moved[1:], start=moved[0]).astype(np.int64)

    def _refuse(self, is_damaged: "NDArray[np.bool_]") -> None:
        if is_damaged.any():
            raise explain_damage(self.data, int(self.starts[is_damaged.argmax()]))

    def queue_ids(self) -> pa.Array:
        """Return the numbers of the queues."""
        return numbers(self._heads["queue_id"].astype(np.int32), pa.int32())

    def born_at(self) -> pa.Array:
        """Return when the producers made them."""
        return _moments(self._heads["born_ms"].astype(np.int64))

    def stored_at(self) -> pa.Array:
        """Return when the broker stored them."""
        places = self.starts + (self._shifted(BORN_IPV6) + _STORED_MS_AT)
        return _moments(unaligned(self.data, ">i8")[places].astype(np.int64))

    def reconsume_times(self) -> pa.Array:
        """Return how often they were taken and given back."""
        places = self.starts + (self._shifts + _RECONSUME_AT)
        return numbers(unaligned(self.data, ">i4")[places].astype(np.int32), pa.int32())

    def body(self) -> pa.Array:
        """Return the bodies as they are stored."""
        return parts(self.buffer, self.bodies, self.body_ends, pa.binary())

    def topic(self) -> pa.Array:
        """Return the topics as they are stored: bytes."""
        return parts(self.buffer, self.topics, self.topic_ends, pa.binary())

    def offset_ids(self, which: "NDArray[np.int64]") -> pa.Array:
        """Return the ids that some rows have by their place; only for those whose store host is of IPv4."""
        count, digits = len(which), 2 * _HOST_AND_POSITION_BYTES
        place = np.empty((count, _HOST_AND_POSITION_BYTES), np.uint8)
        hosts = self.starts[which] + (self._shifted(BORN_IPV6) + np.zeros(len(self), np.int64))[which] + _STORE_HOST_AT
        place[:, :8] = unaligned(self.data, "V8")[hosts].view(np.uint8).reshape(count, 8)
        place[:, 8:] = np.ascontiguousarray(self._heads["position"][which]).view(np.uint8).reshape(count, 8)
        ends = np.arange(0, digits * (count + 1), digits, dtype=np.int32)
        return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(ends), pa.py_buffer(_HEX[place])])


def _moments(times_ms: "NDArray[np.int64]") -> pa.Array:
    if len(times_ms) and (times_ms.min() < _EARLIEST_MS or times_ms.max() > _LATEST_MS):
        times_us = np.clip(times_ms, _EARLIEST_MS, _LATEST_MS) * 1_000
        times_us[times_ms > _LATEST_MS] = _LATEST_US
        return numbers(times_us, MOMENT)
    return numbers(times_ms * 1_000, MOMENT)
