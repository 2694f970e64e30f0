"""Broker state: all tables of a broker, its store, and what it wants to send. Handlers receive it and change it.

A table knows nothing of the others and nothing of this file; what takes more than one table is a handler or a flow.
"""

from collections import deque
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from msgspec import Struct

from steelyard.broker.consumer_registry import ConsumerRegistry, SavedSubscriptions
from steelyard.broker.delayed_messages import DelayLevelOffsets, RolledTimers, TimerMessages
from steelyard.broker.delivery_dedup import DeliveredCopies
from steelyard.broker.disk_alerts import DiskAlerts
from steelyard.broker.filters import MessageFilter
from steelyard.broker.forwarded_requests import ForwardedRequests
from steelyard.broker.half_messages import HalfMessages
from steelyard.broker.held_pulls import HeldPulls
from steelyard.broker.member_notifications import MemberNotifications
from steelyard.broker.offsets import ConsumerOffsets
from steelyard.broker.options import BrokerOptions
from steelyard.broker.producer_registry import ProducerRegistry
from steelyard.broker.queue_locks import QueueLockTable
from steelyard.broker.rebalance_history import RebalanceRecorder
from steelyard.broker.stats import EventCounters, TrafficStats
from steelyard.broker.subscription_groups import SubscriptionGroups
from steelyard.broker.table_limits import CreationRateLimit, next_data_version
from steelyard.broker.topics import BrokerTopics
from steelyard.broker.validation import BROKER_GROUPS
from steelyard.metrics.families import Histogram
from steelyard.model import TopicRoute
from steelyard.model.message import host_hex
from steelyard.store.disk import Disk
from steelyard.store.json_documents import (
    DELAY_OFFSETS,
    GROUP_OFFSETS,
    GROUPS,
    SUBSCRIPTIONS,
    TOPICS,
    JsonDocument,
    load_document,
)
from steelyard.store.store import Store
from steelyard.wire.codes import SERVER_VERSION
from steelyard.wire.command import ONEWAY_FLAG, CloseConnection, Command, CommandFields, Peer, Reply
from steelyard.wire.message_ids import make_unique_key, month_bounds, unique_key_prefix
from steelyard.wire.properties import encode_properties
from steelyard.wire.property_names import CLUSTER, REGION, TRACE_ON

_TRUE = "true"


class BrokerProperties:
    r"""What a broker adds to every message and every response to a send: built once, used for each.

    >>> added = BrokerProperties(BrokerOptions(), now_ms=1_700_000_000_000)
    >>> added.encoded
    b'MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02'
    >>> added.offset_message_id(1024)
    '7F00000100002A9F0000000000000400'
    """

    def __init__(self, options: BrokerOptions, *, now_ms: int) -> None:
        self.properties = {REGION: options.region, TRACE_ON: _TRUE, CLUSTER: options.cluster}
        """Added to each message that is not part of a batch."""
        self.encoded = encode_properties(self.properties)
        """The same encoded, to append to a message's properties."""
        self.region, self.trace_on = options.region, _TRUE
        self.error_fields = {REGION: options.region, TRACE_ON: _TRUE}
        """Fields of an error response: Java's clients expect them in every response to a send."""
        self._address_digits = host_hex(options.address)
        self._key_prefix = unique_key_prefix(options.host, options.port, now_ms)
        self._month = month_bounds(now_ms)
        self._key_count = 0

    def offset_message_id(self, position: int) -> str:
        """Return the message id for a position in the log."""
        return f"{self._address_digits}{position:016X}"

    def unique_key(self, now_ms: int) -> str:
        """Make a unique key for a message that came without one."""
        start_ms, end_ms = self._month
        if not start_ms <= now_ms < end_ms:
            self._month = start_ms, _ = month_bounds(now_ms)
        self._key_count += 1
        return make_unique_key(self._key_prefix, now_ms=now_ms, month_start_ms=start_ms, counter=self._key_count)


T = TypeVar("T")

_SYNC_BOUNDS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)


class _PendingAck(Struct, frozen=True, gc=False):
    """The response to a send, due once its message is in the log, or durable."""

    peer: Peer
    answer: Command
    end: int
    """The log position behind the message."""
    wait_for_sync: bool
    """Whether the message has to be durable first."""


class BrokerCoreState:
    """The tables of one broker."""

    def __init__(self, options: BrokerOptions, store: Store, disk: Disk, now_ms: int) -> None:
        self.options, self.store, self.disk, self.started_ms = options, store, disk, now_ms
        self.open_duration_ms: int | None = None
        """How long it took to open the directory; the shell measures it."""
        self.last_tick_ms = now_ms
        self.warnings: list[str] = []
        """Warnings for the operator; the shell logs them."""
        self.disk_alerts = DiskAlerts(self.warnings, store, now_ms)
        stored = [queue for queue in store.queues() if store.bounds(*queue)[0] < store.bounds(*queue)[1]]
        self.creation_limit = CreationRateLimit(options)
        self.topics = BrokerTopics(options, self._load(TOPICS), stored, now_ms, self.creation_limit.count_creation)
        self.groups = SubscriptionGroups(options, self._load(GROUPS), now_ms, self.creation_limit.count_creation)
        self.offsets = ConsumerOffsets(self._load(GROUP_OFFSETS))
        clamped = self.offsets.clamp_to_ends(
            lambda topic, queue_id: store.bounds(topic.encode(), queue_id)[1], exclude=BROKER_GROUPS
        )
        if clamped:
            self.warnings.append(
                f"{clamped} committed offsets were beyond the end of their queues, and were moved there"
            )
        self.delay_offsets = DelayLevelOffsets(self._load(DELAY_OFFSETS))
        self.timers, self.half_messages, self.delivered_copies = TimerMessages(), HalfMessages(), DeliveredCopies(store)
        self.rolled_timers: RolledTimers | None = RolledTimers()
        """Timers that an Apache broker rolled or recalled; None once all timers from before the start are loaded."""
        self.consumers, self.producers = ConsumerRegistry(options.max_members, now_ms), ProducerRegistry()
        self.saved_subscriptions = SavedSubscriptions(self._load(SUBSCRIPTIONS), now_ms + options.client_silence_ms)
        self.rebalance_history = RebalanceRecorder(now_ms)
        self.queue_locks = QueueLockTable(
            now_ms, options.settle_ms, [group.name for group in self.groups], self.rebalance_history
        )
        self.member_notifications = MemberNotifications(options.notification_gap_ms)
        self.forwarded_requests, self.held_pulls = ForwardedRequests(), HeldPulls()
        self.traffic, self.event_counters = TrafficStats(now_ms), EventCounters()
        self.broker_properties = BrokerProperties(options, now_ms=now_ms)
        self.config_version = next_data_version(None, now_ms)
        """Changes whenever the options of the running broker change."""
        self.write_disabled_ms = None if options.is_writable else 0
        """Since when clients may not write; None: they may."""
        self.failed_filters = set[tuple[str, str, MessageFilter]]()
        """Groups, topics and filters whose evaluation failed on some message, which was reported."""
        self.routes = dict[str, TopicRoute]()
        """Routes of topics from the name servers; the shell fills in those in `wanted_routes`."""
        self.wanted_routes: set[str] = set()
        self.outbox: list[Reply | CloseConnection] = []
        self.pending_acks: list[_PendingAck] = []
        self.unsynced_acks: deque[tuple[_PendingAck, int]] = deque()
        """Acks that wait for a sync, in the order of the log, each with the time at which it is sent anyway."""
        self.key_queries: list[tuple[Command, Peer]] = []
        """Queries by key that wait until the key index has caught up with the log."""
        self.sync_times = Histogram(_SYNC_BOUNDS_S)
        """Durations of syncs of the log in seconds, as measured by the shell."""
        self.last_sync_ms: float | None = None
        """The duration of the last one."""
        self._opaque = 0
        self._round_robin = 0

    def _load(self, document: JsonDocument[T]) -> T | None:
        found = load_document(self.disk, document)
        if found.problem:
            self.warnings.append(found.problem)
        return found.value

    def send(self, peer: Peer, command: Command) -> None:
        """Send a command to any peer."""
        self.outbox.append(Reply(peer, command))

    def send_oneway(self, peer: Peer, code: int, fields: CommandFields, body: bytes = b"") -> None:
        """Send a oneway request of the broker's own."""
        self._opaque += 1
        self.send(peer, Command(code, fields, body, opaque=self._opaque, flag=ONEWAY_FLAG, version=SERVER_VERSION))

    def next_opaque(self) -> int:
        """Return the opaque for a request of the broker's own."""
        self._opaque += 1
        return self._opaque

    def next_round_robin(self) -> int:
        """Return the next number of a round-robin counter."""
        self._round_robin += 1
        return self._round_robin

    def acknowledge(self, peer: Peer, answer: Command, end: int, *, wait_for_sync: bool) -> None:
        """Respond once the log is written up to ``end``; with ``wait_for_sync``, once that is durable."""
        self.pending_acks.append(_PendingAck(peer, answer, end, wait_for_sync))


RequestHandler: TypeAlias = Callable[[BrokerCoreState, Command, Peer, int], Command | None]
"""Takes (state, request, peer, now_ms) and returns the response, or None if it comes later or never.

It refuses a request by raising one of the errors of `steelyard.errors`, which the core turns into a response. Commands
for other peers go through `BrokerCoreState.send` and `send_oneway`, a response that waits for the log through
`acknowledge`.
"""
