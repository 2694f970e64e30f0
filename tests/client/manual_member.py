"""A member of a group made by hand: it registers, locks and answers for itself, and reads nothing.

Like one of ours, or like Java's: then nothing of it is in our words.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from msgspec import structs

from steelyard.balance.group.claimed_queues import ClaimedQueues
from steelyard.client.config import ClientConfig
from steelyard.client.session import Session
from steelyard.model import Queue, Subscription
from steelyard.protocol.server_requests import running_state
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerHeartbeat,
    ConsumeType,
    HeartbeatBody,
    HeartbeatExtension,
    HeartbeatGroupExtension,
    MessageModel,
    SubscriptionBody,
)
from steelyard.wire.bodies.members import ConsumerRunningState, ProcessQueueState
from steelyard.wire.bodies.queue_assignment import LockExtension, LockRequest, LockResponse
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command, response_to
from steelyard.wire.headers.group import UnregisterClient
from steelyard.wire.json_body import ByQueue, QueueRef

_STARTED_MS = 1_700_000_000_000


@dataclass
class ManualMember:
    """One member. Use it as a context."""

    namesrv: str
    group: str
    topics: tuple[str, ...]
    id: str
    ours: bool = True
    strategy: str = "STICKY"
    held: list[Queue] = field(default_factory=list)
    consumed_ms: int = 0

    async def __aenter__(self) -> Self:
        self.session = Session(ClientConfig(self.namesrv), client_id=self.id)
        await self.session.start()
        self.session.request_handlers[RequestCode.GET_CONSUMER_RUNNING_INFO] = lambda _, request: response_to(
            request, body=encode_body(self._state())
        )
        for topic in self.topics:
            await self.session.routes.find(topic)
        for broker in self.session.broker_connections():
            await self._ask(broker, RequestCode.HEART_BEAT, encode_body(self._beat()))
        return self

    async def __aexit__(self, *_: object) -> None:
        unregistration = Command(RequestCode.UNREGISTER_CLIENT, UnregisterClient(self.id, consumer_group=self.group))
        for broker in self.session.broker_connections():
            await self.session.request_ok(broker, unregistration)
        await self.session.close()

    async def acquire(self, queues: Iterable[Queue]) -> None:
        """Hold queues: one of ours locks them, another just says so."""
        wanted = list(queues)
        if self.ours:
            for queue in wanted:
                await self.lock(queue)
        self.held += wanted

    async def lock(self, queue: Queue) -> int:
        """Lock a queue, or renew its lock, and return its epoch."""
        ref = QueueRef.of(queue)
        body = encode_body(LockRequest(client_id=self.id, group=self.group, queues=(ref,), steelyard=LockExtension()))
        answer = await self._ask(queue.broker, RequestCode.LOCK_BATCH_MQ, body)
        word = decode_body(LockResponse, answer.body).steelyard
        assert word is not None
        assert word.epochs
        return word.epochs[0]

    def _state(self) -> ConsumerRunningState:
        properties = {
            "PROP_CONSUMER_START_TIMESTAMP": str(_STARTED_MS),
            "allocateMessageQueueStrategy": self.strategy,
        }
        if self.ours:
            state = running_state(map(Subscription, self.topics), ClaimedQueues(held=tuple(self.held)))
            return structs.replace(state, properties=properties)
        return ConsumerRunningState(
            queues=ByQueue(
                {
                    queue: ProcessQueueState(commit_offset=3, cached_messages=2, consumed_ms=self.consumed_ms)
                    for queue in self.held
                }
            ),
            properties=properties,
            subscriptions=tuple(SubscriptionBody.of(Subscription(topic)) for topic in self.topics),
        )

    def _beat(self) -> HeartbeatBody:
        wanted = tuple(SubscriptionBody.of(Subscription(topic)) for topic in self.topics)
        word = HeartbeatExtension(
            groups={self.group: HeartbeatGroupExtension(strategy=self.strategy)}, instance=self.session.instance
        )
        return HeartbeatBody(
            client_id=self.id,
            consumers=(
                ConsumerHeartbeat(
                    group=self.group,
                    kind=ConsumeType.PUSH,
                    model=MessageModel.CLUSTERING,
                    start_from=ConsumeFromWhere.LAST_OFFSET,
                    subscriptions=wanted,
                ),
            ),
            steelyard=word if self.ours else None,
        )

    async def _ask(self, broker: str, code: int, body: bytes) -> Command:
        command = Command(code, body=body, language="PYTHON" if self.ours else "JAVA")
        return await self.session.request_ok(broker, command)
