"""Splits offset ranges into even tasks, and caps rows fairly over queues: load balancing for a data pipeline.

Tasks: all ranges are laid end to end, broker after broker, and cut into pieces of equal length. So no task has more
than one message more than another, each talks to as few brokers as possible, and a queue with a million messages does
not keep one task busy while the others are done. Where a queue must stay whole, the largest ranges are placed first,
each with the task that has least.

The cap: small queues get all they have, large ones share the rest equally (max-min fair). The remainder rotates, by the
offsets alone, so that a replay gives the same result and no queue starves.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace

from steelyard.errors import ConfigurationError
from steelyard.model import OffsetRange, sort_queues


@dataclass(frozen=True, slots=True)
class SplitOptions:
    """How many tasks there may be, and how large they are."""

    max_tasks: int = 16  # never more than this: each task has a start-up cost, and cores are limited
    min_tasks: int = 1  # at least this many, if there are as many messages; it may be above `max_tasks`, and wins then
    max_task_records: int = 500_000  # a task should not have more, if `max_tasks` allows it
    min_task_records: int = 10_000
    """A task with fewer is not worth its start-up, which takes as long as reading this many."""
    whole_queues: bool = False  # whether a queue's range stays in one piece

    def __post_init__(self) -> None:
        sizes = (self.max_tasks, self.min_tasks, self.max_task_records, self.min_task_records)
        if min(sizes) < 1:
            raise ConfigurationError(f"tasks cannot be split by {self}", next_step="give numbers of 1 and more")


@dataclass(frozen=True, slots=True)
class ReadTask:
    """The ranges of one task, in order."""

    ranges: tuple[OffsetRange, ...]

    def __len__(self) -> int:
        return sum(map(len, self.ranges))

    @property
    def brokers(self) -> tuple[str, ...]:
        """The brokers of the ranges, in order."""
        return tuple(dict.fromkeys(each.queue.broker for each in self.ranges))


def split_ranges(ranges: Iterable[OffsetRange], options: SplitOptions | None = None) -> list[ReadTask]:
    """Split ranges into even tasks; empty ranges are left out, and without messages there are no tasks.

    >>> from steelyard.model import Queue
    >>> ranges = [OffsetRange(Queue("t", "a", 0), 0, 90), OffsetRange(Queue("t", "a", 1), 5, 15)]
    >>> for task in split_ranges(ranges, SplitOptions(min_tasks=3)):
    ...     print(len(task), *task.ranges)
    34 t@a:0[0, 34)
    33 t@a:0[34, 67)
    33 t@a:0[67, 90) t@a:1[5, 15)
    """
    options = options or SplitOptions()
    filled = _by_broker(ranges)
    total = sum(map(len, filled))
    if not total:
        return []
    count = _task_count(total, len(filled), options)
    return _packed(filled, count) if options.whole_queues else _cut(filled, total, count)


def _by_broker(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    filled = [each for each in ranges if each]
    places = {queue: place for place, queue in enumerate(sort_queues({each.queue for each in filled}))}
    # Brokers first: neighbours end up in the same task, and a task should open few connections.
    return sorted(filled, key=lambda each: (each.queue.broker, places[each.queue], each.start))


def _task_count(total: int, ranges: int, options: SplitOptions) -> int:
    worth = max(1, total // options.min_task_records)
    wanted = max(options.min_tasks, -(-total // options.max_task_records), min(ranges, worth))
    most = max(options.max_tasks, options.min_tasks)
    return min(wanted, most, ranges if options.whole_queues else total)


def _cut(ranges: Sequence[OffsetRange], total: int, count: int) -> list[ReadTask]:
    edges = [-(-total * part // count) for part in range(1, count + 1)]
    pieces: list[list[OffsetRange]] = [[] for _ in range(count)]
    task, done = 0, 0
    for each in ranges:
        start = each.start
        while start < each.end:
            if done == edges[task]:
                task += 1
            end = min(each.end, start + edges[task] - done)
            pieces[task].append(OffsetRange(each.queue, start, end))
            done += end - start
            start = end
    return [ReadTask(tuple(piece)) for piece in pieces]


def _packed(ranges: Sequence[OffsetRange], count: int) -> list[ReadTask]:
    tasks: list[list[OffsetRange]] = [[] for _ in range(count)]
    lightest = [(0, task) for task in range(count)]
    heapify(lightest)
    for each in sorted(ranges, key=len, reverse=True):
        load, task = lightest[0]
        tasks[task].append(each)
        heapreplace(lightest, (load + len(each), task))
    return [ReadTask(tuple(_by_broker(task))) for task in tasks if task]


def cap_fairly(ranges: Sequence[OffsetRange], max_messages: int) -> list[OffsetRange]:
    """Shorten ranges, in their order, to ``max_messages`` together: all of the small ones, equal parts of the others.

    >>> from steelyard.model import Queue
    >>> backlog = [OffsetRange(Queue("t", "a", number), 0, size) for number, size in enumerate((3, 100, 50))]
    >>> [len(part) for part in cap_fairly(backlog, 40)]
    [3, 19, 18]
    """
    if max_messages < 0:
        raise ConfigurationError(f"a cap of {max_messages} messages", next_step="give 0 or more")
    level, over = _water_level(sorted(map(len, ranges)), max_messages)
    larger = [place for place, each in enumerate(ranges) if len(each) > level]
    # The starts advance by what was handed out, so the next cap continues after the last queue here.
    first = sum(each.start for each in ranges)
    extra = {larger[(first + number) % len(larger)] for number in range(over)} if larger else set()
    return [
        OffsetRange(each.queue, each.start, each.start + min(len(each), level + (place in extra)))
        for place, each in enumerate(ranges)
    ]


def _water_level(sizes: Sequence[int], most: int) -> tuple[int, int]:
    """Return the maximum per queue, and how many queues get one more."""
    left = most
    for place, size in enumerate(sizes):
        count = len(sizes) - place
        if size * count > left:
            return divmod(left, count)
        left -= size
    return (sizes[-1] if sizes else 0), 0
