"""A scene: brokers of one kind, members whose plan the test sets, and hands that hold back what is to come late.

A scenario is played twice on each kind of broker that it can come up on: as the program is, and with the mistake put
back that it is about (`on`). What must hold is asserted within `fails_with`: there the mistake has to show. What comes
before that has to go as told in both plays, or the scenario did not come up.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Literal, TypeAlias

import pytest
from tests.broker.desk import message
from tests.sim.cluster import GROUP, TOPIC, Watched, quick

from steelyard.balance.actions import Start, StartAt
from steelyard.balance.allocate.sticky import Sticky
from steelyard.balance.allocate.strategy import Strategy
from steelyard.balance.events import Tick
from steelyard.balance.life import HELD, State
from steelyard.balance.member_options import MemberOptions, Mode, Times
from steelyard.broker.options import BrokerOptions
from steelyard.model import Queue, StoredMessage, Subscription
from steelyard.sim.apache.broker import ApacheBrokerProcess
from steelyard.sim.facts import Committed, Gone, LineLost, Moved, Started
from steelyard.sim.faults import Faults
from steelyard.sim.line import Line
from steelyard.sim.looking import AnyBroker, committed_in
from steelyard.sim.members import MemberProcess, UserCode
from steelyard.sim.planted.bug import Bug, Swap, planted, swap
from steelyard.sim.planted.table import BUGS
from steelyard.sim.process import Process
from steelyard.sim.servers import BrokerProcess, NameServerProcess
from steelyard.wire.bodies.topics import TopicSettings
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command

__all__ = ["Gate", "Kind", "Scene", "fails_with", "known", "mistake", "on", "rule", "taking"]

Kind: TypeAlias = Literal["ours", "apache"]
Scenario: TypeAlias = Callable[[Kind, Bug | None], None]

_PORT = 10_911
_HELD = frozenset(state.name for state in HELD)


# -- mistakes ---------------------------------------------------------------------------------------------------------


def mistake(sentence: str, *swaps: Swap) -> Bug:
    """Make a mistake that can be put back in one scenario."""
    return Bug(sentence, sentence, (), swaps)


def rule(owner: type, attribute: str, wrong: object) -> Swap:
    """Put a wrong method in the place of a right one, wherever the class has it from."""
    return swap(next(each for each in owner.__mro__ if attribute in vars(each)), attribute, wrong)


def known(name: str) -> Bug:
    """Return a mistake that the simulator knows by name."""
    return BUGS[name]


def on(*, ours: Bug | None = None, apache: Bug | None = None) -> Callable[[Scenario], Scenario]:
    """Play a scenario on the kinds of brokers for which a mistake is given, without it and with it."""
    bugs: dict[Kind, Bug | None] = {"ours": ours, "apache": apache}
    cases = [(kind, each) for kind, bug in bugs.items() if bug is not None for each in (None, bug)]
    ids = [f"{kind}{' with the mistake' if bug else ''}" for kind, bug in cases]

    def wrap(scenario: Scenario) -> Scenario:
        @pytest.mark.parametrize(("kind", "bug"), cases, ids=ids)
        @wraps(scenario)
        def run(kind: Kind, bug: Bug | None) -> None:
            with planted(bug):
                scenario(kind, bug)

        return run

    return wrap


@contextmanager
def fails_with(bug: Bug | None) -> Iterator[None]:
    """Expect what is asserted here to hold, or, with a mistake put back, to fail."""
    if bug is None:
        yield
    else:
        with pytest.raises(AssertionError):
            yield


# -- holding back -----------------------------------------------------------------------------------------------------


class Gate:
    """Stands before a process: notes what it hears, and keeps back what is to come late."""

    def __init__(self, process: Process) -> None:
        self.requests: list[tuple[str, Command]] = []
        """Every request, with the name of who asked."""
        self.kept: list[tuple[Line, Command]] = []
        self._wanted: Callable[[Line, Command], bool] | None = None
        self._hear = process.heard
        vars(process)["heard"] = self._heard

    def _heard(self, line: Line, command: Command) -> None:
        if not command.is_answer:
            self.requests.append((line.far, command))
        if self._wanted is not None and self._wanted(line, command):
            self.kept.append((line, command))
        else:
            self._hear(line, command)

    def keep(self, wanted: Callable[[Line, Command], bool]) -> None:
        """Keep what a test wants to come late."""
        self._wanted = wanted

    def open(self) -> None:
        """Keep nothing more; what was kept stays so."""
        self._wanted = None

    def release(self) -> None:
        """Let everything through that was kept, in order, and keep nothing more."""
        self.open()
        kept, self.kept = self.kept, []
        for line, command in kept:
            self._hear(line, command)


# -- the scene --------------------------------------------------------------------------------------------------------


def taking(took_ms: int) -> UserCode:
    """Return user code that takes so long."""

    def work(_message: StoredMessage, _attempt: int) -> tuple[int, bool]:
        return took_ms, True

    return work


class Scene(Watched):
    """A name server, brokers of one kind that have run for a while, and whoever is started."""

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
            self.make_topic(broker, topic, queues)
        self.broker_addresses = {broker.name: f"{broker.host}:{_PORT}" for broker in self.brokers}
        self.queues = [Queue(topic, broker.name, number) for broker in self.brokers for number in range(queues)]
        self.queue = self.queues[0]
        self.faults = Faults(self.world)
        self.run(5_000)

    def _broker(self, name: str, host: str) -> AnyBroker:
        addresses = [server.address for server in self.names]
        if self.kind == "ours":
            return BrokerProcess(self.world, BrokerOptions(name=name, host=host), addresses)
        return ApacheBrokerProcess(self.world, name, host, addresses, version=self._version)

    def make_topic(self, broker: AnyBroker, topic: str, queues: int) -> None:
        """Make a topic, or let it grow."""
        if isinstance(broker, ApacheBrokerProcess):
            broker.set_queues(topic, queues)
            return
        settings = TopicSettings(
            name=topic, read_queues=queues, write_queues=queues, permission=6, filter_type="SINGLE_TAG"
        )
        assert broker.broker is not None
        broker.broker.state.topics.put(settings, broker.clock.wall_ms())

    def member(
        self,
        number: int,
        *,
        is_steered: bool = True,
        mode: Mode = Mode.CONCURRENT,
        work: UserCode = quick,
        handlers: int = 4,
        times: Times | None = None,
        topics: tuple[str, ...] = (TOPIC,),
        start: StartAt = StartAt.FIRST,
        strategy: Strategy | None = None,
        name_server: int | None = None,
    ) -> MemberProcess:
        """Start a member; one that is steered wants nothing until it is told so (`plan`)."""
        options = MemberOptions(
            GROUP,
            f"10.0.2.{number}@{number}@sy1",
            {topic: Subscription(topic) for topic in topics},
            mode,
            start=Start(start),
            handlers=handlers,
            strategy=strategy or Sticky(),
            times=times or Times(),
        )
        names = self.names if name_server is None else [self.names[name_server]]
        made = MemberProcess(self.world, options, f"10.0.2.{number}", [each.address for each in names], work)
        made.begin()
        if is_steered:
            self.plan(made)
            self.run(500)
        return made

    def plan(self, member: MemberProcess, *queues: Queue) -> None:
        """Let these queues be a member's own by its plan, whatever it sees of the group."""
        vars(member.member.views)["plan"] = lambda: () if member.member.lines.leaving else queues
        member.after(0, lambda: member._feed([Tick()]))
        self.run(0)

    def own(self, member: MemberProcess, within_ms: int = 2_000) -> None:
        """Plan the first queue in at a member, and wait until it owns it."""
        self.plan(member, self.queue)
        self.until(lambda: self.state(member) is State.OWNED, within_ms)

    def fill(self, count: int) -> list[str]:
        """Send messages and wait until they are stored; return them in the order in which they are."""
        sent = self.put(count)
        self.until(lambda: len(self._stored(sent)) == count)
        return self._stored(sent)

    def _stored(self, sent: list[str]) -> list[str]:
        logged = sorted((each.queue, each.offset, each.uid) for broker in self.brokers for each in broker.logged())
        return [uid for _, _, uid in logged if uid in sent]

    def send(self, uid: str, topic: str, queue_id: int = 0) -> None:
        """Send a message to a queue of the first broker."""
        header = message(topic, queue_id=queue_id)
        self._line(self.broker.name).say(Command(RequestCode.SEND_MESSAGE_V2, header, uid.encode()))

    # -- time and faults ----------------------------------------------------------------------------------------------

    def until(self, is_so: Callable[[], bool], within_ms: int = 2_000) -> None:
        """Let time pass until something is so; it has to be in time."""
        end_ms = self.world.now_ms() + within_ms
        while not is_so():
            assert self.world.now_ms() < end_ms, f"not so within {within_ms} ms"
            self.run(1)

    def keep_requests(self, member: MemberProcess, *codes: RequestCode) -> Gate:
        """Keep requests of a member back at the first broker, as if no thread had taken them yet."""
        self.gate.keep(
            lambda line, command: line.far == member.name and not command.is_answer and command.code in codes
        )
        return self.gate

    def keep_answers(self, member: MemberProcess, *codes: RequestCode) -> Gate:
        """Keep answers to requests of these codes back at a member."""
        gate = Gate(member)

        def is_wanted(_line: Line, command: Command) -> bool:
            return command.is_answer and any(
                name == member.name and asked.opaque == command.opaque and asked.code in codes
                for each in self.gates.values()
                for name, asked in each.requests
            )

        gate.keep(is_wanted)
        return gate

    def cut(self, member: MemberProcess, broker: AnyBroker | None = None, *, broker_knows: bool = True) -> None:
        """Break a member's line to a broker, what is under way lost; the broker may never hear of it."""
        name = (broker or self.broker).name
        self.world.tell(LineLost(at_ms=self.world.now_ms(), one=member.name, other=name, how="cut"))
        for line in self.world.network.lines_between(member.name, name):
            assert line.way is not None
            if broker_knows:
                line.way.break_off(0)
                line.notice()
            elif line.process is member:
                line.way.jam()
                line.notice()

    def part(self, member: MemberProcess, for_ms: int, broker: AnyBroker | None = None) -> None:
        """Cut a member off from a broker for a while."""
        names, network = (member.name, (broker or self.broker).name), self.world.network
        network.part(*names)
        self.world.at(for_ms * 1000, lambda: network.join(*names))
        self.cut(member, broker)

    # -- looking ------------------------------------------------------------------------------------------------------

    def state(self, member: MemberProcess, queue: Queue | None = None) -> State:
        """Return where a queue is in its life at a member."""
        return member.member.states().get(queue or self.queue, State.ABSENT)

    def is_owned_by(self, member: MemberProcess, queue: Queue | None = None) -> bool:
        """Say whether a member owns a queue."""
        return self.state(member, queue) is State.OWNED

    def locks(self) -> list[tuple[Queue, str]]:
        """List the locks on queues of the topic, with their owners."""
        held = [lock for broker in self.brokers for lock in broker.locks()]
        return [(queue, owner) for _, _, queue, owner in held if queue in self.queues]

    def committed(self, queue: Queue | None = None) -> int:
        """Return what is committed in a queue."""
        wanted = queue or self.queue
        return committed_in(next(b for b in self.brokers if b.name == wanted.broker), GROUP, wanted)

    def went_back(self) -> list[Committed]:
        """Return the commits by which a group went back."""
        return [
            fact
            for fact in self.world.journal.facts
            if isinstance(fact, Committed) and fact.before is not None and fact.offset < fact.before
        ]

    def hands(self, queue: Queue | None = None) -> int:
        """Return in how many hands a queue was at a time, at most."""
        wanted, holders, most = queue or self.queue, set[str](), 0
        for fact in self.world.journal.facts:
            if isinstance(fact, Gone):
                holders.discard(fact.name)
            elif isinstance(fact, Moved) and fact.queue == wanted:
                (holders.add if fact.after in _HELD else holders.discard)(fact.member)
                most = max(most, len(holders))
        return most

    def starts(self, member: MemberProcess | None = None, since_ms: int = 0) -> list[str]:
        """Return what was started, by anybody or by one member, in order."""
        return [
            fact.uid
            for fact in self.world.journal.facts
            if isinstance(fact, Started) and fact.at_ms >= since_ms and (member is None or fact.member == member.name)
        ]
