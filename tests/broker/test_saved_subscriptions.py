"""Pulls after a restart: a group is served by its saved subscriptions until its members send heartbeats again."""

import pytest

from steelyard.broker import consumer_registry
from steelyard.store.json_documents import SUBSCRIPTIONS, load_document
from steelyard.wire.bodies.groups import SubscriptionGroupConfig
from steelyard.wire.bodies.heartbeat import SubscriptionBody
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.headers.admin import DeleteGroup
from steelyard.wire.headers.group import UnregisterClient
from tests.broker.broker_harness import BrokerHarness
from tests.broker.pull_requests import bodies, make_topic, pull, pull_header, send_heartbeat, store_messages

_NOT_HEARD_YET, _NOT_LATEST = 24, 25


@pytest.fixture
def harness() -> BrokerHarness:
    """Open a broker with a topic of two messages, one of them paid, and a member that wants that one."""
    found = BrokerHarness()
    make_topic(found)
    store_messages(found, [b"open"])
    store_messages(found, [b"paid"], tag="paid")
    send_heartbeat(found, "a", found.peer, subscriptions=[_paid(version=7)])
    return found


def _paid(version: int, expression: str = "paid") -> SubscriptionBody:
    return SubscriptionBody(topic="orders", expression=expression, version=version)


def _pull(harness: BrokerHarness, version: int = 7, group: str = "billing") -> Command:
    """Pull as Java's members do: the filter is what the heartbeat said."""
    return pull(harness, pull_header(flags=0, wanted=None, kind=None, version=version, group=group))


def test_members_are_served_right_after_a_restart_and_by_what_they_wanted(harness: BrokerHarness) -> None:
    harness.restart()
    assert bodies(_pull(harness)) == [b"paid"]
    assert harness.state.consumers.group("billing") is None


def test_they_are_served_after_a_crash_too_once_that_was_saved(harness: BrokerHarness) -> None:
    harness.save()
    harness.lose_power()
    store_messages(harness, [b"paid again"], tag="paid")
    assert bodies(_pull(harness))[-1] == b"paid again"


def test_a_member_whose_subscription_is_newer_waits_for_its_heartbeat(harness: BrokerHarness) -> None:
    harness.restart()
    assert _pull(harness, version=8).code == _NOT_HEARD_YET
    send_heartbeat(harness, "a", harness.peer, subscriptions=[_paid(version=8)])
    assert bodies(_pull(harness, version=8)) == [b"paid"]


def test_the_first_member_to_be_heard_takes_nothing_from_the_others(harness: BrokerHarness) -> None:
    harness.restart()
    send_heartbeat(harness, "b", harness.peer, subscriptions=[_paid(version=3)])
    assert bodies(_pull(harness)) == [b"paid"]
    assert _pull(harness, version=8).code == _NOT_LATEST
    harness.restart()
    assert bodies(_pull(harness)) == [b"paid"]


def test_nothing_is_kept_of_a_group_whose_members_disagree(harness: BrokerHarness) -> None:
    send_heartbeat(harness, "b", harness.connect(), subscriptions=[_paid(version=9, expression="open")])
    harness.restart()
    assert _pull(harness).code == _NOT_HEARD_YET


def test_a_group_that_has_left_or_was_deleted_is_forgotten(harness: BrokerHarness) -> None:
    send_heartbeat(harness, "b", harness.connect(), group="gone", subscriptions=[_paid(version=7)])
    harness.request(RequestCode.UNREGISTER_CLIENT, UnregisterClient("a", None, "billing"))
    harness.restart()
    assert _pull(harness).code == _NOT_HEARD_YET
    assert bodies(_pull(harness, group="gone")) == [b"paid"]
    harness.request(RequestCode.DELETE_SUBSCRIPTIONGROUP, DeleteGroup("gone"))
    assert _pull(harness, group="gone").code == _NOT_HEARD_YET


def test_who_does_not_come_back_is_forgotten_on_the_disk_too(harness: BrokerHarness) -> None:
    harness.restart()
    harness.advance(harness.options.client_silence_ms, step_ms=10_000)
    assert _pull(harness).code == _NOT_HEARD_YET
    harness.save(everything=True)
    saved = load_document(harness.disk, SUBSCRIPTIONS).value
    assert saved is not None
    assert saved.groups == {}


def test_a_group_that_may_not_broadcast_waits_since_nobody_knows_whether_it_does(harness: BrokerHarness) -> None:
    harness.state.groups.put(SubscriptionGroupConfig(name="billing", broadcast_enabled=False), harness.now_ms)
    harness.restart()
    assert _pull(harness).code == _NOT_HEARD_YET


def test_what_is_too_much_for_one_file_is_left_out(harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_registry, "_MAX_SAVED_BYTES", 1_000)
    send_heartbeat(
        harness,
        "b",
        harness.connect(),
        group="long",
        subscriptions=[_paid(version=7, expression="paid || " + "x" * 2_000)],
    )
    harness.restart()
    assert bodies(_pull(harness)) == [b"paid"]
    assert _pull(harness, group="long").code == _NOT_HEARD_YET
