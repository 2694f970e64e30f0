"""Connections that break, processes that pause and brokers that restart: late requests must not count."""

from unittest.mock import patch

from simulator.facts import QueueStateChanged
from simulator.mutants.mutant import Mutant, patch_attribute, patch_transition
from steelyard.balance.group.options import ConsumeMode
from steelyard.balance.group.process_queue import ProcessQueue, ProofStep
from steelyard.balance.group.queue_states import QueueEvent, QueueState
from steelyard.balance.group.queue_transitions import QueueTransitions
from steelyard.balance.group.rebalance import Rebalancer
from steelyard.broker.queue_locks import QueueKey, QueueLockTable, ReleaseReason
from steelyard.wire.codes import RequestCode as Code
from tests.simulator.scenario_mutants import NOBODY_ASKED, REPLACED_LINE_LOCKS, other_transition
from tests.simulator.scripted_cluster import (
    Kind,
    ScriptedCluster,
    fails_with,
    handler_taking,
    known_mutant,
    on,
    patch_method,
    scenario_mutant,
)

_rebalanced, _fall_back, _release = (
    QueueTransitions._on_state_changed,
    QueueTransitions.restart_acquire,
    QueueLockTable.release,
)


# -- requests of a dead connection ------------------------------------------------------------------------------------


def _release_any_epoch(
    locks: QueueLockTable, group: str, key: QueueKey, owner: str, _epoch: int | None, now_ms: int, *, how: ReleaseReason
) -> bool:
    return _release(locks, group, key, owner, None, now_ms, how=how)


LATE_UNLOCK = scenario_mutant(
    "an unlock of a line that was replaced frees what its member took since",
    *REPLACED_LINE_LOCKS.patches,
    patch_attribute(QueueLockTable, "release", _release_any_epoch),
)


@on(ours=LATE_UNLOCK, apache=NOBODY_ASKED)
def test_a_late_unlock_of_a_dead_connection_does_not_free_the_new_lease(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind)
    member, waiting = cluster.member(1), cluster.member(2)
    if kind == "ours":
        cluster.own(member)
    unlock = cluster.keep_requests(member, Code.UNLOCK_BATCH_MQ)
    if kind == "ours":
        cluster.set_assignment(member)
    else:
        # There the lock is released as soon as a queue is acquired.
        cluster.own(member)
    cluster.until(lambda: bool(unlock.kept))
    cluster.run(300)
    unlock.open()
    cluster.cut(member, broker_knows=kind == "apache")
    cluster.own(member)
    cluster.set_assignment(waiting, cluster.queue)
    cluster.run(100)
    unlock.release()
    cluster.run(1_000)
    with fails_with(bug):
        assert cluster.max_holders() == 1
        assert cluster.is_owned_by(member)


@on(ours=known_mutant("fencing-skipped"), apache=known_mutant("late-commit-stays"))
def test_a_late_commit_of_a_dead_connection_is_corrected(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind)
    member = cluster.member(1)
    cluster.own(member)
    cluster.run(1_200)
    commit = cluster.keep_requests(member, Code.UPDATE_CONSUMER_OFFSET)
    cluster.put(3)
    cluster.until(lambda: bool(commit.kept))
    commit.open()
    cluster.cut(member, broker_knows=kind == "apache")
    cluster.put(2)
    cluster.until(lambda: cluster.committed() == 5, within_ms=4_000)
    commit.release()
    cluster.run(50)
    if kind == "apache":
        assert cluster.went_back()
    cluster.run(6_000)
    with fails_with(bug):
        assert cluster.committed() == 5


# -- windows ----------------------------------------------------------------------------------------------------------


def _keep_window(transitions: QueueTransitions, record: ProcessQueue, before: QueueState) -> None:
    """Start the next generation of a queue with the window of the last one."""
    kept = transitions.__dict__.setdefault("kept", {})
    if record.state is QueueState.ABSENT:
        kept[record.queue] = record.window, record.committed_offset
    elif before is QueueState.ABSENT and record.queue in kept:
        record.window, record.committed_offset = kept[record.queue]
    _rebalanced(transitions, record, before)


def _doubt_start(transitions: QueueTransitions, record: ProcessQueue, about: object) -> None:
    """Treat a queue that was cut before its first offset as one that was started."""
    if record.state is QueueState.STARTING:
        record.state, record.was_draining, record.proof_step = QueueState.UNSURE, False, ProofStep.NOT_STARTED
    else:
        _fall_back(transitions, record, about)


OLD_WINDOW = scenario_mutant(
    "a cut before the first offset keeps the window of an earlier life",
    patch_method(QueueTransitions, "_on_state_changed", _keep_window),
    *patch_transition(QueueTransitions.restart_acquire, _doubt_start),
    other_transition(QueueState.STARTING, QueueEvent.CONNECTION_LOST, _doubt_start),
)


@on(ours=OLD_WINDOW, apache=OLD_WINDOW)
def test_a_cut_before_the_first_offset_keeps_no_window(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind)
    member = cluster.member(1, handlers=1, work=handler_taking(200))
    cluster.own(member)
    sent = cluster.fill(4)
    cluster.until(lambda: len(cluster.starts()) == 1)
    cluster.run(50)
    cluster.set_assignment(member)
    cluster.until(lambda: cluster.state(member) is QueueState.ABSENT)
    assert cluster.committed() == 1
    question = cluster.keep_requests(member, Code.QUERY_CONSUMER_OFFSET)
    cluster.set_assignment(member, cluster.queue)
    cluster.until(lambda: bool(question.kept))
    question.open()
    cluster.cut(member)
    cluster.run(2_000)
    with fails_with(bug):
        assert cluster.starts() == sent


OVERTAKEN = scenario_mutant(
    "who comes back takes its lock and goes on where it was",
    *known_mutant("overtaken-window-kept").patches,
    *known_mutant("renewal-takes").patches,
)


@on(ours=OVERTAKEN, apache=known_mutant("overtaken-window-kept"))
def test_an_overtaken_window_is_dropped_after_a_cut(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind)
    member, other = cluster.member(1, handlers=1, work=handler_taking(200)), cluster.member(2)
    cluster.own(member)
    sent = cluster.fill(4)
    cluster.until(lambda: len(cluster.starts()) == 1)
    cluster.run(50)
    cluster.cut_off(member, 2_000)
    cluster.own(other)
    cluster.until(lambda: cluster.starts(other) == sent)
    cluster.set_assignment(other)
    cluster.until(lambda: cluster.state(other) is QueueState.ABSENT)
    assert cluster.committed() == 4
    cluster.run(3_000)
    with fails_with(bug):
        assert cluster.starts(member) == sent[:1]
        assert cluster.is_owned_by(member)
        assert cluster.went_back() == []


# -- restarted brokers ------------------------------------------------------------------------------------------------


@on(ours=known_mutant("settling-ignored"), apache=known_mutant("restarted-broker-trusted"))
def test_a_restarted_broker_gives_everything_to_the_first_client(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind)
    owner, waiting = cluster.member(1, handlers=1, work=handler_taking(400)), cluster.member(2)
    cluster.own(owner)
    sent = cluster.fill(3)
    cluster.until(lambda: len(cluster.starts()) == 1)
    # The owner is about to give up the queue, and the other member waits for it.
    cluster.set_assignment(owner)
    cluster.set_assignment(waiting, cluster.queue)
    cluster.run(100)
    cluster.broker.crash()
    cluster.cut_off(owner, 1_000)
    cluster.run(100)
    cluster.faults.start(cluster.broker.name)
    cluster.run(6_000)
    with fails_with(bug):
        assert cluster.starts() == sent
        assert cluster.max_holders() == 1
        assert cluster.is_owned_by(waiting)


# -- short disconnects and pauses -------------------------------------------------------------------------------------


GONE_AT_ONCE = scenario_mutant(
    "an id that is missing once is gone",
    *known_mutant("blip-counts-as-gone").patches,
    patch_method(Rebalancer, "_is_confirmed", lambda *_: True),
)


@on(ours=known_mutant("connection-grace-forgotten"), apache=GONE_AT_ONCE)
def test_a_connection_blip_moves_nothing(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind, queues=4)
    members = [cluster.member(number, is_steered=False) for number in (1, 2)]
    cluster.until(lambda: sorted(len(each.member.assignment()) for each in members) in ([2, 2], [2, 3]))
    cluster.run(2_000)
    before, since_ms = cluster.owners(*members), cluster.world.now_ms()
    cluster.cut_off(members[0], 100)
    cluster.run(3_000)
    with fails_with(bug):
        assert cluster.owners(*members) == before
        assert not [
            fact
            for fact in cluster.facts(QueueStateChanged)
            if isinstance(fact, QueueStateChanged) and fact.at_ms >= since_ms and fact.after == QueueState.STARTING.name
        ]


@on(ours=known_mutant("fence-ignored"), apache=known_mutant("fence-ignored"))
def test_a_resumed_process_starts_nothing_before_its_proof(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind)
    mode = ConsumeMode.CONCURRENT if kind == "ours" else ConsumeMode.ORDERLY
    member, other = cluster.member(1, mode=mode, handlers=1, work=handler_taking(50)), cluster.member(2, mode=mode)
    cluster.own(member)
    cluster.put(10)
    cluster.until(lambda: len(cluster.starts()) == 3)
    member.pause()
    # A hanging member expires after 12 s; Apache's lock lasts a minute.
    cluster.own(other, within_ms=15_000 if kind == "ours" else 65_000)
    cluster.until(lambda: cluster.committed() == 10, within_ms=3_000)
    resumed_ms = cluster.world.now_ms()
    with patch.object(cluster.world.random, "random", return_value=0.9):
        member.resume()  # its timers first, before it notices that its connection is gone
    cluster.run(1_000)
    with fails_with(bug):
        assert cluster.starts(member, resumed_ms) == []
