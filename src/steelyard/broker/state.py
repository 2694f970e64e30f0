"""All that a broker knows: its tables, its store, and what it wants sent. Handlers get it, and change it.

A table knows nothing of the others and nothing of this file; what takes more than one table is a handler or a flow.
"""

from collections import deque
from typing import TypeVar

from msgspec import Struct

from steelyard.broker.carried_on import CarriedOn
from steelyard.broker.copies import Copies
from steelyard.broker.creations import Creations
from steelyard.broker.disk_trouble import DiskTrouble
from steelyard.broker.filters.compiled import Filter
from steelyard.broker.groups import Groups
from steelyard.broker.halves import Halves
from steelyard.broker.kept_subscriptions import KeptSubscriptions
from steelyard.broker.locks import Locks
from steelyard.broker.members import Members
from steelyard.broker.moves import Moves
from steelyard.broker.names import OWN_GROUPS
from steelyard.broker.notices import Notices
from steelyard.broker.offsets import Offsets
from steelyard.broker.options import BrokerOptions
from steelyard.broker.parking import Parking
from steelyard.broker.producers import Producers
from steelyard.broker.rates import Rates
from steelyard.broker.relays import Relays
from steelyard.broker.schedule import Schedule
from steelyard.broker.stamps import Stamps
from steelyard.broker.tallies import Tallies
from steelyard.broker.timers import Timers
from steelyard.broker.topics import Topics
from steelyard.broker.versions import next_version
from steelyard.model import Route
from steelyard.model.buckets import Buckets
from steelyard.store.disk import Disk
from steelyard.store.state import DELAY_OFFSETS, GROUP_OFFSETS, GROUPS, SUBSCRIPTIONS, TOPICS, Document, load
from steelyard.store.store import Store
from steelyard.wire.codes import SERVER_VERSION
from steelyard.wire.command import ONEWAY, Command, Fields
from steelyard.wire.peers import Hangup, Peer, Reply

__all__ = ["Ack", "State"]

T = TypeVar("T")

_SYNC_BOUNDS_MS = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)


class Ack(Struct, frozen=True, gc=False):
    """The answer to a send, due once its message is in the log, or safe on the disk."""

    peer: Peer
    answer: Command
    end: int
    """The position of the log behind the message."""
    waits: bool
    """Whether the sender wants it to be safe from a loss of power first."""


class State:
    """One broker's tables."""

    def __init__(self, options: BrokerOptions, store: Store, disk: Disk, now_ms: int) -> None:
        self.options, self.store, self.disk, self.started_ms = options, store, disk, now_ms
        self.opening_ms: int | None = None
        """How long it took to open the directory; the shell measures it."""
        self.ticked_ms = now_ms
        """When the last tick was."""
        self.notes: list[str] = []
        """What there is to say to whoever runs this broker; the shell takes it and logs it."""
        self.trouble = DiskTrouble(self.notes, store, now_ms)
        stored = [queue for queue in store.queues() if store.bounds(*queue)[0] < store.bounds(*queue)[1]]
        self.creations = Creations(options)
        self.topics = Topics(options, self._load(TOPICS), stored, now_ms, self.creations.count)
        self.groups = Groups(options, self._load(GROUPS), now_ms, self.creations.count)
        self.offsets = Offsets(self._load(GROUP_OFFSETS))
        cut = self.offsets.cut(lambda topic, queue_id: store.bounds(topic.encode(), queue_id)[1], but=OWN_GROUPS)
        if cut:
            self.notes.append(f"{cut} offsets of groups were beyond the end of their queues, and were moved there")
        self.schedule = Schedule(self._load(DELAY_OFFSETS))
        self.timers, self.halves, self.copies = Timers(), Halves(), Copies(store)
        self.carried_on: CarriedOn | None = CarriedOn()
        """Timers that another broker took out of their place; None once all that were there at the start are known."""
        self.members, self.producers = Members(options.max_members, now_ms), Producers()
        self.kept_subscriptions = KeptSubscriptions(self._load(SUBSCRIPTIONS), now_ms + options.client_silence_ms)
        self.moves = Moves(now_ms)
        self.locks = Locks(now_ms, options.settle_ms, [group.name for group in self.groups], self.moves)
        self.notices, self.relays = Notices(options.notice_gap_ms), Relays()
        self.parking, self.rates, self.stamps = Parking(), Rates(now_ms), Stamps(options, now_ms=now_ms)
        self.tallies = Tallies()
        self.settings_version = next_version(None, now_ms)
        """Changes with each change of the options while the broker runs."""
        self.closed_ms = None if options.is_writable else 0
        """Since when clients may not write; None: they may."""
        self.failed_filters = set[tuple[str, str, Filter]]()
        """Groups, topics and their conditions whose judging failed on some message, which was told."""
        self.routes = dict[str, Route]()
        """Routes of topics as the name servers tell them; the shell fills in those that are wanted."""
        self.wanted_routes: set[str] = set()
        self.outbox: list[Reply | Hangup] = []
        self.acks: list[Ack] = []
        self.unsynced: deque[tuple[Ack, int]] = deque()
        """Acks that wait for the disk, in the order of the log, each with the time at which it goes out anyway."""
        self.questions: list[tuple[Command, Peer]] = []
        """Questions by key that wait until the key index has caught up with the log."""
        self.sync_times = Buckets(_SYNC_BOUNDS_MS)
        """How long syncs of the log took, in milliseconds, where the shell measured it."""
        self.last_sync_ms: float | None = None
        """How long the last one took."""
        self._opaque = 0
        self._turn = 0

    def _load(self, document: Document[T]) -> T | None:
        found = load(self.disk, document)
        if found.note:
            self.notes.append(found.note)
        return found.value

    def post(self, peer: Peer, command: Command) -> None:
        """Send a command to any peer."""
        self.outbox.append(Reply(peer, command))

    def tell(self, peer: Peer, code: int, fields: Fields, body: bytes = b"") -> None:
        """Send a request of the broker's own that wants no answer."""
        self._opaque += 1
        self.post(peer, Command(code, fields, body, opaque=self._opaque, flag=ONEWAY, version=SERVER_VERSION))

    def next_opaque(self) -> int:
        """Return a number for a request of the broker's own."""
        self._opaque += 1
        return self._opaque

    def next_turn(self) -> int:
        """Return a number that is one larger each time: for choices that go round."""
        self._turn += 1
        return self._turn

    def acknowledge(self, peer: Peer, answer: Command, end: int, *, waits: bool) -> None:
        """Answer once the log has everything before ``end``; if ``waits``, once that is safe on the disk."""
        self.acks.append(Ack(peer, answer, end, waits))
