"""A process that sends what a test wants and records what it receives: for tests of the world itself."""

from collections.abc import Mapping, Sequence

from simulator.network import SimulatedConnection
from simulator.process import Process
from simulator.world import World
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerHeartbeat,
    ConsumeType,
    HeartbeatBody,
    HeartbeatExtension,
    HeartbeatGroupExtension,
    HeldQueueEpoch,
    MessageModel,
    SubscriptionBody,
)
from steelyard.wire.bodies.queue_assignment import LockExtension, LockRequest
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command, CommandFields, response_to
from steelyard.wire.headers.group import CommitOffset
from steelyard.wire.json_body import QueueRef
from tests.broker.broker_harness import message

GROUP = "billing"


class Echo(Process):
    """Answers everything at once."""

    def __init__(self, world: World, name: str = "echo", address: str = "10.0.0.1:9") -> None:
        super().__init__(world, name, address.partition(":")[0])
        self.address = address
        self.lost = 0
        self.received_opaques: list[int] = []
        world.network.listen(self, address)

    def command_received(self, connection: SimulatedConnection, command: Command) -> None:
        self.received_opaques.append(command.opaque)
        connection.send(response_to(command))

    def connection_closed(self, connection: SimulatedConnection) -> None:
        del connection
        self.lost += 1


class Talker(Process):
    """Has a connection to one address, and optionally reconnects."""

    def __init__(
        self, world: World, name: str = "talker", address: str = "10.0.0.1:9", host: str = "10.0.9.1", again_ms: int = 0
    ) -> None:
        super().__init__(world, name, host)
        self.address, self.again_ms = address, again_ms
        self.opened_ms: list[int] = []
        self.closed_ms: list[int] = []
        self.answers: dict[int, Command] = {}
        self.requests: list[Command] = []
        self.opaque = 0
        self.connection = world.network.connect(self, address)

    def connection_opened(self, connection: SimulatedConnection) -> None:
        assert connection is self.connection
        self.opened_ms.append(self.world.now_ms())

    def connection_closed(self, connection: SimulatedConnection) -> None:
        assert connection is self.connection
        self.closed_ms.append(self.world.now_ms())
        if self.again_ms:
            self.call_later(self.again_ms, self.connect)

    def connect(self) -> None:
        self.connection = self.world.network.connect(self, self.address)

    def command_received(self, connection: SimulatedConnection, command: Command) -> None:
        assert connection is self.connection
        if command.is_response:
            self.answers[command.opaque] = command
        else:
            self.requests.append(command)

    # -- requests -----------------------------------------------------------------------------------------------------

    def send_request(self, code: int, fields: CommandFields | None = None, body: bytes = b"") -> int:
        self.opaque += 1
        self.connection.send(Command(code, {} if fields is None else fields, body, opaque=self.opaque))
        return self.opaque

    def ask(self, code: int, fields: CommandFields | None = None, body: bytes = b"") -> Command:
        self.send_request(code, fields, body)
        return self.answer()

    def answer(self, within_ms: int = 2_000) -> Command:
        """Wait for the response to the last request."""
        end_ms = self.world.now_ms() + within_ms
        while self.opaque not in self.answers and self.world.now_ms() < end_ms:
            self.world.run(self.world.now_ms() + 1)
        return self.answers[self.opaque]

    def shout(self) -> None:
        self.send_request(34, body=b"x" * 50)

    def send(self, uid: str, queue_id: int = 0) -> int:
        return self.send_request(RequestCode.SEND_MESSAGE_V2, message(queue_id=queue_id), uid.encode())

    def send_heartbeat(self, held: Mapping[int, int] | None = None) -> None:
        consumer = ConsumerHeartbeat(
            group=GROUP,
            kind=ConsumeType.PUSH,
            model=MessageModel.CLUSTERING,
            start_from=ConsumeFromWhere.LAST_OFFSET,
            subscriptions=(SubscriptionBody(topic="orders", expression="*", version=1, kind="TAG"),),
        )
        claims = None if held is None else {"orders": tuple(HeldQueueEpoch(*each) for each in held.items())}
        word = HeartbeatExtension(
            groups={GROUP: HeartbeatGroupExtension(strategy="sticky", held=claims)}, instance=self.name
        )
        body = HeartbeatBody(client_id=self.name, consumers=(consumer,), producers=(), steelyard=word)
        self.send_request(RequestCode.HEART_BEAT, body=encode_body(body))

    def heartbeat(self) -> Command:
        self.send_heartbeat()
        return self.answer()

    def leave(self) -> Command:
        return self.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": self.name, "consumerGroup": GROUP})

    def send_lock(
        self, broker: str = "broker-a", queues: Sequence[int] = range(4), code: int = RequestCode.LOCK_BATCH_MQ
    ) -> None:
        refs = tuple(QueueRef(broker_name=broker, queue_id=queue_id, topic="orders") for queue_id in queues)
        request = LockRequest(client_id=self.name, group=f"{GROUP}%LEASE", queues=refs, steelyard=LockExtension())
        self.send_request(code, body=encode_body(request))

    def lock(self, broker: str, queues: Sequence[int], *, code: int = RequestCode.LOCK_BATCH_MQ) -> Command:
        self.send_lock(broker, queues, code)
        return self.answer()

    def commit(self, queue_id: int, offset: int, epoch: int | None = None) -> Command:
        header = CommitOffset(
            consumer_group=GROUP, topic="orders", queue_id=queue_id, commit_offset=offset, lock_epoch=epoch
        )
        return self.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)
