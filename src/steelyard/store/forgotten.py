"""Queues whose messages were given up on purpose, because their topic was deleted.

The log still has them until its files get old, and would show them again after a crash, when all indexes are made from
it. So it is written down up to where each queue was forgotten. Numbers are not given twice: a topic that is made again
goes on behind its old messages, which keeps one message to one place for ever.
"""

from collections.abc import Mapping

from msgspec import Struct, field

from steelyard.store.disk import Disk
from steelyard.store.index_files import Indexes
from steelyard.store.queues import QueueIndex
from steelyard.store.state import Document, load, save

__all__ = ["FORGOTTEN", "ForgottenQueues", "forget_again", "forget_topic", "forgotten_ends"]


class ForgottenQueues(Struct, frozen=True):
    """By topic and queue, the offset below which everything is forgotten."""

    topics: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


FORGOTTEN = Document("steelyard/forgotten.json", ForgottenQueues)


def forget_topic(disk: Disk, indexes: Indexes, topic: bytes) -> None:
    """Forget all messages of a topic, for good once this returned."""
    ends = {queue_id: index.shown for (name, queue_id), index in indexes.items() if name == topic and index.shown}
    if not ends:
        return
    known = load(disk, FORGOTTEN).value or ForgottenQueues()
    alive = {name.decode(errors="surrogateescape") for name, _ in indexes}
    kept = {name: queues for name, queues in known.topics.items() if name in alive}
    save(disk, FORGOTTEN, ForgottenQueues({**kept, topic.decode(errors="surrogateescape"): ends}))
    for (name, _), index in indexes.items():
        if name == topic:
            index.forget_to(index.shown)


def forget_again(disk: Disk, indexes: Indexes) -> None:
    """Forget what earlier processes forgot, and give none of its numbers again, even if the log lost some of them."""
    for queue, end in forgotten_ends(disk).items():
        index = indexes.setdefault(queue, QueueIndex(end))
        if index.end < end:
            index.add_holes(end - index.end)
            index.show()
        index.forget_to(end)


def forgotten_ends(disk: Disk) -> dict[tuple[bytes, int], int]:
    """Return the offset below which everything of a queue was forgotten, by topic and number."""
    topics = (load(disk, FORGOTTEN).value or ForgottenQueues()).topics
    return {
        (topic.encode(errors="surrogateescape"), queue_id): end
        for topic, ends in topics.items()
        for queue_id, end in ends.items()
    }
