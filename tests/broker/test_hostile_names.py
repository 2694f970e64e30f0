"""Five hundred names that nobody should take, in every request that carries one: refused, and without a trace."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from steelyard.broker.broker import HANDLERS, BrokerCore
from steelyard.broker.options import BrokerOptions
from steelyard.broker.validation import check_group, check_topic
from steelyard.errors import InvalidParameter
from steelyard.serve.disks import RealDisk
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.groups import SubscriptionGroupConfig
from steelyard.wire.bodies.heartbeat import (
    ConsumerHeartbeat,
    HeartbeatBody,
    MessageModel,
    ProducerHeartbeat,
    SubscriptionBody,
)
from steelyard.wire.bodies.queue_assignment import AssignmentRequest, LockRequest
from steelyard.wire.bodies.topics import TopicConfig, TopicConfigList
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command, Peer, Reply
from steelyard.wire.frames import FrameDecoder, encode_frame
from steelyard.wire.headers.table import HEADER_OF_REQUEST
from steelyard.wire.json_body import QueueRef
from tests.fuzzing import Dice

_NOW = 1_700_000_000_000
_NAMES = ("topic", "group", "consumer_group", "group_name", "src_group", "dest_group", "producer_group")
_PEER = Peer.at("127.0.0.1", 50_000, connection_id=1)


def hostile_names() -> list[str]:
    """Return names that try to leave a directory, a record, a line of a log, a JSON text or a table."""
    random = Dice(500)
    plain = """
        .. . ../../etc/passwd /etc/passwd a/../../b a/b ~root $HOME `id` $(id) a;b {} <b> %s.%n %00/ a%2f.
        con. lpt1: %DLQ%../x a@b a:b a=b a,b * ? # & ! ( ) [ ] ^ + ~ < >
    """.split()
    plain += [
        "..\\..\\windows",
        "C:\\x",
        "a\\b",
        "\xe9",
        "\u65e5\u672c",
        "\u202e",
        "\U0001f600",
        "\ufeff",
        '"',
        "'",
        '{"a":1}',
        "a b",
        " ",
        "\t",
        "a\nb",
        "a\r\nb",
        "\x00",
        "a\x00b",
        "\x01",
        "\x02",
        "a\x01b\x02",
    ]
    plain += ["x" * 10_000, "." * 300, "/" * 300, "a" * 256, "%RETRY%" + "a" * 300]
    letters = "ab/\\.\0\n\x01\x02\"'{}<>:;,$`~ é日😀@="
    while len(plain) < 500:
        name = "".join(random.choice(letters) for _ in range(random.randrange(1, 40)))
        if name not in plain and (set(name) - set("ab")):
            plain.append(name)
    return plain


HOSTILE = hostile_names()


def headers_with(name: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield each request that carries a name in its header, with this name in the place of one of them."""
    for code, kind in HEADER_OF_REQUEST.items():
        if code not in HANDLERS:
            continue
        fields = msgspec.structs.fields(kind)
        for hostile in fields:
            if hostile.name not in _NAMES:
                continue
            if hostile.name == "producer_group" and code != Code.GET_PRODUCER_CONNECTION_LIST:
                continue
            texts = {
                field.encode_name: "4" if field.name not in _NAMES else "plain" for field in fields if field.required
            }
            yield code, {**texts, hostile.encode_name: name}


def bodies_with(name: str) -> Iterator[tuple[int, bytes]]:
    """Yield each request that carries a name in its body."""
    wanted = SubscriptionBody(topic=name)
    model = MessageModel.CLUSTERING
    yield Code.HEART_BEAT, encode_body(HeartbeatBody(client_id="c", producers=(ProducerHeartbeat(group=name),)))
    yield (
        Code.HEART_BEAT,
        encode_body(HeartbeatBody(client_id="c", consumers=(ConsumerHeartbeat(group=name, model=model),))),
    )
    yield (
        Code.HEART_BEAT,
        encode_body(
            HeartbeatBody(
                client_id="c", consumers=(ConsumerHeartbeat(group="g", model=model, subscriptions=(wanted,)),)
            )
        ),
    )
    queue = QueueRef(broker_name="broker-0", queue_id=0, topic=name)
    for code in (Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ):
        yield code, encode_body(LockRequest(client_id="c", group="g", queues=(queue,)))
    yield Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, encode_body(SubscriptionGroupConfig(name=name))
    yield Code.UPDATE_AND_CREATE_TOPIC_LIST, encode_body(TopicConfigList(topics=(TopicConfig(name=name),)))
    yield Code.QUERY_ASSIGNMENT, encode_body(AssignmentRequest(client_id="c", group=name, topic="t"))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerCore]:
    """Open a broker with files of its own, in a folder of a folder."""
    home = tmp_path / "home" / "data"
    home.mkdir(parents=True)
    made = BrokerCore.open(BrokerOptions(), RealDisk(home), now_ms=_NOW)
    yield made
    made.close(_NOW)


def ask(broker: BrokerCore, command: Command) -> Command | None:
    """Ask over the wire, and return the answer if one comes."""
    try:
        (read,) = FrameDecoder().feed(encode_frame(command))
    except UnicodeError:
        return None
    replies = [*broker.handle(read, _PEER, _NOW), *broker.flush(_NOW)]
    answers = [reply.command for reply in replies if isinstance(reply, Reply) and reply.command.is_response]
    return answers[0] if answers else None


def test_there_are_five_hundred_of_them_and_none_is_a_name() -> None:
    assert len(set(HOSTILE)) == 500
    for name in HOSTILE:
        for check in (check_topic, check_group):
            with pytest.raises(InvalidParameter):
                check(name)


def test_hostile_names_in_headers_are_refused_and_leave_no_trace(broker: BrokerCore, tmp_path: Path) -> None:
    before = _places(broker, tmp_path)
    accepted = set()
    for name in HOSTILE:
        for code, texts in headers_with(name):
            answer = ask(broker, Command(code, texts, b"body", opaque=1))
            if answer is None or answer.code == 0:
                accepted.add((Code(code).name, name[:40]))
    assert not accepted
    topics, groups, files = _places(broker, tmp_path)
    assert topics == before[0]
    assert groups - before[1] <= {"plain"}
    assert files == before[2]


def test_hostile_names_in_bodies_leave_no_trace(broker: BrokerCore, tmp_path: Path) -> None:
    before = _places(broker, tmp_path)
    for name in HOSTILE:
        for code, body in bodies_with(name):
            ask(broker, Command(code, {}, body, opaque=1))
    topics, groups, files = _places(broker, tmp_path)
    assert topics - before[0] <= {"%RETRY%g"}
    assert groups - before[1] <= {"g"}
    assert files == before[2]


def _places(broker: BrokerCore, home: Path) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Return the names of all topics, groups and files."""
    return (
        frozenset(topic.name for topic in broker.state.topics),
        frozenset(group.name for group in broker.state.groups),
        frozenset(str(path.relative_to(home)) for path in home.rglob("*")),
    )
