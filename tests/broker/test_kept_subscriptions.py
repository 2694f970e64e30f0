"""Pulls after a restart: a group is served by what it wanted before, until its members are heard again."""

import pytest
from tests.broker.desk import Desk
from tests.broker.reader import beat, bodies, make_topic, pull, pull_header, put

from steelyard.broker import kept_subscriptions
from steelyard.store.state import SUBSCRIPTIONS, load
from steelyard.wire.bodies.groups import GroupSettings
from steelyard.wire.bodies.heartbeat import SubscriptionBody
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.headers.admin import DeleteGroup
from steelyard.wire.headers.group import Unregister

_NOT_HEARD_YET, _NOT_LATEST = 24, 25


@pytest.fixture
def desk() -> Desk:
    """Open a broker with a topic of two messages, one of them paid, and a member that wants that one."""
    found = Desk()
    make_topic(found)
    put(found, [b"open"])
    put(found, [b"paid"], tag="paid")
    beat(found, "a", found.peer, subscriptions=[_paid(version=7)])
    return found


def _paid(version: int, expression: str = "paid") -> SubscriptionBody:
    return SubscriptionBody(topic="orders", expression=expression, version=version)


def _pull(desk: Desk, version: int = 7, group: str = "billing") -> Command:
    """Pull as Java's members do: the filter is what the heartbeat said."""
    return pull(desk, pull_header(flags=0, wanted=None, kind=None, version=version, group=group))


def test_members_are_served_right_after_a_restart_and_by_what_they_wanted(desk: Desk) -> None:
    desk.restart()
    assert bodies(_pull(desk)) == [b"paid"]
    assert desk.state.members.group("billing") is None


def test_they_are_served_after_a_crash_too_once_that_was_saved(desk: Desk) -> None:
    desk.save()
    desk.lose_power()
    put(desk, [b"paid again"], tag="paid")
    assert bodies(_pull(desk))[-1] == b"paid again"


def test_a_member_whose_subscription_is_newer_waits_for_its_heartbeat(desk: Desk) -> None:
    desk.restart()
    assert _pull(desk, version=8).code == _NOT_HEARD_YET
    beat(desk, "a", desk.peer, subscriptions=[_paid(version=8)])
    assert bodies(_pull(desk, version=8)) == [b"paid"]


def test_the_first_member_to_be_heard_takes_nothing_from_the_others(desk: Desk) -> None:
    desk.restart()
    beat(desk, "b", desk.peer, subscriptions=[_paid(version=3)])
    assert bodies(_pull(desk)) == [b"paid"]
    assert _pull(desk, version=8).code == _NOT_LATEST
    desk.restart()
    assert bodies(_pull(desk)) == [b"paid"]


def test_nothing_is_kept_of_a_group_whose_members_disagree(desk: Desk) -> None:
    beat(desk, "b", desk.line(), subscriptions=[_paid(version=9, expression="open")])
    desk.restart()
    assert _pull(desk).code == _NOT_HEARD_YET


def test_a_group_that_has_left_or_was_deleted_is_forgotten(desk: Desk) -> None:
    beat(desk, "b", desk.line(), group="gone", subscriptions=[_paid(version=7)])
    desk.ask(RequestCode.UNREGISTER_CLIENT, Unregister("a", None, "billing"))
    desk.restart()
    assert _pull(desk).code == _NOT_HEARD_YET
    assert bodies(_pull(desk, group="gone")) == [b"paid"]
    desk.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, DeleteGroup("gone"))
    assert _pull(desk, group="gone").code == _NOT_HEARD_YET


def test_who_does_not_come_back_is_forgotten_on_the_disk_too(desk: Desk) -> None:
    desk.restart()
    desk.advance(desk.options.client_silence_ms, step_ms=10_000)
    assert _pull(desk).code == _NOT_HEARD_YET
    desk.save(everything=True)
    saved = load(desk.disk, SUBSCRIPTIONS).value
    assert saved is not None
    assert saved.groups == {}


def test_a_group_that_may_not_broadcast_waits_since_nobody_knows_whether_it_does(desk: Desk) -> None:
    desk.state.groups.put(GroupSettings(name="billing", broadcast_enabled=False), desk.now_ms)
    desk.restart()
    assert _pull(desk).code == _NOT_HEARD_YET


def test_what_is_too_much_for_one_file_is_left_out(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_subscriptions, "_MOST_BYTES", 1_000)
    beat(desk, "b", desk.line(), group="long", subscriptions=[_paid(version=7, expression="paid || " + "x" * 2_000)])
    desk.restart()
    assert bodies(_pull(desk)) == [b"paid"]
    assert _pull(desk, group="long").code == _NOT_HEARD_YET
