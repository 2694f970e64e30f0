"""Topics are planned, changed, ordered and told of, on whatever servers there are."""

import pytest
from tests.live.clusters import Live, until
from tests.live.handled import Handled, stored

from steelyard import Admin, Consumer, Message, Producer
from steelyard.client.admin.topic_wishes import TopicWish
from steelyard.errors import ConfigurationError, RequestNotSupported, TopicExists, TopicNotFound
from steelyard.model import Permission


def test_what_would_change_is_seen_before_and_is_what_changes(admin: Admin, cluster: Live, topic: str) -> None:
    new = f"{topic}-new"
    wishes = [
        TopicWish(name=topic, write_queues=2, permission=Permission.READ),
        TopicWish(name=new, queues=3, brokers=(cluster.brokers[1],)),
    ]
    plan = admin.plan_topics(wishes)
    assert [(each.topic, each.broker, each.what, each.details) for each in plan.changes] == [
        (topic, cluster.brokers[0], "change", "4 queues become 4 queues to read and 2 to write; clients may read"),
        (topic, cluster.brokers[1], "change", "4 queues become 4 queues to read and 2 to write; clients may read"),
        (new, cluster.brokers[1], "create", "3 queues"),
    ]
    with pytest.raises(TopicNotFound):
        admin.topic(new)
    admin.apply_topics(plan)
    assert {(each.read, each.write, each.permission) for each in admin.topic_route(topic).counts} == {
        (4, 2, Permission.READ)
    }
    assert len(admin.topic(topic).queues) == 8, "those that are only read are told of, too"
    assert [each.broker for each in admin.topic_route(new).counts] == [cluster.brokers[1]]
    assert {each.what for each in admin.plan_topics(wishes).changes} == {"keep"}
    assert admin.plan_topics(wishes).todo == ()
    with pytest.raises(TopicExists, match="4 queues of it to read and 2 to write, with permission 4"):
        admin.create_topic(topic, 4)


def test_a_topic_that_is_to_be_changed_has_to_be_there(admin: Admin, topic: str) -> None:
    with pytest.raises(TopicNotFound, match=f"Did you mean '{topic}'"):
        admin.plan_topics([TopicWish(name=f"{topic}x", queues=1)], only_existing=True)


def test_brokers_tell_how_they_keep_a_topic(admin: Admin, cluster: Live, topic: str) -> None:
    setups = admin.topic_setups(topic)
    assert sorted(setups) == sorted(cluster.brokers)
    assert {(each.read_queues, each.write_queues, each.permission, each.order) for each in setups.values()} == {
        (4, 4, Permission.READ | Permission.WRITE, False)
    }


def test_attributes_are_kept_where_there_are_any_and_refused_elsewhere(admin: Admin, cluster: Live, topic: str) -> None:
    plan = admin.plan_topics([TopicWish(name=topic, attributes={"message.type": "FIFO"})])
    if cluster.is_4:
        with pytest.raises(RequestNotSupported, match="is of release 4, whose topics have no attributes; leave"):
            admin.apply_topics(plan)
        return
    admin.apply_topics(plan)
    assert {each.attributes["message.type"] for each in admin.topic_setups(topic).values()} == {"FIFO"}
    admin.add_queues(topic, 5)
    assert {each.attributes["message.type"] for each in admin.topic_setups(topic).values()} == {"FIFO"}
    taken = admin.plan_topics([TopicWish(name=topic, attributes={"message.type": None})])
    assert {each.details for each in taken.changes} == {"message.type is taken away"}
    admin.apply_topics(taken)
    assert not any("message.type" in each.attributes for each in admin.topic_setups(topic).values())


def test_the_list_of_an_ordered_topic_is_fixed_and_freed(admin: Admin, cluster: Live, topic: str) -> None:
    one, other = cluster.brokers
    assert admin.topic_order(topic) is None
    assert admin.fix_order(topic) == {one: 4, other: 4}
    assert admin.topic_order(topic) == {one: 4, other: 4}
    assert admin.fix_order(topic, {one: 2}) == {one: 2}
    assert admin.topic_order(topic) == {one: 2}
    with pytest.raises(ConfigurationError, match=f"{one} has 4 queues of topic '{topic}' to write to, .* have 5"):
        admin.fix_order(topic, {one: 5})
    admin.clear_order(topic)
    admin.clear_order(topic)
    assert admin.topic_order(topic) is None
    assert admin.create_topic(f"{topic}-ordered", 2, order=True).brokers
    assert admin.topic_order(f"{topic}-ordered") == {one: 2, other: 2}
    admin.apply_topics(admin.plan_topics([TopicWish(name=f"{topic}-ordered", order=False)]))
    assert admin.topic_order(f"{topic}-ordered") is None
    with pytest.raises(TopicNotFound):
        admin.topic_order(f"{topic}-nowhere")


def test_who_reads_a_topic_is_told(admin: Admin, cluster: Live, producer: Producer, topic: str, group: str) -> None:
    assert admin.topic_groups(topic) == []
    handled = Handled()
    consumer = Consumer(cluster.namesrv, group=group, start_from="first")
    consumer.handles(topic)(handled)
    with consumer:
        stored(admin, producer.send(Message(topic, b"x")))
        handled.wait(1)
        until(lambda: admin.topic_groups(topic) == [group], "the group is told of")


def test_a_topic_is_deleted_from_its_cluster_alone(admin: Admin, topic: str) -> None:
    (cluster,) = {place.cluster for place in admin.topic_route(topic).brokers}
    assert {each.name: each.clusters for each in admin.topics()}[topic] == (cluster,)
    admin.delete_topic(topic, cluster=cluster)
    with pytest.raises(TopicNotFound):
        admin.topic_route(topic)
