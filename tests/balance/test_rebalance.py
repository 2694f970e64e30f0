"""The members of a group, the owners of its queues, and its routes, as one member sees them."""

import pytest

from steelyard.balance.assignors import Average, ByConfig
from steelyard.balance.group.events import HandoverRequested, MembersChanged, RouteReceived
from steelyard.model import Queue
from tests.balance.group_harness import NAMES, RETRY, TWO, GroupHarness, PlanningMember, settled

# -- whom to believe ---------------------------------------------------------------------------------------------------


def test_a_broker_gets_a_heartbeat_before_any_query() -> None:
    cluster = GroupHarness(TWO)
    cluster.join(NAMES[0], "t")
    # The crowd refuses a question from a member that is not registered.
    cluster.run(30_000)
    assert all(broker.asked for broker in cluster.brokers.values())


def test_of_many_brokers_all_members_ask_the_same_sixteen() -> None:
    cluster = GroupHarness({f"b{number:02d}": {"t": 1} for number in range(40)})
    for name in NAMES[:3]:
        cluster.join(name, "t")
    cluster.run(2_000)
    asked = [broker.asked for broker in cluster.brokers.values()]
    assert sum(count > 0 for count in asked) == 16
    assert sum(count >= 3 for count in asked) == 16
    assert cluster.planned() == sorted(cluster.readable())


def test_brokers_disagree_about_members() -> None:
    cluster = GroupHarness(TWO)
    first, second, _ = settled(cluster)
    cluster.unlist(cluster.brokers["a"], second.id, notice=False)
    rounds = first.rebalancer.timer.count
    first.rebalancer.request_rebalance(cluster.now_ms)
    cluster.run(2_500)
    assert second.id in first.rebalancer.members(), "a member on any list is in the group"
    assert first.rebalancer.timer.count - rounds == 3, "and it is asked every second until the lists agree"


def test_own_id_missing_drops_nothing() -> None:
    cluster = GroupHarness(TWO, strategy=Average())
    first, *_ = settled(cluster)
    plan = first.plan
    broker = cluster.brokers["a"]
    broker.is_settled = False
    broker.listed.clear()
    broker.heartbeats.clear()
    first.rebalancer.request_rebalance(cluster.now_ms)
    cluster.run(300)
    assert first.plan == plan
    assert (first.id, None) in [(name, beat.held) for name, beat in broker.heartbeats], "a heartbeat at once"
    cluster.run(300)
    assert first.id in broker.listed
    assert first.plan == plan, "nor is anything taken from members that come back later"


def test_no_broker_answers_and_everything_stays() -> None:
    cluster = GroupHarness(TWO)
    first, *_ = settled(cluster)
    plan, rounds = first.plan, first.rebalancer.timer.count
    for broker in cluster.brokers.values():
        broker.is_silent = True
    first.rebalancer.request_rebalance(cluster.now_ms)
    cluster.run(100_000)
    assert first.plan == plan
    assert 100_000 // 8_100 <= first.rebalancer.timer.count - rounds <= 17, "asked after 1, 2, 4 and then each 5 s"


def test_the_last_list_of_a_silent_broker_counts_for_half_a_minute() -> None:
    cluster = GroupHarness(TWO)
    first, second, third = settled(cluster)
    silent = cluster.brokers["a"]
    cluster.cut(first, silent)
    cluster.crash(third.id)
    cluster.run(29_000)
    assert third.id in first.rebalancer.members()
    cluster.run(2_000)
    assert third.id not in first.rebalancer.members()
    assert second.id in first.rebalancer.members()


def test_a_connection_blip_moves_nothing() -> None:
    cluster = GroupHarness(TWO, ours=False)
    first, second, _ = settled(cluster)
    plan = first.plan
    for broker in cluster.brokers.values():
        cluster.unlist(broker, second.id)
    cluster.run(150)
    assert second.id in first.rebalancer.listed_members("a", cluster.now_ms), "it is still probed"
    for broker in cluster.brokers.values():
        broker.listed[second.id] = second
    cluster.run(5_000)
    assert first.plan == plan
    assert not first.rebalancer.has_departed(second.id, cluster.now_ms)


def test_a_crash_on_a_broker_without_leases_counts_within_half_a_second() -> None:
    cluster = GroupHarness(TWO, ours=False)
    first, second, third = settled(cluster)
    assert not first.rebalancer.has_departed(second.id, cluster.now_ms)
    cluster.crash(second.id)
    cluster.run(500)
    assert first.rebalancer.has_departed(second.id, cluster.now_ms)
    assert second.id not in first.rebalancer.members()
    assert sorted([*first.plan, *third.plan]) == sorted(cluster.readable())


def test_departures_do_not_count_while_a_restarted_broker_gathers_its_members() -> None:
    cluster = GroupHarness({"a": {"t": 6}}, ours=False, strategy=Average())
    first, second, third = settled(cluster)
    plan, broker = first.plan, cluster.brokers["a"]
    broker.listed.clear()
    cluster.cut(first, broker)
    cluster.open(first, broker)
    cluster.run(2_500)
    assert first.plan == plan
    broker.listed |= {second.id: second, third.id: third}
    cluster.run(10_000)
    assert first.plan == plan
    cluster.unlist(broker, third.id)
    cluster.run(1_000)
    assert first.plan != plan


def test_a_plan_without_leases_needs_two_equal_reads() -> None:
    cluster = GroupHarness({"a": {"t": 4}}, ours=False, slowest_ms=0)
    member = cluster.join(NAMES[0], "t")
    cluster.run(199)
    assert member.rebalancer.timer.count == 1
    assert member.rebalancer.plan() is None
    cluster.run(10)
    assert member.rebalancer.timer.count == 2
    assert len(member.plan) == 4


def test_a_plan_with_leases_follows_from_one_read() -> None:
    cluster = GroupHarness({"a": {"t": 4}}, slowest_ms=0)
    member = cluster.join(NAMES[0], "t")
    cluster.run(1)
    assert member.rebalancer.timer.count == 1
    assert len(member.plan) == 4


def test_a_foreign_member_makes_all_members_share_as_java_does() -> None:
    cluster = GroupHarness({"a": {"t": 6}})
    first, second, third = settled(cluster)
    cluster.list_foreign("10.0.0.9@java")
    cluster.run(1_000)
    assert first.rebalancer.has_foreign()
    assert first.rebalancer.members() == ("10.0.0.9@java", first.id, second.id, third.id)
    assert [[queue.queue_id for queue in member.plan] for member in (first, second, third)] == [[2, 3], [4], [5]]
    assert first.rebalancer.assignment.strategy_name == "AVG"
    assert [report.kind for report in first.reports] == ["degraded"]
    for broker in cluster.brokers.values():
        del broker.listed["10.0.0.9@java"]
        cluster.notify(broker)
    cluster.settle()
    assert first.rebalancer.assignment.strategy_name == "STICKY"


@pytest.mark.parametrize("ours", [True, False], ids=["leases", "no leases"])
def test_beside_a_foreign_member_changes_count_at_the_first_read(*, ours: bool) -> None:
    cluster = GroupHarness({"a": {"t": 6}}, ours=ours, slowest_ms=0, strategy=Average())
    first, second, third = settled(cluster)
    cluster.list_foreign("10.0.0.9@java")
    cluster.run(1)
    assert [len(member.plan) for member in (first, second, third)] == [2, 1, 1]
    cluster.run(1_000)
    cluster.crash(second.id)
    cluster.run(1)
    assert [len(member.plan) for member in (first, third)] == [2, 2]
    if not ours:
        assert second.id in first.rebalancer.listed_members("a", cluster.now_ms), "it is still probed"
        assert not first.rebalancer.has_departed(second.id, cluster.now_ms)
    cluster.run(1_000)
    cluster.unlist(cluster.brokers["a"], "10.0.0.9@java")
    cluster.run(1)
    assert "10.0.0.9@java" not in first.rebalancer.listed_members("a", cluster.now_ms), "it is not asked any more"


def test_a_second_broker_that_grows_is_not_overlooked_while_the_first_is_queried() -> None:
    cluster = GroupHarness({"a": {"t": 4}, "b": {"t": 4}}, slowest_ms=5)
    settled(cluster)
    for name, broker in cluster.brokers.items():
        broker.queues = {"t": 6}
        cluster.notify(broker)
        cluster.run(20)
        # The name server hears of it later than the members.
        cluster.routed[name] = {"t": 6}
    cluster.run(900)
    assert cluster.planned() == sorted(cluster.readable())


# -- owners, where no broker tells -------------------------------------------------------------------------------------


def test_without_leases_each_peer_is_asked_once_a_rebalance_what_it_holds() -> None:
    cluster = GroupHarness({"a": {"t": 9}}, ours=False)
    first, *_ = settled(cluster)
    asked, rounds = first.owners_probed, first.rebalancer.timer.count
    first.rebalancer.request_rebalance(cluster.now_ms)
    cluster.run(1_000)
    assert (first.rebalancer.timer.count - rounds, first.owners_probed - asked) == (1, 2)


def test_a_peer_with_a_dead_connection_at_one_broker_is_asked_through_another() -> None:
    cluster = GroupHarness(TWO, ours=False)
    first, second, _ = settled(cluster)
    cluster.brokers["a"].dead_connections.add(second.id)
    for _ in range(4):
        first.rebalancer.request_rebalance(cluster.now_ms)
        cluster.run(3_000)
    assert not _unanswering(first)
    cluster.brokers["b"].dead_connections.add(second.id)
    for _ in range(4):
        first.rebalancer.request_rebalance(cluster.now_ms)
        cluster.run(3_000)
    assert _unanswering(first), "where every broker lists it twice it seems to hang"


def _unanswering(member: PlanningMember) -> list[str]:
    return [report.sentence for report in member.reports if "do not answer" in report.sentence]


def test_a_peer_that_does_not_answer_keeps_what_it_has_and_so_do_the_others() -> None:
    cluster = GroupHarness({"a": {"t": 9}}, ours=False)
    first, second, third = settled(cluster)
    plans = {member: member.plan for member in (first, third)}
    second.is_mute = True
    for _ in range(20):
        for member in (first, third):
            member.rebalancer.request_rebalance(cluster.now_ms)
        cluster.run(5_000)
        assert {member: member.plan for member in (first, third)} == plans
    assert first.rebalancer.assignment.strategy_name == "STICKY"
    assert len(_unanswering(first)) == 1
    assert second.id in _unanswering(first)[0]
    rounds = first.rebalancer.timer.count
    first.rebalancer.request_rebalance(cluster.now_ms)
    cluster.run(250)
    assert first.rebalancer.timer.count == rounds + 1
    cluster.process_now(first, MembersChanged("a"))
    cluster.run(250)
    assert first.rebalancer.timer.count == rounds + 2, "it is not waited for any more"
    second.is_mute = False
    cluster.run(60_000)
    assert not first.rebalancer.assignment.monitor.findings
    assert {member: member.plan for member in (first, third)} == plans


def test_what_we_hold_stays_ours_though_a_silent_member_reported_it_before_it_gave_it_up() -> None:
    cluster = GroupHarness({"a": {"t": 9}}, ours=False)
    first, second, third = settled(cluster)
    moved = min(first.held)
    first.is_mute = True
    first.held.discard(moved)
    second.held.add(moved)
    for _ in range(10):
        for member in (second, third):
            member.rebalancer.request_rebalance(cluster.now_ms)
        cluster.run(5_000)
        assert moved not in third.plan
    assert moved in second.plan
    assert second.held <= set(second.plan)


def test_who_comes_while_a_member_hangs_plans_as_the_others_do() -> None:
    cluster = GroupHarness({"a": {"t": 8}}, ours=False)
    _, second, third, _ = settled(cluster, members=4)
    second.is_mute = True
    cluster.run(30_000)
    cluster.crash(third.id)
    newcomer = cluster.join(NAMES[6], "t")
    cluster.run(20_000)
    assert second.held.isdisjoint(newcomer.plan)
    alive = [member for member in cluster.members.values() if member is not second]
    assert cluster.planned(alive) == sorted(cluster.readable() - second.held)
    assert sorted(len(member.plan) for member in alive) == [2, 2, 2]


def test_a_peer_that_does_not_answer_is_seldom_asked() -> None:
    """Each question keeps one of sixteen threads of the broker for ten seconds."""
    cluster = GroupHarness({"a": {"t": 9}}, ours=False)
    first, second, _ = settled(cluster)
    second.is_mute = True
    asked = second.asked
    for _ in range(60):
        first.rebalancer.request_rebalance(cluster.now_ms)
        cluster.run(1_000)
    assert 3 <= second.asked - asked <= 10


def test_a_member_that_dies_while_another_hangs_is_replaced_by_those_who_answer() -> None:
    cluster = GroupHarness({"a": {"t": 9}}, ours=False)
    first, second, third, fourth = settled(cluster, members=4)
    second.is_mute = True
    for hung_ms in (0, 15_000):
        cluster.run(hung_ms)
        died = third if hung_ms == 0 else fourth
        before = {*first.plan, *died.plan}
        cluster.crash(died.id)
        cluster.run(8_000)
        cluster.carry_out()
        left = [member for member in (first, fourth) if member.id in cluster.members]
        assert before <= {queue for member in left for queue in member.plan}
        assert second.held.isdisjoint(queue for member in left for queue in member.plan)
    assert len(first.plan) + len(second.held) == 9


def test_nothing_is_planned_for_a_newcomer_that_does_not_answer() -> None:
    cluster = GroupHarness({"a": {"t": 8}}, ours=False)
    first, second = settled(cluster, members=2)
    plans = (first.plan, second.plan)
    third = cluster.join(NAMES[2], "t")
    third.is_mute = True
    for _ in range(10):
        first.rebalancer.request_rebalance(cluster.now_ms)
        cluster.run(5_000)
        assert (first.plan, second.plan) == plans
    third.is_mute = False
    cluster.run(30_000)
    cluster.carry_out()
    cluster.settle()
    assert sorted(map(len, (first.plan, second.plan, third.plan))) == [2, 3, 3]


def test_a_newcomer_that_does_not_answer_but_asks_gets_its_share() -> None:
    cluster = GroupHarness({"a": {"t": 8}}, ours=False)
    first, second = settled(cluster, members=2)
    third = cluster.join(NAMES[2], "t")
    third.is_mute = True
    for _ in range(40):
        cluster.run(500)
        for member in (first, second):
            cluster.process_now(member, HandoverRequested(third.id, tuple(member.held.intersection(third.plan))))
        cluster.carry_out()
    assert sorted(map(len, (first.held, second.held, third.held))) == [2, 3, 3]


def test_a_slow_member_changes_nothing_and_gets_its_share_when_it_is_new() -> None:
    cluster = GroupHarness({"a": {"t": 8}}, ours=False)
    first, second = settled(cluster, members=2)
    second.slow_ms = 5_000
    plan = first.plan
    for _ in range(20):
        first.rebalancer.request_rebalance(cluster.now_ms)
        cluster.run(5_000)
        assert first.plan == plan
    third = cluster.join(NAMES[2], "t")
    third.slow_ms = 5_000
    for _ in range(12):
        cluster.run(10_000)
        cluster.carry_out()
    assert sorted(map(len, (first.plan, second.plan, third.plan))) == [2, 3, 3]


def test_more_members_than_can_be_asked_share_as_java_does() -> None:
    cluster = GroupHarness({"a": {"t": 80}}, ours=False)
    members = [cluster.join(f"c{number:02d}@sy1", "t") for number in range(33)]
    cluster.run(2_000)
    assert {member.rebalancer.assignment.strategy_name for member in members} == {"AVG"}
    assert cluster.planned() == sorted(cluster.readable())
    cluster.crash("c00@sy1")
    cluster.run(2_000)
    assert {member.rebalancer.assignment.strategy_name for member in members[1:]} == {"STICKY"}


# -- routes ------------------------------------------------------------------------------------------------------------


def test_queues_added_are_found_at_once_where_the_broker_reports_them_and_are_new() -> None:
    cluster = GroupHarness({"a": {"t": 2}})
    members = settled(cluster)
    cluster.routed["a"] = cluster.brokers["a"].queues = {"t": 5}
    cluster.notify(cluster.brokers["a"])
    cluster.run(600)
    assert cluster.planned() == sorted(cluster.readable())
    assert [members[0].rebalancer.is_new(Queue("t", "a", number)) for number in range(5)] == [False] * 2 + [True] * 3
    assert members[0].rebalancer.readable_queues() == cluster.readable()


def test_a_handover_request_for_a_queue_of_ours_refreshes_its_route_too() -> None:
    cluster = GroupHarness({"a": {"t": 2}}, ours=False)
    first, second = settled(cluster)[:2]
    cluster.routed["a"] = cluster.brokers["a"].queues = {"t": 6}
    cluster.process_now(first, HandoverRequested(second.id, first.plan))
    cluster.run(500)
    assert first.rebalancer.readable_queues() == cluster.readable()
    assert len(second.rebalancer.readable_queues()) == 2


def test_a_queue_gone_from_the_route_is_planned_out_and_not_new_when_it_returns() -> None:
    cluster = GroupHarness({"a": {"t": 3}})
    member = cluster.join(NAMES[0], "t")
    cluster.run(1_000)
    cluster.carry_out()
    cluster.routed["a"] = cluster.brokers["a"].queues = {"t": 2}
    cluster.run(6_000)
    assert len(member.plan) == 2
    cluster.routed["a"] = cluster.brokers["a"].queues = {"t": 3}
    cluster.run(6_000)
    assert len(member.plan) == 3
    assert not member.rebalancer.is_new(Queue("t", "a", 2))


def test_a_route_that_is_lost_wholly_is_kept() -> None:
    cluster = GroupHarness({"a": {"t": 3}})
    member = cluster.join(NAMES[0], "t")
    cluster.run(1_000)
    cluster.is_nameserver_blank = True
    cluster.run(100_000)
    assert len(member.plan) == 3


def test_what_is_held_at_a_broker_that_vanished_stays_planned_for_a_minute() -> None:
    cluster = GroupHarness({"a": {"t": 2}, "b": {"t": 2}})
    other = cluster.join(NAMES[0], "t")
    member = cluster.join(NAMES[1], "t")
    cluster.run(1_000)
    cluster.carry_out()
    kept = {queue for queue in member.held if queue.broker == "b"}
    assert kept
    cluster.brokers["b"].is_up = False
    cluster.cut(member, cluster.brokers["b"])
    cluster.cut(other, cluster.brokers["b"])
    del cluster.routed["b"]
    cluster.run(50_000)
    assert kept <= set(member.plan)
    assert kept.isdisjoint(other.plan)
    assert {queue.broker for queue in member.rebalancer.readable_queues()} == {"a"}
    cluster.run(20_000)
    assert kept.isdisjoint(member.plan)


def test_routes_differ_between_members_and_each_queue_is_planned_once_they_agree() -> None:
    cluster = GroupHarness({"a": {"t": 6}})
    first, *_ = settled(cluster)
    old = tuple(Queue("t", "a", number) for number in range(4))
    cluster.process_now(first, RouteReceived("t", old))
    assert first.rebalancer.readable_queues() == frozenset(old)
    cluster.run(2_000)
    assert cluster.planned() == sorted(cluster.readable()), (
        "the broker tells how many it has, and the route is asked again"
    )


def test_a_topic_that_did_not_exist_is_new_from_its_first_message_on() -> None:
    cluster = GroupHarness({"a": {"t": 2}})
    member = cluster.join(NAMES[0], "t", "later")
    assert not member.rebalancer.missing_topics(), "nobody answered yet"
    cluster.run(10_000)
    assert "later" in member.rebalancer.missing_topics()
    assert len(member.plan) == 2
    cluster.routed["a"] = cluster.brokers["a"].queues = {"t": 2, "later": 2}
    cluster.run(6_000)
    assert len(member.plan) == 4
    assert "later" not in member.rebalancer.missing_topics()
    assert member.rebalancer.is_new(Queue("later", "a", 0))
    assert not member.rebalancer.is_new(Queue("t", "a", 0))
    assert member.rebalancer.is_new(Queue(RETRY, "a", 0)), "what failed is never passed over"


def test_fixed_lists_are_planned_as_they_are() -> None:
    mine = (Queue("t", "a", 3),)
    cluster = GroupHarness({"a": {"t": 4}}, strategy=ByConfig(queues_by_member={NAMES[0]: mine, NAMES[1]: ()}))
    assert [cluster.join(name, "t") for name in NAMES[:2]]
    cluster.run(1_000)
    assert [member.plan for member in cluster.members.values()] == [mine, ()]
