"""Queue indexes as files, in Apache's layout: ``consumequeue/<topic>/<queue>/<first byte>``, 300,000 entries each.

Nothing here is precious: whatever is missing or does not fit is made again from the log.
"""

from steelyard.store.disk import Disk
from steelyard.store.log import segment_name, write_all
from steelyard.store.queues import ENTRY_BYTES, HOLE, QueueIndex

__all__ = ["INDEX_FOLDER", "load_indexes", "remove_index", "save_index"]

INDEX_FOLDER = "consumequeue"
_FILE_BYTES = 300_000 * ENTRY_BYTES
_NOTHING = bytes(ENTRY_BYTES)


def _folder(topic: bytes, queue_id: int) -> str:
    return f"{INDEX_FOLDER}/{topic.decode()}/{queue_id}"


def load_indexes(disk: Disk) -> dict[tuple[bytes, int], QueueIndex]:
    """Read all index files; a queue whose files do not fit together is left out."""
    indexes: dict[tuple[bytes, int], QueueIndex] = {}
    for topic in disk.names(INDEX_FOLDER):
        for queue in disk.names(f"{INDEX_FOLDER}/{topic}"):
            if not queue.isascii() or not queue.isdigit():
                continue
            index = _load(disk, f"{INDEX_FOLDER}/{topic}/{queue}")
            if index is not None:
                indexes[topic.encode(), int(queue)] = index
    return indexes


def _load(disk: Disk, folder: str) -> QueueIndex | None:
    names = _files(disk, folder)
    index = QueueIndex(int(names[0]) // ENTRY_BYTES if names else 0)
    for name in names:
        if int(name) != index.end * ENTRY_BYTES:
            return None  # a file is missing, or one is not full
        data = disk.read(f"{folder}/{name}") or b""
        index.entries += data[: _written(data)]
    index.shown = index.saved = index.end
    index.forget_before(0)  # a queue that begins within a file has holes before its first message
    return index


def _files(disk: Disk, folder: str) -> list[str]:
    return [name for name in disk.names(folder) if name.isascii() and name.isdigit() and len(name) == 20]


def _written(data: bytes) -> int:
    """Return how many bytes of a file are entries: those that were never written are zero, and come last."""
    low, high = 0, len(data) // ENTRY_BYTES
    while low < high:
        middle = (low + high) // 2
        if data[middle * ENTRY_BYTES : (middle + 1) * ENTRY_BYTES] == _NOTHING:
            high = middle
        else:
            low = middle + 1
    return low * ENTRY_BYTES


def save_index(disk: Disk, topic: bytes, queue_id: int, index: QueueIndex) -> None:
    """Write what was added since the last time, sync it, and remove files that only hold what is forgotten."""
    folder = _folder(topic, queue_id)
    base, at, end = (offset * ENTRY_BYTES for offset in (index.start, index.saved, index.shown))
    if at < end:
        disk.mkdir(folder)
    while at < end:
        first = at // _FILE_BYTES * _FILE_BYTES
        stop = min(end, first + _FILE_BYTES)
        _write(disk, f"{folder}/{segment_name(first)}", first, at, bytes(index.entries[at - base : stop - base]))
        at = stop
    forgotten = [name for name in _files(disk, folder) if int(name) + _FILE_BYTES <= base]
    for name in forgotten:
        disk.remove(f"{folder}/{name}")
    if forgotten or index.saved < index.shown:
        disk.sync_folder(folder)
    index.saved = index.shown


def _write(disk: Disk, path: str, first: int, at: int, data: bytes) -> None:
    file = disk.open(path, create=True)
    try:
        if file.size < _FILE_BYTES:
            if not file.size:
                # What is before the first message of a new file is lost or never was here: holes, as Apache has it.
                data, at = HOLE * ((at - first) // ENTRY_BYTES) + data, first
            file.truncate(_FILE_BYTES)
        write_all(file, at - first, data, path)
        file.sync()
    finally:
        file.close()


def remove_index(disk: Disk, topic: bytes, queue_id: int) -> None:
    """Remove the files of a queue's index."""
    folder = _folder(topic, queue_id)
    for name in disk.names(folder):
        disk.remove(f"{folder}/{name}")
