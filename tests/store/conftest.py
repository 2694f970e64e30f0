"""Queue indexes in small files, for all tests of the store: a disk in memory shows every byte of a large one."""

from collections.abc import Iterator

import pytest

from steelyard.store import index_files
from steelyard.store.queues import ENTRY_BYTES


@pytest.fixture(scope="module", autouse=True)
def small_index_files() -> Iterator[None]:
    """Let an index file hold thirty entries, so that tests see more than one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_files, "_FILE_BYTES", 30 * ENTRY_BYTES)
        yield
