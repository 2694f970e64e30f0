"""A client that sends any request to the model of Apache's broker, and keeps the responses."""

from simulator.actors.name_server import NameServerProcess
from simulator.apache.broker import ApacheBrokerProcess
from simulator.facts import Fact
from simulator.network import SimulatedConnection
from simulator.process import Process
from simulator.world import World
from steelyard.balance.group.options import LEASE_SUFFIX
from steelyard.model import Queue, Subscription
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerHeartbeat,
    ConsumeType,
    HeartbeatBody,
    MessageModel,
    ProducerHeartbeat,
    SubscriptionBody,
)
from steelyard.wire.bodies.members import ConsumerIdList
from steelyard.wire.bodies.queue_assignment import LockRequest, LockResponse
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import ONEWAY_FLAG, Command
from steelyard.wire.header_codec import Header
from steelyard.wire.headers.common import EmptyHeader, GroupRequest
from steelyard.wire.headers.group import CommitOffset, QueryConsumerOffset, UnregisterClient
from steelyard.wire.headers.pull import PullMessage
from steelyard.wire.headers.send import SendMessageV2
from steelyard.wire.json_body import QueueRef

GROUP, TOPIC = "billing", "orders"
LEASE = GROUP + LEASE_SUFFIX


def place(
    seed: int = 1, *, version: str = "5.x", queues: int = 4
) -> tuple[World, NameServerProcess, ApacheBrokerProcess]:
    """Make a world with a name server and an Apache broker with one topic."""
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


class ApacheTestClient(Process):
    """One client with one connection."""

    def __init__(self, world: World, name: str, broker: ApacheBrokerProcess) -> None:
        super().__init__(world, name, f"10.0.2.{len(world.processes)}")
        self.answers: dict[int, Command] = {}
        self.requests: list[Command] = []
        self.is_answering = True
        self._opaque = 0
        self.connection = world.network.connect(self, broker.address)
        self.pass_time(20)

    def pass_time(self, time_ms: int) -> None:
        """Run the world for a while."""
        self.world.run(self.world.now_ms() + time_ms)

    def disconnect(self) -> None:
        """Close the connection, and let the broker notice."""
        self.connection.close()
        self.pass_time(100)

    def command_received(self, connection: SimulatedConnection, command: Command) -> None:
        """Keep a command."""
        if command.is_response:
            self.answers[command.opaque] = command
            return
        self.requests.append(command)
        if self.is_answering and not command.is_oneway:
            connection.send(Command(0, {"mine": self.name}, b"what I have", command.opaque, 1, "a remark"))

    def send_request(self, code: int, fields: Header, body: bytes = b"", *, oneway: bool = False) -> int:
        """Send a request, and return its opaque."""
        self._opaque += 1
        self.connection.send(Command(code, fields, body, self._opaque, ONEWAY_FLAG if oneway else 0))
        return self._opaque

    def ask(self, code: int, fields: Header, body: bytes = b"", *, wait_ms: int = 200) -> Command:
        """Send a request, and wait for the response."""
        opaque = self.send_request(code, fields, body)
        self.pass_time(wait_ms)
        return self.answers[opaque]

    # -- requests -----------------------------------------------------------------------------------------------------

    def heartbeat(
        self, client: str | None = None, *, topics: tuple[str, ...] = (TOPIC,), producers: str = ""
    ) -> Command:
        """Send a heartbeat."""
        return self.ask(
            RequestCode.HEART_BEAT, EmptyHeader(), self.heartbeat_body(client, topics=topics, producers=producers)
        )

    def heartbeat_body(
        self, client: str | None = None, *, topics: tuple[str, ...] = (TOPIC,), producers: str = ""
    ) -> bytes:
        """Make a heartbeat."""
        consumer = ConsumerHeartbeat(
            start_from=ConsumeFromWhere.LAST_OFFSET,
            kind=ConsumeType.PUSH,
            group=GROUP,
            model=MessageModel.CLUSTERING,
            subscriptions=tuple(SubscriptionBody.of(Subscription(topic)) for topic in topics),
        )
        return encode_body(
            HeartbeatBody(
                client_id=client or self.name,
                consumers=() if producers else (consumer,),
                producers=(ProducerHeartbeat(group=producers),) if producers else (),
            )
        )

    def leave(self) -> Command:
        """Unregister."""
        return self.ask(RequestCode.UNREGISTER_CLIENT, UnregisterClient(self.name, consumer_group=GROUP))

    def ids(self) -> list[str] | None:
        """Return the members of the group; None if the broker does not know it."""
        answer = self.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, GroupRequest(GROUP))
        return None if answer.code else list(decode_body(ConsumerIdList, answer.body).ids)

    def lock(self, *queues: int, client: str | None = None, group: str = LEASE) -> list[int]:
        """Lock queues, and return those that were granted."""
        body = self.lock_body(*queues, client=client, group=group)
        answer = self.ask(RequestCode.LOCK_BATCH_MQ, EmptyHeader(), body)
        return [each.queue_id for each in decode_body(LockResponse, answer.body).granted]

    def unlock(self, *queues: int, client: str | None = None, group: str = LEASE) -> Command:
        """Unlock queues."""
        body = self.lock_body(*queues, client=client, group=group)
        return self.ask(RequestCode.UNLOCK_BATCH_MQ, EmptyHeader(), body)

    def lock_body(self, *queues: int, client: str | None = None, group: str = LEASE) -> bytes:
        """Make the body of both requests."""
        refs = tuple(QueueRef.of(Queue(TOPIC, "b1", number)) for number in queues)
        return encode_body(LockRequest(client_id=client or self.name, group=group, queues=refs))

    def send(self, uid: str, queue_id: int = 0, *, topic: str = TOPIC, properties: str = "", tries: int = 0) -> Command:
        """Send a message."""
        header = SendMessageV2("pg", topic, "TBW102", 4, queue_id, 0, 1, 0, properties, tries)
        return self.ask(RequestCode.SEND_MESSAGE_V2, header, uid.encode())

    def commit(self, offset: int, queue_id: int = 0) -> Command:
        """Commit."""
        return self.ask(RequestCode.UPDATE_CONSUMER_OFFSET, CommitOffset(GROUP, TOPIC, queue_id, offset))

    def committed(self, queue_id: int = 0) -> Command:
        """Query the committed offset."""
        header = QueryConsumerOffset(GROUP, TOPIC, queue_id, set_zero_if_not_found=False)
        return self.ask(RequestCode.QUERY_CONSUMER_OFFSET, header)

    def pull(self, offset: int, queue_id: int = 0, *, topic: str = TOPIC, sys_flag: int = 2, commit: int = 0) -> int:
        """Send a pull, and return its opaque."""
        header = PullMessage(GROUP, topic, queue_id, offset, 32, sys_flag, commit, 15_000, 0)
        return self.send_request(RequestCode.PULL_MESSAGE, header)
