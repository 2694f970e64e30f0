"""What the rules cost a message: choosing its queue, noting its broker, sending it, and counting it done.

CPU time for each message, the best of a few runs. Beside each stands the plain way to do the same, or the same rule
with less to look at: what costs no more with a thousand queues than with ten is flat.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from time import process_time

from bench.instant_host import InstantHost
from bench.table import Row
from steelyard.balance.group.inflight_window import InflightWindow
from steelyard.balance.producer.broker_latency import LatencyTracker
from steelyard.balance.producer.queue_selection import QueueRotation, make_selector, select_queue
from steelyard.balance.producer.send_attempts import SendAttempts
from steelyard.model import Message, OffsetRange, PublishList, Queue
from steelyard.spark.task_split import SplitOptions, cap_fairly, split_ranges

_MESSAGES = 50_000
_RUNS = 4
_BATCH = 32
_FLAT = 1.5
"""How much dearer something may be that should cost the same."""

_Rule = Callable[[int], object]
"""Does something for so many messages."""


def run() -> Iterator[Row]:
    """Measure everything; takes some seconds."""
    yield from _picking()
    yield from _avoiding()
    yield from _sending()
    yield from _selecting()
    yield from _counting_done()
    yield from _stepping()
    yield from _splitting()


def _picking() -> Iterator[Row]:
    few, many = _rotation(2, 5), _rotation(10, 100)
    yield _row("pick a queue of 1,000", _us(partial(_select, many)), "itertools.cycle", _us(_cycled), goal_us=0.5)
    yield _flat("pick a queue of 1,000", _us(partial(_select, many)), "of 10", _us(partial(_select, few)))


def _avoiding() -> Iterator[Row]:
    plain, recorded = (
        _us(partial(_select, _rotation(10, 100))),
        _us(partial(_select_and_record, _rotation(10, 100, LatencyTracker()))),
    )
    yield _row("select a queue of 1,000 and record its broker", recorded, "without latency tracking", plain, goal_us=2)
    avoiding = _rotation(10, 100, _tracker("broker-3"))
    yield _row(
        "the same, one broker of 10 avoided", _us(partial(_select_and_record, avoiding)), "none", recorded, goal_us=3
    )
    alone = LatencyTracker()
    for number in range(9):
        alone.record_latency(f"broker-{number}", took_ms=0, failed=True, now_ms=0)
    few, many = _rotation(10, 1, alone), _rotation(10, 100, alone)
    yield _flat(
        "pick, 9 brokers of 10 avoided, 1,000 queues",
        _us(partial(_select, many)),
        "10 queues",
        _us(partial(_select, few)),
    )


def _sending() -> Iterator[Row]:
    plain, careful = _rotation(10, 100), _rotation(10, 100, LatencyTracker())
    yield _row(
        "a whole send, with latency tracking",
        _us(partial(_send, careful)),
        "without",
        _us(partial(_send, plain)),
        goal_us=6,
    )


def _selecting() -> Iterator[Row]:
    java, sip = (_us(partial(_by_key, name)) for name in ("hash", "siphash24"))
    yield _row("a queue of 1,000 by Java's hash of the key", java, "by siphash24", sip, goal_us=4)


def _counting_done() -> Iterator[Row]:
    in_order, reverse = _us(partial(_window, InflightWindow, 1)), _us(partial(_window, InflightWindow, -1))
    slow = _us(partial(_window, _LowestOfSet, 1), 10_000)
    yield _row("count a message done, in order", in_order, "the lowest of a set", slow, goal_us=1)
    yield _row("the same, each batch backwards", reverse, "in order", in_order, goal_us=1.5)


def _splitting() -> Iterator[Row]:
    for count in (1_000, 10_000):
        ranges = [OffsetRange(Queue("t", f"b{n % 10}", n), 0, n * 7919 % 10_007) for n in range(count)]
        cut = _us(partial(_cut, ranges), count)
        cap = _us(partial(_cap, ranges), count)
        yield _row(f"split {count:,} ranges into 64 tasks, each range", cut, "cap them", cap, goal_us=10)


def _stepping() -> Iterator[Row]:
    few, many, chunks = (_us(InstantHost(*setting).run) for setting in ((4, 1), (1_000, 1), (4, _BATCH)))
    yield _row("a member pulls, hands out and counts a message", few, "in chunks of 32", chunks, goal_us=10)
    yield _row("the same, in chunks of 32", chunks, "one by one", few, goal_us=2)
    yield _flat("the same one by one, of 1,000 queues", many, "of 4", few)


def _rotation(brokers: int, queues: int, tracker: LatencyTracker | None = None) -> QueueRotation:
    listed = (Queue("orders", f"broker-{broker}", number) for broker in range(brokers) for number in range(queues))
    return QueueRotation(PublishList("orders", tuple(listed)), 7, tracker)


def _tracker(bad: str) -> LatencyTracker:
    tracker = LatencyTracker()
    tracker.record_latency(bad, took_ms=0, failed=True, now_ms=0)
    return tracker


def _select(rotation: QueueRotation, count: int) -> None:
    select = rotation.next_queue
    for _ in range(count):
        select(1)


def _select_and_record(rotation: QueueRotation, count: int) -> None:
    select, tracker = rotation.next_queue, rotation.latency
    if tracker is not None:
        for _ in range(count):
            tracker.record_latency(select(1).broker, 3, False, 1)


def _cycled(count: int) -> None:
    turns = cycle(_rotation(10, 100).queues)
    for _ in range(count):
        next(turns)


def _send(rotation: QueueRotation, count: int) -> None:
    for _ in range(count):
        send = SendAttempts(rotation)
        send.begin(0)
        send.succeeded(3)


def _by_key(name: str, count: int) -> None:
    queues, message, chooses = _rotation(10, 100).queues, Message("orders", b"{}"), make_selector(name)
    for number in range(count):
        select_queue(chooses, queues, message, f"order-{number}")


def _cut(ranges: list[OffsetRange], _count: int) -> None:
    split_ranges(ranges, SplitOptions(min_tasks=64))


def _cap(ranges: list[OffsetRange], _count: int) -> None:
    cap_fairly(ranges, 1_000_000)


class _LowestOfSet:
    """What one would write first: all that is not done, and the lowest of it."""

    def __init__(self, start: int) -> None:
        self.low, self.next, self._open = start, start, set[int]()

    def add(self, offsets: list[int], next_offset: int, _body_bytes: int) -> None:
        self._open.update(offsets)
        self.next = next_offset

    def finish(self, offsets: list[int]) -> None:
        self._open.difference_update(offsets)
        self.low = min(self._open, default=self.next)


def _window(kind: type[InflightWindow] | type[_LowestOfSet], step: int, count: int) -> None:
    """Pull batches up to a thousand ahead, and finish the messages one by one."""
    window = kind(0)
    pulled = [list(range(at, at + _BATCH)) for at in range(0, count, _BATCH)]
    for ahead in pulled[:_BATCH]:
        window.add(ahead, ahead[-1] + 1, 1_000)
    for number, batch in enumerate(pulled):
        for offset in batch[::step]:
            window.finish([offset])
        if number + _BATCH < len(pulled):
            more = pulled[number + _BATCH]
            window.add(more, more[-1] + 1, 1_000)


def _us(rule: _Rule, count: int = _MESSAGES) -> float:
    def once() -> float:
        start = process_time()
        rule(count)
        return process_time() - start

    return min(once() for _ in range(_RUNS)) / count * 1e6


def _row(what: str, ours_us: float, other: str, beside_us: float, *, goal_us: float) -> Row:
    ratio = f"{beside_us / max(ours_us, 1e-6):,.2f}x"
    return Row(what, _text(ours_us), f"{other}: {_text(beside_us)}", ratio, f"≤ {goal_us:g} µs", ours_us <= goal_us)


def _flat(what: str, ours_us: float, other: str, beside_us: float) -> Row:
    ratio = f"{beside_us / max(ours_us, 1e-6):,.2f}x"
    met = ours_us <= _FLAT * beside_us
    return Row(what, _text(ours_us), f"{other}: {_text(beside_us)}", ratio, f"≤ {_FLAT:g} times that", met)


def _text(us: float) -> str:
    return f"{us:.2f} µs"
