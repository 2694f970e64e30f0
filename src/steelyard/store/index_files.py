"""Queue indexes as files, in Apache's layout: ``consumequeue/<topic>/<queue>/<first byte>``, 300,000 entries each.

Nothing here is precious: whatever is missing or does not fit is made again from the log. But an index may know more
than the log does: how many messages a queue had whose files are gone by now. So what is made again takes the place of
the old files one by one, and the one that holds a queue's last number stays.

For the same reason few of them are synced: a queue that has a message in the log, which is safe, loses nothing with its
index. Only that of a queue which has none, or will have none any more, is made safe. Ten thousand topics with a message
each would else be fifty thousand syncs, and a stop would take a minute and a half.
"""

from bisect import bisect_left
from zlib import crc32

from steelyard.errors import DiskFailed
from steelyard.store.disk import Disk
from steelyard.store.log import segment_name, write_all
from steelyard.store.queues import ENTRY_BYTES, HOLE, QueueIndex
from steelyard.store.replace import make_folder

__all__ = ["INDEX_FOLDER", "Indexes", "can_be_folder", "checksum", "load_indexes", "remove_index", "save_indexes"]

Indexes = dict[tuple[bytes, int], QueueIndex]
"""The index of each queue, by topic and number."""

INDEX_FOLDER = "consumequeue"
_FILE_BYTES = 300_000 * ENTRY_BYTES
_LONGEST_NAME = 255


def can_be_folder(topic: bytes) -> bool:
    r"""Say whether a topic can have a folder of its name.

    >>> can_be_folder(b"orders"), can_be_folder(b"../orders"), can_be_folder(b"\xff"), can_be_folder(b"")
    (True, False, False, False)
    """
    try:
        topic.decode()
    except UnicodeDecodeError:
        return False
    return 0 < len(topic) <= _LONGEST_NAME and not {47, 0} & set(topic) and topic not in (b".", b"..")


def _folder(topic: bytes, queue_id: int) -> str:
    return f"{INDEX_FOLDER}/{topic.decode()}/{queue_id}"


def checksum(indexes: Indexes) -> int:
    """Return a checksum of all indexes, so that the next start knows whether it reads what was written."""
    value = 0
    for (topic, queue_id), index in sorted(indexes.items()):
        if index.shown:
            value = crc32(b"%b %d %d" % (topic, queue_id, index.start), value)
            value = crc32(index.entries, value)
    return value


def load_indexes(disk: Disk) -> Indexes:
    """Read all index files; where a file is missing, a queue has what follows."""
    indexes: Indexes = {}
    for topic in disk.names(INDEX_FOLDER):
        for queue in disk.names(f"{INDEX_FOLDER}/{topic}"):
            if not queue.isascii() or not queue.isdigit():
                continue
            index = _load(disk, f"{INDEX_FOLDER}/{topic}/{queue}")
            if index is not None:
                indexes[topic.encode(errors="surrogateescape"), int(queue)] = index
    return indexes


def _load(disk: Disk, folder: str) -> QueueIndex | None:
    names = _files(disk, folder)
    if not names:
        return None
    index = QueueIndex(int(names[0]) // ENTRY_BYTES)
    for name in names:
        if int(name) != index.end * ENTRY_BYTES:
            index = QueueIndex(int(name) // ENTRY_BYTES)  # a file is missing, or one is not full
        data = _read(disk, f"{folder}/{name}")
        index.entries += data[: _written(data)]
    index.shown = index.saved = index.end
    index.forget_holes()  # a queue that begins within a file has holes before its first message
    return index


def _read(disk: Disk, path: str) -> bytes:
    """Read a file up to where it was never written: it is as large as it may get from the start."""
    file = disk.open(path)
    try:
        return file.read(0, -(-file.zeros_from() // ENTRY_BYTES) * ENTRY_BYTES)  # zeros may be the end of an entry
    finally:
        file.close()


def _written(data: bytes) -> int:
    """Return how many bytes of a file are entries: those that were never written are zero, and come last."""
    count = len(data) // ENTRY_BYTES
    places = range(count)
    low = bisect_left(places, 1, key=lambda place: not any(data[place * ENTRY_BYTES : (place + 1) * ENTRY_BYTES]))
    if data[low * ENTRY_BYTES :] == bytes(len(data) - low * ENTRY_BYTES):
        return low * ENTRY_BYTES
    # Something is between the zeros, or zeros are between entries: all up to the last that is not zero.
    return min(-(-len(data.rstrip(b"\0")) // ENTRY_BYTES), count) * ENTRY_BYTES


def _files(disk: Disk, folder: str) -> list[str]:
    return [name for name in disk.names(folder) if name.isascii() and name.isdigit() and len(name) == 20]


def save_indexes(disk: Disk, indexes: Indexes, log_start: int) -> None:
    """Write what was added since the last time. What fails with one queue is told after the others.

    Safe afterwards is what a log that begins at ``log_start`` cannot tell: the numbers of queues with nothing in it.
    """
    failed: DiskFailed | None = None
    for (topic, queue_id), index in indexes.items():
        try:
            _save(disk, _folder(topic, queue_id), index, is_safe=index.first_from(log_start) >= index.shown)
        except DiskFailed as error:
            failed = failed or error
    if failed is not None:
        raise failed


def _save(disk: Disk, folder: str, index: QueueIndex, *, is_safe: bool) -> None:
    """Write one index, safe from a loss of power or not, and remove files that only hold what is forgotten."""
    shown = index.shown
    if index.is_anew and shown:
        first = min(index.start, shown - 1) * ENTRY_BYTES // _FILE_BYTES * _FILE_BYTES
        _write(disk, folder, index, first, is_safe=is_safe)
    elif index.saved < shown:
        _write(disk, folder, index, index.saved * ENTRY_BYTES, is_safe=is_safe)
    if is_safe and index.safe < index.saved:
        _make_safe(disk, folder, index.safe * ENTRY_BYTES)
    if is_safe:
        index.safe = shown
    # The file of the last number stays, even if what is in it is forgotten.
    start = index.start * ENTRY_BYTES
    old = [name for name in _files(disk, folder) if int(name) + _FILE_BYTES < start] if start > _FILE_BYTES else []
    for name in old:
        disk.remove(f"{folder}/{name}")
    if old:
        disk.sync_folder(folder)
    index.saved, index.is_anew = shown, False


def _make_safe(disk: Disk, folder: str, at: int) -> None:
    """Sync what was written from a byte of the queue on, by this process or the one before."""
    for name in _files(disk, folder):
        if int(name) + _FILE_BYTES > at:
            file = disk.open(f"{folder}/{name}")
            try:
                file.sync()
            finally:
                file.close()
    disk.sync_folder(folder)
    make_folder(disk, folder)


def _write(disk: Disk, folder: str, index: QueueIndex, at: int, *, is_safe: bool) -> None:
    """Write entries from a byte of the queue on; those before its first message are holes, as Apache has it."""
    if is_safe and not disk.names(folder):
        make_folder(disk, folder)
    else:
        disk.mkdir(folder)
    start, end = index.start * ENTRY_BYTES, index.shown * ENTRY_BYTES
    files = range(at // _FILE_BYTES * _FILE_BYTES, end, _FILE_BYTES)
    for first in files:
        stop = min(end, first + _FILE_BYTES)
        path = f"{folder}/{segment_name(first)}"
        # A file that is written anew takes the place of the old one whole: half of each would know less than either.
        beside = f"{path}.tmp" if index.is_anew else path
        file = disk.open(beside, create=True)
        try:
            if index.is_anew and file.size:
                file.truncate(0)
            at = first if not file.size else max(at, first)
            holes = HOLE * ((min(start, stop) - at) // ENTRY_BYTES)
            entries = bytes(index.entries[max(0, at - start) : max(0, stop - start)])
            write_all(file, at - first, holes + entries, beside)
            if file.size != _FILE_BYTES:
                file.truncate(_FILE_BYTES)
            if is_safe:
                file.sync()
        finally:
            file.close()
        if index.is_anew:
            disk.rename(beside, path)
    if index.is_anew:
        for name in _files(disk, folder):
            if int(name) not in files:
                disk.remove(f"{folder}/{name}")
    if is_safe:
        disk.sync_folder(folder)


def remove_index(disk: Disk, topic: bytes, queue_id: int) -> None:
    """Remove the files of a queue's index."""
    folder = f"{INDEX_FOLDER}/{topic.decode(errors='surrogateescape')}/{queue_id}"
    for name in disk.names(folder):
        disk.remove(f"{folder}/{name}")
