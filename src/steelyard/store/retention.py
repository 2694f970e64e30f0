"""Which log files go: those whose messages are all too old, and the oldest while there are too many bytes.

The file that is written to never goes. A file's newest message is judged by the first of the next file, which is not
older; so no file has to be read for it.
"""

from steelyard.store.disk import Disk
from steelyard.store.log import Log
from steelyard.store.options import StoreOptions
from steelyard.store.sums import sums_path
from steelyard.store.walk import Walk

__all__ = ["drop_old"]


def drop_old(disk: Disk, log: Log, options: StoreOptions, now_ms: int) -> list[str]:
    """Remove the log files that are too old or too many, and return their paths."""
    removed: list[str] = []
    while len(log.segments) > 1 and (_is_too_much(log, options) or _is_too_old(log, options, now_ms)):
        segment = log.drop_first()
        disk.remove(sums_path(segment.start))
        removed.append(segment.path)
    return removed


def _is_too_much(log: Log, options: StoreOptions) -> bool:
    return options.keep_bytes is not None and log.end - log.start > options.keep_bytes


def _is_too_old(log: Log, options: StoreOptions, now_ms: int) -> bool:
    if options.keep_ms is None:
        return False
    first_of_next = next(iter(Walk(log.segments[1:2], {})), None)
    return first_of_next is not None and first_of_next.stored_ms < now_ms - options.keep_ms
