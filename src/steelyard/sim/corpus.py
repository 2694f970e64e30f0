"""Histories that once failed, each with a word why: they run with every test, so that no bug comes back unseen.

A row is the kind, the seed, and what was wrong. The parts that shrinking took away are not kept: the whole history
holds the bug too, and more that could go wrong.
"""

__all__ = ["CORPUS"]

CORPUS: tuple[tuple[str, int, str], ...] = (
    ("retry", 843, "a queue given away skipped the rest of a chunk, and what was done behind it was done again"),
    ("power", 453, "a log that lost its end gave offsets out again, and a member that was ahead passed them over"),
    ("power", 961, "it committed beyond the end of such a log before it had looked"),
    ("power", 1088, "the same with a sync flush: members read what is not safe yet"),
    ("storm", 2877, "a member waited for a queue by an old plan and did not look again itself"),
    ("restart", 1507, "the world was taken to be at rest while a member had no plan"),
    ("power", 330152, "a queue was given up before the member had looked whether the log is the one it read"),
    ("wild", 303008, "a late commit of a dead line went backwards while nobody held the queue"),
    ("mixed", 303110, "rooms were shared over all topics at once by ours, and topic by topic by Java's members"),
    ("hung", 1503, "a member that hung and came back was asked seldom, and its queues stayed where they were for 10 s"),
)
"""Kind, seed, and what it found."""
