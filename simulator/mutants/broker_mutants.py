"""Bugs in servers: the store, delays, transactions, retries, pulls, locks, the consumer registry, routes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec.structs import replace

from simulator.mutants.mutant import Mutant, patch_attribute
from steelyard.broker import (
    client_expiry,
    commit_fencing,
    delayed_delivery,
    long_polling,
    transaction_checks,
    transactions,
)
from steelyard.broker.append import QueuePlace, append_copy, flush
from steelyard.broker.consumer_registry import ConsumerGroup, ConsumerRegistry, GroupMember, MemberHeartbeat
from steelyard.broker.delivery_dedup import DeliveredCopies
from steelyard.broker.queue_locks import LockObserver, QueueKey, QueueLock, QueueLockTable, ReleaseReason
from steelyard.broker.requests import consumers, send
from steelyard.broker.requests import transactions as transaction_requests
from steelyard.broker.state import BrokerCoreState
from steelyard.nameserver.broker_registry import BrokerRegistry
from steelyard.nameserver.route_table import RouteTable
from steelyard.store import recovery
from steelyard.store.checksums import RecordChecksums
from steelyard.store.commit_log import CommitLog, Segment
from steelyard.store.consume_queue import ENTRY_BYTES, ConsumeQueues
from steelyard.store.disk import File
from steelyard.store.json_documents import GROUP_OFFSETS, JsonDocument
from steelyard.store.log_scan import LogScan, ScannedRecord
from steelyard.store.queue_reader import QueueReader, ReadResult
from steelyard.store.recovery import RebuiltQueues, rebuild_consume_queues
from steelyard.store.store import AppendResult, FlushResult, Store
from steelyard.store.sync import SyncJob
from steelyard.store.tags_code import DELAY_LEVELS_MS
from steelyard.wire.bodies.members import GroupExtension
from steelyard.wire.bodies.topics import QueueEntry
from steelyard.wire.command import Command, Peer
from steelyard.wire.record import MessageRecord

T = TypeVar("T")

# The correct functions, for the wrong ones that call them.
_load, _flush, _end_sync = BrokerCoreState._load, Store.flush, Store.end_sync
_read, _scan = QueueReader.read, LogScan.__iter__


# -- writing ----------------------------------------------------------------------------------------------------------


def _acknowledge_at_once(
    state: BrokerCoreState, peer: Peer, answer: Command, _end: int, *, wait_for_sync: bool
) -> None:
    del wait_for_sync
    state.send(peer, answer)


def _flush_store_blindly(store: Store) -> FlushResult:
    end = store._log._append_end
    _flush(store)
    return FlushResult(end)


def _keep_unwritten(store: Store, end: int) -> None:
    store._unwritten_checksums = [each for each in store._unwritten_checksums if each[0] < end]
    store._check_sync_error()


def _sync_nothing(job: SyncJob) -> None:
    job.has_run = True


def _forget_sync_error(store: Store, job: SyncJob) -> None:
    job.error = None
    _end_sync(store, job)


def _skip_folder_sync(_log: CommitLog, file: File, *_folders: str) -> None:
    """Sync the file, but not its name in the folder."""
    file.sync()


# -- starting again ---------------------------------------------------------------------------------------------------


def _scan_all_but_last(scan: LogScan) -> Iterator[ScannedRecord]:
    last: ScannedRecord | None = None
    for found in _scan(scan):
        if last is not None:
            yield last
        last = found
    if last is not None:
        scan.end = last.position


def _rebuild_one_short(
    segments: Sequence[Segment],
    known_queues: ConsumeQueues,
    checksums: dict[int, RecordChecksums],
    tags_code_of: Callable[[ScannedRecord], int],
) -> RebuiltQueues:
    rebuilt = rebuild_consume_queues(segments, known_queues, checksums, tags_code_of)
    for index in rebuilt.consume_queues.values():
        del index.entries[-ENTRY_BYTES:]
        index.publish()
    return rebuilt


def _load_but_offsets(state: BrokerCoreState, document: JsonDocument[T]) -> T | None:
    return None if document.path == GROUP_OFFSETS.path else _load(state, document)


# -- reading ----------------------------------------------------------------------------------------------------------


def _read_to_segment_end(
    reader: QueueReader,
    topic: bytes,
    queue_id: int,
    offset: int,
    max_messages: int,
    max_bytes: int,
    tags_codes: frozenset[int] | None,
) -> ReadResult:
    """Read to the end of one file, and skip the first message of the next."""
    index = reader._queues.get((topic, queue_id))
    if index is not None and index.start <= offset < index.visible_end:
        size = reader._log.segment_bytes
        indexes = [
            position // size
            for position, _, _ in index.iter_entries(offset, min(index.visible_end, offset + max_messages))
        ]
        count = indexes.count(indexes[0])
        if count < len(indexes):
            found = _read(reader, topic, queue_id, offset, count, max_bytes, tags_codes)
            return replace(found, next_offset=found.next_offset + 1) if found.count == count else found
    return _read(reader, topic, queue_id, offset, max_messages, max_bytes, tags_codes)


STORE_MUTANTS = (
    Mutant(
        "ack-before-write",
        "A send is acknowledged before its message is in the log.",
        ("disk",),
        (patch_attribute(BrokerCoreState, "acknowledge", _acknowledge_at_once),),
    ),
    Mutant(
        "write-error-swallowed",
        "A failed write counts as written.",
        ("disk",),
        (patch_attribute(Store, "flush", _flush_store_blindly),),
    ),
    Mutant(
        "failed-write-kept",
        "The consume queue keeps the entries of messages whose write failed.",
        ("disk",),
        (patch_attribute(Store, "_discard_unwritten", _keep_unwritten),),
    ),
    Mutant(
        "sync-forgotten",
        "A broker with sync flush never syncs its log.",
        ("power",),
        (patch_attribute(SyncJob, "run", _sync_nothing),),
    ),
    Mutant(
        "folder-not-synced",
        "A new log file is synced, and the folder that has its name is not.",
        ("power",),
        (patch_attribute(CommitLog, "_sync", _skip_folder_sync),),
    ),
    Mutant(
        "sync-error-forgiven",
        "A failed sync is forgotten once the next one works.",
        ("disk",),
        (patch_attribute(Store, "end_sync", _forget_sync_error),),
    ),
    Mutant(
        "last-record-cut",
        "Recovery takes the last whole record for a torn one, and cuts it off.",
        ("restart", "power"),
        (patch_attribute(LogScan, "__iter__", _scan_all_but_last),),
    ),
    Mutant(
        "offsets-given-again",
        "After a restart each queue goes on with the offset of its last message.",
        ("restart", "power"),
        (patch_attribute(recovery, "rebuild_consume_queues", _rebuild_one_short),),
    ),
    Mutant(
        "commits-not-loaded",
        "A restarted broker has lost the committed offsets.",
        ("restart",),
        (patch_attribute(BrokerCoreState, "_load", _load_but_offsets),),
    ),
    Mutant(
        "border-skipped",
        "A pull that ends at the border of two log files goes on one message too far.",
        ("transaction", "storm"),
        (patch_attribute(QueueReader, "read", _read_to_segment_end),),
    ),
)
"""Bugs in the store."""


_END_OF_TIME = 1 << 62


# -- delayed messages -------------------------------------------------------------------------------------------------


def _never_delivered(*_args: object) -> bool:
    return False


def _flush_blindly(state: BrokerCoreState, now_ms: int) -> FlushResult:
    flush(state, now_ms)
    return FlushResult(_END_OF_TIME)


# -- transactions -----------------------------------------------------------------------------------------------------


def _show_half(_properties: dict[str, str], place: QueuePlace) -> QueuePlace:
    return place


def _send_no_check(_state: BrokerCoreState, _question: object) -> None:
    """Write the half anew, and do not send the check."""


def _is_new(record: MessageRecord) -> int:
    return record.offset


# -- retries ----------------------------------------------------------------------------------------------------------


def _put_twice(
    state: BrokerCoreState,
    record: MessageRecord,
    place: QueuePlace,
    properties: bytes,
    now_ms: int,
    *,
    reconsume_times: int,
) -> AppendResult:
    append_copy(state, record, place, properties, now_ms, reconsume_times=reconsume_times)
    return append_copy(state, record, place, properties, now_ms, reconsume_times=reconsume_times)


def _put_uncounted(
    state: BrokerCoreState,
    record: MessageRecord,
    place: QueuePlace,
    properties: bytes,
    now_ms: int,
    *,
    reconsume_times: int,
) -> AppendResult:
    del reconsume_times
    return append_copy(state, record, place, properties, now_ms)


# -- pulls ------------------------------------------------------------------------------------------------------------


def _answer_no_pulls(_state: BrokerCoreState, _now_ms: int) -> None:
    """Answer held pulls only when their time is over."""


MESSAGE_MUTANTS = (
    Mutant(
        "delay-level-off-by-one",
        "A message of a delay level is delayed as long as the level below.",
        ("churn", "retry"),
        (patch_attribute(delayed_delivery, "DELAY_LEVELS_MS", (0, *DELAY_LEVELS_MS[:-1])),),
    ),
    Mutant(
        "delivered-again-after-crash",
        "After a crash delayed messages are delivered a second time.",
        ("restart",),
        (patch_attribute(DeliveredCopies, "has_copy", _never_delivered),),
    ),
    Mutant(
        "delivery-lost-by-disk",
        "A delayed message counts as delivered though its copy could not be written.",
        ("disk",),
        (patch_attribute(delayed_delivery, "flush", _flush_blindly),),
    ),
    Mutant(
        "half-visible",
        "A half message is stored where members see it.",
        ("transaction",),
        (patch_attribute(send, "place_half", _show_half),),
    ),
    Mutant(
        "check-never-sent",
        "Open transactions are not checked with their producers.",
        ("transaction",),
        (patch_attribute(transaction_checks, "_send_check", _send_no_check),),
    ),
    Mutant(
        "check-makes-new-half",
        "The half that is written anew for a check counts as one more transaction.",
        ("transaction",),
        (
            patch_attribute(transactions, "first_offset_of", _is_new),
            patch_attribute(transaction_requests, "first_offset_of", _is_new),
        ),
    ),
    Mutant(
        "retry-stored-twice",
        "A message that a member sends back is stored twice.",
        ("retry",),
        (patch_attribute(send, "append_copy", _put_twice),),
    ),
    Mutant(
        "retry-not-counted",
        "A message that a member sends back loses its count of attempts.",
        ("retry",),
        (patch_attribute(send, "append_copy", _put_uncounted),),
    ),
    Mutant(
        "pull-never-woken",
        "A held pull is not answered when a message is stored.",
        ("churn",),
        (patch_attribute(long_polling, "answer_ready_pulls", _answer_no_pulls),),
    ),
)
"""Bugs in what a broker does with messages."""


_STALE_MS = 5_000

# The correct functions, for the wrong ones that call them.
_init_locks, _release, _refresh = QueueLockTable.__init__, QueueLockTable.release, ConsumerRegistry._refresh
_view, _put = consumers._group_view, RouteTable.put


# -- locks and commits ------------------------------------------------------------------------------------------------


def _is_never_fenced(
    _state: BrokerCoreState,
    _lock: QueueLock,
    _peer: Peer,
    _group: str,
    _topic: str,
    _queue_id: int,
    _offset: int,
    _epoch: int | None,
) -> bool:
    return False


def _renew_or_lock(
    locks: QueueLockTable,
    group: str,
    key: QueueKey,
    owner: str,
    _epoch: int | None,
    now_ms: int,
    *,
    until_ms: int | None,
    is_lease: bool,
) -> QueueLock | None:
    return QueueLockTable.acquire(locks, group, key, owner, now_ms, until_ms=until_ms, is_lease=is_lease)


def _lock_for_anybody(
    locks: QueueLockTable, group: str, key: QueueKey, owner: str, now_ms: int, *, until_ms: int | None, is_lease: bool
) -> QueueLock | None:
    if not locks.is_settled(group, now_ms):
        return None
    return locks._grant(group, key, QueueLock(owner, locks._next_epoch(), now_ms, until_ms, is_lease))


def _release_for_anybody(
    locks: QueueLockTable, group: str, key: QueueKey, owner: str, _epoch: int | None, now_ms: int, *, how: ReleaseReason
) -> bool:
    lock = locks._groups.get(group, {}).get(key)
    return _release(locks, group, key, owner if lock is None else lock.owner, None, now_ms, how=how)


def _keep_locks(_locks: QueueLockTable, _group: str, _owner: str, _now_ms: int, *, order_grace_ms: int) -> None:
    """Keep the locks of a dead member forever."""
    del order_grace_ms


def _free_at_once(locks: QueueLockTable, group: str, owner: str, now_ms: int, *, order_grace_ms: int) -> None:
    del order_grace_ms
    QueueLockTable.release_all(locks, group, owner, now_ms)


def _begin_epochs_again(
    locks: QueueLockTable,
    started_ms: int,
    settle_ms: int,
    known_groups: Iterable[str],
    observer: LockObserver | None = None,
) -> None:
    _init_locks(locks, started_ms, settle_ms, known_groups, observer)
    locks._epoch = 0


def _is_always_settled(_locks: QueueLockTable, _group: str, _now_ms: int) -> bool:
    return True


def _claim_nothing(_locks: QueueLockTable, _group: str, _key: QueueKey, _owner: str, _epoch: int, _now_ms: int) -> bool:
    return False


# -- members ----------------------------------------------------------------------------------------------------------


def _refresh_keeping_old_connections(
    registry: ConsumerRegistry, member: GroupMember, heartbeat: MemberHeartbeat, now_ms: int
) -> None:
    """Refresh a member, and keep its older connections."""
    older = dict(member.connections)
    _refresh(registry, member, heartbeat, now_ms)
    for number, connection in older.items():
        member.connections.setdefault(number, connection)
        registry._by_connection.setdefault(number, {})[member.group] = member


def _is_never_stale(_registry: ConsumerRegistry, _heartbeat: MemberHeartbeat) -> bool:
    return False


def _find_no_silent(_registry: ConsumerRegistry, _now_ms: int) -> list[GroupMember]:
    return []


def _all_are_overdue(registry: ConsumerRegistry, _closed_before_ms: int) -> list[GroupMember]:
    return list(registry._disconnected.values())


def _notify_nobody(_state: BrokerCoreState, _group: ConsumerGroup, _member: GroupMember) -> None:
    """Send no notification of a change."""


# -- member lists with owners -----------------------------------------------------------------------------------------


def _view_of_before(state: BrokerCoreState, group: ConsumerGroup, now_ms: int) -> GroupExtension:
    """Return the owners of a while ago, by the current indexes of the members."""
    kept: dict[str, tuple[int, GroupExtension]] = state.__dict__.setdefault("kept_views", {})
    view = _view(state, group, now_ms)
    at_ms, known = kept.setdefault(group.name, (now_ms, view))
    if now_ms - at_ms >= _STALE_MS or known.queues != view.queues:
        kept[group.name] = now_ms, view
        return view
    return replace(view, owners=known.owners)


def _view_by_arrival(state: BrokerCoreState, group: ConsumerGroup, now_ms: int) -> GroupExtension:
    """Return the owners by the order of registration, where readers expect the order of client ids."""
    view = _view(state, group, now_ms)
    registered, sorted_ids = list(group.members), group.ids
    indexes = [registered.index(client_id) for client_id in sorted_ids]
    owners = {
        topic: tuple(place if place < 0 else indexes[place] for place in row)
        for topic, row in (view.owners or {}).items()
    }
    return replace(view, owners=owners)


# -- name servers -----------------------------------------------------------------------------------------------------


def _forget_all(registry: BrokerRegistry, _peer: Peer) -> None:
    for broker in registry.brokers:
        for replica in list(broker.replicas.values()):
            registry._remove(replica)


def _put_new_only(routes: RouteTable, topic: str, entry: QueueEntry) -> bool:
    return routes.has(topic, entry.broker_name) or _put(routes, topic, entry)


REGISTRY_MUTANTS = (
    Mutant(
        "fencing-skipped",
        "A commit of a member that lost the queue is accepted.",
        ("mixed",),
        (patch_attribute(commit_fencing, "_is_fenced", _is_never_fenced),),
    ),
    Mutant(
        "renewal-granted-anew",
        "A renewal of a lost lock acquires it again.",
        ("hung", "network", "restart"),
        (patch_attribute(QueueLockTable, "renew", _renew_or_lock),),
    ),
    Mutant(
        "lock-taken-over",
        "A lock is granted to any member, held or not.",
        ("churn", "storm"),
        (patch_attribute(QueueLockTable, "acquire", _lock_for_anybody),),
    ),
    Mutant(
        "unlocked-by-anybody",
        "An unlock of any member frees a queue.",
        ("network", "wild"),
        (patch_attribute(QueueLockTable, "release", _release_for_anybody),),
    ),
    Mutant(
        "lease-outlives-member",
        "What a member held stays locked when the member is gone.",
        ("crash", "hung"),
        (patch_attribute(QueueLockTable, "release_lost", _keep_locks),),
    ),
    Mutant(
        "order-grace-forgotten",
        "An orderly queue moves while its last handler may still run.",
        ("order",),
        (patch_attribute(QueueLockTable, "release_lost", _free_at_once),),
    ),
    Mutant(
        "epochs-begin-again",
        "A restarted broker counts epochs from the beginning.",
        ("restart",),
        (patch_attribute(QueueLockTable, "__init__", _begin_epochs_again),),
    ),
    Mutant(
        "settling-ignored",
        "A restarted broker grants queues to the first member that asks.",
        ("restart", "wild"),
        (patch_attribute(QueueLockTable, "is_settled", _is_always_settled),),
    ),
    Mutant(
        "claims-ignored",
        "A restarted broker does not give members back what they held.",
        ("restart",),
        (patch_attribute(QueueLockTable, "reclaim", _claim_nothing),),
    ),
    Mutant(
        "replaced-connection-commits",
        "A replaced connection still counts as its member's.",
        ("network", "wild"),
        (patch_attribute(ConsumerRegistry, "_refresh", _refresh_keeping_old_connections),),
    ),
    Mutant(
        "replaced-connection-registers",
        "A late heartbeat on a replaced connection moves the member back to it.",
        ("network", "wild"),
        (patch_attribute(ConsumerRegistry, "is_replaced_connection", _is_never_stale),),
    ),
    Mutant(
        "silence-unnoticed",
        "A silent member is listed forever.",
        ("hung",),
        (patch_attribute(ConsumerRegistry, "find_silent", _find_no_silent),),
    ),
    Mutant(
        "connection-grace-forgotten",
        "A member is removed as soon as its connection closes, though it comes back at once.",
        ("network",),
        (patch_attribute(ConsumerRegistry, "disconnected_before", _all_are_overdue),),
    ),
    Mutant(
        "notifications-never-sent",
        "Members are not notified that their group changed.",
        ("churn", "crash"),
        (patch_attribute(client_expiry, "_notify", _notify_nobody),),
    ),
    Mutant(
        "owners-of-before",
        "Member lists have the owners of some seconds ago.",
        ("churn", "storm"),
        (patch_attribute(consumers, "_group_view", _view_of_before),),
    ),
    Mutant(
        "owners-misplaced",
        "Member lists have the wrong owners: indexes of one list are used for another.",
        ("churn", "storm"),
        (patch_attribute(consumers, "_group_view", _view_by_arrival),),
    ),
    Mutant(
        "any-close-ends-brokers",
        "A name server removes its brokers when any connection closes.",
        ("churn", "routes"),
        (patch_attribute(BrokerRegistry, "connection_closed", _forget_all),),
    ),
    Mutant(
        "routes-frozen",
        "A name server keeps the first number of queues of a topic.",
        ("routes",),
        (patch_attribute(RouteTable, "put", _put_new_only),),
    ),
)
"""Bugs in locks, commits, the registry, notifications and routes."""
