"""Which queue a row goes to by its key, for all rows at once: the number that the client's own rule gives.

The rule is `steelyard.balance.selectors`: Java's hash of the key, without its sign, modulo the number of queues. A hash
of many texts is one sum over all their bytes, since 31 has an inverse among 32 bits: each byte is weighed by where it
lies, and a text's hash is what the sum grew by within it. Texts that are not ASCII are hashed one by one, each once.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from steelyard.model import java_hash
from steelyard.spark.encoding.row_bytes import as_binary, is_whole, span_of

__all__ = ["java_hashes", "queue_numbers"]

_INVERSE = pow(31, -1, 1 << 32)
_32_BITS = 1 << 32


def queue_numbers(keys: pa.Array, queues: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place in a list of so many queues for each key, a text or a whole number; -1 where it is null.

    ``queues`` may differ from row to row, as topics do.

    >>> queue_numbers(pa.array(["order-1", None, "order-2"]), 4).tolist()
    [2, -1, 1]
    """
    hashes = _number_hashes(keys) if is_whole(keys.type) else java_hashes(keys)
    numbers = np.abs(hashes) % np.asarray(queues, np.int64)
    if keys.null_count:
        numbers[keys.is_null().to_numpy(zero_copy_only=False)] = -1
    return numbers


def java_hashes(texts: pa.Array) -> NDArray[np.int64]:
    """Return Java's ``String.hashCode`` of each text; 0 where it is null.

    >>> java_hashes(pa.array(["TagA", "order-1", "", None, "größe"])).tolist()
    [2598919, -1207111310, 0, 0, 98762257]
    """
    ends, raw = span_of(texts)
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
    """Return so many powers of 31, and of its inverse, each as far as 32 bits go."""
    powers, weights = np.full(count, 31, np.uint32), np.full(count, _INVERSE, np.uint32)
    powers[0] = weights[0] = 1
    return np.multiply.accumulate(powers, dtype=np.uint32), np.multiply.accumulate(weights, dtype=np.uint32)


def _hash_one_by_one(
    texts: pa.Array, ends: NDArray[np.int64], raw: NDArray[np.uint8], hashes: NDArray[np.int64]
) -> None:
    """Put the hashes of texts in their places that have letters beyond ASCII: Java counts those by UTF-16."""
    seen = np.zeros(len(raw) + 1, np.int64)
    np.cumsum(raw >= 0x80, out=seen[1:])
    places = np.flatnonzero(seen[ends[1:]] > seen[ends[:-1]])
    encoded = as_binary(texts).take(places).dictionary_encode()
    each = [java_hash(text.decode(errors="replace")) for text in encoded.dictionary.to_pylist()]
    hashes[places] = np.array(each, np.int64)[encoded.indices.to_numpy(zero_copy_only=False)]


def _number_hashes(keys: pa.Array) -> NDArray[np.int64]:
    """Return what Java makes of whole numbers: those of 32 bits stay, longer ones have their halves laid over."""
    numbers = pc.cast(keys.fill_null(0) if keys.null_count else keys, pa.int64()).to_numpy(zero_copy_only=False)
    short = numbers.astype(np.int32).astype(np.int64)
    unsigned = numbers.view(np.uint64)
    folded = (unsigned ^ (unsigned >> np.uint64(32))).astype(np.uint32).view(np.int32).astype(np.int64)
    return np.where(short == numbers, numbers, folded)
