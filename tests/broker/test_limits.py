"""What clients can make a broker keep, or do at a time, has an end; what they say twice counts once."""

import pytest

from steelyard.broker import long_polling, offsets
from steelyard.broker.half_messages import HalfMessages, OpenHalfMessage, TransactionOutcome
from steelyard.broker.offsets import ConsumerOffsets
from steelyard.broker.options import BrokerOptions
from steelyard.broker.table_limits import TableSizeLimit
from steelyard.errors import ServerError
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.groups import CustomRetryPolicy, GroupRetryPolicy, SubscriptionGroupConfig
from steelyard.wire.bodies.stats import BrokerConsumeStats
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from steelyard.wire.headers.group import CommitOffset
from steelyard.wire.headers.pull import QueryMessages
from steelyard.wire.headers.send import SendMessageResponse
from tests.broker.broker_harness import BrokerHarness, message
from tests.broker.fake_consumer import FakeConsumer, ids, subscription_to
from tests.broker.pull_requests import (
    held_pulls,
    make_topic,
    pull,
    pull_fields,
    pull_header,
    start_pull,
    store_messages,
)


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
    harness = BrokerHarness()
    make_topic(harness, "wide", queues=65_536)
    make_topic(harness, "half", queues=11_000)
    harness.state.groups.get_or_create("billing", harness.now_ms)
    for topic in ("wide", "half"):
        harness.state.offsets.put("billing", topic, 0, 0)
    answer = harness.request(code, fields)
    if "topicList" in fields:
        assert answer.code == 0, "each topic counts once, however often it is named"
    else:
        assert (answer.code, "at most" in (answer.remark or "")) == (1, True)


def test_lag_is_never_less_than_nothing() -> None:
    harness = BrokerHarness()
    make_topic(harness, queues=3)
    store_messages(harness, [b"x"] * 5)
    harness.state.groups.get_or_create("billing", harness.now_ms)
    for queue_id, offset in enumerate((2, 2**63 - 1, 2**63 - 1)):
        assert (
            harness.request(Code.UPDATE_CONSUMER_OFFSET, CommitOffset("billing", "orders", queue_id, offset)).code == 0
        )
    stats = decode_body(BrokerConsumeStats, harness.request(Code.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}).body)
    assert (stats.total_lag, stats.total_in_flight) == (3, 0)


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (Code.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "billing", "clientId": "a"}),
        (Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {"group": "billing", "topic": "orders"}),
    ],
)
def test_a_question_that_is_passed_on_one_way_is_not_answered(code: int, fields: dict[str, str]) -> None:
    harness = BrokerHarness()
    client = FakeConsumer(harness, "a", ours=False)
    client.heartbeat()
    harness.send(code, fields, oneway=True)
    for question in harness.sent_to(client.connection):
        if not question.is_oneway:
            harness.respond(question, client.connection)
    harness.advance(11_000)
    assert not harness.sent_to()


def test_questions_that_wait_keep_no_bodies_and_go_with_their_connection() -> None:
    harness = BrokerHarness()
    store_messages(harness, [b"x"] * 5_000, properties=b"UNIQ_KEY\x01k\x02")
    header = QueryMessages("orders", "k", 32, 0, harness.now_ms)
    own_peer = harness.connect()
    for peer in (harness.peer, own_peer):
        harness.send(Code.QUERY_MESSAGE, header, b"x" * 100_000, peer=peer)
    harness.send(Code.QUERY_MESSAGE, header, oneway=True)
    assert [len(request.body) for request, _ in harness.state.key_queries] == [0, 0]
    harness.disconnect(own_peer)
    assert len(harness.state.key_queries) == 1


def test_a_condition_that_costs_much_looks_at_few_messages_at_a_time() -> None:
    harness = BrokerHarness()
    make_topic(harness)
    store_messages(harness, [b"x"] * 100, properties=b"a\x01" + b"v" * 2_000 + b"\x02")
    long = " OR ".join(f"a CONTAINS 'z{number}'" for number in range(1_500))
    looked = pull_fields(pull(harness, pull_header(wanted=long, kind="SQL92"))).next_begin_offset
    assert 0 < looked < 100
    assert pull_fields(pull(harness, pull_header(looked, wanted=long, kind="SQL92"))).next_begin_offset > looked
    assert pull_fields(pull(harness, pull_header(wanted="a = 'x'", kind="SQL92"))).next_begin_offset == 100


def test_a_held_pull_that_has_very_much_to_look_through_is_told_to_ask_on() -> None:
    harness = BrokerHarness()
    make_topic(harness)
    waiting = start_pull(harness, pull_header(wanted="b = '1'", kind="SQL92"))
    store_messages(harness, [b"x"] * 20_000, properties=b"a\x011\x02")
    answer = harness.pop_response(waiting)
    assert answer is not None
    assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert 0 < pull_fields(answer).next_begin_offset < 20_000


def test_pulls_that_are_too_many_to_be_woken_at_once_are_woken_by_and_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_polling, "PULLS_PER_CALL", 4)
    harness = BrokerHarness()
    make_topic(harness)
    pulls = [start_pull(harness, pull_header(group=f"group-{number}")) for number in range(10)]
    store_messages(harness, [b"x"])
    assert len(held_pulls(harness)) == 6
    for _ in range(2):
        harness.advance(100)
    assert not held_pulls(harness)
    assert all(harness.pop_response(each) is not None for each in pulls)


def test_pulls_that_end_at_once_are_answered_by_and_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_polling, "PULLS_PER_CALL", 4)
    harness = BrokerHarness()
    make_topic(harness)
    pulls = [start_pull(harness, pull_header(wait_ms=5_000)) for _ in range(10)]
    harness.advance(5_000, step_ms=5_000)
    assert len(held_pulls(harness)) == 6
    harness.advance(200)
    assert not held_pulls(harness)
    assert all(harness.pop_response(each) is not None for each in pulls)


def test_pulls_of_a_queue_that_is_gone_are_answered_by_and_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_polling, "PULLS_PER_CALL", 4)
    harness = BrokerHarness()
    make_topic(harness)
    pulls = [start_pull(harness, pull_header()) for _ in range(10)]
    assert harness.request(Code.DELETE_TOPIC_IN_BROKER, {"topic": "orders"}).code == 0
    harness.tick()
    assert len(held_pulls(harness)) == 6
    harness.advance(200)
    assert not held_pulls(harness)
    assert all(harness.pop_response(each) is not None for each in pulls)


def test_places_of_pulls_are_remembered_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "_MAX_PULL_OFFSETS", 3)
    table = ConsumerOffsets(None)
    for queue_id in range(5):
        table.record_pull("billing", "orders", queue_id, 7)
    table.record_pull("billing", "orders", 0, 8)
    assert [table.pulled_in("billing", "orders").get(queue_id) for queue_id in range(5)] == [8, 7, 7, None, None]
    table.forget_topic("orders")
    table.record_pull("billing", "orders", 4, 9)
    assert table.pulled_in("billing", "orders").get(4) == 9


def test_settings_that_could_not_be_saved_with_the_others_are_refused() -> None:
    harness = BrokerHarness()
    policy = GroupRetryPolicy(custom=CustomRetryPolicy(delays_ms=tuple(range(10_000))))
    body = encode_body(SubscriptionGroupConfig(name="greedy", retry_policy=policy))
    codes = [
        harness.request(
            Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body.replace(b"greedy", b"greed%d" % number)
        ).code
        for number in range(350)
    ]
    assert (set(codes[:200]), set(codes[-5:])) == ({0}, {1})
    harness.save()
    assert not harness.state.warnings
    harness.crash()
    assert harness.state.groups.get("greed2") is not None
    too_many = encode_body(SubscriptionGroupConfig(name="retries", retry_queues=2**31 - 1))
    assert harness.request(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=too_many).code == 29


def test_room_is_given_back() -> None:
    budget = TableSizeLimit("topics", max_bytes=100)
    budget.add("a", {"x": "y" * 50})
    with pytest.raises(ServerError):
        budget.add("b", {"x": "y" * 50})
    budget.remove("a")
    budget.add("b", {"x": "y" * 50})


def test_one_half_that_stays_open_does_not_keep_those_that_end_behind_it() -> None:
    halves, many = HalfMessages(), 70_000  # more than it keeps of those that ended
    halves.add(OpenHalfMessage(0, 0, 0, 0, 0))
    for offset in range(1, many):
        halves.add(OpenHalfMessage(offset, offset, offset, 0, 0))
        halves.add_op_record(offset, [offset], TransactionOutcome.COMMITTED)
    assert list(halves.open) == [0]
    assert len(halves._offsets) < 1_000
    assert len(halves._ops) <= 65_536
    halves.loaded_to = halves.ops_loaded_to = many
    halves.record_progress(1)
    assert halves.progress.pop_durable(1) == (0, 1)
    halves.add_op_record(many, [0], TransactionOutcome.ROLLED_BACK)
    halves.record_progress(2)
    assert halves.progress.pop_durable(2) == (many, many)


def test_a_language_is_a_word() -> None:
    harness = BrokerHarness()
    client = FakeConsumer(harness, "a", ours=False)
    client.language = "x" * 10_000
    client.heartbeat()
    (member,) = harness.state.consumers
    (producer,) = harness.state.producers.in_group("CLIENT_INNER_PRODUCER")
    assert len(member.language) == len(producer.language) == 32


def test_a_broker_that_stood_still_takes_nobody_for_gone() -> None:
    harness = BrokerHarness(BrokerOptions())
    clients = [FakeConsumer(harness, "a"), FakeConsumer(harness, "b", ours=False)]
    for client in clients:
        client.heartbeat(subscription_to())
    harness.advance(4_000)
    clients[0].heartbeat()
    held = clients[0].lock(0)
    harness.now_ms += 3_600_000
    harness.tick()
    assert ids(harness) == ["a", "b"]
    assert not harness.hangups
    assert clients[0].renew(held) == held
    harness.advance(13_000)
    assert ids(harness) == ["b"], "a silent member is gone all the same"


def test_a_clock_that_was_set_back_stops_no_saving_and_no_syncing() -> None:
    harness = BrokerHarness()
    make_topic(harness)
    harness.sync()
    harness.save()
    harness.now_ms -= 3_600_000
    assert harness.broker.is_sync_due(harness.now_ms)
    harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"x")
    harness.request(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=b'{"groupName":"billing"}')
    make_topic(harness, "more")
    assert {job.name for job in harness.broker.due_saves(harness.now_ms)} >= {"config/topics.json"}
    harness.advance(1_000)


def test_a_commit_that_is_said_twice_is_answered_when_it_is_safe_and_not_before() -> None:
    harness = BrokerHarness(BrokerOptions(flush="sync"))
    make_topic(harness)
    text = "TRAN_MSG\x01true\x02PGROUP\x01shop\x02UNIQ_KEY\x01h\x02"
    sent = harness.send(Code.SEND_MESSAGE_V2, message("orders", text, sys_flag=4), b"half")
    harness.sync()
    answer = harness.pop_response(sent)
    assert answer is not None
    half = answer.header(SendMessageResponse)
    fields = {
        "producerGroup": "shop",
        "tranStateTableOffset": str(half.queue_offset),
        "commitLogOffset": str(int(half.msg_id[-16:], 16)),
        "commitOrRollback": "8",
        "msgId": "h",
    }
    same_read = [harness.send(Code.END_TRANSACTION, fields, flush=False) for _ in range(2)]
    harness.flush()
    later = harness.send(Code.END_TRANSACTION, fields)
    assert [harness.pop_response(each) for each in (*same_read, later)] == [None] * 3
    harness.sync()
    answers = [harness.pop_response(each) for each in (*same_read, later)]
    assert [each and each.code for each in answers] == [0, 0, 0]
    assert [record.body for record in harness.queue("orders")] == [b"half"]
