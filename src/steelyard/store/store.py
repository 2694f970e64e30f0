"""The store: a log, an index for each queue, and what is true of both right now.

Nothing here waits and nothing here knows the time: the shell calls `flush` once for all that a read of a socket
brought, runs `SyncJob`s in a thread, and calls `tick`. A message is there for readers once `flush` returned, safe from
a crash of the process then, and safe from a loss of power once `durable` has passed it.
"""

from contextlib import suppress
from dataclasses import replace
from itertools import count

from msgspec import Struct

from steelyard.errors import ConfigurationError, DiskFailed, LimitExceeded, StoreReadOnly
from steelyard.store.apache_keys import ApacheKeys, remove_apache_keys
from steelyard.store.checkpoint import Checkpoint, write_checkpoint
from steelyard.store.disk import Disk, Lock
from steelyard.store.forgotten import forget_topic
from steelyard.store.index_files import can_be_folder, checksum, save_indexes
from steelyard.store.log import Segment
from steelyard.store.lookup import Lookup
from steelyard.store.marks import SCHEDULE_TOPIC, mark_of
from steelyard.store.opening import give_back, is_left_open, look_at, mark_as_ours, refuse_others, take
from steelyard.store.options import StoreOptions
from steelyard.store.queues import ENTRY_BYTES, QueueIndex
from steelyard.store.reading import Reader
from steelyard.store.retention import old_segments
from steelyard.store.slices import Slice
from steelyard.store.starting import Started, start
from steelyard.store.state import Closed
from steelyard.store.sum_files import SumFiles, SumsByNeed
from steelyard.store.sums import pack_sums
from steelyard.store.syncing import Syncing, SyncJob
from steelyard.store.walk import Damage
from steelyard.wire.batch import read_batch
from steelyard.wire.batch_records import batch_records
from steelyard.wire.limits import TOPIC_BYTES_V1
from steelyard.wire.record import head_shape, pack_head, pack_tail
from steelyard.wire.record_layout import BLANK_BYTES

__all__ = ["Appended", "Flushed", "Store"]

_INDEXED_AT_CLOSE = 20_000
"""So many messages that Apache's key index lacks are added to it at a close, which must not take long."""


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

    def __init__(self, disk: Disk, lock: Lock, options: StoreOptions, started: Started) -> None:
        self._disk, self._lock, self._options = disk, lock, options
        log, queues = self._log, self._queues = started.log, started.indexes
        self._added: list[QueueIndex] = []
        self._unsummed: list[tuple[int, bytes, bytes]] = []
        """Position, head and tail of what was added: their sums are made when they are written."""
        self._sum_files = SumFiles(disk)
        self._old_sums = SumsByNeed(disk, log)
        self._reader = Reader(log, queues, self._old_sums, started.trusted_from)
        self._reader.damages += started.damages
        self._syncing = Syncing(log)
        self.recovery = started.recovery
        """What had to be done to open the directory."""
        self.lookup = Lookup(disk, log, queues, self._old_sums)
        """Messages by place, by time and by key."""
        self.apache_keys = ApacheKeys(disk, log, self._old_sums) if options.keeps_apache_keys else None
        """The key index of an Apache broker, if it is kept up."""
        self.refusal: str | None = None
        """Why no writes are taken, or None."""

    @property
    def options(self) -> StoreOptions:
        """How this store is set up."""
        return self._options

    def keep_for(self, keep_ms: int | None) -> None:
        """Keep log files for another time than before; None keeps them whatever their age."""
        self._options = replace(self._options, keep_ms=keep_ms)

    @property
    def start(self) -> int:
        """The position of the oldest byte of the log."""
        return self._log.start

    @property
    def end(self) -> int:
        """The position behind the last message of the log."""
        return self._log.end

    @property
    def files(self) -> int:
        """How many files the log has."""
        return len(self._log.segments)

    @property
    def durable(self) -> int:
        """Messages up to this position of the log are safe from a loss of power."""
        return self._syncing.durable

    @property
    def damages(self) -> list[Damage]:
        """What was found to be lost since the store was opened."""
        return self._reader.damages

    @classmethod
    def open(cls, disk: Disk, options: StoreOptions) -> "Store":
        """Open a directory, or make one of an empty directory; what is damaged is told in `damages`."""
        refuse_others(disk)
        lock = disk.lock("lock")
        try:
            found = look_at(disk, options.segment_bytes)
            try:
                if is_left_open(disk):
                    remove_apache_keys(disk)
                take(disk, found)
                return cls(disk, lock, options, start(disk, found))
            except BaseException:
                for segment in found.segments:
                    segment.file.close()
                raise
        except BaseException:
            lock.release()
            raise

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
        shape, tail = head_shape(born_host, store_host), pack_tail(topic, properties)
        size = shape.size + len(body) + len(tail)
        log = self._log
        if size + BLANK_BYTES > log.segment_bytes:
            self._refuse_if_too_large(size)
        index = self._queues.get((topic, queue_id))
        if index is None:
            index = self._new_queue(topic, queue_id)
        position = log.place(size)
        offset = index.end
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
        log.add((head, body, tail), size, position)
        index.add(position, size, mark_of(topic, properties, stored_ms) if mark is None else mark)
        self._added.append(index)
        self._unsummed.append((position, head, tail))
        return Appended(offset, position, size)

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
    ) -> list[Appended]:
        """Take all messages of a batch, one after the other, or none."""
        if self.refusal is not None or not self._log.is_healthy:
            self._mend()
        store_host, log = self._options.store_host, self._log
        index = self._queues.get((topic, queue_id))
        start, offset = log.place(0), 0 if index is None else index.end
        records = None
        if len(topic) <= TOPIC_BYTES_V1:
            shape = head_shape(born_host, store_host)
            records = batch_records(
                batch, shape, topic, queue_id, offset, start, born_ms, born_host, stored_ms, store_host, sys_flag
            )
        if records is None or log.place(records.end - start) != start:
            return self._append_apart(topic, queue_id, batch, born_ms, born_host, stored_ms, sys_flag)
        # They fit into one file, which is the rule.
        if index is None:
            index = self._new_queue(topic, queue_id)
        log.add(records.parts, records.end - start, start)
        if records.may_have_tags or topic == SCHEDULE_TOPIC:
            marks = [mark_of(topic, properties, stored_ms) for properties in records.properties()]
        else:
            marks = [0] * len(records.sizes)
        index.add_many(records.positions, records.sizes, marks)
        self._added += [index] * len(records.sizes)
        self._unsummed += zip(records.positions, records.heads, records.tails, strict=True)
        return list(map(Appended, count(offset), records.positions, records.sizes))

    def _append_apart(
        self,
        topic: bytes,
        queue_id: int,
        batch: bytes,
        born_ms: int,
        born_host: bytes,
        stored_ms: int,
        sys_flag: int,
    ) -> list[Appended]:
        """Take messages of a batch that do not fit into what is left of a file; a damaged one is refused here."""
        items = list(read_batch(batch))
        shape = head_shape(born_host, self._options.store_host)
        for item in items:
            self._refuse_if_too_large(shape.size + len(item.body) + len(pack_tail(topic, item.properties)))
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

    def _refuse_if_too_large(self, size: int) -> None:
        most = self._log.segment_bytes - BLANK_BYTES
        if size > most:
            raise LimitExceeded("a record", where="store", limit=most, found=size)

    def _new_queue(self, topic: bytes, queue_id: int) -> QueueIndex:
        if not can_be_folder(topic):
            raise ConfigurationError(f"the topic {topic!r} cannot be a folder", next_step="give it another name")
        index = self._queues[topic, queue_id] = QueueIndex()
        return index

    @property
    def is_dirty(self) -> bool:
        """Whether something was appended since the last `flush`."""
        return bool(self._added)

    def flush(self) -> Flushed:
        """Write what was appended, in one write a file, and show it to readers."""
        log, start = self._log, self._log.end
        error = log.flush()
        if error is not None:
            self._take_back(log.end)
        added = self._added
        for index in added if len(added) == 1 else set(added):
            index.shown = index.end
        added.clear()
        if log.end > start:
            if start >= log.starts[-1]:
                self._write_all_sums(log.starts[-1])
            else:
                self._write_sums(log.segments_from(start))
        return Flushed(log.end, error)

    def _take_back(self, end: int) -> None:
        """Forget messages that did not get into the log."""
        for index in reversed(self._added):
            if index.end > index.shown and index.entry(index.end - 1).position >= end:
                del index.entries[-ENTRY_BYTES:]
        self._unsummed = [each for each in self._unsummed if each[0] < end]
        self._refuse_if_unsure()

    def _refuse_if_unsure(self) -> None:
        if self._log.unsure is not None:
            self._refuse(self._log.unsure)

    def _refuse(self, error: DiskFailed) -> None:
        """Take no more writes, since a sync failed, and let the next process know."""
        if self.refusal is None:
            self.refusal = f"a sync failed, so nobody knows what the disk holds: {error.what}"
            mark_as_ours(self._disk, self._log.segment_bytes, self.durable)

    def _mend(self) -> None:
        """Heal the log before it is written to, or say why nothing is written."""
        if self.refusal is None:
            try:
                self._log.heal()
            except DiskFailed as error:
                self._refuse_if_unsure()
                if self.refusal is None:
                    raise StoreReadOnly(
                        f"a failed write cannot be undone yet: {error.what}", next_step=error.next_step
                    ) from error
        if self.refusal is not None:
            raise StoreReadOnly(self.refusal, next_step="look at the disk, then restart the broker")

    def _write_all_sums(self, segment_start: int) -> None:
        """Write the sums of what was added, all of it to one segment, which is the rule."""
        self._syncing.note(segment_start)
        if self._unsummed:
            self._sum_files.write(segment_start, pack_sums(self._unsummed))
            self._unsummed.clear()

    def _write_sums(self, written: list[Segment]) -> None:
        unsummed, self._unsummed = self._unsummed, []
        for segment in written:
            self._syncing.note(segment.start)
            own = unsummed if segment is written[-1] else [each for each in unsummed if each[0] < segment.end]
            unsummed = unsummed[len(own) :]
            if own:
                self._sum_files.write(segment.start, pack_sums(own))

    # -- syncing ------------------------------------------------------------------------------------------------------

    def begin_sync(self) -> SyncJob:
        """Return what has to be synced for all that is flushed now; run it in a thread, then call `end_sync`."""
        return self._syncing.begin()

    def end_sync(self, job: SyncJob) -> None:
        """Take note of how a sync went. After a failure nothing is acked any more."""
        if job.error is not None:
            self._refuse(job.error)
        if self.refusal is None:
            self._syncing.end(job)

    # -- reading ------------------------------------------------------------------------------------------------------

    def bounds(self, topic: bytes, queue_id: int) -> tuple[int, int]:
        """Return the first offset that a queue still has, and the next to be written."""
        index = self._queues.get((topic, queue_id))
        return (index.start, index.shown) if index is not None else (0, 0)

    def queues(self) -> list[tuple[bytes, int]]:
        """List the queues that have or had messages, by topic and number."""
        return sorted(queue for queue, index in self._queues.items() if index.shown)

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
        return self._reader.read(topic, queue_id, offset, most, most_bytes, marks)

    def entries(self, topic: bytes, queue_id: int, start: int, end: int) -> list[tuple[int, int, int]]:
        """Return position, size and mark of the messages between two offsets, of those that are there."""
        index = self._queues.get((topic, queue_id))
        if index is None or (start := max(start, index.start)) >= (end := min(end, index.shown)):
            return []
        return list(index.slice(start, end))

    def forget_topic(self, topic: bytes) -> None:
        """Give up all messages of a topic, for good; whatever comes later goes on with the next numbers."""
        self.flush()
        forget_topic(self._disk, self._queues, topic)

    # -- keeping and closing ------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> list[str]:
        """Remove log files that are too old or too many; return their paths."""
        old = old_segments(self._log, self._old_sums, self._options, now_ms)
        if not old:
            return []
        with suppress(DiskFailed):
            # An index is all that remembers the numbers of messages that go.
            save_indexes(self._disk, self._queues, old[-1].end)
        removed: list[str] = []
        try:
            for segment in old:
                if segment.start in self._syncing.unsafe:
                    break  # a thread may be syncing its file
                self._sum_files.remove(segment.start)
                self._log.drop_first()
                removed.append(segment.path)
        finally:
            start = self._log.start
            for index in self._queues.values():
                index.forget_before(start)
            self._old_sums.forget_before(start)
            self.lookup.forget_before(start)
        return removed

    def save_indexes(self) -> None:
        """Write index files as far as they changed; without that they are made again from the log."""
        save_indexes(self._disk, self._queues, self._log.start)

    def close(self, now_ms: int) -> None:
        """Flush, sync, write the indexes and say that all is in order; if it is not, the next start looks at it all."""
        try:
            flushed = self.flush()
            job = self._syncing.begin(again=True)
            job.run()
            self.end_sync(job)
            if self.refusal is None and flushed.error is None:
                self._log.heal()
                self._sum_files.sync()
                for index in self._queues.values():
                    index.forget_holes()  # a queue begins with a message, also for who reads the files
                self.save_indexes()
                self.lookup.save()
                self._save_apache_keys(now_ms)
                write_checkpoint(self._disk, Checkpoint(log_ms=now_ms, queues_ms=now_ms))
                give_back(
                    self._disk,
                    Closed(
                        end=self._log.end,
                        closed_ms=now_ms,
                        segment_bytes=self._log.segment_bytes,
                        indexes_crc32=checksum(self._queues),
                    ),
                )
        finally:
            self.abandon()

    def _save_apache_keys(self, now_ms: int) -> None:
        if self.apache_keys is None:
            return
        try:
            self.apache_keys.follow(_INDEXED_AT_CLOSE)
            self.apache_keys.save(now_ms)
        except DiskFailed:
            # Half of it would hide what was there before. None is no loss: it is made again from the log.
            with suppress(DiskFailed):
                remove_apache_keys(self._disk)

    def abandon(self) -> None:
        """Let go of the directory as a crash does: nothing more is written, and the next start looks at it all."""
        if self.apache_keys is not None:
            self.apache_keys.close()
        for segment in self._log.segments:
            segment.view.release()
        self._log.close()
        self._sum_files.close()
        self._lock.release()
