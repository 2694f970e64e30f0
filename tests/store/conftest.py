"""Consume queues in small files, for all tests of the store: a disk in memory shows every byte of a large one."""

from collections.abc import Iterator

import pytest

from steelyard.store import consume_queue
from steelyard.store.consume_queue import ENTRY_BYTES


@pytest.fixture(scope="module", autouse=True)
def small_index_files() -> Iterator[None]:
    """Let a consume queue file hold thirty entries, so that tests have several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consume_queue, "_FILE_BYTES", 30 * ENTRY_BYTES)
        yield
