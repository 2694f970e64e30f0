"""Upstream bugs in who is in a group, as scenarios: each with the bug put back.

| | upstream | here |
|---|---|---|
| R1 | members ask one broker each, and get different lists | different_lists_still_own_every_queue_once |
| R2 | a client with two connections counts twice | a_stale_connection_moves_nothing, one_client_on_two_connections… |
| R3 | two processes with one id | a_second_process_with_the_same_id…, an_id_that_is_listed_twice_is_reported |
| R4 | not on the list: everything is dropped | a_broker_that_forgot_its_members_takes_nothing_from_them |
| R5 | no list counts as balanced, until 20 s later | a_list_that_did_not_come_is_asked_for_soon |
| R6 | no notification when a silent member is removed | members_are_notified_of_one_that_expired |
| R7 | one live group keeps all groups of its connection alive | a_group_that_a_client_no_longer_speaks_of_grows_old |
| R8 | a heartbeat waits for dead name servers | a_heartbeat_is_answered_in_time_whatever_name_servers_do |
| R9 | each change notifies every group at once | a_storm_of_joins_costs_few_notices |
| R10 | the last heartbeat sets the subscriptions of all | members_with_other_topics_do_not_take_them_from_each_other |
| R11 | members with other fingerprints are asked again forever | two_fingerprints_do_not_flip |
| R12 | a lock is kept when a heartbeat has nothing to say | cannot be: heartbeats take no lock |
| R13 | a heartbeat says that it has no subscriptions and brings them | cannot be: ours always bring them and say so |
| R22 | a lock of the group sends retries to the dead letters | a_lock_of_the_group_sends_no_retry_to_the_dead_letters |

The others are in test_upstream_consumers.py.
"""

from collections.abc import Callable

from msgspec.structs import replace

from simulator.actors.broker import BrokerProcess
from simulator.actors.name_server import NameServerProcess
from simulator.facts import AssignmentPlanned
from simulator.mutants.mutant import Mutant, patch_attribute
from simulator.network import SimulatedConnection
from steelyard.balance.assignors import Average
from steelyard.balance.group import member_lists
from steelyard.balance.group.options import MemberTimings
from steelyard.balance.group.timers import NEVER_MS, BackOff
from steelyard.balance.group.topic_routes import SubscribedRoutes
from steelyard.broker import client_expiry
from steelyard.broker import consumer_registry as registry
from steelyard.broker.append import QueuePlace
from steelyard.broker.consumer_registry import (
    ConsumerGroup,
    ConsumerRegistry,
    GroupMember,
    HeartbeatResult,
    MemberHeartbeat,
)
from steelyard.broker.member_notifications import MemberNotifications
from steelyard.broker.requests import send as sends
from steelyard.broker.state import BrokerCoreState
from steelyard.broker.subscriptions import SubscriptionsByTopic
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.headers.group import HeartbeatResponse
from steelyard.wire.headers.send import SendMessageV2
from tests.balance.group_harness import NAMES, GroupHarness
from tests.broker.broker_harness import BrokerHarness, message
from tests.broker.fake_consumer import FakeConsumer, found_in, group_view, ids, subscription_to
from tests.broker.pull_requests import make_topic, pull, pull_header
from tests.simulator.apache_client import ApacheTestClient
from tests.simulator.cluster import GROUP, Cluster
from tests.simulator.scripted_cluster import ScriptedCluster
from tests.simulator.talker import Talker
from tests.simulator.upstream import apache_of, fails_with, held_by, join, upstream, with_java

# -- R1 to R5: what members make of lists ------------------------------------------------------------------------------


def _one_broker_each(routes: SubscribedRoutes, brokers: list[str]) -> tuple[str, ...]:
    """Ask one broker only: the second member another one than the rest."""
    is_second = routes._options.id.startswith("10.0.2.2@")
    return tuple(brokers[:1] if is_second else brokers[-1:])


@upstream(
    "each member asks one broker who is in the group",
    patch_attribute(SubscribedRoutes, "_choose_brokers", _one_broker_each),
)
def test_members_with_different_lists_still_own_every_queue_once(bug: Mutant | None) -> None:
    cluster = ScriptedCluster("apache", brokers=2, queues=4)
    members = [cluster.member(number, is_steered=False, strategy=Average()) for number in (1, 2)]
    cluster.run(5_000)
    cluster.world.network.block_connects("10.0.2.3@3@sy1", "b1")
    members.append(cluster.member(3, is_steered=False, strategy=Average()))
    cluster.run(10_000)
    listed = apache_of(cluster).state.registry.get(GROUP)
    assert listed is not None
    assert len(listed.clients) == 2, "one broker misses a member"
    with fails_with(bug):
        assert held_by(*members) == dict.fromkeys(cluster.queues, 1)


@with_java
def test_a_stale_connection_moves_nothing(bug: Mutant | None) -> None:
    cluster = ScriptedCluster("apache", queues=6)
    members = [join(cluster, number, bug) for number in (1, 2)]
    cluster.run(25_000)
    assert held_by(*members) == dict.fromkeys(cluster.queues, 1)
    ApacheTestClient(cluster.world, "phantom", apache_of(cluster)).heartbeat(members[0].name)
    cluster.run(25_000)
    with fails_with(bug):
        assert held_by(*members) == dict.fromkeys(cluster.queues, 1)


def _id_of_each_connection(group: ConsumerGroup) -> list[str]:
    return sorted(member.id for member in group.members.values() for _ in member.connections)


@upstream("members are counted by line", patch_attribute(ConsumerGroup, "ids", property(_id_of_each_connection)))
def test_one_client_on_two_connections_is_one_member(bug: Mutant | None) -> None:
    harness = BrokerHarness()
    client = FakeConsumer(harness, "c1", ours=False)
    client.heartbeat()
    client.reconnect()
    with fails_with(bug):
        assert ids(harness) == ["c1"]


@upstream(
    "nobody minds two processes under one id",
    patch_attribute(ConsumerRegistry, "find_duplicate", lambda _members, _beat, _now_ms: None),
    patch_attribute(GroupMember, "has_duplicate_id", property(lambda _member: False)),
)
def test_a_second_process_with_the_same_id_is_refused_or_at_least_reported(bug: Mutant | None) -> None:
    harness = BrokerHarness()
    FakeConsumer(harness, "c1").heartbeat()
    second = FakeConsumer(harness, "c1", instance="another process").heartbeat()
    for _ in range(2):
        FakeConsumer(harness, "j1", ours=False, group="java").heartbeat()
    with fails_with(bug):
        assert "give every member an id of its own" in (second.remark or "")
    with fails_with(bug):
        assert any("j1 on several connections" in sentence for sentence in found_in(group_view(harness, "java")))


@upstream("what a list shows is not looked at", patch_attribute(member_lists, "duplicate_ids", lambda _group, _ids: []))
def test_an_id_that_is_listed_twice_is_reported(bug: Mutant | None) -> None:
    cluster = ScriptedCluster("apache", queues=2)
    member = cluster.member(1, is_steered=False)
    cluster.run(2_000)
    ApacheTestClient(cluster.world, "phantom", apache_of(cluster)).heartbeat(member.name)
    cluster.run(60_000)
    text = [sentence for kind, sentence in cluster.reports() if kind == "warning" and "more than once" in sentence]
    with fails_with(bug):
        assert len(text) == 1


@with_java
def test_a_broker_that_forgot_its_members_takes_nothing_from_them(bug: Mutant | None) -> None:
    cluster = ScriptedCluster("apache", queues=4)
    members = [join(cluster, 1, bug, version="4.9")]
    cluster.run(10_000)
    members.append(join(cluster, 2, bug, version="4.9"))
    cluster.run(35_000)
    assert held_by(*members) == dict.fromkeys(cluster.queues, 1)
    broker = apache_of(cluster)
    restarted_ms = cluster.world.now_ms()
    broker.crash()
    broker.restart()
    cluster.run(40_000)
    plans = [
        fact
        for fact in cluster.facts(AssignmentPlanned)
        if isinstance(fact, AssignmentPlanned) and fact.at_ms > restarted_ms
    ]
    with fails_with(bug):
        assert not plans, "nobody changed anything"


@upstream("no list is as good as a balanced group", patch_attribute(BackOff, "after", lambda _wait, _now_ms: NEVER_MS))
def test_a_list_that_did_not_come_is_asked_for_soon(bug: Mutant | None) -> None:
    crowd = GroupHarness({"a": {"t": 4}}, times=MemberTimings(rebalance_unsettled_interval_ms=20_000))
    crowd.brokers["a"].is_silent = True
    member = crowd.join(NAMES[0], "t")
    crowd.run(4_000)
    crowd.brokers["a"].is_silent = False
    crowd.run(8_000)
    with fails_with(bug):
        assert len(member.plan) == 4


# -- R6 to R11: what a broker makes of heartbeats ----------------------------------------------------------------------


def _gone_quietly(_state: BrokerCoreState, _member: GroupMember, _now_ms: int) -> None:
    """Notify no member."""


@upstream(
    "nobody is told of a silent member that was dropped",
    patch_attribute(client_expiry, "_member_removed", _gone_quietly),
)
def test_members_are_notified_of_one_that_expired(bug: Mutant | None) -> None:
    harness = BrokerHarness()
    silent, other = FakeConsumer(harness, "c1", ours=False), FakeConsumer(harness, "c2", ours=False)
    silent.heartbeat()
    for _ in range(4):
        other.heartbeat()
        harness.advance(29_000, step_ms=1_000)
    other.pop_notifications()
    harness.advance(10_000, step_ms=1_000)
    assert ids(harness) == ["c2"]
    with fails_with(bug):
        assert other.pop_notifications() == 1


_received = ConsumerRegistry.register


def _refresh_the_connection(members: ConsumerRegistry, heartbeat: MemberHeartbeat, now_ms: int) -> HeartbeatResult:
    """Treat a heartbeat of one group as one of every group on the connection."""
    received = _received(members, heartbeat, now_ms)
    for member in members._by_connection[heartbeat.peer.connection_id].values():
        member.last_seen_ms = now_ms
    return received


@upstream("all groups of a line share one time", patch_attribute(ConsumerRegistry, "register", _refresh_the_connection))
def test_a_group_that_a_client_no_longer_speaks_of_grows_old(bug: Mutant | None) -> None:
    harness = BrokerHarness()
    client = FakeConsumer(harness, "c1", ours=False)
    former = FakeConsumer(harness, "c1", ours=False, group="former")
    former.connection = client.connection
    former.heartbeat()
    for _ in range(5):
        client.heartbeat()
        harness.advance(30_000, step_ms=1_000)
    assert ids(harness) == ["c1"]
    with fails_with(bug):
        assert ids(harness, "former") == []


_receive = BrokerProcess.command_received


def _receive_after_registering(broker: BrokerProcess, connection: SimulatedConnection, command: Command) -> None:
    """Register the group's topic first, with one name server after the other."""
    servers = [each for each in broker.world.processes.values() if isinstance(each, NameServerProcess)]
    dead = sum(not server.is_alive for server in servers)
    if command.code == RequestCode.HEART_BEAT and dead:
        broker.call_later(3_000 * dead, lambda: _receive(broker, connection, command))
    else:
        _receive(broker, connection, command)


@upstream(
    "a heartbeat waits for all name servers",
    patch_attribute(BrokerProcess, "command_received", _receive_after_registering),
)
def test_a_heartbeat_is_answered_in_time_whatever_name_servers_do(bug: Mutant | None) -> None:
    cluster = Cluster(name_servers=3)
    for server in cluster.names[1:]:
        server.kill("vanished")
    client = Talker(cluster.world, "c1", cluster.brokers[0].options.address)
    cluster.run(100)
    client.send_heartbeat()
    cluster.run(1_500)
    with fails_with(bug):
        assert client.opaque in client.answers, "Java's clients wait for 3 s"


@upstream(
    "every change is told at once",
    patch_attribute(MemberNotifications, "record_change", lambda _notifications, _group, _now_ms: True),
)
def test_a_storm_of_joins_costs_few_notices(bug: Mutant | None) -> None:
    harness = BrokerHarness()
    bystander = FakeConsumer(harness, "b1", group="another")
    bystander.heartbeat()
    bystander.pop_notifications()
    clients = [FakeConsumer(harness, f"c{number:02d}", ours=False) for number in range(40)]
    for client in clients:
        client.heartbeat()
        harness.advance(5, step_ms=5)
    harness.advance(1_000)
    text = [client.pop_notifications() for client in clients]
    assert bystander.pop_notifications() == 0
    assert min(text) >= 1, "the last change reaches everybody"
    with fails_with(bug):
        assert max(text) <= 3


def _of_who_spoke_last(group: ConsumerGroup) -> SubscriptionsByTopic:
    return max(group.members.values(), key=lambda member: member.last_seen_ms).subscriptions


@upstream(
    "a heartbeat overwrites what the group wants",
    patch_attribute(ConsumerGroup, "subscriptions", property(_of_who_spoke_last)),
)
def test_members_with_other_topics_do_not_take_them_from_each_other(bug: Mutant | None) -> None:
    harness = BrokerHarness()
    make_topic(harness, "orders")
    make_topic(harness, "refunds")
    first, second = FakeConsumer(harness, "c1", ours=False), FakeConsumer(harness, "c2", ours=False)
    first.heartbeat(subscription_to("orders"))
    harness.advance(10)
    second.heartbeat(subscription_to("refunds"))
    # Another connection of the first one, on which no member is registered, reads the group's subscriptions.
    answers = [
        pull(harness, pull_header(topic=topic, flags=0, wanted=None, kind=None)).code for topic in ("orders", "refunds")
    ]
    assert any("other topics than most" in sentence for sentence in found_in(group_view(harness)))
    with fails_with(bug):
        assert answers == [19, 19]


def _asks_again_by_group(kept: dict[str, int]) -> Callable[[GroupMember, MemberHeartbeat], bool]:
    def asks_again(member: GroupMember, beat: MemberHeartbeat) -> bool:
        known, kept[member.group] = kept.get(member.group), beat.fingerprint
        return known is not None and known != beat.fingerprint

    return asks_again


@upstream("a group has one fingerprint", patch_attribute(registry, "_needs_subscriptions", _asks_again_by_group({})))
def test_two_fingerprints_do_not_flip(bug: Mutant | None) -> None:
    harness = BrokerHarness()
    clients = [FakeConsumer(harness, f"c{number}", ours=False) for number in (1, 2)]
    for number, client in enumerate(clients, 1):
        client.heartbeat(fingerprint=number)
    again = [
        client.heartbeat(fingerprint=number, without_subscriptions=True).header(HeartbeatResponse).subscription_changed
        for _ in range(3)
        for number, client in enumerate(clients, 1)
    ]
    with fails_with(bug):
        assert not any(again)


# -- R22 ---------------------------------------------------------------------------------------------------------------

_retry_or_dead = sends._retry_or_dead


def _dead_if_locked(
    state: BrokerCoreState, header: SendMessageV2, place: QueuePlace, properties: dict[str, str], now_ms: int
) -> QueuePlace:
    """Treat a group with any lock as orderly, so that its retries become dead letters."""
    if next(state.queue_locks.held_queues("billing", now_ms), None) is not None:
        header = replace(header, reconsume_times=1_000)
    return _retry_or_dead(state, header, place, properties, now_ms)


@upstream(
    "retries of a group that holds a lock are dead letters", patch_attribute(sends, "_retry_or_dead", _dead_if_locked)
)
def test_a_lock_of_the_group_sends_no_retry_to_the_dead_letters(bug: Mutant | None) -> None:
    harness = BrokerHarness()
    make_topic(harness, "orders", queues=2)
    orderly, concurrent = FakeConsumer(harness, "c1", ours=False), FakeConsumer(harness, "c2", ours=False)
    orderly.heartbeat()
    concurrent.heartbeat()
    assert orderly.lock(0)
    retry = message("%RETRY%billing", "UNIQ_KEY\x01U1\x02RETRY_TOPIC\x01orders\x02DELAY\x011\x02", reconsume_times=1)
    assert harness.request(RequestCode.SEND_MESSAGE_V2, retry, b"again", peer=concurrent.connection).code == 0
    harness.advance(2_000)
    with fails_with(bug):
        assert [record.body for record in harness.topic("%RETRY%billing")] == [b"again"]
