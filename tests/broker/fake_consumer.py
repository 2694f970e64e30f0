"""A fake consumer: a client id on a connection that sends heartbeats and locks queues. It decides nothing itself."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerHeartbeat,
    ConsumeType,
    HeartbeatBody,
    HeartbeatExtension,
    HeartbeatGroupExtension,
    HeldQueueEpoch,
    MessageModel,
    ProducerHeartbeat,
    SubscriptionBody,
)
from steelyard.wire.bodies.members import ConsumerConnections, ConsumerIdList, GroupExtension
from steelyard.wire.bodies.queue_assignment import LockExtension, LockRequest, LockResponse
from steelyard.wire.codes import SERVER_VERSION
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command, Peer
from steelyard.wire.headers.common import GroupRequest
from steelyard.wire.json_body import QueueRef
from tests.broker.broker_harness import BrokerHarness

GROUP = "billing"


def subscription_to(
    topic: str = "orders", expression: str = "*", version: int = 1, kind: str = "TAG"
) -> SubscriptionBody:
    """Make a subscription."""
    return SubscriptionBody(topic=topic, expression=expression, version=version, kind=kind)


def ref(queue_id: int, topic: str = "orders", broker: str = "broker-0") -> QueueRef:
    """Name a queue."""
    return QueueRef(broker_name=broker, queue_id=queue_id, topic=topic)


class FakeConsumer:
    """One client of one group. ``instance`` is None for one that is not ours."""

    def __init__(
        self,
        harness: BrokerHarness,
        client_id: str,
        *,
        ours: bool = True,
        group: str = GROUP,
        model: MessageModel = MessageModel.CLUSTERING,
        instance: str | None = None,
    ) -> None:
        self.harness, self.id, self.ours, self.group, self.model = harness, client_id, ours, group, model
        self.instance = instance or f"instance of {client_id}"
        self.language = "PYTHON" if ours else "JAVA"
        self.connection: Peer = harness.connect()
        self.subscriptions: tuple[SubscriptionBody, ...] = (subscription_to(),)
        self.producers: tuple[str, ...] = ("CLIENT_INNER_PRODUCER",)

    def heartbeat(
        self,
        *subscriptions: SubscriptionBody,
        leaving: bool | None = None,
        held: Mapping[str, Iterable[tuple[int, int]]] | None = None,
        heartbeat_ms: int | None = None,
        avoided: int | None = None,
        connection: Peer | None = None,
        **more: Any,
    ) -> Command:
        """Send a heartbeat and return the response."""
        self.subscriptions = subscriptions or self.subscriptions
        consumer = ConsumerHeartbeat(
            group=self.group,
            kind=ConsumeType.PUSH,
            model=self.model,
            start_from=ConsumeFromWhere.LAST_OFFSET,
            subscriptions=() if more.get("without_subscriptions") else self.subscriptions,
        )
        group_extension = HeartbeatGroupExtension(
            strategy="sticky",
            held=None
            if held is None
            else {topic: tuple(HeldQueueEpoch(*each) for each in rows) for topic, rows in held.items()},
            avoided=avoided,
        )
        extension = HeartbeatExtension(
            groups={self.group: group_extension}, heartbeat_ms=heartbeat_ms, instance=self.instance, leaving=leaving
        )
        body = HeartbeatBody(
            client_id=self.id,
            consumers=(consumer,),
            producers=tuple(ProducerHeartbeat(group=group) for group in self.producers),
            steelyard=extension if self.ours else None,
            **more,
        )
        return self.request(Code.HEART_BEAT, body=encode_body(body), connection=connection)

    def request(
        self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"", *, connection: Peer | None = None
    ) -> Command:
        """Send a request on this client's connection."""
        return self.harness.request(
            code, fields or {}, body, peer=connection or self.connection, language=self.language
        )

    def close(self) -> None:
        """Close the connection."""
        self.harness.disconnect(self.connection)

    def reconnect(self, **more: Any) -> Command:
        """Open a new connection and send a heartbeat on it."""
        self.connection = self.harness.connect()
        return self.heartbeat(**more)

    def unregister(self, *, connection: Peer | None = None) -> Command:
        """Unregister."""
        fields = {"clientID": self.id, "consumerGroup": self.group}
        return self.request(Code.UNREGISTER_CLIENT, fields, connection=connection)

    def lock(self, *queues: int, lease: bool = True, **more: Any) -> dict[int, int]:
        """Lock queues of the topic; return those granted with their epochs (0 for one that is not ours)."""
        answer = self.request_locks(Code.LOCK_BATCH_MQ, queues, lease=lease, **more)
        assert answer.code == 0, answer.remark
        granted = decode_body(LockResponse, answer.body)
        epochs = (granted.steelyard.epochs or ()) if granted.steelyard is not None else (0,) * len(granted.granted)
        return {each.queue_id: epoch for each, epoch in zip(granted.granted, epochs, strict=True)}

    def renew(self, held: Mapping[int, int], **more: Any) -> dict[int, int]:
        """Renew locks."""
        return self.lock(*held, renew=True, epochs=tuple(held.values()), **more)

    def unlock(self, *queues: int, lease: bool = True, **more: Any) -> Command:
        """Release queues."""
        return self.request_locks(Code.UNLOCK_BATCH_MQ, queues, lease=lease, **more)

    def request_locks(
        self,
        code: int,
        queues: Sequence[int],
        *,
        lease: bool = True,
        renew: bool | None = None,
        epochs: tuple[int, ...] | None = None,
        connection: Peer | None = None,
        owner: str | None = None,
        topic: str = "orders",
    ) -> Command:
        """Send a lock or unlock request, whatever the response."""
        body = LockRequest(
            client_id=owner or self.id,
            group=f"{self.group}%LEASE" if lease and self.ours else self.group,
            queues=tuple(ref(queue_id, topic) for queue_id in queues),
            only_this_broker=False,
            steelyard=LockExtension(renew=renew, epochs=epochs) if self.ours else None,
        )
        return self.request(code, body=encode_body(body), connection=connection)

    def pop_notifications(self, *, connection: Peer | None = None) -> int:
        """Remove the notifications of the connection and count them."""
        found = [
            each
            for each in self.harness.sent_to(connection or self.connection)
            if each.code == Code.NOTIFY_CONSUMER_IDS_CHANGED
        ]
        assert all(each.is_oneway and each.version == SERVER_VERSION for each in found)
        assert all(each.header(GroupRequest).consumer_group == self.group for each in found)
        return len(found)


def ids(harness: BrokerHarness, group: str = GROUP) -> list[str]:
    """Return the ids of a group; an empty list if it has no members."""
    answer = harness.request(Code.GET_CONSUMER_LIST_BY_GROUP, GroupRequest(consumer_group=group))
    return list(decode_body(ConsumerIdList, answer.body).ids) if answer.code == 0 else []


def group_view(harness: BrokerHarness, group: str = GROUP) -> GroupExtension:
    """Return what our broker reports to our members of their group."""
    answer = harness.request(Code.GET_CONSUMER_LIST_BY_GROUP, GroupRequest(consumer_group=group))
    extension = decode_body(ConsumerIdList, answer.body).steelyard
    assert extension is not None
    return extension


def found_in(view: GroupExtension | None) -> list[str]:
    """Return what our broker finds wrong in a group, in sentences."""
    return [str(each.finding) for each in (view.findings or () if view is not None else ())]


def connections(harness: BrokerHarness, group: str = GROUP) -> ConsumerConnections:
    """Return the connections of a group."""
    answer = harness.request(Code.GET_CONSUMER_CONNECTION_LIST, GroupRequest(consumer_group=group))
    assert answer.code == 0, answer.remark
    return decode_body(ConsumerConnections, answer.body)
