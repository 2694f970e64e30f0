"""Whom a member believes to be in its group, when it looks, and what it plans from that."""

from collections import Counter
from collections.abc import Sequence
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.balance.stage import GROUP, Stage, Watcher

from steelyard.balance.allocate import Average, ByConfig, Circle, Custom, MachineRoom, Nearby, Ring, Sticky, Strategy
from steelyard.balance.events import GroupFailed, GroupSeen, LineCut, LineOpened, MembersChanged, Poked, RouteSeen
from steelyard.balance.member_options import Mode, Times
from steelyard.model import Queue

_RETRY = f"%RETRY%{GROUP}"
_TIMES = Times()
_TWO = {"a": {"t": 4, _RETRY: 1}, "b": {"t": 3, _RETRY: 1}}
_NAMES = [f"c{number}@sy1" for number in range(8)]


def _settled(stage: Stage, members: int = 3) -> list[Watcher]:
    joined = [stage.join(name, "t") for name in _NAMES[:members]]
    stage.run(1_000)
    stage.carry_out()
    stage.settle()
    assert stage.planned() == sorted(stage.readable())
    return joined


# -- plans fit together ------------------------------------------------------------------------------------------------

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
    stage = Stage(brokers, ours=ours, strategy=strategy, seed=seed, slowest_ms=60)
    for name, wait_ms in zip(_NAMES, joins, strict=False):
        stage.join(name)
        stage.run(wait_ms)
    stage.run(1_500)
    stage.carry_out()
    if leaver and len(joins) > 1:
        stage.crash(_NAMES[0])
    stage.settle()
    everything = sorted(stage.readable())
    assert stage.planned() == everything
    assert sorted(queue for member in stage.members.values() for queue in member.held) == everything
    assert {member.views.strategy_name for member in stage.members.values()} == {strategy.name}
    if isinstance(strategy, Sticky):
        for topic in ("t", "u"):
            counts = [sum(queue.topic == topic for queue in member.plan) for member in stage.members.values()]
            assert max(counts) - min(counts) <= 1
        loads = [len(member.plan) for member in stage.members.values()]
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
    stage = Stage({"a": {"t": size}, "b": {"t": 2}}, ours=ours, seed=seed)
    for name in _NAMES[:members]:
        stage.join(name, "t")
    stage.run(1_000)
    stage.carry_out()
    stage.settle()
    if change == "join" or members == 1:
        stage.join("new@sy1", "t")
    else:
        stage.crash(_NAMES[members - 1])
    stage.run(1_500)
    plans = {name: member.plan for name, member in stage.members.items()}
    assert stage.planned() == sorted(stage.readable())
    for moves in steps:
        stage.carry_out(moves)
        for member in stage.members.values():
            member.views.ask_now(stage.now_ms)
        stage.run(1_000)
        assert {name: member.plan for name, member in stage.members.items()} == plans


def test_a_crash_moves_only_what_it_must() -> None:
    stage = Stage({"a": {"t": 9}})
    _settled(stage)
    before = {name: member.held.copy() for name, member in stage.members.items()}
    stage.crash(_NAMES[1])
    stage.settle()
    for name, member in stage.members.items():
        assert before[name] <= member.held


def test_whoever_is_about_to_leave_gets_nothing() -> None:
    stage = Stage(_TWO)
    first, leaver, last = _settled(stage)
    leaver.lines.leaving = True
    for broker in stage.brokers.values():
        stage.notify(broker)
    stage.run(500)
    assert leaver.views.plan() == ()
    assert sorted([*first.plan, *last.plan]) == sorted(stage.readable())
    rounds = leaver.views.rounds
    stage.run(60_000)
    assert leaver.views.rounds == rounds


def test_a_broadcasting_member_reads_every_queue_and_asks_nobody() -> None:
    stage = Stage({"a": {"t": 4}, "b": {"t": 3}})
    members = [stage.join(name, "t", mode=Mode.BROADCAST) for name in _NAMES[:2]]
    stage.run(1_000)
    for member in members:
        assert member.plan == tuple(sorted(stage.readable()))
    assert [broker.asked for broker in stage.brokers.values()] == [0, 0]
    stage.routed["b"] = stage.brokers["b"].queues = {"t": 5}
    stage.run(31_000)
    assert members[0].plan == tuple(sorted(stage.readable()))


def test_unequal_subscriptions_share_each_topic_among_those_who_want_it() -> None:
    stage = Stage({"a": {"t": 6, "u": 6}})
    only_t, both, only_u = stage.join("c1@sy1", "t"), stage.join("c2@sy1", "t", "u"), stage.join("c3@sy1", "u")
    stage.run(1_000)
    assert stage.planned() == sorted(stage.readable())
    assert Counter(queue.topic for queue in only_t.plan) == {"t": 3}
    assert Counter(queue.topic for queue in both.plan) == {"t": 3, "u": 3}
    assert Counter(queue.topic for queue in only_u.plan) == {"u": 3}


def test_a_strategy_that_raises_changes_nothing_and_is_told_of_once() -> None:
    is_broken = False

    def moody(_group: str, _member: str, queues: Sequence[Queue], _members: Sequence[str]) -> list[Queue]:
        if is_broken:
            raise RuntimeError("out of order")
        return list(queues)

    stage = Stage({"a": {"t": 4}}, strategy=Custom("MOODY", moody))
    member = stage.join(_NAMES[0], "t")
    stage.run(1_000)
    plan = member.plan
    assert len(plan) == 4
    is_broken = True
    stage.run(60_000)
    assert member.plan == plan
    assert [report.kind for report in member.told] == ["hazard"]
    assert "out of order" in member.told[0].sentence


# -- whom to believe ---------------------------------------------------------------------------------------------------


def test_a_broker_hears_of_us_before_it_is_asked() -> None:
    stage = Stage(_TWO)
    stage.join(_NAMES[0], "t")
    # The stage refuses a question from a member that is not registered.
    stage.run(30_000)
    assert all(broker.asked for broker in stage.brokers.values())


def test_of_many_brokers_all_members_ask_the_same_sixteen() -> None:
    stage = Stage({f"b{number:02d}": {"t": 1} for number in range(40)})
    for name in _NAMES[:3]:
        stage.join(name, "t")
    stage.run(2_000)
    asked = [broker.asked for broker in stage.brokers.values()]
    assert sum(count > 0 for count in asked) == 16
    assert sum(count >= 3 for count in asked) == 16
    assert stage.planned() == sorted(stage.readable())


def test_brokers_disagree_about_members() -> None:
    stage = Stage(_TWO)
    first, second, _ = _settled(stage)
    stage.unlist(stage.brokers["a"], second.id, notice=False)
    rounds = first.views.rounds
    first.views.ask_now(stage.now_ms)
    stage.run(2_500)
    assert second.id in first.views.members(), "whoever is on any list is in the group"
    assert first.views.rounds - rounds == 3, "and it is asked every second until the lists agree"


def test_own_id_missing_drops_nothing() -> None:
    stage = Stage(_TWO, strategy=Average())
    first, *_ = _settled(stage)
    plan = first.plan
    broker = stage.brokers["a"]
    broker.is_settled = False
    broker.listed.clear()
    broker.beats.clear()
    first.views.ask_now(stage.now_ms)
    stage.run(300)
    assert first.plan == plan
    assert (first.id, None) in [(name, beat.held) for name, beat in broker.beats], "a heartbeat at once"
    stage.run(300)
    assert first.id in broker.listed
    assert first.plan == plan, "nor is anything taken from those who come back later"


def test_nobody_answers_and_everything_stays() -> None:
    stage = Stage(_TWO)
    first, *_ = _settled(stage)
    plan, rounds = first.plan, first.views.rounds
    for broker in stage.brokers.values():
        broker.is_silent = True
    first.views.ask_now(stage.now_ms)
    stage.run(100_000)
    assert first.plan == plan
    assert 100_000 // 8_100 <= first.views.rounds - rounds <= 17, "asked after 1, 2, 4 and then each 5 s"


def test_the_last_list_of_a_silent_broker_counts_for_half_a_minute() -> None:
    stage = Stage(_TWO)
    first, second, third = _settled(stage)
    silent = stage.brokers["a"]
    stage.cut(first, silent)
    stage.crash(third.id)
    stage.run(29_000)
    assert third.id in first.views.members()
    stage.run(2_000)
    assert third.id not in first.views.members()
    assert second.id in first.views.members()


def test_a_line_blip_moves_nothing() -> None:
    stage = Stage(_TWO, ours=False)
    first, second, _ = _settled(stage)
    plan = first.plan
    for broker in stage.brokers.values():
        stage.unlist(broker, second.id)
    stage.run(150)
    assert second.id in first.views.listed("a", stage.now_ms), "whoever takes a queue still asks it"
    assert first.views.missed(stage.now_ms).keys() == {second.id}
    for broker in stage.brokers.values():
        broker.listed[second.id] = second
    stage.run(5_000)
    assert first.plan == plan
    assert not first.views.has_departed(second.id, stage.now_ms)


def test_a_crash_on_a_broker_without_leases_counts_within_half_a_second() -> None:
    stage = Stage(_TWO, ours=False)
    first, second, third = _settled(stage)
    assert not first.views.has_departed(second.id, stage.now_ms)
    stage.crash(second.id)
    stage.run(500)
    assert first.views.has_departed(second.id, stage.now_ms)
    assert second.id not in first.views.members()
    assert sorted([*first.plan, *third.plan]) == sorted(stage.readable())


def test_departures_do_not_count_while_a_restarted_broker_gathers_its_members() -> None:
    stage = Stage({"a": {"t": 6}}, ours=False, strategy=Average())
    first, second, third = _settled(stage)
    plan, broker = first.plan, stage.brokers["a"]
    broker.listed.clear()
    stage.cut(first, broker)
    stage.open(first, broker)
    stage.run(2_500)
    assert first.plan == plan
    broker.listed |= {second.id: second, third.id: third}
    stage.run(10_000)
    assert first.plan == plan
    stage.unlist(broker, third.id)
    stage.run(1_000)
    assert first.plan != plan


def test_a_plan_without_leases_needs_two_equal_looks() -> None:
    stage = Stage({"a": {"t": 4}}, ours=False, slowest_ms=0)
    member = stage.join(_NAMES[0], "t")
    stage.run(199)
    assert member.views.rounds == 1
    assert member.views.plan() is None
    stage.run(10)
    assert member.views.rounds == 2
    assert len(member.plan) == 4


def test_a_plan_with_leases_follows_from_one_look() -> None:
    stage = Stage({"a": {"t": 4}}, slowest_ms=0)
    member = stage.join(_NAMES[0], "t")
    stage.run(1)
    assert member.views.rounds == 1
    assert len(member.plan) == 4


def test_a_foreign_member_makes_everybody_share_as_java_does() -> None:
    stage = Stage({"a": {"t": 6}})
    first, second, third = _settled(stage)
    stage.list_stranger("10.0.0.9@java")
    stage.run(1_000)
    assert first.views.has_foreign()
    assert first.views.members() == ("10.0.0.9@java", first.id, second.id, third.id)
    assert [[queue.queue_id for queue in member.plan] for member in (first, second, third)] == [[2, 3], [4], [5]]
    assert first.views.strategy_name == "AVG"
    assert [report.kind for report in first.told] == ["degraded"]
    for broker in stage.brokers.values():
        del broker.listed["10.0.0.9@java"]
        stage.notify(broker)
    stage.settle()
    assert first.views.strategy_name == "STICKY"


# -- owners, where no broker tells -------------------------------------------------------------------------------------


def test_without_leases_each_peer_is_asked_once_a_round_what_it_holds() -> None:
    stage = Stage({"a": {"t": 9}}, ours=False)
    first, *_ = _settled(stage)
    asked, rounds = first.holders_asked, first.views.rounds
    first.views.ask_now(stage.now_ms)
    stage.run(1_000)
    assert (first.views.rounds - rounds, first.holders_asked - asked) == (1, 2)


def test_a_peer_that_is_silent_twice_ends_stickiness_until_it_speaks() -> None:
    stage = Stage({"a": {"t": 9}}, ours=False)
    first, second, _ = _settled(stage)
    second.is_mute = True
    for _ in range(2):
        first.views.ask_now(stage.now_ms)
        stage.run(4_000)
    assert first.views.strategy_name == "AVG"
    rounds = first.views.rounds
    first.views.ask_now(stage.now_ms)
    stage.run(250)
    assert first.views.rounds == rounds + 1
    stage.hear(first, MembersChanged("a"))
    stage.run(250)
    assert first.views.rounds == rounds + 2, "nobody waits for it any more"
    second.is_mute = False
    stage.run(10_000)
    assert first.views.strategy_name == "STICKY"


def test_more_members_than_can_be_asked_share_as_java_does() -> None:
    stage = Stage({"a": {"t": 80}}, ours=False)
    members = [stage.join(f"c{number:02d}@sy1", "t") for number in range(33)]
    stage.run(2_000)
    assert {member.views.strategy_name for member in members} == {"AVG"}
    assert stage.planned() == sorted(stage.readable())
    stage.crash("c00@sy1")
    stage.run(2_000)
    assert {member.views.strategy_name for member in members[1:]} == {"STICKY"}


# -- when to look ------------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    gaps=st.lists(st.integers(0, 350), min_size=1, max_size=60),
    slowest_ms=st.integers(0, 300),
    seed=st.integers(0, 1 << 32),
)
def test_a_storm_of_notices_costs_few_rounds(gaps: list[int], slowest_ms: int, seed: int) -> None:
    # No looks but those that notices cause.
    stage = Stage({"a": {"t": 4}}, times=Times(round_soon_ms=10**9), seed=seed, slowest_ms=slowest_ms)
    member = stage.join(_NAMES[0], "t")
    stage.run(4_000)
    rounds, began_ms = member.views.rounds, stage.now_ms
    for gap_ms in gaps:
        stage.hear(member, MembersChanged("a"))
        last_ms = stage.now_ms
        stage.run(gap_ms)
    stage.run(2_000)
    storm_ms = last_ms - began_ms + 1
    assert 1 <= member.views.rounds - rounds <= ceil(storm_ms / _TIMES.round_gap_ms) + 1


def test_the_first_notice_acts_at_once_and_those_during_a_round_make_one_more() -> None:
    stage = Stage({"a": {"t": 4}}, slowest_ms=50, seed=3)
    member = stage.join(_NAMES[0], "t")
    stage.run(2_000)
    rounds = member.views.rounds
    stage.hear(member, MembersChanged("a"))
    assert member.views.rounds == rounds + 1
    for _ in range(10):
        stage.hear(member, MembersChanged("a"))
    assert member.views.rounds == rounds + 1
    stage.run(1_000)
    assert member.views.rounds == rounds + 2


def test_eight_joins_at_once_cost_few_rounds() -> None:
    stage = Stage({"a": {"t": 16}})
    members = [stage.join(name, "t") for name in _NAMES]
    stage.run(1_000)
    assert stage.planned() == sorted(stage.readable())
    assert sum(member.views.rounds for member in members) <= 26


def test_a_group_at_rest_is_looked_at_each_twenty_seconds_and_a_restless_one_each_five() -> None:
    stage = Stage({"a": {"t": 4}})
    member = stage.join(_NAMES[0], "t")
    stage.run(70_000)
    rounds = member.views.rounds
    stage.run(60_000)
    assert member.views.rounds - rounds == 3
    member.views.restless = True
    stage.run(60_000)
    assert member.views.rounds - rounds in (15, 16)


def test_a_poke_counts_if_it_is_about_a_queue_of_ours() -> None:
    stage = Stage({"a": {"t": 4}})
    first, second, _ = _settled(stage)
    stage.run(300)
    rounds = first.views.rounds
    stage.hear(first, Poked(second.id))
    stage.hear(first, Poked(second.id, second.plan))
    assert first.views.rounds == rounds
    stage.hear(first, Poked(second.id, first.plan))
    assert first.views.rounds == rounds + 1


def test_a_list_that_somebody_else_asked_for_is_learnt_from() -> None:
    stage = Stage({"a": {"t": 4}}, ours=False)
    first, second, third = _settled(stage)
    stage.run(300)
    rounds = first.views.rounds
    known = (first.id, second.id, third.id)
    stage.hear(first, GroupSeen("a", known, ticket=7))
    stage.hear(first, GroupFailed("a", ticket=7))
    assert first.views.rounds == rounds
    stage.hear(first, GroupSeen("a", (*known, "new@sy1"), ticket=9))
    assert "new@sy1" in first.views.listed("a", stage.now_ms)
    assert first.views.rounds == rounds + 1


def test_a_cut_ends_a_round_that_waits_for_it() -> None:
    stage = Stage({"a": {"t": 4}})
    first, *_ = _settled(stage)
    plan = first.plan
    stage.brokers["a"].is_silent = True
    stage.hear(first, MembersChanged("a"))
    stage.hear(first, LineCut("a"))
    stage.brokers["a"].is_silent = False
    rounds = first.views.rounds
    stage.run(10_000)
    assert (first.views.rounds, first.plan) == (rounds, plan), "there is nobody to ask"
    stage.hear(first, LineOpened("a"))
    stage.run(100)
    assert (first.views.rounds, first.plan) == (rounds + 1, plan)


# -- routes ------------------------------------------------------------------------------------------------------------


def test_queues_added_are_found_at_once_where_the_broker_tells_and_are_new() -> None:
    stage = Stage({"a": {"t": 2}})
    members = _settled(stage)
    stage.routed["a"] = stage.brokers["a"].queues = {"t": 5}
    stage.notify(stage.brokers["a"])
    stage.run(600)
    assert stage.planned() == sorted(stage.readable())
    assert [members[0].views.is_new(Queue("t", "a", number)) for number in range(5)] == [False] * 2 + [True] * 3
    assert members[0].views.queues() == stage.readable()


def test_a_queue_gone_from_the_route_is_planned_out_and_not_new_when_it_returns() -> None:
    stage = Stage({"a": {"t": 3}})
    member = stage.join(_NAMES[0], "t")
    stage.run(1_000)
    stage.carry_out()
    stage.routed["a"] = stage.brokers["a"].queues = {"t": 2}
    stage.run(6_000)
    assert len(member.plan) == 2
    stage.routed["a"] = stage.brokers["a"].queues = {"t": 3}
    stage.run(6_000)
    assert len(member.plan) == 3
    assert not member.views.is_new(Queue("t", "a", 2))


def test_a_route_that_is_lost_wholly_is_kept() -> None:
    stage = Stage({"a": {"t": 3}})
    member = stage.join(_NAMES[0], "t")
    stage.run(1_000)
    stage.is_nameserver_blank = True
    stage.run(100_000)
    assert len(member.plan) == 3


def test_what_is_held_at_a_broker_that_vanished_stays_planned_for_a_minute() -> None:
    stage = Stage({"a": {"t": 2}, "b": {"t": 2}})
    other = stage.join(_NAMES[0], "t")
    member = stage.join(_NAMES[1], "t")
    stage.run(1_000)
    stage.carry_out()
    kept = {queue for queue in member.held if queue.broker == "b"}
    assert kept
    stage.brokers["b"].is_up = False
    stage.cut(member, stage.brokers["b"])
    stage.cut(other, stage.brokers["b"])
    del stage.routed["b"]
    stage.run(50_000)
    assert kept <= set(member.plan)
    assert kept.isdisjoint(other.plan)
    assert {queue.broker for queue in member.views.queues()} == {"a"}
    stage.run(20_000)
    assert kept.isdisjoint(member.plan)


def test_routes_differ_between_members_and_each_queue_is_planned_once_they_agree() -> None:
    stage = Stage({"a": {"t": 6}})
    first, *_ = _settled(stage)
    old = tuple(Queue("t", "a", number) for number in range(4))
    stage.hear(first, RouteSeen("t", old))
    assert first.views.queues() == frozenset(old)
    stage.run(2_000)
    assert stage.planned() == sorted(stage.readable()), "the broker tells how many it has, and the route is asked again"


def test_a_topic_that_did_not_exist_is_new_from_its_first_message_on() -> None:
    stage = Stage({"a": {"t": 2}})
    member = stage.join(_NAMES[0], "t", "later")
    stage.run(10_000)
    assert len(member.plan) == 2
    stage.routed["a"] = stage.brokers["a"].queues = {"t": 2, "later": 2}
    stage.run(6_000)
    assert len(member.plan) == 4
    assert member.views.is_new(Queue("later", "a", 0))
    assert not member.views.is_new(Queue("t", "a", 0))
    assert member.views.is_new(Queue(_RETRY, "a", 0)), "what failed is never passed over"


def test_fixed_lists_are_planned_as_they_are() -> None:
    mine = (Queue("t", "a", 3),)
    stage = Stage({"a": {"t": 4}}, strategy=ByConfig(own={_NAMES[0]: mine}))
    assert [stage.join(name, "t") for name in _NAMES[:2]]
    stage.run(1_000)
    assert [member.plan for member in stage.members.values()] == [mine, ()]
