"""When a member rebalances: at once after a notification, seldom after many of them, and by the clock."""

from math import ceil

from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.balance.group.events import (
    ConnectionLost,
    ConnectionOpened,
    HandoverRequested,
    MemberListFailed,
    MemberListReceived,
    MembersChanged,
    RouteReceived,
)
from steelyard.balance.group.options import MemberTimings
from steelyard.model import Queue
from tests.balance.group_harness import NAMES, GroupHarness, settled

_TIMES = MemberTimings()


@settings(max_examples=40, deadline=None)
@given(
    gaps=st.lists(st.integers(0, 350), min_size=1, max_size=60),
    slowest_ms=st.integers(0, 300),
    seed=st.integers(0, 1 << 32),
)
def test_many_notifications_cost_few_rebalances(gaps: list[int], slowest_ms: int, seed: int) -> None:
    # No looks but those that notices cause.
    cluster = GroupHarness(
        {"a": {"t": 4}}, times=MemberTimings(rebalance_unsettled_interval_ms=10**9), seed=seed, slowest_ms=slowest_ms
    )
    member = cluster.join(NAMES[0], "t")
    cluster.run(4_000)
    rounds, began_ms = member.rebalancer.timer.count, cluster.now_ms
    for gap_ms in gaps:
        cluster.process_now(member, MembersChanged("a"))
        last_ms = cluster.now_ms
        cluster.run(gap_ms)
    cluster.run(2_000)
    storm_ms = last_ms - began_ms + 1
    assert 1 <= member.rebalancer.timer.count - rounds <= ceil(storm_ms / _TIMES.rebalance_gap_ms) + 2


def test_the_first_notification_acts_at_once_and_those_during_a_rebalance_make_one_more() -> None:
    cluster = GroupHarness({"a": {"t": 4}}, slowest_ms=50, seed=3)
    member = cluster.join(NAMES[0], "t")
    cluster.run(2_000)
    rounds = member.rebalancer.timer.count
    cluster.process_now(member, MembersChanged("a"))
    assert member.rebalancer.timer.count == rounds + 1
    for _ in range(10):
        cluster.process_now(member, MembersChanged("a"))
    assert member.rebalancer.timer.count == rounds + 1
    cluster.run(1_000)
    assert member.rebalancer.timer.count == rounds + 2


def test_eight_joins_at_once_cost_few_rebalances() -> None:
    cluster = GroupHarness({"a": {"t": 16}})
    members = [cluster.join(name, "t") for name in NAMES]
    cluster.run(1_000)
    assert cluster.planned() == sorted(cluster.readable())
    assert sum(member.rebalancer.timer.count for member in members) <= 26


def test_a_settled_group_rebalances_every_twenty_seconds_and_an_unsettled_one_every_five() -> None:
    cluster = GroupHarness({"a": {"t": 4}})
    member = cluster.join(NAMES[0], "t")
    cluster.run(70_000)
    rounds = member.rebalancer.timer.count
    cluster.run(60_000)
    assert member.rebalancer.timer.count - rounds == 3
    member.rebalancer.set_unsettled(True)
    cluster.run(60_000)
    assert member.rebalancer.timer.count - rounds in (15, 16)


def test_a_handover_request_counts_if_it_is_about_a_queue_of_ours() -> None:
    cluster = GroupHarness({"a": {"t": 4}})
    first, second, _ = settled(cluster)
    cluster.run(300)
    rounds = first.rebalancer.timer.count
    cluster.process_now(first, HandoverRequested(second.id))
    cluster.process_now(first, HandoverRequested(second.id, second.plan))
    assert first.rebalancer.timer.count == rounds
    cluster.process_now(first, HandoverRequested(second.id, first.plan))
    assert first.rebalancer.timer.count == rounds + 1


def test_a_list_that_was_requested_by_a_sweep_counts_too() -> None:
    cluster = GroupHarness({"a": {"t": 4}}, ours=False)
    first, second, third = settled(cluster)
    cluster.run(300)
    rounds = first.rebalancer.timer.count
    known = (first.id, second.id, third.id)
    cluster.process_now(first, MemberListReceived("a", known, request_id=7))
    cluster.process_now(first, MemberListFailed("a", request_id=7))
    assert first.rebalancer.timer.count == rounds
    cluster.process_now(first, MemberListReceived("a", (*known, "new@sy1"), request_id=9))
    assert "new@sy1" in first.rebalancer.listed_members("a", cluster.now_ms)
    assert first.rebalancer.timer.count == rounds + 1


def test_a_list_counts_for_a_taker_though_its_broker_is_in_no_route() -> None:
    cluster = GroupHarness({"a": {"t": 2}, "b": {"t": 2}})
    first, second, _ = settled(cluster)
    cluster.process_now(first, RouteReceived("t", tuple(Queue("t", "a", number) for number in range(2))))
    assert second.id in first.rebalancer.listed_members("b", cluster.now_ms)
    cluster.process_now(first, MemberListReceived("b", (first.id, "new@sy1"), request_id=11))
    assert "new@sy1" in first.rebalancer.listed_members("b", cluster.now_ms)
    assert "new@sy1" not in first.rebalancer.members()


def test_a_lost_connection_ends_a_rebalance_that_waits_for_it() -> None:
    cluster = GroupHarness({"a": {"t": 4}})
    first, *_ = settled(cluster)
    plan = first.plan
    cluster.brokers["a"].is_silent = True
    cluster.process_now(first, MembersChanged("a"))
    cluster.process_now(first, ConnectionLost("a"))
    cluster.brokers["a"].is_silent = False
    rounds = first.rebalancer.timer.count
    cluster.run(10_000)
    assert (first.rebalancer.timer.count, first.plan) == (rounds, plan), "there is nobody to ask"
    cluster.process_now(first, ConnectionOpened("a"))
    cluster.run(100)
    assert (first.rebalancer.timer.count, first.plan) == (rounds + 1, plan)
