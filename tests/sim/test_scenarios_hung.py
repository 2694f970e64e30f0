"""A member that hangs, stutters or is slow, on Apache's broker, which lists it for two minutes more.

Whoever answers goes on with what it has. What nobody holds any more is taken by those who answer, and never what the
silent one may hold.
"""

import pytest
from tests.sim.scene import Kind, Scene, fails_with, known, mistake, on, rule

from steelyard.balance.asking import Asking
from steelyard.balance.owners import Owners
from steelyard.model import Queue
from steelyard.sim.facts import Moved
from steelyard.sim.line import Line
from steelyard.sim.members import MemberProcess
from steelyard.sim.planted.bug import Bug
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command

_QUEUES = 8

JAVA_S_WAY = known("silence-changes-the-strategy")
ALL_HEARD = mistake("who does not answer is given queues as any other", rule(Owners, "unheard", lambda *_: frozenset()))
ALL_SUSPECTED = mistake("who is silent may hold every queue", rule(Asking, "_may_hold", lambda *_: True))
NOBODY_SUSPECTED = mistake("who is silent holds nothing", rule(Asking, "_may_hold", lambda *_: False))


def _shared(scene: Scene, members: int, calm_ms: int = 15_000) -> list[MemberProcess]:
    joined = [scene.member(number, is_steered=False) for number in range(1, members + 1)]
    scene.until(lambda: _is_shared(scene, joined), within_ms=20_000)
    scene.run(calm_ms)
    return joined


def _is_shared(scene: Scene, members: list[MemberProcess]) -> bool:
    most = -(-_QUEUES // len(members))
    counts = [len(_owned(scene, member)) for member in members]
    return sum(counts) == _QUEUES and max(counts) <= most


def _owned(scene: Scene, member: MemberProcess) -> list[Queue]:
    return [queue for queue in scene.queues if scene.is_owned_by(member, queue)]


def _released(scene: Scene, members: list[MemberProcess], since_ms: int) -> list[Moved]:
    names = {member.name for member in members}
    moved = [fact for fact in scene.facts(Moved) if isinstance(fact, Moved) and fact.member in names]
    return [fact for fact in moved if fact.at_ms >= since_ms and fact.before == "OWNED"]


def _answer_late(scene: Scene, member: MemberProcess, late_ms: int) -> None:
    """Let a member take its time to say what it holds."""
    hear = member.heard

    def heard(line: Line, command: Command) -> None:
        if not command.is_answer and command.code == Code.GET_CONSUMER_RUNNING_INFO:
            scene.world.at(late_ms * 1000, lambda: hear(line, command))
        else:
            hear(line, command)

    vars(member)["heard"] = heard


@pytest.mark.parametrize("members", [2, 3, 8])
@pytest.mark.parametrize("how", ["hung", "stutters", "slow"])
def test_who_answers_releases_nothing(members: int, how: str) -> None:
    scene = Scene("apache", queues=_QUEUES)
    first, *others = _shared(scene, members)
    since_ms = scene.world.now_ms()
    if how == "slow":
        _answer_late(scene, first, 5_000)
        scene.run(60_000)
    else:
        for _ in range(1 if how == "hung" else 30):
            first.pause()
            scene.run(60_000 if how == "hung" else 1_000)
            first.resume()
            scene.run(1_000)
    assert not _released(scene, others, since_ms)
    scene.run(30_000)
    assert not _released(scene, others, since_ms), "nor when it answers again"
    assert _is_shared(scene, [first, *others])


@on(apache=JAVA_S_WAY)
def test_a_hung_member_takes_nobody_s_queues_away(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind, queues=_QUEUES)
    first, *others = _shared(scene, 3)
    since_ms = scene.world.now_ms()
    first.pause()
    scene.run(60_000)
    with fails_with(bug):
        assert not _released(scene, others, since_ms)


@on(apache=ALL_SUSPECTED)
def test_a_member_killed_while_another_hangs_is_replaced(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind, queues=_QUEUES)
    hung, killed, *others = _shared(scene, 4)
    theirs = _owned(scene, hung), _owned(scene, killed)
    hung.pause()
    scene.run(12_000)
    killed.kill()
    scene.run(10_000)
    with fails_with(bug):
        now = [queue for member in others for queue in _owned(scene, member)]
        assert set(theirs[1]) <= set(now)
        assert set(theirs[0]).isdisjoint(now)
    hung.resume()
    scene.until(lambda: _is_shared(scene, [hung, *others]), within_ms=40_000)
    assert all(scene.hands(queue) == 1 for queue in scene.queues)


def test_a_member_killed_while_another_hangs_is_replaced_though_the_group_is_young() -> None:
    scene = Scene("apache", queues=_QUEUES)
    hung, killed, other = _shared(scene, 3, calm_ms=6_000)
    theirs = _owned(scene, hung), _owned(scene, killed)
    hung.pause()
    scene.run(12_000)
    killed.kill()
    scene.run(12_000)
    assert set(theirs[1]) <= set(_owned(scene, other))
    assert set(theirs[0]).isdisjoint(_owned(scene, other))


@pytest.mark.parametrize("joined_ms", [-30_000, 0, 300])
def test_a_member_killed_while_another_hangs_is_replaced_by_a_newcomer(joined_ms: int) -> None:
    scene = Scene("apache", queues=_QUEUES)
    hung, killed, *others = _shared(scene, 4)
    theirs = _owned(scene, hung), _owned(scene, killed)
    hung.pause()
    scene.run(12_000)
    if joined_ms < 0:
        others.append(scene.member(9, is_steered=False))
        scene.run(-joined_ms)
    killed.kill()
    if joined_ms >= 0:
        scene.run(joined_ms)
        others.append(scene.member(9, is_steered=False))
    scene.run(12_000)
    now = [queue for member in others for queue in _owned(scene, member)]
    assert set(theirs[1]) <= set(now)
    assert set(theirs[0]).isdisjoint(now)
    hung.resume()
    scene.until(lambda: _is_shared(scene, [hung, *others]), within_ms=40_000)
    assert all(scene.hands(queue) == 1 for queue in scene.queues)


def test_a_line_that_blips_while_a_member_hangs_costs_seconds_where_a_third_one_knows_what_it_holds() -> None:
    scene = Scene("apache", queues=_QUEUES)
    hung, blipped, _ = _shared(scene, 3)
    theirs = _owned(scene, blipped)
    hung.pause()
    scene.run(12_000)
    scene.cut(blipped)
    scene.run(10_000)
    assert _owned(scene, blipped) == theirs


def test_a_hung_member_is_replaced_once_it_is_dropped_and_may_come_back() -> None:
    scene = Scene("apache", queues=_QUEUES)
    hung, *others = _shared(scene, 3)
    since_ms = scene.world.now_ms()
    hung.pause()
    scene.until(lambda: sum(len(_owned(scene, member)) for member in others) == _QUEUES, within_ms=150_000)
    assert not _released(scene, others, since_ms)
    hung.resume()
    scene.until(lambda: not _owned(scene, hung), within_ms=100)
    scene.until(lambda: _is_shared(scene, [hung, *others]), within_ms=10_000)


@on(apache=NOBODY_SUSPECTED)
def test_what_a_hung_member_may_hold_is_not_taken(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind, queues=_QUEUES)
    hung, killed = _shared(scene, 2)
    hung.pause()
    scene.run(12_000)
    killed.kill()
    newcomer = scene.member(9, is_steered=False)
    scene.run(60_000)
    hung.resume()
    scene.run(5_000)
    with fails_with(bug):
        assert all(scene.hands(queue) == 1 for queue in scene.queues)
    scene.until(lambda: _is_shared(scene, [hung, newcomer]), within_ms=60_000)


@on(apache=ALL_HEARD)
def test_a_newcomer_that_hangs_at_once_gets_nothing(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind, queues=_QUEUES)
    members = _shared(scene, 2)
    since_ms = scene.world.now_ms()
    newcomer = scene.member(9, is_steered=False)
    scene.until(lambda: _has_beaten(scene, newcomer), within_ms=5_000)
    newcomer.pause()
    scene.run(60_000)
    with fails_with(bug):
        assert not _released(scene, members, since_ms)


def _has_beaten(scene: Scene, member: MemberProcess) -> bool:
    beats = [who for who, command in scene.gate.requests if command.code == Code.HEART_BEAT]
    return member.name in beats
