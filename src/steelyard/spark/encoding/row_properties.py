r"""The properties of rows as the texts they are sent as: name, ``\x01``, value, ``\x02``, for all rows at once.

A frame that was read from a topic has everything in its map that was stored, the brokers' own marks too. What a client
or a broker writes itself is therefore left out of the map without a word (`WRITTEN_BY_OTHERS`), and so are null values.
Where there is a column of tags or keys, it decides, and what the map says of them is left out as well.

What could not be read back is refused, as the client refuses it: empty names and texts, and separators inside.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from steelyard.errors import RowRefused
from steelyard.model.message import KEYS, RESERVED_PROPERTIES, TAGS, UNIQUE_KEY
from steelyard.spark.encoding.row_bytes import as_binary, as_text, cells, lengths_of, span_of
from steelyard.wire.property_names import CHECK_TIMES, INNER_BASE, INNER_COUNT, TRANSACTION_ID, WAIT

__all__ = ["WRITTEN_BY_OTHERS", "id_texts", "key_texts", "own_texts", "tag_texts"]

WRITTEN_BY_OTHERS = RESERVED_PROPERTIES | {CHECK_TIMES, INNER_BASE, INNER_COUNT, TRANSACTION_ID}
"""Names that are left out of the map: clients and brokers write them themselves."""

_EQUALS, _END = b"\x01", b"\x02"
_WAITS = f"\x02{WAIT}\x01true\x02".encode()


def id_texts(column: pa.Array) -> pa.Array:
    r"""Return what each row's message id is sent as, and that its sender waits for the answer.

    >>> id_texts(pa.array([b"order-1"])).to_pylist()
    [b'UNIQ_KEY\x01order-1\x02WAIT\x01true\x02']
    """
    ids = as_text(column)
    if ids.null_count:
        row = int(np.flatnonzero(ids.is_null().to_numpy(zero_copy_only=False))[0])
        raise RowRefused("it is null", row=row, column="id", next_step="fill it, or drop the column")
    _check("id", ids)
    return pc.binary_join_element_wise(f"{UNIQUE_KEY}\x01".encode(), ids, _WAITS, b"")


def own_texts(column: pa.MapArray, *, has_tags: bool, has_keys: bool) -> pa.Array:
    r"""Return the text of each row's map; ``has_tags`` and ``has_keys`` say that columns of their own have those.

    >>> rows = [{"region": "eu", "TAGS": "paid"}, None, {"WAIT": "true"}]
    >>> own_texts(pa.array(rows, pa.map_(pa.string(), pa.string())), has_tags=True, has_keys=True).to_pylist()
    [b'region\x01eu\x02', b'', b'']
    """
    starts = column.offsets.to_numpy().astype(np.int64)
    first, last = int(starts[0]), int(starts[-1])
    names = as_binary(column.keys.slice(first, last - first))
    values = as_binary(column.items.slice(first, last - first))
    starts -= first
    kept = _kept(column, starts, names, values, has_tags, has_keys)
    if not kept.all():
        starts = np.concatenate([[0], np.cumsum(kept)])[starts]
        names, values = names.filter(pa.array(kept)), values.filter(pa.array(kept))
    texts = pc.binary_join_element_wise(names, _EQUALS, values, _END, b"")
    ends, raw = span_of(texts)
    _check_entries(starts, names, values, raw)
    return cells(ends[starts], texts.buffers()[2])


def _kept(
    column: pa.MapArray,
    starts: NDArray[np.int64],
    names: pa.Array,
    values: pa.Array,
    has_tags: bool,
    has_keys: bool,
) -> NDArray[np.bool_]:
    """Say of each entry whether it is sent."""
    dropped = WRITTEN_BY_OTHERS - {
        name for name, is_a_column in ((TAGS, has_tags), (KEYS, has_keys)) if not is_a_column
    }
    known = pa.array([name.encode() for name in sorted(dropped)])
    kept: NDArray[np.bool_] = ~pc.is_in(names, known).to_numpy(zero_copy_only=False)
    if values.null_count:
        kept &= values.is_valid().to_numpy(zero_copy_only=False)
    if column.null_count:  # what lies under a row that is null means nothing
        kept &= np.repeat(column.is_valid().to_numpy(zero_copy_only=False), np.diff(starts))
    return kept


def _check_entries(starts: NDArray[np.int64], names: pa.Array, values: pa.Array, raw: NDArray[np.uint8]) -> None:
    count = len(names)
    are_apart = np.count_nonzero(raw == 1) == count and np.count_nonzero(raw == 2) == count
    if are_apart and lengths_of(names).all() and lengths_of(values).all():
        return
    for texts, what in ((names, "a name"), (values, "the value")):
        for entry, why in _bad_cells(texts):
            row = int(np.searchsorted(starts, entry, side="right")) - 1
            name = names[entry].as_py().decode(errors="replace")
            raise RowRefused(f"{what} of the property {name!r} {why}", row=row, column="properties")


def tag_texts(column: pa.Array) -> pa.Array:
    r"""Return what each row's tag is sent as; null where it has none.

    >>> tag_texts(pa.array(["paid", None])).to_pylist()
    [b'TAGS\x01paid\x02', None]
    """
    tags = as_binary(column)
    _check("tags", tags)
    return pc.binary_join_element_wise(f"{TAGS}\x01".encode(), tags, _END, b"")


def key_texts(column: pa.Array) -> pa.Array:
    r"""Return what each row's keys are sent as, given as one text with blanks between or as a list.

    >>> key_texts(pa.array(["a b", None])).to_pylist()
    [b'KEYS\x01a b\x02', None]
    >>> key_texts(pa.array([["a", "b"], []])).to_pylist()
    [b'KEYS\x01a b\x02', None]
    """
    keys = _joined(column) if isinstance(column, pa.ListArray | pa.LargeListArray) else as_binary(column)
    _check("keys", keys)
    return pc.binary_join_element_wise(f"{KEYS}\x01".encode(), keys, _END, b"")


def _joined(column: pa.ListArray | pa.LargeListArray) -> pa.Array:
    starts = column.offsets.to_numpy().astype(np.int64)
    first = int(starts[0])
    each = as_binary(column.values.slice(first, int(starts[-1]) - first))
    raw = span_of(each)[1]
    if each.null_count or not lengths_of(each).all() or (raw == ord(" ")).any():
        nulls = each.is_null().to_numpy(zero_copy_only=False)
        blanks = pc.match_substring(each, " ").fill_null(False).to_numpy(zero_copy_only=False)
        entry = int(np.flatnonzero(nulls | blanks | (lengths_of(each) == 0))[0])
        row = int(np.searchsorted(starts - first, entry, side="right")) - 1
        why = "is null" if nulls[entry] else "contains a blank, which separates keys" if blanks[entry] else "is empty"
        raise RowRefused(f"one of its keys {why}", row=row, column="keys")
    joined = as_binary(pc.binary_join(column, " "))
    is_empty = lengths_of(joined) == 0
    return pc.if_else(pa.array(~is_empty), joined, None) if is_empty.any() else joined


def _check(column: str, texts: pa.Array) -> None:
    for row, why in _bad_cells(texts):
        raise RowRefused(f"its text {why}", row=row, column=column)


def _bad_cells(texts: pa.Array) -> Iterator[tuple[int, str]]:
    """Yield a text that cannot be sent, by its place, and why not."""
    ends, raw = span_of(texts)
    is_empty = np.diff(ends) == 0
    if texts.null_count:
        is_empty &= texts.is_valid().to_numpy(zero_copy_only=False)
    if is_empty.any():
        yield int(np.flatnonzero(is_empty)[0]), "is empty: give null for none"
    separators = np.flatnonzero((raw == 1) | (raw == 2))
    if len(separators):
        place = int(np.searchsorted(ends, separators[0], side="right")) - 1
        yield place, "holds one of the separators \\x01 and \\x02"
