"""Apache's checkpoint: how far log, queues and key index are safe on disk, as times of messages.

Steelyard needs none: it knows from the files themselves. It keeps the file true for the Java broker that may open the
directory next, and that begins its repair after a crash three seconds before the earliest of these times. So no message
that is not safe may be older than they say.

Three 64-bit numbers, milliseconds, at the start of a page. Brokers from 5.0 on have two more behind them, positions
that matter to replicas alone; these and all that may follow are left as they are.
"""

from dataclasses import dataclass
from struct import Struct as Layout

from steelyard.store.disk import Disk
from steelyard.store.replace import replace_file

__all__ = ["CHECKPOINT_BYTES", "CHECKPOINT_PATH", "Checkpoint", "read_checkpoint", "write_checkpoint"]

CHECKPOINT_PATH = "checkpoint"
CHECKPOINT_BYTES = 4096
"""The size of the file, which Java maps into memory as one page."""

_TIMES = Layout(">qqq")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The store times of the last messages that are safe in the log, in their queues and in the key index."""

    log_ms: int = 0
    queues_ms: int = 0
    index_ms: int = 0


def read_checkpoint(disk: Disk) -> Checkpoint:
    """Read the checkpoint; where there is none, or not enough of one, all times are 0."""
    return Checkpoint(*_TIMES.unpack_from(_page(disk)))


def write_checkpoint(disk: Disk, checkpoint: Checkpoint) -> None:
    """Write the checkpoint, safe from a loss of power when this returns; bytes of others stay as they are."""
    times = _TIMES.pack(checkpoint.log_ms, checkpoint.queues_ms, checkpoint.index_ms)
    replace_file(disk, CHECKPOINT_PATH, times + _page(disk)[_TIMES.size :])


def _page(disk: Disk) -> bytes:
    """Return the file as it should be: cut, or filled up with zeros, to its size."""
    return (disk.read(CHECKPOINT_PATH) or b"")[:CHECKPOINT_BYTES].ljust(CHECKPOINT_BYTES, b"\0")
