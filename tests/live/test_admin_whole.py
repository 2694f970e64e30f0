"""A cluster as a whole: what passes, how fast it is, what its name servers keep, and all of it taken along."""

import msgspec
import pytest
from tests.live.clusters import Live, until
from tests.live.handled import Handled, send_all, stored

from steelyard import Admin, Consumer, Message, Producer
from steelyard.cli.topic.wish_file import wishes_in
from steelyard.errors import ConfigurationError, NoPermission, NotFound, TopicNotFound

NUMBERS = [str(number) for number in range(40)]


def test_what_comes_in_and_goes_out_is_counted(
    admin: Admin, cluster: Live, producer: Producer, topic: str, group: str
) -> None:
    (before,) = admin.topic_flows(topic)
    assert (before.topic, before.in_day, before.groups) == (topic, 0, ())
    handled = Handled()
    send_all(producer, topic, NUMBERS)
    consumer = Consumer(cluster.namesrv, group=group, start_from="first")
    consumer.handles(topic)(handled)
    with consumer:
        handled.wait(40)
        until(lambda: sum(row.lag for row in admin.offsets(group, topic)) == 0, "all is committed")
    send_all(producer, topic, NUMBERS[:8])
    until(lambda: admin.topic(topic).messages == 48, "all are indexed")
    (flow,) = admin.topic_flows(topic)
    assert [(each.group, each.lag) for each in flow.groups] == [(group, 8)]
    if cluster.is_ours:
        assert (flow.in_day, flow.groups[0].out_day) == (48, 40)
        assert flow.in_tps > 0
    assert topic in {each.topic for each in admin.topic_flows()}
    with pytest.raises(TopicNotFound):
        admin.topic_flows(f"{topic}-nowhere")


def test_every_server_tells_what_passes_through_it(admin: Admin, cluster: Live, producer: Producer, topic: str) -> None:
    def today() -> int:
        return sum(each.in_today or 0 for each in admin.broker_flows())

    # A broker of 4.9 fails to answer in its first second.
    until(lambda: not any(each.problem for each in admin.broker_flows()), "all answer")
    before = today()
    stored(admin, producer.send(Message(topic, b"x")))
    until(lambda: today() > before, "it is counted")
    flows = admin.broker_flows()
    assert [(each.broker, each.id) for each in flows] == [(name, 0) for name in cluster.brokers]
    for each in flows:
        assert each.problem is None
        assert each.version
        assert None not in (each.in_today, each.out_today, each.in_yesterday, each.out_yesterday, each.up)
        if cluster.is_ours:  # Apache's do not tell of rates before they ran for a while
            assert None not in (each.in_tps, each.out_tps)


def test_a_broker_is_probed_with_a_message_that_no_user_sees(admin: Admin, cluster: Live) -> None:
    topics = {each.name for each in admin.topics()}
    for broker in cluster.brokers:
        assert admin.probe(broker) > 0
        assert admin.probe(broker, size=4_096) > 0
    assert {each.name for each in admin.topics()} == topics
    with pytest.raises(ConfigurationError, match="cannot have 0 bytes"):
        admin.probe(cluster.brokers[0], size=0)


def test_name_servers_keep_values(admin: Admin, group: str) -> None:
    assert admin.key_values(group) == {}
    admin.set_key_value(group, "colour", "green = blue; ü")
    assert admin.key_value(group, "colour") == "green = blue; ü"
    assert admin.key_values(group) == {"colour": "green = blue; ü"}
    with pytest.raises(NotFound, match=f"nothing under 'color' in namespace '{group}'; did you mean 'colour'?"):
        admin.key_value(group, "color")
    admin.delete_key_value(group, "colour")
    assert admin.key_values(group) == {}
    with pytest.raises(NotFound):
        admin.delete_key_value(group, "colour")


def test_settings_of_name_servers_are_seen_and_changed(admin: Admin, cluster: Live) -> None:
    (before,) = admin.name_server_config().values()
    was = before["orderMessageEnable"]
    try:
        for value in ("true", "false"):
            admin.set_name_server_config({"orderMessageEnable": value})
            assert admin.name_server_config(["orderMessageEnable"]) == {cluster.namesrv: {"orderMessageEnable": value}}
    finally:
        admin.set_name_server_config({"orderMessageEnable": was})
    with pytest.raises(NotFound, match=r"no setting 'orderMesageEnable'\. Did you mean 'orderMessageEnable'\?"):
        admin.set_name_server_config({"orderMesageEnable": "true"})
    if not cluster.is_4:
        with pytest.raises(NoPermission):
            admin.set_name_server_config({"configBlackList": ""})


def test_an_export_is_whole_and_makes_the_same_topics_again(
    admin: Admin, cluster: Live, topic: str, group: str
) -> None:
    admin.create_group(group, retries=3)
    admin.create_topic(f"{topic}-one", 2, brokers=[cluster.brokers[0]], write=False)
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
        admin.delete_topic(each["topicName"])
    plan = admin.apply_topics(admin.plan_topics(wishes_in(msgspec.json.encode(mine))))
    assert {each.what for each in plan.changes} == {"create"}
    again = admin.export()
    assert [each for each in again.topics if each["topicName"].startswith(topic)] == mine
