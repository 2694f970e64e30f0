"""A small cluster in a world: a name server, brokers of ours with a topic, members, and messages put into the log."""

from collections.abc import Mapping

from tests.broker.desk import message

from steelyard.balance.actions import Start, StartAt
from steelyard.balance.member_options import MemberOptions, Mode, Times
from steelyard.broker.options import BrokerOptions
from steelyard.model import Queue, StoredMessage, Subscription
from steelyard.sim.facts import Ended, Fact, Moved, Reported, Started
from steelyard.sim.line import Line
from steelyard.sim.members import MemberProcess, UserCode
from steelyard.sim.process import Process
from steelyard.sim.servers import BrokerProcess, NameServerProcess
from steelyard.sim.world import World
from steelyard.wire.bodies.topics import TopicSettings
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command

__all__ = ["GROUP", "TOPIC", "Cluster", "Watched", "quick"]

GROUP, TOPIC = "billing", "orders"


def quick(_message: StoredMessage, _attempt: int) -> tuple[int, bool]:
    """Handle a message in 5 ms."""
    return 5, True


class Watched:
    """A world in which messages are put into the queues of one topic, and what members do is looked at."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed, trace=True)
        self.queues: list[Queue] = []
        self.broker_addresses: dict[str, str] = {}
        """By the name of the broker."""
        self.sent = 0
        self._sender = Process(self.world, "sender", "10.0.3.1")

    def put(self, count: int, spread: int | None = None) -> list[str]:
        """Send messages in turn to the queues; return what they are recognised by."""
        bodies: list[str] = []
        for _ in range(count):
            queue = self.queues[self.sent % (spread or len(self.queues))]
            body = f"p1-{self.sent}"
            header = message(TOPIC, queue_id=queue.queue_id)
            self._line(queue.broker).say(Command(RequestCode.SEND_MESSAGE_V2, header, body.encode()))
            bodies.append(body)
            self.sent += 1
        return bodies

    def _line(self, broker: str) -> Line:
        address = self.broker_addresses[broker]
        known = next((line for line in self._sender.lines.values() if line.remote == address), None)
        return known or self.world.network.connect(self._sender, address)

    def run(self, for_ms: int) -> None:
        """Let time pass."""
        self.world.run(self.world.now_ms() + for_ms)

    def facts(self, kind: type[Fact]) -> list[Fact]:
        """Return all facts of a kind."""
        return [fact for fact in self.world.journal.facts if isinstance(fact, kind)]

    def started(self) -> list[str]:
        """Return what was started, in order."""
        return [fact.uid for fact in self.world.journal.facts if isinstance(fact, Started)]

    def ended(self) -> list[str]:
        """Return what came to an end, in order."""
        return [fact.uid for fact in self.world.journal.facts if isinstance(fact, Ended)]

    def moves(self, member: MemberProcess, queue: Queue) -> list[str]:
        """Return the states that a queue went through at a member."""
        return [
            fact.after
            for fact in self.world.journal.facts
            if isinstance(fact, Moved) and fact.member == member.name and fact.queue == queue
        ]

    def reports(self) -> list[tuple[str, str]]:
        """Return what members told their users."""
        return [(fact.kind, fact.sentence) for fact in self.world.journal.facts if isinstance(fact, Reported)]

    def owners(self, *members: MemberProcess) -> Mapping[Queue, list[str]]:
        """Return who owns each queue of the topic."""
        owned: dict[Queue, list[str]] = {queue: [] for queue in self.queues}
        for member in members:
            for queue in member.member.assignment() if member.is_alive else ():
                if queue.topic == TOPIC:
                    owned[queue].append(member.name)
        return owned


class Cluster(Watched):
    """What a test of members needs."""

    def __init__(self, seed: int = 1, *, brokers: int = 1, queues: int = 4, name_servers: int = 1) -> None:
        super().__init__(seed)
        self.names = [NameServerProcess(self.world, f"ns{n}", f"10.0.0.{n + 1}") for n in range(name_servers)]
        for server in self.names:
            server.start()
        self.addresses = [server.address for server in self.names]
        self.brokers = [
            BrokerProcess(self.world, BrokerOptions(name=f"broker-{n}", host=f"10.0.1.{n + 1}"), self.addresses)
            for n in range(brokers)
        ]
        for broker in self.brokers:
            broker.start()
            self.make_topic(broker, TOPIC, queues)
        self.queues = [Queue(TOPIC, broker.name, queue_id) for broker in self.brokers for queue_id in range(queues)]
        self.broker_addresses = {broker.name: broker.options.address for broker in self.brokers}
        self.run(1_000)

    def make_topic(self, broker: BrokerProcess, topic: str, queues: int) -> None:
        """Make a topic, or let it grow."""
        assert broker.broker is not None
        settings = TopicSettings(
            name=topic, read_queues=queues, write_queues=queues, permission=6, filter_type="SINGLE_TAG"
        )
        broker.broker.state.topics.put(settings, broker.clock.wall_ms())

    def member(
        self,
        number: int,
        *,
        mode: Mode = Mode.CONCURRENT,
        work: UserCode = quick,
        handlers: int = 4,
        chunk: int = 1,
        offsets: dict[Queue, int] | None = None,
        times: Times | None = None,
        begin: bool = True,
    ) -> MemberProcess:
        """Start a member."""
        options = MemberOptions(
            GROUP,
            f"10.0.2.{number}@{number}@sy1",
            {TOPIC: Subscription(TOPIC)},
            mode,
            start=Start(StartAt.FIRST),
            handlers=handlers,
            chunk=chunk,
            times=times or Times(),
        )
        made = MemberProcess(self.world, options, f"10.0.2.{number}", self.addresses, work, offsets)
        if begin:
            made.begin()
        return made
