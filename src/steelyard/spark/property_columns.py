r"""The properties of many rows at once: the map of all of them, and single ones by name.

The rules are those of wire/properties.py: an entry without a name or a value is dropped, a missing last ``\x02`` is
forgiven, what follows the first ``\x01`` is the value, the last of two entries with one name counts.

All texts are copied into one, each ending with ``\x02``, and all separators are found in one search. What cannot be done
so is left to the caller: `Properties.odd` are rows whose text is not UTF-8, or where one name may stand twice.
"""

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from steelyard.spark.record_walk import unaligned
from steelyard.spark.segments import every, numbers, parts
from steelyard.wire.property_names import CRC32

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from steelyard.spark.record_columns import Rows

__all__ = ["MAP", "Properties"]

MAP = pa.map_(pa.string(), pa.string())

_EQUALS, _END = 1, 2

# Names are compared eight bytes at a time: that many must stand before the first of them.
_WORD_BYTES = 8
_KEPT_BYTES = np.array([(1 << 8 * length) - 1 for length in range(_WORD_BYTES + 1)], np.uint64)
_FACTORS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))


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
        # What stands before the first text is there to be compared, too: see `_signatures`.
        self._bounds = np.empty(self._count + 1, np.int64)
        self._bounds[0] = _WORD_BYTES
        np.cumsum(ends - starts + is_open, out=self._bounds[1:])
        self._bounds[1:] += _WORD_BYTES
        starts, ends = np.append(0, starts), np.append(_WORD_BYTES, np.minimum(ends + is_open, len(data)))
        joined = parts(rows.buffer, starts, ends, pa.binary()).buffers()[2]
        assert joined is not None
        text = np.frombuffer(joined, np.uint8)
        if is_open.any():
            text = np.append(text, np.uint8(_END))
            text[self._bounds[1:][is_open] - 1] = _END
            joined = pa.py_buffer(text)
        self._text, self._buffer = text, joined

    def _split(self) -> None:
        """Find the entries: where each name begins, its separator, and where the value ends."""
        text = self._text
        marks = np.flatnonzero((text[_WORD_BYTES : self._bounds[-1]] - np.uint8(1)) < 2) + _WORD_BYTES
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
        count, entries = self._count, len(self._ends)
        each = entries // count if count else 0
        if each and each * count == entries and (self._ends[each - 1 :: each] == self._bounds[1:] - 1).all():
            return np.arange(0, entries + 1, each)
        return np.searchsorted(self._ends, self._bounds)

    def named(self, name: str) -> "NDArray[np.int64]":
        """Return for each row the number of the entry with a name, or -1."""
        wanted = np.frombuffer(name.encode(), np.uint8)
        found = np.flatnonzero(self._equals - self._names == len(wanted))
        at = unaligned(self._text, f"V{len(wanted)}")[self._names[found]]
        found = found[(at.view(np.uint8).reshape(len(found), len(wanted)) == wanted).all(axis=1)]
        entries = np.full(self._count, -1, np.int64)
        # Of several in one row the last one stays.
        entries[np.searchsorted(self._firsts, found, "right") - 1] = found
        return entries

    def values(self, entries: "NDArray[np.int64]") -> pa.Array:
        """Return the values of some entries, in order."""
        return parts(self._buffer, self._equals[entries] + 1, self._ends[entries], pa.string())

    def texts(self, name: str) -> pa.Array:
        """Return for each row the property with a name, or null."""
        entries = self.named(name)
        is_there = entries >= 0
        if is_there.all():
            return self.values(entries)
        found = self.values(entries[is_there])
        return found.take(pa.array(np.cumsum(is_there) - 1, mask=~is_there))

    def map(self) -> pa.Array:
        """Return all properties of each row."""
        names, equals, ends, firsts = self._names, self._equals, self._ends, self._firsts
        hidden = self.named(CRC32)
        if (hidden >= 0).any():
            is_kept = np.ones(len(names), np.bool_)
            is_kept[hidden[hidden >= 0]] = False
            names, equals, ends = names[is_kept], equals[is_kept], ends[is_kept]
            firsts = np.append(0, np.cumsum(is_kept))[firsts]
        count = len(names)
        if not count:
            entries = [pa.array([], pa.string())] * 2
        else:
            offsets = np.empty(4 * count, np.int32)
            offsets[0::4], offsets[1::4], offsets[2::4], offsets[3::4] = names, equals, equals + 1, ends
            with_marks = pa.Array.from_buffers(
                pa.string(), 4 * count - 1, [None, pa.py_buffer(offsets), self._buffer]
            )
            entries = [with_marks.take(every(4, count, first)) for first in (0, 2)]
        pairs = pa.StructArray.from_arrays(entries, fields=[MAP.key_field, MAP.item_field])
        starts = pa.py_buffer(firsts.astype(np.int32))
        return pa.Array.from_buffers(MAP, self._count, [None, starts], children=[pairs])

    @cached_property
    def not_unicode(self) -> "NDArray[np.int64]":
        """The rows whose text is not UTF-8."""
        text = self._text[_WORD_BYTES : self._bounds[-1]]
        if text.max(initial=0) < 0x80:
            return np.empty(0, np.int64)
        offsets = pa.py_buffer(self._bounds.astype(np.int32))
        try:
            pa.Array.from_buffers(pa.string(), self._count, [None, offsets, self._buffer]).validate(full=True)
        except pa.ArrowInvalid:
            places = np.flatnonzero(text >= 0x80) + _WORD_BYTES
            return np.unique(np.searchsorted(self._bounds, places, "right") - 1)
        return np.empty(0, np.int64)

    @cached_property
    def maybe_twice(self) -> "NDArray[np.int64]":
        """The rows that may have one name twice: all that have, and some that do not."""
        marks = self._signatures()
        most = int(np.diff(self._firsts).max(initial=0))
        rows = np.repeat(np.arange(self._count), np.diff(self._firsts))
        found = [
            rows[distance:][(marks[distance:] == marks[:-distance]) & (rows[distance:] == rows[:-distance])]
            for distance in range(1, most)
        ]
        return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)

    def _signatures(self) -> "NDArray[np.uint64]":
        """Return a number for each name: the same for the same name, and seldom so for others."""
        words, lengths = unaligned(self._text, ">u8"), self._equals - self._names
        kept, lasts = _KEPT_BYTES[np.minimum(lengths, _WORD_BYTES)], self._equals - _WORD_BYTES
        # Of a short name both are the same word, with bytes of what stands before it that do not count.
        first, last = words[np.minimum(self._names, lasts)] & kept, words[lasts] & kept
        return first * _FACTORS[0] ^ last * _FACTORS[1] ^ lengths.astype(np.uint64)


def _behind(ends: "NDArray[np.int64]") -> "NDArray[np.int64]":
    names = np.full(len(ends), _WORD_BYTES, np.int64)
    names[1:] = ends[:-1] + 1
    return names
