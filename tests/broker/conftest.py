"""Fixtures of all broker tests.

Consume queues are in small files, because a disk in memory shows every byte of a large one. Intervals are production's:
the test moves the clock.
"""

from collections.abc import Iterator

import pytest

from steelyard.store import consume_queue
from steelyard.store.consume_queue import ENTRY_BYTES


@pytest.fixture(scope="module", autouse=True)
def small_index_files() -> Iterator[None]:
    """Let a consume queue file hold a hundred entries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consume_queue, "_FILE_BYTES", 100 * ENTRY_BYTES)
        yield


@pytest.fixture(scope="module", autouse=True)
def _production_intervals(whole_intervals: None) -> None:
    """Nothing here waits."""
