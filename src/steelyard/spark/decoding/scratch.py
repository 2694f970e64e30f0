"""Pieces of bytes laid end to end, in memory that is used again and again.

Fresh memory for every batch would cost as much as filling it: the system hands it out page by page.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

__all__ = ["joined"]

# Larger ones are given back to the system.
_KEPT_BYTES = 32 * 1024 * 1024

# Whoever joins takes one out and puts it back: two threads never have the same.
_spare: list[bytearray] = []


@contextmanager
def joined(pieces: Sequence[bytes]) -> Iterator[bytes | bytearray]:
    """Lend all pieces as one, with anything behind their end; nothing may refer to it afterwards."""
    if len(pieces) == 1:
        yield bytes(pieces[0])
        return
    size = sum(map(len, pieces))
    try:
        scratch = _spare.pop()
    except IndexError:
        scratch = bytearray()
    if len(scratch) < size:
        scratch = bytearray(size * 5 // 4)
    at = 0
    for piece in pieces:
        scratch[at : at + len(piece)] = piece
        at += len(piece)
    try:
        yield scratch
    finally:
        if len(scratch) <= _KEPT_BYTES:
            _spare.append(scratch)
