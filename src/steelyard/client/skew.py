"""How evenly messages lie in a topic's queues, and come into them, in a sentence.

A queue's share is what it would have if all had the same. What is told is what somebody would do something about: one
queue or one broker that has much more than its share, queues that have nothing. A few messages are never skewed.
"""

from collections.abc import Iterator, Mapping, Sequence

from steelyard.client.admin.topics import QueueEnds
from steelyard.model import Queue

__all__ = ["rush", "skew"]

_TIMES = 2.0
_BROKER_TIMES = 1.5
_FEW_A_QUEUE = 10


def skew(queues: Sequence[QueueEnds]) -> str:
    """Say how evenly messages lie in queues.

    >>> skew([QueueEnds(Queue("t", "a", number), 0, 100) for number in range(4)])
    'messages lie evenly: 100 in each of 4 queues'
    """
    counts = [each.messages for each in queues]
    total = sum(counts)
    if not total:
        return "it is empty"
    low, high = min(counts), max(counts)
    if low == high:
        return f"messages lie evenly: {low} in each of {len(counts)} queues"
    if total < _FEW_A_QUEUE * len(counts):
        return f"messages are too few to say how evenly they lie: {low} to {high} in a queue"
    told = list(_uneven({each.queue: each.messages for each in queues}, "has", "of all messages"))
    if empty := counts.count(0):
        told.append(f"{empty} of {len(counts)} queues are empty")
    return "; ".join(told) or f"messages lie evenly enough: {low} to {high} in a queue"


def rush(came: Mapping[Queue, int]) -> str | None:
    """Say where far more messages come in now than elsewhere; None if it is even, or if there are few.

    >>> came = {Queue("t", "a", number): count for number, count in enumerate((900, 40, 30, 30))}
    >>> rush(came)
    'queue 0 of a gets 90% of what comes in now, 3.6 times its share; do many messages have one key?'
    """
    if sum(came.values()) < _FEW_A_QUEUE * len(came):
        return None
    told = list(_uneven(came, "gets", "of what comes in now"))
    if any(each.startswith("queue ") for each in told):
        told.append("do many messages have one key?")
    return "; ".join(told) or None


def _uneven(weights: Mapping[Queue, int], has: str, of_all: str) -> Iterator[str]:
    """Say which queue, and which broker, has much more than its share."""
    total = sum(weights.values())
    fullest, most = max(weights.items(), key=lambda item: item[1], default=(None, 0))
    times = most * len(weights) / total if total else 0.0
    if fullest is not None and times >= _TIMES:
        yield (
            f"queue {fullest.queue_id} of {fullest.broker} {has} {most / total:.0%} {of_all}, "
            f"{times:.1f} times its share"
        )
    held: dict[str, list[int]] = {}
    for queue, weight in weights.items():
        held.setdefault(queue.broker, []).append(weight)
    for broker, mine in held.items():
        if len(held) > 1 and total and sum(mine) * len(weights) >= _BROKER_TIMES * total * len(mine):
            yield f"{broker} {has} {sum(mine) / total:.0%} {of_all} in {len(mine)} of {len(weights)} queues"
