r"""The properties of many rows at once: the map of all of them, and single ones by name.

The rules are those of wire/properties.py: an entry without a name or a value is dropped, a missing last ``\x02`` is
accepted, what follows the first ``\x01`` is the value, the last of two entries with one name wins.

All texts are copied into one, each ending with ``\x02``, and all separators are found in one search. Rows of one
producer mostly have the same names in the same order: that is checked first, since names need no search and no copy
then. Duplicate names are not rare: to each message of a batch Apache's broker adds the properties of the batch, and
producers set WAIT in both. Left to the caller: rows whose text is not UTF-8.
"""

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from steelyard.spark.arrow_buffers import binary_slices, repeated_texts, unaligned_view
from steelyard.wire.property_names import CRC32

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from steelyard.spark.decode_records import RecordColumns

PROPERTY_MAP = pa.map_(pa.string(), pa.string())

_EQUALS, _END = 1, 2
_EQUALS_BYTE, _END_BYTE = b"\x01", b"\x02"

# The last eight bytes of a name are compared at once: that many must precede the first name.
_WORD_BYTES = 8
_NAME_MASKS = np.array([(1 << 8 * length) - 1 for length in range(_WORD_BYTES + 1)], np.uint64)

# Odd numbers without a pattern.
_HASH_FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xFF51AFD7ED558CCD], np.uint64)

_NO_ROWS = np.empty(0, np.int64)


class PropertyColumns:
    """The properties of rows, split into entries."""

    # For each entry the start of its name, the separator, and the end of its value; and the index of the first entry
    # of each row, with the number of entries at the end.
    _names: "NDArray[np.int64]"
    _equals: "NDArray[np.int64]"
    _ends: "NDArray[np.int64]"
    _firsts: "NDArray[np.int64]"

    def __init__(self, rows: "RecordColumns") -> None:
        self._count = len(rows)
        self._join(rows)
        self._split()

    def _join(self, rows: "RecordColumns") -> None:
        r"""Copy all texts into one. A row without a final \x02 gets one."""
        data = np.frombuffer(rows.data, np.uint8)
        starts, ends = rows.properties, rows.ends
        is_open = (data[ends - 1] != _END) & (ends > starts)
        self._bounds = np.empty(self._count + 1, np.int64)
        self._bounds[0] = _WORD_BYTES
        np.cumsum(ends - starts + is_open, out=self._bounds[1:])
        self._bounds[1:] += _WORD_BYTES
        starts, ends = np.append(0, starts), np.append(_WORD_BYTES, np.minimum(ends + is_open, len(data)))
        joined = binary_slices(rows.buffer, starts, ends, pa.binary()).buffers()[2]
        assert joined is not None
        text = np.frombuffer(memoryview(joined), np.uint8)
        if is_open.any():
            # One more: the last row may be the end of the data.
            text = np.append(text, np.uint8(_END))
            text[self._bounds[1:][is_open] - 1] = _END
            joined = pa.py_buffer(text)
        self._text, self._buffer = text, joined

    def _split(self) -> None:
        """Split the text into entries."""
        text = self._text[: self._bounds[-1]]
        ends = np.flatnonzero(text[_WORD_BYTES:] == _END) + _WORD_BYTES
        names = np.append(_WORD_BYTES, ends[:-1] + 1)[: len(ends)]
        self._shared_names = self._find_shared_names(names, ends)
        if self._shared_names is not None:
            each = len(self._shared_names)
            lengths = [len(name) for name in self._shared_names]
            equals = (names.reshape(self._count, each) + np.array(lengths)).ravel()
            self._firsts = np.arange(0, len(ends) + 1, each)
        else:
            equals = np.flatnonzero(text[_WORD_BYTES:] == _EQUALS) + _WORD_BYTES
            if len(equals) != len(ends) or not ((names <= equals) & (equals < ends)).all():
                # Entries without a separator, or with several, of which the first counts.
                equals = np.append(equals, len(text))
                equals = np.minimum(equals[np.searchsorted(equals, names)], ends)
            is_kept = (equals > names) & (ends > equals + 1)
            if not is_kept.all():
                names, equals, ends = names[is_kept], equals[is_kept], ends[is_kept]
            self._firsts = np.searchsorted(ends, self._bounds)
        self._names, self._equals, self._ends = names, equals, ends

    def _find_shared_names(self, names: "NDArray[np.int64]", ends: "NDArray[np.int64]") -> list[bytes] | None:
        """Return the names of the first row if all rows have the same in the same order, each with a value."""
        entries = self._text[_WORD_BYTES : self._bounds[1]].tobytes().split(_END_BYTE)[:-1]
        each, found = len(entries), [entry.partition(_EQUALS_BYTE)[0] for entry in entries]
        if not all(found) or len(ends) != each * self._count or not each:
            return None
        lengths = np.array([len(name) for name in found])
        is_whole = names.reshape(self._count, each) + lengths < ends.reshape(self._count, each) - 1
        if not is_whole.all() or (ends[each - 1 :: each] != self._bounds[1:] - 1).any():
            return None
        for name, places in zip(found, names.reshape(self._count, each).T, strict=True):
            opening = name + _EQUALS_BYTE
            if unaligned_view(self._text, f"V{len(opening)}")[places].tobytes() != opening * self._count:
                return None
        return found

    def column(self, name: str) -> pa.Array:
        """Return for each row the property with a name of at most eight bytes, or null."""
        found = self._entries_named(name)
        if not len(found):
            return pa.nulls(self._count, pa.string())
        entries = np.full(self._count, -1)
        # The last of several in one row wins.
        entries[self._rows_of_found(found)] = found
        is_there = entries >= 0
        if is_there.all():
            return self._values(entries)
        return self._values(entries[is_there]).take(pa.array(np.cumsum(is_there) - 1, mask=~is_there))

    def map_column(self) -> pa.Array:
        """Return all properties of each row but the checksum of the store."""
        if self._shared_names is not None:
            # The last of several with one name wins, at the position of the first.
            kept = {name: place for place, name in enumerate(self._shared_names) if name != CRC32.encode()}
            firsts = np.arange(self._count + 1) * len(kept)
            keys, values = repeated_texts(list(kept), self._count), self._values(slice(None))
            if len(kept) < len(self._shared_names):
                places = np.array(list(kept.values()), np.int64)
                values = values.take(pa.array((self._firsts[:-1, None] + places).ravel()))
        else:
            entries, firsts = self._entries_of_map()
            keys = binary_slices(self._buffer, self._names, self._equals, pa.string())
            values = self._values(slice(None))
            if len(entries) < len(keys):
                keys, values = keys.take(pa.array(entries)), values.take(pa.array(entries))
        pairs = pa.StructArray.from_arrays([keys, values], fields=[PROPERTY_MAP.key_field, PROPERTY_MAP.item_field])
        starts = pa.py_buffer(firsts.astype(np.int32))
        return pa.Array.from_buffers(PROPERTY_MAP, self._count, [None, starts], children=[pairs])

    def _entries_of_map(self) -> "tuple[NDArray[np.int64], NDArray[np.int64]]":
        """Return the entries of the map, and the index of the first of each row among these."""
        hidden, entries = self._entries_named(CRC32), np.arange(len(self._names))
        if self._may_have_duplicates():
            entries = self._last_duplicates()
        elif not len(hidden):
            return entries, self._firsts
        is_shown = np.ones(len(self._names), np.bool_)
        is_shown[hidden] = False
        entries = entries[is_shown[entries]]
        counts = np.bincount(self._rows_of_entries[entries], minlength=self._count)
        return entries, np.append(0, np.cumsum(counts))

    def _last_duplicates(self) -> "NDArray[np.int64]":
        """Return the last entry of each name of each row, in the order of the first ones."""
        names = binary_slices(self._buffer, self._names, self._equals, pa.binary()).dictionary_encode()
        which = self._rows_of_entries * len(names.dictionary) + names.indices.to_numpy()
        order = np.argsort(which, kind="stable")
        is_next = np.diff(which[order]) != 0
        firsts, lasts = order[np.append(True, is_next)], order[np.append(is_next, True)]
        in_order: NDArray[np.int64] = lasts[np.argsort(firsts)]
        return in_order

    def _values(self, entries: "NDArray[np.int64] | NDArray[np.bool_] | slice") -> pa.Array:
        return binary_slices(self._buffer, self._equals[entries] + 1, self._ends[entries], pa.string())

    def _entries_named(self, name: str) -> "NDArray[np.int64]":
        """Return all entries with a name of at most eight bytes."""
        wanted = name.encode()
        if self._shared_names is not None:
            places = [place for place, each in enumerate(self._shared_names) if each == wanted]
            return (self._firsts[:-1, None] + np.array(places, np.int64)).ravel()
        word = np.uint64(int.from_bytes(wanted, "big"))
        return np.flatnonzero((self._last_words == word) & (self._lengths == len(wanted)))

    def _rows_of_found(self, entries: "NDArray[np.int64]") -> "NDArray[np.int64]":
        if self._shared_names is not None:
            return entries // len(self._shared_names)
        return self._rows_of_entries[entries]

    def invalid_utf8_rows(self) -> "NDArray[np.int64]":
        """Return the rows whose text is not UTF-8, and perhaps others with non-ASCII text."""
        text = self._text[_WORD_BYTES : self._bounds[-1]]
        if text.max(initial=0) < 0x80:
            return _NO_ROWS
        bounds = pa.py_buffer(self._bounds.astype(np.int32))
        try:
            pa.Array.from_buffers(pa.string(), self._count, [None, bounds, self._buffer]).validate(full=True)
        except pa.ArrowInvalid:
            places = np.flatnonzero(text >= 0x80) + _WORD_BYTES
            return np.unique(np.searchsorted(self._bounds, places, "right") - 1)
        return _NO_ROWS

    def _may_have_duplicates(self) -> bool:
        """Say whether some row may have a duplicate name; false positives are rare."""
        # The row is part of the hash, so that equal hashes are equal names of one row.
        in_order = np.sort(self._name_hashes() + self._rows_of_entries.astype(np.uint64) * _HASH_FACTORS[2])
        return bool((in_order[1:] == in_order[:-1]).any())

    def _name_hashes(self) -> "NDArray[np.uint64]":
        """Return a hash of each name."""
        numbers: NDArray[np.uint64] = self._last_words * _HASH_FACTORS[0] ^ self._lengths.astype(np.uint64)
        long = np.flatnonzero(self._lengths > _WORD_BYTES)
        numbers[long] ^= unaligned_view(self._text, ">u8")[self._names[long]] * _HASH_FACTORS[1]
        return numbers

    @cached_property
    def _lengths(self) -> "NDArray[np.int64]":
        return self._equals - self._names

    @cached_property
    def _last_words(self) -> "NDArray[np.uint64]":
        """The last eight bytes of each name as a number; a shorter one is zero-padded."""
        words: NDArray[np.uint64] = unaligned_view(self._text, ">u8")[self._equals - _WORD_BYTES]
        return words & _NAME_MASKS[np.minimum(self._lengths, _WORD_BYTES)]

    @cached_property
    def _rows_of_entries(self) -> "NDArray[np.int64]":
        return np.repeat(np.arange(self._count), np.diff(self._firsts))
