"""A member that hangs, stutters or is slow, on Apache's broker, which lists it for two minutes more.

Responsive members keep what they have. They take over what no member holds any more, and never what the silent one may
hold.
"""

import pytest

from simulator.actors.member import MemberProcess
from simulator.facts import QueueStateChanged
from simulator.mutants.mutant import Mutant
from simulator.network import SimulatedConnection
from steelyard.balance.group.claimed_queues import PeerClaims
from steelyard.balance.group.ownership_probe import OwnershipProbe
from steelyard.model import Queue
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command
from tests.simulator.scripted_cluster import (
    Kind,
    ScriptedCluster,
    fails_with,
    known_mutant,
    on,
    patch_method,
    scenario_mutant,
)

_QUEUES = 8

JAVA_S_WAY = known_mutant("silence-changes-the-strategy")
ALL_HEARD = scenario_mutant(
    "who does not answer is given queues as any other", patch_method(PeerClaims, "unresponsive", lambda *_: frozenset())
)
ALL_SUSPECTED = scenario_mutant(
    "who is silent may hold every queue", patch_method(OwnershipProbe, "_may_hold", lambda *_: True)
)
NOBODY_SUSPECTED = scenario_mutant(
    "who is silent holds nothing", patch_method(OwnershipProbe, "_may_hold", lambda *_: False)
)


def _shared(cluster: ScriptedCluster, members: int, calm_ms: int = 15_000) -> list[MemberProcess]:
    joined = [cluster.member(number, is_steered=False) for number in range(1, members + 1)]
    cluster.until(lambda: _is_shared(cluster, joined), within_ms=20_000)
    cluster.run(calm_ms)
    return joined


def _is_shared(cluster: ScriptedCluster, members: list[MemberProcess]) -> bool:
    most = -(-_QUEUES // len(members))
    counts = [len(_owned(cluster, member)) for member in members]
    return sum(counts) == _QUEUES and max(counts) <= most


def _owned(cluster: ScriptedCluster, member: MemberProcess) -> list[Queue]:
    return [queue for queue in cluster.queues if cluster.is_owned_by(member, queue)]


def _released(cluster: ScriptedCluster, members: list[MemberProcess], since_ms: int) -> list[QueueStateChanged]:
    names = {member.name for member in members}
    moved = [
        fact
        for fact in cluster.facts(QueueStateChanged)
        if isinstance(fact, QueueStateChanged) and fact.member in names
    ]
    return [fact for fact in moved if fact.at_ms >= since_ms and fact.before == "OWNED"]


def _answer_late(cluster: ScriptedCluster, member: MemberProcess, late_ms: int) -> None:
    """Delay the reports of a member about what it holds."""
    receive = member.command_received

    def received(connection: SimulatedConnection, command: Command) -> None:
        if not command.is_response and command.code == Code.GET_CONSUMER_RUNNING_INFO:
            cluster.world.schedule(late_ms * 1000, lambda: receive(connection, command))
        else:
            receive(connection, command)

    vars(member)["command_received"] = received


@pytest.mark.parametrize("members", [2, 3, 8])
@pytest.mark.parametrize("how", ["hung", "stutters", "slow"])
def test_who_answers_releases_nothing(members: int, how: str) -> None:
    cluster = ScriptedCluster("apache", queues=_QUEUES)
    first, *others = _shared(cluster, members)
    since_ms = cluster.world.now_ms()
    if how == "slow":
        _answer_late(cluster, first, 5_000)
        cluster.run(60_000)
    else:
        for _ in range(1 if how == "hung" else 30):
            first.pause()
            cluster.run(60_000 if how == "hung" else 1_000)
            first.resume()
            cluster.run(1_000)
    assert not _released(cluster, others, since_ms)
    cluster.run(30_000)
    assert not _released(cluster, others, since_ms), "nor when it answers again"
    assert _is_shared(cluster, [first, *others])


@on(apache=JAVA_S_WAY)
def test_a_hung_member_takes_no_queues_away(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind, queues=_QUEUES)
    first, *others = _shared(cluster, 3)
    since_ms = cluster.world.now_ms()
    first.pause()
    cluster.run(60_000)
    with fails_with(bug):
        assert not _released(cluster, others, since_ms)


@on(apache=ALL_SUSPECTED)
def test_a_member_killed_while_another_hangs_is_replaced(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind, queues=_QUEUES)
    hung, killed, *others = _shared(cluster, 4)
    theirs = _owned(cluster, hung), _owned(cluster, killed)
    hung.pause()
    cluster.run(12_000)
    killed.kill()
    cluster.run(10_000)
    with fails_with(bug):
        now = [queue for member in others for queue in _owned(cluster, member)]
        assert set(theirs[1]) <= set(now)
        assert set(theirs[0]).isdisjoint(now)
    hung.resume()
    cluster.until(lambda: _is_shared(cluster, [hung, *others]), within_ms=40_000)
    assert all(cluster.max_holders(queue) == 1 for queue in cluster.queues)


def test_a_member_killed_while_another_hangs_is_replaced_though_the_group_is_young() -> None:
    cluster = ScriptedCluster("apache", queues=_QUEUES)
    hung, killed, other = _shared(cluster, 3, calm_ms=6_000)
    theirs = _owned(cluster, hung), _owned(cluster, killed)
    hung.pause()
    cluster.run(12_000)
    killed.kill()
    cluster.run(12_000)
    assert set(theirs[1]) <= set(_owned(cluster, other))
    assert set(theirs[0]).isdisjoint(_owned(cluster, other))


@pytest.mark.parametrize("joined_ms", [-30_000, 0, 300])
def test_a_member_killed_while_another_hangs_is_replaced_by_a_newcomer(joined_ms: int) -> None:
    cluster = ScriptedCluster("apache", queues=_QUEUES)
    hung, killed, *others = _shared(cluster, 4)
    theirs = _owned(cluster, hung), _owned(cluster, killed)
    hung.pause()
    cluster.run(12_000)
    if joined_ms < 0:
        others.append(cluster.member(9, is_steered=False))
        cluster.run(-joined_ms)
    killed.kill()
    if joined_ms >= 0:
        cluster.run(joined_ms)
        others.append(cluster.member(9, is_steered=False))
    cluster.run(12_000)
    now = [queue for member in others for queue in _owned(cluster, member)]
    assert set(theirs[1]) <= set(now)
    assert set(theirs[0]).isdisjoint(now)
    hung.resume()
    cluster.until(lambda: _is_shared(cluster, [hung, *others]), within_ms=40_000)
    assert all(cluster.max_holders(queue) == 1 for queue in cluster.queues)


def test_a_short_disconnect_while_a_member_hangs_costs_seconds_if_a_third_one_knows_what_it_holds() -> None:
    cluster = ScriptedCluster("apache", queues=_QUEUES)
    hung, blipped, _ = _shared(cluster, 3)
    theirs = _owned(cluster, blipped)
    hung.pause()
    cluster.run(12_000)
    cluster.cut(blipped)
    cluster.run(10_000)
    assert _owned(cluster, blipped) == theirs


def test_a_hung_member_is_replaced_once_it_is_dropped_and_may_come_back() -> None:
    cluster = ScriptedCluster("apache", queues=_QUEUES)
    hung, *others = _shared(cluster, 3)
    since_ms = cluster.world.now_ms()
    hung.pause()
    cluster.until(lambda: sum(len(_owned(cluster, member)) for member in others) == _QUEUES, within_ms=150_000)
    assert not _released(cluster, others, since_ms)
    hung.resume()
    cluster.until(lambda: not _owned(cluster, hung), within_ms=100)
    cluster.until(lambda: _is_shared(cluster, [hung, *others]), within_ms=10_000)


@on(apache=NOBODY_SUSPECTED)
def test_what_a_hung_member_may_hold_is_not_taken(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind, queues=_QUEUES)
    hung, killed = _shared(cluster, 2)
    hung.pause()
    cluster.run(12_000)
    killed.kill()
    newcomer = cluster.member(9, is_steered=False)
    cluster.run(60_000)
    hung.resume()
    cluster.run(5_000)
    with fails_with(bug):
        assert all(cluster.max_holders(queue) == 1 for queue in cluster.queues)
    cluster.until(lambda: _is_shared(cluster, [hung, newcomer]), within_ms=60_000)


@on(apache=ALL_HEARD)
def test_a_newcomer_that_hangs_at_once_gets_nothing(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind, queues=_QUEUES)
    members = _shared(cluster, 2)
    since_ms = cluster.world.now_ms()
    newcomer = cluster.member(9, is_steered=False)
    cluster.until(lambda: _has_beaten(cluster, newcomer), within_ms=5_000)
    newcomer.pause()
    cluster.run(60_000)
    with fails_with(bug):
        assert not _released(cluster, members, since_ms)


def _has_beaten(cluster: ScriptedCluster, member: MemberProcess) -> bool:
    beats = [who for who, command in cluster.gate.requests if command.code == Code.HEART_BEAT]
    return member.name in beats
