"""A stream is followed to its very end: the last batch is told, however quickly it ends after it."""

from collections.abc import Iterator
from unittest.mock import MagicMock, PropertyMock

from steelyard.pipelines import stream_runner
from steelyard.pipelines.stream_runner import BatchProgress, JobControl


def test_a_batch_that_is_done_just_before_the_end_is_reported_and_counted() -> None:
    done = MagicMock(batchId=0, numInputRows=7, batchDuration=20)
    query = MagicMock(lastProgress=None, recentProgress=[])
    query.exception.return_value = None

    def is_active() -> Iterator[bool]:
        yield True
        query.lastProgress, query.recentProgress = done, [done]
        yield False

    type(query).isActive = PropertyMock(side_effect=is_active())
    reported: list[BatchProgress] = []
    assert stream_runner._await_end(query, stream_runner._BatchGate(lambda *_: None), JobControl(reported.append)) == 7
    assert [batch.rows for batch in reported] == [7]
