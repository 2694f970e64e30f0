"""An administrator sees what is there and changes it: topics, groups, offsets, members, messages."""

from datetime import UTC, datetime, timedelta

import pytest

from steelyard import Admin, Consumer, Message, Producer, Queue
from steelyard.errors import ConfigurationError, GroupNotFound, NoMessage, RequestNotSupported, TopicNotFound
from tests.live.clusters import Live, until
from tests.live.handled import Handled, owned, send_all, stored

NUMBERS = [str(number) for number in range(40)]


def lag(admin: Admin, group: str, topic: str) -> int:
    """Return how many messages wait."""
    return sum(row.lag for row in admin.offsets.list(group, topic))


def test_topics_are_created_widened_listed_and_deleted(admin: Admin, cluster: Live, topic: str) -> None:
    view = admin.topics.describe(topic)
    assert {row.queue for row in view.queues} == {
        Queue(topic, broker, number) for broker in cluster.brokers for number in range(4)
    }
    assert len(admin.topics.add_queues(topic, 5).queues) == 10
    (listed,) = (each for each in admin.topics.list() if each.name == topic)
    assert (listed.queues, sorted(listed.brokers)) == (10, sorted(cluster.brokers))
    assert "TBW102" in {each.name for each in admin.topics.list(system=True)}
    one = f"{topic}-one"
    admin.topics.create(one, 3, brokers=[cluster.brokers[1]])
    assert {row.queue.broker for row in admin.topics.describe(one).queues} == {cluster.brokers[1]}
    for name in (topic, one):
        admin.topics.delete(name)
        with pytest.raises(TopicNotFound):
            admin.topics.describe(name)


def test_a_topic_shows_where_its_queues_begin_and_end(admin: Admin, producer: Producer, topic: str) -> None:
    sent = [producer.send(Message(topic, b"x"), key="k") for _ in range(3)]
    stored(admin, sent[-1])
    ends = {row.queue: (row.start, row.end) for row in admin.topics.describe(topic).queues}
    assert ends.pop(sent[0].queue) == (0, 3)
    assert set(ends.values()) == {(0, 0)}


def test_groups_are_created_listed_and_deleted(admin: Admin, group: str) -> None:
    admin.groups.create(group, retries=3)
    assert group in {each.name for each in admin.groups.list()}
    assert admin.groups.describe(group).members == ()
    admin.groups.delete(group)
    with pytest.raises(GroupNotFound):
        admin.groups.describe(group)


def test_a_group_shows_owners_and_offsets_of_its_queues(
    admin: Admin, cluster: Live, producer: Producer, topic: str, group: str
) -> None:
    handled = Handled()
    consumer = Consumer(cluster.namesrv, group=group, start_from="first", name="seen")
    consumer.handles(topic)(handled)
    send_all(producer, topic, NUMBERS)
    with consumer:
        handled.wait(40)
        until(lambda: lag(admin, group, topic) == 0, "all is committed")
        view = admin.groups.describe(group)
        assert [member.id for member in view.members] == [consumer.id]
        assert set(owned(consumer, topic)) <= set(view.owned()[consumer.id])
        assert "seen" in str(view)
        (member,) = admin.groups.members(group)
        assert member.ours
        running = admin.groups.member_status(group, consumer.id)
        assert {each.queue for each in running.queues if each.queue.topic == topic} == set(owned(consumer, topic))
        assert {each.name: each.members for each in admin.groups.list()}[group] == 1
        with pytest.raises(ConfigurationError, match="1 member online"):
            admin.groups.delete(group)


def test_a_reset_is_shown_first_and_then_moves_a_group_at_rest(
    admin: Admin, cluster: Live, producer: Producer, topic: str, group: str
) -> None:
    handled = Handled()
    send_all(producer, topic, NUMBERS)
    for again in (False, True):
        consumer = Consumer(cluster.namesrv, group=group, start_from="first")
        consumer.handles(topic)(handled)
        with consumer:
            handled.wait(80 if again else 40)
        plan = admin.offsets.plan_reset(group, topic, "first")
        assert (plan.repeated, plan.skipped, plan.members, len(plan.moves)) == (40, 0, 0, 8)
        assert lag(admin, group, topic) == 0, "a plan changes nothing"
        if not again:
            admin.offsets.apply(plan)
            assert lag(admin, group, topic) == 40
    assert sorted(handled.bodies, key=int) == sorted(NUMBERS * 2, key=int)
    admin.offsets.reset(group, topic, 2)
    assert {row.committed for row in admin.offsets.list(group, topic)} == {2}
    admin.offsets.reset(group, topic, "last")
    assert lag(admin, group, topic) == 0


def test_a_reset_moves_a_group_while_it_works(
    admin: Admin, cluster: Live, producer: Producer, topic: str, group: str
) -> None:
    handled = Handled()
    consumer = Consumer(cluster.namesrv, group=group, start_from="first")
    consumer.handles(topic)(handled)
    send_all(producer, topic, NUMBERS)
    with consumer:
        handled.wait(40)
        until(lambda: lag(admin, group, topic) == 0, "all is committed")
        plan = admin.offsets.plan_reset(group, topic, timedelta(hours=1))
        assert (plan.repeated, plan.members) == (40, 1)
        assert "8 queues, skips 0, repeats 40" in str(plan)
        admin.offsets.apply(plan)
        handled.wait(80)
        until(lambda: lag(admin, group, topic) == 0, "all is committed again")
        if cluster.is_4:
            with pytest.raises(RequestNotSupported, match=r"only to a time.*; stop the members first, or give 'first'"):
                admin.offsets.reset(group, topic, 3)
        else:
            admin.offsets.reset(group, topic, 3)
            handled.wait(80 + 8 * 2)
            until(lambda: lag(admin, group, topic) == 0, "all is committed for the last time")
        if cluster.is_ours:
            assert len(handled.messages) == 96, "what is repeated is repeated once"
    assert set(handled.bodies) == set(NUMBERS)


def test_a_message_is_found_by_its_ids_its_keys_its_place_and_its_time(
    admin: Admin, producer: Producer, topic: str
) -> None:
    before = datetime.now(UTC)
    sent = [producer.send(Message(topic, number.encode(), keys=["all", f"k-{number}"])) for number in NUMBERS]
    by_place = stored(admin, sent[7])
    assert by_place.body == b"7"
    assert admin.messages.find(by_place.offset_id).body == b"7"
    until(lambda: len(admin.messages.find_by_key(topic, "all")) == 40, "all are in the index")
    assert admin.messages.find(sent[7].message_id, topic).body == b"7"
    assert [each.body for each in admin.messages.find_by_key(topic, "k-9")] == [b"9"]
    assert len(admin.messages.find_by_key(topic, "all", most=3)) == 3
    assert sorted(int(each.body) for each in admin.messages.list(topic, start=before - timedelta(seconds=1))) == list(
        range(40)
    )
    assert admin.messages.list(topic, start=datetime.now(UTC) + timedelta(minutes=1)) == []
    assert len(admin.messages.list(topic, most=5)) == 5
    assert admin.messages.at(sent[0].queue, 10_000) is None
    with pytest.raises(NoMessage, match=topic):
        admin.messages.find("7F0000010000000000000000DEADBEEF", topic)


def test_a_cluster_lists_its_brokers_and_settings(admin: Admin, cluster: Live) -> None:
    brokers = {broker.name: broker for broker in admin.brokers.list()}
    assert set(brokers) == set(cluster.brokers)
    for broker in brokers.values():
        assert broker.problem is None
        assert broker.version
        assert broker.addresses[0]
    (name_server,) = admin.name_servers.list()
    assert (name_server.address, name_server.brokers) == (cluster.namesrv, 2)
    assert admin.brokers.config(cluster.brokers[0])["brokerName"] == cluster.brokers[0]
