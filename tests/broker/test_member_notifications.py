"""40: members are notified of every change of their group, soon, and not more often than needed."""

from msgspec import structs

from steelyard.broker.options import BrokerOptions
from steelyard.wire.bodies.heartbeat import MessageModel
from tests.broker.broker_harness import BrokerHarness
from tests.broker.fake_consumer import GROUP, FakeConsumer, ids, subscription_to

GAP_MS = BrokerOptions().notification_gap_ms


def crowd(harness: BrokerHarness, count: int, *, ours: bool = True) -> list[FakeConsumer]:
    """Let some members join, and time pass until they have heard of it."""
    clients = [FakeConsumer(harness, f"c{number}", ours=ours) for number in range(count)]
    for client in clients:
        client.heartbeat()
    harness.advance(1_000)
    for client in clients:
        client.pop_notifications()
    return clients


def test_a_join_is_reported_at_once_to_all_and_to_the_one_that_joined() -> None:
    harness = BrokerHarness()
    (first,) = crowd(harness, 1)
    second = FakeConsumer(harness, "second")
    second.heartbeat()
    assert (first.pop_notifications(), second.pop_notifications()) == (1, 1)


def test_a_heartbeat_that_changes_nothing_tells_nobody() -> None:
    harness = BrokerHarness()
    first, second = crowd(harness, 2)
    for _ in range(5):
        first.heartbeat()
        second.heartbeat(subscription_to(version=9))  # a newer version, the same topics
        harness.advance(1_000)
    assert (first.pop_notifications(), second.pop_notifications()) == (0, 0)


def test_an_unregistration_is_told_at_once_to_those_who_stay() -> None:
    harness = BrokerHarness()
    first, second = crowd(harness, 2)
    first.unregister()
    assert (first.pop_notifications(), second.pop_notifications()) == (0, 1)


def test_a_closed_connection_is_reported_after_the_grace() -> None:
    harness = BrokerHarness()
    first, second = crowd(harness, 2)
    first.close()
    harness.advance(200)
    assert second.pop_notifications() == 0
    harness.advance(100)
    assert second.pop_notifications() == 1


def test_a_member_that_wants_another_topic_or_begins_to_leave_is_a_change() -> None:
    harness = BrokerHarness()
    first, second = crowd(harness, 2)
    first.heartbeat(subscription_to(), subscription_to("refunds"))
    assert second.pop_notifications() == 1
    harness.advance(GAP_MS)
    first.heartbeat(subscription_to())
    assert second.pop_notifications() == 1
    harness.advance(GAP_MS)
    first.heartbeat(leaving=True)
    assert second.pop_notifications() == 1
    harness.advance(GAP_MS)
    first.heartbeat(leaving=True)
    harness.advance(1_000)
    assert second.pop_notifications() == 0


def test_other_queues_of_a_topic_that_is_wanted_are_a_change() -> None:
    harness = BrokerHarness()
    (client,) = crowd(harness, 1)
    seed = harness.state.topics.get_or_create("unrelated", 1, harness.now_ms).settings
    reported = []
    for queues in (4, 6, 6):
        harness.state.topics.put(structs.replace(seed, name="orders", read_queues=queues), harness.now_ms)
        harness.advance(600)
        reported.append(client.pop_notifications())
    assert reported == [1, 1, 0]
    harness.state.topics.get_or_create("also-unrelated", 1, harness.now_ms)
    harness.advance(600)
    assert client.pop_notifications() == 0


def test_a_storm_costs_few_notifications_and_the_last_change_is_never_lost() -> None:
    harness = BrokerHarness()
    (first,) = crowd(harness, 1)
    for number in range(50):
        FakeConsumer(harness, f"new-{number}").heartbeat()
        harness.advance(10, step_ms=10)
    harness.advance(GAP_MS)
    assert 5 <= first.pop_notifications() <= 7
    assert len(ids(harness)) == 51
    harness.advance(10_000)
    assert first.pop_notifications() == 0
    FakeConsumer(harness, "late-1").heartbeat()
    FakeConsumer(harness, "late-2").heartbeat()
    assert first.pop_notifications() == 1
    harness.advance(GAP_MS)
    assert first.pop_notifications() == 1


def test_nobody_is_told_in_a_broadcasting_group() -> None:
    harness = BrokerHarness()
    clients = [FakeConsumer(harness, f"c{n}", ours=False, model=MessageModel.BROADCASTING) for n in range(2)]
    for client in clients:
        client.heartbeat()
    clients[0].close()
    harness.advance(1_000)
    assert [client.pop_notifications() for client in clients] == [0, 0]


def test_the_switches_of_group_and_broker_are_obeyed() -> None:
    for options, group_notifies in ((BrokerOptions(notices=False), True), (BrokerOptions(), False)):
        harness = BrokerHarness(options)
        settings = harness.state.groups.get_or_create(GROUP, harness.now_ms)
        harness.state.groups.put(structs.replace(settings, notices_enabled=group_notifies), harness.now_ms)
        clients = [FakeConsumer(harness, f"c{number}", ours=False) for number in range(3)]
        for client in clients:
            client.heartbeat()
        clients[1].unregister()
        clients[2].close()
        harness.advance(1_000)
        assert clients[0].pop_notifications() == 0


def test_both_connections_of_one_java_id_are_reported() -> None:
    harness = BrokerHarness()
    first, second = FakeConsumer(harness, "c1", ours=False), FakeConsumer(harness, "c1", ours=False)
    first.heartbeat()
    second.heartbeat()
    harness.advance(1_000)
    assert first.pop_notifications() == 1
    FakeConsumer(harness, "c2").heartbeat()
    assert (first.pop_notifications(), second.pop_notifications()) == (1, 1)
