"""Topics are planned, changed, ordered and listed, on our servers and Apache's."""

import pytest

from steelyard import Admin, Consumer, Message, Producer
from steelyard.client.admin.topic_plan import TopicSpec
from steelyard.errors import ConfigurationError, RequestNotSupported, TopicExists, TopicNotFound
from steelyard.model import Permission
from tests.live.clusters import Live, until
from tests.live.handled import Handled, stored


def test_what_would_change_is_seen_before_and_is_what_changes(admin: Admin, cluster: Live, topic: str) -> None:
    new = f"{topic}-new"
    wishes = [
        TopicSpec(name=topic, write_queues=2, permission=Permission.READ),
        TopicSpec(name=new, queues=3, brokers=(cluster.brokers[1],)),
    ]
    plan = admin.topics.plan(wishes)
    assert [(each.topic, each.broker, each.what, each.details) for each in plan.changes] == [
        (topic, cluster.brokers[0], "change", "4 queues become 4 queues to read and 2 to write; clients may read"),
        (topic, cluster.brokers[1], "change", "4 queues become 4 queues to read and 2 to write; clients may read"),
        (new, cluster.brokers[1], "create", "3 queues"),
    ]
    with pytest.raises(TopicNotFound):
        admin.topics.describe(new)
    admin.topics.apply(plan)
    assert {(each.read, each.write, each.permission) for each in admin.topics.route(topic).counts} == {
        (4, 2, Permission.READ)
    }
    assert len(admin.topics.describe(topic).queues) == 8, "read-only queues are listed, too"
    assert [each.broker for each in admin.topics.route(new).counts] == [cluster.brokers[1]]
    assert {each.what for each in admin.topics.plan(wishes).changes} == {"keep"}
    assert admin.topics.plan(wishes).todo == ()
    with pytest.raises(TopicExists, match="4 queues of it to read and 2 to write, with permission 4"):
        admin.topics.create(topic, 4)


def test_a_topic_that_is_to_be_changed_has_to_be_there(admin: Admin, topic: str) -> None:
    with pytest.raises(TopicNotFound, match=f"Did you mean '{topic}'"):
        admin.topics.plan([TopicSpec(name=f"{topic}x", queues=1)], only_existing=True)


def test_settings_of_a_topic_are_listed_by_broker(admin: Admin, cluster: Live, topic: str) -> None:
    setups = admin.topics.configs(topic)
    assert sorted(setups) == sorted(cluster.brokers)
    assert {(each.read_queues, each.write_queues, each.permission, each.order) for each in setups.values()} == {
        (4, 4, Permission.READ | Permission.WRITE, False)
    }


def test_attributes_are_kept_where_there_are_any_and_refused_elsewhere(admin: Admin, cluster: Live, topic: str) -> None:
    plan = admin.topics.plan([TopicSpec(name=topic, attributes={"message.type": "FIFO"})])
    if cluster.is_4:
        with pytest.raises(RequestNotSupported, match="is of release 4, whose topics have no attributes; leave"):
            admin.topics.apply(plan)
        return
    admin.topics.apply(plan)
    assert {each.attributes["message.type"] for each in admin.topics.configs(topic).values()} == {"FIFO"}
    admin.topics.add_queues(topic, 5)
    assert {each.attributes["message.type"] for each in admin.topics.configs(topic).values()} == {"FIFO"}
    taken = admin.topics.plan([TopicSpec(name=topic, attributes={"message.type": None})])
    assert {each.details for each in taken.changes} == {"message.type is taken away"}
    admin.topics.apply(taken)
    assert not any("message.type" in each.attributes for each in admin.topics.configs(topic).values())


def test_the_list_of_an_ordered_topic_is_set_and_cleared(admin: Admin, cluster: Live, topic: str) -> None:
    one, other = cluster.brokers
    assert admin.topics.order(topic) is None
    assert admin.topics.set_order(topic) == {one: 4, other: 4}
    assert admin.topics.order(topic) == {one: 4, other: 4}
    assert admin.topics.set_order(topic, {one: 2}) == {one: 2}
    assert admin.topics.order(topic) == {one: 2}
    with pytest.raises(ConfigurationError, match=f"{one} has 4 queues of topic '{topic}' to write to, .* have 5"):
        admin.topics.set_order(topic, {one: 5})
    admin.topics.clear_order(topic)
    admin.topics.clear_order(topic)
    assert admin.topics.order(topic) is None
    assert admin.topics.create(f"{topic}-ordered", 2, order=True).brokers
    assert admin.topics.order(f"{topic}-ordered") == {one: 2, other: 2}
    admin.topics.apply(admin.topics.plan([TopicSpec(name=f"{topic}-ordered", order=False)]))
    assert admin.topics.order(f"{topic}-ordered") is None
    with pytest.raises(TopicNotFound):
        admin.topics.order(f"{topic}-nowhere")


def test_the_groups_of_a_topic_are_listed(
    admin: Admin, cluster: Live, producer: Producer, topic: str, group: str
) -> None:
    assert admin.topics.groups(topic) == []
    handled = Handled()
    consumer = Consumer(cluster.namesrv, group=group, start_from="first")
    consumer.handles(topic)(handled)
    with consumer:
        stored(admin, producer.send(Message(topic, b"x")))
        handled.wait(1)
        until(lambda: admin.topics.groups(topic) == [group], "the group is listed")


def test_a_topic_is_deleted_from_its_cluster_alone(admin: Admin, topic: str) -> None:
    (cluster,) = {place.cluster for place in admin.topics.route(topic).brokers}
    assert {each.name: each.clusters for each in admin.topics.list()}[topic] == (cluster,)
    admin.topics.delete(topic, cluster=cluster)
    with pytest.raises(TopicNotFound):
        admin.topics.route(topic)
