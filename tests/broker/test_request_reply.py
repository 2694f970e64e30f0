"""Request and reply: the reply reaches the client that sent the request, or its sender gets an error."""

import pytest

from steelyard.wire.codes import SERVER_VERSION
from steelyard.wire.command import Command, Peer
from steelyard.wire.frames import FrameDecoder
from steelyard.wire.headers.send import PushReplyMessage, SendMessageResponse
from steelyard.wire.properties import decode_properties
from tests.broker.broker_harness import START_MS, BrokerHarness, message
from tests.broker.send_headers import with_long_names
from tests.golden_frames import golden_frames

_TOPIC = "DefaultCluster_REPLY_TOPIC"
_REPLY = "MSG_TYPE\x01reply\x02REPLY_TO_CLIENT\x01127.0.0.1@asker\x02CORRELATION_ID\x01c-1\x02"


def _asker(harness: BrokerHarness) -> Peer:
    """Return the connection of a client that is known to the broker."""
    peer = harness.connect()
    harness.state.producers.record_client("127.0.0.1@asker", peer)
    return peer


@pytest.mark.parametrize("code", [324, 325])
def test_a_reply_is_pushed_to_the_client_that_asked(code: int) -> None:
    harness = BrokerHarness()
    asker = _asker(harness)
    header = message(_TOPIC, _REPLY, group="repliers", flag=3)
    answer = harness.request(code, with_long_names(header) if code == 324 else header, b"pong")
    assert answer.header(SendMessageResponse) == SendMessageResponse(
        "0", 0, 0, msg_region="DefaultRegion", trace_on="true"
    )
    (pushed,) = harness.sent_to(asker)
    assert (pushed.code, pushed.body, pushed.is_oneway, pushed.is_response) == (326, b"pong", False, False)
    assert pushed.version == SERVER_VERSION
    fields = pushed.header(PushReplyMessage)
    assert (fields.topic, fields.producer_group, fields.flag) == (_TOPIC, "repliers", 3)
    assert (fields.born_host, fields.store_host, fields.store_timestamp) == (
        harness.peer.address,
        "127.0.0.1:10911",
        START_MS,
    )
    properties = decode_properties((fields.properties or "").encode())
    assert properties["CORRELATION_ID"] == "c-1"
    assert properties["PUSH_REPLY_TIME"] == str(START_MS)
    assert harness.topic(_TOPIC) == []


def test_the_push_has_the_fields_of_a_real_one() -> None:
    harness = BrokerHarness()
    asker = harness.connect()
    harness.state.producers.record_client("127.0.0.1@prod", asker)
    frames = {each.code: each.frame for each in golden_frames() if each.release == "5.5.0" and not each.is_answer}
    (request,), (recorded,) = FrameDecoder().feed(frames[325]), FrameDecoder().feed(frames[326])
    harness.request(325, request.texts(), request.body)
    (pushed,) = harness.sent_to(asker)
    assert pushed.texts().keys() == recorded.texts().keys()
    ours, theirs = (_properties(command) for command in (pushed, recorded))
    assert ours.keys() == theirs.keys()


def _properties(command: Command) -> dict[str, str]:
    return decode_properties(command.texts()["properties"].encode())


@pytest.mark.parametrize(
    ("properties", "why"),
    [(_REPLY, "channel of <127.0.0.1@asker> not found"), ("MSG_TYPE\x01reply\x02", "REPLY_TO_CLIENT")],
)
def test_a_reply_to_nobody_is_refused(properties: str, why: str) -> None:
    answer = BrokerHarness().request(325, message(_TOPIC, properties), b"pong")
    assert answer.code == 1
    assert why in (answer.remark or "")
    assert answer.texts() == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}


def test_a_reply_to_a_topic_that_cannot_be_is_refused() -> None:
    harness = BrokerHarness()
    asker = _asker(harness)
    assert [harness.request(325, message(topic, _REPLY)).code for topic in ("a b", "SCHEDULE_TOPIC_XXXX")] == [29, 16]
    assert harness.sent_to(asker) == []
