"""What is where in many records at once: their numbers, and the bounds of body, topic and properties, all checked.

Reading is the one of wire/record.py, done for all rows together: each length is checked before it is used, and where
one does not fit, the first damaged record is looked at again by wire/record_damage.py to say what is wrong.
"""

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from steelyard.spark.decoding.segments import numbers, parts, unaligned
from steelyard.wire.hosts import IPV4_BYTES
from steelyard.wire.record_damage import explain_damage
from steelyard.wire.record_layout import IPV4_HEAD, V1_MAGIC, V2_MAGIC
from steelyard.wire.sysflag import BORN_IPV6, STORE_IPV6

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MOMENT", "Rows"]

MOMENT = pa.timestamp("us", tz="UTC")
"""How Spark wants moments."""

# All that lies before the first host, and so at the same place in every record.
_HEAD = np.dtype(
    {
        "names": ["size", "magic", "queue_id", "offset", "position", "sys_flag", "born_ms"],
        "formats": [">i4", ">i4", ">i4", ">i8", ">i8", ">i4", ">i8"],
        "offsets": [0, 4, 12, 20, 28, 36, 40],
        "itemsize": 48,
    }
)

# What follows a host lies here where the hosts before it are of IPv4; each one of IPv6 moves it on.
_STORED_MS_AT = 56
_STORE_HOST_AT = 64
_RECONSUME_TIMES_AT = 72
_BODY_AT = IPV4_HEAD.size
_IPV6_MORE = 12

# Both lengths behind the body, without what they are the lengths of.
_SMALLEST_TAIL = 3

# The moments that Python can name, years 1 to 9999: what lies outside becomes the nearest, as in `StoredMessage`.
_EARLIEST_MS = -62_135_596_800_000
_LATEST_MS = 253_402_300_799_999
_LATEST_US = 253_402_300_799_999_999

# Two digits for each byte.
_DIGITS = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), "V2")


class Rows:
    """Records as rows: where each begins, its numbers, and the bounds of its parts."""

    def __init__(self, data: bytes | bytearray, starts: "NDArray[np.int64]") -> None:
        self.data, self.starts = data, starts
        self._heads = unaligned(data, f"V{_HEAD.itemsize}")[starts].view(_HEAD)
        self.offsets = self._heads["offset"].astype(np.int64)
        self.sys_flags = self._heads["sys_flag"].astype(np.int32)
        self._all_flags = int(np.bitwise_or.reduce(self.sys_flags)) if len(starts) else 0
        self.ends = starts + self._heads["size"]
        self._born_shift, self._store_shift = self._shift(BORN_IPV6), self._shift(STORE_IPV6)
        self._bound()

    def _bound(self) -> None:
        """Find the bounds of body, topic and properties, checking each length before it is used."""
        data, magics, ends = self.data, self._heads["magic"], self.ends
        is_long = magics == V2_MAGIC
        self._refuse((magics != V1_MAGIC) & ~is_long)
        bodies = self.starts + _BODY_AT + (self._born_shift + self._store_shift)
        last = ends - _SMALLEST_TAIL - is_long
        self._refuse(bodies > last)
        body_bytes = unaligned(data, ">i4")[bodies - 4]
        body_ends = bodies + body_bytes
        self._refuse((body_bytes < 0) | (body_ends > last))
        topic_bytes = unaligned(data, "i1")[body_ends]
        if is_long.any():
            topic_bytes = np.where(is_long, unaligned(data, ">i2")[body_ends], topic_bytes)
        topics = body_ends + 1 + is_long
        topic_ends = topics + topic_bytes
        self._refuse((topic_bytes < 0) | (topic_ends + 2 > ends))
        self._refuse(topic_ends + 2 + unaligned(data, ">i2")[topic_ends] != ends)
        self._bodies, self._body_ends, self._topics, self._topic_ends = bodies, body_ends, topics, topic_ends
        self.properties = topic_ends + 2

    def _shift(self, bit: int) -> "NDArray[np.int64] | int":
        """Return by how much a host moves what follows it."""
        return np.where(self.sys_flags & bit, _IPV6_MORE, 0) if self._all_flags & bit else 0

    def _refuse(self, are_damaged: "NDArray[np.bool_]") -> None:
        if are_damaged.any():
            raise explain_damage(self.data, int(self.starts[are_damaged.argmax()]))

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def buffer(self) -> pa.Buffer:
        """The bytes, as Arrow has them."""
        return pa.py_buffer(self.data)

    def are_flagged(self, bits: int) -> "NDArray[np.bool_]":
        """Say of each row whether its system flag has all of some bits."""
        return self.sys_flags & bits == bits if self._all_flags & bits == bits else np.zeros(len(self), np.bool_)

    def record(self, row: int) -> bytes:
        """Return one row as it is stored."""
        return bytes(self.data[self.starts[row] : self.ends[row]])

    def body_of(self, row: int) -> bytes:
        """Return the body of one row as it is stored."""
        return bytes(self.data[self._bodies[row] : self._body_ends[row]])

    def body(self) -> pa.Array:
        """Return the bodies as they are stored."""
        return parts(self.buffer, self._bodies, self._body_ends, pa.binary())

    def topics_seen(self) -> "tuple[list[bytes], NDArray[np.int64]]":
        """Return the topics there are, as they are stored, and for each row the number of its own."""
        lengths = self._topic_ends - self._topics
        if len(self) and lengths[0] and (lengths == lengths[0]).all():
            # Mostly all are the same.
            topics = unaligned(self.data, f"V{lengths[0]}")[self._topics].tobytes()
            first = topics[: lengths[0]]
            if topics == first * len(self):
                return [first], np.zeros(len(self), np.int64)
        different = parts(self.buffer, self._topics, self._topic_ends, pa.binary()).dictionary_encode()
        return different.dictionary.to_pylist(), different.indices.to_numpy()

    def queue_id(self) -> pa.Array:
        """Return the numbers of the queues."""
        return numbers(self._heads["queue_id"].astype(np.int32), pa.int32())

    def born_at(self) -> pa.Array:
        """Return when the producers made them."""
        return _moments(self._heads["born_ms"].astype(np.int64))

    def stored_at(self) -> pa.Array:
        """Return when the brokers stored them."""
        places = self.starts + _STORED_MS_AT + self._born_shift
        return _moments(unaligned(self.data, ">i8")[places].astype(np.int64))

    def reconsume_times(self) -> pa.Array:
        """Return how often they were taken and given back."""
        places = self.starts + _RECONSUME_TIMES_AT + (self._born_shift + self._store_shift)
        return numbers(unaligned(self.data, ">i4")[places].astype(np.int32), pa.int32())

    def offset_ids(self, rows: "NDArray[np.int64]") -> pa.Array:
        """Return the ids that some rows have by their place; only for those whose store host is of IPv4."""
        hosts = unaligned(self.data, f"V{IPV4_BYTES}")[(self.starts + _STORE_HOST_AT + self._born_shift)[rows]]
        places = np.stack([hosts, self._heads["position"][rows].view(hosts.dtype)], axis=1)
        digits = _DIGITS[places.view(np.uint8)].tobytes()
        bounds = np.arange(len(rows) + 1, dtype=np.int32) * (4 * IPV4_BYTES)
        return pa.Array.from_buffers(pa.string(), len(rows), [None, pa.py_buffer(bounds), pa.py_buffer(digits)])


def _moments(times_ms: "NDArray[np.int64]") -> pa.Array:
    if times_ms.min(initial=0) < _EARLIEST_MS or times_ms.max(initial=0) > _LATEST_MS:
        times_us = np.clip(times_ms, _EARLIEST_MS, _LATEST_MS) * 1_000
        times_us[times_ms > _LATEST_MS] = _LATEST_US
        return numbers(times_us, MOMENT)
    return numbers(times_ms * 1_000, MOMENT)
