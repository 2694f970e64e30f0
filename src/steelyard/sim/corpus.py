"""Histories that once failed, each with a word why: they run with every test, so that no bug comes back unseen.

A row is the kind, the seed, and what was wrong. The parts that shrinking took away are not kept: the whole history
holds the bug too, and more that could go wrong.
"""

__all__ = ["CORPUS"]

CORPUS: tuple[tuple[str, int, str], ...] = (
    ("retry", 843, "a queue given away skipped the rest of a chunk, and what was done behind it was done again"),
)
"""Kind, seed, and what it found."""
