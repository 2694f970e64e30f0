"""A queue: one numbered part of a topic on one broker; and a half-open range of its offsets.

The sort order is a contract: by topic, then broker, then number, names compared as Java compares them. Every member of
a group sorts the same queues into the same list, and only that makes their independent assignments fit together.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from steelyard.errors import ConfigurationError
from steelyard.model.java_strings import utf16_units

_QUEUE_ID = itemgetter(2)


class Queue(NamedTuple):
    """One queue of a topic.

    >>> Queue("orders", "broker-a", 3)
    Queue(topic='orders', broker='broker-a', queue_id=3)
    >>> str(Queue("orders", "broker-a", 3))
    'orders@broker-a:3'
    """

    topic: str
    broker: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker}:{self.queue_id}"

    def __lt__(self, other: tuple[object, ...]) -> bool:
        return _sort_key(self) < _sort_key(other) if isinstance(other, Queue) else NotImplemented

    def __le__(self, other: tuple[object, ...]) -> bool:
        return _sort_key(self) <= _sort_key(other) if isinstance(other, Queue) else NotImplemented

    def __gt__(self, other: tuple[object, ...]) -> bool:
        return _sort_key(self) > _sort_key(other) if isinstance(other, Queue) else NotImplemented

    def __ge__(self, other: tuple[object, ...]) -> bool:
        return _sort_key(self) >= _sort_key(other) if isinstance(other, Queue) else NotImplemented


def _sort_key(queue: Queue) -> tuple[str, str, int]:
    return utf16_units(queue.topic), utf16_units(queue.broker), queue.queue_id


def sort_queues(queues: Iterable[Queue]) -> list[Queue]:
    """Sort queues into the order that all members share.

    >>> [str(q) for q in sort_queues([Queue("t", "b", 1), Queue("t", "a", 10), Queue("t", "a", 9)])]
    ['t@a:9', 't@a:10', 't@b:1']
    """
    # By topic and broker first: few names to compare, however many queues there are.
    parts: dict[tuple[str, str], list[Queue]] = {}
    for queue in queues:
        parts.setdefault((queue.topic, queue.broker), []).append(queue)
    listed: list[Queue] = []
    for name in sorted(parts, key=lambda name: (utf16_units(name[0]), utf16_units(name[1]))):
        listed += sorted(parts[name], key=_QUEUE_ID)
    return listed


def sort_names(names: Iterable[str]) -> list[str]:
    """Sort client ids or broker names as Java sorts them.

    >>> sort_names(["b", "a", "B"])
    ['B', 'a', 'b']
    """
    return sorted(names, key=utf16_units)


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Offsets ``start`` to ``end - 1`` of a queue; empty when both are equal.

    >>> part = OffsetRange(Queue("orders", "broker-a", 0), 10, 25)
    >>> len(part), 10 in part, 25 in part
    (15, True, False)
    """

    queue: Queue
    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ConfigurationError(
                f"offsets [{self.start}, {self.end}) of {self.queue} are not a range",
                next_step="give 0 <= start <= end",
            )

    def __len__(self) -> int:
        return self.end - self.start

    def __bool__(self) -> bool:
        return self.end > self.start

    def __contains__(self, offset: int) -> bool:
        return self.start <= offset < self.end

    def __str__(self) -> str:
        return f"{self.queue}[{self.start}, {self.end})"
