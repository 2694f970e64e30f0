"""Membership: lost notifications, lists and routes that differ, ids that are missing or listed twice."""

from collections.abc import Iterator, Sequence

from simulator.actors.member import MemberProcess
from simulator.apache.broker import ApacheBrokerProcess
from simulator.facts import QueueStateChanged, RebalanceBegan
from simulator.mutants.mutant import Mutant, patch_attribute
from steelyard.balance.assignors.average import Average
from steelyard.balance.group import assignment
from steelyard.balance.group.actions import StartAt
from steelyard.balance.group.assignment import AssignmentInput, GroupAssignment
from steelyard.balance.group.member_lists import MemberLists
from steelyard.balance.group.options import MemberOptions
from steelyard.broker.consumer_registry import ConsumerRegistry
from steelyard.broker.member_notifications import MemberNotifications
from steelyard.model import Queue
from steelyard.wire.codes import RequestCode as Code
from tests.simulator.cluster import TOPIC
from tests.simulator.scenario_mutants import NOBODY_ASKED, UNLISTED_DROPS
from tests.simulator.scripted_cluster import (
    Kind,
    ScriptedCluster,
    fails_with,
    known_mutant,
    on,
    patch_method,
    scenario_mutant,
)

_share, _snapshot = GroupAssignment.assign, MemberLists.snapshot


def shared(*members: MemberProcess) -> list[int]:
    """Return how many queues of the topic each member owns."""
    return [sum(queue.topic == TOPIC for queue in member.member.assignment()) for member in members]


# -- notifications ----------------------------------------------------------------------------------------------------


@on(ours=known_mutant("handover-request-ignored"), apache=known_mutant("handover-request-ignored"))
def test_with_all_notifications_lost_a_join_still_takes_a_second(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind, queues=4)
    cluster.world.network.drops = lambda command: command.code == Code.NOTIFY_CONSUMER_IDS_CHANGED
    first = cluster.member(1, is_steered=False)
    cluster.until(lambda: shared(first) == [4])
    cluster.run(1_500)
    second = cluster.member(2, is_steered=False)
    with fails_with(bug):
        cluster.until(lambda: shared(first, second) == [2, 2], within_ms=1_300)


STORMY = scenario_mutant(
    "every change is told, and looked at, at once",
    *known_mutant("rebalances-without-a-gap").patches,
    patch_method(MemberNotifications, "record_change", lambda *_: True),
)


@on(ours=STORMY, apache=known_mutant("rebalances-without-a-gap"))
def test_eight_joins_at_once_cost_few_rounds(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind, queues=8)
    members = []
    for number in range(1, 9):
        members.append(cluster.member(number, is_steered=False))
        cluster.run(10)
    cluster.until(lambda: shared(*members) == [1] * 8)
    cluster.run(1_000)
    with fails_with(bug):
        assert len(cluster.facts(RebalanceBegan)) <= 32


# -- lists that differ ------------------------------------------------------------------------------------------------


@on(ours=known_mutant("one-list-for-all"), apache=known_mutant("one-list-for-all"))
def test_brokers_disagree_about_members(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind, queues=2, brokers=2)
    first = cluster.member(1, is_steered=False)
    cluster.until(lambda: shared(first) == [4])
    cluster.world.network.block_connects("10.0.2.2@2@sy1", cluster.broker.name)
    second = cluster.member(2, is_steered=False)
    cluster.run(4_000)
    with fails_with(bug):
        # The first broker does not list the second member, which has its share of the other broker's queues all the
        # same.
        assert {member.member.rebalancer.assignment.members for member in (first, second)} == {
            (first.name, second.name)
        }
        assert shared(first, second) == [2, 2]
    cluster.world.network.allow_connects(second.name, cluster.broker.name)
    cluster.until(lambda: shared(first, second) == [2, 2], within_ms=10_000)


@on(ours=UNLISTED_DROPS, apache=UNLISTED_DROPS)
def test_own_id_missing_drops_nothing(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind, queues=2)
    member, other = (cluster.member(number, is_steered=False) for number in (1, 2))
    cluster.until(lambda: shared(member, other) in ([1, 1], [2, 0], [0, 2]), within_ms=4_000)
    cluster.run(2_000)
    before, since_ms = cluster.owners(member, other), cluster.world.now_ms()
    beats = cluster.keep_requests(member, Code.HEART_BEAT)
    forget(cluster, member)
    cluster.run(6_000)
    assert not is_listed(cluster, member)
    beats.release()
    cluster.run(2_000)
    with fails_with(bug):
        assert is_listed(cluster, member)
        assert cluster.owners(member, other) == before
        mine = [
            each
            for each in cluster.facts(QueueStateChanged)
            if isinstance(each, QueueStateChanged) and each.member == member.name
        ]
        assert not [each for each in mine if each.at_ms >= since_ms and each.before == "OWNED"]


def forget(cluster: ScriptedCluster, member: MemberProcess) -> None:
    """Let the broker not list a connected member."""
    broker = cluster.broker
    if isinstance(broker, ApacheBrokerProcess):
        group = broker.state.registry.get(member.options.group)
        assert group is not None
        for number in [number for number, client in group.clients.items() if client == member.name]:
            broker.state.registry.drop_connection(number)
    else:
        assert broker.broker is not None
        members = broker.broker.state.consumers
        for each in members:
            if each.id == member.name:
                members.remove(each)


def is_listed(cluster: ScriptedCluster, member: MemberProcess) -> bool:
    """Return whether the broker lists a member."""
    broker = cluster.broker
    if isinstance(broker, ApacheBrokerProcess):
        group = broker.state.registry.get(member.options.group)
        return group is not None and member.name in group.clients.values()
    assert broker.broker is not None
    return member.name in [each.id for each in broker.broker.state.consumers]


@on(ours=known_mutant("lock-taken-over"), apache=NOBODY_ASKED)
def test_routes_differ_between_members(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind, queues=2, name_servers=2)
    members = [
        cluster.member(number, is_steered=False, strategy=Average(), name_server=number - 1) for number in (1, 2)
    ]
    cluster.until(lambda: shared(*members) == [1, 1], within_ms=4_000)
    contested = cluster.queues[1]
    cluster.world.network.jam(cluster.broker.name, cluster.names[1].name)
    cluster.create_topic(cluster.broker, TOPIC, 6)
    cluster.queues += [Queue(TOPIC, cluster.broker.name, number) for number in range(2, 6)]
    cluster.until(lambda: all(contested in (member.member.plan or ()) for member in members), within_ms=8_000)
    cluster.run(2_000)
    cluster.world.network.release(cluster.broker.name, cluster.names[1].name)
    cluster.run(12_000)
    with fails_with(bug):
        assert [cluster.max_holders(queue) for queue in cluster.queues] == [1] * 6
        assert shared(*members) == [3, 3]


def _all_share(options: MemberOptions, group: AssignmentInput) -> Iterator[tuple[Sequence[str], list[str]]]:
    del options
    yield group.members, sorted(group.queues)


ALL_SHARE = scenario_mutant(
    "a topic is shared with who does not read it", patch_attribute(assignment, "_topics_by_subscribers", _all_share)
)


@on(ours=ALL_SHARE)
def test_unequal_subscriptions_leave_no_queue_unread(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind, queues=4)
    cluster.create_topic(cluster.broker, "audits", 4)
    audits = [Queue("audits", cluster.broker.name, number) for number in range(4)]
    cluster.run(1_000)
    both = cluster.member(1, is_steered=False, topics=(TOPIC, "audits"))
    one = cluster.member(2, is_steered=False)
    cluster.run(3_000)
    with fails_with(bug):
        assert all(cluster.is_owned_by(both, queue) for queue in audits)
        assert shared(both, one) == [2, 2]


NO_RIVALS = scenario_mutant(
    "two processes may have one id", patch_method(ConsumerRegistry, "find_duplicate", lambda *_: None)
)


@on(ours=NO_RIVALS)
def test_one_id_twice_is_refused(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind, queues=4)
    first = cluster.member(1, is_steered=False)
    cluster.until(lambda: len(first.member.assignment()) >= 4)
    second = cluster.member(1, is_steered=False)
    cluster.run(5_000)
    with fails_with(bug):
        assert len([queue for queue in first.member.assignment() if queue.topic == TOPIC]) == 4
        assert second.member.assignment() == ()
        assert any("refuses" in sentence for _, sentence in cluster.reports())


# -- new queues -------------------------------------------------------------------------------------------------------


@on(ours=known_mutant("new-queue-from-its-end"), apache=known_mutant("new-queue-from-its-end"))
def test_queues_added_start_at_their_first_message(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind, queues=2)
    member = cluster.member(1, is_steered=False, start=StartAt.LAST)
    cluster.until(lambda: shared(member) == [2])
    cluster.create_topic(cluster.broker, TOPIC, 4)
    for number in (2, 3):
        cluster.send(f"new-{number}", TOPIC, number)
    cluster.run(8_000)
    with fails_with(bug):
        assert sorted(cluster.starts()) == ["new-2", "new-3"]
