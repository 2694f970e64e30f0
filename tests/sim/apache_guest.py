"""A program that says to the model of Apache's broker whatever a test wants, and keeps what it hears."""

from steelyard.balance.member_options import LEASE_SUFFIX
from steelyard.model import Queue, Subscription
from steelyard.sim.apache.broker import ApacheBrokerProcess
from steelyard.sim.facts import Fact
from steelyard.sim.line import Line
from steelyard.sim.nameserver_process import NameServerProcess
from steelyard.sim.process import Process
from steelyard.sim.world import World
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.heartbeat import (
    ConsumeKind,
    ConsumerBeat,
    Heartbeat,
    MessageModel,
    ProducerBeat,
    StartFrom,
    SubscriptionBody,
)
from steelyard.wire.bodies.locks import LockAnswer, LockRequest
from steelyard.wire.bodies.members import ConsumerIds
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import ONEWAY, Command
from steelyard.wire.fields import Header
from steelyard.wire.headers.common import Empty, Group
from steelyard.wire.headers.group import CommitOffset, QueryOffset, Unregister
from steelyard.wire.headers.pull import Pull
from steelyard.wire.headers.send import SendShort
from steelyard.wire.maps import QueueRef

__all__ = ["GROUP", "LEASE", "TOPIC", "Guest", "facts_of", "place"]

GROUP, TOPIC = "billing", "orders"
LEASE = GROUP + LEASE_SUFFIX


def place(
    seed: int = 1, *, version: str = "5.x", queues: int = 4
) -> tuple[World, NameServerProcess, ApacheBrokerProcess]:
    """Make a world with a name server and a broker of Apache's that knows one topic."""
    world = World(seed)
    names = NameServerProcess(world)
    names.start()
    broker = ApacheBrokerProcess(world, "b1", "10.0.1.1", [names.address], topics={TOPIC: queues}, version=version)
    broker.start()
    world.run(100)
    return world, names, broker


def facts_of(world: World, *kinds: type[Fact]) -> list[Fact]:
    """Return the facts of some kinds."""
    return [fact for fact in world.journal.facts if isinstance(fact, kinds)]


class Guest(Process):
    """One client with one line."""

    def __init__(self, world: World, name: str, broker: ApacheBrokerProcess) -> None:
        super().__init__(world, name, f"10.0.2.{len(world.processes)}")
        self.answers: dict[int, Command] = {}
        self.requests: list[Command] = []
        self.is_answering = True
        self._opaque = 0
        self.line = world.network.connect(self, broker.address)
        self.pass_time(20)

    def pass_time(self, time_ms: int) -> None:
        """Let the world go on."""
        self.world.run(self.world.now_ms() + time_ms)

    def hang_up(self) -> None:
        """Close the line, and let the broker hear of it."""
        self.line.close()
        self.pass_time(100)

    def heard(self, line: Line, command: Command) -> None:
        """Keep what is said."""
        if command.is_answer:
            self.answers[command.opaque] = command
            return
        self.requests.append(command)
        if self.is_answering and not command.is_oneway:
            line.say(Command(0, {"mine": self.name}, b"what I have", command.opaque, 1, "a remark"))

    def say(self, code: int, fields: Header, body: bytes = b"", *, oneway: bool = False) -> int:
        """Ask, and return the number of the request."""
        self._opaque += 1
        self.line.say(Command(code, fields, body, self._opaque, ONEWAY if oneway else 0))
        return self._opaque

    def ask(self, code: int, fields: Header, body: bytes = b"", *, wait_ms: int = 200) -> Command:
        """Ask, and wait for the answer."""
        opaque = self.say(code, fields, body)
        self.pass_time(wait_ms)
        return self.answers[opaque]

    # -- words --------------------------------------------------------------------------------------------------------

    def beat(self, client: str | None = None, *, topics: tuple[str, ...] = (TOPIC,), producers: str = "") -> Command:
        """Say that a client is here."""
        return self.ask(RequestCode.HEART_BEAT, Empty(), self.beat_body(client, topics=topics, producers=producers))

    def beat_body(self, client: str | None = None, *, topics: tuple[str, ...] = (TOPIC,), producers: str = "") -> bytes:
        """Make a heartbeat."""
        consumer = ConsumerBeat(
            start_from=StartFrom.LAST_OFFSET,
            kind=ConsumeKind.PUSH,
            group=GROUP,
            model=MessageModel.CLUSTERING,
            subscriptions=tuple(SubscriptionBody.of(Subscription(topic)) for topic in topics),
        )
        return encode_body(
            Heartbeat(
                client_id=client or self.name,
                consumers=() if producers else (consumer,),
                producers=(ProducerBeat(group=producers),) if producers else (),
            )
        )

    def leave(self) -> Command:
        """Say goodbye."""
        return self.ask(RequestCode.UNREGISTER_CLIENT, Unregister(self.name, consumer_group=GROUP))

    def ids(self) -> list[str] | None:
        """Ask who is in the group; None if the broker says that there is no such group."""
        answer = self.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, Group(GROUP))
        return None if answer.code else list(decode_body(ConsumerIds, answer.body).ids)

    def lock(self, *queues: int, client: str | None = None, group: str = LEASE) -> list[int]:
        """Lock queues, and return those that are."""
        body = self.lock_body(*queues, client=client, group=group)
        answer = self.ask(RequestCode.LOCK_BATCH_MQ, Empty(), body)
        return [each.queue_id for each in decode_body(LockAnswer, answer.body).granted]

    def unlock(self, *queues: int, client: str | None = None, group: str = LEASE) -> Command:
        """Let queues go."""
        body = self.lock_body(*queues, client=client, group=group)
        return self.ask(RequestCode.UNLOCK_BATCH_MQ, Empty(), body)

    def lock_body(self, *queues: int, client: str | None = None, group: str = LEASE) -> bytes:
        """Make the body of both."""
        refs = tuple(QueueRef.of(Queue(TOPIC, "b1", number)) for number in queues)
        return encode_body(LockRequest(client_id=client or self.name, group=group, queues=refs))

    def send(self, uid: str, queue_id: int = 0, *, topic: str = TOPIC, properties: str = "", tries: int = 0) -> Command:
        """Send a message."""
        header = SendShort("pg", topic, "TBW102", 4, queue_id, 0, 1, 0, properties, tries)
        return self.ask(RequestCode.SEND_MESSAGE_V2, header, uid.encode())

    def commit(self, offset: int, queue_id: int = 0) -> Command:
        """Commit."""
        return self.ask(RequestCode.UPDATE_CONSUMER_OFFSET, CommitOffset(GROUP, TOPIC, queue_id, offset))

    def committed(self, queue_id: int = 0) -> Command:
        """Ask what is committed."""
        header = QueryOffset(GROUP, TOPIC, queue_id, set_zero_if_not_found=False)
        return self.ask(RequestCode.QUERY_CONSUMER_OFFSET, header)

    def pull(self, offset: int, queue_id: int = 0, *, topic: str = TOPIC, sys_flag: int = 2, commit: int = 0) -> int:
        """Pull, and return the number of the request."""
        header = Pull(GROUP, topic, queue_id, offset, 32, sys_flag, commit, 15_000, 0)
        return self.say(RequestCode.PULL_MESSAGE, header)
