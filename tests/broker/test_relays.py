"""307, 309, 223: questions that go through the broker to a member, and their answers back."""

import pytest
from tests.broker.client import GROUP, Client
from tests.broker.desk import Desk, message

from steelyard.broker.relays import Relays
from steelyard.errors import ServerBusy
from steelyard.model import Queue
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.offsets import MemberOffsets
from steelyard.wire.codes import HeaderType
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command
from steelyard.wire.headers.group import GroupAndTopic
from steelyard.wire.maps import ByQueue
from steelyard.wire.message_ids import offset_id
from steelyard.wire.peers import Peer

ASK = {"consumerGroup": GROUP, "clientId": "c1", "jstackEnable": "false", "steelyardWants": '[["t","b",3]]'}


def asked(client: Client, code: int) -> list[Command]:
    """Take the questions off a client's line."""
    return [each for each in client.desk.sent_to(client.line) if each.code == code and not each.is_answer]


@pytest.mark.parametrize("header_type", HeaderType)
def test_a_question_goes_to_the_member_and_its_answer_back_both_untouched(header_type: HeaderType) -> None:
    desk = Desk()
    client = Client(desk, "c1", ours=False)
    client.beat()
    number = desk.say(Code.GET_CONSUMER_RUNNING_INFO, ASK, b"body", header_type=header_type)
    assert desk.answer(number) is None
    (question,) = asked(client, Code.GET_CONSUMER_RUNNING_INFO)
    assert (question.texts(), question.body, question.header_type) == (ASK, b"body", HeaderType.JSON)
    desk.reply(question, client.line, {"more": "yes"}, b'{"mqTable":{}}')
    answer = desk.answer(number)
    assert answer is not None
    assert (answer.code, answer.texts(), answer.body) == (0, {"more": "yes"}, b'{"mqTable":{}}')
    assert answer.header_type is header_type


def test_two_callers_may_ask_one_member_and_each_gets_its_own_answer() -> None:
    desk = Desk()
    client = Client(desk, "c1")
    client.beat()
    other = desk.line()
    first, second = desk.say(307, ASK), desk.say(307, ASK, peer=other)
    one, two = asked(client, 307)
    desk.reply(two, client.line, body=b"2")
    desk.reply(one, client.line, body=b"1")
    desk.reply(one, client.line, body=b"again")
    answers = desk.answer(first), desk.answer(second, other)
    assert [answer.body for answer in answers if answer is not None] == [b"1", b"2"]


def test_an_answer_counts_only_on_the_line_that_was_asked() -> None:
    desk = Desk()
    client = Client(desk, "c1")
    client.beat()
    number = desk.say(307, ASK)
    (question,) = asked(client, 307)
    desk.reply(question, desk.line(), body=b"forged")
    assert desk.answer(number) is None


def test_a_member_that_is_not_there_or_too_old_is_told_of() -> None:
    desk = Desk()
    answer = desk.ask(307, ASK)
    assert (answer.code, answer.remark) == (1, f"The Consumer <{GROUP}> <c1> not online")
    client = Client(desk, "c1")
    client.beat()
    client.close()
    assert desk.ask(307, ASK).code == 1
    client.reconnect()
    group = desk.state.members.group(GROUP)
    assert group is not None
    group.members["c1"].version = 61
    answer = desk.ask(307, ASK)
    assert answer.code == 1
    assert "too low" in (answer.remark or "")


def test_no_answer_within_the_limit_and_a_line_that_closes_are_told() -> None:
    desk = Desk()
    client = Client(desk, "c1", ours=False)
    client.beat()
    number = desk.say(307, ASK)
    desk.advance(9_900)
    assert desk.answer(number) is None
    desk.advance(100)
    answer = desk.answer(number)
    assert answer is not None
    assert answer.code == 207
    number = desk.say(307, ASK)
    client.close()
    answer = desk.answer(number)
    assert answer is not None
    assert answer.code == 207


def test_a_member_is_told_to_handle_a_message_of_the_log() -> None:
    desk = Desk()
    client = Client(desk, "c1", ours=False)
    client.beat()
    assert desk.ask(Code.SEND_MESSAGE_V2, message("orders"), b"hello").code == 0
    (record,) = desk.queue("orders")
    fields = {
        "consumerGroup": GROUP,
        "clientId": "c1",
        "msgId": offset_id("127.0.0.1:10911", record.position),
        "topic": "orders",
    }
    number = desk.say(Code.CONSUME_MESSAGE_DIRECTLY, fields)
    (question,) = asked(client, Code.CONSUME_MESSAGE_DIRECTLY)
    assert question.texts() == {**fields, "brokerName": "broker-0", "topicSysFlag": "0", "groupSysFlag": "0"}
    assert b"hello" in question.body
    desk.reply(question, client.line, body=b'{"consumeResult":"CR_SUCCESS"}')
    answer = desk.answer(number)
    assert answer is not None
    assert b"CR_SUCCESS" in answer.body


@pytest.mark.parametrize("message_id", ["", "nonsense", offset_id("127.0.0.1:10911", 4_711)])
def test_a_message_that_is_not_there_is_not_handled(message_id: str) -> None:
    desk = Desk()
    client = Client(desk, "c1")
    client.beat()
    fields = {"consumerGroup": GROUP, "clientId": "c1", "msgId": message_id}
    assert desk.ask(Code.CONSUME_MESSAGE_DIRECTLY, fields).code != 0
    assert asked(client, Code.CONSUME_MESSAGE_DIRECTLY) == []


def test_the_offsets_of_all_members_are_put_together() -> None:
    desk = Desk()
    clients = [Client(desk, f"c{number}", ours=False) for number in range(4)]
    for client in clients:
        client.beat()
    header = GroupAndTopic(group=GROUP, topic="orders")
    number = desk.say(Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, header)
    for place, client in enumerate(clients[:2]):
        (question,) = asked(client, Code.GET_CONSUMER_STATUS_FROM_CLIENT)
        assert question.header(GroupAndTopic) == header
        held = ByQueue({Queue("orders", "broker-0", place): 10 + place})
        desk.reply(question, client.line, body=encode_body(MemberOffsets(queues=held)))
    desk.reply(asked(clients[2], Code.GET_CONSUMER_STATUS_FROM_CLIENT)[0], clients[2].line, body=b"{nonsense")
    assert desk.answer(number) is None
    desk.advance(5_000)
    answer = desk.answer(number)
    assert answer is not None
    told = decode_body(MemberOffsets, answer.body).members
    assert {name: list(held.values()) for name, held in told.items()} == {"c0": [10], "c1": [11]}


def test_one_member_alone_can_be_asked_and_nobody_is_an_error() -> None:
    desk = Desk()
    code = Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
    assert desk.ask(code, GroupAndTopic(group=GROUP, topic="orders")).code == 1
    clients = [Client(desk, f"c{number}") for number in range(2)]
    for client in clients:
        client.beat()
    desk.say(code, GroupAndTopic(group=GROUP, topic="orders", client_addr="c1"))
    assert [len(asked(client, Code.GET_CONSUMER_STATUS_FROM_CLIENT)) for client in clients] == [0, 1]
    answer = desk.ask(code, GroupAndTopic(group=GROUP, topic="orders", client_addr="nobody"))
    assert decode_body(MemberOffsets, answer.body).members == {}


def test_open_questions_are_bounded() -> None:
    relays, peer = Relays(), Peer.at("127.0.0.1", 1, number=1)
    given_up: list[Command | None] = []
    for number in range(4_096):
        relays.ask(peer, Command(307), given_up.append, number)
    with pytest.raises(ServerBusy):
        relays.ask(peer, Command(307), given_up.append, 0)
    relays.closed(peer)
    assert given_up == [None] * 4_096
    relays.ask(peer, Command(307), given_up.append, 0)
