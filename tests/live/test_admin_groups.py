"""An administrator looks after groups: settings, how far they are, who is in them, who sends, what they gave up."""

import pytest
from tests.live.clusters import Live, until
from tests.live.handled import Handled, owned, send_all

from steelyard import Admin, Consumer, Message, Producer, StoredMessage
from steelyard.client.admin.group_rules import GroupRules
from steelyard.client.admin.resets import Shift
from steelyard.errors import (
    ConfigurationError,
    ConsumerOffline,
    GroupNotFound,
    InvalidParameter,
    NoMessage,
    RequestNotSupported,
)

NUMBERS = [str(number) for number in range(40)]


def lag(admin: Admin, group: str, topic: str) -> int:
    """Return how many messages wait."""
    return sum(row.lag for row in admin.offsets(group, topic))


def test_settings_of_groups_are_planned_applied_and_told_by_broker(admin: Admin, cluster: Live, group: str) -> None:
    wish = GroupRules(name=group, retries=3, broadcast=False, notices=False, retry_queues=2, slow_read_from=0)
    plan = admin.plan_groups([wish])
    assert [change.what for change in plan.changes] == ["create", "create"]
    with pytest.raises(GroupNotFound):
        admin.group_rules(group)
    admin.apply_groups(plan)
    told = admin.group_rules(group)
    assert sorted(told) == sorted(cluster.brokers)
    for rules in told.values():
        assert {name: value for name, value in rules.wanted().items() if name in wish.wanted()} == wish.wanted()
    assert not admin.plan_groups([wish]).todo
    (change,) = admin.plan_groups([GroupRules(name=group, retries=4)], brokers=[cluster.brokers[0]]).todo
    assert (change.what, change.details) == ("change", "retries 3 -> 4")
    admin.create_group(group, consume=False)
    assert {(rules.retries, rules.consume) for rules in admin.group_rules(group).values()} == {(3, False)}


def test_what_only_release_5_knows_is_refused_by_release_4(admin: Admin, cluster: Live, group: str) -> None:
    wish = GroupRules(name=group, orderly=True, timeout_minutes=7)
    if cluster.is_4:
        with pytest.raises(RequestNotSupported, match="release 4, whose groups have no orderly, timeout_minutes"):
            admin.plan_groups([wish])
    else:
        admin.apply_groups(admin.plan_groups([wish]))
        assert {(rules.orderly, rules.timeout_minutes) for rules in admin.group_rules(group).values()} == {(True, 7)}


def test_the_way_a_group_gets_messages_is_chosen_where_there_is_more_than_one(
    admin: Admin, cluster: Live, topic: str, group: str
) -> None:
    admin.create_group(group)
    if cluster.is_4:
        with pytest.raises(RequestNotSupported, match="where all groups pull"):
            admin.set_request_mode(group, topic, pop=True)
        return
    assert sorted(admin.set_request_mode(group, topic, pop=False)) == sorted(cluster.brokers)
    if cluster.is_ours:
        with pytest.raises(InvalidParameter, match="does not serve POP"):
            admin.set_request_mode(group, topic, pop=True)
    else:
        admin.set_request_mode(group, topic, pop=True, share_queues=2)


def test_a_group_at_rest_is_moved_by_messages_by_queue_and_to_where_another_one_is(
    admin: Admin, producer: Producer, topic: str, group: str
) -> None:
    for _ in range(5):
        send_all(producer, topic, NUMBERS[:8])
    until(lambda: admin.topic(topic).messages == 40, "all are there")
    admin.create_group(group)
    with pytest.raises(ConfigurationError, match="has not read any topic yet"):
        admin.plan_resets(group, "last")
    admin.reset_offsets(group, topic, 3)
    (plan,) = admin.plan_resets(group, Shift(-2))
    assert {(move.before, move.to) for move in plan.moves} == {(3, 1)}
    admin.apply(plan)
    first = plan.moves[0].queue
    admin.reset_offsets(group, topic, "last", queues=[first])
    rows = {row.queue: row for row in admin.offsets(group)}
    assert [row.committed for row in rows.values() if row.queue != first] == [1] * 7
    assert rows[first].lag == 0
    (told,) = admin.lag(group)
    assert (told.topic, told.queues, told.waiting) == (topic, 8, sum(row.lag for row in rows.values()))
    (copy,) = admin.plan_copy(group, f"{group}-2")
    assert copy.is_new
    admin.apply(copy)
    assert {row.queue: row.committed for row in admin.offsets(f"{group}-2")} == {
        row.queue: row.committed for row in rows.values()
    }
    assert f"{group}-2" in {each.name for each in admin.groups()}


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
        queue = admin.offsets(group, topic)[0].queue
        if cluster.is_4:
            with pytest.raises(RequestNotSupported, match="only to a time, in all queues; stop the members first"):
                admin.plan_resets(group, Shift(-1))
            with pytest.raises(RequestNotSupported, match="only to a time, in all queues"):
                admin.plan_reset(group, topic, "first", queues=[queue])
            (plan,) = admin.plan_resets(group, "first")
            admin.apply(plan)
            handled.wait(80)
        else:
            before = len(handled.messages)
            moved = admin.reset_offsets(group, topic, "first", queues=[queue])
            handled.wait(before + moved.repeated)
            assert {message.queue for message in handled.messages[before:]} == {queue}


def test_members_tell_what_they_hold_want_and_do(
    admin: Admin, cluster: Live, producer: Producer, topic: str, group: str
) -> None:
    handled = Handled()
    consumer = Consumer(cluster.namesrv, group=group, start_from="first", name="asked")
    consumer.handles(topic, tags="t")(handled)
    send_all(producer, topic, NUMBERS, tags="t")
    with consumer:
        handled.wait(40)
        until(lambda: len(owned(consumer, topic)) == 8, "it has all queues")
        running = admin.ask_member(group, consumer.id, stacks=True)
        assert running.subscriptions == {topic: "t"}
        assert running.stacks is not None
        assert "MainThread" in running.stacks
        assert admin.ask_member(group, consumer.id).stacks is None
        (member,) = admin.group(group).members
        assert member.filters == {topic: "t"}
        until(lambda: sum(each.offset for each in admin.held_offsets(group, topic)) == 40, "it is through")
        assert {each.member for each in admin.held_offsets(group, topic, consumer.id)} == {consumer.id}
    with pytest.raises(ConsumerOffline, match="nobody of group"):
        admin.held_offsets(group, topic)


def test_members_with_unequal_filters_are_told_of(admin: Admin, cluster: Live, topic: str, group: str) -> None:
    first, second = (Consumer(cluster.namesrv, group=group, name=name) for name in ("one", "two"))
    first.handles(topic, tags="paid")(Handled())
    second.handles(topic, tags="refunded")(Handled())
    with first, second:
        until(lambda: len(admin.members(group)) == 2, "both are there")
        until(
            lambda: any("want" in hazard.sentence for hazard in admin.group(group).hazards),
            "it is said that they differ",
        )


def test_producers_are_listed_by_group(admin: Admin, cluster: Live, topic: str, group: str) -> None:
    mine = f"senders-{group}"
    with Producer(cluster.namesrv, group=mine) as producer:
        for _ in range(16):
            producer.send(Message(topic, b"x"))
        (line,) = (each for each in admin.producers() if each.group == mine)
        assert (line.language, line.brokers) == ("PYTHON", tuple(sorted(cluster.brokers)))
        assert line.seen_at is not None
        (shown,) = admin.producer(mine)
        assert (shown.id, shown.brokers) == (line.id, line.brokers)
        assert shown.address.startswith("127.0.0.1:")
    until(lambda: mine not in {each.group for each in admin.producers()}, "it has left")
    with pytest.raises(GroupNotFound, match=f"no producer of group '{mine}' is online"):
        admin.producer(mine)


def test_dead_letters_are_counted_found_given_again_and_deleted(
    admin: Admin, cluster: Live, producer: Producer, topic: str, group: str
) -> None:
    admin.create_group(group, retries=0)
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
        until(lambda: group in {each.group for each in admin.given_up()}, "it is given up")
        (dead,) = admin.dead_letters(group)
        assert admin.dead_letter(group, sent.message_id) == admin.dead_letter(group, dead.offset_id) == dead
        assert dead.reconsume_times == 1
        admin.resend(dead)
        handled.wait(1)
    assert [message.body for message in handled.messages] == [b"sad"]
    with pytest.raises(NoMessage, match="has no dead letter with the id"):
        admin.dead_letter(group, "7F0000010000000000000000DEADBEEF")
    assert admin.delete_dead_letters(group) == 1
    assert admin.delete_dead_letters(group) == 0
    assert admin.dead_letters(group) == []
