"""Members that Apache's broker lists though their line is closed: nobody waits for them, and nobody alive is robbed."""

from collections.abc import Callable

import pytest
from tests.sim.scene import Gate, Scene
from tests.sim.upstream import apache_of, fails_with, held_by, upstream

from steelyard.balance.asking import Asking
from steelyard.dialect import hearing
from steelyard.sim.apache.registry import Group
from steelyard.sim.facts import Fact, Registered, Unregistered
from steelyard.sim.members import MemberProcess
from steelyard.sim.planted.bug import Bug, swap
from steelyard.wire.codes import RequestCode


def beat_late(scene: Scene, member: MemberProcess) -> Gate:
    """Let a member's next heartbeat wait at the broker for a thread."""
    gate = scene.keep_requests(member, RequestCode.HEART_BEAT)
    for action in member.member.lines.beat(None, member._now_ms()):
        member._do(action)
    scene.until(lambda: bool(gate.kept))
    gate.open()
    return gate


def lines_of(scene: Scene, member: MemberProcess) -> list[int]:
    """Return the numbers of the lines by which the broker knows a member."""
    group = apache_of(scene).state.registry.get(member.options.group)
    return [] if group is None else [number for number, name in group.lines.items() if name == member.name]


def with_a_dead_line(scene: Scene, owner: MemberProcess, go_on: Callable[[Gate], None]) -> None:
    """Cut the line of an owner with a heartbeat on it that is executed later, and go on when it owns its queue again.

    Which line of two the broker finds first is the chance of their numbers: it has to be the dead one.
    """
    for _ in range(8):
        gate = beat_late(scene, owner)
        scene.cut(owner)
        scene.until(lambda: scene.is_owned_by(owner), 5_000)
        (dead,), (live,) = [line.number for line, _ in gate.kept], lines_of(scene, owner)
        if Group("g", {dead: "c", live: "c"}).line_of("c") == dead:
            go_on(gate)
            return
        gate.kept.clear()
    pytest.fail("the live line would be found first every time")


@upstream("a closed line is a slow one", swap(hearing, "_LINE_CLOSED", "never said"))
def test_a_member_that_died_after_its_last_heartbeat_is_not_waited_for(bug: Bug | None) -> None:
    scene = Scene("apache", queues=6)
    first, second, third = (scene.member(number, is_steered=False) for number in (1, 2, 3))
    scene.run(10_000)
    gate = beat_late(scene, second)
    second.kill()
    scene.run(20)
    gate.release()
    scene.run(3_000)
    assert len(lines_of(scene, second)) == 1, "it is listed all the same"
    with fails_with(bug):
        for _ in range(140):
            assert held_by(first, third) == dict.fromkeys(scene.queues, 1)
            scene.run(1_000)
        assert not lines_of(scene, second)
        assert not [sentence for kind, sentence in scene.reports() if kind == "degraded"]


@upstream(
    "whose line is closed is gone",
    swap(Asking, "_surely_gone", lambda _asking, _record, sweep: frozenset(sweep.closed)),
)
def test_an_owner_with_a_dead_line_beside_its_own_keeps_its_queue(bug: Bug | None) -> None:
    scene = Scene("apache")
    owner, taker = scene.member(1), scene.member(2)
    scene.own(owner)
    with_a_dead_line(scene, owner, Gate.release)
    scene.until(lambda: len(lines_of(scene, owner)) == 2)
    scene.plan(taker, scene.queue)
    scene.run(10_000)
    with fails_with(bug):
        assert scene.hands() == 1


@upstream(
    "whose line is closed, and who was listed once, is gone",
    swap(
        Asking,
        "_surely_gone",
        lambda _asking, _record, sweep: frozenset(each for each in sweep.closed if sweep.said.count(each) == 1),
    ),
)
def test_a_dead_line_that_joins_between_the_list_and_the_question_robs_nobody(bug: Bug | None) -> None:
    scene = Scene("apache")
    owner, taker = scene.member(1), scene.member(2)
    scene.own(owner)

    def join_in_between(gate: Gate) -> None:
        late, gate.kept = gate.kept, []
        scene.keep_requests(taker, RequestCode.GET_CONSUMER_RUNNING_INFO)
        scene.plan(taker, scene.queue)
        scene.until(lambda: bool(gate.kept))
        questions, gate.kept = gate.kept, late
        gate.release()
        scene.until(lambda: len(lines_of(scene, owner)) == 2)
        gate.kept = questions
        gate.release()

    with_a_dead_line(scene, owner, join_in_between)
    scene.run(10_000)
    with fails_with(bug):
        assert scene.hands() == 1


def test_a_member_that_comes_back_on_a_new_line_is_no_phantom() -> None:
    scene = Scene("apache", queues=4)
    first, second = (scene.member(number, is_steered=False) for number in (1, 2))
    scene.run(10_000)
    gate = beat_late(scene, second)
    scene.part(second, 5_000)
    scene.run(20)
    gate.release()
    scene.run(3_000)
    assert held_by(first) == dict.fromkeys(scene.queues, 1), "it was a phantom for a while"
    scene.run(12_000)
    assert len(lines_of(scene, second)) == 2
    assert held_by(first, second) == dict.fromkeys(scene.queues, 1)
    assert held_by(second)


def test_who_is_listed_by_a_dead_line_alone_is_told_as_gone_until_it_is_back() -> None:
    scene = Scene("apache")
    owner = scene.member(1)
    scene.own(owner)
    with_a_dead_line(scene, owner, Gate.release)
    scene.until(lambda: len(lines_of(scene, owner)) == 2)

    def told() -> list[Fact]:
        return [fact for fact in scene.world.journal.facts if isinstance(fact, Registered | Unregistered)]

    assert isinstance(told()[-1], Registered), "it has a line of its own beside the dead one"
    scene.part(owner, 2_000)
    scene.run(1_000)
    assert len(lines_of(scene, owner)) == 1
    assert isinstance(told()[-1], Unregistered)
    scene.run(10_000)
    assert len(lines_of(scene, owner)) == 2
    assert isinstance(told()[-1], Registered)
