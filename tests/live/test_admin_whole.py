"""A cluster as a whole: its throughput and latency, what its name servers keep, and its export."""

import msgspec
import pytest

from steelyard import Admin, Consumer, Message, Producer
from steelyard.cli.shared.input_files import decode_topics
from steelyard.errors import ConfigurationError, NoPermission, NotFound, TopicNotFound
from tests.live.clusters import Live, until
from tests.live.handled import Handled, send_all, stored

NUMBERS = [str(number) for number in range(40)]


def test_topic_throughput_is_counted(admin: Admin, cluster: Live, producer: Producer, topic: str, group: str) -> None:
    (before,) = admin.topics.throughput(topic)
    assert (before.topic, before.in_day, before.groups) == (topic, 0, ())
    handled = Handled()
    send_all(producer, topic, NUMBERS)
    consumer = Consumer(cluster.namesrv, group=group, start_from="first")
    consumer.handles(topic)(handled)
    with consumer:
        handled.wait(40)
        until(lambda: sum(row.lag for row in admin.offsets.list(group, topic)) == 0, "all is committed")
    send_all(producer, topic, NUMBERS[:8])
    until(lambda: admin.topics.describe(topic).messages == 48, "all are indexed")
    (rates,) = admin.topics.throughput(topic)
    assert [(each.group, each.lag) for each in rates.groups] == [(group, 8)]
    if cluster.is_ours:
        assert (rates.in_day, rates.groups[0].out_day) == (48, 40)
        assert rates.in_tps > 0
    assert topic in {each.topic for each in admin.topics.throughput()}
    with pytest.raises(TopicNotFound):
        admin.topics.throughput(f"{topic}-nowhere")


def test_every_broker_reports_its_throughput(admin: Admin, cluster: Live, producer: Producer, topic: str) -> None:
    def today() -> int:
        return sum(each.in_today or 0 for each in admin.brokers.throughput())

    # A broker of 4.9 fails to answer in its first second.
    until(lambda: not any(each.problem for each in admin.brokers.throughput()), "all answer")
    before = today()
    stored(admin, producer.send(Message(topic, b"x")))
    until(lambda: today() > before, "it is counted")
    found = admin.brokers.throughput()
    assert [(each.broker, each.id) for each in found] == [(name, 0) for name in cluster.brokers]
    for each in found:
        assert each.problem is None
        assert each.version
        assert None not in (each.in_today, each.out_today, each.in_yesterday, each.out_yesterday, each.up)
        if cluster.is_ours:  # Apache's report no rates before they ran for a while
            assert None not in (each.in_tps, each.out_tps)


def test_a_broker_is_probed_with_a_message_that_no_user_sees(admin: Admin, cluster: Live) -> None:
    topics = {each.name for each in admin.topics.list()}
    for broker in cluster.brokers:
        assert admin.brokers.probe(broker) > 0
        assert admin.brokers.probe(broker, size=4_096) > 0
    assert {each.name for each in admin.topics.list()} == topics
    with pytest.raises(ConfigurationError, match="cannot have 0 bytes"):
        admin.brokers.probe(cluster.brokers[0], size=0)


def test_name_servers_keep_values(admin: Admin, group: str) -> None:
    assert admin.name_servers.key_values(group) == {}
    admin.name_servers.set_key_value(group, "colour", "green = blue; ü")
    assert admin.name_servers.key_value(group, "colour") == "green = blue; ü"
    assert admin.name_servers.key_values(group) == {"colour": "green = blue; ü"}
    with pytest.raises(NotFound, match=f"no key 'color' in namespace '{group}'; did you mean 'colour'?"):
        admin.name_servers.key_value(group, "color")
    admin.name_servers.delete_key_value(group, "colour")
    assert admin.name_servers.key_values(group) == {}
    with pytest.raises(NotFound):
        admin.name_servers.delete_key_value(group, "colour")


def test_settings_of_name_servers_are_seen_and_changed(admin: Admin, cluster: Live) -> None:
    (before,) = admin.name_servers.config().values()
    was = before["orderMessageEnable"]
    try:
        for value in ("true", "false"):
            admin.name_servers.set_config({"orderMessageEnable": value})
            assert admin.name_servers.config(["orderMessageEnable"]) == {cluster.namesrv: {"orderMessageEnable": value}}
    finally:
        admin.name_servers.set_config({"orderMessageEnable": was})
    with pytest.raises(NotFound, match=r"no setting 'orderMesageEnable'\. Did you mean 'orderMessageEnable'\?"):
        admin.name_servers.set_config({"orderMesageEnable": "true"})
    if not cluster.is_4:
        with pytest.raises(NoPermission):
            admin.name_servers.set_config({"configBlackList": ""})


def test_an_export_is_whole_and_makes_the_same_topics_again(
    admin: Admin, cluster: Live, topic: str, group: str
) -> None:
    admin.groups.create(group, retries=3)
    admin.topics.create(f"{topic}-one", 2, brokers=[cluster.brokers[0]], write=False)
    found = admin.export()
    topics = {each["topicName"]: each for each in found.topics}
    assert (topics[topic]["readQueueNums"], topics[topic]["perm"], "brokers" in topics[topic]) == (4, 6, False)
    assert topics[f"{topic}-one"]["brokers"] == [cluster.brokers[0]]
    assert not {"TBW102", cluster.brokers[0]} & topics.keys()
    groups = {each["groupName"]: each for each in found.groups}
    assert groups[group]["retryMaxTimes"] == 3
    assert found.settings["brokers"][cluster.brokers[1]]["brokerName"] == cluster.brokers[1]
    assert "orderMessageEnable" in found.settings["name_servers"][cluster.namesrv]
    assert {each.broker for each in found.metrics.brokers} == set(cluster.brokers)
    assert topic in {each.topic for each in found.metrics.topics}

    mine = [each for each in found.topics if each["topicName"].startswith(topic)]
    for each in mine:
        admin.topics.delete(each["topicName"])
    plan = admin.topics.apply(admin.topics.plan(decode_topics(msgspec.json.encode(mine))))
    assert {each.what for each in plan.changes} == {"create"}
    again = admin.export()
    assert [each for each in again.topics if each["topicName"].startswith(topic)] == mine
