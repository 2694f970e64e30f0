"""The message store: a commit log, a consume queue for each queue, and the present state of both.

Nothing here blocks or knows the time: the shell calls `flush` once for everything that one read of a socket brought,
runs `SyncJob`s in a thread, and calls `tick`. A message is visible to readers, and survives a crash of the process,
once `flush` returned; it survives a power loss once `durable` has passed it.
"""

from contextlib import suppress
from dataclasses import replace
from itertools import count

from msgspec import Struct

from steelyard.errors import ConfigurationError, DiskFailed, LimitExceeded, StoreReadOnly
from steelyard.store.apache_key_index import ApacheKeyIndex, remove_apache_key_index
from steelyard.store.checkpoint import Checkpoint, write_checkpoint
from steelyard.store.checksum_files import ChecksumFiles, LazyChecksums
from steelyard.store.checksums import pack_checksums
from steelyard.store.commit_log import Segment
from steelyard.store.consume_queue import (
    ENTRY_BYTES,
    ConsumeQueue,
    consume_queues_crc32,
    delete_topic_queues,
    is_valid_folder,
    save_consume_queues,
)
from steelyard.store.directory import (
    check_directory,
    has_abort_file,
    inspect_directory,
    mark_clean_shutdown,
    mark_in_use,
    write_abort_file,
)
from steelyard.store.disk import DirectoryLock, Disk
from steelyard.store.json_documents import CleanShutdown
from steelyard.store.message_lookup import MessageLookup
from steelyard.store.options import StoreOptions
from steelyard.store.queue_reader import QueueReader, ReadResult
from steelyard.store.recovery import RecoveredLog, recover
from steelyard.store.retention import expired_segments
from steelyard.store.sync import SyncJob, SyncTracker
from steelyard.store.tags_code import SCHEDULE_TOPIC, compute_tags_code
from steelyard.wire.batch import build_batch_records, decode_batch
from steelyard.wire.limits import TOPIC_BYTES_V1
from steelyard.wire.record import BLANK_BYTES, head_layout_for, pack_head, pack_tail

_MAX_INDEXED_AT_CLOSE = 60_000
"""Messages and keys that a close adds to Apache's key index at most: a close must not take long."""


class AppendResult(Struct, frozen=True, gc=False):
    """Where a message is once it is flushed."""

    offset: int
    position: int
    size: int

    @property
    def end(self) -> int:
        """The log position behind it: once passed, the message is flushed or durable."""
        return self.position + self.size


class FlushResult(Struct, frozen=True, gc=False):
    """Messages up to ``end`` are stored; any others are not, because of ``error``."""

    end: int
    error: DiskFailed | None = None


class Store:
    """A directory of messages. Create one with `Store.open`."""

    def __init__(self, disk: Disk, lock: DirectoryLock, options: StoreOptions, recovered: RecoveredLog) -> None:
        self._disk, self._lock = disk, lock
        self.options = options
        """The options of this store."""
        log, queues = self._log, self._queues = recovered.log, recovered.consume_queues
        self._appended_queues: list[ConsumeQueue] = []
        self.has_unflushed = False
        """Whether something was appended since the last `flush`."""
        self._unwritten_checksums: list[tuple[int, bytes, bytes]] = []
        """Position, head and tail of appended records: their checksums are computed when they are written."""
        self._checksum_files = ChecksumFiles(disk)
        self._stored_checksums = LazyChecksums(disk, log)
        self.reader = QueueReader(log, queues, self._stored_checksums, recovered.trusted_from)
        """Reads of queues; `read` with all arguments by position."""
        self.damages = self.reader.damages
        """What turned out to be lost since the store was opened."""
        self.damages += recovered.damages
        self._sync_tracker = SyncTracker(log)
        self.recovery = recovered.recovery
        """What had to be done to open the directory."""
        self.lookup = MessageLookup(disk, log, queues, self._stored_checksums)
        """Messages by position, by time and by key."""
        self.apache_key_index = ApacheKeyIndex(disk, log, self._stored_checksums) if options.keeps_apache_keys else None
        """The key index of an Apache broker, if it is maintained."""
        self.read_only_reason: str | None = None
        """Why writes are refused, or None."""

    def set_retention(self, keep_ms: int | None) -> None:
        """Change how long log files are kept; None keeps them whatever their age."""
        self.options = replace(self.options, keep_ms=keep_ms)

    @property
    def start(self) -> int:
        """The position of the oldest byte of the log."""
        return self._log.start

    @property
    def end(self) -> int:
        """The position behind the last message of the log."""
        return self._log.end

    @property
    def segment_count(self) -> int:
        """The number of log files."""
        return len(self._log.segments)

    @property
    def durable(self) -> int:
        """Messages up to this log position survive a power loss."""
        return self._sync_tracker.durable

    @classmethod
    def open(cls, disk: Disk, options: StoreOptions) -> "Store":
        """Open a directory, or initialise an empty one; damage is listed in `damages`."""
        check_directory(disk)
        lock = disk.lock("lock")
        try:
            found = inspect_directory(disk, options.segment_bytes)
            try:
                if has_abort_file(disk):
                    remove_apache_key_index(disk)
                mark_in_use(disk, found)
                return cls(disk, lock, options, recover(disk, found))
            except BaseException:
                for segment in found.segments:
                    segment.file.close()
                raise
        except BaseException:
            lock.release()
            raise

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
        tags_code: int | None = None,
    ) -> AppendResult:
        """Append a message; the next `flush` stores it. Without ``tags_code`` its properties are parsed for it."""
        if self.read_only_reason is not None or not self._log.is_tail_clean:
            self._repair()
        store_host = self.options.store_host
        shape, tail = head_layout_for(born_host, store_host), pack_tail(topic, properties)
        size = shape.size + len(body) + len(tail)
        log = self._log
        if size + BLANK_BYTES > log.segment_bytes:
            self._check_size(size)
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            queue = self._new_queue(topic, queue_id)
        position = log.next_position(size)
        offset = queue.end
        head = pack_head(
            shape,
            size,
            topic,
            queue_id,
            offset,
            position,
            body,
            born_ms,
            born_host,
            stored_ms,
            store_host,
            flag,
            sys_flag,
            reconsume_times,
            prepared_offset,
        )
        log.append((head, body, tail), size, position)
        queue.append(
            position, size, compute_tags_code(topic, properties, stored_ms) if tags_code is None else tags_code
        )
        self._appended_queues.append(queue)
        self.has_unflushed = True
        self._unwritten_checksums.append((position, head, tail))
        return AppendResult(offset, position, size)

    def append_batch(
        self,
        topic: bytes,
        queue_id: int,
        batch: bytes,
        *,
        born_ms: int,
        born_host: bytes,
        stored_ms: int,
        sys_flag: int = 0,
    ) -> list[AppendResult]:
        """Append all messages of a batch in order, or none."""
        if self.read_only_reason is not None or not self._log.is_tail_clean:
            self._repair()
        store_host, log = self.options.store_host, self._log
        queue = self._queues.get((topic, queue_id))
        start, offset = log.next_position(0), 0 if queue is None else queue.end
        records = None
        if len(topic) <= TOPIC_BYTES_V1:
            shape = head_layout_for(born_host, store_host)
            records = build_batch_records(
                batch, shape, topic, queue_id, offset, start, born_ms, born_host, stored_ms, store_host, sys_flag
            )
        if records is None or log.next_position(records.end - start) != start:
            # They do not fit into the rest of a file; a damaged batch is refused here.
            items = list(decode_batch(batch))
            head_bytes = head_layout_for(born_host, store_host).size
            for item in items:
                self._check_size(head_bytes + len(item.body) + len(pack_tail(topic, item.properties)))
            return [
                self.append(
                    topic,
                    queue_id,
                    item.body,
                    item.properties,
                    born_ms=born_ms,
                    born_host=born_host,
                    stored_ms=stored_ms,
                    flag=item.flag,
                    sys_flag=sys_flag,
                )
                for item in items
            ]
        if queue is None:
            queue = self._new_queue(topic, queue_id)
        log.append(records.parts, records.end - start, start)
        if records.may_have_tags or topic == SCHEDULE_TOPIC:
            tags_codes = [compute_tags_code(topic, properties, stored_ms) for properties in records.properties()]
        else:
            tags_codes = [0] * len(records.sizes)
        queue.append_many(records.positions, records.sizes, tags_codes)
        self._appended_queues += [queue] * len(records.sizes)
        self.has_unflushed = True
        self._unwritten_checksums += zip(records.positions, records.heads, records.tails, strict=True)
        return list(map(AppendResult, count(offset), records.positions, records.sizes))

    def _check_size(self, size: int) -> None:
        most = self._log.segment_bytes - BLANK_BYTES
        if size > most:
            raise LimitExceeded("a record", where="store", limit=most, found=size)

    def _new_queue(self, topic: bytes, queue_id: int) -> ConsumeQueue:
        if not is_valid_folder(topic):
            raise ConfigurationError(f"the topic {topic!r} cannot be a folder", next_step="give it another name")
        queue = self._queues[topic, queue_id] = ConsumeQueue()
        return queue

    def flush(self) -> FlushResult:
        """Write what was appended, with one write per file, and make it visible to readers."""
        log, start = self._log, self._log.end
        error = log.flush()
        if error is not None:
            self._discard_unwritten(log.end)
        added = self._appended_queues
        for queue in added if len(added) == 1 else set(added):
            queue.visible_end = queue.end
        added.clear()
        self.has_unflushed = False
        if log.end > start:
            if start >= log.starts[-1]:
                self._write_checksums_to(log.starts[-1])
            else:
                self._write_checksums(log.segments_from(start))
        return FlushResult(log.end, error)

    def _discard_unwritten(self, end: int) -> None:
        """Drop messages that were not written to the log."""
        for queue in reversed(self._appended_queues):
            if queue.end > queue.visible_end and queue.entry(queue.end - 1).position >= end:
                del queue.entries[-ENTRY_BYTES:]
        self._unwritten_checksums = [each for each in self._unwritten_checksums if each[0] < end]
        self._check_sync_error()

    def _check_sync_error(self) -> None:
        if self._log.sync_error is not None:
            self._enter_read_only(self._log.sync_error)

    def _enter_read_only(self, error: DiskFailed) -> None:
        """Refuse all further writes after a failed sync, and record it for the next process."""
        if self.read_only_reason is None:
            self.read_only_reason = f"a sync failed, so the contents of the disk are unknown: {error.what}"
            write_abort_file(self._disk, self._log.segment_bytes, self.durable)

    def _repair(self) -> None:
        """Repair the log before it is written to, or raise `StoreReadOnly`."""
        if self.read_only_reason is None:
            try:
                self._log.repair_tail()
            except DiskFailed as error:
                self._check_sync_error()
                if self.read_only_reason is None:
                    raise StoreReadOnly(
                        f"a failed write cannot be undone yet: {error.what}", next_step=error.next_step
                    ) from error
        if self.read_only_reason is not None:
            raise StoreReadOnly(self.read_only_reason, next_step="check the disk, then restart the broker")

    def _write_checksums_to(self, segment_start: int) -> None:
        """Write the checksums of what was appended, all of it to one segment, as is usual."""
        self._sync_tracker.mark_written(segment_start)
        if self._unwritten_checksums:
            self._checksum_files.write(segment_start, pack_checksums(self._unwritten_checksums))
            self._unwritten_checksums.clear()

    def _write_checksums(self, written: list[Segment]) -> None:
        unwritten, self._unwritten_checksums = self._unwritten_checksums, []
        for segment in written:
            self._sync_tracker.mark_written(segment.start)
            own = unwritten if segment is written[-1] else [each for each in unwritten if each[0] < segment.end]
            unwritten = unwritten[len(own) :]
            if own:
                self._checksum_files.write(segment.start, pack_checksums(own))

    def begin_sync(self) -> SyncJob:
        """Return the sync of everything flushed so far; run it in a thread, then call `end_sync`."""
        return self._sync_tracker.begin()

    def end_sync(self, job: SyncJob) -> None:
        """Record the result of a sync. After a failure nothing more is acknowledged."""
        if job.error is not None:
            self._enter_read_only(job.error)
        if self.read_only_reason is None:
            self._sync_tracker.end(job)

    def bounds(self, topic: bytes, queue_id: int) -> tuple[int, int]:
        """Return the first and the next offset of a queue."""
        queue = self._queues.get((topic, queue_id))
        return (queue.start, queue.visible_end) if queue is not None else (0, 0)

    def queues(self) -> list[tuple[bytes, int]]:
        """List the queues that have or had messages, by topic and queue id."""
        return sorted(key for key, queue in self._queues.items() if queue.visible_end)

    def read(
        self,
        topic: bytes,
        queue_id: int,
        offset: int,
        *,
        max_messages: int = 32,
        max_bytes: int = 1 << 18,
        tags_codes: frozenset[int] | None = None,
    ) -> ReadResult:
        """Read messages from an offset on, with ``tags_codes`` only those that have one. The first always fits."""
        return self.reader.read(topic, queue_id, offset, max_messages, max_bytes, tags_codes)

    def entries(self, topic: bytes, queue_id: int, start: int, end: int) -> list[tuple[int, int, int]]:
        """Return position, size and tags code of the messages that exist between two offsets."""
        queue = self._queues.get((topic, queue_id))
        if queue is None or (start := max(start, queue.start)) >= (end := min(end, queue.visible_end)):
            return []
        return list(queue.iter_entries(start, end))

    def delete_topic(self, topic: bytes) -> None:
        """Delete all messages of a topic; later messages continue with the next offsets."""
        self.flush()
        delete_topic_queues(self._disk, self._queues, topic)

    def delete_expired_segments(self, now_ms: int) -> list[str]:
        """Delete log files that exceed the age or size limit; return their paths."""
        expired = expired_segments(self._log, self._stored_checksums, self.options, now_ms)
        if not expired:
            return []
        with suppress(DiskFailed):
            # Only the consume queues remember the offsets of messages that are deleted.
            save_consume_queues(self._disk, self._queues, expired[-1].end)
        removed: list[str] = []
        try:
            for segment in expired:
                if segment.start in self._sync_tracker.unsynced_segments:
                    break  # a thread may be syncing its file
                self._checksum_files.remove(segment.start)
                self._log.remove_oldest()
                removed.append(segment.path)
        finally:
            start = self._log.start
            for queue in self._queues.values():
                queue.drop_before_position(start)
            self._stored_checksums.drop_before(start)
            self.lookup.drop_before(start)
        return removed

    def save_consume_queues(self) -> None:
        """Write consume queues as far as they changed; without that they are rebuilt from the log."""
        save_consume_queues(self._disk, self._queues, self._log.start)

    def close(self, now_ms: int) -> None:
        """Flush, sync, write the indexes and mark a clean shutdown; if that fails, the next start scans the log."""
        try:
            flushed = self.flush()
            job = self._sync_tracker.begin(include_running=True)
            job.run()
            self.end_sync(job)
            if self.read_only_reason is None and flushed.error is None:
                self._log.repair_tail()
                self._checksum_files.sync()
                for queue in self._queues.values():
                    queue.drop_leading_holes()  # a queue begins with a message, also in its files
                self.save_consume_queues()
                self.lookup.save_key_index()
                self._save_apache_key_index(now_ms)
                write_checkpoint(self._disk, Checkpoint(log_ms=now_ms, queues_ms=now_ms))
                mark_clean_shutdown(
                    self._disk,
                    CleanShutdown(
                        end=self._log.end,
                        closed_ms=now_ms,
                        segment_bytes=self._log.segment_bytes,
                        indexes_crc32=consume_queues_crc32(self._queues),
                    ),
                )
        finally:
            self.abandon()

    def _save_apache_key_index(self, now_ms: int) -> None:
        if self.apache_key_index is None:
            return
        try:
            self.apache_key_index.build(_MAX_INDEXED_AT_CLOSE)
            self.apache_key_index.save(now_ms)
        except DiskFailed:
            # Half of it would hide the old entries. Without it nothing is lost: it is rebuilt from the log.
            with suppress(DiskFailed):
                remove_apache_key_index(self._disk)

    def abandon(self) -> None:
        """Release the directory as a crash does: nothing more is written, and the next start scans the log."""
        if self.apache_key_index is not None:
            self.apache_key_index.close()
        for segment in self._log.segments:
            segment.view.release()
        self._log.close()
        self._checksum_files.close()
        self._lock.release()
