"""The broker: a command, a line and the time in; replies out. It owns nothing of the world but a store and a disk.

The shell calls `handle` for each command that a read brought, then `flush` once: what was stored is written in one
piece, and only then its answers leave, then those of pulls that waited for it. It runs sync jobs and saves in threads,
and calls `tick` about ten times a second. Nothing here waits.
"""

from collections.abc import Sequence

from msgspec import structs

from steelyard.broker import catching_up, checks, deliveries, flushing, membership, moves_writing, waking
from steelyard.broker.guard import check_names
from steelyard.broker.options import BrokerOptions
from steelyard.broker.refusals import refused
from steelyard.broker.requests.queries import by_key
from steelyard.broker.requests.table import HANDLERS
from steelyard.broker.saving import Save, Saving
from steelyard.broker.state import State
from steelyard.broker.timers_for_apache import hand_over
from steelyard.broker.timing import has_come
from steelyard.errors import SteelyardError, StoreError
from steelyard.store.disk import Disk
from steelyard.store.options import StoreOptions
from steelyard.store.store import Store
from steelyard.store.syncing import SyncJob
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import RESPONSE, Command, answer_to
from steelyard.wire.hosts import host_bytes
from steelyard.wire.peers import Hangup, Peer, Reply

__all__ = ["Broker", "Replies"]

Replies = Sequence[Reply | Hangup]
"""What a core wants done, in this order."""

_NOTHING: Replies = ()
_RETENTION_MS = 10_000
_INDEXING = "indexing messages by their keys"
_REMOVING = "removing old log files"


class Broker:
    """One broker. Make one with `Broker.open`."""

    def __init__(self, options: BrokerOptions, store: Store, disk: Disk, *, now_ms: int) -> None:
        self.state = State(options, store, disk, now_ms)
        self._saving = Saving()
        self._retention_ms = now_ms + _RETENTION_MS
        self._sync_ms = now_ms

    @classmethod
    def open(
        cls, options: BrokerOptions, disk: Disk, store_options: StoreOptions | None = None, *, now_ms: int
    ) -> "Broker":
        """Open the broker's directory, or make one of an empty directory."""
        kept = store_options or StoreOptions(store_host=host_bytes(options.address))
        return cls(options, Store.open(disk, kept), disk, now_ms=now_ms)

    def handle(self, command: Command, peer: Peer, now_ms: int) -> Replies:
        """Take a command of a line; an answer that has to wait for the log comes with `flush`."""
        state = self.state
        if command.flag & RESPONSE:
            state.relays.answered(peer, command)
        else:
            answer: Command | None
            state.creations.maker = peer
            handler = HANDLERS.get(command.code)
            try:
                check_names(command)
                answer = _unknown(command) if handler is None else handler(state, command, peer, now_ms)
            except SteelyardError as error:
                answer = refused(command, error)
            if answer is not None and not command.is_oneway:
                state.outbox.append(Reply(peer, answer))
        return self._taken() if state.outbox else _NOTHING

    def flush(self, now_ms: int) -> Replies:
        """Write what was stored since the last flush, answer its senders, wake pulls that waited for it."""
        state = self.state
        if not state.acks and not state.store.is_dirty:
            return _NOTHING
        flushing.flush(state, now_ms)
        return self._taken()

    def tick(self, now_ms: int) -> Replies:
        """Do what is due: deliveries, expiries, notices, checks, retention."""
        state = self.state
        state.creations.maker = None
        membership.tick(state, now_ms)
        state.kept_subscriptions.tick(now_ms)
        deliveries.tick(state, now_ms)
        checks.tick(state, now_ms)
        moves_writing.tick(state, now_ms)
        while state.unsynced and state.unsynced[0][1] <= now_ms:
            ack, _ = state.unsynced.popleft()
            state.post(ack.peer, structs.replace(ack.answer, code=ResponseCode.FLUSH_DISK_TIMEOUT))
        waking.expire(state, now_ms)
        self._answer_questions(now_ms)
        state.rates.tick(now_ms)
        if has_come(self._retention_ms, _RETENTION_MS, now_ms):
            self._retention_ms = now_ms + _RETENTION_MS
            self._remove_old(now_ms)
        done = self._taken()
        stored = self.flush(now_ms)
        state.trouble.look(now_ms)
        return [*done, *stored]

    def _answer_questions(self, now_ms: int) -> None:
        state = self.state
        try:
            answerable = catching_up.tick(state)
        except StoreError as error:
            state.trouble.failed(_INDEXING, error, now_ms)
            return
        state.trouble.worked(_INDEXING, now_ms)
        for request, peer in answerable:
            try:
                answer = by_key(state, request)
            except SteelyardError as error:
                answer = refused(request, error)
            state.post(peer, answer)

    def _remove_old(self, now_ms: int) -> None:
        try:
            self.state.store.tick(now_ms)
        except StoreError as error:
            self.state.trouble.failed(_REMOVING, error, now_ms)
        else:
            self.state.trouble.worked(_REMOVING, now_ms)

    def put_forward(self, missed_ms: int, now_ms: int) -> None:
        """Take note that the clock was put forward by so much, to ``now_ms``, and that no client is late by that."""
        membership.excuse(self.state, missed_ms, now_ms)

    def closed(self, peer: Peer, now_ms: int) -> Replies:
        """Take note that a line is gone."""
        catching_up.forget(self.state, peer)
        waking.forget(self.state, peer.number)
        self.state.creations.closed(peer)
        membership.closed(self.state, peer, now_ms)
        return self._taken()

    def dismiss(self) -> Replies:
        """Answer what waits here and would wait on elsewhere: the broker is about to stop."""
        waking.dismiss(self.state)
        return self._taken()

    def _taken(self) -> Replies:
        outbox = self.state.outbox
        self.state.outbox = []
        return outbox

    # -- disk work, for the shell to run in threads -------------------------------------------------------------------

    def wants_sync(self, now_ms: int) -> bool:
        """Whether a sync should run now: because answers wait for it, or because it is time again."""
        state = self.state
        if state.store.refusal is not None:
            return False
        return bool(state.unsynced) or has_come(self._sync_ms, state.options.flush_interval_ms, now_ms)

    def begin_sync(self, now_ms: int) -> SyncJob:
        """Return the job that makes all that was written safe; one at a time."""
        self._sync_ms = now_ms + self.state.options.flush_interval_ms
        return self.state.store.begin_sync()

    def end_sync(self, job: SyncJob) -> Replies:
        """Take note of how a sync went, and answer those who waited for it."""
        self.state.store.end_sync(job)
        if job.took_ms is not None:
            self.state.sync_times.add(job.took_ms)
            self.state.last_sync_ms = job.took_ms
        flushing.answer_synced(self.state)
        return self._taken()

    def saves(self, now_ms: int, *, everything: bool = False) -> list[Save]:
        """Return the documents that have to be written now."""
        return self._saving.due(self.state, now_ms, everything=everything)

    def saved(self, job: Save, now_ms: int) -> None:
        """Take note of how a save went."""
        self._saving.done(job)
        if job.error is not None:
            self.state.trouble.failed(f"saving {job.name}", job.error, now_ms)
        else:
            self.state.trouble.worked(f"saving {job.name}", now_ms)

    def close(self, now_ms: int) -> None:
        """Write everything and let go of the directory."""
        moves_writing.write_all(self.state, now_ms)
        self.flush(now_ms)
        # What was delivered counts once it is safe, and whoever opens the directory next should know of all of it.
        self._sync()
        deliveries.settle(self.state)
        checks.settle(self.state)
        for job in self.saves(now_ms, everything=True):
            job.run()
            self.saved(job, now_ms)
        try:
            if self.state.store.refusal is None:
                hand_over(self.state, now_ms)
        except StoreError as error:
            self.state.notes.append(f"what an Apache broker should know of timers could not be written: {error}")
        self.state.store.close(now_ms)

    def _sync(self) -> None:
        job = self.state.store.begin_sync()
        job.run()
        self.state.store.end_sync(job)


def _unknown(request: Command) -> Command:
    code = request.code
    why = (
        "this broker does not serve POP, use a push or pull consumer"
        if code in _POP
        else "this broker does not know it"
    )
    return answer_to(
        request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f"request code {code} not supported: {why}"
    )


_POP = frozenset({200050, 200051, 200052, 200053, 200054, 200055, 200056, 200151})
