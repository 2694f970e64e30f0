"""Pull requests for tests: topics with messages, pulls as Java's clients send them, heartbeats."""

from collections.abc import Iterable

from msgspec import structs

from steelyard.broker.held_pulls import HeldPulls
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.heartbeat import ConsumerHeartbeat, HeartbeatBody, MessageModel, SubscriptionBody
from steelyard.wire.bodies.topics import TopicConfig
from steelyard.wire.codes import HeaderType, RequestCode
from steelyard.wire.command import Command, Peer
from steelyard.wire.headers.pull import PullMessage, PullMessageResponse
from steelyard.wire.record import decode_records
from tests.broker.broker_harness import BrokerHarness

WAITS = 6
"""Flags of a pull that may be held and brings its filter."""


def make_topic(harness: BrokerHarness, name: str = "orders", queues: int = 1, permission: int = 6) -> None:
    """Make a topic, or change its queues and permission."""
    settings = TopicConfig(
        name=name, read_queues=queues, write_queues=queues, permission=permission, filter_type="SINGLE_TAG"
    )
    harness.state.topics.put(settings, harness.now_ms)


def store_messages(
    harness: BrokerHarness,
    messages: Iterable[bytes],
    topic: str = "orders",
    queue_id: int = 0,
    *,
    tag: str | None = None,
    properties: bytes = b"",
    flush: bool = True,
) -> None:
    """Store messages as a send does, without its checks."""
    for body in messages:
        tags = b"TAGS\x01%b\x02" % tag.encode() if tag else b""
        harness.state.store.append(
            topic.encode(),
            queue_id,
            body,
            tags + properties,
            born_ms=harness.now_ms,
            born_host=harness.peer.born_host,
            stored_ms=harness.now_ms,
        )
        harness.state.held_pulls.notify_arrival(topic.encode(), queue_id)
    if flush:
        harness.flush()


def pull_header(
    offset: int = 0,
    *,
    topic: str = "orders",
    queue_id: int = 0,
    group: str = "billing",
    most: int = 32,
    flags: int = 4,
    commit: int = 0,
    wait_ms: int = 15_000,
    wanted: str | None = "*",
    kind: str | None = "TAG",
    version: int = 0,
    most_bytes: int | None = None,
) -> PullMessage:
    """Make the header of a pull."""
    return PullMessage(group, topic, queue_id, offset, most, flags, commit, wait_ms, version, wanted, kind, most_bytes)


def pull(
    harness: BrokerHarness,
    header: PullMessage,
    *,
    peer: Peer | None = None,
    code: int = RequestCode.PULL_MESSAGE,
    header_type: HeaderType = HeaderType.JSON,
) -> Command:
    """Pull and return the response, which must come at once."""
    return harness.request(code, header, peer=peer, header_type=header_type)


def start_pull(harness: BrokerHarness, header: PullMessage, *, peer: Peer | None = None) -> int:
    """Send a pull that may be held; return its opaque."""
    flags = header.sys_flag | 2
    return harness.send(RequestCode.PULL_MESSAGE, structs.replace(header, sys_flag=flags), peer=peer)


def pull_fields(answer: Command) -> PullMessageResponse:
    """Return the fields of a pull's response."""
    return answer.header(PullMessageResponse)


def bodies(answer: Command) -> list[bytes]:
    """Return the bodies of the messages in a response."""
    return [record.body for record in decode_records(answer.body, check_crc=True)]


def held_pulls(harness: BrokerHarness) -> HeldPulls:
    """Return the held pulls."""
    return harness.state.held_pulls


def send_heartbeat(
    harness: BrokerHarness,
    client_id: str,
    peer: Peer,
    *,
    group: str = "billing",
    subscriptions: Iterable[SubscriptionBody] = (SubscriptionBody(topic="orders", expression="*"),),
    model: MessageModel = MessageModel.CLUSTERING,
) -> None:
    """Send a heartbeat of one member."""
    consumer = ConsumerHeartbeat(group=group, model=model, subscriptions=tuple(subscriptions))
    body = encode_body(HeartbeatBody(client_id=client_id, consumers=(consumer,)))
    answer = harness.request(RequestCode.HEART_BEAT, body=body, peer=peer)
    assert answer.code == 0, answer.remark
