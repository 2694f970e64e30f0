"""Plans of members that see the same fit together: every queue has one reader, while plans are carried out too."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.balance.crowd import NAMES, TWO, Crowd, settled

from steelyard.balance.allocate import Average, Circle, Custom, MachineRoom, Nearby, Ring, Sticky, Strategy
from steelyard.balance.member_options import Mode
from steelyard.model import Queue

_JAVA: list[Strategy] = [
    Average(),
    Circle(),
    Ring(),
    MachineRoom(frozenset({"east", "west"})),
    Nearby(lambda broker: broker.partition("@")[0], lambda member: "west" if member < "c3" else "east", Average()),
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
    crowd = Crowd(brokers, ours=ours, strategy=strategy, seed=seed, slowest_ms=60)
    for name, wait_ms in zip(NAMES, joins, strict=False):
        crowd.join(name)
        crowd.run(wait_ms)
    crowd.run(1_500)
    crowd.carry_out()
    if leaver and len(joins) > 1:
        crowd.crash(NAMES[0])
    crowd.settle()
    everything = sorted(crowd.readable())
    assert crowd.planned() == everything
    assert sorted(queue for member in crowd.members.values() for queue in member.held) == everything
    assert {member.views.strategy_name for member in crowd.members.values()} == {strategy.name}
    if isinstance(strategy, Sticky):
        for topic in ("t", "u"):
            counts = [sum(queue.topic == topic for queue in member.plan) for member in crowd.members.values()]
            assert max(counts) - min(counts) <= 1
        loads = [len(member.plan) for member in crowd.members.values()]
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
    crowd = Crowd({"a": {"t": size}, "b": {"t": 2}}, ours=ours, seed=seed)
    for name in NAMES[:members]:
        crowd.join(name, "t")
    crowd.run(1_000)
    crowd.carry_out()
    crowd.settle()
    if change == "join" or members == 1:
        crowd.join("new@sy1", "t")
    else:
        crowd.crash(NAMES[members - 1])
    crowd.run(1_500)
    plans = {name: member.plan for name, member in crowd.members.items()}
    assert crowd.planned() == sorted(crowd.readable())
    for moves in steps:
        crowd.carry_out(moves)
        for member in crowd.members.values():
            member.views.ask_now(crowd.now_ms)
        crowd.run(1_000)
        assert {name: member.plan for name, member in crowd.members.items()} == plans


def test_a_crash_moves_only_what_it_must() -> None:
    crowd = Crowd({"a": {"t": 9}})
    settled(crowd)
    before = {name: member.held.copy() for name, member in crowd.members.items()}
    crowd.crash(NAMES[1])
    crowd.settle()
    for name, member in crowd.members.items():
        assert before[name] <= member.held


def test_whoever_is_about_to_leave_gets_nothing() -> None:
    crowd = Crowd(TWO)
    first, leaver, last = settled(crowd)
    leaver.lines.leaving = True
    for broker in crowd.brokers.values():
        crowd.notify(broker)
    crowd.run(500)
    assert leaver.views.plan() == ()
    assert sorted([*first.plan, *last.plan]) == sorted(crowd.readable())
    rounds = leaver.views.rounds
    crowd.run(60_000)
    assert leaver.views.rounds == rounds


def test_a_broadcasting_member_reads_every_queue_and_asks_nobody() -> None:
    crowd = Crowd({"a": {"t": 4}, "b": {"t": 3}})
    members = [crowd.join(name, "t", mode=Mode.BROADCAST) for name in NAMES[:2]]
    crowd.run(1_000)
    for member in members:
        assert member.plan == tuple(sorted(crowd.readable()))
    assert [broker.asked for broker in crowd.brokers.values()] == [0, 0]
    crowd.routed["b"] = crowd.brokers["b"].queues = {"t": 5}
    crowd.run(31_000)
    assert members[0].plan == tuple(sorted(crowd.readable()))


def test_unequal_subscriptions_share_each_topic_among_those_who_want_it() -> None:
    crowd = Crowd({"a": {"t": 6, "u": 6}})
    only_t, both, only_u = crowd.join("c1@sy1", "t"), crowd.join("c2@sy1", "t", "u"), crowd.join("c3@sy1", "u")
    crowd.run(1_000)
    assert crowd.planned() == sorted(crowd.readable())
    assert Counter(queue.topic for queue in only_t.plan) == {"t": 3}
    assert Counter(queue.topic for queue in both.plan) == {"t": 3, "u": 3}
    assert Counter(queue.topic for queue in only_u.plan) == {"u": 3}


def test_a_strategy_that_raises_changes_nothing_and_is_told_of_once() -> None:
    is_broken = False

    def moody(_group: str, _member: str, queues: Sequence[Queue], _members: Sequence[str]) -> list[Queue]:
        if is_broken:
            raise RuntimeError("out of order")
        return list(queues)

    crowd = Crowd({"a": {"t": 4}}, strategy=Custom("MOODY", moody))
    member = crowd.join(NAMES[0], "t")
    crowd.run(1_000)
    plan = member.plan
    assert len(plan) == 4
    is_broken = True
    crowd.run(50_000)
    assert member.plan == plan
    assert [report.kind for report in member.told] == ["hazard"]
    assert "out of order" in member.told[0].sentence
