"""A member of a group made by hand: it registers, locks and answers for itself, and reads nothing.

Like one of ours, or like Java's: then nothing of it is in our words.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from msgspec import structs

from steelyard.balance.holdings import Holdings
from steelyard.client.connect import Connect
from steelyard.client.session import Session
from steelyard.dialect.requests import running_state
from steelyard.model import Queue, Subscription
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.heartbeat import (
    ConsumeKind,
    ConsumerBeat,
    GroupWord,
    Heartbeat,
    HeartbeatWord,
    MessageModel,
    StartFrom,
    SubscriptionBody,
)
from steelyard.wire.bodies.locks import LockAnswer, LockRequest, LockWord
from steelyard.wire.bodies.running import QueueState, RunningState
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command, answer_to
from steelyard.wire.headers.group import Unregister
from steelyard.wire.maps import ByQueue, QueueRef

__all__ = ["HandMember"]

_STARTED_MS = 1_700_000_000_000


@dataclass
class HandMember:
    """One member. Use it as a context."""

    namesrv: str
    group: str
    topics: tuple[str, ...]
    id: str
    ours: bool = True
    strategy: str = "STICKY"
    held: list[Queue] = field(default_factory=list)

    async def __aenter__(self) -> Self:
        self.session = Session(Connect(self.namesrv), client_id=self.id)
        await self.session.start()
        self.session.serves[RequestCode.GET_CONSUMER_RUNNING_INFO] = lambda _, request: answer_to(
            request, body=encode_body(self._state())
        )
        for topic in self.topics:
            await self.session.routes.find(topic)
        for broker in self.session.known_brokers():
            await self._ask(broker, RequestCode.HEART_BEAT, encode_body(self._beat()))
        return self

    async def __aexit__(self, *_: object) -> None:
        goodbye = Command(RequestCode.UNREGISTER_CLIENT, Unregister(self.id, consumer_group=self.group))
        for broker in self.session.known_brokers():
            await self.session.ask_well(broker, goodbye)
        await self.session.close()

    async def take(self, queues: Iterable[Queue]) -> None:
        """Hold queues: one of ours locks them, another just says so."""
        wanted = list(queues)
        if self.ours:
            for queue in wanted:
                await self.lock(queue)
        self.held += wanted

    async def lock(self, queue: Queue) -> int:
        """Lock a queue, or renew its lock, and return its epoch."""
        ref = QueueRef.of(queue)
        body = encode_body(LockRequest(client_id=self.id, group=self.group, queues=(ref,), steelyard=LockWord()))
        answer = await self._ask(queue.broker, RequestCode.LOCK_BATCH_MQ, body)
        word = decode_body(LockAnswer, answer.body).steelyard
        assert word is not None
        assert word.epochs
        return word.epochs[0]

    def _state(self) -> RunningState:
        properties = {
            "PROP_CONSUMER_START_TIMESTAMP": str(_STARTED_MS),
            "allocateMessageQueueStrategy": self.strategy,
        }
        if self.ours:
            state = running_state(map(Subscription, self.topics), Holdings(held=tuple(self.held)))
            return structs.replace(state, properties=properties)
        return RunningState(
            queues=ByQueue({queue: QueueState(commit_offset=3, cached_messages=2) for queue in self.held}),
            properties=properties,
            subscriptions=tuple(SubscriptionBody.of(Subscription(topic)) for topic in self.topics),
        )

    def _beat(self) -> Heartbeat:
        wanted = tuple(SubscriptionBody.of(Subscription(topic)) for topic in self.topics)
        word = HeartbeatWord(groups={self.group: GroupWord(strategy=self.strategy)}, instance=self.session.instance)
        return Heartbeat(
            client_id=self.id,
            consumers=(
                ConsumerBeat(
                    group=self.group,
                    kind=ConsumeKind.PUSH,
                    model=MessageModel.CLUSTERING,
                    start_from=StartFrom.LAST_OFFSET,
                    subscriptions=wanted,
                ),
            ),
            steelyard=word if self.ours else None,
        )

    async def _ask(self, broker: str, code: int, body: bytes) -> Command:
        command = Command(code, body=body, language="PYTHON" if self.ours else "JAVA")
        return await self.session.ask_well(broker, command)
