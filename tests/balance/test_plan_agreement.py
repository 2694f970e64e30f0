"""Plans of members that see the same fit together: every queue has one reader, while plans are carried out too."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.balance.assignors import (
    Average,
    AverageByCircle,
    ConsistentHash,
    CustomStrategy,
    MachineRoom,
    MachineRoomNearby,
    Sticky,
    Strategy,
)
from steelyard.balance.group.options import ConsumeMode
from steelyard.model import Queue
from tests.balance.group_harness import NAMES, TWO, GroupHarness, settled

_JAVA: list[Strategy] = [
    Average(),
    AverageByCircle(),
    ConsistentHash(),
    MachineRoom(frozenset({"east", "west"})),
    MachineRoomNearby(
        lambda broker: broker.partition("@")[0], lambda member: "west" if member < "c3" else "east", Average()
    ),
]


@pytest.mark.parametrize("strategy", [Sticky(), *_JAVA], ids=lambda each: each.name)
@pytest.mark.parametrize("ours", [True, False], ids=["leases", "no leases"])
@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 6), min_size=2, max_size=4),
    joins=st.lists(st.integers(0, 400), min_size=1, max_size=7),
    leaver=st.booleans(),
    seed=st.integers(0, 1 << 32),
)
def test_members_that_see_the_same_share_all_queues_and_no_queue_twice(
    strategy: Strategy, ours: bool, sizes: list[int], joins: list[int], leaver: bool, seed: int
) -> None:
    brokers = {f"{'east' if n % 2 else 'west'}@{n}": {"t": size, "u": 1 + n} for n, size in enumerate(sizes)}
    cluster = GroupHarness(brokers, ours=ours, strategy=strategy, seed=seed, slowest_ms=60)
    for name, wait_ms in zip(NAMES, joins, strict=False):
        cluster.join(name)
        cluster.run(wait_ms)
    cluster.run(1_500)
    cluster.carry_out()
    if leaver and len(joins) > 1:
        cluster.crash(NAMES[0])
    cluster.settle()
    everything = sorted(cluster.readable())
    assert cluster.planned() == everything
    assert sorted(queue for member in cluster.members.values() for queue in member.held) == everything
    assert {member.rebalancer.assignment.strategy_name for member in cluster.members.values()} == {strategy.name}
    if isinstance(strategy, Sticky):
        for topic in ("t", "u"):
            counts = [sum(queue.topic == topic for queue in member.plan) for member in cluster.members.values()]
            assert max(counts) - min(counts) <= 1
        loads = [len(member.plan) for member in cluster.members.values()]
        assert max(loads) - min(loads) <= 1


@settings(max_examples=40, deadline=None)
@given(
    ours=st.booleans(),
    size=st.integers(1, 12),
    members=st.integers(1, 5),
    change=st.sampled_from(["join", "crash"]),
    steps=st.lists(st.integers(1, 3), max_size=6),
    seed=st.integers(0, 1 << 32),
)
def test_a_sticky_plan_stays_the_same_while_it_is_carried_out(
    ours: bool, size: int, members: int, change: str, steps: list[int], seed: int
) -> None:
    cluster = GroupHarness({"a": {"t": size}, "b": {"t": 2}}, ours=ours, seed=seed)
    for name in NAMES[:members]:
        cluster.join(name, "t")
    cluster.run(1_000)
    cluster.carry_out()
    cluster.settle()
    if change == "join" or members == 1:
        cluster.join("new@sy1", "t")
    else:
        cluster.crash(NAMES[members - 1])
    cluster.run(1_500)
    plans = {name: member.plan for name, member in cluster.members.items()}
    assert cluster.planned() == sorted(cluster.readable())
    for moves in steps:
        cluster.carry_out(moves)
        for member in cluster.members.values():
            member.rebalancer.request_rebalance(cluster.now_ms)
        cluster.run(1_000)
        assert {name: member.plan for name, member in cluster.members.items()} == plans


def test_a_crash_moves_only_what_it_must() -> None:
    cluster = GroupHarness({"a": {"t": 9}})
    settled(cluster)
    before = {name: member.held.copy() for name, member in cluster.members.items()}
    cluster.crash(NAMES[1])
    cluster.settle()
    for name, member in cluster.members.items():
        assert before[name] <= member.held


def test_a_leaving_member_gets_nothing() -> None:
    cluster = GroupHarness(TWO)
    first, leaver, last = settled(cluster)
    leaver.sessions.is_leaving = True
    for broker in cluster.brokers.values():
        cluster.notify(broker)
    cluster.run(500)
    assert leaver.rebalancer.plan() == ()
    assert sorted([*first.plan, *last.plan]) == sorted(cluster.readable())
    rounds = leaver.rebalancer.timer.count
    cluster.run(60_000)
    assert leaver.rebalancer.timer.count == rounds


def test_a_broadcasting_member_reads_every_queue_and_queries_no_members() -> None:
    cluster = GroupHarness({"a": {"t": 4}, "b": {"t": 3}})
    members = [cluster.join(name, "t", mode=ConsumeMode.BROADCAST) for name in NAMES[:2]]
    cluster.run(1_000)
    for member in members:
        assert member.plan == tuple(sorted(cluster.readable()))
    assert [broker.asked for broker in cluster.brokers.values()] == [0, 0]
    cluster.routed["b"] = cluster.brokers["b"].queues = {"t": 5}
    cluster.run(31_000)
    assert members[0].plan == tuple(sorted(cluster.readable()))


def test_unequal_subscriptions_share_each_topic_among_those_who_want_it() -> None:
    cluster = GroupHarness({"a": {"t": 6, "u": 6}})
    only_t, both, only_u = cluster.join("c1@sy1", "t"), cluster.join("c2@sy1", "t", "u"), cluster.join("c3@sy1", "u")
    cluster.run(1_000)
    assert cluster.planned() == sorted(cluster.readable())
    assert Counter(queue.topic for queue in only_t.plan) == {"t": 3}
    assert Counter(queue.topic for queue in both.plan) == {"t": 3, "u": 3}
    assert Counter(queue.topic for queue in only_u.plan) == {"u": 3}


def test_a_strategy_that_raises_changes_nothing_and_is_reported_once() -> None:
    is_broken = False

    def moody(_group: str, _member: str, queues: Sequence[Queue], _members: Sequence[str]) -> list[Queue]:
        if is_broken:
            raise RuntimeError("out of order")
        return list(queues)

    cluster = GroupHarness({"a": {"t": 4}}, strategy=CustomStrategy("MOODY", moody))
    member = cluster.join(NAMES[0], "t")
    cluster.run(1_000)
    plan = member.plan
    assert len(plan) == 4
    is_broken = True
    cluster.run(50_000)
    assert member.plan == plan
    assert [report.kind for report in member.reports] == ["warning"]
    assert "out of order" in member.reports[0].sentence
