"""38, 203, 343, 345: members and their subscriptions, as Java's tools read them and as our members do."""

from msgspec import structs

from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.common import TopicNames
from steelyard.wire.bodies.heartbeat import ConsumeFromWhere, ConsumeType, MessageModel
from steelyard.wire.bodies.members import GroupSubscription, MemberEntry
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.headers.common import GroupRequest
from steelyard.wire.headers.group import GroupTopicRequest
from tests.broker.broker_harness import BrokerHarness
from tests.broker.fake_consumer import GROUP, FakeConsumer, connections, group_view, ids, subscription_to


def test_an_empty_group_is_refused_in_javas_words() -> None:
    harness = BrokerHarness()
    answer = harness.request(Code.GET_CONSUMER_LIST_BY_GROUP, GroupRequest(consumer_group=GROUP))
    assert (answer.code, answer.remark) == (1, f"no consumer for this group, {GROUP}")
    answer = harness.request(Code.GET_CONSUMER_CONNECTION_LIST, GroupRequest(consumer_group=GROUP))
    assert (answer.code, answer.remark) == (206, f"the consumer group[{GROUP}] not online")


def test_java_gets_plain_ids_and_nothing_else() -> None:
    harness = BrokerHarness()
    client = FakeConsumer(harness, "c1", ours=False)
    client.heartbeat()
    FakeConsumer(harness, "c0").heartbeat()
    answer = client.request(Code.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": GROUP})
    assert answer.body == b'{"consumerIdList":["c0","c1"]}'


def test_ours_gets_members_queues_and_owners_beside_the_ids() -> None:
    harness = BrokerHarness()
    topic = structs.replace(
        harness.state.topics.get_or_create("seed", 1, harness.now_ms).settings, name="orders", read_queues=3
    )
    harness.state.topics.put(topic, harness.now_ms)
    ours, java = FakeConsumer(harness, "b-ours"), FakeConsumer(harness, "a-java", ours=False)
    ours.heartbeat()
    java.heartbeat(subscription_to("orders"), subscription_to("elsewhere"))
    ours.lock(2)
    java.lock(0)
    reported = group_view(harness)
    assert reported.queues == {"orders": 3, "elsewhere": 0}
    assert reported.owners == {"orders": (0, -1, 1), "elsewhere": ()}
    assert reported.settled
    assert reported.members == (
        MemberEntry(id="a-java", leaving=False, ours=False, topics=("elsewhere", "orders")),
        MemberEntry(id="b-ours", leaving=False, ours=True, strategy="sticky", topics=("orders",)),
    )


def test_the_epoch_grows_with_each_change_and_is_never_seen_again() -> None:
    harness = BrokerHarness()
    seen = []
    client, other = FakeConsumer(harness, "c1"), FakeConsumer(harness, "c2")
    for change in (client.heartbeat, other.heartbeat, other.unregister, client.unregister, client.heartbeat):
        change()
        if harness.state.consumers.group_names():
            seen.append(group_view(harness).epoch or 0)
    assert seen == sorted(set(seen))
    harness.advance(1_000)
    harness.restart()
    FakeConsumer(harness, "c1").heartbeat()
    assert (group_view(harness).epoch or 0) > seen[-1]


def test_a_leaving_member_stays_in_the_list_until_it_is_gone() -> None:
    harness = BrokerHarness()
    client = FakeConsumer(harness, "c1")
    client.heartbeat()
    client.heartbeat(leaving=True)
    (member,) = group_view(harness).members or ()
    assert member.leaving


def test_connections_tell_ways_and_subscriptions() -> None:
    harness = BrokerHarness()
    client = FakeConsumer(harness, "c1", ours=False)
    client.heartbeat(subscription_to("orders", "paid"), subscription_to(f"%RETRY%{GROUP}"))
    reported = connections(harness)
    assert (reported.kind, reported.model, reported.start_from) == (
        ConsumeType.PUSH,
        MessageModel.CLUSTERING,
        ConsumeFromWhere.LAST_OFFSET,
    )
    (peer,) = reported.connections
    assert (peer.client_id, peer.client_address, peer.language) == ("c1", client.connection.address, "JAVA")
    assert set(reported.subscriptions) == {"orders", f"%RETRY%{GROUP}"}
    java = client.request(Code.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": GROUP})
    assert b"steelyard" not in java.body


def test_what_a_group_wants_of_a_topic_and_where_it_has_offsets() -> None:
    harness = BrokerHarness()
    FakeConsumer(harness, "c1").heartbeat(subscription_to("orders", "paid"))
    answer = harness.request(Code.QUERY_SUBSCRIPTION_BY_CONSUMER, GroupTopicRequest(group=GROUP, topic="orders"))
    reported = decode_body(GroupSubscription, answer.body)
    assert reported.subscription is not None
    assert reported.subscription.expression == "paid"
    answer = harness.request(Code.QUERY_SUBSCRIPTION_BY_CONSUMER, GroupTopicRequest(group=GROUP, topic="other"))
    assert decode_body(GroupSubscription, answer.body).subscription is None
    harness.state.offsets.put(GROUP, "orders", 0, 7)
    answer = harness.request(Code.QUERY_TOPICS_BY_CONSUMER, GroupTopicRequest(group=GROUP))
    told_topics = decode_body(TopicNames, answer.body)
    assert (told_topics.topics, told_topics.broker_address) == (("orders",), "127.0.0.1:10911")


def test_ids_are_in_the_order_that_java_sorts_them() -> None:
    harness = BrokerHarness()
    for client_id in ("b", "B", "a\uff21", "a\U00010000", "a"):
        assert FakeConsumer(harness, client_id, ours=False).heartbeat().code == 0
    assert ids(harness) == ["B", "a", "a\U00010000", "a\uff21", "b"]
