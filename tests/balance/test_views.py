"""Whom a member believes to be in its group, who owns what, and where the queues are."""

import pytest
from tests.balance.crowd import NAMES, RETRY, TWO, Crowd, Watcher, settled

from steelyard.balance.allocate import Average, ByConfig
from steelyard.balance.events import MembersChanged, Poked, RouteSeen
from steelyard.model import Queue

# -- whom to believe ---------------------------------------------------------------------------------------------------


def test_a_broker_hears_of_us_before_it_is_asked() -> None:
    crowd = Crowd(TWO)
    crowd.join(NAMES[0], "t")
    # The crowd refuses a question from a member that is not registered.
    crowd.run(30_000)
    assert all(broker.asked for broker in crowd.brokers.values())


def test_of_many_brokers_all_members_ask_the_same_sixteen() -> None:
    crowd = Crowd({f"b{number:02d}": {"t": 1} for number in range(40)})
    for name in NAMES[:3]:
        crowd.join(name, "t")
    crowd.run(2_000)
    asked = [broker.asked for broker in crowd.brokers.values()]
    assert sum(count > 0 for count in asked) == 16
    assert sum(count >= 3 for count in asked) == 16
    assert crowd.planned() == sorted(crowd.readable())


def test_brokers_disagree_about_members() -> None:
    crowd = Crowd(TWO)
    first, second, _ = settled(crowd)
    crowd.unlist(crowd.brokers["a"], second.id, notice=False)
    rounds = first.views.rounds
    first.views.ask_now(crowd.now_ms)
    crowd.run(2_500)
    assert second.id in first.views.members(), "whoever is on any list is in the group"
    assert first.views.rounds - rounds == 3, "and it is asked every second until the lists agree"


def test_own_id_missing_drops_nothing() -> None:
    crowd = Crowd(TWO, strategy=Average())
    first, *_ = settled(crowd)
    plan = first.plan
    broker = crowd.brokers["a"]
    broker.is_settled = False
    broker.listed.clear()
    broker.beats.clear()
    first.views.ask_now(crowd.now_ms)
    crowd.run(300)
    assert first.plan == plan
    assert (first.id, None) in [(name, beat.held) for name, beat in broker.beats], "a heartbeat at once"
    crowd.run(300)
    assert first.id in broker.listed
    assert first.plan == plan, "nor is anything taken from those who come back later"


def test_nobody_answers_and_everything_stays() -> None:
    crowd = Crowd(TWO)
    first, *_ = settled(crowd)
    plan, rounds = first.plan, first.views.rounds
    for broker in crowd.brokers.values():
        broker.is_silent = True
    first.views.ask_now(crowd.now_ms)
    crowd.run(100_000)
    assert first.plan == plan
    assert 100_000 // 8_100 <= first.views.rounds - rounds <= 17, "asked after 1, 2, 4 and then each 5 s"


def test_the_last_list_of_a_silent_broker_counts_for_half_a_minute() -> None:
    crowd = Crowd(TWO)
    first, second, third = settled(crowd)
    silent = crowd.brokers["a"]
    crowd.cut(first, silent)
    crowd.crash(third.id)
    crowd.run(29_000)
    assert third.id in first.views.members()
    crowd.run(2_000)
    assert third.id not in first.views.members()
    assert second.id in first.views.members()


def test_a_line_blip_moves_nothing() -> None:
    crowd = Crowd(TWO, ours=False)
    first, second, _ = settled(crowd)
    plan = first.plan
    for broker in crowd.brokers.values():
        crowd.unlist(broker, second.id)
    crowd.run(150)
    assert second.id in first.views.listed("a", crowd.now_ms), "whoever takes a queue still asks it"
    for broker in crowd.brokers.values():
        broker.listed[second.id] = second
    crowd.run(5_000)
    assert first.plan == plan
    assert not first.views.has_departed(second.id, crowd.now_ms)


def test_a_crash_on_a_broker_without_leases_counts_within_half_a_second() -> None:
    crowd = Crowd(TWO, ours=False)
    first, second, third = settled(crowd)
    assert not first.views.has_departed(second.id, crowd.now_ms)
    crowd.crash(second.id)
    crowd.run(500)
    assert first.views.has_departed(second.id, crowd.now_ms)
    assert second.id not in first.views.members()
    assert sorted([*first.plan, *third.plan]) == sorted(crowd.readable())


def test_departures_do_not_count_while_a_restarted_broker_gathers_its_members() -> None:
    crowd = Crowd({"a": {"t": 6}}, ours=False, strategy=Average())
    first, second, third = settled(crowd)
    plan, broker = first.plan, crowd.brokers["a"]
    broker.listed.clear()
    crowd.cut(first, broker)
    crowd.open(first, broker)
    crowd.run(2_500)
    assert first.plan == plan
    broker.listed |= {second.id: second, third.id: third}
    crowd.run(10_000)
    assert first.plan == plan
    crowd.unlist(broker, third.id)
    crowd.run(1_000)
    assert first.plan != plan


def test_a_plan_without_leases_needs_two_equal_looks() -> None:
    crowd = Crowd({"a": {"t": 4}}, ours=False, slowest_ms=0)
    member = crowd.join(NAMES[0], "t")
    crowd.run(199)
    assert member.views.rounds == 1
    assert member.views.plan() is None
    crowd.run(10)
    assert member.views.rounds == 2
    assert len(member.plan) == 4


def test_a_plan_with_leases_follows_from_one_look() -> None:
    crowd = Crowd({"a": {"t": 4}}, slowest_ms=0)
    member = crowd.join(NAMES[0], "t")
    crowd.run(1)
    assert member.views.rounds == 1
    assert len(member.plan) == 4


def test_a_foreign_member_makes_everybody_share_as_java_does() -> None:
    crowd = Crowd({"a": {"t": 6}})
    first, second, third = settled(crowd)
    crowd.list_stranger("10.0.0.9@java")
    crowd.run(1_000)
    assert first.views.has_foreign()
    assert first.views.members() == ("10.0.0.9@java", first.id, second.id, third.id)
    assert [[queue.queue_id for queue in member.plan] for member in (first, second, third)] == [[2, 3], [4], [5]]
    assert first.views.strategy_name == "AVG"
    assert [report.kind for report in first.told] == ["degraded"]
    for broker in crowd.brokers.values():
        del broker.listed["10.0.0.9@java"]
        crowd.notify(broker)
    crowd.settle()
    assert first.views.strategy_name == "STICKY"


@pytest.mark.parametrize("ours", [True, False], ids=["leases", "no leases"])
def test_beside_a_foreign_member_changes_count_at_the_first_look(*, ours: bool) -> None:
    crowd = Crowd({"a": {"t": 6}}, ours=ours, slowest_ms=0, strategy=Average())
    first, second, third = settled(crowd)
    crowd.list_stranger("10.0.0.9@java")
    crowd.run(1)
    assert [len(member.plan) for member in (first, second, third)] == [2, 1, 1]
    crowd.run(1_000)
    crowd.crash(second.id)
    crowd.run(1)
    assert [len(member.plan) for member in (first, third)] == [2, 2]
    if not ours:
        assert second.id in first.views.listed("a", crowd.now_ms), "whoever takes a queue still asks it"
        assert not first.views.has_departed(second.id, crowd.now_ms)
    crowd.run(1_000)
    crowd.unlist(crowd.brokers["a"], "10.0.0.9@java")
    crowd.run(1)
    assert "10.0.0.9@java" not in first.views.listed("a", crowd.now_ms), "it is not asked any more"


def test_a_second_broker_that_grows_is_not_overlooked_while_the_first_is_looked_at() -> None:
    crowd = Crowd({"a": {"t": 4}, "b": {"t": 4}}, slowest_ms=5)
    settled(crowd)
    for name, broker in crowd.brokers.items():
        broker.queues = {"t": 6}
        crowd.notify(broker)
        crowd.run(20)
        # The name server hears of it later than the members.
        crowd.routed[name] = {"t": 6}
    crowd.run(900)
    assert crowd.planned() == sorted(crowd.readable())


# -- owners, where no broker tells -------------------------------------------------------------------------------------


def test_without_leases_each_peer_is_asked_once_a_round_what_it_holds() -> None:
    crowd = Crowd({"a": {"t": 9}}, ours=False)
    first, *_ = settled(crowd)
    asked, rounds = first.holders_asked, first.views.rounds
    first.views.ask_now(crowd.now_ms)
    crowd.run(1_000)
    assert (first.views.rounds - rounds, first.holders_asked - asked) == (1, 2)


def test_a_peer_with_a_dead_line_at_one_broker_is_asked_through_another() -> None:
    crowd = Crowd(TWO, ours=False)
    first, second, _ = settled(crowd)
    crowd.brokers["a"].dead_lines.add(second.id)
    for _ in range(4):
        first.views.ask_now(crowd.now_ms)
        crowd.run(3_000)
    assert not _unanswering(first)
    crowd.brokers["b"].dead_lines.add(second.id)
    for _ in range(4):
        first.views.ask_now(crowd.now_ms)
        crowd.run(3_000)
    assert _unanswering(first), "where no broker has it on one line only it seems to hang"


def _unanswering(member: Watcher) -> list[str]:
    return [report.sentence for report in member.told if "do not answer" in report.sentence]


def test_a_peer_that_does_not_answer_keeps_what_it_has_and_so_do_the_others() -> None:
    crowd = Crowd({"a": {"t": 9}}, ours=False)
    first, second, third = settled(crowd)
    plans = {member: member.plan for member in (first, third)}
    second.is_mute = True
    for _ in range(20):
        for member in (first, third):
            member.views.ask_now(crowd.now_ms)
        crowd.run(5_000)
        assert {member: member.plan for member in (first, third)} == plans
    assert first.views.strategy_name == "STICKY"
    assert len(_unanswering(first)) == 1
    assert second.id in _unanswering(first)[0]
    rounds = first.views.rounds
    first.views.ask_now(crowd.now_ms)
    crowd.run(250)
    assert first.views.rounds == rounds + 1
    crowd.hear(first, MembersChanged("a"))
    crowd.run(250)
    assert first.views.rounds == rounds + 2, "nobody waits for it any more"
    second.is_mute = False
    crowd.run(60_000)
    assert not first.views.hazards
    assert {member: member.plan for member in (first, third)} == plans


def test_what_we_hold_stays_ours_though_a_silent_member_reported_it_before_it_gave_it_up() -> None:
    crowd = Crowd({"a": {"t": 9}}, ours=False)
    first, second, third = settled(crowd)
    moved = min(first.held)
    first.is_mute = True
    first.held.discard(moved)
    second.held.add(moved)
    for _ in range(10):
        for member in (second, third):
            member.views.ask_now(crowd.now_ms)
        crowd.run(5_000)
        assert moved not in third.plan
    assert moved in second.plan
    assert second.held <= set(second.plan)


def test_who_comes_while_a_member_hangs_plans_as_the_others_do() -> None:
    crowd = Crowd({"a": {"t": 8}}, ours=False)
    _, second, third, _ = settled(crowd, members=4)
    second.is_mute = True
    crowd.run(30_000)
    crowd.crash(third.id)
    newcomer = crowd.join(NAMES[6], "t")
    crowd.run(20_000)
    assert second.held.isdisjoint(newcomer.plan)
    alive = [member for member in crowd.members.values() if member is not second]
    assert crowd.planned(alive) == sorted(crowd.readable() - second.held)
    assert sorted(len(member.plan) for member in alive) == [2, 2, 2]


def test_a_peer_that_does_not_answer_is_seldom_asked() -> None:
    """Each question keeps one of sixteen threads of the broker for ten seconds."""
    crowd = Crowd({"a": {"t": 9}}, ours=False)
    first, second, _ = settled(crowd)
    second.is_mute = True
    asked = second.asked
    for _ in range(60):
        first.views.ask_now(crowd.now_ms)
        crowd.run(1_000)
    assert 3 <= second.asked - asked <= 10


def test_a_member_that_dies_while_another_hangs_is_replaced_by_those_who_answer() -> None:
    crowd = Crowd({"a": {"t": 9}}, ours=False)
    first, second, third, fourth = settled(crowd, members=4)
    second.is_mute = True
    for hung_ms in (0, 15_000):
        crowd.run(hung_ms)
        died = third if hung_ms == 0 else fourth
        before = {*first.plan, *died.plan}
        crowd.crash(died.id)
        crowd.run(8_000)
        crowd.carry_out()
        left = [member for member in (first, fourth) if member.id in crowd.members]
        assert before <= {queue for member in left for queue in member.plan}
        assert second.held.isdisjoint(queue for member in left for queue in member.plan)
    assert len(first.plan) + len(second.held) == 9


def test_nothing_is_planned_for_a_newcomer_that_does_not_answer() -> None:
    crowd = Crowd({"a": {"t": 8}}, ours=False)
    first, second = settled(crowd, members=2)
    plans = (first.plan, second.plan)
    third = crowd.join(NAMES[2], "t")
    third.is_mute = True
    for _ in range(10):
        first.views.ask_now(crowd.now_ms)
        crowd.run(5_000)
        assert (first.plan, second.plan) == plans
    third.is_mute = False
    crowd.run(30_000)
    crowd.carry_out()
    crowd.settle()
    assert sorted(map(len, (first.plan, second.plan, third.plan))) == [2, 3, 3]


def test_a_newcomer_that_does_not_answer_but_asks_gets_its_share() -> None:
    crowd = Crowd({"a": {"t": 8}}, ours=False)
    first, second = settled(crowd, members=2)
    third = crowd.join(NAMES[2], "t")
    third.is_mute = True
    for _ in range(40):
        crowd.run(500)
        for member in (first, second):
            crowd.hear(member, Poked(third.id, tuple(member.held.intersection(third.plan))))
        crowd.carry_out()
    assert sorted(map(len, (first.held, second.held, third.held))) == [2, 3, 3]


def test_a_slow_member_changes_nothing_and_gets_its_share_when_it_is_new() -> None:
    crowd = Crowd({"a": {"t": 8}}, ours=False)
    first, second = settled(crowd, members=2)
    second.slow_ms = 5_000
    plan = first.plan
    for _ in range(20):
        first.views.ask_now(crowd.now_ms)
        crowd.run(5_000)
        assert first.plan == plan
    third = crowd.join(NAMES[2], "t")
    third.slow_ms = 5_000
    for _ in range(12):
        crowd.run(10_000)
        crowd.carry_out()
    assert sorted(map(len, (first.plan, second.plan, third.plan))) == [2, 3, 3]


def test_more_members_than_can_be_asked_share_as_java_does() -> None:
    crowd = Crowd({"a": {"t": 80}}, ours=False)
    members = [crowd.join(f"c{number:02d}@sy1", "t") for number in range(33)]
    crowd.run(2_000)
    assert {member.views.strategy_name for member in members} == {"AVG"}
    assert crowd.planned() == sorted(crowd.readable())
    crowd.crash("c00@sy1")
    crowd.run(2_000)
    assert {member.views.strategy_name for member in members[1:]} == {"STICKY"}


# -- routes ------------------------------------------------------------------------------------------------------------


def test_queues_added_are_found_at_once_where_the_broker_tells_and_are_new() -> None:
    crowd = Crowd({"a": {"t": 2}})
    members = settled(crowd)
    crowd.routed["a"] = crowd.brokers["a"].queues = {"t": 5}
    crowd.notify(crowd.brokers["a"])
    crowd.run(600)
    assert crowd.planned() == sorted(crowd.readable())
    assert [members[0].views.is_new(Queue("t", "a", number)) for number in range(5)] == [False] * 2 + [True] * 3
    assert members[0].views.queues() == crowd.readable()


def test_a_poke_for_a_queue_of_ours_makes_us_look_at_its_route_too() -> None:
    crowd = Crowd({"a": {"t": 2}}, ours=False)
    first, second = settled(crowd)[:2]
    crowd.routed["a"] = crowd.brokers["a"].queues = {"t": 6}
    crowd.hear(first, Poked(second.id, first.plan))
    crowd.run(500)
    assert first.views.queues() == crowd.readable()
    assert len(second.views.queues()) == 2


def test_a_queue_gone_from_the_route_is_planned_out_and_not_new_when_it_returns() -> None:
    crowd = Crowd({"a": {"t": 3}})
    member = crowd.join(NAMES[0], "t")
    crowd.run(1_000)
    crowd.carry_out()
    crowd.routed["a"] = crowd.brokers["a"].queues = {"t": 2}
    crowd.run(6_000)
    assert len(member.plan) == 2
    crowd.routed["a"] = crowd.brokers["a"].queues = {"t": 3}
    crowd.run(6_000)
    assert len(member.plan) == 3
    assert not member.views.is_new(Queue("t", "a", 2))


def test_a_route_that_is_lost_wholly_is_kept() -> None:
    crowd = Crowd({"a": {"t": 3}})
    member = crowd.join(NAMES[0], "t")
    crowd.run(1_000)
    crowd.is_nameserver_blank = True
    crowd.run(100_000)
    assert len(member.plan) == 3


def test_what_is_held_at_a_broker_that_vanished_stays_planned_for_a_minute() -> None:
    crowd = Crowd({"a": {"t": 2}, "b": {"t": 2}})
    other = crowd.join(NAMES[0], "t")
    member = crowd.join(NAMES[1], "t")
    crowd.run(1_000)
    crowd.carry_out()
    kept = {queue for queue in member.held if queue.broker == "b"}
    assert kept
    crowd.brokers["b"].is_up = False
    crowd.cut(member, crowd.brokers["b"])
    crowd.cut(other, crowd.brokers["b"])
    del crowd.routed["b"]
    crowd.run(50_000)
    assert kept <= set(member.plan)
    assert kept.isdisjoint(other.plan)
    assert {queue.broker for queue in member.views.queues()} == {"a"}
    crowd.run(20_000)
    assert kept.isdisjoint(member.plan)


def test_routes_differ_between_members_and_each_queue_is_planned_once_they_agree() -> None:
    crowd = Crowd({"a": {"t": 6}})
    first, *_ = settled(crowd)
    old = tuple(Queue("t", "a", number) for number in range(4))
    crowd.hear(first, RouteSeen("t", old))
    assert first.views.queues() == frozenset(old)
    crowd.run(2_000)
    assert crowd.planned() == sorted(crowd.readable()), "the broker tells how many it has, and the route is asked again"


def test_a_topic_that_did_not_exist_is_new_from_its_first_message_on() -> None:
    crowd = Crowd({"a": {"t": 2}})
    member = crowd.join(NAMES[0], "t", "later")
    crowd.run(10_000)
    assert len(member.plan) == 2
    crowd.routed["a"] = crowd.brokers["a"].queues = {"t": 2, "later": 2}
    crowd.run(6_000)
    assert len(member.plan) == 4
    assert member.views.is_new(Queue("later", "a", 0))
    assert not member.views.is_new(Queue("t", "a", 0))
    assert member.views.is_new(Queue(RETRY, "a", 0)), "what failed is never passed over"


def test_fixed_lists_are_planned_as_they_are() -> None:
    mine = (Queue("t", "a", 3),)
    crowd = Crowd({"a": {"t": 4}}, strategy=ByConfig(own={NAMES[0]: mine, NAMES[1]: ()}))
    assert [crowd.join(name, "t") for name in NAMES[:2]]
    crowd.run(1_000)
    assert [member.plan for member in crowd.members.values()] == [mine, ()]
