"""Messages by key and by position, and entries of a consume queue."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.heartbeat import SubscriptionBody
from steelyard.wire.bodies.stats import ConsumeQueuePart
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.headers.pull import QueryConsumeQueue, QueryMessages, QueryMessagesResponse, ViewMessage
from tests.broker.broker_harness import START_MS, BrokerHarness
from tests.broker.pull_requests import bodies, make_topic, send_heartbeat, store_messages

FOR_EVER = (1 << 63) - 1


@pytest.fixture
def harness() -> BrokerHarness:
    """Open a broker with one topic."""
    found = BrokerHarness()
    make_topic(found)
    return found


def find(
    harness: BrokerHarness,
    key: str,
    most: int = 10,
    start_ms: int = 0,
    end_ms: int = FOR_EVER,
    *,
    topic: str = "orders",
    unique: bool | None = False,
) -> Command:
    """Look for messages by key."""
    return harness.request(RequestCode.QUERY_MESSAGE, QueryMessages(topic, key, most, start_ms, end_ms, unique, "K"))


def test_messages_are_found_by_each_of_their_keys_and_by_their_unique_key(harness: BrokerHarness) -> None:
    store_messages(harness, [b"one"], properties=b"KEYS\x01o-1 o-2\x02UNIQ_KEY\x01AC11\x02")
    store_messages(harness, [b"two"], properties=b"KEYS\x01o-2\x02")
    assert bodies(find(harness, "o-1")) == [b"one"]
    assert bodies(find(harness, "o-2")) == [b"one", b"two"]
    assert bodies(find(harness, "AC11", unique=True)) == [b"one"]


def test_the_newest_within_the_times_come_and_not_more_than_wanted(harness: BrokerHarness) -> None:
    for number in range(70):
        store_messages(harness, [b"%d" % number], properties=b"KEYS\x01k\x02")
        harness.now_ms += 10
    assert bodies(find(harness, "k", 3)) == [b"67", b"68", b"69"]
    assert bodies(find(harness, "k", 3, end_ms=START_MS + 105)) == [b"8", b"9", b"10"]
    assert bodies(find(harness, "k", 9, START_MS + 675)) == [b"68", b"69"]
    assert len(bodies(find(harness, "k", 1_000_000))) == 64
    assert len(bodies(find(harness, "k", 1, unique=True))) == 32
    for most in (0, -1, -(1 << 31)):
        assert bodies(find(harness, "k", most)) == [b"69"]


def test_an_answer_says_how_far_it_reaches_and_none_is_22_with_zeros(harness: BrokerHarness) -> None:
    store_messages(harness, [b"one"], properties=b"KEYS\x01k\x02")
    store_messages(harness, [b"two"], properties=b"KEYS\x01k\x02")
    reach = find(harness, "k").header(QueryMessagesResponse)
    assert reach == QueryMessagesResponse(START_MS, harness.queue("orders")[1].position)
    for answer in (find(harness, "none"), find(harness, "k", topic="nowhere"), find(harness, "k", start_ms=FOR_EVER)):
        assert (answer.code, answer.header(QueryMessagesResponse)) == (22, QueryMessagesResponse(0, 0))
        assert answer.remark == "can not find message, maybe time range not correct"


def test_large_messages_come_only_as_far_as_they_fit_into_one_answer() -> None:
    harness = BrokerHarness(segment_bytes=1 << 23)
    make_topic(harness)
    store_messages(harness, [b"x" * 4_000_000] * 4, properties=b"KEYS\x01k\x02")
    assert len(find(harness, "k").body) < 9_000_000


def test_a_message_is_found_by_its_place_in_the_log(harness: BrokerHarness) -> None:
    store_messages(harness, [b"one", b"two"])
    position = harness.queue("orders")[1].position
    answer = harness.request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessage(position))
    assert (bodies(answer), answer.code) == ([b"two"], 0)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-(1 << 63), FOR_EVER) | st.integers(-10, 500), max_size=20))
def test_no_place_but_that_of_a_message_gives_anything(places: list[int]) -> None:
    harness = BrokerHarness()
    make_topic(harness)
    store_messages(harness, [b"one", b"two"])
    known = {record.position for record in harness.queue("orders")}
    for place in places:
        answer = harness.request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessage(place))
        assert answer.code == (0 if place in known else 1)


def index(
    harness: BrokerHarness, start: int = 0, count: int = 10, group: str | None = None, topic: str = "orders"
) -> ConsumeQueuePart:
    """Look at the index of the first queue."""
    answer = harness.request(RequestCode.QUERY_CONSUME_QUEUE, QueryConsumeQueue(topic, 0, start, count, group))
    assert answer.code == 0, answer.remark
    return decode_body(ConsumeQueuePart, answer.body)


def test_the_index_of_a_queue_can_be_looked_at_with_what_a_group_would_get(harness: BrokerHarness) -> None:
    for tag in "AB":
        store_messages(harness, [b"x"], tag=tag)
    view = index(harness)
    assert (view.min_index, view.max_index, view.filter_text) == (0, 2, None)
    assert [(entry.position, entry.size, entry.tags_code) for entry in view.entries or ()] == [
        (record.position, record.size, code) for record, code in zip(harness.queue("orders"), (65, 66), strict=True)
    ]
    assert index(harness, group="billing").filter_text == "billing@orders is not online!"
    send_heartbeat(harness, "a", harness.peer, subscriptions=[SubscriptionBody(topic="orders", expression="B")])
    seen = index(harness, group="billing")
    assert [entry.matches for entry in seen.entries or ()] == [False, True]
    assert seen.subscription is not None


def test_any_part_of_an_index_may_be_asked_for_and_only_so_much_comes(harness: BrokerHarness) -> None:
    store_messages(harness, [b"x"] * 1_500)
    counts = {
        (start, count): len(index(harness, start, count).entries or ())
        for start in (-(1 << 63), 0, 1_499, 1_500, FOR_EVER)
        for count in (-1, 0, 1, 2_147_483_647)
    }
    assert max(counts.values()) == 1_024
    assert (counts[1_499, 2_147_483_647], counts[FOR_EVER, 1], counts[0, -1]) == (1, 0, 0)
    for topic, queue_id in (("nowhere", 0), ("orders", 1), ("orders", -1)):
        assert harness.request(RequestCode.QUERY_CONSUME_QUEUE, QueryConsumeQueue(topic, queue_id, 0, 1)).code == 1
