"""What brokers ask of a client is read, and answered as Java's clients answer it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from steelyard.errors import MalformedHeader, MalformedRecord
from steelyard.model import Queue, StoredMessage
from steelyard.protocol.server_requests import (
    direct_consume_response,
    offsets_response,
    read_direct_consume,
    read_offsets_request,
    refusal_response,
    success_response,
)
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.members import ConsumeDirectlyOutcome, ConsumeDirectlyResult
from steelyard.wire.bodies.offsets import MemberOffsets
from steelyard.wire.codes import CLIENT_VERSION, HeaderType
from steelyard.wire.command import Command
from tests.protocol.frames import RELEASES, recorded, travelled


class Special(StoredMessage, frozen=True, gc=False):
    """A message that can do more."""


@pytest.mark.parametrize("release", RELEASES)
def test_a_message_to_be_handled_now_is_read(release: str) -> None:
    request = next(each for each in recorded(release, "consume-directly", 309) if each.body)
    group, client_id, message = read_direct_consume(Special, request, "by-line")
    assert (group, client_id) == ("LabGroup", "127.0.0.1@c1")
    assert type(message) is Special
    assert (message.topic, message.body, message.tags) == ("LabTopic", b"hello world", "TagA")
    assert message.queue.broker == "broker-a"
    nameless = structs.replace(request, fields={"consumerGroup": "LabGroup"})
    assert read_direct_consume(StoredMessage, nameless, "by-line").message.queue.broker == "by-line"


@pytest.mark.parametrize("body", [b"", b"junk", bytes(200)])
def test_a_body_that_is_not_one_message_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedRecord):
        read_direct_consume(StoredMessage, Command(309, {"consumerGroup": "g"}, body), "broker-a")


@pytest.mark.parametrize("release", RELEASES)
def test_how_it_went_is_answered_as_java_does(release: str) -> None:
    request = next(each for each in recorded(release, "consume-directly", 309) if each.body)
    theirs = recorded(release, "consume-directly", 309, is_answer=True)[0]
    spent_ms = json.loads(theirs.body)["spentTimeMills"]
    ours = direct_consume_response(request, ConsumeDirectlyOutcome.SUCCESS, spent_ms=spent_ms)
    assert ours.body == theirs.body
    assert (ours.code, ours.opaque, ours.is_response, ours.version) == (0, request.opaque, True, CLIENT_VERSION)


@given(st.sampled_from(ConsumeDirectlyOutcome), st.integers(0, 10**9), st.none() | st.text(max_size=900), st.booleans())
def test_every_outcome_can_be_read_back(
    outcome: ConsumeDirectlyOutcome, spent_ms: int, remark: str | None, is_orderly: bool
) -> None:
    answer = direct_consume_response(Command(309), outcome, spent_ms=spent_ms, remark=remark, is_orderly=is_orderly)
    result = decode_body(ConsumeDirectlyResult, travelled(answer).body)
    assert (result.outcome, result.spent_ms, result.order) == (outcome, spent_ms, is_orderly)
    assert result.remark == (None if remark is None else remark[:500])


@pytest.mark.parametrize("release", RELEASES)
def test_offsets_are_reported_as_java_does(release: str) -> None:
    (request,) = recorded(release, "consumer-status", 221)
    (theirs,) = recorded(release, "consumer-status", 221, is_answer=True)
    assert read_offsets_request(request) == ("LabGroup", "LabTopic")
    reported = decode_body(MemberOffsets, theirs.body)
    ours = offsets_response(request, reported.queues)
    assert decode_body(MemberOffsets, ours.body) == reported
    assert sorted(ours.body) == sorted(theirs.body)


@given(st.dictionaries(st.builds(Queue, st.text(max_size=9), st.just("a"), st.integers(0, 9)), st.integers(0, 2**62)))
def test_any_offsets_can_be_read_back(offsets: dict[Queue, int]) -> None:
    body = travelled(offsets_response(Command(221), offsets)).body
    assert dict(decode_body(MemberOffsets, body).queues) == offsets


def test_a_question_without_a_topic_is_refused() -> None:
    with pytest.raises(MalformedHeader, match="topic"):
        read_offsets_request(Command(221, {"group": "billing"}))


@pytest.mark.parametrize("header_type", list(HeaderType))
def test_answers_are_in_the_type_of_the_question(header_type: HeaderType) -> None:
    request = Command(326, opaque=91, header_type=header_type)
    for answer, code in ((success_response(request), 0), (refusal_response(request, "nobody waits for it"), 1)):
        assert (answer.header_type, answer.opaque, answer.code, answer.version) == (
            header_type,
            91,
            code,
            CLIENT_VERSION,
        )
    assert refusal_response(request, "x" * 10_000, 3).remark == f"request 326 was not served: {'x' * 500}"
