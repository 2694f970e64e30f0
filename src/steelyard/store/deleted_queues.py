"""Deleted queues: up to which offset the messages of each queue were deleted with their topic.

The log holds these messages until its files expire, and a rebuild after a crash would show them again; so the ends are
saved. Offsets are never reused: a topic that is created again continues behind its old messages, so that an offset
means one message for ever.
"""

from collections.abc import Mapping

from msgspec import Struct, field

from steelyard.store.consume_queue import ConsumeQueue, ConsumeQueues
from steelyard.store.disk import Disk
from steelyard.store.json_documents import JsonDocument, load_document, save_document

__all__ = ["DELETED_QUEUES", "delete_topic_queues", "deleted_queue_ends", "reapply_deletions"]


class _DeletedQueues(Struct, frozen=True):
    """By topic and queue, the offset below which every message is deleted."""

    topics: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


DELETED_QUEUES = JsonDocument("steelyard/forgotten.json", _DeletedQueues)


def delete_topic_queues(disk: Disk, consume_queues: ConsumeQueues, topic: bytes) -> None:
    """Delete all messages of a topic; the deletion is durable when this returns."""
    ends = {
        queue_id: queue.visible_end
        for (name, queue_id), queue in consume_queues.items()
        if name == topic and queue.visible_end
    }
    if not ends:
        return
    saved = load_document(disk, DELETED_QUEUES).value or _DeletedQueues()
    alive = {name.decode(errors="surrogateescape") for name, _ in consume_queues}
    kept = {name: queues for name, queues in saved.topics.items() if name in alive}
    save_document(disk, DELETED_QUEUES, _DeletedQueues({**kept, topic.decode(errors="surrogateescape"): ends}))
    for (name, _), queue in consume_queues.items():
        if name == topic:
            queue.drop_below(queue.visible_end)


def reapply_deletions(disk: Disk, consume_queues: ConsumeQueues) -> None:
    """Delete again what earlier processes deleted, and reuse none of its offsets, even if the log lost some."""
    for key, end in deleted_queue_ends(disk).items():
        queue = consume_queues.setdefault(key, ConsumeQueue(end))
        if queue.end < end:
            queue.append_holes(end - queue.end)
            queue.publish()
        queue.drop_below(end)


def deleted_queue_ends(disk: Disk) -> dict[tuple[bytes, int], int]:
    """Return the offset below which a queue was deleted, by topic and queue id."""
    topics = (load_document(disk, DELETED_QUEUES).value or _DeletedQueues()).topics
    return {
        (topic.encode(errors="surrogateescape"), queue_id): end
        for topic, ends in topics.items()
        for queue_id, end in ends.items()
    }
