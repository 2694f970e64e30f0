"""Mistakes in how a broker keeps messages: in what it writes, what it promises of that, and what a start makes of it."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from steelyard.broker import deliveries
from steelyard.broker.offsets import Offsets
from steelyard.broker.schedule import Schedule
from steelyard.broker.state import State
from steelyard.sim.planted.bug import Bug, swap
from steelyard.store import starting
from steelyard.store.cutting import cut as cut_rightly
from steelyard.store.disk import Disk
from steelyard.store.log import Log, Segment
from steelyard.store.queues import ENTRY_BYTES
from steelyard.store.reading import Reader
from steelyard.store.recovery import Rebuilt
from steelyard.store.recovery import rebuild as rebuild_rightly
from steelyard.store.slices import Slice
from steelyard.store.state import GROUP_OFFSETS, Document, load
from steelyard.store.store import Flushed, Store
from steelyard.store.syncing import SyncJob, Syncing
from steelyard.store.walk import Found, Walk
from steelyard.wire.command import Command
from steelyard.wire.peers import Peer

__all__ = ["STORE_BUGS"]

_flush_rightly, _walk_rightly, _read_rightly = Store.flush, Walk.__iter__, Reader.read
_load_rightly, _end_sync_rightly = State._load, Store.end_sync
