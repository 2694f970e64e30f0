r"""Encodes Arrow batches as message batches, all rows at once: by topic and, where they have keys, by queue.

A row becomes an item of a batch: size, two zeros, flag, body with its length, properties with theirs. Each part is a
column, and the bytes of the joined column are the items back to back, so that neighbouring rows are a batch as they
lie. Anything that cannot be sent is an error before anything of the Arrow batch is sent. Rows of one topic and queue
are laid side by side in order, a batch is a slice of that, and the batches of different queues take turns, so that no
broker waits for another. A row is sent alone if it has a delay, which no batch can have, or if it is larger than a
batch may be. Bodies are not compressed: batches do not support it.

Properties are name, ``\x01``, value, ``\x02``. A frame that was read from a topic has everything in its map that was
stored: what clients and brokers write themselves (`_SYSTEM_PROPERTIES`) is dropped, and so are nulls. Columns for tags
or keys override the map. Queues follow keys by `steelyard.balance.producer.queue_selection`: Java's hash modulo the
number of queues. The hash of many texts is one prefix sum over all bytes, since 31 has an inverse modulo 2³².
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise, zip_longest
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from steelyard.client.bulk.bulk_sender import MAX_BATCH_MESSAGES, EncodedBatch, can_batch
from steelyard.errors import RowRefused
from steelyard.model import Queue, java_hash
from steelyard.model.message import KEYS, RESERVED_PROPERTIES, TAGS, UNIQUE_KEY
from steelyard.spark.arrow_buffers import (
    as_binary,
    as_text,
    binary_column,
    byte_lengths,
    fixed_width_column,
    is_integer,
    offsets_and_bytes,
)
from steelyard.spark.deterministic_ids import DeterministicIds
from steelyard.spark.options import WriteOptions
from steelyard.spark.schema import SOURCE_COLUMNS, WriteColumns
from steelyard.wire.limits import PROPERTIES_BYTES
from steelyard.wire.property_names import CHECK_TIMES, INNER_BASE, INNER_COUNT, TRANSACTION_ID, WAIT

_SYSTEM_PROPERTIES = RESERVED_PROPERTIES | {CHECK_TIMES, INNER_BASE, INNER_COUNT, TRANSACTION_ID}
"""Dropped from the map: clients and brokers write them themselves."""

_EQUALS, _END = b"\x01", b"\x02"
_WAIT_PROPERTY = f"\x02{WAIT}\x01true\x02".encode()


def _id_properties(column: pa.Array) -> pa.Array:
    r"""Encode the message id of each row, and the flag that its sender waits for the response.

    >>> _id_properties(pa.array([b"order-1"])).to_pylist()
    [b'UNIQ_KEY\x01order-1\x02WAIT\x01true\x02']
    """
    ids = as_text(column)
    if ids.null_count:
        row = int(np.flatnonzero(ids.is_null().to_numpy(zero_copy_only=False))[0])
        raise RowRefused("it is null", row=row, column="id", next_step="fill it, or drop the column")
    _check_texts("id", ids)
    return pc.binary_join_element_wise(f"{UNIQUE_KEY}\x01".encode(), ids, _WAIT_PROPERTY, b"")


def _map_properties(column: pa.MapArray, *, has_tags: bool, has_keys: bool) -> pa.Array:
    r"""Encode the map of each row; ``has_tags`` and ``has_keys`` say that there are columns for those.

    >>> rows = [{"region": "eu", "TAGS": "paid"}, None, {"WAIT": "true"}]
    >>> _map_properties(pa.array(rows, pa.map_(pa.string(), pa.string())), has_tags=True, has_keys=True).to_pylist()
    [b'region\x01eu\x02', b'', b'']
    """
    starts = column.offsets.to_numpy().astype(np.int64)
    first, last = int(starts[0]), int(starts[-1])
    names = as_binary(column.keys.slice(first, last - first))
    values = as_binary(column.items.slice(first, last - first))
    starts -= first
    kept = _sent_entries(column, starts, names, values, has_tags, has_keys)
    if not kept.all():
        starts = np.concatenate([[0], np.cumsum(kept)])[starts]
        names, values = names.filter(pa.array(kept)), values.filter(pa.array(kept))
    texts = pc.binary_join_element_wise(names, _EQUALS, values, _END, b"")
    ends, raw = offsets_and_bytes(texts)
    _check_entries(starts, names, values, raw)
    return binary_column(ends[starts], texts.buffers()[2])


def _sent_entries(
    column: pa.MapArray,
    starts: NDArray[np.int64],
    names: pa.Array,
    values: pa.Array,
    has_tags: bool,
    has_keys: bool,
) -> NDArray[np.bool_]:
    """Return for each entry whether it is sent."""
    dropped = _SYSTEM_PROPERTIES - {
        name for name, is_a_column in ((TAGS, has_tags), (KEYS, has_keys)) if not is_a_column
    }
    known = pa.array([name.encode() for name in sorted(dropped)])
    kept: NDArray[np.bool_] = ~pc.is_in(names, known).to_numpy(zero_copy_only=False)
    if values.null_count:
        kept &= values.is_valid().to_numpy(zero_copy_only=False)
    if column.null_count:  # the entries of a null row are undefined
        kept &= np.repeat(column.is_valid().to_numpy(zero_copy_only=False), np.diff(starts))
    return kept


def _check_entries(starts: NDArray[np.int64], names: pa.Array, values: pa.Array, raw: NDArray[np.uint8]) -> None:
    count = len(names)
    are_apart = np.count_nonzero(raw == 1) == count and np.count_nonzero(raw == 2) == count
    if are_apart and byte_lengths(names).all() and byte_lengths(values).all():
        return
    for texts, what in ((names, "a name"), (values, "the value")):
        for entry, why in _invalid_cells(texts):
            row = int(np.searchsorted(starts, entry, side="right")) - 1
            name = names[entry].as_py().decode(errors="replace")
            raise RowRefused(f"{what} of the property {name!r} {why}", row=row, column="properties")


def _tag_properties(column: pa.Array) -> pa.Array:
    r"""Encode the tag of each row; null where it has none.

    >>> _tag_properties(pa.array(["paid", None])).to_pylist()
    [b'TAGS\x01paid\x02', None]
    """
    tags = as_binary(column)
    _check_texts("tags", tags)
    return pc.binary_join_element_wise(f"{TAGS}\x01".encode(), tags, _END, b"")


def _key_properties(column: pa.Array) -> pa.Array:
    r"""Encode the keys of each row, given as one text with blanks between or as a list.

    >>> _key_properties(pa.array(["a b", None])).to_pylist()
    [b'KEYS\x01a b\x02', None]
    >>> _key_properties(pa.array([["a", "b"], []])).to_pylist()
    [b'KEYS\x01a b\x02', None]
    """
    keys = _join_keys(column) if isinstance(column, pa.ListArray | pa.LargeListArray) else as_binary(column)
    _check_texts("keys", keys)
    return pc.binary_join_element_wise(f"{KEYS}\x01".encode(), keys, _END, b"")


def _join_keys(column: pa.ListArray | pa.LargeListArray) -> pa.Array:
    starts = column.offsets.to_numpy().astype(np.int64)
    first = int(starts[0])
    each = as_binary(column.values.slice(first, int(starts[-1]) - first))
    raw = offsets_and_bytes(each)[1]
    if each.null_count or not byte_lengths(each).all() or (raw == ord(" ")).any():
        nulls = each.is_null().to_numpy(zero_copy_only=False)
        blanks = pc.match_substring(each, " ").fill_null(False).to_numpy(zero_copy_only=False)
        entry = int(np.flatnonzero(nulls | blanks | (byte_lengths(each) == 0))[0])
        row = int(np.searchsorted(starts - first, entry, side="right")) - 1
        why = "is null" if nulls[entry] else "contains a blank, which separates keys" if blanks[entry] else "is empty"
        raise RowRefused(f"one of its keys {why}", row=row, column="keys")
    joined = as_binary(pc.binary_join(column, " "))
    is_empty = byte_lengths(joined) == 0
    return pc.if_else(pa.array(~is_empty), joined, None) if is_empty.any() else joined


def _check_texts(column: str, texts: pa.Array) -> None:
    for row, why in _invalid_cells(texts):
        raise RowRefused(f"its text {why}", row=row, column=column)


def _invalid_cells(texts: pa.Array) -> Iterator[tuple[int, str]]:
    """Yield the index of a text that cannot be sent, and why not."""
    ends, raw = offsets_and_bytes(texts)
    is_empty = np.diff(ends) == 0
    if texts.null_count:
        is_empty &= texts.is_valid().to_numpy(zero_copy_only=False)
    if is_empty.any():
        yield int(np.flatnonzero(is_empty)[0]), "is empty: give null for none"
    separators = np.flatnonzero((raw == 1) | (raw == 2))
    if len(separators):
        place = int(np.searchsorted(ends, separators[0], side="right")) - 1
        yield place, "holds one of the separators \\x01 and \\x02"


_HEAD_BYTES = 20
_LENGTH_BYTES = 2


def encode_rows(batch: pa.RecordBatch, columns: WriteColumns, ids: DeterministicIds, *, max_bytes: int) -> pa.Array:
    """Encode the rows of a batch as items, a binary column.

    Raises RowRefused, whose row counts from the start of the batch.
    """
    count = batch.num_rows
    body = _check_body(batch.column(columns.body), max_bytes)
    texts: list[pa.Array] = []
    if columns.properties is not None:
        has_tags, has_keys = columns.tags is not None, columns.keys is not None
        texts.append(_map_properties(_as_map(batch.column(columns.properties)), has_tags=has_tags, has_keys=has_keys))
    if columns.tags is not None:
        texts.append(_tag_properties(batch.column(columns.tags)))
    if columns.keys is not None:
        texts.append(_key_properties(batch.column(columns.keys)))
    body_lengths = byte_lengths(body)
    own = None if columns.id is None else batch.column(columns.id)
    texts.insert(0, _id_properties(ids.next_ids(_row_contents(batch, columns, body, texts)) if own is None else own))
    property_lengths = sum(map(byte_lengths, texts), start=np.zeros(count, np.int64))
    _check_properties(property_lengths)
    heads = np.zeros((count, _HEAD_BYTES // 4), ">i4")
    heads[:, 0] = _HEAD_BYTES + body_lengths + _LENGTH_BYTES + property_lengths
    heads[:, -1] = body_lengths
    lengths = fixed_width_column(property_lengths.astype(">u2").view(np.uint8).reshape(-1, _LENGTH_BYTES))
    return pc.binary_join_element_wise(
        fixed_width_column(heads.view(np.uint8)), body, lengths, *texts, b"", null_handling="skip"
    )


def _row_contents(batch: pa.RecordBatch, columns: WriteColumns, body: pa.Array, texts: list[pa.Array]) -> pa.Array:
    """Return the contents of each row for its id: equal contents are equal rows."""
    places = {"topic": columns.topic, "key": columns.key, "delay": columns.delay}
    places |= dict(zip(SOURCE_COLUMNS, columns.source or (), strict=False))
    # No property has an empty name: so what follows an empty one is unambiguous.
    others = [
        pc.binary_join_element_wise(f"\x01{name}\x01".encode(), as_text(batch.column(place)), b"\x02", b"")
        for name, place in places.items()
        if place is not None
    ]
    lengths = fixed_width_column(byte_lengths(body).astype(">i4").view(np.uint8).reshape(-1, 4))
    return pc.binary_join_element_wise(lengths, body, *texts, *others, b"", null_handling="skip")


def _check_body(column: pa.Array, max_bytes: int) -> pa.Array:
    body = as_binary(column)
    lengths = byte_lengths(body)
    if lengths.size and not (lengths.min() and lengths.max() <= max_bytes):
        row = int(np.flatnonzero((lengths == 0) | (lengths > max_bytes))[0])
        if lengths[row]:
            raise RowRefused(
                f"its body has {lengths[row]} bytes, the limit is {max_bytes}",
                row=row,
                column="body",
                next_step="send less, or raise maxMessageBytes here and maxMessageSize at the brokers",
            )
        why = "its body is empty" if body[row].is_valid else "its body is null"
        raise RowRefused(
            why, row=row, column="body", next_step="filter such rows out, or give them a body: brokers reject them"
        )
    return body


def _check_properties(lengths: NDArray[np.int64]) -> None:
    if lengths.size and lengths.max() > PROPERTIES_BYTES:
        row = int(np.argmax(lengths))
        raise RowRefused(
            f"tag, keys and properties have {lengths[row]} bytes together, the limit is {PROPERTIES_BYTES}",
            row=row,
            column="properties",
            next_step="shorten them, or move them into the body",
        )


def _as_map(column: pa.Array) -> pa.MapArray:
    assert isinstance(column, pa.MapArray)
    return column


_INVERSE = pow(31, -1, 1 << 32)
_32_BITS = 1 << 32


def queue_indexes(keys: pa.Array, queues: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the queue index for each key, a text or an integer; -1 where it is null.

    ``queues`` is the number of queues, which may differ from row to row, as topics do.

    >>> queue_indexes(pa.array(["order-1", None, "order-2"]), 4).tolist()
    [2, -1, 1]
    """
    hashes = _integer_hashes(keys) if is_integer(keys.type) else java_hashes(keys)
    numbers = np.abs(hashes) % np.asarray(queues, np.int64)
    if keys.null_count:
        numbers[keys.is_null().to_numpy(zero_copy_only=False)] = -1
    return numbers


def java_hashes(texts: pa.Array) -> NDArray[np.int64]:
    """Return Java's ``String.hashCode`` of each text; 0 where it is null.

    >>> java_hashes(pa.array(["TagA", "order-1", "", None, "größe"])).tolist()
    [2598919, -1207111310, 0, 0, 98762257]
    """
    ends, raw = offsets_and_bytes(texts)
    powers, weights = _powers(len(raw) + 1)
    sums = np.zeros(len(raw) + 1, np.uint32)
    np.cumsum(raw * weights[: len(raw)], dtype=np.uint32, out=sums[1:])
    grown = sums[ends[1:]] - sums[ends[:-1]]
    hashes = (grown * powers[np.maximum(ends[1:] - 1, 0)]).view(np.int32).astype(np.int64)
    if len(raw) and raw.max() >= 0x80:
        _hash_one_by_one(texts, ends, raw, hashes)
    if texts.null_count:
        hashes[texts.is_null().to_numpy(zero_copy_only=False)] = 0
    return hashes


def _powers(count: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the first powers of 31, and of its inverse, modulo 2³²."""
    powers, weights = np.full(count, 31, np.uint32), np.full(count, _INVERSE, np.uint32)
    powers[0] = weights[0] = 1
    return np.multiply.accumulate(powers, dtype=np.uint32), np.multiply.accumulate(weights, dtype=np.uint32)


def _hash_one_by_one(
    texts: pa.Array, ends: NDArray[np.int64], raw: NDArray[np.uint8], hashes: NDArray[np.int64]
) -> None:
    """Replace the hashes of texts that are not ASCII: Java hashes UTF-16."""
    seen = np.zeros(len(raw) + 1, np.int64)
    np.cumsum(raw >= 0x80, out=seen[1:])
    places = np.flatnonzero(seen[ends[1:]] > seen[ends[:-1]])
    encoded = as_binary(texts).take(places).dictionary_encode()
    each = [java_hash(text.decode(errors="replace")) for text in encoded.dictionary.to_pylist()]
    hashes[places] = np.array(each, np.int64)[encoded.indices.to_numpy(zero_copy_only=False)]


def _integer_hashes(keys: pa.Array) -> NDArray[np.int64]:
    """Return Java's hash codes of integers: 32-bit values as they are, longer ones with their halves xored."""
    numbers = pc.cast(keys.fill_null(0) if keys.null_count else keys, pa.int64()).to_numpy(zero_copy_only=False)
    short = numbers.astype(np.int32).astype(np.int64)
    unsigned = numbers.view(np.uint64)
    folded = (unsigned ^ (unsigned >> np.uint64(32))).astype(np.uint32).view(np.int32).astype(np.int64)
    return np.where(short == numbers, numbers, folded)


_ENCODE_BYTES = 32 << 20
"""How much of an Arrow batch is encoded at a time: a column is limited to 2 GiB, and memory is scarce."""

_LANES = 1 << 32  # a lane is a topic and, within it, 0 for any queue or the index of one, from 1 on


def split_batch(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split a very large batch."""
    rows = max(1, batch.num_rows * _ENCODE_BYTES // max(1, batch.nbytes))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def message_batches(
    batch: pa.RecordBatch,
    columns: WriteColumns,
    options: WriteOptions,
    ids: DeterministicIds,
    queues_of: Callable[[str], Sequence[Queue]],
) -> Iterator[EncodedBatch]:
    """Yield the rows of a batch as encoded batches, those of each topic and queue in order.

    ``queues_of`` returns the queues of a topic. Raises RowRefused, whose row counts from the start of the batch, before
    it yields anything.
    """
    if not batch.num_rows:
        return
    items = encode_rows(batch, columns, ids, max_bytes=options.max_message_bytes)
    topics, topic_of = _row_topics(batch, columns, options)
    delays = _row_delays(batch, columns)
    queues = [queues_of(topic) for topic in topics]
    lanes = topic_of * _LANES + _row_queue_indexes(batch, columns, queues, topic_of) + 1
    if (lanes != lanes[0]).any():
        order = np.argsort(lanes, kind="stable")
        items, lanes, delays = items.take(order), lanes[order], delays[order]
    ends, raw = offsets_and_bytes(items)
    is_alone = (np.diff(ends) > options.max_batch_bytes) | (delays > 0)
    for number, topic in enumerate(topics):
        if not can_batch(topic):
            is_alone |= lanes // _LANES == number
    sorted_items = _SortedItems(ends, raw, is_alone, delays, options.max_batch_bytes)
    by_lane = []
    for start, stop in pairwise([0, *(np.flatnonzero(np.diff(lanes)) + 1).tolist(), len(lanes)]):
        number, place = divmod(int(lanes[start]), _LANES)
        by_lane.append(sorted_items.batches(topics[number], queues[number][place - 1] if place else None, start, stop))
    for turn in zip_longest(*by_lane):
        yield from (encoded for encoded in turn if encoded is not None)


class _SortedItems(NamedTuple):
    """Items sorted by lane."""

    ends: NDArray[np.int64]
    raw: NDArray[np.uint8]
    is_single: NDArray[np.bool_]
    delays: NDArray[np.int64]
    max_bytes: int

    def batches(self, topic: str, queue: Queue | None, start: int, stop: int) -> Iterator[EncodedBatch]:
        """Yield the items of one lane, cut to size."""
        for begin, end in self._cut(start, stop):
            items = self.raw[self.ends[begin] : self.ends[end]].tobytes()
            yield EncodedBatch(topic, items, end - begin, queue, bool(self.is_single[begin]), int(self.delays[begin]))

    def _cut(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        alone = deque((np.flatnonzero(self.is_single[start:stop]) + start).tolist())
        while start < stop:
            if alone and alone[0] == start:
                alone.popleft()
                end = start + 1
            else:
                end = int(np.searchsorted(self.ends, self.ends[start] + self.max_bytes, side="right")) - 1
                end = min(end, start + MAX_BATCH_MESSAGES, stop, *islice(alone, 1))
            yield start, end
            start = end


def _row_topics(
    batch: pa.RecordBatch, columns: WriteColumns, options: WriteOptions
) -> tuple[list[str], NDArray[np.int64]]:
    """Return the topics of the rows, and the index of each row's own."""
    if options.topic is not None or columns.topic is None:
        return [options.topic or ""], np.zeros(batch.num_rows, np.int64)
    column = as_binary(batch.column(columns.topic))
    encoded = column.dictionary_encode()
    topics = [topic.decode(errors="replace") for topic in encoded.dictionary.to_pylist()]
    if column.null_count or "" in topics:
        is_missing = column.is_null().to_numpy(zero_copy_only=False) | (byte_lengths(column) == 0)
        raise RowRefused(
            "there is no topic",
            row=int(np.flatnonzero(is_missing)[0]),
            column="topic",
            next_step="fill it, or give the option 'topic', which counts for all rows",
        )
    return topics, encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _row_queue_indexes(
    batch: pa.RecordBatch, columns: WriteColumns, queues: list[Sequence[Queue]], topic_of: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the queue index of each row by its key; -1 for any."""
    if columns.key is None:
        return np.full(batch.num_rows, -1, np.int64)
    counts = np.array([len(each) for each in queues], np.int64)
    return queue_indexes(batch.column(columns.key), counts[topic_of])


def _row_delays(batch: pa.RecordBatch, columns: WriteColumns) -> NDArray[np.int64]:
    """Return the delay of each row in milliseconds."""
    if columns.delay is None:
        return np.zeros(batch.num_rows, np.int64)
    column = batch.column(columns.delay)
    delays: NDArray[np.int64] = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    if delays.min() < 0:
        row = int(np.argmin(delays))
        raise RowRefused(
            f"the delay is {delays[row]}", row=row, column="delay", next_step="give milliseconds, 0 or more"
        )
    return delays
