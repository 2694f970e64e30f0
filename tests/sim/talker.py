"""A process that says what it is told to and remembers what it hears: for tests of the world itself."""

from collections.abc import Mapping, Sequence

from tests.broker.desk import message

from steelyard.sim.line import Line
from steelyard.sim.process import Process
from steelyard.sim.world import World
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.heartbeat import (
    ConsumeKind,
    ConsumerBeat,
    GroupWord,
    Heartbeat,
    HeartbeatWord,
    Held,
    MessageModel,
    StartFrom,
    SubscriptionBody,
)
from steelyard.wire.bodies.locks import LockRequest, LockWord
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command, Fields, answer_to
from steelyard.wire.headers.group import CommitOffset
from steelyard.wire.maps import QueueRef

__all__ = ["GROUP", "Echo", "Talker"]

GROUP = "billing"


class Echo(Process):
    """Answers everything at once."""

    def __init__(self, world: World, name: str = "echo", address: str = "10.0.0.1:9") -> None:
        super().__init__(world, name, address.partition(":")[0])
        self.address = address
        self.lost = 0
        self.heard_opaques: list[int] = []
        world.network.listen(self, address)

    def heard(self, line: Line, command: Command) -> None:
        self.heard_opaques.append(command.opaque)
        line.say(answer_to(command))

    def closed(self, line: Line) -> None:
        del line
        self.lost += 1


class Talker(Process):
    """Has a line to one address, and asks for another one when it is lost if it was told so."""

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
        self.line = world.network.connect(self, address)

    def opened(self, line: Line) -> None:
        assert line is self.line
        self.opened_ms.append(self.world.now_ms())

    def closed(self, line: Line) -> None:
        assert line is self.line
        self.closed_ms.append(self.world.now_ms())
        if self.again_ms:
            self.after(self.again_ms, self.connect)

    def connect(self) -> None:
        self.line = self.world.network.connect(self, self.address)

    def heard(self, line: Line, command: Command) -> None:
        assert line is self.line
        if command.is_answer:
            self.answers[command.opaque] = command
        else:
            self.requests.append(command)

    # -- what it says -------------------------------------------------------------------------------------------------

    def say(self, code: int, fields: Fields | None = None, body: bytes = b"") -> int:
        self.opaque += 1
        self.line.say(Command(code, {} if fields is None else fields, body, opaque=self.opaque))
        return self.opaque

    def ask(self, code: int, fields: Fields | None = None, body: bytes = b"") -> Command:
        self.say(code, fields, body)
        return self.answer()

    def answer(self, within_ms: int = 2_000) -> Command:
        """Wait for the answer to what was said last."""
        end_ms = self.world.now_ms() + within_ms
        while self.opaque not in self.answers and self.world.now_ms() < end_ms:
            self.world.run(self.world.now_ms() + 1)
        return self.answers[self.opaque]

    def shout(self) -> None:
        self.say(34, body=b"x" * 50)

    def send(self, uid: str, queue_id: int = 0) -> int:
        return self.say(RequestCode.SEND_MESSAGE_V2, message(queue_id=queue_id), uid.encode())

    def say_beat(self, held: Mapping[int, int] | None = None) -> None:
        consumer = ConsumerBeat(
            group=GROUP,
            kind=ConsumeKind.PUSH,
            model=MessageModel.CLUSTERING,
            start_from=StartFrom.LAST_OFFSET,
            subscriptions=(SubscriptionBody(topic="orders", expression="*", version=1, kind="TAG"),),
        )
        claims = None if held is None else {"orders": tuple(Held(*each) for each in held.items())}
        word = HeartbeatWord(groups={GROUP: GroupWord(strategy="sticky", held=claims)}, instance=self.name)
        body = Heartbeat(client_id=self.name, consumers=(consumer,), producers=(), steelyard=word)
        self.say(RequestCode.HEART_BEAT, body=encode_body(body))

    def beat(self) -> Command:
        self.say_beat()
        return self.answer()

    def leave(self) -> Command:
        return self.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": self.name, "consumerGroup": GROUP})

    def say_lock(
        self, broker: str = "broker-a", queues: Sequence[int] = range(4), code: int = RequestCode.LOCK_BATCH_MQ
    ) -> None:
        refs = tuple(QueueRef(broker_name=broker, queue_id=queue_id, topic="orders") for queue_id in queues)
        request = LockRequest(client_id=self.name, group=f"{GROUP}%LEASE", queues=refs, steelyard=LockWord())
        self.say(code, body=encode_body(request))

    def lock(self, broker: str, queues: Sequence[int], *, code: int = RequestCode.LOCK_BATCH_MQ) -> Command:
        self.say_lock(broker, queues, code)
        return self.answer()

    def commit(self, queue_id: int, offset: int, epoch: int | None = None) -> Command:
        header = CommitOffset(
            consumer_group=GROUP, topic="orders", queue_id=queue_id, commit_offset=offset, lock_epoch=epoch
        )
        return self.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)
