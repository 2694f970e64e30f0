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
from steelyard.spark.encoding.row_bytes import as_binary, lengths_of, texts_of_width
from steelyard.spark.encoding.row_columns import RowColumns
from steelyard.spark.encoding.row_ids import ID_BYTES, RowIds
from steelyard.spark.encoding.row_properties import key_texts, own_texts, tag_texts
from steelyard.wire.limits import PROPERTIES_BYTES

__all__ = ["encode"]

_HEAD_BYTES = 20
_LENGTH_BYTES = 2


def encode(batch: pa.RecordBatch, columns: RowColumns, ids: RowIds, *, first: int, most_bytes: int) -> pa.Array:
    """Return the rows of a batch as items, a binary column; ``first`` is the first row's number in its task.

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
    property_lengths = sum(map(lengths_of, texts), start=np.full(count, ID_BYTES, np.int64))
    _check_properties(property_lengths)
    heads = np.zeros((count, _HEAD_BYTES // 4), ">i4")
    heads[:, 0] = _HEAD_BYTES + body_lengths + _LENGTH_BYTES + property_lengths
    heads[:, -1] = body_lengths
    # The properties' length and the id are as long for every row: they are one part.
    begun = np.empty((count, _LENGTH_BYTES + ID_BYTES), np.uint8)
    begun[:, :_LENGTH_BYTES] = property_lengths.astype(">u2").view(np.uint8).reshape(-1, _LENGTH_BYTES)
    begun[:, _LENGTH_BYTES:] = ids.texts(first=first, count=count)
    return pc.binary_join_element_wise(
        texts_of_width(heads.view(np.uint8)), body, texts_of_width(begun), *texts, b"", null_handling="skip"
    )


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
