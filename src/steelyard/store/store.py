"""The store: a log, an index for each queue, and what is true of both right now.

Nothing here waits and nothing here knows the time: the shell calls `flush` once for all that a read of a socket
brought, runs `SyncJob`s in a thread, and calls `tick`. A message is there for readers once `flush` returned, safe from
a crash of the process then, and safe from a loss of power once `durable` has passed it.
"""

from msgspec import Struct

from steelyard.errors import DiskFailed, LimitExceeded, StoreReadOnly
from steelyard.store.disk import Disk, File, Lock
from steelyard.store.index_files import load_indexes, remove_index, save_index
from steelyard.store.log import Log, write_all
from steelyard.store.lookup import Lookup
from steelyard.store.marks import mark_of
from steelyard.store.opening import Opened, give_back, look_at, take
from steelyard.store.options import StoreOptions
from steelyard.store.queues import ENTRY_BYTES, HOLE_SIZE, QueueIndex
from steelyard.store.recovery import Indexes, cut, rebuild
from steelyard.store.retention import drop_old
from steelyard.store.slices import Slice
from steelyard.store.state import Closed
from steelyard.store.sums import SumsByNeed, pack_sum, record_sum, sums_path
from steelyard.store.syncing import SyncJob
from steelyard.store.walk import Damage, Found, find_whole
from steelyard.wire.hosts import IPV4_BYTES
from steelyard.wire.limits import TOPIC_BYTES_V1
from steelyard.wire.record import pack_record
from steelyard.wire.record_layout import BLANK_BYTES, IPV4_HEAD

__all__ = ["Appended", "Flushed", "Store"]

_HEAD_BYTES = IPV4_HEAD.size
_LOOKED_AT = 800
"""How many entries one read looks at, at most, unless more messages are asked for: a filter may match none of them."""


class Appended(Struct, frozen=True, gc=False):
    """Where a message will be once it is flushed."""

    offset: int
    position: int
    size: int

    @property
    def end(self) -> int:
        """The position of the log that says that it is there, or safe."""
        return self.position + self.size


class Flushed(Struct, frozen=True, gc=False):
    """What a flush did: messages up to ``end`` are there; the others, if any, are not, because of ``error``."""

    end: int
    error: DiskFailed | None = None


class Store:
    """A directory of messages. Make one with `Store.open`."""

    def __init__(self, disk: Disk, lock: Lock, options: StoreOptions, log: Log, queues: Indexes) -> None:
        self._disk, self._lock, self._options = disk, lock, options
        self._log, self._queues = log, queues
        self._added: list[QueueIndex] = []
        self._sums: list[bytes] = []
        self._old_sums = SumsByNeed(disk)
        self.lookup = Lookup(disk, log, queues, self._old_sums)
        """Messages by place, by time and by key."""
        self._sum_files: dict[int, tuple[File, int]] = {}
        self._unsynced: set[int] = {segment.start for segment in log.segments[-1:]}
        self._trusted_from = log.end
        """Records from here on were written by this process: they need no check when they are read."""
        self.durable = log.end
        """Messages up to this position of the log are safe from a loss of power."""
        self.refusal: str | None = None
        """Why no writes are taken, or None."""
        self.damages: list[Damage] = []
        """What was found to be lost since the store was opened."""

    @classmethod
    def open(cls, disk: Disk, options: StoreOptions) -> "Store":
        """Open a directory, or make one of an empty directory; what is damaged is told in `damages`."""
        found = look_at(disk, options.segment_bytes)
        lock = take(disk)
        try:
            return cls._opened(disk, lock, options, found)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def _opened(cls, disk: Disk, lock: Lock, options: StoreOptions, found: Opened) -> "Store":
        known = load_indexes(disk)
        if found.closed is not None and _fit(known, found.closed.end):
            log = Log(disk, found.segment_bytes, found.segments, found.closed.end)
            return cls(disk, lock, options, log, known)
        rebuilt = rebuild(disk, found.segments, known, _mark)
        segments = cut(disk, found.segments, rebuilt.end)
        for topic, queue_id in known:
            remove_index(disk, topic, queue_id)
        store = cls(disk, lock, options, Log(disk, found.segment_bytes, segments, rebuilt.end), rebuilt.indexes)
        store.damages = rebuilt.damages
        store._trusted_from = 0
        return store

    # -- writing ------------------------------------------------------------------------------------------------------

    def append(
        self,
        topic: bytes,
        queue_id: int,
        body: bytes,
        properties: bytes,
        *,
        born_ms: int,
        born_host: bytes,
        stored_ms: int,
        flag: int = 0,
        sys_flag: int = 0,
        reconsume_times: int = 0,
        prepared_offset: int = 0,
        mark: int | None = None,
    ) -> Appended:
        """Take a message; it is there after the next `flush`. ``mark`` spares the look at its properties."""
        if self.refusal is not None or not self._log.is_healthy:
            self._mend()
        store_host = self._options.store_host
        body_at = _HEAD_BYTES + len(born_host) + len(store_host) - 2 * IPV4_BYTES
        topic_bytes = len(topic)
        size = body_at + len(body) + (3 if topic_bytes <= TOPIC_BYTES_V1 else 4) + topic_bytes + len(properties)
        log = self._log
        if size + BLANK_BYTES > log.segment_bytes:
            raise LimitExceeded("a record", where="store", limit=log.segment_bytes - BLANK_BYTES, found=size)
        index = self._queues.get((topic, queue_id))
        if index is None:
            index = self._queues[topic, queue_id] = QueueIndex()
        position = log.place(size)
        offset = index.end
        record = pack_record(
            topic,
            queue_id,
            offset,
            position,
            body,
            properties,
            born_ms=born_ms,
            born_host=born_host,
            stored_ms=stored_ms,
            store_host=store_host,
            flag=flag,
            sys_flag=sys_flag,
            reconsume_times=reconsume_times,
            prepared_offset=prepared_offset,
        )
        log.add(record)
        index.add(position, size, mark_of(topic, properties, stored_ms) if mark is None else mark)
        self._added.append(index)
        self._sums.append(pack_sum(position, record_sum(record[:body_at], record[body_at + len(body) :])))
        return Appended(offset, position, size)

    def flush(self) -> Flushed:
        """Write what was appended, in one write a file, and show it to readers."""
        log, start = self._log, self._log.end
        error = log.flush()
        if error is not None:
            self._take_back(log.end)
        for index in self._added:
            index.shown = index.end
        self._added.clear()
        self._write_sums(start)
        self._unsynced.update(segment.start for segment in log.segments if segment.end > start)
        return Flushed(log.end, error)

    def _take_back(self, end: int) -> None:
        """Forget messages that did not get into the log."""
        for index in reversed(self._added):
            if index.end > index.shown and index.entry(index.end - 1).position >= end:
                del index.entries[-ENTRY_BYTES:]
        self._sums = [each for each in self._sums if int.from_bytes(each[:8], "big") < end]

    def _mend(self) -> None:
        if self.refusal is not None:
            raise StoreReadOnly(self.refusal, next_step="look at the disk, then restart the broker")
        try:
            self._log.heal()
        except DiskFailed as error:
            raise StoreReadOnly(
                f"a failed write cannot be undone yet: {error.what}", next_step=error.next_step
            ) from error

    def _write_sums(self, start: int) -> None:
        """Write the sums of what was flushed. A disk that does not take them costs nothing but them."""
        sums, self._sums = self._sums, []
        log = self._log
        for segment in log.segments:
            if segment.end <= start or not sums:
                continue
            own = (
                [each for each in sums if int.from_bytes(each[:8], "big") < segment.end]
                if len(log.segments) > 1
                else sums
            )
            sums = sums[len(own) :]
            try:
                file, at = self._sum_file(segment.start)
                data = b"".join(own)
                write_all(file, at, data, sums_path(segment.start))
                self._sum_files[segment.start] = file, at + len(data)
            except DiskFailed:
                self._sum_files.pop(segment.start, None)

    def _sum_file(self, segment_start: int) -> tuple[File, int]:
        known = self._sum_files.get(segment_start)
        if known is None:
            self._disk.mkdir("steelyard/sums")
            file = self._disk.open(sums_path(segment_start), create=True)
            known = self._sum_files[segment_start] = file, file.size
        return known

    # -- syncing ------------------------------------------------------------------------------------------------------

    def begin_sync(self) -> SyncJob:
        """Return what has to be synced for all that is flushed now; run it in a thread, then call `end_sync`."""
        unsynced, self._unsynced = self._unsynced, set()
        return SyncJob(self._log.end, [s.file for s in self._log.segments if s.start in unsynced])

    def end_sync(self, job: SyncJob) -> None:
        """Take note of how a sync went. After a failure nothing is acked from these files any more."""
        if job.error is not None:
            self.refusal = f"a sync failed, so nobody knows what the disk holds: {job.error.what}"
        elif self.refusal is None:
            self.durable = max(self.durable, job.end)

    # -- reading ------------------------------------------------------------------------------------------------------

    def bounds(self, topic: bytes, queue_id: int) -> tuple[int, int]:
        """Return the first offset that a queue still has, and the next to be written."""
        index = self._queues.get((topic, queue_id))
        return (index.start, index.shown) if index is not None else (0, 0)

    def queues(self) -> list[tuple[bytes, int]]:
        """List the queues that have or had messages, by topic and number."""
        return sorted(self._queues)

    def read(
        self,
        topic: bytes,
        queue_id: int,
        offset: int,
        *,
        most: int = 32,
        most_bytes: int = 1 << 18,
        marks: frozenset[int] | None = None,
    ) -> Slice:
        """Read messages from an offset on; with ``marks`` only those that have one of them. The first always fits."""
        index = self._queues.get((topic, queue_id))
        if index is None:
            return Slice([], 0, 0, offset, 0, 0)
        low, high = index.start, index.shown
        at = start = max(offset, low)
        parts: list[memoryview] = []
        count = size = 0
        run_start = run_end = -1
        for position, length, mark in (
            index.slice(start, min(high, start + max(_LOOKED_AT, most))) if start < high else ()
        ):
            if count == most or (count and size + length > most_bytes and length != HOLE_SIZE):
                break
            at += 1
            if length == HOLE_SIZE or (marks is not None and mark not in marks):
                continue
            if position < self._trusted_from and not self._is_right(index, topic, queue_id, at - 1, position, length):
                self._walk_again()
                return self.read(topic, queue_id, offset, most=most, most_bytes=most_bytes, marks=marks)
            if position != run_end:
                self._add_run(parts, run_start, run_end)
                run_start = position
            run_end = position + length
            count += 1
            size += length
        self._add_run(parts, run_start, run_end)
        return Slice(parts, count, size, max(at, offset) if start < high else max(offset, 0), low, high)

    def _add_run(self, parts: list[memoryview], start: int, end: int) -> None:
        if end > start >= 0:
            view = self._log.read(start, end - start)
            if view is not None:
                parts.append(view)

    def _is_right(self, index: QueueIndex, topic: bytes, queue_id: int, offset: int, position: int, size: int) -> bool:
        """Check a record of an earlier process when it is first read, against itself and against the index."""
        if index.checked_start <= offset < index.checked_end:
            return True
        segment = self._log.segment_at(position)
        if segment is None:
            return False
        found = find_whole(segment.view, position - segment.start, position, self._old_sums.of(segment.start))
        if found is None or found.size != size or found.offset != offset:
            return False
        if offset == index.checked_end:
            index.checked_end += 1
        elif index.checked_start == index.checked_end:
            index.checked_start, index.checked_end = offset, offset + 1
        return found.topic == topic and found.queue_id == queue_id

    def _walk_again(self) -> None:
        """Make all indexes again from the log, since one of them, or a record, is not what it was."""
        self.flush()
        rebuilt = rebuild(self._disk, self._log.segments, self._queues, _mark)
        for topic, queue_id in self._queues:
            remove_index(self._disk, topic, queue_id)
        self._queues.clear()
        self._queues.update(rebuilt.indexes)
        self.damages += rebuilt.damages
        self._trusted_from = 0

    # -- keeping and closing ------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> list[str]:
        """Remove log files that are too old or too many; return their paths."""
        removed = drop_old(self._disk, self._log, self._options, now_ms)
        if removed:
            for index in self._queues.values():
                index.forget_before(self._log.start)
            self.lookup.forget_before(self._log.start)
        return removed

    def save_indexes(self) -> None:
        """Write index files as far as they changed; without that they are made again from the log."""
        for (topic, queue_id), index in self._queues.items():
            save_index(self._disk, topic, queue_id, index)

    def close(self, now_ms: int) -> None:
        """Flush, sync, write the indexes and say that all is in order."""
        flushed = self.flush()
        job = self.begin_sync()
        job.files += [file for file, _ in self._sum_files.values()]
        job.run()
        self.end_sync(job)
        if self.refusal is None and flushed.error is None:
            self.save_indexes()
            self.lookup.save()
            give_back(
                self._disk,
                self._lock,
                Closed(end=self._log.end, closed_ms=now_ms, segment_bytes=self._log.segment_bytes),
            )
        else:
            self._lock.release()
        for segment in self._log.segments:
            segment.file.close()
        for file, _ in self._sum_files.values():
            file.close()


def _mark(found: Found) -> int:
    return mark_of(found.topic, found.properties, found.stored_ms)


def _fit(indexes: Indexes, end: int) -> bool:
    """Say whether no index points behind the end of the log."""
    return all(index.entry(index.end - 1).position < end for index in indexes.values() if index.end > index.start)
