"""Splits a buffer of records and reads their fixed fields as columns, all rows at once, with every length checked.

The layout is that of wire/record.py, which also decodes the first damaged record again to say what is wrong.

A record has its size in front, and only by that is the next one found. Stepping costs more than much of the decoding,
so three ways are tried. First, records of one producer are often equally long: a run of one size is guessed and checked
at once. Second, every record has its magic behind its size: from magics here and there all walk on together, each until
it meets the start of the next. Third, if a body contained a magic and the walks did not meet: step by step. A start
counts only if the sizes lead to it from the first byte on.
"""

from functools import cached_property
from struct import Struct as Layout
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from steelyard.spark.arrow_buffers import binary_slices, numeric_column, unaligned_view
from steelyard.wire.hosts import IPV4_BYTES
from steelyard.wire.record import IPV4_HEAD_LAYOUT, MIN_RECORD_BYTES, V1_MAGIC, V2_MAGIC, record_damage_error
from steelyard.wire.sysflag import BORN_IPV6, STORE_IPV6

if TYPE_CHECKING:
    from numpy.typing import NDArray

TIMESTAMP = pa.timestamp("us", tz="UTC")  # Spark's timestamp type

# The fields before the first host, at the same offset in every record.
_HEAD = np.dtype(
    {
        "names": ["size", "magic", "queue_id", "offset", "position", "sys_flag", "born_ms"],
        "formats": [">i4", ">i4", ">i4", ">i8", ">i8", ">i4", ">i8"],
        "offsets": [0, 4, 12, 20, 28, 36, 40],
        "itemsize": 48,
    }
)

# Offsets of fields behind hosts, if those are IPv4; each IPv6 host shifts them.
_STORED_MS_AT = 56
_STORE_HOST_AT = 64
_RECONSUME_TIMES_AT = 72
_BODY_AT = IPV4_HEAD_LAYOUT.size
_IPV6_EXTRA_BYTES = 12

# The two lengths behind the body, of empty topic and properties.
_SMALLEST_TAIL = 3

# Python's datetime range, years 1 to 9999: what lies outside is clipped, as in `StoredMessage`.
_EARLIEST_MS = -62_135_596_800_000
_LATEST_MS = 253_402_300_799_999
_LATEST_US = 253_402_300_799_999_999

# Two hexadecimal digits for each byte.
_DIGITS = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), "V2")


class RecordColumns:
    """Records as rows: their starts, fixed fields, and the bounds of body, topic and properties."""

    def __init__(self, data: bytes | bytearray, starts: "NDArray[np.int64]") -> None:
        self.data, self.starts = data, starts
        self._heads = unaligned_view(data, f"V{_HEAD.itemsize}")[starts].view(_HEAD)
        self.offsets = self._heads["offset"].astype(np.int64)
        self.sys_flags = self._heads["sys_flag"].astype(np.int32)
        self._all_flags = int(np.bitwise_or.reduce(self.sys_flags)) if len(starts) else 0
        self.ends = starts + self._heads["size"]
        self._born_shift, self._store_shift = self._shift(BORN_IPV6), self._shift(STORE_IPV6)
        self._find_bounds()

    def _find_bounds(self) -> None:
        """Find the bounds of body, topic and properties, checking each length before it is used."""
        data, magics, ends = self.data, self._heads["magic"], self.ends
        is_long = magics == V2_MAGIC
        self._check_damage((magics != V1_MAGIC) & ~is_long)
        bodies = self.starts + _BODY_AT + (self._born_shift + self._store_shift)
        last = ends - _SMALLEST_TAIL - is_long
        self._check_damage(bodies > last)
        body_bytes = unaligned_view(data, ">i4")[bodies - 4]
        body_ends = bodies + body_bytes
        self._check_damage((body_bytes < 0) | (body_ends > last))
        topic_bytes = unaligned_view(data, "i1")[body_ends]
        if is_long.any():
            topic_bytes = np.where(is_long, unaligned_view(data, ">i2")[body_ends], topic_bytes)
        topics = body_ends + 1 + is_long
        topic_ends = topics + topic_bytes
        self._check_damage((topic_bytes < 0) | (topic_ends + 2 > ends))
        self._check_damage(topic_ends + 2 + unaligned_view(data, ">i2")[topic_ends] != ends)
        self._bodies, self._body_ends, self._topics, self._topic_ends = bodies, body_ends, topics, topic_ends
        self.properties = topic_ends + 2

    def _shift(self, bit: int) -> "NDArray[np.int64] | int":
        """Return by how much a host shifts what follows it."""
        return np.where(self.sys_flags & bit, _IPV6_EXTRA_BYTES, 0) if self._all_flags & bit else 0

    def _check_damage(self, are_damaged: "NDArray[np.bool_]") -> None:
        if are_damaged.any():
            raise record_damage_error(self.data, int(self.starts[are_damaged.argmax()]))

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def buffer(self) -> pa.Buffer:
        """The bytes as an Arrow buffer."""
        return pa.py_buffer(self.data)

    def have_flags(self, bits: int) -> "NDArray[np.bool_]":
        """Return for each row whether its system flag has all of some bits."""
        return self.sys_flags & bits == bits if self._all_flags & bits == bits else np.zeros(len(self), np.bool_)

    def record(self, row: int) -> bytes:
        """Return one row as it is stored."""
        return bytes(self.data[self.starts[row] : self.ends[row]])

    def body_of(self, row: int) -> bytes:
        """Return the body of one row as it is stored."""
        return bytes(self.data[self._bodies[row] : self._body_ends[row]])

    def body(self) -> pa.Array:
        """Return the bodies as they are stored."""
        return binary_slices(self.buffer, self._bodies, self._body_ends, pa.binary())

    def distinct_topics(self) -> "tuple[list[bytes], NDArray[np.int64]]":
        """Return the distinct topics, as stored, and the index of each row's own."""
        lengths = self._topic_ends - self._topics
        if len(self) and lengths[0] and (lengths == lengths[0]).all():
            # Mostly there is one.
            topics = unaligned_view(self.data, f"V{lengths[0]}")[self._topics].tobytes()
            first = topics[: lengths[0]]
            if topics == first * len(self):
                return [first], np.zeros(len(self), np.int64)
        different = binary_slices(self.buffer, self._topics, self._topic_ends, pa.binary()).dictionary_encode()
        return different.dictionary.to_pylist(), different.indices.to_numpy()

    def queue_id(self) -> pa.Array:
        """Return the queue ids."""
        return numeric_column(self._heads["queue_id"].astype(np.int32), pa.int32())

    def born_at(self) -> pa.Array:
        """Return the born timestamps."""
        return _timestamps(self._heads["born_ms"].astype(np.int64))

    def stored_at(self) -> pa.Array:
        """Return the store timestamps."""
        places = self.starts + _STORED_MS_AT + self._born_shift
        return _timestamps(unaligned_view(self.data, ">i8")[places].astype(np.int64))

    def reconsume_times(self) -> pa.Array:
        """Return the reconsume times."""
        places = self.starts + _RECONSUME_TIMES_AT + (self._born_shift + self._store_shift)
        return numeric_column(unaligned_view(self.data, ">i4")[places].astype(np.int32), pa.int32())

    def offset_ids(self, rows: "NDArray[np.int64]") -> pa.Array:
        """Return the offset ids of some rows, whose store host must be IPv4."""
        hosts = unaligned_view(self.data, f"V{IPV4_BYTES}")[(self.starts + _STORE_HOST_AT + self._born_shift)[rows]]
        places = np.stack([hosts, self._heads["position"][rows].view(hosts.dtype)], axis=1)
        digits = _DIGITS[places.view(np.uint8)].tobytes()
        bounds = np.arange(len(rows) + 1, dtype=np.int32) * (4 * IPV4_BYTES)
        return pa.Array.from_buffers(pa.string(), len(rows), [None, pa.py_buffer(bounds), pa.py_buffer(digits)])


def _timestamps(times_ms: "NDArray[np.int64]") -> pa.Array:
    if times_ms.min(initial=0) < _EARLIEST_MS or times_ms.max(initial=0) > _LATEST_MS:
        times_us = np.clip(times_ms, _EARLIEST_MS, _LATEST_MS) * 1_000
        times_us[times_ms > _LATEST_MS] = _LATEST_US
        return numeric_column(times_us, TIMESTAMP)
    return numeric_column(times_ms * 1_000, TIMESTAMP)


_read_size = Layout(">i").unpack_from
_MAGIC_AT, _MAGIC_END = 4, 8

# The first guess of a run's length, doubled each time that all of it was right.
_FIRST_RUN = 32

# Shorter runs cost more than many walkers.
_SHORT_RUN = 128

# The guessed records per walker, and the steps before giving up.
_RECORDS_PER_WALKER = 16
_MAX_STEPS = 8 * _RECORDS_PER_WALKER

# With fewer walkers, single steps are cheaper.
_MIN_WALKERS = 4


def record_starts(data: bytes | bytearray, end: int) -> "NDArray[np.int64]":
    """Return the starts of the records up to ``end``.

    Raises `MalformedRecord` if a size does not lead to another record or to the end.
    """
    runs, at = _starts_in_equal_runs(data, end)
    if at < end:
        met = _starts_by_walkers(data, at, end)
        runs.append(_starts_by_steps(data, at, end) if met is None else met)
    return np.concatenate(runs) if len(runs) > 1 else runs[0]


def _starts_in_equal_runs(data: bytes | bytearray, end: int) -> "tuple[list[NDArray[np.int64]], int]":
    """Return the starts in runs of equal sizes while they are long, and where the last one ends."""
    runs, at, guess = [], 0, _FIRST_RUN
    while at < end:
        size = _size_at(data, at, end)
        length = min(guess, (end - at) // size)
        is_equal = np.ndarray((length,), ">i4", data, at, (size,)) == size
        run = length if is_equal.all() else int(is_equal.argmin())
        runs.append(np.arange(at, at + run * size, size))
        at += run * size
        if run < min(length, _SHORT_RUN):
            break
        guess = guess * 2 if run == guess else _FIRST_RUN
    return runs, at


def _starts_by_walkers(data: bytes | bytearray, at: int, end: int) -> "NDArray[np.int64] | None":
    """Walk from many records at once; None if that does not lead from each to the next."""
    begun = _walker_starts(data, at, end)
    if len(begun) < _MIN_WALKERS:
        return None
    sizes, limits, last_size = unaligned_view(data, ">i4"), np.append(begun[1:], end), end - MIN_RECORD_BYTES
    places = begun
    passed: list[NDArray[np.int64]] = []
    while (places < limits).any():
        if len(passed) == _MAX_STEPS:
            return None
        passed.append(places)
        # Walkers that have arrived go on, and sizes are not validated: everything is checked together below.
        steps = np.maximum(sizes[np.minimum(places, last_size)], MIN_RECORD_BYTES)
        places = np.minimum(places + steps, end)
    # One column per walker, of which only the part before the next walker's start counts.
    ways = np.stack(passed)
    starts = ways.T[(ways < limits).T]
    found = sizes[np.minimum(starts, last_size)]
    leads_on = np.array_equal(starts + found, np.append(starts[1:], end)) and found.min() >= MIN_RECORD_BYTES
    return starts if leads_on else None


def _walker_starts(data: bytes | bytearray, at: int, end: int) -> "NDArray[np.int64]":
    """Return the start of a record and of some behind it, found by their magic."""
    magic, size = data[at + _MAGIC_AT : at + _MAGIC_END], _size_at(data, at, end)
    begun, stride = [at], size * _RECORDS_PER_WALKER
    while (found := data.find(magic, begun[-1] + stride, end)) >= 0:
        begun.append(found - _MAGIC_AT)
    return np.array(begun)


def _starts_by_steps(data: bytes | bytearray, at: int, end: int) -> "NDArray[np.int64]":
    starts = []
    while at < end:
        starts.append(at)
        at += _size_at(data, at, end)
    return np.array(starts)


def _size_at(data: bytes | bytearray, at: int, end: int) -> int:
    size: int = _read_size(data, at)[0] if end - at >= MIN_RECORD_BYTES else 0
    if not MIN_RECORD_BYTES <= size <= end - at:
        raise record_damage_error(memoryview(data)[:end], at)
    return size
