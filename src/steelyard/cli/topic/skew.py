"""How evenly messages lie in a topic's queues, in a sentence.

A queue's share is what it would have if all had the same. What is told is what somebody would do something about: one
queue or one broker that has much more than its share, queues that have nothing. A few messages are never skewed.
"""

from collections.abc import Sequence

from steelyard.client.admin.topics import QueueEnds

__all__ = ["skew"]

_TIMES = 2.0
_FEW_A_QUEUE = 10


def skew(queues: Sequence[QueueEnds]) -> str:
    """Say how evenly messages lie in queues.

    >>> from steelyard.model import Queue
    >>> skew([QueueEnds(Queue("t", "a", number), 0, 100) for number in range(4)])
    'messages lie evenly: 100 in each of 4 queues'
    """
    counts = [each.messages for each in queues]
    total = sum(counts)
    if not total:
        return "it is empty"
    low, high, share = min(counts), max(counts), total / len(counts)
    if low == high:
        return f"messages lie evenly: {low} in each of {len(counts)} queues"
    if total < _FEW_A_QUEUE * len(counts):
        return f"messages are too few to say how evenly they lie: {low} to {high} in a queue"
    told = []
    fullest = max(queues, key=lambda each: each.messages)
    if high >= _TIMES * share:
        told.append(
            f"queue {fullest.queue.queue_id} of {fullest.queue.broker} has {high / total:.0%} of all messages, "
            f"{high / share:.1f} times its share"
        )
    told += _brokers(queues, total)
    if empty := counts.count(0):
        told.append(f"{empty} of {len(counts)} queues are empty")
    return "; ".join(told) or f"messages lie evenly enough: {low} to {high} in a queue"


def _brokers(queues: Sequence[QueueEnds], total: int) -> list[str]:
    """Say which broker has much more than its queues' share."""
    held: dict[str, list[int]] = {}
    for each in queues:
        held.setdefault(each.queue.broker, []).append(each.messages)
    if len(held) == 1:
        return []
    return [
        f"{broker} has {sum(counts) / total:.0%} of all messages in {len(counts)} of {len(queues)} queues"
        for broker, counts in held.items()
        if sum(counts) * len(queues) >= 1.5 * total * len(counts)
    ]
