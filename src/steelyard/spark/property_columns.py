r"""The properties of many rows at once: the map of all of them, and single ones by name.

The rules are those of wire/properties.py: an entry without a name or a value is dropped, a missing last ``\x02`` is
forgiven, what follows the first ``\x01`` is the value, the last of two entries with one name counts.

All texts are copied into one, each ending with ``\x02``, and all separators are found in one search. Rows of one
producer mostly have the same names in the same order: that is looked at first, for then names need no search and no
copy. What is left to the caller are rows whose text is not UTF-8, or where one name may stand twice.
"""

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from steelyard.spark.segments import parts, repeated, unaligned
from steelyard.wire.property_names import CRC32

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from steelyard.spark.record_columns import Rows

__all__ = ["MAP", "Properties"]

MAP = pa.map_(pa.string(), pa.string())

_EQUALS, _END = 1, 2

# The last eight bytes of a name are compared at once: that many must stand before the first of them.
_WORD_BYTES = 8
_OF_THE_NAME = np.array([(1 << 8 * length) - 1 for length in range(_WORD_BYTES + 1)], np.uint64)
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)

_NONE = np.empty(0, np.int64)


class Properties:
    """The properties of rows, split into entries."""

    def __init__(self, rows: "Rows") -> None:
        self._count = len(rows)
        self._join(rows)
        self._split()

    def _join(self, rows: "Rows") -> None:
        r"""Copy all texts into one. A row that does not end with \x02 gets the byte behind it, made a \x02."""
        data = np.frombuffer(rows.data, np.uint8)
        starts, ends = rows.properties, rows.ends
        is_open = (data[ends - 1] != _END) & (ends > starts)
        self._bounds = np.empty(self._count + 1, np.int64)
        self._bounds[0] = _WORD_BYTES
        np.cumsum(ends - starts + is_open, out=self._bounds[1:])
        self._bounds[1:] += _WORD_BYTES
        starts, ends = np.append(0, starts), np.append(_WORD_BYTES, np.minimum(ends + is_open, len(data)))
        joined = parts(rows.buffer, starts, ends, pa.binary()).buffers()[2]
        assert joined is not None
        text = np.frombuffer(joined, np.uint8)
        if is_open.any():
            # One more, for the last row may be the end of the data.
            text = np.append(text, np.uint8(_END))
            text[self._bounds[1:][is_open] - 1] = _END
            joined = pa.py_buffer(text)
        self._text, self._buffer = text, joined

    def _split(self) -> None:
        """Find the entries: where each name begins, its separator, and where the value ends."""
        text = self._text[: self._bounds[-1]]
        marks = np.flatnonzero(text[_WORD_BYTES:] <= _END) + _WORD_BYTES
        kinds = text[marks]
        if len(marks) % 2 == 0 and (kinds[0::2] == _EQUALS).all() and (kinds[1::2] == _END).all():
            equals, ends = marks[0::2], marks[1::2]
            names = _behind(ends)
        else:
            ends, all_equals = marks[kinds == _END], np.append(marks[kinds == _EQUALS], len(text))
            names = _behind(ends)
            equals = np.minimum(all_equals[np.searchsorted(all_equals, names)], ends)
        is_kept = (equals > names) & (ends > equals + 1)
        if not is_kept.all():
            names, equals, ends = names[is_kept], equals[is_kept], ends[is_kept]
        self._names, self._equals, self._ends = names, equals, ends
        self._firsts = self._first_entries()

    def _first_entries(self) -> "NDArray[np.int64]":
        """Return for each row the number of its first entry, and how many there are in all."""
        entries = len(self._ends)
        each = entries // self._count or 1
        if each * self._count == entries and (self._ends[each - 1 :: each] == self._bounds[1:] - 1).all():
            return np.arange(0, entries + 1, each)
        return np.searchsorted(self._ends, self._bounds)

    @cached_property
    def _same_names(self) -> list[bytes] | None:
        """The names of every row, where all have the same ones in the same order."""
        each = int(self._firsts[1])
        if not each or not np.array_equal(self._firsts, np.arange(0, len(self._names) + 1, each)):
            return None
        starts = self._names.reshape(self._count, each)
        lengths = (self._equals - self._names).reshape(self._count, each)
        if not (lengths == lengths[0]).all():
            return None
        names = []
        for start, length in zip(starts.T, lengths[0].tolist(), strict=True):
            found = unaligned(self._text, f"V{length}")[start].tobytes()
            if found != found[:length] * self._count:
                return None
            names.append(found[:length])
        return names

    def named(self, name: str) -> "NDArray[np.int64]":
        """Return for each row the number of the entry with a name of eight letters at the most, or -1."""
        entries, wanted = np.full(self._count, -1), name.encode()
        if self._same_names is None:
            word = np.uint64(int.from_bytes(wanted, "big"))
            found = np.flatnonzero((self._last_words == word) & (self._lengths == len(wanted)))
            # Of several in one row the last one stays.
            entries[self._rows_of_entries[found]] = found
        elif wanted in self._same_names:
            each = len(self._same_names)
            last = each - 1 - self._same_names[::-1].index(wanted)
            entries = np.arange(last, len(self._names), each)
        return entries

    def values(self, entries: "NDArray[np.int64]") -> pa.Array:
        """Return the values of some entries, in order."""
        return parts(self._buffer, self._equals[entries] + 1, self._ends[entries], pa.string())

    def texts(self, name: str) -> pa.Array:
        """Return for each row the property with a name of eight letters at the most, or null."""
        entries = self.named(name)
        is_there = entries >= 0
        if is_there.all():
            return self.values(entries)
        found = self.values(entries[is_there])
        return found.take(pa.array(np.cumsum(is_there) - 1, mask=~is_there))

    def map(self) -> pa.Array:
        """Return all properties of each row but the checksum that belongs to the store."""
        names, equals, ends, firsts = self._names, self._equals, self._ends, self._firsts
        hidden = self.named(CRC32)
        if (hidden >= 0).any():
            is_kept = np.ones(len(names), np.bool_)
            is_kept[hidden[hidden >= 0]] = False
            names, equals, ends = names[is_kept], equals[is_kept], ends[is_kept]
            firsts = np.append(0, np.cumsum(is_kept))[firsts]
        if self._same_names is None:
            keys = parts(self._buffer, names, equals, pa.string())
        else:
            keys = repeated([name for name in self._same_names if name != CRC32.encode()], self._count)
        values = parts(self._buffer, equals + 1, ends, pa.string())
        entries = pa.StructArray.from_arrays([keys, values], fields=[MAP.key_field, MAP.item_field])
        starts = pa.py_buffer(firsts.astype(np.int32))
        return pa.Array.from_buffers(MAP, self._count, [None, starts], children=[entries])

    def not_unicode(self) -> "NDArray[np.int64]":
        """Return the rows whose text is not UTF-8, and perhaps others with more than ASCII."""
        text = self._text[_WORD_BYTES : self._bounds[-1]]
        if text.max(initial=0) < 0x80:
            return _NONE
        bounds = pa.py_buffer(self._bounds.astype(np.int32))
        try:
            pa.Array.from_buffers(pa.string(), self._count, [None, bounds, self._buffer]).validate(full=True)
        except pa.ArrowInvalid:
            places = np.flatnonzero(text >= 0x80) + _WORD_BYTES
            return np.unique(np.searchsorted(self._bounds, places, "right") - 1)
        return _NONE

    def maybe_twice(self) -> "NDArray[np.int64]":
        """Return the rows that have one name twice, and perhaps others."""
        if self._same_names is not None:
            is_twice = len(set(self._same_names)) < len(self._same_names)
            return np.arange(self._count) if is_twice else _NONE
        names, rows, most = self._signatures(), self._rows_of_entries, int(np.diff(self._firsts).max())
        found = [
            rows[apart:][(names[apart:] == names[:-apart]) & (rows[apart:] == rows[:-apart])]
            for apart in range(1, most)
        ]
        return np.unique(np.concatenate(found)) if found else _NONE

    def _signatures(self) -> "NDArray[np.uint64]":
        """Return a number for each name: the same for the same name, and seldom so for others."""
        signatures = self._last_words * _FACTORS[0] ^ self._lengths.astype(np.uint64)
        long = np.flatnonzero(self._lengths > _WORD_BYTES)
        signatures[long] ^= unaligned(self._text, ">u8")[self._names[long]] * _FACTORS[1]
        return signatures

    @cached_property
    def _lengths(self) -> "NDArray[np.int64]":
        return self._equals - self._names

    @cached_property
    def _last_words(self) -> "NDArray[np.uint64]":
        """The last eight bytes of each name as a number; a shorter one has zeros in front."""
        words = unaligned(self._text, ">u8")[self._equals - _WORD_BYTES]
        return words & _OF_THE_NAME[np.minimum(self._lengths, _WORD_BYTES)]

    @cached_property
    def _rows_of_entries(self) -> "NDArray[np.int64]":
        return np.repeat(np.arange(self._count), np.diff(self._firsts))


def _behind(ends: "NDArray[np.int64]") -> "NDArray[np.int64]":
    """Return where names begin: at the first byte of all, and behind each end but the last."""
    return np.append(_WORD_BYTES, ends[:-1] + 1)[: len(ends)]
