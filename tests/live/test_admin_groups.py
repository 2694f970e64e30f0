"""An administrator looks after groups: settings, how far they are, who is in them, who sends, what they gave up."""

import pytest

from steelyard import Admin, Consumer, Message, Producer, StoredMessage
from steelyard.client.admin.group_config import GroupConfig
from steelyard.client.admin.offsets import OffsetShift
from steelyard.errors import (
    ConfigurationError,
    ConsumerOffline,
    GroupNotFound,
    InvalidParameter,
    NoMessage,
    RequestNotSupported,
)
from tests.live.clusters import Live, until
from tests.live.handled import Handled, owned, send_all

NUMBERS = [str(number) for number in range(40)]


def lag(admin: Admin, group: str, topic: str) -> int:
    """Return how many messages wait."""
    return sum(row.lag for row in admin.offsets.list(group, topic))


def test_settings_of_groups_are_planned_applied_and_listed_by_broker(admin: Admin, cluster: Live, group: str) -> None:
    wish = GroupConfig(name=group, retries=3, broadcast=False, notices=False, retry_queues=2, slow_read_from=0)
    plan = admin.groups.plan([wish])
    assert [change.what for change in plan.changes] == ["create", "create"]
    with pytest.raises(GroupNotFound):
        admin.groups.configs(group)
    admin.groups.apply(plan)
    configs = admin.groups.configs(group)
    assert sorted(configs) == sorted(cluster.brokers)
    for rules in configs.values():
        assert {
            name: value for name, value in rules.specified().items() if name in wish.specified()
        } == wish.specified()
    assert not admin.groups.plan([wish]).todo
    (change,) = admin.groups.plan([GroupConfig(name=group, retries=4)], brokers=[cluster.brokers[0]]).todo
    assert (change.what, change.details) == ("change", "retries 3 -> 4")
    admin.groups.create(group, consume=False)
    assert {(rules.retries, rules.consume) for rules in admin.groups.configs(group).values()} == {(3, False)}


def test_what_only_release_5_knows_is_refused_by_release_4(admin: Admin, cluster: Live, group: str) -> None:
    wish = GroupConfig(name=group, orderly=True, timeout_minutes=7)
    if cluster.is_4:
        with pytest.raises(RequestNotSupported, match="release 4, whose groups have no orderly, timeout_minutes"):
            admin.groups.plan([wish])
    else:
        admin.groups.apply(admin.groups.plan([wish]))
        assert {(rules.orderly, rules.timeout_minutes) for rules in admin.groups.configs(group).values()} == {(True, 7)}


def test_the_way_a_group_gets_messages_is_chosen_where_there_is_more_than_one(
    admin: Admin, cluster: Live, topic: str, group: str
) -> None:
    admin.groups.create(group)
    if cluster.is_4:
        with pytest.raises(RequestNotSupported, match="where all groups pull"):
            admin.groups.set_request_mode(group, topic, pop=True)
        return
    assert sorted(admin.groups.set_request_mode(group, topic, pop=False)) == sorted(cluster.brokers)
    if cluster.is_ours:
        with pytest.raises(InvalidParameter, match="does not serve POP"):
            admin.groups.set_request_mode(group, topic, pop=True)
    else:
        admin.groups.set_request_mode(group, topic, pop=True, share_queues=2)


def test_a_group_at_rest_is_moved_by_messages_by_queue_and_to_where_another_one_is(
    admin: Admin, producer: Producer, topic: str, group: str
) -> None:
    for _ in range(5):
        send_all(producer, topic, NUMBERS[:8])
    until(lambda: admin.topics.describe(topic).messages == 40, "all are there")
    admin.groups.create(group)
    with pytest.raises(ConfigurationError, match="has not read any topic yet"):
        admin.offsets.plan_resets(group, "last")
    admin.offsets.reset(group, topic, 3)
    (plan,) = admin.offsets.plan_resets(group, OffsetShift(-2))
    assert {(move.before, move.to) for move in plan.moves} == {(3, 1)}
    admin.offsets.apply(plan)
    first = plan.moves[0].queue
    admin.offsets.reset(group, topic, "last", queues=[first])
    rows = {row.queue: row for row in admin.offsets.list(group)}
    assert [row.committed for row in rows.values() if row.queue != first] == [1] * 7
    assert rows[first].lag == 0
    (lag,) = admin.offsets.lag(group)
    assert (lag.topic, lag.queues, lag.waiting) == (topic, 8, sum(row.lag for row in rows.values()))
    (copy,) = admin.offsets.plan_copy(group, f"{group}-2")
    assert copy.is_new
    admin.offsets.apply(copy)
    assert {row.queue: row.committed for row in admin.offsets.list(f"{group}-2")} == {
        row.queue: row.committed for row in rows.values()
    }
    assert f"{group}-2" in {each.name for each in admin.groups.list()}


def test_what_release_4_would_refuse_is_refused_when_it_is_planned(
    admin: Admin, cluster: Live, producer: Producer, topic: str, group: str
) -> None:
    handled = Handled()
    consumer = Consumer(cluster.namesrv, group=group, start_from="first")
    consumer.handles(topic)(handled)
    send_all(producer, topic, NUMBERS)
    with consumer:
        handled.wait(40)
        until(lambda: lag(admin, group, topic) == 0, "all is committed")
        queue = admin.offsets.list(group, topic)[0].queue
        if cluster.is_4:
            with pytest.raises(RequestNotSupported, match="only to a time, in all queues; stop the members first"):
                admin.offsets.plan_resets(group, OffsetShift(-1))
            with pytest.raises(RequestNotSupported, match="only to a time, in all queues"):
                admin.offsets.plan_reset(group, topic, "first", queues=[queue])
            (plan,) = admin.offsets.plan_resets(group, "first")
            admin.offsets.apply(plan)
            handled.wait(80)
        else:
            before = len(handled.messages)
            moved = admin.offsets.reset(group, topic, "first", queues=[queue])
            handled.wait(before + moved.repeated)
            assert {message.queue for message in handled.messages[before:]} == {queue}


def test_members_report_queues_subscriptions_and_rates(
    admin: Admin, cluster: Live, producer: Producer, topic: str, group: str
) -> None:
    handled = Handled()
    consumer = Consumer(cluster.namesrv, group=group, start_from="first", name="asked")
    consumer.handles(topic, tags="t")(handled)
    send_all(producer, topic, NUMBERS, tags="t")
    with consumer:
        handled.wait(40)
        until(lambda: len(owned(consumer, topic)) == 8, "it has all queues")
        running = admin.groups.member_status(group, consumer.id, stacks=True)
        assert running.subscriptions == {topic: "t"}
        assert running.stacks is not None
        assert "MainThread" in running.stacks
        assert admin.groups.member_status(group, consumer.id).stacks is None
        (member,) = admin.groups.describe(group).members
        assert member.filters == {topic: "t"}
        until(lambda: sum(each.offset for each in admin.offsets.in_memory(group, topic)) == 40, "it is through")
        assert {each.member for each in admin.offsets.in_memory(group, topic, consumer.id)} == {consumer.id}
    with pytest.raises(ConsumerOffline, match="no member of group"):
        admin.offsets.in_memory(group, topic)


def test_members_with_unequal_filters_are_a_finding(admin: Admin, cluster: Live, topic: str, group: str) -> None:
    first, second = (Consumer(cluster.namesrv, group=group, name=name) for name in ("one", "two"))
    first.handles(topic, tags="paid")(Handled())
    second.handles(topic, tags="refunded")(Handled())
    with first, second:
        until(lambda: len(admin.groups.members(group)) == 2, "both are there")
        until(
            lambda: any("filter" in each.message for each in admin.groups.describe(group).findings),
            "the difference is a finding",
        )


def test_producers_are_listed_by_group(admin: Admin, cluster: Live, topic: str, group: str) -> None:
    mine = f"senders-{group}"
    with Producer(cluster.namesrv, group=mine) as producer:
        for _ in range(16):
            producer.send(Message(topic, b"x"))
        (found,) = (each for each in admin.producers.list() if each.group == mine)
        assert (found.language, found.brokers) == ("PYTHON", tuple(sorted(cluster.brokers)))
        assert found.seen_at is not None
        (shown,) = admin.producers.of_group(mine)
        assert (shown.id, shown.brokers) == (found.id, found.brokers)
        assert shown.address.startswith("127.0.0.1:")
    until(lambda: mine not in {each.group for each in admin.producers.list()}, "it has left")
    with pytest.raises(GroupNotFound, match=f"no producer of group '{mine}' is online"):
        admin.producers.of_group(mine)


def test_dead_letters_are_counted_found_resent_and_deleted(
    admin: Admin, cluster: Live, producer: Producer, topic: str, group: str
) -> None:
    admin.groups.create(group, retries=0)
    handled, gave_up = Handled(), Handled()
    consumer = Consumer(cluster.namesrv, group=group, start_from="first")

    @consumer.handles(topic)
    def handle(message: StoredMessage) -> None:
        if not gave_up.messages:
            gave_up(message)
            raise ValueError("not the first time")
        handled(message)

    sent = producer.send(Message(topic, b"sad", keys="k"))
    with consumer:
        until(lambda: group in {each.group for each in admin.dead_letters.counts()}, "it is given up")
        (dead,) = admin.dead_letters.list(group)
        assert admin.dead_letters.find(group, sent.message_id) == admin.dead_letters.find(group, dead.offset_id) == dead
        assert dead.reconsume_times == 1
        admin.dead_letters.resend(dead)
        handled.wait(1)
    assert [message.body for message in handled.messages] == [b"sad"]
    with pytest.raises(NoMessage, match="has no dead letter with the id"):
        admin.dead_letters.find(group, "7F0000010000000000000000DEADBEEF")
    assert admin.dead_letters.delete(group) == 1
    assert admin.dead_letters.delete(group) == 0
    assert admin.dead_letters.list(group) == []
