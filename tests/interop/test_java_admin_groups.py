"""Apache's administrator's tool reads and changes groups, messages and figures of ours as it does Apache's."""

import re

import pytest

from tests.interop.clients import until
from tests.interop.java_clients import JavaClients
from tests.interop.mqadmin import Mqadmin, Output
from tests.interop.shop import Shop, open_shop

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def shop(hands: JavaClients, topic: str, group: str) -> Shop:
    """Open a shop for this test."""
    return open_shop(hands, topic, group)


def test_groups_are_made_and_removed(hands: JavaClients, mqadmin: Mqadmin, group: str) -> None:
    made = mqadmin("updateSubGroup", "-c", hands.cluster.cluster_name, "-g", group, "-r", 3, "-q", 2)
    assert f"create subscription group to {hands.cluster.broker} success." in made.lines
    settings = mqadmin("getConsumerConfig", "-g", group).pairs()
    facts = {"groupName": group, "retryMaxTimes": "3", "retryQueueNums": "2", "consumeEnable": "true", "brokerId": "0"}
    assert {name: settings[name] for name in facts} == facts
    removed = mqadmin("deleteSubGroup", "-b", hands.cluster.broker, "-g", group).out
    assert f"delete subscription group [{group}] from broker [{hands.cluster.broker}] success." in removed
    if hands.cluster.is_ours:
        assert mqadmin("getConsumerConfig", "-g", group).lines == []  # Apache's 5.5.0 still shows one


def test_progress_of_groups_is_shown(hands: JavaClients, mqadmin: Mqadmin, shop: Shop) -> None:
    release = "V" + hands.process.release.replace(".", "_")
    groups = {row[0]: row[1:] for row in mqadmin("consumerProgress").rows()}
    assert (groups[shop.buyers][:4], groups[shop.buyers][-1]) == (["1", release, "PUSH", "CLUSTERING"], "0")
    assert (groups[shop.idlers][:2], groups[shop.idlers][-1]) == (["0", "OFFLINE"], "1")
    assert _progress(mqadmin("consumerProgress", "-g", shop.buyers), shop.topic) == ["2 2 0", "2 2 0", "2 2 0", "3 3 0"]
    assert _progress(mqadmin("consumerProgress", "-g", shop.idlers), shop.topic) == ["2 2 0", "2 2 0", "2 2 0", "3 2 1"]
    assert "CODE: 17" in mqadmin.run("consumerProgress", "-g", f"{shop.buyers}-nobody").err


def test_members_are_shown(hands: JavaClients, mqadmin: Mqadmin, shop: Shop) -> None:
    member, release = shop.consumer.client_id, "V" + hands.process.release.replace(".", "_")
    shown = mqadmin("consumerConnection", "-g", shop.buyers)
    (row,) = (row for row in shown.rows() if row[0] == member)
    assert row[2:] == ["JAVA", release]
    assert {(shop.topic, "*"), (f"%RETRY%{shop.buyers}", "*")} <= {tuple(row) for row in shown.rows()}
    facts = {"ConsumeType": "CONSUME_PASSIVELY", "MessageModel": "CLUSTERING"}
    assert facts.items() <= shown.pairs().items()
    assert "CODE: 206" in mqadmin.run("consumerConnection", "-g", shop.idlers).err

    state = mqadmin("consumerStatus", "-g", shop.buyers)
    assert {"Same subscription in the same group of consumer", "Rebalance OK"} <= set(state.lines)
    assert ["1", member, release] in [row[:3] for row in state.rows()]
    alone = mqadmin("consumerStatus", "-g", shop.buyers, "-i", member)
    assert alone.pairs()["PROP_CLIENT_VERSION"] == release
    held = {tuple(row[:4]) for row in alone.rows() if row[0] == shop.topic and len(row) == 4}
    assert held == {(shop.topic, hands.cluster.broker_name, str(n), "3" if n == 3 else "2") for n in range(4)}

    me = re.compile(rf"\({shop.sellers}\) instance : clientId={shop.producer.client_id},")
    until(lambda: mqadmin("producer", "-b", hands.cluster.broker).out, lambda out: me.search(out) is not None)
    (connection,) = mqadmin("producerConnection", "-g", shop.sellers, "-t", shop.topic).rows()
    assert (connection[1], connection[3:]) == (shop.producer.client_id, ["JAVA", release])
    assert "CODE: 1 " in mqadmin.run("producerConnection", "-g", "nobody", "-t", shop.topic).err


def test_messages_are_found_and_shown(hands: JavaClients, mqadmin: Mqadmin, shop: Shop) -> None:
    topic, broker, sent = shop.topic, hands.cluster.broker_name, shop.sent[5]
    by_place = ("-t", topic) if not hands.process.is_4 else ()
    found = until(
        lambda: mqadmin.run("queryMsgByKey", "-t", topic, "-k", "k5").rows(), lambda rows: rows != []
    )  # Apache's broker indexes in its own time
    assert [row[:3] for row in found] == [[sent.id, "1", "1"]]
    for shown in (
        mqadmin("queryMsgById", "-i", sent.offset_id, *by_place),
        mqadmin("queryMsgByUniqueKey", "-t", topic, "-i", sent.id),
        mqadmin("queryMsgByOffset", "-t", topic, "-b", broker, "-i", 1, "-o", 1),
    ):
        facts = shown.pairs()
        assert (facts["Topic"], facts["Tags"], facts["Keys"]) == (topic, "[T]", "[k5 all]")
        assert (facts["Queue ID"], facts["Queue Offset"], facts["Store Host"]) == ("1", "1", hands.cluster.broker)
        assert f"UNIQ_KEY={sent.id}" in facts["Properties"]
        assert f"consumerGroup={shop.buyers}, trackType=CONSUMED" in shown.out
        assert f"consumerGroup={shop.idlers}, trackType=NOT_ONLINE" in shown.out
    assert "CODE: 208" in mqadmin.run("queryMsgByKey", "-t", topic, "-k", "nobody").err


def test_a_message_is_pushed_to_a_member(mqadmin: Mqadmin, shop: Shop) -> None:
    words = ("-t", shop.topic, "-i", shop.sent[2].id, "-g", shop.buyers, "-d", shop.consumer.client_id)
    assert "consumeResult=CR_SUCCESS" in mqadmin("queryMsgByUniqueKey", *words).out
    again = shop.consumer.wait(10)[-1]
    assert (again.body, again.queue, again.offset) == ("body 2", 2, 0)


def test_a_topic_is_printed_sent_to_and_read(hands: JavaClients, mqadmin: Mqadmin, shop: Shop) -> None:
    topic, broker = shop.topic, hands.cluster.broker_name
    assert _ids(mqadmin("printMsg", "-t", topic, "-d", "true")) == sorted(each.id for each in shop.sent)
    queue = ("-t", topic, "-a", broker, "-i", 3)
    printed = mqadmin("printMsgByQueue", *queue, "-p", "true", "-d", "true", "-f", "true")
    assert _ids(printed) == sorted(each.id for each in shop.sent if each.queue == 3)
    assert re.search(r"Tag: T\s+Count: 3", printed.out)
    (sent,) = mqadmin("sendMessage", "-t", topic, "-p", "hello", "-b", broker, "-i", 2).rows()
    assert sent[:3] == [broker, "2", "SEND_OK"]
    read = mqadmin("consumeMessage", "-t", topic, "-b", broker, "-i", 2, "-o", 1, "-c", 2)
    assert sent[3] in _ids(read)
    entries = mqadmin("queryCq", "-t", topic, "-q", 3, "-i", 0, "-c", 3, "-b", hands.cluster.broker).out
    assert entries.count(f"tagsCode={ord('T')}") == 3
    assert "max: 3, min: 0" in entries


def test_a_group_that_went_away_is_moved(mqadmin: Mqadmin, shop: Shop) -> None:
    group, topic = shop.idlers, shop.topic
    mqadmin("resetOffsetByTime", "-g", group, "-t", topic, "-s", "0")
    assert _progress(mqadmin("consumerProgress", "-g", group), topic) == ["2 0 2", "2 0 2", "2 0 2", "3 0 3"]
    mqadmin("skipAccumulatedMessage", "-g", group, "-t", topic)
    assert _progress(mqadmin("consumerProgress", "-g", group), topic) == ["2 2 0", "2 2 0", "2 2 0", "3 3 0"]


def test_figures_of_all_topics_are_shown(mqadmin: Mqadmin, shop: Shop) -> None:
    rows = {row[1]: row[2] for row in mqadmin("statsAll", "-t", shop.topic).rows() if row[0] == shop.topic}
    assert rows == {shop.buyers: "0", shop.idlers: "1"}
    assert shop.topic in {row[0] for row in mqadmin("statsAll").rows()}


def _progress(shown: Output, topic: str) -> list[str]:
    """Return the end, the offset and the difference of each queue."""
    return [" ".join(row[3:6]) for row in shown.rows() if row[0] == topic]


def _ids(shown: Output) -> list[str]:
    return sorted(re.findall(r"^MSGID: (\w+)", shown.out, re.MULTILINE))
