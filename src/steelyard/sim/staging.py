"""A plan brought to life: the world of one history, with everybody who takes part and the times at which they act.

Servers start at once and an operator makes the topics; members and producers come when the plan says so. A part of the
plan keeps its short name (``m1``) while the programs that play it change: a member that is started again has another
client id, as a new process has.
"""

from functools import partial
from typing import TYPE_CHECKING, TypeAlias
from zlib import crc32

from steelyard.balance.actions import Start, StartAt
from steelyard.balance.allocate.sticky import Sticky
from steelyard.balance.member_options import MemberOptions, Mode, Times
from steelyard.broker.options import BrokerOptions
from steelyard.model import Queue, Subscription
from steelyard.model.names import OUR_MARK
from steelyard.sim.apache.broker import ApacheBrokerProcess
from steelyard.sim.apache.java_member import JavaMemberProcess
from steelyard.sim.apache.java_state import JavaOptions
from steelyard.sim.looking import AnyBroker
from steelyard.sim.members import MemberProcess
from steelyard.sim.network import Temper
from steelyard.sim.operators import OperatorProcess
from steelyard.sim.plan import BrokerPlan, FaultKind, GroupPlan, MemberPlan, Plan, ProducerPlan
from steelyard.sim.producers import ProducerProcess
from steelyard.sim.servers import BrokerProcess, NameServerProcess
from steelyard.sim.strategies import strategy_of
from steelyard.sim.work import worker
from steelyard.sim.world import World
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command

if TYPE_CHECKING:
    from steelyard.sim.process import Process

__all__ = ["AnyMember", "Stage"]

AnyMember: TypeAlias = MemberProcess | JavaMemberProcess

_BROKER_PORT = 10_911


class Stage:
    """The world of one history."""

    def __init__(self, plan: Plan, *, trace: bool = False) -> None:
        self.plan = plan
        self.world = World(plan.seed, trace=trace)
        self.world.network.temper = Temper(tails=plan.slow_percent / 100)
        if plan.lost_notices_percent:
            self.world.network.loses = self._is_lost
        self.groups: dict[str, GroupPlan] = {group.name: group for group in plan.groups}
        self.name_servers = [self._name_server(number) for number in range(1, plan.name_servers + 1)]
        self.brokers: dict[str, AnyBroker] = {
            broker.name: self._broker(number, broker) for number, broker in enumerate(plan.brokers, 1)
        }
        self.operator = OperatorProcess(self.world)
        self.members: dict[str, AnyMember] = {}
        """Who plays each member now, alive or dead."""
        self._past: list[tuple[str, AnyMember]] = []
        """Everybody who ever played a member, with the group."""
        self.producers: dict[str, ProducerProcess] = {}
        self.is_safe = {broker.name: broker.sync_flush for broker in plan.brokers}
        """Whether a broker answers only once a message is safe from a loss of power."""
        self._loses_power = any(fault.kind is FaultKind.POWER for fault in plan.faults)
        self.added: dict[Queue, int] = {}
        """Queues that topics got on the way, and when."""
        self._lives: dict[str, int] = {}
        self._kept: dict[str, dict[Queue, int]] = {}
        self._schedule()

    def _is_lost(self, command: Command) -> bool:
        """Say whether a notice is lost; after healing none is."""
        if command.code != RequestCode.NOTIFY_CONSUMER_IDS_CHANGED or command.is_answer:
            return False
        return not self.world.network.is_healed and self.world.random.percent(self.plan.lost_notices_percent)

    # -- servers ------------------------------------------------------------------------------------------------------

    def _name_server(self, number: int) -> NameServerProcess:
        server = NameServerProcess(self.world, f"ns{number}", f"10.0.0.{number}")
        server.start()
        return server

    @property
    def _addresses(self) -> list[str]:
        return [server.address for server in self.name_servers]

    def _broker(self, number: int, broker: BrokerPlan) -> AnyBroker:
        host = f"10.0.1.{number}"
        made: AnyBroker
        if broker.is_ours:
            options = BrokerOptions(
                name=broker.name, host=host, port=_BROKER_PORT, flush="sync" if broker.sync_flush else "async"
            )
            made = BrokerProcess(self.world, options, self._addresses)
        else:
            made = ApacheBrokerProcess(self.world, broker.name, host, self._addresses, version=broker.version)
        made.start()
        return made

    def make_topic(self, topic: str, broker: str, queues: int) -> None:
        """Let an operator make a topic, or let it grow."""
        number = list(self.brokers).index(broker) + 1
        self.operator.make(f"10.0.1.{number}:{_BROKER_PORT}", topic, queues)

    def grow(self, topic: str, broker: str, queues: int) -> None:
        """Let an operator give a topic more queues."""
        now_ms = self.world.now_ms()
        first = next(each.queues for each in self.plan.topics if each.name == topic)
        for number in range(first, queues):
            self.added.setdefault(Queue(topic, broker, number), now_ms)
        self.make_topic(topic, broker, queues)

    # -- who comes and goes -------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        for topic in self.plan.topics:
            for broker in topic.brokers:
                self.make_topic(topic.name, broker, topic.queues)
        for member in self.plan.members:
            self.world.at(member.joins_ms * 1000, partial(self.join, member))
            if member.leaves_ms is not None:
                self.world.at(member.leaves_ms * 1000, partial(self.leave, member))
        for producer in self.plan.producers:
            self.world.at(producer.begins_ms * 1000, partial(self._produce, producer))

    def join(self, member: MemberPlan) -> None:
        """Start a member, or start it again as a new process."""
        life = self._lives[member.name] = self._lives.get(member.name, -1) + 1
        # Ids are compared as texts, and those who come first should not always come first.
        place = crc32(f"{self.plan.seed}/{member.name}".encode()) % 90 + 10
        host = f"10.0.{place}.{len(self._lives)}"
        made = self._ours(member, host, life) if member.is_ours else self._java(member, host, life)
        self.members[member.name] = made
        self._past.append((member.group, made))
        made.begin()

    def _ours(self, member: MemberPlan, host: str, life: int) -> MemberProcess:
        group = self.groups[member.group]
        java = strategy_of(group.java_strategy)
        options = MemberOptions(
            group.name,
            f"{host}@{member.name}#{life}{OUR_MARK}",
            {topic: Subscription(topic) for topic in group.topics},
            mode=Mode(group.mode),
            strategy=Sticky() if group.sticky else java,
            java_strategy=java,
            start=Start(StartAt.FIRST if group.from_first else StartAt.LAST),
            handlers=group.handlers,
            chunk=group.chunk,
            most_tries=group.most_tries,
            times=Times(drain_ms=group.drain_ms),
        )
        work = worker(member.work, self.plan.seed, group.name)
        offsets = self._kept.setdefault(member.name, {})
        return MemberProcess(self.world, options, host, self._addresses, work, offsets)

    def _java(self, member: MemberPlan, host: str, life: int) -> JavaMemberProcess:
        group = self.groups[member.group]
        options = JavaOptions(
            group.name,
            f"{host}@{member.name}#{life}",
            {topic: Subscription(topic) for topic in group.topics},
            mode=Mode(group.mode),
            strategy=strategy_of(group.java_strategy),
            start=Start(StartAt.FIRST if group.from_first else StartAt.LAST),
            handlers=group.handlers,
            most_tries=group.most_tries,
            version=member.version,
        )
        work = worker(member.work, self.plan.seed, group.name)
        return JavaMemberProcess(
            self.world, options, host, self._addresses, work, self._kept.setdefault(member.name, {})
        )

    def leave(self, member: MemberPlan) -> None:
        """Let a member leave, if it is there."""
        playing = self.members.get(member.name)
        if playing is not None and playing.is_alive:
            playing.leave(member.leave_drain_ms)

    def _produce(self, producer: ProducerPlan) -> None:
        host = f"10.0.2.{len(self.producers) + 1}"
        made = ProducerProcess(self.world, producer, host, self._addresses, promises=self._is_promised)
        self.producers[producer.name] = made
        made.begin()

    def _is_promised(self, broker: str, code: int) -> bool:
        """Say whether an answer to a send promises that the message survives all that the plan does to the broker."""
        if code != ResponseCode.SUCCESS:
            return False
        return self.is_safe[broker] or not self._loses_power

    # -- by name ------------------------------------------------------------------------------------------------------

    def process(self, name: str) -> "Process | None":
        """Return the program that plays a part of the plan now, if it has come."""
        found = self.brokers.get(name) or self.members.get(name) or self.producers.get(name)
        return found or self.world.processes.get(name)

    def alive(self, group: str) -> list[AnyMember]:
        """List the members of a group that live."""
        return [member for name, member in self._past if name == group and member.is_alive]
