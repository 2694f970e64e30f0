"""307, 309, 223: requests that the broker forwards to a member, and their responses."""

import pytest

from steelyard.broker.forwarded_requests import ForwardedRequests
from steelyard.errors import ServerBusy
from steelyard.model import Queue
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.offsets import MemberOffsets
from steelyard.wire.codes import HeaderType
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command, Peer
from steelyard.wire.headers.group import GroupTopicRequest
from steelyard.wire.json_body import ByQueue
from steelyard.wire.message_ids import offset_id
from tests.broker.broker_harness import BrokerHarness, message
from tests.broker.fake_consumer import GROUP, FakeConsumer

ASK = {"consumerGroup": GROUP, "clientId": "c1", "jstackEnable": "false", "steelyardWants": '[["t","b",3]]'}


def asked(client: FakeConsumer, code: int) -> list[Command]:
    """Take the questions off a client's connection."""
    return [each for each in client.harness.sent_to(client.connection) if each.code == code and not each.is_response]


@pytest.mark.parametrize("header_type", HeaderType)
def test_a_question_goes_to_the_member_and_its_answer_back_both_untouched(header_type: HeaderType) -> None:
    harness = BrokerHarness()
    client = FakeConsumer(harness, "c1", ours=False)
    client.heartbeat()
    number = harness.send(Code.GET_CONSUMER_RUNNING_INFO, ASK, b"body", header_type=header_type)
    assert harness.pop_response(number) is None
    (question,) = asked(client, Code.GET_CONSUMER_RUNNING_INFO)
    assert (question.texts(), question.body, question.header_type) == (ASK, b"body", HeaderType.JSON)
    harness.respond(question, client.connection, {"more": "yes"}, b'{"mqTable":{}}')
    answer = harness.pop_response(number)
    assert answer is not None
    assert (answer.code, answer.texts(), answer.body) == (0, {"more": "yes"}, b'{"mqTable":{}}')
    assert answer.header_type is header_type


def test_two_clients_may_ask_one_member_and_each_gets_its_own_answer() -> None:
    harness = BrokerHarness()
    client = FakeConsumer(harness, "c1")
    client.heartbeat()
    other = harness.connect()
    first, second = harness.send(307, ASK), harness.send(307, ASK, peer=other)
    one, two = asked(client, 307)
    harness.respond(two, client.connection, body=b"2")
    harness.respond(one, client.connection, body=b"1")
    harness.respond(one, client.connection, body=b"again")
    answers = harness.pop_response(first), harness.pop_response(second, other)
    assert [answer.body for answer in answers if answer is not None] == [b"1", b"2"]


def test_an_answer_counts_only_on_the_connection_that_was_asked() -> None:
    harness = BrokerHarness()
    client = FakeConsumer(harness, "c1")
    client.heartbeat()
    number = harness.send(307, ASK)
    (question,) = asked(client, 307)
    harness.respond(question, harness.connect(), body=b"forged")
    assert harness.pop_response(number) is None


def test_a_member_that_is_not_there_or_too_old_is_reported() -> None:
    harness = BrokerHarness()
    answer = harness.request(307, ASK)
    assert (answer.code, answer.remark) == (1, f"The Consumer <{GROUP}> <c1> not online")
    client = FakeConsumer(harness, "c1")
    client.heartbeat()
    client.close()
    assert harness.request(307, ASK).code == 1
    client.reconnect()
    group = harness.state.consumers.group(GROUP)
    assert group is not None
    group.members["c1"].version = 61
    answer = harness.request(307, ASK)
    assert answer.code == 1
    assert "too low" in (answer.remark or "")


def test_no_answer_within_the_limit_and_a_connection_that_closes_are_reported() -> None:
    harness = BrokerHarness()
    client = FakeConsumer(harness, "c1", ours=False)
    client.heartbeat()
    number = harness.send(307, ASK)
    harness.advance(9_900)
    assert harness.pop_response(number) is None
    harness.advance(100)
    answer = harness.pop_response(number)
    assert answer is not None
    assert answer.code == 207
    number = harness.send(307, ASK)
    client.close()
    answer = harness.pop_response(number)
    assert answer is not None
    assert answer.code == 207


def test_a_member_is_told_to_handle_a_message_of_the_log() -> None:
    harness = BrokerHarness()
    client = FakeConsumer(harness, "c1", ours=False)
    client.heartbeat()
    assert harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"hello").code == 0
    (record,) = harness.queue("orders")
    fields = {
        "consumerGroup": GROUP,
        "clientId": "c1",
        "msgId": offset_id("127.0.0.1:10911", record.position),
        "topic": "orders",
    }
    number = harness.send(Code.CONSUME_MESSAGE_DIRECTLY, fields)
    (question,) = asked(client, Code.CONSUME_MESSAGE_DIRECTLY)
    assert question.texts() == {**fields, "brokerName": "broker-0", "topicSysFlag": "0", "groupSysFlag": "0"}
    assert b"hello" in question.body
    harness.respond(question, client.connection, body=b'{"consumeResult":"CR_SUCCESS"}')
    answer = harness.pop_response(number)
    assert answer is not None
    assert b"CR_SUCCESS" in answer.body


@pytest.mark.parametrize("message_id", ["", "nonsense", offset_id("127.0.0.1:10911", 4_711)])
def test_a_message_that_is_not_there_is_not_handled(message_id: str) -> None:
    harness = BrokerHarness()
    client = FakeConsumer(harness, "c1")
    client.heartbeat()
    fields = {"consumerGroup": GROUP, "clientId": "c1", "msgId": message_id}
    assert harness.request(Code.CONSUME_MESSAGE_DIRECTLY, fields).code != 0
    assert asked(client, Code.CONSUME_MESSAGE_DIRECTLY) == []


def test_the_offsets_of_all_members_are_put_together() -> None:
    harness = BrokerHarness()
    clients = [FakeConsumer(harness, f"c{number}", ours=False) for number in range(4)]
    for client in clients:
        client.heartbeat()
    header = GroupTopicRequest(group=GROUP, topic="orders")
    number = harness.send(Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, header)
    for place, client in enumerate(clients[:2]):
        (question,) = asked(client, Code.GET_CONSUMER_STATUS_FROM_CLIENT)
        assert question.header(GroupTopicRequest) == header
        held = ByQueue({Queue("orders", "broker-0", place): 10 + place})
        harness.respond(question, client.connection, body=encode_body(MemberOffsets(queues=held)))
    harness.respond(
        asked(clients[2], Code.GET_CONSUMER_STATUS_FROM_CLIENT)[0], clients[2].connection, body=b"{nonsense"
    )
    assert harness.pop_response(number) is None
    harness.advance(5_000)
    answer = harness.pop_response(number)
    assert answer is not None
    reported = decode_body(MemberOffsets, answer.body).members
    assert {name: list(held.values()) for name, held in reported.items()} == {"c0": [10], "c1": [11]}


def test_one_member_alone_can_be_asked_and_nobody_is_an_error() -> None:
    harness = BrokerHarness()
    code = Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
    assert harness.request(code, GroupTopicRequest(group=GROUP, topic="orders")).code == 1
    clients = [FakeConsumer(harness, f"c{number}") for number in range(2)]
    for client in clients:
        client.heartbeat()
    harness.send(code, GroupTopicRequest(group=GROUP, topic="orders", client_addr="c1"))
    assert [len(asked(client, Code.GET_CONSUMER_STATUS_FROM_CLIENT)) for client in clients] == [0, 1]
    answer = harness.request(code, GroupTopicRequest(group=GROUP, topic="orders", client_addr="nobody"))
    assert decode_body(MemberOffsets, answer.body).members == {}


def test_open_questions_are_bounded() -> None:
    relays, peer = ForwardedRequests(), Peer.at("127.0.0.1", 1, connection_id=1)
    given_up: list[Command | None] = []
    for number in range(4_096):
        relays.forward(peer, Command(307), given_up.append, number)
    with pytest.raises(ServerBusy):
        relays.forward(peer, Command(307), given_up.append, 0)
    relays.connection_closed(peer)
    assert given_up == [None] * 4_096
    relays.forward(peer, Command(307), given_up.append, 0)
