"""A stream is followed to its very end: the last batch is told, however quickly it ends after it."""

from dataclasses import dataclass
from typing import Any

from steelyard.pipelines import running
from steelyard.pipelines.running import Batch, Progress


@dataclass
class _Done:
    batchId: int = 0
    numInputRows: int = 7
    batchDuration: int = 20

    def __getitem__(self, name: str) -> list[object]:
        assert name == "sources"
        return []


class _Query:
    """Ends with a batch that was done after somebody had looked for news."""

    def __init__(self) -> None:
        self.recentProgress: list[_Done] = []
        self._looks = 0

    @property
    def isActive(self) -> bool:
        self._looks += 1
        if self._looks > 1:
            self.recentProgress = [_Done()]
        return self._looks == 1

    @property
    def lastProgress(self) -> _Done | None:
        return self.recentProgress[-1] if self.recentProgress else None

    def exception(self) -> None:
        return None


def test_a_batch_that_is_done_just_before_the_end_is_told_and_counted() -> None:
    told: list[Batch] = []
    query: Any = _Query()
    assert running._follow(query, running._Gate(lambda *_: None), Progress(told.append)) == 7
    assert [batch.rows for batch in told] == [7]
