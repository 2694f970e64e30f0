"""A stream's reader called as Spark calls it, without Spark; and messages for it to find."""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from steelyard import Message, Producer
from steelyard.model import OffsetRange, Queue
from steelyard.spark.options import ReadOptions
from steelyard.spark.partition_reader import OffsetRangePartition
from steelyard.spark.schema import COLUMNS
from steelyard.spark.stream_offset import JsonObject
from steelyard.spark.stream_reader import StreamReader
from tests.live.clusters import Live

Batch = list[OffsetRange]


def batch_options(namesrv: str, **given: str) -> ReadOptions:
    """Return options of a batch as Spark passes them, with names in lower case."""
    written = {name.lower(): value for name, value in given.items()}
    return ReadOptions.of({"namesrv": namesrv} | written, streaming=False)


def reader(namesrv: str, **given: str) -> StreamReader:
    """Return the reader of a stream that asks brokers every time."""
    written = {name.lower(): value for name, value in given.items()}
    options = ReadOptions.of({"namesrv": namesrv, "offsetpollms": "0"} | written, streaming=True)
    return StreamReader(options, COLUMNS)


@contextmanager
def streaming(namesrv: str, **given: str) -> Iterator[StreamReader]:
    """Run the reader of a stream."""
    source = reader(namesrv, **given)
    try:
        yield source
    finally:
        source.stop()


def queues_on(cluster: Live, topic: str, *numbers: int) -> list[Queue]:
    """Return queues of the first broker."""
    return [Queue(topic, cluster.brokers[0], number) for number in numbers]


def fill(namesrv: str, topic: str, count: int, *queues: Queue) -> None:
    """Send so many messages to each of some queues; without queues, over all that there are."""
    with Producer(namesrv) as producer:
        for queue in queues or (None,):
            for number in range(count):
                producer.send(Message(topic, b"%d" % number), queue=queue)


def ranges_in(tasks: Sequence[InputPartition]) -> Batch:
    """Return all ranges of some tasks, those of a queue that were cut joined again."""
    found: dict[Queue, OffsetRange] = {}
    for task in tasks:
        assert isinstance(task, OffsetRangePartition)
        assert task.addresses.keys() == {each.queue.broker for each in task.ranges}
        for each in task.ranges:
            before = found.get(each.queue)
            assert before is None or before.end == each.start
            found[each.queue] = each if before is None else OffsetRange(each.queue, before.start, each.end)
    return [found[queue] for queue in sorted(found)]


class StreamDriver:
    """A query of Spark's as its source sees it: each call in its order, offsets as texts, a checkpoint that lasts.

    ``offsets`` is the log that is written ahead, ``done`` how many of its batches are finished.
    """

    def __init__(self) -> None:
        self.offsets: list[str] = []
        self.done = 0
        self.read: list[Batch] = []
        """What each batch read, in the order that they ran; a replay is there again."""

    def start(self, source: StreamReader, *, available_now: bool = False) -> None:
        """Begin a run; a batch that was written down and not finished is done first."""
        self.limit = source.getDefaultReadLimit()
        if available_now:
            source.prepareForTriggerAvailableNow()
        if len(self.offsets) > self.done:
            self._run(source)
            self.done += 1

    def step(self, source: StreamReader, *, crash: bool = False, limit: ReadLimit | None = None) -> Batch | None:
        """Run one batch, if there is one; or die in the middle of it."""
        before = self._start(source)
        end = _text(source.latestOffset(_read(before), limit or self.limit))
        report = source.reportLatestOffset()
        assert report is None or _text(report) == json.dumps(report, sort_keys=True)
        if self.offsets and end == self.offsets[-1]:
            return None
        self.offsets.append(end)
        if self.done:
            source.commit(_read(self.offsets[-2]))
        if crash:
            return None
        self._run(source)
        self.done += 1
        return self.read[-1]

    def run(self, source: StreamReader, *, limit: ReadLimit | None = None, most: int = 50) -> list[Batch]:
        """Run batches until there is no more; the first may be empty, others must not."""
        ran: list[Batch] = []
        for number in range(most):
            batch = self.step(source, limit=limit)
            if batch is None:
                return ran
            assert batch or not number
            ran.append(batch)
        raise AssertionError(f"{most} batches, and no end")

    def total(self) -> int:
        """How many messages were read, repeats included."""
        return sum(len(each) for batch in self.read for each in batch)

    def _start(self, source: StreamReader) -> str:
        return self.offsets[-1] if self.offsets else _text(source.initialOffset())

    def _run(self, source: StreamReader) -> None:
        start = _text(source.initialOffset()) if len(self.offsets) == 1 else self.offsets[-2]
        self.read.append(ranges_in(source.partitions(_read(start), _read(self.offsets[-1]))))


def _text(offset: JsonObject) -> str:
    text = json.dumps(offset)
    assert text == json.dumps(offset, sort_keys=True)
    return text


def _read(text: str) -> JsonObject:
    return cast("JsonObject", json.loads(text))


def spans(batch: Iterable[OffsetRange]) -> list[tuple[int, int]]:
    """Return the offsets of ranges, without their queues."""
    return [(each.start, each.end) for each in batch]
