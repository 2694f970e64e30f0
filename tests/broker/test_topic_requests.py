"""Topics, as administrators make, change, list and delete them."""

from collections.abc import Mapping

import pytest

from steelyard.model.reserved_names import DEFAULT_TOPIC
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.common import GroupNames, TopicNames
from steelyard.wire.bodies.topics import TopicConfig, TopicConfigList, TopicConfigTable
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command
from tests.broker.broker_harness import BrokerHarness, message

REFUSED = ResponseCode.INVALID_PARAMETER


@pytest.fixture
def harness() -> BrokerHarness:
    return BrokerHarness()


def create(harness: BrokerHarness, topic: str, **fields: str) -> Command:
    """Ask as Java's 5.5 does."""
    asked = {
        "topic": topic,
        "defaultTopic": DEFAULT_TOPIC,
        "readQueueNums": "4",
        "writeQueueNums": "4",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
        "attributes": "",
        "force": "false",
    }
    return harness.request(Code.UPDATE_AND_CREATE_TOPIC, asked | fields)


def settings(harness: BrokerHarness, topic: str) -> TopicConfig:
    answer = harness.request(Code.GET_TOPIC_CONFIG, {"topic": topic, "lo": "true"})
    assert answer.code == 0, answer.remark
    return decode_body(TopicConfig, answer.body)


def names(harness: BrokerHarness, fields: Mapping[str, str]) -> tuple[list[str], int, str]:
    """Ask for a page of topics; return their names, how many there are in all, and the version as JSON."""
    answer = harness.request(Code.GET_ALL_TOPIC_CONFIG, fields)
    table = decode_body(TopicConfigTable, answer.body)
    assert table.version is not None
    return list(table.topics), int(answer.texts()["totalTopicNum"]), encode_body(table.version).decode()


def test_a_topic_is_made_and_changed(harness: BrokerHarness) -> None:
    assert create(harness, "orders").code == 0
    assert settings(harness, "orders") == TopicConfig(name="orders", read_queues=4, write_queues=4, attributes={})
    assert create(harness, "orders", readQueueNums="8", perm="4", order="true", topicFilterType="MULTI_TAG").code == 0
    changed = settings(harness, "orders")
    assert (changed.read_queues, changed.write_queues, changed.permission) == (8, 4, 4)
    assert (changed.order, changed.filter_type) == (True, "MULTI_TAG")


def test_java_4_says_less_of_a_topic(harness: BrokerHarness) -> None:
    asked = {"topic": "orders", "defaultTopic": DEFAULT_TOPIC, "readQueueNums": "2", "writeQueueNums": "2"}
    assert harness.request(17, {**asked, "perm": "6", "topicFilterType": "SINGLE_TAG", "order": "false"}).code == 0
    assert settings(harness, "orders").read_queues == 2


def test_the_same_again_changes_nothing(harness: BrokerHarness) -> None:
    create(harness, "orders")
    version = harness.state.topics.version
    create(harness, "orders")
    assert harness.state.topics.version == version


def test_groups_begin_in_new_queues_at_the_first_message_whether_they_run_or_not(harness: BrokerHarness) -> None:
    create(harness, "orders")
    harness.state.offsets.put("billing", "orders", 0, 7)
    harness.state.offsets.put("audit", "refunds", 0, 7)
    create(harness, "orders", readQueueNums="6", writeQueueNums="6")
    assert harness.state.offsets.committed_in("billing", "orders") == {0: 7, 4: 0, 5: 0}
    assert harness.state.offsets.topics_of("audit") == ["refunds"]
    harness.state.offsets.put("billing", "orders", 5, 3)
    for queues in "482":
        create(harness, "orders", readQueueNums=queues, writeQueueNums=queues)
    assert harness.state.offsets.committed_in("billing", "orders") == {0: 7, 4: 0, 5: 3, 6: 0, 7: 0}, (
        "what was read stays read"
    )


def test_a_topic_does_not_grow_by_more_offsets_of_groups_than_are_set_at_a_time(harness: BrokerHarness) -> None:
    create(harness, "orders")
    for number in range(20):
        harness.state.offsets.put(f"group-{number}", "orders", 0, 7)
    refused = create(harness, "orders", readQueueNums="65536", writeQueueNums="65536")
    assert (refused.code, "add fewer queues at a time" in (refused.remark or "")) == (1, True)
    assert settings(harness, "orders").read_queues == 4
    assert harness.state.offsets.committed_in("group-1", "orders") == {0: 7}
    assert create(harness, "orders", readQueueNums="4000", writeQueueNums="4000").code == 0
    assert len(harness.state.offsets.committed_in("group-19", "orders")) == 1 + 3_996


def test_topics_of_a_list_grow_together_or_not_at_all(harness: BrokerHarness) -> None:
    for topic in ("orders", "refunds"):
        create(harness, topic)
        for number in range(20):
            harness.state.offsets.put(f"group-{number}", topic, 0, 7)

    def grow(queues: int) -> int:
        topics = [TopicConfig(name=name, read_queues=queues, write_queues=queues) for name in ("orders", "refunds")]
        body = encode_body(TopicConfigList(topics=tuple(topics)))
        return harness.request(Code.UPDATE_AND_CREATE_TOPIC_LIST, {}, body).code

    assert grow(4_000) == 1
    assert settings(harness, "orders").read_queues == 4
    assert grow(1_000) == 0
    assert [len(harness.state.offsets.committed_in("group-0", topic)) for topic in ("orders", "refunds")] == [997, 997]


def test_new_queues_leave_half_of_the_room_to_offsets_that_groups_commit(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.broker.offsets._MAX_BYTES", 1_000)
    create(harness, "orders")
    harness.state.offsets.put("billing", "orders", 0, 7)
    assert create(harness, "orders", readQueueNums="64").code == 1
    assert create(harness, "orders", readQueueNums="20").code == 0
    harness.state.offsets.put("audit", "orders", 0, 7)


def test_attributes_are_changed_one_by_one(harness: BrokerHarness) -> None:
    create(harness, "orders", attributes="+message.type=FIFO,+reserve.time=5")
    assert settings(harness, "orders").attributes == {"message.type": "FIFO", "reserve.time": "5"}
    create(harness, "orders", attributes="+message.type=DELAY,-reserve.time")
    assert settings(harness, "orders").attributes == {"message.type": "DELAY"}
    create(harness, "orders")
    assert settings(harness, "orders").attributes == {"message.type": "DELAY"}


@pytest.mark.parametrize(
    "attributes",
    [
        *("message.type=FIFO", "+message.type=LATER", "-message.type", "+message.type=FIFO,+message.type=DELAY"),
        *("+cleanup.policy=COMPACTION", "+reserve.time=-2", "+reserve.time=" + "9" * 30_000),
        *("+=", "+x=1", ",", "+"),
    ],
)
def test_attributes_that_mean_nothing_are_refused(harness: BrokerHarness, attributes: str) -> None:
    answer = create(harness, "orders", attributes=attributes)
    assert (answer.code, harness.state.topics.get("orders")) == (REFUSED, None)
    assert "attributes" in (answer.remark or "")


@pytest.mark.parametrize(
    "fields",
    [{"perm": "-1"}, {"perm": "16"}, {"topicFilterType": "ALL"}, {"readQueueNums": "-1"}, {"writeQueueNums": "70000"}],
)
def test_settings_that_cannot_be_are_refused(harness: BrokerHarness, fields: dict[str, str]) -> None:
    assert create(harness, "orders", **fields).code == REFUSED
    assert harness.state.topics.get("orders") is None


OWN = (DEFAULT_TOPIC, "SCHEDULE_TOPIC_XXXX", "DefaultCluster", "broker-0", "DefaultCluster_REPLY_TOPIC", "rmq_sys_x")


@pytest.mark.parametrize("name", [*OWN, "", "with space", "../x", "x" * 128])
def test_names_that_are_taken_or_bad_are_refused(harness: BrokerHarness, name: str) -> None:
    before = harness.state.topics.get(name)
    assert create(harness, name).code == REFUSED
    assert harness.request(Code.DELETE_TOPIC_IN_BROKER, {"topic": name}).code == REFUSED
    assert harness.state.topics.get(name) == before


def test_many_topics_are_made_together(harness: BrokerHarness) -> None:
    wanted = TopicConfigList(
        topics=(TopicConfig(name="a", attributes={"+message.type": "FIFO"}), TopicConfig(name="b"))
    )
    assert harness.request(Code.UPDATE_AND_CREATE_TOPIC_LIST, body=encode_body(wanted)).code == 0
    assert settings(harness, "a").attributes == {"message.type": "FIFO"}
    assert settings(harness, "b").read_queues == 16


def test_one_bad_name_among_many_makes_none(harness: BrokerHarness) -> None:
    wanted = TopicConfigList(topics=(TopicConfig(name="a"), TopicConfig(name="b c")))
    assert harness.request(Code.UPDATE_AND_CREATE_TOPIC_LIST, body=encode_body(wanted)).code == REFUSED
    assert harness.state.topics.get("a") is None


def test_a_topic_that_is_not_there_is_said_to_be_so(harness: BrokerHarness) -> None:
    assert harness.request(Code.GET_TOPIC_CONFIG, {"topic": "orders"}).code == ResponseCode.TOPIC_NOT_EXIST


def test_all_topics_are_told_to_who_asks_without_pages(harness: BrokerHarness) -> None:
    create(harness, "orders")
    found, total, _ = names(harness, {})
    assert {"orders", DEFAULT_TOPIC} <= set(found)
    assert total == len(found) == len(harness.state.topics)


def test_pages_together_are_all_topics(harness: BrokerHarness) -> None:
    for number in range(5):
        create(harness, f"orders-{number}")
    found: list[str] = []
    version = ""
    total = 1
    while len(found) < total:
        fields = {"topicSeq": str(len(found)), "dataVersion": version, "maxTopicNum": "4"}
        page, total, version = names(harness, fields)
        assert len(page) <= 4
        found += page
    assert found == sorted(topic.name for topic in harness.state.topics)


def test_a_page_of_another_version_begins_anew(harness: BrokerHarness) -> None:
    first, _, version = names(harness, {"topicSeq": "0", "dataVersion": "", "maxTopicNum": "3"})
    create(harness, "orders")
    again, _, _ = names(harness, {"topicSeq": "3", "dataVersion": version, "maxTopicNum": "3"})
    assert again == first
    for broken in ("{", "[]", "null", '{"counter":"x"}', "x" * 1000):
        assert names(harness, {"topicSeq": "3", "dataVersion": broken, "maxTopicNum": "3"})[0] == first
    assert names(harness, {"topicSeq": "-7", "dataVersion": version, "maxTopicNum": "-1"})[0] == first[:1]


def test_a_deleted_topic_takes_messages_and_offsets_along(harness: BrokerHarness) -> None:
    create(harness, "orders")
    harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"body")
    harness.state.offsets.put("billing", "orders", 0, 1)
    assert harness.request(Code.DELETE_TOPIC_IN_BROKER, {"topic": "orders"}).code == 0
    assert harness.state.topics.get("orders") is None
    assert harness.state.offsets.get("billing", "orders", 0) is None
    assert harness.topic("orders") == []
    assert harness.state.traffic.topic_counter("orders") is None
    assert harness.request(Code.DELETE_TOPIC_IN_BROKER, {"topic": "orders"}).code == 0
    harness.restart()
    assert harness.state.topics.get("orders") is None
    assert harness.topic("orders") == []


def test_groups_with_offsets_are_known_to_consume_a_topic(harness: BrokerHarness) -> None:
    harness.state.offsets.put("billing", "orders", 0, 1)
    harness.state.offsets.put("audit", "orders", 0, 1)
    harness.state.offsets.put("audit", "returns", 0, 1)
    answer = harness.request(Code.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "orders"})
    assert decode_body(GroupNames, answer.body).groups == ("audit", "billing")


def test_users_see_their_own_topics_apart_from_the_brokers(harness: BrokerHarness) -> None:
    create(harness, "orders")
    answer = harness.request(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    system = set(decode_body(TopicNames, answer.body).topics)
    assert {topic.name for topic in harness.state.topics} - system == {"orders"}
    assert set(OWN[:5]) <= system


@pytest.mark.parametrize(
    "code", [Code.CLEAN_EXPIRED_CONSUMEQUEUE, Code.CLEAN_UNUSED_TOPIC, Code.DELETE_EXPIRED_COMMITLOG]
)
def test_cleaning_takes_nothing_that_is_used(harness: BrokerHarness, code: Code) -> None:
    create(harness, "orders")
    harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"body")
    assert harness.request(code).code == 0
    assert len(harness.topic("orders")) == 1


def test_cleaning_takes_messages_without_a_topic(harness: BrokerHarness) -> None:
    create(harness, "orders")
    harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"body")
    harness.state.topics.remove("orders", harness.now_ms)
    assert harness.request(Code.CLEAN_UNUSED_TOPIC).code == 0
    assert harness.topic("orders") == []
