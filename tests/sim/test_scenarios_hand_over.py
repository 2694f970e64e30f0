"""Giving a queue up: drains, last commits, and commits that came in the wrong order."""

from collections import Counter

from tests.sim.cluster import GROUP
from tests.sim.scene import Kind, Scene, fails_with, known, mistake, on, rule, taking

from steelyard.balance.actions import Commit, Start, StartAt
from steelyard.balance.events import Handled
from steelyard.balance.handling import Handling
from steelyard.balance.life import State
from steelyard.balance.lives import Lives
from steelyard.balance.member_options import MemberOptions, Times
from steelyard.dialect.asking import Asking
from steelyard.model import Subscription
from steelyard.sim.apache.java_member import JavaMemberProcess
from steelyard.sim.apache.java_state import JavaOptions
from steelyard.sim.planted.bug import Bug, swap
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.headers.pull import Pull as PullHeader

_pull, _commit, _late = Asking.pull, Asking.commit, Handling._handled_by_stranger
_planned_in = Lives.note_planned_in

_COMMIT_BIT = 1


# -- the order of commits ---------------------------------------------------------------------------------------------


@on(apache=known("two-commits-under-way"))
def test_two_commits_on_one_line_may_swap(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind)
    member = scene.member(1)
    scene.own(member)
    scene.run(1_200)
    pool = scene.keep_requests(member, Code.UPDATE_CONSUMER_OFFSET)
    scene.put(1)
    scene.until(lambda: bool(pool.kept))
    pool.open()
    scene.put(1)
    scene.run(1_500)
    pool.release()
    scene.run(2_000)
    with fails_with(bug):
        assert scene.went_back() == []
        assert scene.committed() == 2


@on(ours=known("pull-carries-commit"), apache=known("pull-carries-commit"))
def test_a_pull_never_carries_a_commit(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind)
    member = scene.member(1, work=taking(1_000))
    scene.own(member)
    scene.fill(3)
    scene.until(lambda: len(scene.starts()) == 3)
    scene.run(100)
    pulls = [each.header(PullHeader) for _, each in scene.gate.requests if each.code == Code.PULL_MESSAGE]
    assert len(pulls) > 1
    with fails_with(bug):
        assert not any(pull.sys_flag & _COMMIT_BIT for pull in pulls)
    with fails_with(bug):
        assert scene.committed() == 0
    scene.run(2_000)
    assert scene.committed() == 3


# -- drains -----------------------------------------------------------------------------------------------------------


@on(ours=known("drain-undone"), apache=known("drain-undone"))
def test_a_draining_window_never_returns_to_owned(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind)
    member = scene.member(1, handlers=1, work=taking(200))
    scene.own(member)
    sent = scene.fill(4)
    scene.until(lambda: len(scene.starts()) == 1)
    scene.run(50)
    scene.plan(member)
    scene.run(20)
    assert scene.state(member) is State.DRAINING
    scene.plan(member, scene.queue)
    scene.run(2_000)
    with fails_with(bug):
        assert scene.starts() == sent
        assert scene.is_owned_by(member)


def _commit_late(handling: Handling, event: Handled) -> None:
    """Let what a stranger did count after all."""
    _late(handling, event)
    handling._board.say(Commit(event.queue, max(event.done) + 1, None))


STRANGER = rule(Handling, "_handled_by_stranger", _commit_late)
STRANGER_COMMITS = mistake("a handler that was given up commits", STRANGER)
STRANGER_UNFENCED = mistake(
    "a handler that was given up commits, and nobody minds", STRANGER, *known("fencing-skipped").swaps
)


@on(ours=STRANGER_UNFENCED, apache=STRANGER_COMMITS)
def test_a_handler_past_the_drain_bound_cannot_commit(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind)
    slow = scene.member(1, handlers=1, work=taking(3_000), times=Times(drain_ms=200))
    quick = scene.member(2)
    scene.own(slow)
    sent = scene.fill(3)
    scene.until(lambda: len(scene.starts()) == 1)
    scene.plan(slow)
    scene.own(quick)
    scene.until(lambda: scene.committed() == 3)
    assert Counter(scene.starts()) == {sent[0]: 2, sent[1]: 1, sent[2]: 1}
    assert scene.ended().count(sent[0]) == 1
    scene.until(lambda: scene.ended().count(sent[0]) == 2)
    scene.run(200)
    with fails_with(bug):
        assert scene.committed() == 3
        assert scene.went_back() == []


# -- towards Java -----------------------------------------------------------------------------------------------------


BARE_LOCK = mistake(
    "members that need no order lock under the group's own name",
    swap(MemberOptions, "lock_group", property(lambda options: options.group)),
)


@on(apache=BARE_LOCK)
def test_a_lock_in_a_mixed_group_sends_java_retries_to_the_dead_letters(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind, queues=2)
    ours = scene.member(1)
    options = JavaOptions(
        GROUP, "10.0.4.1@9", {scene.queue.topic: Subscription(scene.queue.topic)}, start=Start(StartAt.FIRST)
    )
    java = JavaMemberProcess(scene.world, options, "10.0.4.1", [scene.names[0].address], taking(5))
    java.begin()
    # With a foreign member a broker counts as young for 35 s, in which nothing is locked.
    scene.run(36_000)
    assert scene.queues[1] in java.held()
    scene.plan(ours, scene.queues[1])
    scene.until(lambda: scene.state(ours, scene.queues[1]) is State.ASKING)
    scene.send("retried", f"%RETRY%{GROUP}")
    scene.run(100)
    assert scene.state(ours, scene.queues[1]) is State.ASKING
    (stored,) = (logged for logged in scene.broker.logged() if logged.uid == "retried")
    with fails_with(bug):
        assert stored.queue.topic == f"%RETRY%{GROUP}"
