"""Rows to messages as they lie in a batch, for all rows of an Arrow batch at once: nothing here is done row by row.

An item of a batch is: size, two zeros, flag, body with its length, properties with theirs. Of every part a column is
made, and Arrow lays them side by side: the bytes of the joined column are the items back to back, so that some rows in
a line are a batch as they lie there. Whatever cannot be sent is said before anything of the Arrow batch is.

Bodies are sent as they are: batches know no compression, so large bodies are better compressed by whoever makes them.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from steelyard.errors import RowRefused
from steelyard.spark.encoding.row_bytes import as_binary, as_text, lengths_of, texts_of_width
from steelyard.spark.encoding.row_columns import SOURCE, RowColumns
from steelyard.spark.encoding.row_ids import RowIds
from steelyard.spark.encoding.row_properties import id_texts, key_texts, own_texts, tag_texts
from steelyard.wire.limits import PROPERTIES_BYTES

__all__ = ["encode"]

_HEAD_BYTES = 20
_LENGTH_BYTES = 2


def encode(batch: pa.RecordBatch, columns: RowColumns, ids: RowIds, *, most_bytes: int) -> pa.Array:
    """Return the rows of a batch as items, a binary column.

    Raises RowRefused, whose row counts from the batch's beginning.
    """
    count = batch.num_rows
    body = _checked_body(batch.column(columns.body), most_bytes)
    texts: list[pa.Array] = []
    if columns.properties is not None:
        has_tags, has_keys = columns.tags is not None, columns.keys is not None
        texts.append(own_texts(_map(batch.column(columns.properties)), has_tags=has_tags, has_keys=has_keys))
    if columns.tags is not None:
        texts.append(tag_texts(batch.column(columns.tags)))
    if columns.keys is not None:
        texts.append(key_texts(batch.column(columns.keys)))
    body_lengths = lengths_of(body)
    own = None if columns.id is None else batch.column(columns.id)
    texts.insert(0, id_texts(ids.of(_contents(batch, columns, body, texts)) if own is None else own))
    property_lengths = sum(map(lengths_of, texts), start=np.zeros(count, np.int64))
    _check_properties(property_lengths)
    heads = np.zeros((count, _HEAD_BYTES // 4), ">i4")
    heads[:, 0] = _HEAD_BYTES + body_lengths + _LENGTH_BYTES + property_lengths
    heads[:, -1] = body_lengths
    lengths = texts_of_width(property_lengths.astype(">u2").view(np.uint8).reshape(-1, _LENGTH_BYTES))
    return pc.binary_join_element_wise(
        texts_of_width(heads.view(np.uint8)), body, lengths, *texts, b"", null_handling="skip"
    )


def _contents(batch: pa.RecordBatch, columns: RowColumns, body: pa.Array, texts: list[pa.Array]) -> pa.Array:
    """Return what each row says, with all that tells it from others: equal texts are equal rows."""
    places = {"topic": columns.topic, "key": columns.key, "delay": columns.delay}
    places |= dict(zip(SOURCE, columns.source or (), strict=False))
    # No property has an empty name: so whatever comes behind such a one is none.
    others = [
        pc.binary_join_element_wise(f"\x01{name}\x01".encode(), as_text(batch.column(place)), b"\x02", b"")
        for name, place in places.items()
        if place is not None
    ]
    lengths = texts_of_width(lengths_of(body).astype(">i4").view(np.uint8).reshape(-1, 4))
    return pc.binary_join_element_wise(lengths, body, *texts, *others, b"", null_handling="skip")


def _checked_body(column: pa.Array, most_bytes: int) -> pa.Array:
    body = as_binary(column)
    lengths = lengths_of(body)
    if lengths.size and not (lengths.min() and lengths.max() <= most_bytes):
        row = int(np.flatnonzero((lengths == 0) | (lengths > most_bytes))[0])
        if lengths[row]:
            raise RowRefused(
                f"its body has {lengths[row]} bytes, the limit is {most_bytes}",
                row=row,
                column="body",
                next_step="send less, or raise maxMessageBytes here and maxMessageSize at the brokers",
            )
        why = "its body is empty" if body[row].is_valid else "its body is null"
        raise RowRefused(
            why, row=row, column="body", next_step="filter such rows out, or give them a body: brokers refuse them"
        )
    return body


def _check_properties(lengths: NDArray[np.int64]) -> None:
    if lengths.size and lengths.max() > PROPERTIES_BYTES:
        row = int(np.argmax(lengths))
        raise RowRefused(
            f"tag, keys and properties have {lengths[row]} bytes together, the limit is {PROPERTIES_BYTES}",
            row=row,
            column="properties",
            next_step="say less in them, or put it into the body",
        )


def _map(column: pa.Array) -> pa.MapArray:
    assert isinstance(column, pa.MapArray)
    return column
