"""Retention: which log files are deleted.

A file is deleted if all its messages are too old, and the oldest files are deleted while the log is too large. The file
that is being written is never deleted. The age of a file's newest message is judged by the first message of the next
file, which is not older, so no file has to be read for it.
"""

from steelyard.store.commit_log import CommitLog, Segment
from steelyard.store.log_scan import ChecksumsBySegment, LogScan
from steelyard.store.options import StoreOptions


def expired_segments(
    log: CommitLog, checksums: ChecksumsBySegment, options: StoreOptions, now_ms: int
) -> list[Segment]:
    """Return the log files that exceed the age or the size limit, the oldest first."""
    expired: list[Segment] = []
    for segment in log.segments[:-1]:
        is_too_large = options.keep_bytes is not None and log.end - segment.start > options.keep_bytes
        if not is_too_large:
            if options.keep_ms is None:
                break
            # Checksums are verified: one flipped bit in a timestamp must not cost a file of messages.
            later = next(iter(LogScan(log.segments[len(expired) + 1 :], checksums, stop=log.end)), None)
            if later is None or later.stored_ms >= now_ms - options.keep_ms:
                break
        expired.append(segment)
    return expired
