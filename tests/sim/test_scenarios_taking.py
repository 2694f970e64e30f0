"""Taking a queue, and what once went wrong with locks: two owners, locks for nobody, members that never leave.

On our broker a lock is a lease that lives as long as its member; on Apache's it is held only while a member asks the
others, and lives a minute if nobody lets it go.
"""

from tests.sim.mistakes import NOBODY_ASKED, REPLACED_LINE_LOCKS, UNKNOWN_LOCK_FORGOTTEN
from tests.sim.scene import Kind, Scene, fails_with, known, mistake, on, rule

from steelyard.balance.events import LocksAnswered
from steelyard.balance.life import State
from steelyard.balance.lives import Lives
from steelyard.balance.member_options import Mode
from steelyard.balance.taking import Taking
from steelyard.broker.requests import locks as lock_requests
from steelyard.sim.facts import Gone, Unregistered
from steelyard.sim.planted.bug import Bug, swap
from steelyard.wire.codes import RequestCode as Code

_answered = Taking.answered


# -- two owners -------------------------------------------------------------------------------------------------------


def _bypass(taking: Taking, event: LocksAnswered) -> None:
    """Take a denied lock for that of a dead member."""
    _answered(taking, LocksAnswered(event.broker, {**event.granted, **dict.fromkeys(event.denied)}, {}))


BYPASSED = mistake("a member takes a queue without its lock", rule(Taking, "answered", _bypass))


@on(ours=BYPASSED, apache=BYPASSED)
def test_a_takeover_without_the_lock_meets_a_grant_in_flight(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind)
    first, second = scene.member(1), scene.member(2)
    grant = scene.keep_answers(first, Code.LOCK_BATCH_MQ)
    scene.plan(first, scene.queue)
    scene.until(lambda: bool(grant.kept))
    # The first one has the lock and does not know it: whoever asks it hears that it holds nothing.
    hearsay = scene.keep_answers(second, Code.GET_CONSUMER_RUNNING_INFO)
    scene.plan(second, scene.queue)
    scene.run(400)
    grant.release()
    scene.run(100)
    hearsay.release()
    scene.run(2_000)
    with fails_with(bug):
        assert scene.hands() == 1
        assert scene.is_owned_by(first)


LEASES_EXPIRE = mistake("a lease lives a minute", swap(lock_requests, "_checked", lambda *_: None))


@on(ours=LEASES_EXPIRE, apache=NOBODY_ASKED)
def test_a_lock_that_expires_after_a_bypass_is_not_free(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind)
    dying, owner, third = scene.member(1), scene.member(2), scene.member(3)
    answer = scene.keep_answers(dying, Code.LOCK_BATCH_MQ)
    scene.plan(dying, scene.queue)
    scene.until(lambda: bool(answer.kept))
    dying.kill()
    scene.own(owner, within_ms=65_000)
    scene.run(61_000)
    scene.plan(third, scene.queue)
    scene.run(2_000)
    with fails_with(bug):
        assert scene.hands() == 1
        assert scene.is_owned_by(owner)


# -- locks for nobody -------------------------------------------------------------------------------------------------


def _flush_impatiently(taking: Taking) -> None:
    while taking._touched:
        _, desk = taking._touched.popitem()
        if taking._lines.is_registered(desk.broker):
            taking._ask(desk)


IMPATIENT = mistake("an unlock does not wait for the renewal before it", rule(Taking, "flush", _flush_impatiently))


@on(apache=IMPATIENT)
def test_an_unlock_waits_for_the_renewal_before_it(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind)
    member, next_one = scene.member(1, mode=Mode.ORDERLY), scene.member(2, mode=Mode.ORDERLY)
    scene.own(member)
    renewal = scene.keep_requests(member, Code.LOCK_BATCH_MQ)
    scene.until(lambda: bool(renewal.kept), within_ms=25_000)
    scene.plan(member)
    scene.run(200)
    renewal.release()
    scene.run(200)
    with fails_with(bug):
        assert scene.locks() == []
        scene.own(next_one)


@on(ours=known("unwanted-grant-kept"), apache=known("unwanted-grant-kept"))
def test_a_grant_no_longer_wanted_is_unlocked(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind)
    member, next_one = scene.member(1), scene.member(2)
    grant = scene.keep_answers(member, Code.LOCK_BATCH_MQ)
    scene.plan(member, scene.queue)
    scene.until(lambda: bool(grant.kept))
    scene.plan(member)
    scene.run(50)
    assert scene.locks() == [(scene.queue, member.name)]
    grant.release()
    scene.run(100)
    with fails_with(bug):
        assert scene.state(member) is State.ABSENT
        assert scene.locks() == []
        scene.own(next_one, within_ms=300)


@on(ours=UNKNOWN_LOCK_FORGOTTEN, apache=UNKNOWN_LOCK_FORGOTTEN)
def test_a_lock_of_unknown_outcome_is_unlocked_after_a_cut(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind)
    member, next_one = scene.member(1), scene.member(2)
    answer = scene.keep_answers(member, Code.LOCK_BATCH_MQ)
    scene.plan(member, scene.queue)
    scene.until(lambda: bool(answer.kept))
    scene.plan(member)
    scene.cut(member)
    assert scene.locks() == [(scene.queue, member.name)]
    scene.run(200)
    with fails_with(bug):
        assert scene.locks() == []
        assert scene.state(member) is State.ABSENT
        scene.own(next_one, within_ms=300)


DEAF_TO_POKES = mistake("a poke unlocks nothing", rule(Lives, "unlock_all_the_same", Lives.stay))


@on(ours=REPLACED_LINE_LOCKS, apache=DEAF_TO_POKES)
def test_a_late_lock_of_a_dead_line_is_healed_by_a_poke(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind)
    member, next_one = scene.member(1), scene.member(2)
    request = scene.keep_requests(member, Code.LOCK_BATCH_MQ)
    scene.plan(member, scene.queue)
    scene.until(lambda: bool(request.kept))
    scene.plan(member)
    scene.cut(member, broker_knows=kind == "apache")
    scene.until(lambda: scene.state(member) is State.ABSENT)
    scene.run(100)
    request.release()
    scene.run(100)
    if kind == "apache":
        assert scene.locks() == [(scene.queue, member.name)]
    with fails_with(bug):
        # Our broker takes nothing from a line that its member has replaced, so that there is nothing to heal.
        assert kind == "apache" or scene.locks() == []
        scene.own(next_one, within_ms=1_500)


@on(ours=known("denied-leaver-stays"), apache=known("denied-leaver-stays"))
def test_a_leaver_with_a_denied_lock_still_leaves(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind)
    owner, waiting, leaver = scene.member(1), scene.member(2), scene.member(3)
    scene.own(owner)
    # On Apache's broker it is the one who asks, not the owner, that has the lock.
    scene.plan(waiting, scene.queue)
    scene.run(100)
    denial = scene.keep_answers(leaver, Code.LOCK_BATCH_MQ)
    scene.plan(leaver, scene.queue)
    scene.until(lambda: bool(denial.kept))
    leaver.leave()
    scene.run(50)
    denial.release()
    with fails_with(bug):
        scene.until(lambda: not leaver.is_alive)
        assert [fact.how for fact in scene.facts(Gone) if isinstance(fact, Gone)] == ["left"]


# -- what a lock is not -----------------------------------------------------------------------------------------------


@on(ours=known("renewal-takes"))
def test_a_renewal_does_not_acquire(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind)
    member, next_one = scene.member(1), scene.member(2)
    scene.own(member)
    member.pause()
    scene.until(lambda: scene.locks() == [], within_ms=15_000)
    member.resume()
    scene.plan(member)
    scene.run(300)
    with fails_with(bug):
        assert scene.moves(member, scene.queue)[-2:] == ["UNSURE", "absent"]
        assert "lost" in dict(scene.reports())
    scene.own(next_one)


@on(ours=known("lease-outlives-member"), apache=known("short-lock-kept"))
def test_a_crash_nobody_saw_is_taken_at_once(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind, queues=4)
    dying = [scene.member(number, is_steered=False) for number in (1, 2)]
    scene.until(lambda: all(scene.owners(*dying).values()))
    scene.run(300)
    for member in dying:
        member.kill()
    scene.until(lambda: len(scene.facts(Unregistered)) == 2, within_ms=3_000)
    new = [scene.member(number, is_steered=False) for number in (3, 4)]
    with fails_with(bug):
        scene.until(lambda: all(len(each) == 1 for each in scene.owners(*new).values()), within_ms=2_000)


@on(apache=known("doubt-never-gives-way"))
def test_an_unsure_owner_gives_way_to_an_asking_peer(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind)
    owner, asking = scene.member(1), scene.member(2)
    scene.own(owner)
    scene.plan(asking, scene.queue)
    scene.until(lambda: scene.state(asking) is State.ASKING)
    # Until no heartbeat is under way: Apache's broker would count in the line that it came on, dead or not.
    scene.run(300)
    scene.cut(owner)
    scene.run(2_000)
    with fails_with(bug):
        assert scene.is_owned_by(asking)
        assert scene.hands() == 1
