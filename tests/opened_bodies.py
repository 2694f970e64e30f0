"""How large bodies become that are decompressed in this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from steelyard.wire import compression


@contextmanager
def recorded_sizes() -> Iterator[list[int]]:
    """Record how large each body became that was decompressed in this process, block by block."""
    sizes: list[int] = []
    add = compression._BoundedOutput.add

    def recorded(opened: compression._BoundedOutput, block: bytes) -> None:
        sizes.append(opened._size + len(block))
        add(opened, block)

    with patch.object(compression._BoundedOutput, "add", recorded):
        yield sizes
