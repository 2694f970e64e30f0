"""The consumer registry: members by id, however many connections they have, and whatever way they leave."""

import pytest

from steelyard.broker.options import BrokerOptions
from steelyard.wire.bodies.heartbeat import MessageModel
from tests.broker.broker_harness import BrokerHarness
from tests.broker.fake_consumer import GROUP, FakeConsumer, connections, found_in, group_view, ids, subscription_to

GRACE_MS = BrokerOptions().connection_grace_ms


# -- joining and going -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ours", [True, False], ids=["ours", "java"])
def test_a_member_joins_by_its_heartbeat_and_leaves_by_its_unregistration(*, ours: bool) -> None:
    harness = BrokerHarness()
    first, second = FakeConsumer(harness, "c1", ours=ours), FakeConsumer(harness, "c2", ours=ours)
    first.heartbeat()
    second.heartbeat()
    assert ids(harness) == ["c1", "c2"]
    assert first.unregister().code == 0
    assert ids(harness) == ["c2"]
    second.unregister()
    assert ids(harness) == []


@pytest.mark.parametrize("ours", [True, False], ids=["ours", "java"])
def test_a_connection_that_closes_takes_its_member_after_the_grace(*, ours: bool) -> None:
    harness = BrokerHarness()
    client, other = FakeConsumer(harness, "c1", ours=ours), FakeConsumer(harness, "c2")
    client.heartbeat()
    other.heartbeat()
    client.close()
    harness.advance(GRACE_MS - 1)
    assert ids(harness) == ["c1", "c2"]
    harness.advance(1)
    assert ids(harness) == ["c2"]


def test_a_connection_blip_moves_nothing() -> None:
    harness = BrokerHarness()
    client, other = FakeConsumer(harness, "c1"), FakeConsumer(harness, "c2")
    client.heartbeat()
    other.heartbeat()
    held = client.lock(0)
    harness.advance(1_000)
    before = group_view(harness)
    other.pop_notifications()
    client.close()
    harness.advance(GRACE_MS - 100)
    client.reconnect()
    harness.advance(5 * GRACE_MS)
    assert group_view(harness) == before
    assert other.pop_notifications() == 0
    assert client.renew(held) == held


def test_who_missed_a_notification_while_its_connection_was_closed_gets_it_when_it_is_back() -> None:
    harness = BrokerHarness()
    client, other = FakeConsumer(harness, "c1"), FakeConsumer(harness, "c2")
    client.heartbeat()
    harness.advance(1_000)
    client.close()
    other.heartbeat()
    client.reconnect()
    assert client.pop_notifications() == 1


def test_silence_takes_a_member_of_ours_after_four_of_its_beats() -> None:
    harness = BrokerHarness()
    client, other = FakeConsumer(harness, "c1"), FakeConsumer(harness, "c2")
    client.heartbeat(heartbeat_ms=2_000)
    for _ in range(10):
        other.heartbeat()
        harness.advance(790)
    assert ids(harness) == ["c1", "c2"]
    harness.advance(600)
    assert ids(harness) == ["c2"]
    assert [each.peer for each in harness.hangups] == [client.connection]


def test_silence_takes_a_java_member_after_two_minutes_and_the_others_are_reported() -> None:
    harness = BrokerHarness()
    client, other = FakeConsumer(harness, "c1", ours=False), FakeConsumer(harness, "c2", ours=False)
    client.heartbeat()
    for _ in range(4):
        other.heartbeat()
        harness.advance(29_900, step_ms=500)
    other.heartbeat()
    other.pop_notifications()
    assert ids(harness) == ["c1", "c2"]
    harness.advance(1_000)
    assert ids(harness) == ["c2"]
    assert other.pop_notifications() == 1


def test_a_group_that_a_live_client_no_longer_speaks_of_grows_old() -> None:
    harness = BrokerHarness()
    client = FakeConsumer(harness, "c1", ours=False)
    client.group = "given-up"
    client.heartbeat()
    client.group = GROUP
    for _ in range(5):
        client.heartbeat()
        harness.advance(30_000, step_ms=500)
    assert ids(harness, "given-up") == []
    assert ids(harness) == ["c1"]
    assert not harness.hangups


def test_a_late_unregistration_of_a_replaced_connection_changes_nothing() -> None:
    harness = BrokerHarness()
    client = FakeConsumer(harness, "c1")
    client.heartbeat()
    old = client.connection
    client.reconnect()
    client.unregister(connection=old)
    assert ids(harness) == ["c1"]


def test_an_unregistration_counts_on_any_connection_once_the_members_own_is_closed() -> None:
    harness = BrokerHarness()
    client = FakeConsumer(harness, "c1")
    client.heartbeat()
    client.close()
    client.unregister(connection=harness.connect())
    assert ids(harness) == []


def test_a_connection_that_speaks_under_another_id_is_another_member() -> None:
    harness = BrokerHarness()
    client = FakeConsumer(harness, "c1", ours=False)
    client.heartbeat()
    client.lock(0)
    client.id = "c2"
    client.heartbeat()
    assert ids(harness) == ["c2"]
    assert client.lock(0) == {0: 0}


# -- one id, several connections --------------------------------------------------------------------------------------


def test_a_client_that_reconnects_before_its_old_connection_is_gone_counts_once() -> None:
    harness = BrokerHarness()
    client = FakeConsumer(harness, "c1", ours=False)
    client.heartbeat()
    old = client.connection
    client.reconnect()
    assert ids(harness) == ["c1"]
    (peer,) = connections(harness).connections
    assert peer.client_address == client.connection.address
    harness.disconnect(old)
    harness.advance(1_000)
    assert ids(harness) == ["c1"]
    assert group_view(harness).findings is None


def test_ours_gives_its_old_connection_up_and_what_comes_late_on_it_is_refused() -> None:
    harness = BrokerHarness()
    client = FakeConsumer(harness, "c1")
    client.heartbeat()
    old = client.connection
    client.reconnect()
    assert group_view(harness).findings is None
    late = client.heartbeat(connection=old)
    assert late.code == 1
    assert "newer connection" in (late.remark or "")
    assert client.heartbeat().code == 0


def test_one_id_twice_is_refused() -> None:
    harness = BrokerHarness()
    first = FakeConsumer(harness, "c1", instance="one")
    second = FakeConsumer(harness, "c1", instance="two")
    first.heartbeat()
    answer = second.heartbeat()
    assert answer.code == 1
    assert first.connection.address in (answer.remark or "")
    first.unregister()
    assert second.heartbeat().code == 0


def test_one_id_twice_is_let_in_once_the_first_is_silent_or_its_connection_closed() -> None:
    harness = BrokerHarness()
    first, second = FakeConsumer(harness, "c1", instance="one"), FakeConsumer(harness, "c1", instance="two")
    first.heartbeat()
    first.close()
    assert second.heartbeat().code == 0


def test_javas_are_let_in_listed_once_and_reported() -> None:
    harness = BrokerHarness()
    first, second = FakeConsumer(harness, "c1", ours=False), FakeConsumer(harness, "c1", ours=False)
    assert first.heartbeat().code == second.heartbeat().code == 0
    harness.advance(1_000)
    first.heartbeat()
    second.heartbeat()
    assert ids(harness) == ["c1"]
    assert len(connections(harness).connections) == 1
    for view in (group_view(harness), connections(harness).steelyard):
        (warning,) = found_in(view)
        assert first.connection.address in warning
        assert second.connection.address in warning
        assert "they read the same queues, and each handles all their messages" in warning
        assert "unread" not in warning
    assert [note for note in harness.state.warnings if "c1" in note] == [warning]
    second.close()
    harness.advance(1_000)
    assert ids(harness) == ["c1"]
    assert group_view(harness).findings is None


def test_javas_are_refused_too_if_the_options_say_so() -> None:
    harness = BrokerHarness(BrokerOptions(refuse_duplicates=True))
    first, second = FakeConsumer(harness, "c1", ours=False), FakeConsumer(harness, "c1", ours=False)
    assert first.heartbeat().code == 0
    assert second.heartbeat().code == 1
    assert first.heartbeat().code == 0


def test_broadcasting_members_may_share_an_id() -> None:
    harness = BrokerHarness()
    for _ in range(2):
        assert (
            FakeConsumer(harness, "10.0.0.1@DEFAULT", ours=False, model=MessageModel.BROADCASTING).heartbeat().code == 0
        )
    assert group_view(harness).findings is None


# -- what members want -------------------------------------------------------------------------------------------------


def test_a_topic_stays_as_long_as_one_member_wants_it() -> None:
    harness = BrokerHarness()
    first, second = FakeConsumer(harness, "c1", ours=False), FakeConsumer(harness, "c2", ours=False)
    for _ in range(3):
        first.heartbeat(subscription_to("orders", "paid", 5))
        second.heartbeat(subscription_to("orders", "paid", 4), subscription_to("refunds"))
        assert set(connections(harness).subscriptions) == {"orders", "refunds"}
        assert connections(harness).subscriptions["orders"].version == 5
    second.unregister()
    assert set(connections(harness).subscriptions) == {"orders"}


def test_what_a_gone_member_wanted_does_not_rule_those_who_stay() -> None:
    harness = BrokerHarness()
    first, second = FakeConsumer(harness, "c1"), FakeConsumer(harness, "c2")
    first.heartbeat(subscription_to("orders", "old", 1))
    second.heartbeat(subscription_to("orders", "new", 2))
    assert connections(harness).subscriptions["orders"].expression == "new"
    second.unregister()
    assert connections(harness).subscriptions["orders"].expression == "old"


def test_members_that_disagree_are_named_once() -> None:
    harness = BrokerHarness()
    for client_id in ("c1", "c2"):
        FakeConsumer(harness, client_id, ours=False).heartbeat(subscription_to("orders", "paid || sent"))
    odd = FakeConsumer(harness, "c3", ours=False)
    odd.heartbeat(subscription_to("orders", "sent||paid", 7))
    assert group_view(harness).findings is None
    odd.heartbeat(subscription_to("orders", "lost", 8))
    harness.advance(2_000)
    (warning,) = found_in(group_view(harness))
    assert "different subscriptions to orders (c3 filters by lost, most by paid || sent)" in warning
    assert harness.state.warnings.count(warning) == 1
    odd.unregister()
    assert group_view(harness).findings is None


def test_queues_stay_unread_only_where_a_member_is_not_ours() -> None:
    harness = BrokerHarness()
    first, odd = FakeConsumer(harness, "c1"), FakeConsumer(harness, "c2")
    first.heartbeat(subscription_to("orders"))
    odd.heartbeat(subscription_to("orders"), subscription_to("refunds"))
    assert group_view(harness).findings is None, "each topic is shared among its subscribers"
    FakeConsumer(harness, "java", ours=False).heartbeat(subscription_to("orders"))
    (warning,) = found_in(group_view(harness))
    assert "other topics than most (c2, in refunds): all topics are shared among all members" in warning
    assert "stay unread" in warning


def test_members_that_broadcast_may_want_what_they_like() -> None:
    harness = BrokerHarness()
    for client_id, topic in (("c1", "orders"), ("c2", "refunds")):
        FakeConsumer(harness, client_id, ours=False, model=MessageModel.BROADCASTING).heartbeat(subscription_to(topic))
    assert group_view(harness).findings is None


def test_members_that_disagree_are_refused_if_the_options_say_so() -> None:
    harness = BrokerHarness(BrokerOptions(refuse_unequal=True))
    assert FakeConsumer(harness, "c1", ours=False).heartbeat(subscription_to("orders", "paid")).code == 0
    odd = FakeConsumer(harness, "c2", ours=False)
    answer = odd.heartbeat(subscription_to("orders", "sent"))
    assert answer.code == 1
    assert "c1" in (answer.remark or "")
    assert "orders" in (answer.remark or "")
    assert odd.heartbeat(subscription_to("orders", "paid", 9)).code == 0


def test_a_group_where_some_broadcast_and_some_share_is_reported() -> None:
    harness = BrokerHarness()
    FakeConsumer(harness, "c1", ours=False).heartbeat()
    FakeConsumer(harness, "c2", ours=False, model=MessageModel.BROADCASTING).heartbeat()
    (warning,) = found_in(group_view(harness))
    assert "c2" in warning
