"""Ids of rows that are the same however often a row is sent, so that readers can drop repeats by ``message_id``.

An id has 32 hexadecimal digits, as those of other producers: 20 are a hash of what the row is part of, 12 are its
number there. Part of what: the query, the micro-batch and the partition for a stream; the write, which gets a name when
it is planned, and the partition otherwise. So an id is stable for as long as the plan is: the same rows in the same
partitions in the same order, as after a failed task or a replayed micro-batch of a plan without chance in it.
"""

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from steelyard.model.message import UNIQUE_KEY
from steelyard.wire.property_names import WAIT

__all__ = ["ID_BYTES", "RowIds"]

_HASH_BYTES = 10
_NUMBER_DIGITS = 12
_LOW_DIGITS = 4
_LOW = 1 << 4 * _LOW_DIGITS

_DIGITS = np.frombuffer("".join([f"{number:04X}" for number in range(_LOW)]).encode(), np.uint32)
"""The last four digits of a number, by the number: as four bytes, and moved as one."""

_BEFORE = f"{UNIQUE_KEY}\x01".encode()
_BEHIND = f"\x02{WAIT}\x01true\x02".encode()

ID_BYTES = len(_BEFORE) + 2 * _HASH_BYTES + _NUMBER_DIGITS + len(_BEHIND)
"""How long the text is that says a row's id."""


class RowIds:
    r"""The ids of the rows of one task.

    >>> RowIds("a query", "7", "0").texts(first=41, count=1).tobytes()
    b'UNIQ_KEY\x0184EAB8613E14E81A450F000000000029\x02WAIT\x01true\x02'
    """

    def __init__(self, *part_of: str) -> None:
        """Name what the rows are part of; each name counts by itself."""
        hashed = blake2b(repr(part_of).encode(), digest_size=_HASH_BYTES).hexdigest().upper()
        self._template = np.frombuffer(_BEFORE + hashed.encode() + b"0" * _NUMBER_DIGITS + _BEHIND, np.uint8)

    def texts(self, *, first: int, count: int) -> NDArray[np.uint8]:
        """Return the properties that rows have by their numbers, one line of bytes for each: id, and to wait."""
        texts = np.empty((count, ID_BYTES), np.uint8)
        texts[:] = self._template
        end_at = ID_BYTES - len(_BEHIND)
        low_at, high_at = end_at - _LOW_DIGITS, end_at - _NUMBER_DIGITS
        row = first
        while row < first + count:  # 65,536 rows have all but the last four digits in common
            stop = min(first + count, (row // _LOW + 1) * _LOW)
            part = texts[row - first : stop - first]
            part[:, high_at:low_at] = np.frombuffer(
                f"{row // _LOW:0{_NUMBER_DIGITS - _LOW_DIGITS}X}".encode(), np.uint8
            )
            low = _DIGITS[row % _LOW : row % _LOW + stop - row]
            part[:, low_at:end_at] = low.view(np.uint8).reshape(-1, _LOW_DIGITS)
            row = stop
        return texts
