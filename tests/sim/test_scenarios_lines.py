"""Lines that break, processes that stand still and brokers that start again: what is late must not count."""

from unittest.mock import patch

from tests.sim.mistakes import NOBODY_ASKED, REPLACED_LINE_LOCKS, other_life
from tests.sim.scene import Kind, Scene, fails_with, known, mistake, on, rule, taking

from steelyard.balance.life import Seen, State
from steelyard.balance.lives import Lives
from steelyard.balance.member_options import Mode
from steelyard.balance.record import Record, Step
from steelyard.balance.views import Views
from steelyard.broker.locks import HowFreed, Locks, QueueKey
from steelyard.sim.facts import Moved
from steelyard.sim.planted.bug import Bug, swap
from steelyard.wire.codes import RequestCode as Code

_moved, _fall_back, _release = Lives.moved, Lives.fall_back, Locks.release


# -- requests of a dead line ------------------------------------------------------------------------------------------


def _release_any_epoch(
    locks: Locks, group: str, key: QueueKey, owner: str, _epoch: int | None, now_ms: int, *, how: HowFreed
) -> bool:
    return _release(locks, group, key, owner, None, now_ms, how=how)


LATE_UNLOCK = mistake(
    "an unlock of a line that was replaced frees what its member took since",
    *REPLACED_LINE_LOCKS.swaps,
    swap(Locks, "release", _release_any_epoch),
)


@on(ours=LATE_UNLOCK, apache=NOBODY_ASKED)
def test_a_late_unlock_of_a_dead_line_does_not_free_the_new_lease(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind)
    member, waiting = scene.member(1), scene.member(2)
    if kind == "ours":
        scene.own(member)
    unlock = scene.keep_requests(member, Code.UNLOCK_BATCH_MQ)
    if kind == "ours":
        scene.plan(member)
    else:
        # There the lock goes back as soon as a queue is taken.
        scene.own(member)
    scene.until(lambda: bool(unlock.kept))
    scene.run(300)
    unlock.open()
    scene.cut(member, broker_knows=kind == "apache")
    scene.own(member)
    scene.plan(waiting, scene.queue)
    scene.run(100)
    unlock.release()
    scene.run(1_000)
    with fails_with(bug):
        assert scene.hands() == 1
        assert scene.is_owned_by(member)


@on(ours=known("fencing-skipped"), apache=known("late-commit-stays"))
def test_a_late_commit_of_a_dead_line_is_not_the_last_word(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind)
    member = scene.member(1)
    scene.own(member)
    scene.run(1_200)
    commit = scene.keep_requests(member, Code.UPDATE_CONSUMER_OFFSET)
    scene.put(3)
    scene.until(lambda: bool(commit.kept))
    commit.open()
    scene.cut(member, broker_knows=kind == "apache")
    scene.put(2)
    scene.until(lambda: scene.committed() == 5, within_ms=4_000)
    commit.release()
    scene.run(50)
    if kind == "apache":
        assert scene.went_back()
    scene.run(6_000)
    with fails_with(bug):
        assert scene.committed() == 5


# -- windows ----------------------------------------------------------------------------------------------------------


def _keep_window(lives: Lives, record: Record, before: State) -> None:
    """Let a queue's next life begin with the window of its last one."""
    kept = lives.__dict__.setdefault("kept", {})
    if record.state is State.ABSENT:
        kept[record.queue] = record.window, record.acked
    elif before is State.ABSENT and record.queue in kept:
        record.window, record.acked = kept[record.queue]
    _moved(lives, record, before)


def _doubt_start(lives: Lives, record: Record, about: object) -> None:
    """Take a queue that was cut before its first offset for one that was worked on."""
    if record.state is State.STARTING:
        record.state, record.was_draining, record.step = State.UNSURE, False, Step.NOT_BEGUN
    else:
        _fall_back(lives, record, about)


OLD_WINDOW = mistake(
    "a cut before the first offset keeps the window of an earlier life",
    rule(Lives, "moved", _keep_window),
    rule(Lives, "fall_back", _doubt_start),
    other_life(State.STARTING, Seen.LINE_CUT, "fall_back"),
)


@on(ours=OLD_WINDOW, apache=OLD_WINDOW)
def test_a_cut_before_the_first_offset_keeps_no_window(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind)
    member = scene.member(1, handlers=1, work=taking(200))
    scene.own(member)
    sent = scene.fill(4)
    scene.until(lambda: len(scene.starts()) == 1)
    scene.run(50)
    scene.plan(member)
    scene.until(lambda: scene.state(member) is State.ABSENT)
    assert scene.committed() == 1
    question = scene.keep_requests(member, Code.QUERY_CONSUMER_OFFSET)
    scene.plan(member, scene.queue)
    scene.until(lambda: bool(question.kept))
    question.open()
    scene.cut(member)
    scene.run(2_000)
    with fails_with(bug):
        assert scene.starts() == sent


OVERTAKEN = mistake(
    "who comes back takes its lock and goes on where it was",
    *known("overtaken-window-kept").swaps,
    *known("renewal-takes").swaps,
)


@on(ours=OVERTAKEN, apache=known("overtaken-window-kept"))
def test_an_overtaken_window_is_dropped_after_a_cut(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind)
    member, other = scene.member(1, handlers=1, work=taking(200)), scene.member(2)
    scene.own(member)
    sent = scene.fill(4)
    scene.until(lambda: len(scene.starts()) == 1)
    scene.run(50)
    scene.part(member, 2_000)
    scene.own(other)
    scene.until(lambda: scene.starts(other) == sent)
    scene.plan(other)
    scene.until(lambda: scene.state(other) is State.ABSENT)
    assert scene.committed() == 4
    scene.run(3_000)
    with fails_with(bug):
        assert scene.starts(member) == sent[:1]
        assert scene.is_owned_by(member)
        assert scene.went_back() == []


# -- brokers that start again -----------------------------------------------------------------------------------------


@on(ours=known("settling-ignored"), apache=known("restarted-broker-trusted"))
def test_a_restarted_broker_gives_everything_to_the_first_caller(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind)
    owner, waiting = scene.member(1, handlers=1, work=taking(400)), scene.member(2)
    scene.own(owner)
    sent = scene.fill(3)
    scene.until(lambda: len(scene.starts()) == 1)
    # The owner is about to give the queue up, and the other one waits for it.
    scene.plan(owner)
    scene.plan(waiting, scene.queue)
    scene.run(100)
    scene.broker.crash()
    scene.part(owner, 1_000)
    scene.run(100)
    scene.faults.start(scene.broker.name)
    scene.run(6_000)
    with fails_with(bug):
        assert scene.starts() == sent
        assert scene.hands() == 1
        assert scene.is_owned_by(waiting)


# -- blips and pauses -------------------------------------------------------------------------------------------------


GONE_AT_ONCE = mistake(
    "an id that is missing once is gone",
    *known("blip-counts-as-gone").swaps,
    rule(Views, "_is_sure", lambda *_: True),
)


@on(ours=known("line-grace-forgotten"), apache=GONE_AT_ONCE)
def test_a_line_blip_moves_nothing(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind, queues=4)
    members = [scene.member(number, is_steered=False) for number in (1, 2)]
    scene.until(lambda: sorted(len(each.member.assignment()) for each in members) in ([2, 2], [2, 3]))
    scene.run(2_000)
    before, since_ms = scene.owners(*members), scene.world.now_ms()
    scene.part(members[0], 100)
    scene.run(3_000)
    with fails_with(bug):
        assert scene.owners(*members) == before
        assert not [
            fact
            for fact in scene.facts(Moved)
            if isinstance(fact, Moved) and fact.at_ms >= since_ms and fact.after == State.STARTING.name
        ]


@on(ours=known("fence-ignored"), apache=known("fence-ignored"))
def test_a_resumed_process_starts_nothing_before_its_proof(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind)
    mode = Mode.CONCURRENT if kind == "ours" else Mode.ORDERLY
    member, other = scene.member(1, mode=mode, handlers=1, work=taking(50)), scene.member(2, mode=mode)
    scene.own(member)
    scene.put(10)
    scene.until(lambda: len(scene.starts()) == 3)
    member.pause()
    # A member that hangs is found out after 12 s; Apache's lock lives a minute.
    scene.own(other, within_ms=15_000 if kind == "ours" else 65_000)
    scene.until(lambda: scene.committed() == 10, within_ms=3_000)
    resumed_ms = scene.world.now_ms()
    with patch.object(scene.world.random, "random", return_value=0.9):
        member.resume()  # its timers first, before it hears that its line is gone
    scene.run(1_000)
    with fails_with(bug):
        assert scene.starts(member, resumed_ms) == []
