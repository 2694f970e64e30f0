"""Statistics of queues and groups."""

import pytest

from steelyard.model import Queue
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.stats import (
    BrokerConsumeStats,
    BrokerStats,
    ConsumeOffset,
    ConsumeStats,
    ConsumeTimeSpans,
    TopicOffset,
    TopicStats,
)
from steelyard.wire.bodies.topics import TopicConfig
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from tests.broker.broker_harness import START_MS, BrokerHarness, message
from tests.broker.fake_consumer import FakeConsumer, subscription_to
from tests.broker.pull_requests import pull, pull_header


@pytest.fixture
def harness() -> BrokerHarness:
    """Run a broker with the topic orders: four queues to read, two to write, three messages in the first one."""
    harness = BrokerHarness()
    harness.state.topics.put(TopicConfig(name="orders", read_queues=4, write_queues=2, attributes={}), harness.now_ms)
    for _ in range(3):
        harness.now_ms += 1_000
        harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"body")
    return harness


def queue(queue_id: int, topic: str = "orders") -> Queue:
    return Queue(topic, "broker-0", queue_id)


def consume_stats(harness: BrokerHarness, **fields: str) -> ConsumeStats:
    answer = harness.request(Code.GET_CONSUME_STATS, {"consumerGroup": "billing", **fields})
    assert answer.code == 0, answer.remark
    return decode_body(ConsumeStats, answer.body)


def test_a_topic_tells_the_ends_of_all_its_queues(harness: BrokerHarness) -> None:
    answer = harness.request(Code.GET_TOPIC_STATS_INFO, {"topic": "orders"})
    stats = decode_body(TopicStats, answer.body)
    assert list(stats.queues) == [queue(0), queue(1), queue(2), queue(3)]
    assert stats.queues[queue(0)] == TopicOffset(written_ms=START_MS + 3_000, max_offset=3, min_offset=0)
    assert stats.queues[queue(1)] == TopicOffset()
    assert stats.put_tps == pytest.approx(0.3)
    assert harness.request(Code.GET_TOPIC_STATS_INFO, {"topic": "lost"}).code == ResponseCode.TOPIC_NOT_EXIST


def test_a_group_tells_where_it_is_in_the_queues_it_may_read(harness: BrokerHarness) -> None:
    harness.state.offsets.put("billing", "orders", 0, 2)
    harness.state.offsets.record_pull("billing", "orders", 0, 3)
    stats = consume_stats(harness)
    assert list(stats.queues) == [queue(0), queue(1), queue(2), queue(3)]
    assert stats.queues[queue(0)] == ConsumeOffset(
        broker_offset=3, consumer_offset=2, consumed_ms=START_MS + 2_000, pull_offset=3
    )
    assert stats.queues[queue(1)] == ConsumeOffset(pull_offset=0)


def test_a_group_is_asked_for_one_topic_or_a_list(harness: BrokerHarness) -> None:
    harness.state.offsets.put("billing", "returns", 0, 2)
    assert consume_stats(harness).queues == {}
    assert len(consume_stats(harness, topic="orders").queues) == 4
    assert len(consume_stats(harness, topicList="orders;lost;;").queues) == 4
    assert consume_stats(harness, topic="lost").queues == {}


def test_topics_that_a_group_neither_subscribes_to_nor_reads_are_left_out(harness: BrokerHarness) -> None:
    member = FakeConsumer(harness, "member")
    member.heartbeat(subscription_to("returns"))
    harness.state.offsets.put("billing", "orders", 0, 2)
    assert consume_stats(harness).queues == consume_stats(harness, topic="orders").queues == {}
    pull(harness, pull_header())  # by somebody who subscribes to nothing
    assert len(consume_stats(harness).queues) == len(consume_stats(harness, topic="orders").queues) == 4
    harness.now_ms += 2 * 3_600_000
    member.heartbeat()
    assert consume_stats(harness).queues == {}


def test_the_lag_of_all_groups_is_summed_up(harness: BrokerHarness) -> None:
    for group, offset in (("billing", 1), ("audit", 3)):
        harness.state.groups.get_or_create(group, harness.now_ms)
        harness.state.offsets.put(group, "orders", 0, offset)
    harness.state.offsets.record_pull("billing", "orders", 0, 2)
    answer = harness.request(Code.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})
    found = decode_body(BrokerConsumeStats, answer.body)
    assert (found.broker_address, found.total_lag, found.total_in_flight) == ("127.0.0.1:10911", 2, 1)
    by_group = {group: stats for each in found.groups for group, stats in each.items()}
    assert by_group.keys() == {group.name for group in harness.state.groups}
    assert by_group["billing"][0].queues[queue(0)].consumer_offset == 1
    assert by_group["TOOLS_CONSUMER"] == ()
    ordered = decode_body(BrokerConsumeStats, harness.request(Code.GET_BROKER_CONSUME_STATS, {"isOrder": "true"}).body)
    assert (ordered.total_lag, len(ordered.groups)) == (0, len(found.groups))


def test_times_of_a_queue_are_reported(harness: BrokerHarness) -> None:
    harness.state.offsets.put("billing", "orders", 0, 2)
    harness.now_ms = START_MS + 10_000
    answer = harness.request(Code.QUERY_CONSUME_TIME_SPAN, {"topic": "orders", "group": "billing"})
    first, second = decode_body(ConsumeTimeSpans, answer.body).queues
    assert first.queue is not None
    assert first.queue.queue == queue(0)
    assert (first.first_ms, first.last_ms, first.consumed_ms) == (START_MS + 1_000, START_MS + 3_000, START_MS + 2_000)
    assert first.delay_ms == 7_000
    assert first.first_text == "2023-11-14#22:13:21:000"
    assert (second.first_ms, second.last_ms, second.consumed_ms, second.delay_ms) == (-1, -1, -1, 0)
    assert second.first_text == "1969-12-31#23:59:59:999"
    assert (
        harness.request(Code.QUERY_CONSUME_TIME_SPAN, {"topic": "lost", "group": "g"}).code
        == ResponseCode.TOPIC_NOT_EXIST
    )


def test_who_consumed_everything_waits_for_nothing(harness: BrokerHarness) -> None:
    harness.state.offsets.put("billing", "orders", 0, 3)
    answer = harness.request(Code.QUERY_CONSUME_TIME_SPAN, {"topic": "orders", "group": "billing"})
    assert decode_body(ConsumeTimeSpans, answer.body).queues[0].delay_ms == 0


@pytest.mark.parametrize(
    ("name", "key", "minute"),
    [
        ("TOPIC_PUT_NUMS", "orders", 3),
        ("BROKER_PUT_NUMS", "DefaultCluster", 3),
        ("GROUP_GET_NUMS", "orders@billing", 2),
        ("GROUP_GET_SIZE", "orders@billing", 300),
        ("BROKER_GET_NUMS", "DefaultCluster", 2),
    ],
)
def test_counters_are_reported_by_javas_names(harness: BrokerHarness, name: str, key: str, minute: int) -> None:
    harness.state.traffic.record_pulled("billing", "orders", 2, 300)
    answer = harness.request(Code.VIEW_BROKER_STATS_DATA, {"statsName": name, "statsKey": key})
    stats = decode_body(BrokerStats, answer.body)
    for rate in (stats.minute, stats.hour, stats.day):
        assert rate is not None
        assert rate.sum == minute
        assert rate.tps == pytest.approx(minute / 10)


@pytest.mark.parametrize(
    ("name", "key"),
    [("TOPIC_PUT_NUMS", "lost"), ("LOST", "orders"), ("BROKER_PUT_NUMS", "x"), ("GROUP_GET_NUMS", "@")],
)
def test_counters_that_are_not_there_are_refused(harness: BrokerHarness, name: str, key: str) -> None:
    answer = harness.request(Code.VIEW_BROKER_STATS_DATA, {"statsName": name, "statsKey": key})
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")
