"""A reply finds its request, and a message that is no request cannot be replied to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from steelyard.errors import LimitExceeded, MalformedHeader, MalformedRecord, ReplyFailed
from steelyard.model import Message, Queue, StoredMessage
from steelyard.protocol.request_reply import is_request, read_pushed_reply, reply_request, request_properties
from steelyard.protocol.send import send_request
from steelyard.wire.codes import HeaderType
from steelyard.wire.command import Command
from steelyard.wire.headers.send import PushReplyMessage, SendMessageV2
from steelyard.wire.properties import decode_properties
from steelyard.wire.stored_messages import record_to_message
from steelyard.wire.sysflag import Compression
from tests.broker.broker_harness import START_MS, BrokerHarness
from tests.broker.pull_requests import make_topic
from tests.compressions import INSTALLED
from tests.protocol.frames import RELEASES, recorded, store, travelled

ASKER = "127.0.0.1@asker"


def asked(cluster: str | None = "DefaultCluster") -> StoredMessage:
    """Return a request as a consumer gets it."""
    properties = request_properties(ASKER, "c-1", 3_000) | ({} if cluster is None else {"CLUSTER": cluster})
    return StoredMessage(Queue("prices", "broker-0", 2), 7, b"sku-1", properties | {"UNIQ_KEY": "U0"})


def pushed(command: Command, **changes: object) -> Command:
    """Return a push with other fields than it had."""
    return structs.replace(command, fields=command.texts() | {name: str(text) for name, text in changes.items()})


@pytest.mark.parametrize("release", RELEASES)
def test_a_request_and_its_reply_are_written_as_java_writes_them(release: str) -> None:
    (request,), (theirs,) = (recorded(release, "request-reply", code) for code in (310, 325))
    outgoing = decode_properties((request.header(SendMessageV2).properties or "").encode())
    made = request_properties(outgoing["REPLY_TO_CLIENT"], outgoing["CORRELATION_ID"], int(outgoing["TTL"]))
    assert made.items() <= outgoing.items()
    header = theirs.header(SendMessageV2)
    wanted = decode_properties((header.properties or "").encode())
    ours = reply_request(
        header.producer_group,
        StoredMessage(Queue("LabReq", header.broker or "", 1), 0, b"ping", outgoing | {"CLUSTER": "DefaultCluster"}),
        theirs.body,
        unique_key=wanted["UNIQ_KEY"],
        now_ms=header.born_timestamp,
        opaque=theirs.opaque,
    )
    mine = ours.header(SendMessageV2)
    assert structs.replace(mine, properties="") == structs.replace(header, properties="")
    assert decode_properties((mine.properties or "").encode()) == wanted | {"WAIT": "true"}
    assert (ours.code, ours.flag, ours.body) == (theirs.code, theirs.flag, theirs.body)


@pytest.mark.parametrize("release", RELEASES)
def test_a_real_push_is_read(release: str) -> None:
    (push,) = recorded(release, "request-reply", 326)
    correlation_id, message = read_pushed_reply(push, "broker-a")
    (request,) = recorded(release, "request-reply", 310)
    assert f"CORRELATION_ID\x01{correlation_id}" in request.texts()["i"]
    assert (message.body, message.topic, message.offset) == (b"pong", "DefaultCluster_REPLY_TOPIC", -1)
    assert message.message_id == message.properties["UNIQ_KEY"]
    assert message.store_host == push.texts()["storeHost"]
    assert message.born_ms <= message.stored_ms


@given(st.binary(max_size=300), st.none() | st.integers(0, 300), st.sampled_from(INSTALLED))
def test_a_reply_arrives_as_it_was_given(body: bytes, compress_from: int | None, kind: Compression) -> None:
    harness = BrokerHarness()
    make_topic(harness, "prices", queues=1)
    asker = harness.connect()
    harness.state.producers.record_client(ASKER, asker)
    more = request_properties(ASKER, "c-1", 3_000)
    queue = Queue("prices", "broker-0", 0)
    store(
        harness,
        send_request("shop", Message("prices", b"sku"), queue, unique_key="U", now_ms=START_MS, extra_properties=more),
    )
    request = record_to_message(harness.queue("prices")[0], "broker-0")
    assert is_request(request)
    reply = reply_request(
        "repliers",
        request,
        body * 2,
        unique_key="U1",
        now_ms=START_MS,
        compress_from=compress_from,
        compression=kind,
    )
    assert store(harness, reply).code == 0
    (push,) = harness.sent_to(asker)
    correlation_id, message = read_pushed_reply(push, "broker-0")
    assert (correlation_id, message.body, message.message_id) == ("c-1", body * 2, "U1")


def test_a_message_that_is_no_request_cannot_be_replied_to() -> None:
    plain = StoredMessage(Queue("prices", "a", 0), 7, b"", {"UNIQ_KEY": "U0", "CLUSTER": "c"})
    for message, why in ((plain, "no CORRELATION_ID and no REPLY_TO_CLIENT"), (asked(cluster=None), "no CLUSTER")):
        assert not is_request(message)
        with pytest.raises(ReplyFailed, match=f"message U0 of 'prices' has {why}"):
            reply_request("g", message, b"", unique_key="U1", now_ms=0)


def test_a_reply_goes_to_the_broker_of_the_request() -> None:
    header = reply_request("g", asked(), b"12.50", unique_key="U1", now_ms=0).header(SendMessageV2)
    assert (header.topic, header.broker, header.queue_id) == ("DefaultCluster_REPLY_TOPIC", "broker-0", 0)


@pytest.mark.parametrize("header_type", list(HeaderType))
def test_a_push_that_cannot_be_read_is_refused(header_type: HeaderType) -> None:
    (push,) = recorded("5.5.0", "request-reply", 326)
    push = structs.replace(push, header_type=header_type)
    for changes, error in (
        ({"properties": "a\x01b\x02"}, MalformedHeader),
        ({"storeHost": "nowhere"}, MalformedHeader),
        ({"bornTimestamp": "soon"}, MalformedHeader),
        ({"sysFlag": "1"}, MalformedRecord),
        ({"sysFlag": str(0x701)}, MalformedRecord),
    ):
        with pytest.raises(error):
            read_pushed_reply(travelled(pushed(push, **changes)), "broker-a")


def test_a_bomb_is_not_opened() -> None:
    (push,) = recorded("5.5.0", "request-reply", 326)
    bomb = reply_request("g", asked(), bytes(1 << 25), unique_key="U", now_ms=0, compress_from=1)
    armed = structs.replace(pushed(push, sysFlag=bomb.header(SendMessageV2).sys_flag), body=bomb.body)
    assert armed.header(PushReplyMessage).sys_flag == 0x301
    with pytest.raises(LimitExceeded):
        read_pushed_reply(armed, "broker-a")
