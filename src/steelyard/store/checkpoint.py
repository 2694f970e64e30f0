"""Apache's checkpoint: up to which store time log, queues and key index are on disk.

Steelyard does not need it. A Java broker that opens the directory after a crash starts its repair three seconds before
the earliest of these times, so no message that is not yet synced may be older than they say. Three 64-bit numbers,
milliseconds, at the start of a page; what other versions write behind them is left unchanged.
"""

from dataclasses import dataclass
from struct import Struct as Layout

from steelyard.store.disk import Disk, replace_file

CHECKPOINT_PATH = "checkpoint"
CHECKPOINT_BYTES = 4096
"""The size of the file, which Java maps into memory as one page."""

_TIMES = Layout(">qqq")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The store times of the last messages that are synced in the log, in their queues and in the key index."""

    log_ms: int = 0
    queues_ms: int = 0
    index_ms: int = 0


def write_checkpoint(disk: Disk, checkpoint: Checkpoint) -> None:
    """Write the checkpoint and sync it; bytes that other versions own are unchanged."""
    times = _TIMES.pack(checkpoint.log_ms, checkpoint.queues_ms, checkpoint.index_ms)
    page = (disk.read(CHECKPOINT_PATH) or b"")[:CHECKPOINT_BYTES].ljust(CHECKPOINT_BYTES, b"\0")
    replace_file(disk, CHECKPOINT_PATH, times + page[_TIMES.size :])
