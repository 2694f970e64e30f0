"""The table of topics: what is there from the start, what a send makes, and what a crash cannot lose."""

import pytest
from msgspec import structs

from steelyard.broker.options import BrokerOptions
from steelyard.broker.topics import INHERIT, READ, WRITE, BrokerTopics
from steelyard.errors import InvalidParameter, ServerFailed, TopicNotFound
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.topics import TopicConfig, TopicConfigTable

_NOW = 1_700_000_000_000


def table(options: BrokerOptions | None = None, saved: TopicConfigTable | None = None) -> BrokerTopics:
    """Return a table of topics."""
    return BrokerTopics(options or BrokerOptions(), saved, (), _NOW)


def test_the_topics_of_a_fresh_broker_are_apaches() -> None:
    counts = {topic.name: (topic.read_queues, topic.settings.permission) for topic in table()}
    assert counts["TBW102"] == (8, 7)
    assert counts["BenchmarkTest"] == (1024, 6)
    assert counts["SCHEDULE_TOPIC_XXXX"] == (18, 6)
    assert counts["DefaultCluster"] == (16, 7)
    assert counts["broker-0"] == (1, 7)
    assert counts["RMQ_SYS_TRANS_HALF_TOPIC"] == (1, 6)
    assert counts["DefaultCluster_REPLY_TOPIC"] == (1, 6)


def test_a_send_makes_its_topic_after_the_default_topic() -> None:
    topics = table()
    before = topics.version.counter
    made = topics.get_or_create_for_send("orders", "TBW102", 4, _NOW)
    assert (made.read_queues, made.write_queues, made.settings.permission) == (4, 4, READ | WRITE)
    assert topics.version.counter == before + 1
    assert topics.get_or_create_for_send("orders", "TBW102", 8, _NOW) is made


@pytest.mark.parametrize(("wanted", "given"), [(0, 1), (-5, 1), (3, 3), (100, 8)])
def test_a_made_topic_has_at_most_the_queues_of_its_pattern(wanted: int, given: int) -> None:
    assert table().get_or_create_for_send("orders", "TBW102", wanted, _NOW).queues == given


def test_without_a_pattern_no_topic_is_made_but_retry_topics() -> None:
    topics = table(BrokerOptions(auto_create_topics=False))
    assert topics.get("TBW102") is None
    with pytest.raises(TopicNotFound) as caught:
        topics.get_or_create_for_send("orders", "TBW102", 4, _NOW)
    assert caught.value.code == 17
    assert topics.get_or_create_for_send("%RETRY%g", "TBW102", 4, _NOW).queues == 1


def test_a_topic_that_is_no_pattern_gives_nothing_to_inherit() -> None:
    topics = table()
    topics.get_or_create_for_send("orders", "TBW102", 4, _NOW)
    with pytest.raises(TopicNotFound):
        topics.get_or_create_for_send("bills", "orders", 4, _NOW)


def test_bad_names_and_counts_make_nothing() -> None:
    topics = table()
    before = len(topics)
    with pytest.raises(InvalidParameter):
        topics.get_or_create_for_send("../etc", "TBW102", 4, _NOW)
    for count in (-1, 65_537):
        with pytest.raises(InvalidParameter):
            topics.put(TopicConfig(name="orders", read_queues=count), _NOW)
    assert (len(topics), topics.changes) == (before, 0)


def test_there_are_not_more_topics_than_allowed() -> None:
    topics = table(BrokerOptions(max_topics=len(table()) + 1))
    topics.get_or_create_for_send("orders", "TBW102", 4, _NOW)
    with pytest.raises(ServerFailed):
        topics.get_or_create_for_send("bills", "TBW102", 4, _NOW)
    topics.put(structs.replace(topics["orders"].settings, permission=READ), _NOW)


def test_the_same_settings_again_change_nothing() -> None:
    topics = table()
    made = topics.get_or_create_for_send("orders", "TBW102", 4, _NOW)
    changes, version = topics.changes, topics.version
    topics.put(made.settings, _NOW + 1)
    assert (topics.changes, topics.version) == (changes, version)


def test_a_saved_table_comes_back_with_a_newer_version() -> None:
    topics = table()
    topics.get_or_create_for_send("orders", "TBW102", 4, _NOW)
    topics.put(structs.replace(topics["orders"].settings, permission=READ), _NOW)
    saved = decode_body(TopicConfigTable, encode_body(topics.table()))
    again = table(saved=saved)
    assert again["orders"].settings == topics["orders"].settings
    assert not again["orders"].is_writable
    assert again.version.counter > topics.version.counter


def test_a_topic_whose_messages_are_in_the_log_is_never_lost() -> None:
    stored = [(b"orders", 0), (b"orders", 5), (b"TBW102", 3)]
    topics = BrokerTopics(BrokerOptions(), None, stored, _NOW)
    assert topics["orders"].queues == 6
    assert topics["TBW102"].queues == 8


def test_a_removed_topic_is_gone_and_counts_once() -> None:
    topics = table()
    topics.get_or_create_for_send("orders", "TBW102", 4, _NOW)
    assert topics.remove("orders", _NOW)
    assert not topics.remove("orders", _NOW)
    assert topics.get("orders") is None
    assert topics.changes == 2


def test_a_pattern_keeps_its_bit_and_passes_on_the_rest() -> None:
    topics = table()
    topics.put(TopicConfig(name="pattern", write_queues=2, permission=READ | INHERIT, filter_type="MULTI_TAG"), _NOW)
    made = topics.get_or_create_for_send("orders", "pattern", 4, _NOW)
    assert (made.queues, made.settings.permission, made.settings.filter_type) == (2, READ, "MULTI_TAG")
