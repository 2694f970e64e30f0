"""Members that Apache's broker lists though their connection is closed: no one waits for them, no one loses a queue."""

from collections.abc import Callable

import pytest

from simulator.actors.member import MemberProcess
from simulator.apache.state import ApacheGroup
from simulator.facts import Fact, MemberRegistered, MemberUnregistered
from simulator.mutants.mutant import Mutant, patch_attribute
from steelyard.balance.group.ownership_probe import OwnershipProbe
from steelyard.protocol import member_responses
from steelyard.wire.codes import RequestCode
from tests.simulator.scripted_cluster import Gate, ScriptedCluster
from tests.simulator.upstream import apache_of, fails_with, held_by, upstream


def beat_late(cluster: ScriptedCluster, member: MemberProcess) -> Gate:
    """Hold back a member's next heartbeat at the broker."""
    gate = cluster.keep_requests(member, RequestCode.HEART_BEAT)
    for action in member.member.sessions.send_heartbeat(None, member._now_ms()):
        member._execute(action)
    cluster.until(lambda: bool(gate.kept))
    gate.open()
    return gate


def connections_of(cluster: ScriptedCluster, member: MemberProcess) -> list[int]:
    """Return the numbers of the connections by which the broker knows a member."""
    group = apache_of(cluster).state.registry.get(member.options.group)
    return [] if group is None else [number for number, name in group.clients.items() if name == member.name]


def with_a_dead_connection(cluster: ScriptedCluster, owner: MemberProcess, go_on: Callable[[Gate], None]) -> None:
    """Cut the connection of an owner with a heartbeat in flight, and go on when it owns its queue again.

    Which of two connections the broker finds first depends on their numbers: it has to be the dead one.
    """
    for _ in range(8):
        gate = beat_late(cluster, owner)
        cluster.cut(owner)
        cluster.until(lambda: cluster.is_owned_by(owner), 5_000)
        (dead,), (live,) = [connection.number for connection, _ in gate.kept], connections_of(cluster, owner)
        if ApacheGroup("g", {dead: "c", live: "c"}).connection_of("c") == dead:
            go_on(gate)
            return
        gate.kept.clear()
    pytest.fail("the live line would be found first every time")


@upstream("a closed line is a slow one", patch_attribute(member_responses, "_CONNECTION_CLOSED_REMARK", "never said"))
def test_a_member_that_died_after_its_last_heartbeat_is_not_waited_for(bug: Mutant | None) -> None:
    cluster = ScriptedCluster("apache", queues=6)
    first, second, third = (cluster.member(number, is_steered=False) for number in (1, 2, 3))
    cluster.run(10_000)
    gate = beat_late(cluster, second)
    second.kill()
    cluster.run(20)
    gate.release()
    cluster.run(3_000)
    assert len(connections_of(cluster, second)) == 1, "it is listed all the same"
    with fails_with(bug):
        for _ in range(140):
            assert held_by(first, third) == dict.fromkeys(cluster.queues, 1)
            cluster.run(1_000)
        assert not connections_of(cluster, second)
        assert not [sentence for kind, sentence in cluster.reports() if kind == "degraded"]


@upstream(
    "whose line is closed is gone",
    patch_attribute(
        OwnershipProbe, "_confirmed_stale", lambda _probe, _queue, sweep: frozenset(sweep.closed_connections)
    ),
)
def test_an_owner_with_a_dead_connection_beside_its_own_keeps_its_queue(bug: Mutant | None) -> None:
    cluster = ScriptedCluster("apache")
    owner, taker = cluster.member(1), cluster.member(2)
    cluster.own(owner)
    with_a_dead_connection(cluster, owner, Gate.release)
    cluster.until(lambda: len(connections_of(cluster, owner)) == 2)
    cluster.set_assignment(taker, cluster.queue)
    cluster.run(10_000)
    with fails_with(bug):
        assert cluster.max_holders() == 1


@upstream(
    "whose line is closed, and who was listed once, is gone",
    patch_attribute(
        OwnershipProbe,
        "_confirmed_stale",
        lambda _probe, _queue, sweep: frozenset(
            each for each in sweep.closed_connections if sweep.listed_ids.count(each) == 1
        ),
    ),
)
def test_a_dead_connection_that_registers_between_the_list_and_the_probe_takes_no_queue(bug: Mutant | None) -> None:
    cluster = ScriptedCluster("apache")
    owner, taker = cluster.member(1), cluster.member(2)
    cluster.own(owner)

    def join_in_between(gate: Gate) -> None:
        late, gate.kept = gate.kept, []
        cluster.keep_requests(taker, RequestCode.GET_CONSUMER_RUNNING_INFO)
        cluster.set_assignment(taker, cluster.queue)
        cluster.until(lambda: bool(gate.kept))
        questions, gate.kept = gate.kept, late
        gate.release()
        cluster.until(lambda: len(connections_of(cluster, owner)) == 2)
        gate.kept = questions
        gate.release()

    with_a_dead_connection(cluster, owner, join_in_between)
    cluster.run(10_000)
    with fails_with(bug):
        assert cluster.max_holders() == 1


def test_a_member_that_comes_back_on_a_new_connection_is_not_stale() -> None:
    cluster = ScriptedCluster("apache", queues=4)
    first, second = (cluster.member(number, is_steered=False) for number in (1, 2))
    cluster.run(10_000)
    gate = beat_late(cluster, second)
    cluster.cut_off(second, 5_000)
    cluster.run(20)
    gate.release()
    cluster.run(3_000)
    assert held_by(first) == dict.fromkeys(cluster.queues, 1), "it was a phantom for a while"
    cluster.run(12_000)
    assert len(connections_of(cluster, second)) == 2
    assert held_by(first, second) == dict.fromkeys(cluster.queues, 1)
    assert held_by(second)


def test_a_member_that_only_a_dead_connection_lists_is_reported_gone_until_it_is_back() -> None:
    cluster = ScriptedCluster("apache")
    owner = cluster.member(1)
    cluster.own(owner)
    with_a_dead_connection(cluster, owner, Gate.release)
    cluster.until(lambda: len(connections_of(cluster, owner)) == 2)

    def reported() -> list[Fact]:
        return [fact for fact in cluster.world.journal.facts if isinstance(fact, MemberRegistered | MemberUnregistered)]

    assert isinstance(reported()[-1], MemberRegistered), "it has a line of its own beside the dead one"
    cluster.cut_off(owner, 2_000)
    cluster.run(1_000)
    assert len(connections_of(cluster, owner)) == 1
    assert isinstance(reported()[-1], MemberUnregistered)
    cluster.run(10_000)
    assert len(connections_of(cluster, owner)) == 2
    assert isinstance(reported()[-1], MemberRegistered)
