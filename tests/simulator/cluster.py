"""A small cluster in a world: a name server, brokers of ours with a topic, members, and messages."""

from collections.abc import Mapping

from simulator.actors.broker import BrokerProcess
from simulator.actors.member import MemberProcess
from simulator.actors.name_server import NameServerProcess
from simulator.facts import Fact, HandlerEnded, HandlerStarted, MemberReported, QueueStateChanged
from simulator.network import SimulatedConnection
from simulator.process import Process
from simulator.scenario import UserHandler
from simulator.world import World
from steelyard.balance.group.actions import StartAt, StartPosition
from steelyard.balance.group.options import ConsumeMode, MemberOptions, MemberTimings
from steelyard.broker.options import BrokerOptions
from steelyard.model import Queue, StoredMessage, Subscription
from steelyard.wire.bodies.topics import TopicConfig
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from tests.broker.broker_harness import message

GROUP, TOPIC = "billing", "orders"


def quick_handler(_message: StoredMessage, _attempt: int) -> tuple[int, bool]:
    """Handle a message in 5 ms."""
    return 5, True


class ObservedWorld:
    """A world with messages in the queues of one topic, and what its members did."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed, trace=True)
        self.queues: list[Queue] = []
        self.broker_addresses: dict[str, str] = {}
        """By the name of the broker."""
        self.sent = 0
        self._sender = Process(self.world, "sender", "10.0.3.1")

    def put(self, count: int, spread: int | None = None) -> list[str]:
        """Send messages to the queues in turn; return their uids."""
        bodies: list[str] = []
        for _ in range(count):
            queue = self.queues[self.sent % (spread or len(self.queues))]
            body = f"p1-{self.sent}"
            header = message(TOPIC, queue_id=queue.queue_id)
            self._connection_to(queue.broker).send(Command(RequestCode.SEND_MESSAGE_V2, header, body.encode()))
            bodies.append(body)
            self.sent += 1
        return bodies

    def _connection_to(self, broker: str) -> SimulatedConnection:
        address = self.broker_addresses[broker]
        known = next(
            (connection for connection in self._sender.connections.values() if connection.remote == address), None
        )
        return known or self.world.network.connect(self._sender, address)

    def run(self, for_ms: int) -> None:
        """Run the world for a while."""
        self.world.run(self.world.now_ms() + for_ms)

    def facts(self, kind: type[Fact]) -> list[Fact]:
        """Return all facts of a kind."""
        return [fact for fact in self.world.journal.facts if isinstance(fact, kind)]

    def started(self) -> list[str]:
        """Return the started uids, in order."""
        return [fact.uid for fact in self.world.journal.facts if isinstance(fact, HandlerStarted)]

    def ended(self) -> list[str]:
        """Return the handled uids, in order."""
        return [fact.uid for fact in self.world.journal.facts if isinstance(fact, HandlerEnded)]

    def states_of(self, member: MemberProcess, queue: Queue) -> list[str]:
        """Return the states that a queue went through at a member."""
        return [
            fact.after
            for fact in self.world.journal.facts
            if isinstance(fact, QueueStateChanged) and fact.member == member.name and fact.queue == queue
        ]

    def reports(self) -> list[tuple[str, str]]:
        """Return what members reported to their users."""
        return [(fact.kind, fact.sentence) for fact in self.world.journal.facts if isinstance(fact, MemberReported)]

    def owners(self, *members: MemberProcess) -> Mapping[Queue, list[str]]:
        """Return who owns each queue of the topic."""
        owned: dict[Queue, list[str]] = {queue: [] for queue in self.queues}
        for member in members:
            for queue in member.member.assignment() if member.is_alive else ():
                if queue.topic == TOPIC:
                    owned[queue].append(member.name)
        return owned


class Cluster(ObservedWorld):
    """A name server, brokers and members."""

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
            self.create_topic(broker, TOPIC, queues)
        self.queues = [Queue(TOPIC, broker.name, queue_id) for broker in self.brokers for queue_id in range(queues)]
        self.broker_addresses = {broker.name: broker.options.address for broker in self.brokers}
        self.run(1_000)

    def create_topic(self, broker: BrokerProcess, topic: str, queues: int) -> None:
        """Create a topic, or add queues to it."""
        assert broker.broker is not None
        settings = TopicConfig(
            name=topic, read_queues=queues, write_queues=queues, permission=6, filter_type="SINGLE_TAG"
        )
        broker.broker.state.topics.put(settings, broker.clock.wall_ms())

    def member(
        self,
        number: int,
        *,
        mode: ConsumeMode = ConsumeMode.CONCURRENT,
        work: UserHandler = quick_handler,
        handlers: int = 4,
        chunk: int = 1,
        offsets: dict[Queue, int] | None = None,
        times: MemberTimings | None = None,
        begin: bool = True,
    ) -> MemberProcess:
        """Start a member."""
        options = MemberOptions(
            GROUP,
            f"10.0.2.{number}@{number}@sy1",
            {TOPIC: Subscription(TOPIC)},
            mode,
            start=StartPosition(StartAt.FIRST),
            handler_limit=handlers,
            handler_batch=chunk,
            times=times or MemberTimings(),
        )
        made = MemberProcess(self.world, options, f"10.0.2.{number}", self.addresses, work, offsets)
        if begin:
            made.start()
        return made
