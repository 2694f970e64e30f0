"""What all tests of the broker share.

Queue indexes are in small files, because a disk in memory shows every byte of a large one. Intervals are production's:
the clock is turned by the test.
"""

from collections.abc import Iterator

import pytest

from steelyard.store import index_files
from steelyard.store.queues import ENTRY_BYTES


@pytest.fixture(scope="module", autouse=True)
def small_index_files() -> Iterator[None]:
    """Let an index file hold a hundred entries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_files, "_FILE_BYTES", 100 * ENTRY_BYTES)
        yield


@pytest.fixture(scope="module", autouse=True)
def _production_intervals(whole_intervals: None) -> None:
    """Nothing here waits."""
