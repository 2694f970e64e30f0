"""A consumer as the broker sees one: a client id on a line that beats, locks and leaves. It decides nothing itself."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.broker.desk import Desk

from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.heartbeat import (
    ConsumeKind,
    ConsumerBeat,
    GroupWord,
    Heartbeat,
    HeartbeatWord,
    Held,
    MessageModel,
    ProducerBeat,
    StartFrom,
    SubscriptionBody,
)
from steelyard.wire.bodies.locks import LockAnswer, LockRequest, LockWord
from steelyard.wire.bodies.members import ConsumerConnections, ConsumerIds, GroupView
from steelyard.wire.codes import SERVER_VERSION
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command
from steelyard.wire.headers.common import Group
from steelyard.wire.maps import QueueRef
from steelyard.wire.peers import Peer

__all__ = ["GROUP", "Client", "connections", "ids", "ref", "view", "wants"]

GROUP = "billing"


def wants(topic: str = "orders", expression: str = "*", version: int = 1, kind: str = "TAG") -> SubscriptionBody:
    """Make a subscription."""
    return SubscriptionBody(topic=topic, expression=expression, version=version, kind=kind)


def ref(queue_id: int, topic: str = "orders", broker: str = "broker-0") -> QueueRef:
    """Name a queue."""
    return QueueRef(broker_name=broker, queue_id=queue_id, topic=topic)


class Client:
    """One client of one group. ``instance`` is None for one that is not ours."""

    def __init__(
        self,
        desk: Desk,
        client_id: str,
        *,
        ours: bool = True,
        group: str = GROUP,
        model: MessageModel = MessageModel.CLUSTERING,
        instance: str | None = None,
    ) -> None:
        self.desk, self.id, self.ours, self.group, self.model = desk, client_id, ours, group, model
        self.instance = instance or f"instance of {client_id}"
        self.language = "PYTHON" if ours else "JAVA"
        self.line: Peer = desk.line()
        self.wanted: tuple[SubscriptionBody, ...] = (wants(),)
        self.producers: tuple[str, ...] = ("CLIENT_INNER_PRODUCER",)

    def beat(
        self,
        *subscriptions: SubscriptionBody,
        leaving: bool | None = None,
        held: Mapping[str, Iterable[tuple[int, int]]] | None = None,
        heartbeat_ms: int | None = None,
        avoided: int | None = None,
        line: Peer | None = None,
        **more: Any,
    ) -> Command:
        """Send a heartbeat and return the answer."""
        self.wanted = subscriptions or self.wanted
        consumer = ConsumerBeat(
            group=self.group,
            kind=ConsumeKind.PUSH,
            model=self.model,
            start_from=StartFrom.LAST_OFFSET,
            subscriptions=() if more.get("without_subscriptions") else self.wanted,
        )
        about = GroupWord(
            strategy="sticky",
            held=None if held is None else {topic: tuple(Held(*each) for each in rows) for topic, rows in held.items()},
            avoided=avoided,
        )
        word = HeartbeatWord(
            groups={self.group: about}, heartbeat_ms=heartbeat_ms, instance=self.instance, leaving=leaving
        )
        body = Heartbeat(
            client_id=self.id,
            consumers=(consumer,),
            producers=tuple(ProducerBeat(group=group) for group in self.producers),
            steelyard=word if self.ours else None,
            **more,
        )
        return self.ask(Code.HEART_BEAT, body=encode_body(body), line=line)

    def ask(
        self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"", *, line: Peer | None = None
    ) -> Command:
        """Ask the broker anything on this client's line."""
        return self.desk.ask(code, fields or {}, body, peer=line or self.line, language=self.language)

    def close(self) -> None:
        """Let the line break."""
        self.desk.hang_up(self.line)

    def reconnect(self, **more: Any) -> Command:
        """Get a new line and say so at once."""
        self.line = self.desk.line()
        return self.beat(**more)

    def leave(self, *, line: Peer | None = None) -> Command:
        """Say goodbye."""
        fields = {"clientID": self.id, "consumerGroup": self.group}
        return self.ask(Code.UNREGISTER_CLIENT, fields, line=line)

    def lock(self, *queues: int, lease: bool = True, **more: Any) -> dict[int, int]:
        """Lock queues of the topic; return those granted with their epochs (0 for one that is not ours)."""
        answer = self.locking(Code.LOCK_BATCH_MQ, queues, lease=lease, **more)
        assert answer.code == 0, answer.remark
        granted = decode_body(LockAnswer, answer.body)
        epochs = (granted.steelyard.epochs or ()) if granted.steelyard is not None else (0,) * len(granted.granted)
        return {each.queue_id: epoch for each, epoch in zip(granted.granted, epochs, strict=True)}

    def renew(self, held: Mapping[int, int], **more: Any) -> dict[int, int]:
        """Prove locks again."""
        return self.lock(*held, renew=True, epochs=tuple(held.values()), **more)

    def unlock(self, *queues: int, lease: bool = True, **more: Any) -> Command:
        """Give queues up."""
        return self.locking(Code.UNLOCK_BATCH_MQ, queues, lease=lease, **more)

    def locking(
        self,
        code: int,
        queues: Sequence[int],
        *,
        lease: bool = True,
        renew: bool | None = None,
        epochs: tuple[int, ...] | None = None,
        line: Peer | None = None,
        owner: str | None = None,
        topic: str = "orders",
    ) -> Command:
        """Ask for a lock or for an unlock, whatever the answer."""
        body = LockRequest(
            client_id=owner or self.id,
            group=f"{self.group}%LEASE" if lease and self.ours else self.group,
            queues=tuple(ref(queue_id, topic) for queue_id in queues),
            only_this_broker=False,
            steelyard=LockWord(renew=renew, epochs=epochs) if self.ours else None,
        )
        return self.ask(code, body=encode_body(body), line=line)

    def notices(self, *, line: Peer | None = None) -> int:
        """Take the notices off the line and count them."""
        found = [each for each in self.desk.sent_to(line or self.line) if each.code == Code.NOTIFY_CONSUMER_IDS_CHANGED]
        assert all(each.is_oneway and each.version == SERVER_VERSION for each in found)
        assert all(each.header(Group).consumer_group == self.group for each in found)
        return len(found)


def ids(desk: Desk, group: str = GROUP) -> list[str]:
    """Ask who is in a group; nobody is an empty list here."""
    answer = desk.ask(Code.GET_CONSUMER_LIST_BY_GROUP, Group(consumer_group=group))
    return list(decode_body(ConsumerIds, answer.body).ids) if answer.code == 0 else []


def view(desk: Desk, group: str = GROUP) -> GroupView:
    """Ask for what our broker tells our members of their group."""
    answer = desk.ask(Code.GET_CONSUMER_LIST_BY_GROUP, Group(consumer_group=group))
    told = decode_body(ConsumerIds, answer.body).steelyard
    assert told is not None
    return told


def connections(desk: Desk, group: str = GROUP) -> ConsumerConnections:
    """Ask for the lines of a group."""
    answer = desk.ask(Code.GET_CONSUMER_CONNECTION_LIST, Group(consumer_group=group))
    assert answer.code == 0, answer.remark
    return decode_body(ConsumerConnections, answer.body)
