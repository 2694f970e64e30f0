"""What went wrong upstream with what members read, told as what happens here: each with the mistake put back.

| | upstream | here |
|---|---|---|
| R14 | the first ids get the extra queue of every topic | the_extra_queues_of_many_topics_are_spread |
| R15 | a queue that came while a group was away is read from its end | a_queue_that_came_while_the_group_was_away… |
| R16 | a new group reads a young topic from its start | a_new_group_that_wants_what_comes_gets_nothing_older |
| R17 | broadcasting, a lost route takes the offset along | a_broadcasting_member_goes_on_where_it_was… |
| R18 | a dead broker blocks the only thread | a_dead_broker_keeps_nobody_from_reading_the_others |
| R19 | locks of static topics go by the wrong broker | cannot be: a lock goes to the broker in the queue's name |
| R20 | orderly, a slave that is left cannot lock | cannot be here: our broker has no replicas |
| R21 | orderly, a suspended queue counts as stuck | a_queue_that_is_suspended_for_long_is_not_stuck |
| R23 | two tasks of one queue overlap | what_an_earlier_life_of_a_queue_brings_does_not_count |
| R24 | a queue of POP is dropped as it starts | cannot be: there is no POP, and a pull counts from when it is sent |

The others are in test_upstream_registry.py.
"""

from collections import Counter

from tests.balance.crowd import NAMES, Crowd
from tests.balance.stage import Q, Stage
from tests.sim.cluster import TOPIC
from tests.sim.scene import Kind, Scene, mistake, on, taking
from tests.sim.talker import Talker
from tests.sim.upstream import fails_with, upstream

from steelyard.balance import planning
from steelyard.balance.actions import AskOffset, Commit, Handle, Report, StartAt
from steelyard.balance.allocate import Average
from steelyard.balance.events import Handled, Pulled, PullFailed, PullOutcome
from steelyard.balance.life import Seen, State
from steelyard.balance.member_options import Mode
from steelyard.balance.pulling import Pulling
from steelyard.broker.requests import topics as topic_requests
from steelyard.broker.state import State as BrokerState
from steelyard.broker.topics import Topic
from steelyard.dialect import hearing
from steelyard.dialect.asking import Asking, Request
from steelyard.dialect.voice import Said
from steelyard.model import Queue
from steelyard.sim.facts import Started
from steelyard.sim.members import MemberProcess
from steelyard.sim.planted.bug import Bug, swap
from steelyard.wire.codes import RequestCode
from steelyard.wire.headers.admin import CreateTopic
from steelyard.wire.headers.group import QueryOffset


@upstream("each topic is shared by itself", swap(planning, "choose_strategy", lambda _options, _group: Average()))
def test_the_extra_queues_of_many_topics_are_spread(bug: Bug | None) -> None:
    topics = [f"t{number}" for number in range(5)]
    crowd = Crowd({"a": dict.fromkeys(topics, 3)})
    members = [crowd.join(name, *topics) for name in NAMES[:2]]
    crowd.run(2_000)
    assert crowd.planned() == sorted(crowd.readable())
    loads = [len(member.plan) for member in members]
    with fails_with(bug):
        assert max(loads) - min(loads) <= 1
        assert all(set(Counter(queue.topic for queue in member.plan).values()) <= {1, 2} for member in members)


# -- where reading begins ----------------------------------------------------------------------------------------------


def _begin_nowhere(_state: BrokerState, _topic: Topic, _first: int) -> None:
    """Leave new queues to whoever comes."""


@upstream("a new queue belongs to nobody's past", swap(topic_requests, "_begin_new_queues", _begin_nowhere))
def test_a_queue_that_came_while_the_group_was_away_is_read_from_its_first_message(bug: Bug | None) -> None:
    scene = Scene("ours", queues=2)
    first = scene.member(1, is_steered=False, start=StartAt.LAST)
    scene.run(2_000)
    first.leave()
    scene.run(2_000)
    administrator = Talker(scene.world, "admin", scene.broker_addresses["b1"])
    grown = CreateTopic(TOPIC, "TBW102", 4, 4, 6, "SINGLE_TAG", order=False)
    assert administrator.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, grown).code == 0
    scene.queues = [Queue(TOPIC, "b1", number) for number in range(4)]
    bodies = scene.put(8)
    scene.run(1_000)
    scene.member(2, is_steered=False, start=StartAt.LAST)
    scene.run(3_000)
    with fails_with(bug):
        assert sorted(scene.started()) == bodies


def _ask_for_zero(asking: Asking, action: AskOffset) -> Request:
    """Ask as clients do that do not say what they want to hear."""
    topic, broker, queue_id = action.queue
    return Request(broker, RequestCode.QUERY_CONSUMER_OFFSET, QueryOffset(asking._options.group, topic, queue_id))


_ASKS_FOR_ZERO = mistake("a young queue counts as read from its start", swap(Asking, "offset", _ask_for_zero))


def _check_nothing_older_is_handled(scene: Scene, bug: Bug | None) -> None:
    scene.put(8)
    scene.run(1_000)
    scene.member(1, is_steered=False, start=StartAt.LAST)
    scene.run(5_000)
    bodies = scene.put(4)
    scene.run(1_000)
    with fails_with(bug):
        assert sorted(scene.started()) == sorted(bodies)


@on(ours=_ASKS_FOR_ZERO, apache=_ASKS_FOR_ZERO)
def test_a_new_group_that_wants_what_comes_gets_nothing_older(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind, queues=2)
    _check_nothing_older_is_handled(scene, bug)


@upstream(
    "the 0 of an old broker is believed", swap(hearing, "is_doubtful", lambda _queue, _start, _offset, _version: False)
)
def test_a_new_group_that_wants_what_comes_gets_nothing_older_from_release_4_9(bug: Bug | None) -> None:
    scene = Scene("apache", queues=2, version="4.9")
    _check_nothing_older_is_handled(scene, bug)


def test_a_group_that_was_at_0_goes_on_there_on_release_4_9() -> None:
    scene = Scene("apache", version="4.9")
    first = scene.member(1, is_steered=False, start=StartAt.LAST, work=taking(600_000))
    scene.run(5_000)
    bodies = scene.put(2)
    scene.run(5_000)
    assert sorted(scene.started()) == sorted(bodies)
    first.kill("vanished")
    bodies += scene.put(4)
    scene.run(120_000)
    scene.member(2, is_steered=False, start=StartAt.LAST)
    scene.run(60_000)
    assert sorted(scene.started()[2:]) == sorted(bodies), "nobody finished anything, so all of it comes again"


_report = MemberProcess._report


def _forget_with_the_route(member: MemberProcess, action: Report) -> None:
    """Forget how far a queue was read as soon as it is given up."""
    _report(member, action)
    if action.kind in ("released", "lost"):
        for queue in action.queues:
            member.offsets.pop(queue, None)


@upstream("a lost route takes the offsets along", swap(MemberProcess, "_report", _forget_with_the_route))
def test_a_broadcasting_member_goes_on_where_it_was_when_a_route_comes_back(bug: Bug | None) -> None:
    scene = Scene("ours", brokers=2)
    member = scene.member(1, is_steered=False, mode=Mode.BROADCAST, start=StartAt.LAST)
    scene.run(3_000)
    bodies = scene.put(4)
    scene.run(2_000)
    gone = scene.brokers[1]
    gone.stop()
    scene.run(100_000)
    assert member.member.assignment() == (scene.queues[0],), "it is nobody's queue any more"
    gone.restart()
    scene.run(100)
    bodies += scene.put(4)
    scene.run(60_000)
    with fails_with(bug):
        assert sorted(scene.started()) == bodies


# -- threads, suspensions, lives ---------------------------------------------------------------------------------------

_say = MemberProcess._say


def _say_and_wait(member: MemberProcess, said: Said) -> None:
    """Wait for a broker that does not answer before anything else is done."""
    _say(member, said)
    if said.to is not None and not member.world.processes[said.to].is_alive:
        member.pause()
        member.world.at(5_000_000, member.resume)


@upstream("one thread does everything, and waits", swap(MemberProcess, "_say", _say_and_wait))
def test_a_dead_broker_keeps_nobody_from_reading_the_others(bug: Bug | None) -> None:
    scene = Scene("ours", brokers=2, queues=2)
    scene.member(1, is_steered=False)
    scene.run(3_000)
    scene.brokers[1].kill("vanished")
    sent_ms: dict[str, int] = {}
    for _ in range(40):
        sent_ms[scene.put(1, spread=2)[0]] = scene.world.now_ms()
        scene.run(500)
    started_ms = {fact.uid: fact.at_ms for fact in scene.facts(Started) if isinstance(fact, Started)}
    with fails_with(bug):
        assert max(started_ms.get(uid, 1 << 62) - at_ms for uid, at_ms in sent_ms.items()) < 100


def _look_at_the_last_pull(pulling: Pulling) -> None:
    """Take a queue that does not pull for one whose pull is lost."""
    for record in list(pulling._board.records.values()):
        if record.state is State.OWNED:
            pulling._board.see(record, Seen.PULL_STUCK)


@upstream("who does not pull is stuck", swap(Pulling, "_look", _look_at_the_last_pull))
def test_a_queue_that_is_suspended_for_long_is_not_stuck(bug: Bug | None) -> None:
    stage = Stage(mode=Mode.ORDERLY, most_tries=-1, queue_messages=5).own(Q)
    stage.pulled(Q, *range(8))
    generation = stage.generation(Q)
    for _ in range(400):
        tried = stage.said(Handle)[-1]
        stage.step(Handled(Q, tried.generation, (), (tried.offsets[0],)))
        stage.wait(1_000)
    with fails_with(bug):
        assert stage.said(Handle)[-1].attempt == 400, "it was tried again and again"
        assert stage.generation(Q) == generation
        assert stage.state(Q) is State.OWNED


def _take_any_answer(pulling: Pulling, event: Pulled | PullFailed) -> None:
    """Take whatever is pulled of a queue, whoever asked for it."""
    record = pulling._board.records.get(event.queue)
    if record is not None and isinstance(event, Pulled):
        record.pulling_ms = None
        pulling._board.see(record, Seen.PULLED, event)


@upstream("a queue has no generations", swap(Pulling, "answered", _take_any_answer))
def test_what_an_earlier_life_of_a_queue_brings_does_not_count(bug: Bug | None) -> None:
    stage = Stage().own(Q)
    stage.pulled(Q, 0)
    stage.handled(Q, 0)
    earlier = stage.generation(Q)
    stage.plan()
    stage.confirmed(Q)
    stage.unlocked(Q)
    assert stage.state(Q) is State.ABSENT
    stage.plan(Q)
    stage.grant(Q, epoch=2)
    stage.offset(Q, 1)
    stage.actions.clear()
    stage.step(Pulled(Q, earlier, PullOutcome.FOUND, 8, [5, 6, 7], ["m5", "m6", "m7"], 30))
    for handle in stage.said(Handle):
        stage.step(Handled(Q, handle.generation, handle.offsets))
    stage.wait(2_000)
    with fails_with(bug):
        assert not [commit.offset for commit in stage.said(Commit) if commit.offset > 1], "1 to 4 were never handled"
