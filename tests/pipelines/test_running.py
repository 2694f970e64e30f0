"""A stream is followed to its very end: the last batch is told, however quickly it ends after it."""

from collections.abc import Iterator
from unittest.mock import MagicMock, PropertyMock

from steelyard.pipelines import running
from steelyard.pipelines.running import Batch, Progress


def test_a_batch_that_is_done_just_before_the_end_is_told_and_counted() -> None:
    done = MagicMock(batchId=0, numInputRows=7, batchDuration=20)
    query = MagicMock(lastProgress=None, recentProgress=[])
    query.exception.return_value = None

    def is_active() -> Iterator[bool]:
        yield True
        query.lastProgress, query.recentProgress = done, [done]
        yield False

    type(query).isActive = PropertyMock(side_effect=is_active())
    told: list[Batch] = []
    assert running._follow(query, running._Gate(lambda *_: None), Progress(told.append)) == 7
    assert [batch.rows for batch in told] == [7]
