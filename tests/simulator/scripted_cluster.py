"""A scripted cluster: brokers of one kind, members whose assignment the test sets, and gates that hold back commands.

A scenario runs twice on each kind of broker on which it can come up: with the program as it is, and with the mutant
that it is about (`on`). What must hold is asserted within `fails_with`: there the mutant has to show. Everything before
that has to hold in both runs, or the scenario did not come up.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Literal, TypeAlias

import pytest

from simulator.actors.broker import BrokerProcess
from simulator.actors.member import MemberProcess
from simulator.actors.name_server import NameServerProcess
from simulator.apache.broker import ApacheBrokerProcess
from simulator.cluster import AnyBroker, committed_offset
from simulator.facts import ConnectionDisturbed, HandlerStarted, OffsetCommitted, ProcessGone, QueueStateChanged
from simulator.faults import SimulatedFaults
from simulator.mutants.catalog import MUTANTS
from simulator.mutants.mutant import AttributePatch, Mutant, mutated, patch_attribute
from simulator.network import SimulatedConnection
from simulator.process import Process
from simulator.scenario import UserHandler
from steelyard.balance.assignors.sticky import Sticky
from steelyard.balance.assignors.strategy import Strategy
from steelyard.balance.group.actions import StartAt, StartPosition
from steelyard.balance.group.events import Tick
from steelyard.balance.group.options import ConsumeMode, MemberOptions, MemberTimings
from steelyard.balance.group.queue_states import HELD_STATES, QueueState
from steelyard.broker.options import BrokerOptions
from steelyard.model import Queue, StoredMessage, Subscription
from steelyard.wire.bodies.topics import TopicConfig
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from tests.broker.broker_harness import message
from tests.simulator.cluster import GROUP, TOPIC, ObservedWorld, quick_handler

Kind: TypeAlias = Literal["ours", "apache"]
Scenario: TypeAlias = Callable[[Kind, Mutant | None], None]

_PORT = 10_911
_HELD = frozenset(state.name for state in HELD_STATES)


# -- mutants ----------------------------------------------------------------------------------------------------------


def scenario_mutant(sentence: str, *swaps: AttributePatch) -> Mutant:
    """Make a mutant for one scenario."""
    return Mutant(sentence, sentence, (), swaps)


def patch_method(owner: type, attribute: str, wrong: object) -> AttributePatch:
    """Replace a method, in whichever base class it is defined."""
    return patch_attribute(next(each for each in owner.__mro__ if attribute in vars(each)), attribute, wrong)


def known_mutant(name: str) -> Mutant:
    """Return a mutant of the simulator's catalog."""
    return MUTANTS[name]


def on(*, ours: Mutant | None = None, apache: Mutant | None = None) -> Callable[[Scenario], Scenario]:
    """Run a scenario on the kinds of brokers for which a mutant is given, without it and with it."""
    bugs: dict[Kind, Mutant | None] = {"ours": ours, "apache": apache}
    cases = [(kind, each) for kind, bug in bugs.items() if bug is not None for each in (None, bug)]
    ids = [f"{kind}{' with the mistake' if bug else ''}" for kind, bug in cases]

    def wrap(scenario: Scenario) -> Scenario:
        @pytest.mark.parametrize(("kind", "bug"), cases, ids=ids)
        @wraps(scenario)
        def run(kind: Kind, bug: Mutant | None) -> None:
            with mutated(bug):
                scenario(kind, bug)

        return run

    return wrap


@contextmanager
def fails_with(bug: Mutant | None) -> Iterator[None]:
    """Expect the assertions within to hold, or to fail with a mutant."""
    if bug is None:
        yield
    else:
        with pytest.raises(AssertionError):
            yield


# -- holding back -----------------------------------------------------------------------------------------------------


class Gate:
    """Records what a process receives, and holds back what is to come late."""

    def __init__(self, process: Process) -> None:
        self.requests: list[tuple[str, Command]] = []
        """Every request, with the name of its sender."""
        self.kept: list[tuple[SimulatedConnection, Command]] = []
        self._wanted: Callable[[SimulatedConnection, Command], bool] | None = None
        self._receive = process.command_received
        vars(process)["command_received"] = self._received

    def _received(self, connection: SimulatedConnection, command: Command) -> None:
        if not command.is_response:
            self.requests.append((connection.peer_name, command))
        if self._wanted is not None and self._wanted(connection, command):
            self.kept.append((connection, command))
        else:
            self._receive(connection, command)

    def keep(self, wanted: Callable[[SimulatedConnection, Command], bool]) -> None:
        """Hold back what matches."""
        self._wanted = wanted

    def open(self) -> None:
        """Hold back nothing more; what was held stays so."""
        self._wanted = None

    def release(self) -> None:
        """Deliver everything that was held, in order, and hold back nothing more."""
        self.open()
        kept, self.kept = self.kept, []
        for connection, command in kept:
            self._receive(connection, command)


# -- the cluster ------------------------------------------------------------------------------------------------------


def handler_taking(took_ms: int) -> UserHandler:
    """Return a handler that takes this long."""

    def work(_message: StoredMessage, _attempt: int) -> tuple[int, bool]:
        return took_ms, True

    return work


class ScriptedCluster(ObservedWorld):
    """Name servers, brokers of one kind that have run for a while, and members."""

    def __init__(
        self,
        kind: Kind,
        *,
        queues: int = 1,
        brokers: int = 1,
        name_servers: int = 1,
        seed: int = 1,
        topic: str = TOPIC,
        version: str = "5.x",
    ) -> None:
        super().__init__(seed)
        self.kind, self._version = kind, version
        self.names = [NameServerProcess(self.world, f"ns{n}", f"10.0.0.{n}") for n in range(1, name_servers + 1)]
        for server in self.names:
            server.start()
        self.brokers = [self._broker(f"b{n}", f"10.0.1.{n}") for n in range(1, brokers + 1)]
        self.broker = self.brokers[0]
        self.gates = {broker.name: Gate(broker) for broker in self.brokers}
        self.gate = self.gates[self.broker.name]
        for broker in self.brokers:
            broker.start()
            self.create_topic(broker, topic, queues)
        self.broker_addresses = {broker.name: f"{broker.host}:{_PORT}" for broker in self.brokers}
        self.queues = [Queue(topic, broker.name, number) for broker in self.brokers for number in range(queues)]
        self.queue = self.queues[0]
        self.faults = SimulatedFaults(self.world)
        self.run(5_000)

    def _broker(self, name: str, host: str) -> AnyBroker:
        addresses = [server.address for server in self.names]
        if self.kind == "ours":
            return BrokerProcess(self.world, BrokerOptions(name=name, host=host), addresses)
        return ApacheBrokerProcess(self.world, name, host, addresses, version=self._version)

    def create_topic(self, broker: AnyBroker, topic: str, queues: int) -> None:
        """Create a topic, or add queues to it."""
        if isinstance(broker, ApacheBrokerProcess):
            broker.set_queues(topic, queues)
            return
        settings = TopicConfig(
            name=topic, read_queues=queues, write_queues=queues, permission=6, filter_type="SINGLE_TAG"
        )
        assert broker.broker is not None
        broker.broker.state.topics.put(settings, broker.clock.wall_ms())

    def member(
        self,
        number: int,
        *,
        is_steered: bool = True,
        mode: ConsumeMode = ConsumeMode.CONCURRENT,
        work: UserHandler = quick_handler,
        handlers: int = 4,
        times: MemberTimings | None = None,
        topics: tuple[str, ...] = (TOPIC,),
        start: StartAt = StartAt.FIRST,
        strategy: Strategy | None = None,
        name_server: int | None = None,
    ) -> MemberProcess:
        """Start a member; one that is steered has no queues until `set_assignment`."""
        options = MemberOptions(
            GROUP,
            f"10.0.2.{number}@{number}@sy1",
            {topic: Subscription(topic) for topic in topics},
            mode,
            start=StartPosition(start),
            handler_limit=handlers,
            strategy=strategy or Sticky(),
            times=times or MemberTimings(),
        )
        names = self.names if name_server is None else [self.names[name_server]]
        made = MemberProcess(self.world, options, f"10.0.2.{number}", [each.address for each in names], work)
        made.start()
        if is_steered:
            self.set_assignment(made)
            self.run(500)
        return made

    def set_assignment(self, member: MemberProcess, *queues: Queue) -> None:
        """Set the assignment of a member, whatever it knows of the group."""
        vars(member.member.rebalancer)["plan"] = lambda: () if member.member.sessions.is_leaving else queues
        member.call_later(0, lambda: member._feed([Tick()]))
        self.run(0)

    def own(self, member: MemberProcess, within_ms: int = 2_000) -> None:
        """Assign the first queue to a member, and wait until it owns it."""
        self.set_assignment(member, self.queue)
        self.until(lambda: self.state(member) is QueueState.OWNED, within_ms)

    def fill(self, count: int) -> list[str]:
        """Send messages and wait until they are stored; return their uids in that order."""
        sent = self.put(count)
        self.until(lambda: len(self._stored(sent)) == count)
        return self._stored(sent)

    def _stored(self, sent: list[str]) -> list[str]:
        logged = sorted(
            (each.queue, each.offset, each.uid) for broker in self.brokers for each in broker.logged_messages()
        )
        return [uid for _, _, uid in logged if uid in sent]

    def send(self, uid: str, topic: str, queue_id: int = 0) -> None:
        """Send a message to a queue of the first broker."""
        header = message(topic, queue_id=queue_id)
        self._connection_to(self.broker.name).send(Command(RequestCode.SEND_MESSAGE_V2, header, uid.encode()))

    # -- time and faults ----------------------------------------------------------------------------------------------

    def until(self, is_so: Callable[[], bool], within_ms: int = 2_000) -> None:
        """Run the world until a condition holds; it has to be in time."""
        end_ms = self.world.now_ms() + within_ms
        while not is_so():
            assert self.world.now_ms() < end_ms, f"not so within {within_ms} ms"
            self.run(1)

    def keep_requests(self, member: MemberProcess, *codes: RequestCode) -> Gate:
        """Hold back requests of a member at the first broker, as if no thread had taken them yet."""
        self.gate.keep(
            lambda connection, command: (
                connection.peer_name == member.name and not command.is_response and command.code in codes
            )
        )
        return self.gate

    def keep_answers(self, member: MemberProcess, *codes: RequestCode) -> Gate:
        """Hold back responses to requests of these codes at a member."""
        gate = Gate(member)

        def is_wanted(_connection: SimulatedConnection, command: Command) -> bool:
            return command.is_response and any(
                name == member.name and asked.opaque == command.opaque and asked.code in codes
                for each in self.gates.values()
                for name, asked in each.requests
            )

        gate.keep(is_wanted)
        return gate

    def cut(self, member: MemberProcess, broker: AnyBroker | None = None, *, broker_knows: bool = True) -> None:
        """Cut the connection of a member and a broker; what is in flight is lost, and the broker may not notice."""
        name = (broker or self.broker).name
        self.world.record(ConnectionDisturbed(at_ms=self.world.now_ms(), one=member.name, other=name, how="cut"))
        for connection in self.world.network.connections_between(member.name, name):
            assert connection.outgoing is not None
            if broker_knows:
                connection.outgoing.cut(0)
                connection.notify_closed()
            elif connection.process is member:
                connection.outgoing.jam()
                connection.notify_closed()

    def cut_off(self, member: MemberProcess, for_ms: int, broker: AnyBroker | None = None) -> None:
        """Cut a member off from a broker for a while."""
        names, network = (member.name, (broker or self.broker).name), self.world.network
        network.block_connects(*names)
        self.world.schedule(for_ms * 1000, lambda: network.allow_connects(*names))
        self.cut(member, broker)

    # -- results ------------------------------------------------------------------------------------------------------

    def state(self, member: MemberProcess, queue: Queue | None = None) -> QueueState:
        """Return the state of a queue at a member."""
        return member.member.states().get(queue or self.queue, QueueState.ABSENT)

    def is_owned_by(self, member: MemberProcess, queue: Queue | None = None) -> bool:
        """Return whether a member owns a queue."""
        return self.state(member, queue) is QueueState.OWNED

    def locks(self) -> list[tuple[Queue, str]]:
        """Return the locks of the topic's queues, with their owners."""
        held = [lock for broker in self.brokers for lock in broker.held_locks()]
        return [(queue, owner) for _, _, queue, owner in held if queue in self.queues]

    def committed(self, queue: Queue | None = None) -> int:
        """Return the committed offset of a queue."""
        wanted = queue or self.queue
        return committed_offset(next(b for b in self.brokers if b.name == wanted.broker), GROUP, wanted)

    def went_back(self) -> list[OffsetCommitted]:
        """Return the commits by which a group went back."""
        return [
            fact
            for fact in self.world.journal.facts
            if isinstance(fact, OffsetCommitted) and fact.before is not None and fact.offset < fact.before
        ]

    def max_holders(self, queue: Queue | None = None) -> int:
        """Return the maximum number of members that held a queue at a time."""
        wanted, holders, most = queue or self.queue, set[str](), 0
        for fact in self.world.journal.facts:
            if isinstance(fact, ProcessGone):
                holders.discard(fact.name)
            elif isinstance(fact, QueueStateChanged) and fact.queue == wanted:
                (holders.add if fact.after in _HELD else holders.discard)(fact.member)
                most = max(most, len(holders))
        return most

    def starts(self, member: MemberProcess | None = None, since_ms: int = 0) -> list[str]:
        """Return the started uids, of all members or of one, in order."""
        return [
            fact.uid
            for fact in self.world.journal.facts
            if isinstance(fact, HandlerStarted)
            and fact.at_ms >= since_ms
            and (member is None or fact.member == member.name)
        ]
