"""Mistakes in how a broker keeps messages: what it writes, what it promises of that, what a start makes of it."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from msgspec.structs import replace

from steelyard.broker.state import State
from steelyard.sim.planted.bug import Bug, swap
from steelyard.store import starting
from steelyard.store.index_files import Indexes
from steelyard.store.log import Log, Segment
from steelyard.store.queues import ENTRY_BYTES
from steelyard.store.reading import Reader
from steelyard.store.recovery import Rebuilt, rebuild
from steelyard.store.slices import Slice
from steelyard.store.state import GROUP_OFFSETS, Document
from steelyard.store.store import Flushed, Store
from steelyard.store.sums import Sums
from steelyard.store.syncing import SyncJob
from steelyard.store.walk import Found, Walk
from steelyard.wire.command import Command
from steelyard.wire.peers import Peer

__all__ = ["STORE_BUGS"]

T = TypeVar("T")

# What is right, for the wrong ones that go on from there.
_load, _flush, _end_sync = State._load, Store.flush, Store.end_sync
_read, _walk = Reader.read, Walk.__iter__


# -- writing ----------------------------------------------------------------------------------------------------------


def _acknowledge_at_once(state: State, peer: Peer, answer: Command, _end: int, *, waits: bool) -> None:
    del waits
    state.post(peer, answer)


def _flush_blindly(store: Store) -> Flushed:
    wanted = store._log._wanted_end
    _flush(store)
    return Flushed(wanted)


def _keep_what_failed(store: Store, end: int) -> None:
    store._unsummed = [each for each in store._unsummed if each[0] < end]
    store._refuse_if_unsure()


def _sync_nothing(job: SyncJob) -> None:
    job.is_run = True


def _forgive(store: Store, job: SyncJob) -> None:
    job.error = None
    _end_sync(store, job)


def _leave_folder(_log: Log, _folder: str) -> None:
    """Make the file safe, and not the name under which it would be found."""


# -- starting again ---------------------------------------------------------------------------------------------------


def _walk_but_one(walk: Walk) -> Iterator[Found]:
    last: Found | None = None
    for found in _walk(walk):
        if last is not None:
            yield last
        last = found
    if last is not None:
        walk.end = last.position


def _rebuild_one_short(
    segments: Sequence[Segment], known: Indexes, sums: dict[int, Sums], mark: Callable[[Found], int]
) -> Rebuilt:
    rebuilt = rebuild(segments, known, sums, mark)
    for index in rebuilt.indexes.values():
        del index.entries[-ENTRY_BYTES:]
        index.show()
    return rebuilt


def _load_but_offsets(state: State, document: Document[T]) -> T | None:
    return None if document.path == GROUP_OFFSETS.path else _load(state, document)


# -- reading ----------------------------------------------------------------------------------------------------------


def _read_to_border(
    reader: Reader, topic: bytes, queue_id: int, offset: int, most: int, most_bytes: int, marks: frozenset[int] | None
) -> Slice:
    """Read what one file has, and go on behind the first message of the next."""
    index = reader._queues.get((topic, queue_id))
    if index is not None and index.start <= offset < index.shown:
        size = reader._log.segment_bytes
        places = [position // size for position, _, _ in index.slice(offset, min(index.shown, offset + most))]
        count = places.count(places[0])
        if count < len(places):
            found = _read(reader, topic, queue_id, offset, count, most_bytes, marks)
            return replace(found, next_offset=found.next_offset + 1) if found.count == count else found
    return _read(reader, topic, queue_id, offset, most, most_bytes, marks)


STORE_BUGS = (
    Bug(
        "ack-before-write",
        "A send is answered before its message is in the log.",
        ("disk",),
        (swap(State, "acknowledge", _acknowledge_at_once),),
    ),
    Bug(
        "write-error-swallowed",
        "A write that failed counts as written.",
        ("disk",),
        (swap(Store, "flush", _flush_blindly),),
    ),
    Bug(
        "failed-write-kept",
        "The index keeps the places of messages whose write failed.",
        ("disk",),
        (swap(Store, "_take_back", _keep_what_failed),),
    ),
    Bug(
        "sync-forgotten",
        "A broker that promises safety from a loss of power never syncs its log.",
        ("power",),
        (swap(SyncJob, "run", _sync_nothing),),
    ),
    Bug(
        "folder-not-synced",
        "A new log file is synced, and the folder that has its name is not.",
        ("power",),
        (swap(Log, "_sync_folder", _leave_folder),),
    ),
    Bug(
        "sync-error-forgiven",
        "A sync that failed is forgotten once the next one works.",
        ("disk",),
        (swap(Store, "end_sync", _forgive),),
    ),
    Bug(
        "last-record-cut",
        "A start takes the last whole record for a torn one, and cuts it off.",
        ("restart", "power"),
        (swap(Walk, "__iter__", _walk_but_one),),
    ),
    Bug(
        "offsets-given-again",
        "After a start each queue goes on with the number of its last message.",
        ("restart", "power"),
        (swap(starting, "rebuild", _rebuild_one_short),),
    ),
    Bug(
        "commits-not-loaded",
        "A broker that starts again knows nothing of what was committed.",
        ("restart",),
        (swap(State, "_load", _load_but_offsets),),
    ),
    Bug(
        "border-skipped",
        "A pull that ends at the border of two log files goes on one message too far.",
        ("transaction", "storm"),
        (swap(Reader, "read", _read_to_border),),
    ),
)
"""What can be wrong with keeping."""
