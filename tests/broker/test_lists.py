"""38, 203, 343, 345: who is there and what they want, as Java's tools read it and as our members do."""

from msgspec import structs
from tests.broker.client import GROUP, Client, connections, ids, view, wants
from tests.broker.desk import Desk

from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.heartbeat import ConsumeKind, MessageModel, StartFrom
from steelyard.wire.bodies.members import GroupSubscription, MemberView
from steelyard.wire.bodies.shared import TopicNames
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.headers.common import Group
from steelyard.wire.headers.group import GroupAndTopic


def test_an_empty_group_is_refused_in_javas_words() -> None:
    desk = Desk()
    answer = desk.ask(Code.GET_CONSUMER_LIST_BY_GROUP, Group(consumer_group=GROUP))
    assert (answer.code, answer.remark) == (1, f"no consumer for this group, {GROUP}")
    answer = desk.ask(Code.GET_CONSUMER_CONNECTION_LIST, Group(consumer_group=GROUP))
    assert (answer.code, answer.remark) == (206, f"the consumer group[{GROUP}] not online")


def test_java_gets_plain_ids_and_nothing_else() -> None:
    desk = Desk()
    client = Client(desk, "c1", ours=False)
    client.beat()
    Client(desk, "c0").beat()
    answer = client.ask(Code.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": GROUP})
    assert answer.body == b'{"consumerIdList":["c0","c1"]}'


def test_ours_gets_members_queues_and_owners_beside_the_ids() -> None:
    desk = Desk()
    topic = structs.replace(desk.state.topics.own("seed", desk.now_ms).settings, name="orders", read_queues=3)
    desk.state.topics.put(topic, desk.now_ms)
    ours, java = Client(desk, "b-ours"), Client(desk, "a-java", ours=False)
    ours.beat()
    java.beat(wants("orders"), wants("elsewhere"))
    ours.lock(2)
    java.lock(0)
    told = view(desk)
    assert told.queues == {"orders": 3, "elsewhere": 0}
    assert told.owners == {"orders": (0, -1, 1), "elsewhere": ()}
    assert told.settled
    assert told.members == (
        MemberView(id="a-java", leaving=False, ours=False, topics=("elsewhere", "orders")),
        MemberView(id="b-ours", leaving=False, ours=True, strategy="sticky", topics=("orders",)),
    )


def test_the_epoch_grows_with_each_change_and_is_never_seen_again() -> None:
    desk = Desk()
    seen = []
    client, other = Client(desk, "c1"), Client(desk, "c2")
    for change in (client.beat, other.beat, other.leave, client.leave, client.beat):
        change()
        if desk.state.members.groups():
            seen.append(view(desk).epoch or 0)
    assert seen == sorted(set(seen))
    desk.advance(1_000)
    desk.restart()
    Client(desk, "c1").beat()
    assert (view(desk).epoch or 0) > seen[-1]


def test_a_leaving_member_stays_in_the_list_until_it_is_gone() -> None:
    desk = Desk()
    client = Client(desk, "c1")
    client.beat()
    client.beat(leaving=True)
    (member,) = view(desk).members or ()
    assert member.leaving


def test_connections_tell_ways_and_subscriptions() -> None:
    desk = Desk()
    client = Client(desk, "c1", ours=False)
    client.beat(wants("orders", "paid"), wants(f"%RETRY%{GROUP}"))
    told = connections(desk)
    assert (told.kind, told.model, told.start_from) == (
        ConsumeKind.PUSH,
        MessageModel.CLUSTERING,
        StartFrom.LAST_OFFSET,
    )
    (line,) = told.connections
    assert (line.client_id, line.client_address, line.language) == ("c1", client.line.address, "JAVA")
    assert set(told.subscriptions) == {"orders", f"%RETRY%{GROUP}"}
    java = client.ask(Code.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": GROUP})
    assert b"steelyard" not in java.body


def test_what_a_group_wants_of_a_topic_and_where_it_has_offsets() -> None:
    desk = Desk()
    Client(desk, "c1").beat(wants("orders", "paid"))
    answer = desk.ask(Code.QUERY_SUBSCRIPTION_BY_CONSUMER, GroupAndTopic(group=GROUP, topic="orders"))
    told = decode_body(GroupSubscription, answer.body)
    assert told.subscription is not None
    assert told.subscription.expression == "paid"
    answer = desk.ask(Code.QUERY_SUBSCRIPTION_BY_CONSUMER, GroupAndTopic(group=GROUP, topic="other"))
    assert decode_body(GroupSubscription, answer.body).subscription is None
    desk.state.offsets.put(GROUP, "orders", 0, 7)
    answer = desk.ask(Code.QUERY_TOPICS_BY_CONSUMER, GroupAndTopic(group=GROUP))
    told_topics = decode_body(TopicNames, answer.body)
    assert (told_topics.topics, told_topics.broker_address) == (("orders",), "127.0.0.1:10911")


def test_ids_are_in_the_order_that_java_sorts_them() -> None:
    desk = Desk()
    for client_id in ("b", "B", "a\uff21", "a\U00010000", "a"):
        assert Client(desk, client_id, ours=False).beat().code == 0
    assert ids(desk) == ["B", "a", "a\U00010000", "a\uff21", "b"]
