"""Acquiring a queue, and what once went wrong with locks: two owners, orphaned locks, members that never leave.

On our broker a lock is a lease that lives as long as its member; on Apache's it is held only while a member asks the
others, and lasts a minute if it is not released.
"""

from simulator.facts import MemberUnregistered, ProcessGone
from simulator.mutants.mutant import Mutant, patch_attribute, patch_transition
from steelyard.balance.group.events import LocksAnswered
from steelyard.balance.group.options import ConsumeMode
from steelyard.balance.group.queue_locks import QueueLocks
from steelyard.balance.group.queue_states import QueueState
from steelyard.balance.group.queue_transitions import QueueTransitions
from steelyard.broker.requests import locks as lock_requests
from steelyard.wire.codes import RequestCode as Code
from tests.simulator.scenario_mutants import NOBODY_ASKED, REPLACED_LINE_LOCKS, UNKNOWN_LOCK_FORGOTTEN
from tests.simulator.scripted_cluster import (
    Kind,
    ScriptedCluster,
    fails_with,
    known_mutant,
    on,
    patch_method,
    scenario_mutant,
)

_answered = QueueLocks.locks_answered


# -- two owners -------------------------------------------------------------------------------------------------------


def _bypass(locks: QueueLocks, event: LocksAnswered) -> None:
    """Treat a denied lock as that of a dead member."""
    _answered(locks, LocksAnswered(event.broker, {**event.granted, **dict.fromkeys(event.denied)}, {}))


BYPASSED = scenario_mutant(
    "a member takes a queue without its lock", patch_method(QueueLocks, "locks_answered", _bypass)
)


@on(ours=BYPASSED, apache=BYPASSED)
def test_a_takeover_without_the_lock_meets_a_grant_in_flight(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind)
    first, second = cluster.member(1), cluster.member(2)
    grant = cluster.keep_answers(first, Code.LOCK_BATCH_MQ)
    cluster.set_assignment(first, cluster.queue)
    cluster.until(lambda: bool(grant.kept))
    # The first one has the lock and does not know it: asked, it reports that it holds nothing.
    hearsay = cluster.keep_answers(second, Code.GET_CONSUMER_RUNNING_INFO)
    cluster.set_assignment(second, cluster.queue)
    cluster.run(400)
    grant.release()
    cluster.run(100)
    hearsay.release()
    cluster.run(2_000)
    with fails_with(bug):
        assert cluster.max_holders() == 1
        assert cluster.is_owned_by(first)


LEASES_EXPIRE = scenario_mutant(
    "a lease lives a minute", patch_attribute(lock_requests, "_requesting_member", lambda *_: None)
)


@on(ours=LEASES_EXPIRE, apache=NOBODY_ASKED)
def test_a_lock_that_expires_after_a_bypass_is_not_free(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind)
    dying, owner, third = cluster.member(1), cluster.member(2), cluster.member(3)
    answer = cluster.keep_answers(dying, Code.LOCK_BATCH_MQ)
    cluster.set_assignment(dying, cluster.queue)
    cluster.until(lambda: bool(answer.kept))
    dying.kill()
    cluster.own(owner, within_ms=65_000)
    cluster.run(61_000)
    cluster.set_assignment(third, cluster.queue)
    cluster.run(2_000)
    with fails_with(bug):
        assert cluster.max_holders() == 1
        assert cluster.is_owned_by(owner)


# -- orphaned locks ---------------------------------------------------------------------------------------------------


def _flush_impatiently(locks: QueueLocks) -> None:
    while locks.dirty:
        _, broker_requests = locks.dirty.popitem()
        if locks._sessions.is_registered(broker_requests.broker):
            locks._send_next(broker_requests)


IMPATIENT = scenario_mutant(
    "an unlock does not wait for the renewal before it", patch_method(QueueLocks, "flush", _flush_impatiently)
)


@on(apache=IMPATIENT)
def test_an_unlock_waits_for_the_renewal_before_it(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind)
    member, next_one = cluster.member(1, mode=ConsumeMode.ORDERLY), cluster.member(2, mode=ConsumeMode.ORDERLY)
    cluster.own(member)
    renewal = cluster.keep_requests(member, Code.LOCK_BATCH_MQ)
    cluster.until(lambda: bool(renewal.kept), within_ms=25_000)
    cluster.set_assignment(member)
    cluster.run(200)
    renewal.release()
    cluster.run(200)
    with fails_with(bug):
        assert cluster.locks() == []
        cluster.own(next_one)


@on(ours=known_mutant("unwanted-grant-kept"), apache=known_mutant("unwanted-grant-kept"))
def test_a_grant_no_longer_wanted_is_unlocked(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind)
    member, next_one = cluster.member(1), cluster.member(2)
    grant = cluster.keep_answers(member, Code.LOCK_BATCH_MQ)
    cluster.set_assignment(member, cluster.queue)
    cluster.until(lambda: bool(grant.kept))
    cluster.set_assignment(member)
    cluster.run(50)
    assert cluster.locks() == [(cluster.queue, member.name)]
    grant.release()
    cluster.run(100)
    with fails_with(bug):
        assert cluster.state(member) is QueueState.ABSENT
        assert cluster.locks() == []
        cluster.own(next_one, within_ms=300)


@on(ours=UNKNOWN_LOCK_FORGOTTEN, apache=UNKNOWN_LOCK_FORGOTTEN)
def test_a_lock_of_unknown_outcome_is_unlocked_after_a_cut(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind)
    member, next_one = cluster.member(1), cluster.member(2)
    answer = cluster.keep_answers(member, Code.LOCK_BATCH_MQ)
    cluster.set_assignment(member, cluster.queue)
    cluster.until(lambda: bool(answer.kept))
    cluster.set_assignment(member)
    cluster.cut(member)
    assert cluster.locks() == [(cluster.queue, member.name)]
    cluster.run(200)
    with fails_with(bug):
        assert cluster.locks() == []
        assert cluster.state(member) is QueueState.ABSENT
        cluster.own(next_one, within_ms=300)


DEAF_TO_POKES = scenario_mutant(
    "a poke unlocks nothing", *patch_transition(QueueTransitions.unlock_unknown_lock, QueueTransitions.ignore)
)


@on(ours=REPLACED_LINE_LOCKS, apache=DEAF_TO_POKES)
def test_a_late_lock_of_a_dead_connection_is_freed_by_a_handover_request(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind)
    member, next_one = cluster.member(1), cluster.member(2)
    request = cluster.keep_requests(member, Code.LOCK_BATCH_MQ)
    cluster.set_assignment(member, cluster.queue)
    cluster.until(lambda: bool(request.kept))
    cluster.set_assignment(member)
    cluster.cut(member, broker_knows=kind == "apache")
    cluster.until(lambda: cluster.state(member) is QueueState.ABSENT)
    cluster.run(100)
    request.release()
    cluster.run(100)
    if kind == "apache":
        assert cluster.locks() == [(cluster.queue, member.name)]
    with fails_with(bug):
        # Our broker accepts nothing from a replaced connection, so that there is nothing to heal.
        assert kind == "apache" or cluster.locks() == []
        cluster.own(next_one, within_ms=1_500)


@on(ours=known_mutant("denied-leaver-stays"), apache=known_mutant("denied-leaver-stays"))
def test_a_leaver_with_a_denied_lock_still_leaves(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind)
    owner, waiting, leaver = cluster.member(1), cluster.member(2), cluster.member(3)
    cluster.own(owner)
    # On Apache's broker the member that asks has the lock, not the owner.
    cluster.set_assignment(waiting, cluster.queue)
    cluster.run(100)
    denial = cluster.keep_answers(leaver, Code.LOCK_BATCH_MQ)
    cluster.set_assignment(leaver, cluster.queue)
    cluster.until(lambda: bool(denial.kept))
    leaver.leave()
    cluster.run(50)
    denial.release()
    with fails_with(bug):
        cluster.until(lambda: not leaver.is_alive)
        assert [fact.how for fact in cluster.facts(ProcessGone) if isinstance(fact, ProcessGone)] == ["left"]


# -- what a lock is not -----------------------------------------------------------------------------------------------


@on(ours=known_mutant("renewal-takes"))
def test_a_renewal_does_not_acquire(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind)
    member, next_one = cluster.member(1), cluster.member(2)
    cluster.own(member)
    member.pause()
    cluster.until(lambda: cluster.locks() == [], within_ms=15_000)
    member.resume()
    cluster.set_assignment(member)
    cluster.run(300)
    with fails_with(bug):
        assert cluster.states_of(member, cluster.queue)[-2:] == ["UNSURE", "absent"]
        assert "lost" in dict(cluster.reports())
    cluster.own(next_one)


@on(ours=known_mutant("lease-outlives-member"), apache=known_mutant("short-lock-kept"))
def test_queues_of_an_unnoticed_crash_are_acquired_at_once(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind, queues=4)
    dying = [cluster.member(number, is_steered=False) for number in (1, 2)]
    cluster.until(lambda: all(cluster.owners(*dying).values()))
    cluster.run(300)
    for member in dying:
        member.kill()
    cluster.until(lambda: len(cluster.facts(MemberUnregistered)) == 2, within_ms=3_000)
    new = [cluster.member(number, is_steered=False) for number in (3, 4)]
    with fails_with(bug):
        cluster.until(lambda: all(len(each) == 1 for each in cluster.owners(*new).values()), within_ms=2_000)


@on(apache=known_mutant("unsure-never-yields"))
def test_an_unsure_owner_gives_way_to_an_asking_peer(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind)
    owner, requests = cluster.member(1), cluster.member(2)
    cluster.own(owner)
    cluster.set_assignment(requests, cluster.queue)
    cluster.until(lambda: cluster.state(requests) is QueueState.ASKING)
    # Until no heartbeat is in flight: Apache's broker would register its connection, dead or not.
    cluster.run(300)
    cluster.cut(owner)
    cluster.run(2_000)
    with fails_with(bug):
        assert cluster.is_owned_by(requests)
        assert cluster.max_holders() == 1
