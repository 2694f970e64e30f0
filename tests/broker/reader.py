"""Someone who reads at a desk: topics with messages in them, pulls as Java's clients make them, heartbeats."""

from collections.abc import Iterable

from msgspec import structs
from tests.broker.desk import Desk

from steelyard.broker.parking import Parking
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.heartbeat import ConsumerBeat, Heartbeat, MessageModel, SubscriptionBody
from steelyard.wire.bodies.topics import TopicSettings
from steelyard.wire.codes import HeaderType, RequestCode
from steelyard.wire.command import Command
from steelyard.wire.headers.pull import Pull, PullAnswer
from steelyard.wire.peers import Peer
from steelyard.wire.record import read_records

__all__ = [
    "WAITS",
    "beat",
    "bodies",
    "make_topic",
    "parking",
    "place",
    "pull",
    "pull_header",
    "put",
    "start_pull",
]

WAITS = 6
"""Flags of a pull that may be held and brings its filter."""


def make_topic(desk: Desk, name: str = "orders", queues: int = 1, permission: int = 6) -> None:
    """Make a topic, or change its queues and permission."""
    settings = TopicSettings(
        name=name, read_queues=queues, write_queues=queues, permission=permission, filter_type="SINGLE_TAG"
    )
    desk.state.topics.put(settings, desk.now_ms)


def put(
    desk: Desk,
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
        desk.state.store.append(
            topic.encode(),
            queue_id,
            body,
            tags + properties,
            born_ms=desk.now_ms,
            born_host=desk.peer.born_host,
            stored_ms=desk.now_ms,
        )
        desk.state.parking.arrived(topic.encode(), queue_id)
    if flush:
        desk.flush()


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
) -> Pull:
    """Make the header of a pull."""
    return Pull(group, topic, queue_id, offset, most, flags, commit, wait_ms, version, wanted, kind, most_bytes)


def pull(
    desk: Desk,
    header: Pull,
    *,
    peer: Peer | None = None,
    code: int = RequestCode.PULL_MESSAGE,
    header_type: HeaderType = HeaderType.JSON,
) -> Command:
    """Pull and return the answer, which must come at once."""
    return desk.ask(code, header, peer=peer, header_type=header_type)


def start_pull(desk: Desk, header: Pull, *, peer: Peer | None = None) -> int:
    """Pull with no answer wanted yet; return the number to look for it by. The pull may wait."""
    flags = header.sys_flag | 2
    return desk.say(RequestCode.PULL_MESSAGE, structs.replace(header, sys_flag=flags), peer=peer)


def place(answer: Command) -> PullAnswer:
    """Return the fields of a pull's answer."""
    return answer.header(PullAnswer)


def bodies(answer: Command) -> list[bytes]:
    """Return the bodies of the messages that came."""
    return [record.body for record in read_records(answer.body, check_crc=True)]


def parking(desk: Desk) -> Parking:
    """Return the pulls that wait."""
    return desk.state.parking


def beat(
    desk: Desk,
    client_id: str,
    peer: Peer,
    *,
    group: str = "billing",
    subscriptions: Iterable[SubscriptionBody] = (SubscriptionBody(topic="orders", expression="*"),),
    model: MessageModel = MessageModel.CLUSTERING,
) -> None:
    """Send a heartbeat of one member."""
    told = ConsumerBeat(group=group, model=model, subscriptions=tuple(subscriptions))
    body = encode_body(Heartbeat(client_id=client_id, consumers=(told,)))
    answer = desk.ask(RequestCode.HEART_BEAT, body=body, peer=peer)
    assert answer.code == 0, answer.remark
