"""The broker core: a command, its connection and the time in; replies out. It owns a store and a disk, nothing else.

The shell calls `handle` for each command that one read of a socket brought, then `flush` once: what was appended is
written in one piece, then its senders are answered, then held pulls. The shell runs sync jobs and saves in threads, and
calls `tick` about ten times a second. Nothing here blocks.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from msgspec import structs

from steelyard.broker import (
    append,
    client_expiry,
    delayed_delivery,
    long_polling,
    rebalance_history_topic,
    transaction_checks,
)
from steelyard.broker.delayed_delivery import apache_progress_writer, write_apache_timers
from steelyard.broker.options import BrokerOptions
from steelyard.broker.request_errors import error_response
from steelyard.broker.requests import (
    assignment,
    config,
    consumers,
    groups,
    heartbeat,
    locks,
    offsets,
    pull,
    query,
    send,
    stats,
    topics,
    transactions,
)
from steelyard.broker.state import BrokerCoreState, RequestHandler
from steelyard.broker.timing import is_due
from steelyard.broker.validation import CHECKED_HEADERS, check_request_names
from steelyard.errors import DiskFailed, LimitExceeded, SteelyardError, StoreError
from steelyard.store.disk import Disk, make_folder
from steelyard.store.json_documents import (
    DELAY_OFFSETS,
    GROUP_OFFSETS,
    GROUPS,
    SUBSCRIPTIONS,
    TOPICS,
    JsonDocument,
    save_document,
)
from steelyard.store.options import StoreOptions
from steelyard.store.store import Store
from steelyard.store.sync import SyncJob
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import ONEWAY_FLAG, RESPONSE_FLAG, CloseConnection, Command, Peer, Reply, response_to
from steelyard.wire.hosts import host_bytes

T = TypeVar("T")

_RETRY_PAUSE_MS = 5_000


class SaveJob:
    """One document to write. `run` it in a thread, then pass it to `BrokerCore.save_finished`."""

    def __init__(self, name: str, changes: int, write: Callable[[], None]) -> None:
        self.name, self.changes, self._write = name, changes, write
        self.error: DiskFailed | LimitExceeded | None = None

    def run(self) -> None:
        """Write it; an error of the disk is stored in ``error``."""
        try:
            self._write()
        except (DiskFailed, LimitExceeded) as error:
            self.error = error


class _SaveSchedule:
    """Which documents of the small state have to be written, and when."""

    def __init__(self) -> None:
        self._saved_changes: dict[str, int] = {}
        self._next_ms: dict[str, int] = {}
        self._running: set[str] = set()
        self._failed: set[str] = set()
        """Documents whose last save failed: they are not retried five times a second."""

    def due_jobs(self, state: BrokerCoreState, now_ms: int, *, everything: bool = False) -> list[SaveJob]:
        """Return what has to be written now; with ``everything``, all that changed, due or not."""
        often, seldom, disk = 200, state.options.offsets_interval_ms, state.disk
        registry, saved = state.consumers, state.saved_subscriptions
        committed, delays = state.offsets, state.delay_offsets
        # Our progress with timers is among the offsets, and comes first: Apache's files only help another broker.
        write_timers = apache_progress_writer(state)
        jobs = (
            self._job(disk, TOPICS, state.topics.changes, state.topics.table, now_ms, often, everything),
            self._job(disk, GROUPS, state.groups.changes, state.groups.table, now_ms, often, everything),
            self._job(
                disk, GROUP_OFFSETS, committed.changes, committed.table, now_ms, seldom, everything, write_timers
            ),
            self._job(disk, DELAY_OFFSETS, delays.changes, delays.table, now_ms, seldom, everything),
            self._job(
                disk,
                SUBSCRIPTIONS,
                registry.subscription_changes + saved.changes,
                lambda: saved.table(registry.all_groups()),
                now_ms,
                seldom,
                everything,
            ),
        )
        return [job for job in jobs if job is not None]

    def _job(
        self,
        disk: Disk,
        document: JsonDocument[T],
        changes: int,
        table: Callable[[], T],
        now_ms: int,
        gap_ms: int,
        everything: bool,
        after_save: Callable[[], None] | None = None,
    ) -> SaveJob | None:
        name = document.path
        if changes == self._saved_changes.get(name, 0) or name in self._running:
            return None
        if name in self._failed:
            gap_ms = max(gap_ms, _RETRY_PAUSE_MS)
        if not everything and not is_due(self._next_ms.get(name, 0), gap_ms, now_ms):
            return None
        self._running.add(name)
        self._next_ms[name] = now_ms + gap_ms
        value = table()
        return SaveJob(name, changes, lambda: _write_document(disk, document, value, after_save))

    def finish(self, job: SaveJob) -> None:
        """Record the result of a save; a failed one is retried later."""
        self._running.discard(job.name)
        if job.error is not None:
            self._failed.add(job.name)
            return
        self._failed.discard(job.name)
        self._saved_changes[job.name] = job.changes


def _write_document(disk: Disk, document: JsonDocument[T], value: T, after_save: Callable[[], None] | None) -> None:
    make_folder(disk, document.path.rpartition("/")[0])
    save_document(disk, document, value)
    if after_save is not None:
        after_save()


Replies = Sequence[Reply | CloseConnection]
"""What the shell has to do, in this order."""

_NOTHING: Replies = ()
_RETENTION_MS = 10_000
_INDEXING = "indexing messages by key"
_REMOVING = "removing old log files"
_POP_CODES = frozenset({200050, 200051, 200052, 200053, 200054, 200055, 200056, 200151})

HANDLERS: Mapping[int, RequestHandler] = {
    int(code): handler
    for family in (
        assignment,
        config,
        consumers,
        groups,
        heartbeat,
        locks,
        offsets,
        pull,
        query,
        send,
        stats,
        topics,
        transactions,
    )
    for code, handler in family.HANDLERS.items()
}
"""By request code, all families together."""


class BrokerCore:
    """One broker. Create one with `BrokerCore.open`."""

    def __init__(self, options: BrokerOptions, store: Store, disk: Disk, *, now_ms: int) -> None:
        self.state = BrokerCoreState(options, store, disk, now_ms)
        self._save_schedule = _SaveSchedule()
        self._next_retention_ms = now_ms + _RETENTION_MS
        self._next_sync_ms = now_ms

    @classmethod
    def open(
        cls, options: BrokerOptions, disk: Disk, store_options: StoreOptions | None = None, *, now_ms: int
    ) -> "BrokerCore":
        """Open the broker's directory, or initialise an empty one."""
        store_options = store_options or StoreOptions(store_host=host_bytes(options.address))
        return cls(options, Store.open(disk, store_options), disk, now_ms=now_ms)

    def handle(self, command: Command, peer: Peer, now_ms: int) -> Replies:
        """Handle a command from a connection; a response that has to wait for the log comes with `flush`."""
        state = self.state
        if command.flag & RESPONSE_FLAG:
            state.forwarded_requests.on_response(peer, command)
        else:
            answer: Command | None
            state.creation_limit.creator = peer
            handler = HANDLERS.get(command.code)
            try:
                if command.code in CHECKED_HEADERS:
                    check_request_names(command)
                answer = _unsupported(command) if handler is None else handler(state, command, peer, now_ms)
            except SteelyardError as error:
                answer = error_response(command, error)
            if answer is not None and not command.flag & ONEWAY_FLAG:
                state.outbox.append(Reply(peer, answer))
        if not state.outbox:
            return _NOTHING
        replies, state.outbox = state.outbox, []
        return replies

    def flush(self, now_ms: int) -> Replies:
        """Write what was appended since the last flush, acknowledge it, and answer pulls that were held for it."""
        state = self.state
        if not state.pending_acks and not state.store.has_unflushed:
            return _NOTHING
        append.flush(state, now_ms)
        replies, state.outbox = state.outbox, []
        return replies

    def tick(self, now_ms: int) -> Replies:
        """Do what is due: deliveries, expiries, notifications, transaction checks, retention."""
        state = self.state
        state.creation_limit.creator = None
        client_expiry.tick(state, now_ms)
        state.saved_subscriptions.tick(now_ms)
        delayed_delivery.tick(state, now_ms)
        transaction_checks.tick(state, now_ms)
        rebalance_history_topic.tick(state, now_ms)
        while state.unsynced_acks and state.unsynced_acks[0][1] <= now_ms:
            ack, _ = state.unsynced_acks.popleft()
            state.send(ack.peer, structs.replace(ack.answer, code=ResponseCode.FLUSH_DISK_TIMEOUT))
        long_polling.answer_expired_pulls(state, now_ms)
        self._answer_key_queries(now_ms)
        state.traffic.tick(now_ms)
        if is_due(self._next_retention_ms, _RETENTION_MS, now_ms):
            self._next_retention_ms = now_ms + _RETENTION_MS
            self._delete_expired_segments(now_ms)
        done = self._drain_outbox()
        stored = self.flush(now_ms)
        state.disk_alerts.check_store(now_ms)
        return [*done, *stored]

    def _answer_key_queries(self, now_ms: int) -> None:
        state = self.state
        try:
            answerable = query.tick(state)
        except StoreError as error:
            state.disk_alerts.record_failure(_INDEXING, error, now_ms)
            return
        state.disk_alerts.record_success(_INDEXING, now_ms)
        for request, peer in answerable:
            try:
                answer = query.answer_by_key(state, request)
            except SteelyardError as error:
                answer = error_response(request, error)
            state.send(peer, answer)

    def _delete_expired_segments(self, now_ms: int) -> None:
        try:
            self.state.store.delete_expired_segments(now_ms)
        except StoreError as error:
            self.state.disk_alerts.record_failure(_REMOVING, error, now_ms)
        else:
            self.state.disk_alerts.record_success(_REMOVING, now_ms)

    def clock_advanced(self, shift_ms: int, now_ms: int) -> None:
        """Handle a clock that was set forward to ``now_ms``: no client is late because of that."""
        client_expiry.shift_deadlines(self.state, shift_ms, now_ms)

    def connection_closed(self, peer: Peer, now_ms: int) -> Replies:
        """Handle a closed connection."""
        query.connection_closed(self.state, peer)
        long_polling.connection_closed(self.state, peer.connection_id)
        self.state.creation_limit.connection_closed(peer)
        client_expiry.connection_closed(self.state, peer, now_ms)
        return self._drain_outbox()

    def notify_stopping(self) -> Replies:
        """Answer held pulls whose clients would not notice that the broker stops."""
        long_polling.answer_before_stop(self.state)
        return self._drain_outbox()

    def _drain_outbox(self) -> Replies:
        outbox = self.state.outbox
        self.state.outbox = []
        return outbox

    def is_sync_due(self, now_ms: int) -> bool:
        """Whether a sync should run now: acknowledgements wait for it, or the interval has passed."""
        state = self.state
        if state.store.read_only_reason is not None:
            return False
        return bool(state.unsynced_acks) or is_due(self._next_sync_ms, state.options.flush_interval_ms, now_ms)

    def begin_sync(self, now_ms: int) -> SyncJob:
        """Return the job that syncs everything written so far; only one may run at a time."""
        self._next_sync_ms = now_ms + self.state.options.flush_interval_ms
        return self.state.store.begin_sync()

    def end_sync(self, job: SyncJob) -> Replies:
        """Record the result of a sync, and send the acknowledgements that waited for it."""
        self.state.store.end_sync(job)
        if job.took_ms is not None:
            self.state.sync_times.add(job.took_ms / 1_000)
            self.state.last_sync_ms = job.took_ms
        append.acknowledge_synced(self.state)
        return self._drain_outbox()

    def due_saves(self, now_ms: int, *, everything: bool = False) -> list[SaveJob]:
        """Return the documents that have to be written now."""
        return self._save_schedule.due_jobs(self.state, now_ms, everything=everything)

    def save_finished(self, job: SaveJob, now_ms: int) -> None:
        """Record the result of a save."""
        self._save_schedule.finish(job)
        if job.error is not None:
            self.state.disk_alerts.record_failure(f"saving {job.name}", job.error, now_ms)
        else:
            self.state.disk_alerts.record_success(f"saving {job.name}", now_ms)

    def close(self, now_ms: int) -> None:
        """Write everything and release the directory."""
        rebalance_history_topic.write_everything(self.state, now_ms)
        self.flush(now_ms)
        # Deliveries count once they are durable, and the next broker in this directory should know all of them.
        sync = self.state.store.begin_sync()
        sync.run()
        self.state.store.end_sync(sync)
        delayed_delivery.record_durable_progress(self.state)
        transaction_checks.record_durable_progress(self.state)
        for job in self.due_saves(now_ms, everything=True):
            job.run()
            self.save_finished(job, now_ms)
        try:
            if self.state.store.read_only_reason is None:
                write_apache_timers(self.state, now_ms)
        except StoreError as error:
            self.state.warnings.append(f"the timer files for an Apache broker could not be written: {error}")
        self.state.store.close(now_ms)


def _unsupported(request: Command) -> Command:
    code = request.code
    is_pop = code in _POP_CODES
    why = "this broker does not serve POP, use a push or pull consumer" if is_pop else "this broker does not know it"
    return response_to(
        request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f"request code {code} not supported: {why}"
    )
