"""The cluster of one history: its world, all processes of the scenario, and the times at which they act.

Servers start at once and an admin creates the topics; members and producers start when the scenario says so. A part of
the scenario keeps its short name (``m1``) while its processes change: a restarted member has a new client id, as a new
process has. Handlers depend on the seed, the group and the message alone, not on who runs them or when: a message that
has to fail twice fails twice, wherever it is redelivered.
"""

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, TypeAlias
from zlib import crc32

from simulator.actors.admin import AdminProcess
from simulator.actors.broker import BrokerProcess
from simulator.actors.member import MemberProcess
from simulator.actors.name_server import NameServerProcess
from simulator.actors.producer import ProducerProcess
from simulator.apache.broker import ApacheBrokerProcess
from simulator.apache.java_client import JavaOptions
from simulator.apache.java_member import JavaMemberProcess
from simulator.network import NetworkProfile
from simulator.scenario import (
    FaultKind,
    Scenario,
    ScenarioBroker,
    ScenarioGroup,
    ScenarioHandler,
    ScenarioMember,
    ScenarioProducer,
    UserHandler,
    find_simulated_strategy,
)
from simulator.world import World
from steelyard.balance.assignors.sticky import Sticky
from steelyard.balance.group.actions import StartAt, StartPosition
from steelyard.balance.group.options import ConsumeMode, MemberOptions, MemberTimings
from steelyard.broker.options import BrokerOptions
from steelyard.model import Queue, StoredMessage, Subscription
from steelyard.model.reserved_names import CLIENT_ID_SUFFIX
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command

if TYPE_CHECKING:
    from simulator.process import Process


def _simulated_handler(spec: ScenarioHandler, seed: int, group: str) -> UserHandler:
    """Return a handler.

    >>> handle = _simulated_handler(ScenarioHandler(failing_percent=100, failures=2), 7, "billing")
    >>> from steelyard.model import Queue
    >>> message = StoredMessage(Queue("t", "b", 0), 0, b"p1-1")
    >>> [handle(message, attempt)[1] for attempt in range(3)]
    [False, False, True]
    """
    prefix = f"{seed}/{group}/".encode()

    def handle(message: StoredMessage, attempt: int) -> tuple[int, bool]:
        drawn = crc32(prefix + message.body)
        is_failing = drawn % 100 < spec.failing_percent
        is_slow = drawn // 100 % 100 < spec.slow_percent
        span = spec.slow_ms if is_slow else spec.max_ms - spec.min_ms
        took_ms = spec.min_ms + drawn // 10_000 % (span + 1)
        return took_ms, not (is_failing and attempt + message.reconsume_times < spec.failures)

    return handle


AnyBroker: TypeAlias = BrokerProcess | ApacheBrokerProcess


def readable_queues(brokers: Collection[AnyBroker], topic: str) -> list[Queue]:
    """Return the readable queues of a topic, in order."""
    found: list[Queue] = []
    for broker in brokers:
        if isinstance(broker, ApacheBrokerProcess):
            found += broker.queues(topic)
        elif broker.broker is not None:
            known = broker.broker.state.topics.get(topic)
            count = 0 if known is None else known.settings.read_queues
            found += [Queue(topic, broker.name, number) for number in range(count)]
    return sorted(found)


def log_end_offset(broker: AnyBroker, queue: Queue) -> int:
    """Return the offset that the next message of a queue gets."""
    if isinstance(broker, ApacheBrokerProcess):
        return broker.state.log.end(queue.topic, queue.queue_id)
    return 0 if broker.broker is None else broker.broker.state.store.bounds(queue.topic.encode(), queue.queue_id)[1]


def committed_offset(broker: AnyBroker, group: str, queue: Queue) -> int:
    """Return what a group has committed in a queue; 0 if nothing."""
    offset: int | None = None
    if isinstance(broker, ApacheBrokerProcess):
        offset = broker.state.offsets.get(group, queue)
    elif broker.broker is not None:
        offset = broker.broker.state.offsets.get(group, queue.topic, queue.queue_id)
    return 0 if offset is None else offset


def open_transactions(broker: AnyBroker) -> int:
    """Count the transactions of a broker that are neither committed nor rolled back."""
    if isinstance(broker, ApacheBrokerProcess):
        return broker.state.store.half_messages.open
    return 0 if broker.broker is None else len(broker.broker.state.half_messages.open)


_AnyMember: TypeAlias = MemberProcess | JavaMemberProcess

_BROKER_PORT = 10_911


class SimulatedCluster:
    """All processes of one history."""

    def __init__(self, scenario: Scenario, *, trace: bool = False) -> None:
        self.scenario = scenario
        self.world = World(scenario.seed, trace=trace)
        self.world.network.profile = NetworkProfile(tail_fraction=scenario.late_deliveries_percent / 100)
        if scenario.lost_notifications_percent:
            self.world.network.drops = self._drops_notification
        self.groups: dict[str, ScenarioGroup] = {group.name: group for group in scenario.groups}
        self.name_servers = [self._start_name_server(number) for number in range(1, scenario.name_servers + 1)]
        self.brokers: dict[str, AnyBroker] = {
            broker.name: self._start_broker(number, broker) for number, broker in enumerate(scenario.brokers, 1)
        }
        self.admin = AdminProcess(self.world)
        self.members: dict[str, _AnyMember] = {}
        """The current process of each member, alive or dead."""
        self._past_members: list[tuple[str, _AnyMember]] = []
        """Every process that was ever a member, with its group."""
        self.producers: dict[str, ProducerProcess] = {}
        self.flushes_sync = {broker.name: broker.sync_flush for broker in scenario.brokers}
        """Whether a broker responds only once a message survives a power loss."""
        self._loses_power = any(fault.kind is FaultKind.POWER for fault in scenario.faults)
        self.added_queues: dict[Queue, int] = {}
        """Queues that were added to topics, and when."""
        self._incarnations: dict[str, int] = {}
        self._broadcast_offsets: dict[str, dict[Queue, int]] = {}
        self._schedule()

    def _drops_notification(self, command: Command) -> bool:
        """Return whether a notification is lost; after healing none is."""
        if command.code != RequestCode.NOTIFY_CONSUMER_IDS_CHANGED or command.is_response:
            return False
        return not self.world.network.is_healed and self.world.random.chance(self.scenario.lost_notifications_percent)

    # -- servers ------------------------------------------------------------------------------------------------------

    def _start_name_server(self, number: int) -> NameServerProcess:
        server = NameServerProcess(self.world, f"ns{number}", f"10.0.0.{number}")
        server.start()
        return server

    @property
    def _name_server_addresses(self) -> list[str]:
        return [server.address for server in self.name_servers]

    def _start_broker(self, number: int, broker: ScenarioBroker) -> AnyBroker:
        host = f"10.0.1.{number}"
        process: AnyBroker
        if broker.is_steelyard:
            options = BrokerOptions(
                name=broker.name, host=host, port=_BROKER_PORT, flush="sync" if broker.sync_flush else "async"
            )
            process = BrokerProcess(self.world, options, self._name_server_addresses)
        else:
            process = ApacheBrokerProcess(
                self.world, broker.name, host, self._name_server_addresses, version=broker.version
            )
        process.start()
        return process

    def create_topic(self, topic: str, broker: str, queues: int) -> None:
        """Create a topic, or give it more queues."""
        number = list(self.brokers).index(broker) + 1
        self.admin.create_topic(f"10.0.1.{number}:{_BROKER_PORT}", topic, queues)

    def add_queues(self, topic: str, broker: str, queues: int) -> None:
        """Give a topic more queues, and remember when."""
        now_ms = self.world.now_ms()
        initial_queues = next(each.queues for each in self.scenario.topics if each.name == topic)
        for number in range(initial_queues, queues):
            self.added_queues.setdefault(Queue(topic, broker, number), now_ms)
        self.create_topic(topic, broker, queues)

    # -- clients ------------------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        for topic in self.scenario.topics:
            for broker in topic.brokers:
                self.create_topic(topic.name, broker, topic.queues)
        for member in self.scenario.members:
            self.world.schedule(member.joins_ms * 1000, partial(self.start_member, member))
            if member.leaves_ms is not None:
                self.world.schedule(member.leaves_ms * 1000, partial(self.stop_member, member))
        for producer in self.scenario.producers:
            self.world.schedule(producer.starts_ms * 1000, partial(self._start_producer, producer))

    def start_member(self, member: ScenarioMember) -> None:
        """Start a member, or start it again as a new process."""
        incarnation = self._incarnations[member.name] = self._incarnations.get(member.name, -1) + 1
        # Client ids are sorted as texts: the first member to join should not always sort first.
        place = crc32(f"{self.scenario.seed}/{member.name}".encode()) % 90 + 10
        host = f"10.0.{place}.{len(self._incarnations)}"
        process = (
            self._steelyard_member(member, host, incarnation)
            if member.is_steelyard
            else self._java_member(member, host, incarnation)
        )
        self.members[member.name] = process
        self._past_members.append((member.group, process))
        process.start()

    def _steelyard_member(self, member: ScenarioMember, host: str, incarnation: int) -> MemberProcess:
        group = self.groups[member.group]
        java = find_simulated_strategy(group.java_strategy)
        options = MemberOptions(
            group.name,
            f"{host}@{member.name}#{incarnation}{CLIENT_ID_SUFFIX}",
            {topic: Subscription(topic) for topic in group.topics},
            mode=ConsumeMode(group.mode),
            strategy=Sticky() if group.sticky else java,
            mixed_group_strategy=java,
            start=StartPosition(StartAt.FIRST if group.from_first else StartAt.LAST),
            handler_limit=group.handlers,
            handler_batch=group.chunk,
            max_attempts=group.max_attempts,
            times=MemberTimings(drain_ms=group.drain_ms),
        )
        handler = _simulated_handler(member.handler, self.scenario.seed, group.name)
        offsets = self._broadcast_offsets.setdefault(member.name, {})
        return MemberProcess(self.world, options, host, self._name_server_addresses, handler, offsets)

    def _java_member(self, member: ScenarioMember, host: str, incarnation: int) -> JavaMemberProcess:
        group = self.groups[member.group]
        options = JavaOptions(
            group.name,
            f"{host}@{member.name}#{incarnation}",
            {topic: Subscription(topic) for topic in group.topics},
            mode=ConsumeMode(group.mode),
            strategy=find_simulated_strategy(group.java_strategy),
            start=StartPosition(StartAt.FIRST if group.from_first else StartAt.LAST),
            handlers=group.handlers,
            max_attempts=group.max_attempts,
            version=member.version,
        )
        handler = _simulated_handler(member.handler, self.scenario.seed, group.name)
        return JavaMemberProcess(
            self.world,
            options,
            host,
            self._name_server_addresses,
            handler,
            self._broadcast_offsets.setdefault(member.name, {}),
        )

    def stop_member(self, member: ScenarioMember) -> None:
        """Let a member leave, if it is alive."""
        process = self.members.get(member.name)
        if process is not None and process.is_alive:
            process.leave(member.leave_drain_ms)

    def _start_producer(self, producer: ScenarioProducer) -> None:
        host = f"10.0.2.{len(self.producers) + 1}"
        process = ProducerProcess(self.world, producer, host, self._name_server_addresses, is_durable=self._is_durable)
        self.producers[producer.name] = process
        process.start()

    def _is_durable(self, broker: str, code: int) -> bool:
        """Return whether this response to a send promises that the message survives every fault of the scenario."""
        if code != ResponseCode.SUCCESS:
            return False
        return self.flushes_sync[broker] or not self._loses_power

    def find_process(self, name: str) -> "Process | None":
        """Return the current process of a part of the scenario, if it has started."""
        found = self.brokers.get(name) or self.members.get(name) or self.producers.get(name)
        return found or self.world.processes.get(name)

    def alive_members(self, group: str) -> list[_AnyMember]:
        """Return the living members of a group."""
        return [member for name, member in self._past_members if name == group and member.is_alive]
