"""What clients can make a broker keep, or do at a time, has an end; what they say twice counts once."""

import pytest
from tests.broker.client import Client, ids, wants
from tests.broker.desk import Desk, message
from tests.broker.reader import make_topic, parking, place, pull, pull_header, put, start_pull

from steelyard.broker import offsets, waking
from steelyard.broker.halves import Ending, Half, Halves
from steelyard.broker.offsets import Offsets
from steelyard.broker.options import BrokerOptions
from steelyard.broker.room import Room
from steelyard.errors import ServerError
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.groups import CustomRetries, GroupSettings, RetryPolicy
from steelyard.wire.bodies.stats import BrokerConsumeStats
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from steelyard.wire.headers.group import CommitOffset
from steelyard.wire.headers.pull import QueryMessages
from steelyard.wire.headers.send import SendAnswer


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (Code.GET_TOPIC_STATS_INFO, {"topic": "wide"}),
        (Code.GET_CONSUME_STATS, {"consumerGroup": "billing", "topic": "wide"}),
        (Code.GET_CONSUME_STATS, {"consumerGroup": "billing", "topicList": "half;" * 5_000}),
        (Code.QUERY_CONSUME_TIME_SPAN, {"group": "billing", "topic": "wide"}),
        (Code.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}),
    ],
)
def test_an_answer_about_too_many_queues_is_refused_before_it_is_made(code: int, fields: dict[str, str]) -> None:
    desk = Desk()
    make_topic(desk, "wide", queues=65_536)
    make_topic(desk, "half", queues=30_000)
    desk.state.groups.known("billing", desk.now_ms)
    for topic in ("wide", "half"):
        desk.state.offsets.put("billing", topic, 0, 0)
    answer = desk.ask(code, fields)
    if "topicList" in fields:
        assert answer.code == 0, "each topic counts once, however often it is named"
    else:
        assert (answer.code, "at most" in (answer.remark or "")) == (1, True)


def test_lag_is_never_less_than_nothing() -> None:
    desk = Desk()
    make_topic(desk, queues=3)
    put(desk, [b"x"] * 5)
    desk.state.groups.known("billing", desk.now_ms)
    for queue_id, offset in enumerate((2, 2**63 - 1, 2**63 - 1)):
        assert desk.ask(Code.UPDATE_CONSUMER_OFFSET, CommitOffset("billing", "orders", queue_id, offset)).code == 0
    stats = decode_body(BrokerConsumeStats, desk.ask(Code.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}).body)
    assert (stats.total_lag, stats.total_in_flight) == (3, 0)


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (Code.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "billing", "clientId": "a"}),
        (Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {"group": "billing", "topic": "orders"}),
    ],
)
def test_a_question_that_is_passed_on_one_way_is_not_answered(code: int, fields: dict[str, str]) -> None:
    desk = Desk()
    client = Client(desk, "a", ours=False)
    client.beat()
    desk.say(code, fields, oneway=True)
    for question in desk.sent_to(client.line):
        if not question.is_oneway:
            desk.reply(question, client.line)
    desk.advance(11_000)
    assert not desk.sent_to()


def test_questions_that_wait_keep_no_bodies_and_go_with_their_line() -> None:
    desk = Desk()
    put(desk, [b"x"] * 5_000, properties=b"UNIQ_KEY\x01k\x02")
    header = QueryMessages("orders", "k", 32, 0, desk.now_ms)
    line = desk.line()
    for peer in (desk.peer, line):
        desk.say(Code.QUERY_MESSAGE, header, b"x" * 100_000, peer=peer)
    desk.say(Code.QUERY_MESSAGE, header, oneway=True)
    assert [len(request.body) for request, _ in desk.state.questions] == [0, 0]
    desk.hang_up(line)
    assert len(desk.state.questions) == 1


def test_a_condition_that_costs_much_looks_at_few_messages_at_a_time() -> None:
    desk = Desk()
    make_topic(desk)
    put(desk, [b"x"] * 100, properties=b"a\x01" + b"v" * 2_000 + b"\x02")
    long = " OR ".join(f"a CONTAINS 'z{number}'" for number in range(1_500))
    looked = place(pull(desk, pull_header(wanted=long, kind="SQL92"))).next_begin_offset
    assert 0 < looked < 100
    assert place(pull(desk, pull_header(looked, wanted=long, kind="SQL92"))).next_begin_offset > looked
    assert place(pull(desk, pull_header(wanted="a = 'x'", kind="SQL92"))).next_begin_offset == 100


def test_a_parked_pull_that_has_very_much_to_look_through_is_told_to_ask_on() -> None:
    desk = Desk()
    make_topic(desk)
    waiting = start_pull(desk, pull_header(wanted="b = '1'", kind="SQL92"))
    put(desk, [b"x"] * 20_000, properties=b"a\x011\x02")
    answer = desk.answer(waiting)
    assert answer is not None
    assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert 0 < place(answer).next_begin_offset < 20_000


def test_pulls_that_are_too_many_to_be_woken_at_once_are_woken_by_and_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waking, "_TRIES", 4)
    desk = Desk()
    make_topic(desk)
    pulls = [start_pull(desk, pull_header(group=f"group-{number}")) for number in range(10)]
    put(desk, [b"x"])
    assert len(parking(desk)) == 6
    for _ in range(2):
        desk.advance(100)
    assert not parking(desk)
    assert all(desk.answer(each) is not None for each in pulls)


def test_places_of_pulls_are_remembered_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "_MOST_PULLS", 3)
    table = Offsets(None)
    for queue_id in range(5):
        table.note_pull("billing", "orders", queue_id, 7)
    table.note_pull("billing", "orders", 0, 8)
    assert [table.pulled("billing", "orders", queue_id) for queue_id in range(5)] == [8, 7, 7, None, None]
    table.forget_topic("orders")
    table.note_pull("billing", "orders", 4, 9)
    assert table.pulled("billing", "orders", 4) == 9


def test_settings_that_could_not_be_saved_with_the_others_are_refused() -> None:
    desk = Desk()
    policy = RetryPolicy(custom=CustomRetries(delays_ms=tuple(range(10_000))))
    body = encode_body(GroupSettings(name="greedy", retry_policy=policy))
    codes = [
        desk.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body.replace(b"greedy", b"greed%d" % number)).code
        for number in range(350)
    ]
    assert (set(codes[:200]), set(codes[-5:])) == ({0}, {1})
    desk.save()
    assert not desk.state.notes
    desk.crash()
    assert desk.state.groups.get("greed2") is not None
    too_many = encode_body(GroupSettings(name="retries", retry_queues=2**31 - 1))
    assert desk.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=too_many).code == 29


def test_room_is_given_back() -> None:
    room = Room("topics", most_bytes=100)
    room.take("a", {"x": "y" * 50})
    with pytest.raises(ServerError):
        room.take("b", {"x": "y" * 50})
    room.give_back("a")
    room.take("b", {"x": "y" * 50})


def test_one_half_that_stays_open_does_not_keep_those_that_end_behind_it() -> None:
    halves, many = Halves(), 70_000  # more than it keeps of those that ended
    halves.add(Half(0, 0, 0, 0, 0))
    for offset in range(1, many):
        halves.add(Half(offset, offset, offset, 0, 0))
        halves.add_op(offset, [offset], Ending.COMMITTED)
    assert list(halves.open) == [0]
    assert len(halves._offsets) < 1_000
    assert len(halves._ops) <= 65_536
    halves.fed = halves.fed_ops = many
    halves.note(1)
    assert halves.progress.safe(1) == (0, 1)
    halves.add_op(many, [0], Ending.ROLLED_BACK)
    halves.note(2)
    assert halves.progress.safe(2) == (many, many)


def test_a_language_is_a_word() -> None:
    desk = Desk()
    client = Client(desk, "a", ours=False)
    client.language = "x" * 10_000
    client.beat()
    (member,) = desk.state.members
    (producer,) = desk.state.producers.of("CLIENT_INNER_PRODUCER")
    assert len(member.language) == len(producer.language) == 32


def test_a_broker_that_stood_still_takes_nobody_for_gone() -> None:
    desk = Desk(BrokerOptions())
    clients = [Client(desk, "a"), Client(desk, "b", ours=False)]
    for client in clients:
        client.beat(wants())
    desk.advance(4_000)
    clients[0].beat()
    held = clients[0].lock(0)
    desk.now_ms += 3_600_000
    desk.tick()
    assert ids(desk) == ["a", "b"]
    assert not desk.hangups
    assert clients[0].renew(held) == held
    desk.advance(13_000)
    assert ids(desk) == ["b"], "whoever stays silent is gone all the same"


def test_a_clock_that_was_set_back_stops_no_saving_and_no_syncing() -> None:
    desk = Desk()
    make_topic(desk)
    desk.sync()
    desk.save()
    desk.now_ms -= 3_600_000
    assert desk.broker.wants_sync(desk.now_ms)
    desk.ask(Code.SEND_MESSAGE_V2, message("orders"), b"x")
    desk.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=b'{"groupName":"billing"}')
    make_topic(desk, "more")
    assert {job.name for job in desk.broker.saves(desk.now_ms)} >= {"config/topics.json"}
    desk.advance(1_000)


def test_a_commit_that_is_said_twice_is_answered_when_it_is_safe_and_not_before() -> None:
    desk = Desk(BrokerOptions(flush="sync"))
    make_topic(desk)
    text = "TRAN_MSG\x01true\x02PGROUP\x01shop\x02UNIQ_KEY\x01h\x02"
    sent = desk.say(Code.SEND_MESSAGE_V2, message("orders", text, sys_flag=4), b"half")
    desk.sync()
    answer = desk.answer(sent)
    assert answer is not None
    half = answer.header(SendAnswer)
    fields = {
        "producerGroup": "shop",
        "tranStateTableOffset": str(half.queue_offset),
        "commitLogOffset": str(int(half.msg_id[-16:], 16)),
        "commitOrRollback": "8",
        "msgId": "h",
    }
    same_read = [desk.say(Code.END_TRANSACTION, fields, flush=False) for _ in range(2)]
    desk.flush()
    later = desk.say(Code.END_TRANSACTION, fields)
    assert [desk.answer(each) for each in (*same_read, later)] == [None] * 3
    desk.sync()
    answers = [desk.answer(each) for each in (*same_read, later)]
    assert [each and each.code for each in answers] == [0, 0, 0]
    assert [record.body for record in desk.queue("orders")] == [b"half"]
