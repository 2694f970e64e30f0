"""Broken bytes for the readers of foreign bytes: mutated copies of good ones, the same ones for the same seed.

`rounds` says how many inputs a fuzz test tries: STEELYARD_FUZZ, or a thousand. `mutations` never ends: take from it
with `itertools.islice`.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from random import Random

_EXTREME_LENGTHS = tuple(
    number.to_bytes(4, "big")
    for number in (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x00FF_FFFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF)
)


class Dice(Random):
    """Dice that fall the same way for the same seed."""


def rounds() -> int:
    """Return how many inputs one fuzz test tries."""
    return int(os.environ.get("STEELYARD_FUZZ", "1000"))


def mutations(corpus: Sequence[bytes], seed: int) -> Iterator[bytes]:
    """Yield mutated copies of the corpus without end: one to four changes each, decided by the seed alone."""
    random = Dice(seed)
    while True:
        broken = random.choice(corpus)
        for _ in range(random.randint(1, 4)):
            if random.random() < 0.15:
                broken = _spliced(broken, random.choice(corpus), random)
            else:
                broken = random.choice(_CHANGES)(broken, random)
        yield broken


def _flipped(good: bytes, random: Random) -> bytes:
    if not good:
        return good
    broken = bytearray(good)
    broken[random.randrange(len(broken))] ^= 1 << random.randrange(8)
    return bytes(broken)


def _cut(good: bytes, random: Random) -> bytes:
    start, end = _slice(good, random)
    return good[:start] if random.random() < 0.5 else good[:start] + good[end:]


def _inserted(good: bytes, random: Random) -> bytes:
    at = random.randint(0, len(good))
    return good[:at] + random.randbytes(random.randint(1, 8)) + good[at:]


def _repeated(good: bytes, random: Random) -> bytes:
    start, end = _slice(good, random)
    return good[:end] + good[start:end] * random.randint(1, 4) + good[end:]


def _stretched(good: bytes, random: Random) -> bytes:
    at = random.randint(0, max(0, len(good) - 4))
    return good[:at] + random.choice(_EXTREME_LENGTHS) + good[at + 4 :]


def _noise(good: bytes, random: Random) -> bytes:
    return random.randbytes(random.randint(0, min(256, len(good) + 16)))


def _spliced(left: bytes, right: bytes, random: Random) -> bytes:
    return left[: random.randint(0, len(left))] + right[random.randint(0, len(right)) :]


def _slice(good: bytes, random: Random) -> tuple[int, int]:
    start = random.randint(0, len(good))
    return start, min(len(good), start + random.randint(0, 64))


_CHANGES: Sequence[Callable[[bytes, Random], bytes]] = (
    _flipped,
    _flipped,
    _cut,
    _cut,
    _inserted,
    _inserted,
    _repeated,
    _stretched,
    _noise,
)
