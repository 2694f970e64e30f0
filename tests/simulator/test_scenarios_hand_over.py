"""Giving up a queue: drains, last commits, and commits in the wrong order."""

from collections import Counter

from simulator.apache.java_client import JavaOptions
from simulator.apache.java_member import JavaMemberProcess
from simulator.mutants.mutant import Mutant, patch_attribute
from steelyard.balance.group.actions import Commit, StartAt, StartPosition
from steelyard.balance.group.dispatch import Dispatcher
from steelyard.balance.group.events import Handled
from steelyard.balance.group.options import MemberOptions, MemberTimings
from steelyard.balance.group.queue_states import QueueState
from steelyard.balance.group.queue_transitions import QueueTransitions
from steelyard.model import Subscription
from steelyard.protocol.member_requests import MemberRequests
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.headers.pull import PullMessage as PullHeader
from tests.simulator.cluster import GROUP
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

_pull, _commit, _late = MemberRequests.pull, MemberRequests.commit, Dispatcher._orphan_handled
_planned_in = QueueTransitions.mark_planned

_COMMIT_BIT = 1


# -- the order of commits ---------------------------------------------------------------------------------------------


@on(apache=known_mutant("two-commits-under-way"))
def test_two_commits_on_one_connection_may_swap(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind)
    member = cluster.member(1)
    cluster.own(member)
    cluster.run(1_200)
    pool = cluster.keep_requests(member, Code.UPDATE_CONSUMER_OFFSET)
    cluster.put(1)
    cluster.until(lambda: bool(pool.kept))
    pool.open()
    cluster.put(1)
    cluster.run(1_500)
    pool.release()
    cluster.run(2_000)
    with fails_with(bug):
        assert cluster.went_back() == []
        assert cluster.committed() == 2


@on(ours=known_mutant("pull-carries-commit"), apache=known_mutant("pull-carries-commit"))
def test_a_pull_never_carries_a_commit(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind)
    member = cluster.member(1, work=handler_taking(1_000))
    cluster.own(member)
    cluster.fill(3)
    cluster.until(lambda: len(cluster.starts()) == 3)
    cluster.run(100)
    pulls = [each.header(PullHeader) for _, each in cluster.gate.requests if each.code == Code.PULL_MESSAGE]
    assert len(pulls) > 1
    with fails_with(bug):
        assert not any(pull.sys_flag & _COMMIT_BIT for pull in pulls)
    with fails_with(bug):
        assert cluster.committed() == 0
    cluster.run(2_000)
    assert cluster.committed() == 3


# -- drains -----------------------------------------------------------------------------------------------------------


@on(ours=known_mutant("drain-undone"), apache=known_mutant("drain-undone"))
def test_a_draining_window_never_returns_to_owned(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind)
    member = cluster.member(1, handlers=1, work=handler_taking(200))
    cluster.own(member)
    sent = cluster.fill(4)
    cluster.until(lambda: len(cluster.starts()) == 1)
    cluster.run(50)
    cluster.set_assignment(member)
    cluster.run(20)
    assert cluster.state(member) is QueueState.DRAINING
    cluster.set_assignment(member, cluster.queue)
    cluster.run(2_000)
    with fails_with(bug):
        assert cluster.starts() == sent
        assert cluster.is_owned_by(member)


def _commit_late(dispatcher: Dispatcher, event: Handled) -> None:
    """Let the result of an orphaned handler count."""
    _late(dispatcher, event)
    dispatcher._context.emit(Commit(event.queue, max(event.done) + 1, None))


STRANGER = patch_method(Dispatcher, "_orphan_handled", _commit_late)
STRANGER_COMMITS = scenario_mutant("a handler that was given up commits", STRANGER)
STRANGER_UNFENCED = scenario_mutant(
    "a handler that was given up commits, and nobody minds", STRANGER, *known_mutant("fencing-skipped").patches
)


@on(ours=STRANGER_UNFENCED, apache=STRANGER_COMMITS)
def test_a_handler_past_the_drain_timeout_cannot_commit(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind)
    slow = cluster.member(1, handlers=1, work=handler_taking(3_000), times=MemberTimings(drain_ms=200))
    quick = cluster.member(2)
    cluster.own(slow)
    sent = cluster.fill(3)
    cluster.until(lambda: len(cluster.starts()) == 1)
    cluster.set_assignment(slow)
    cluster.own(quick)
    cluster.until(lambda: cluster.committed() == 3)
    assert Counter(cluster.starts()) == {sent[0]: 2, sent[1]: 1, sent[2]: 1}
    assert cluster.ended().count(sent[0]) == 1
    cluster.until(lambda: cluster.ended().count(sent[0]) == 2)
    cluster.run(200)
    with fails_with(bug):
        assert cluster.committed() == 3
        assert cluster.went_back() == []


# -- towards Java -----------------------------------------------------------------------------------------------------


BARE_LOCK = scenario_mutant(
    "members that need no order lock under the group's own name",
    patch_attribute(MemberOptions, "lock_group", property(lambda options: options.group)),
)


@on(apache=BARE_LOCK)
def test_a_lock_in_a_mixed_group_sends_java_retries_to_the_dead_letters(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind, queues=2)
    ours = cluster.member(1)
    options = JavaOptions(
        GROUP,
        "10.0.4.1@9",
        {cluster.queue.topic: Subscription(cluster.queue.topic)},
        start=StartPosition(StartAt.FIRST),
    )
    java = JavaMemberProcess(cluster.world, options, "10.0.4.1", [cluster.names[0].address], handler_taking(5))
    java.start()
    # With a Java member a broker counts as just started for 35 s, in which nothing is locked.
    cluster.run(36_000)
    assert cluster.queues[1] in java.held_queues()
    cluster.set_assignment(ours, cluster.queues[1])
    cluster.until(lambda: cluster.state(ours, cluster.queues[1]) is QueueState.ASKING)
    cluster.send("retried", f"%RETRY%{GROUP}")
    cluster.run(100)
    assert cluster.state(ours, cluster.queues[1]) is QueueState.ASKING
    (stored,) = (logged for logged in cluster.broker.logged_messages() if logged.uid == "retried")
    with fails_with(bug):
        assert stored.queue.topic == f"%RETRY%{GROUP}"
