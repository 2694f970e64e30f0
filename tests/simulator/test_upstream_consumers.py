"""Upstream bugs in what members read, as scenarios: each with the bug put back.

| | upstream | here |
|---|---|---|
| R14 | the first ids get the extra queue of every topic | the_extra_queues_of_many_topics_are_spread |
| R15 | a queue that came while a group was away is read from its end | a_queue_that_came_while_the_group_was_away… |
| R16 | a new group reads a young topic from its start | a_new_group_that_wants_what_comes_gets_nothing_older |
| R17 | broadcasting, a lost route takes the offset along | a_broadcasting_member_goes_on_where_it_was… |
| R18 | a dead broker blocks the only thread | a_dead_broker_does_not_stop_reading_the_others |
| R19 | locks of static topics go by the wrong broker | cannot be: a lock goes to the broker in the queue's name |
| R20 | orderly, a slave that is left cannot lock | cannot be here: our broker has no replicas |
| R21 | orderly, a suspended queue counts as stuck | a_queue_that_is_suspended_for_long_is_not_stuck |
| R23 | two tasks of one queue overlap | what_an_earlier_life_of_a_queue_brings_does_not_count |
| R24 | a queue of POP is dropped as it starts | cannot be: there is no POP, and a pull counts from when it is sent |

The others are in test_upstream_registry.py.
"""

from collections import Counter
from collections.abc import Iterable

from simulator.actors.member import MemberProcess
from simulator.facts import HandlerStarted
from simulator.mutants.mutant import Mutant, patch_attribute
from steelyard.balance.assignors import Average
from steelyard.balance.group import assignment
from steelyard.balance.group.actions import Commit, HandleMessages, MemberReport, QueryStartOffset, StartAt
from steelyard.balance.group.events import Handled, Pulled, PullFailed, PullOutcome
from steelyard.balance.group.fetch import Fetcher
from steelyard.balance.group.options import ConsumeMode
from steelyard.balance.group.queue_states import QueueEvent, QueueState
from steelyard.broker.requests import topics as topic_requests
from steelyard.broker.state import BrokerCoreState as BrokerState
from steelyard.broker.topics import BrokerTopic
from steelyard.model import Queue
from steelyard.protocol import member_responses
from steelyard.protocol.member_protocol import OutgoingCommand
from steelyard.protocol.member_requests import EncodedRequest, MemberRequests
from steelyard.wire.codes import RequestCode
from steelyard.wire.headers.admin import CreateTopic
from steelyard.wire.headers.group import QueryConsumerOffset
from tests.balance.group_harness import NAMES, GroupHarness
from tests.balance.member_harness import MemberHarness, Q
from tests.simulator.cluster import TOPIC
from tests.simulator.scripted_cluster import Kind, ScriptedCluster, handler_taking, on, scenario_mutant
from tests.simulator.talker import Talker
from tests.simulator.upstream import fails_with, upstream


@upstream(
    "each topic is shared by itself", patch_attribute(assignment, "choose_strategy", lambda _options, _group: Average())
)
def test_the_extra_queues_of_many_topics_are_spread(bug: Mutant | None) -> None:
    topics = [f"t{number}" for number in range(5)]
    crowd = GroupHarness({"a": dict.fromkeys(topics, 3)})
    members = [crowd.join(name, *topics) for name in NAMES[:2]]
    crowd.run(2_000)
    assert crowd.planned() == sorted(crowd.readable())
    loads = [len(member.plan) for member in members]
    with fails_with(bug):
        assert max(loads) - min(loads) <= 1
        assert all(set(Counter(queue.topic for queue in member.plan).values()) <= {1, 2} for member in members)


# -- where reading begins ----------------------------------------------------------------------------------------------


def _begin_nowhere(_state: BrokerState, _topic: BrokerTopic, _groups: Iterable[str], _new: range) -> None:
    """Store no offset for new queues."""


@upstream("a new queue belongs to nobody's past", patch_attribute(topic_requests, "_begin_new_queues", _begin_nowhere))
def test_a_queue_that_came_while_the_group_was_away_is_read_from_its_first_message(bug: Mutant | None) -> None:
    cluster = ScriptedCluster("ours", queues=2)
    first = cluster.member(1, is_steered=False, start=StartAt.LAST)
    cluster.run(2_000)
    first.leave()
    cluster.run(2_000)
    administrator = Talker(cluster.world, "admin", cluster.broker_addresses["b1"])
    grown = CreateTopic(TOPIC, "TBW102", 4, 4, 6, "SINGLE_TAG", order=False)
    assert administrator.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, grown).code == 0
    cluster.queues = [Queue(TOPIC, "b1", number) for number in range(4)]
    bodies = cluster.put(8)
    cluster.run(1_000)
    cluster.member(2, is_steered=False, start=StartAt.LAST)
    cluster.run(3_000)
    with fails_with(bug):
        assert sorted(cluster.started()) == bodies


def _ask_for_zero(requests: MemberRequests, action: QueryStartOffset) -> EncodedRequest:
    """Query as clients do that do not set setZeroIfNotFound."""
    topic, broker, queue_id = action.queue
    return EncodedRequest(
        broker, RequestCode.QUERY_CONSUMER_OFFSET, QueryConsumerOffset(requests._options.group, topic, queue_id)
    )


_ASKS_FOR_ZERO = scenario_mutant(
    "a young queue counts as read from its start", patch_attribute(MemberRequests, "query_offset", _ask_for_zero)
)


def _check_nothing_older_is_handled(cluster: ScriptedCluster, bug: Mutant | None) -> None:
    cluster.put(8)
    cluster.run(1_000)
    cluster.member(1, is_steered=False, start=StartAt.LAST)
    cluster.run(5_000)
    bodies = cluster.put(4)
    cluster.run(1_000)
    with fails_with(bug):
        assert sorted(cluster.started()) == sorted(bodies)


@on(ours=_ASKS_FOR_ZERO, apache=_ASKS_FOR_ZERO)
def test_a_new_group_that_wants_what_comes_gets_nothing_older(kind: Kind, bug: Mutant | None) -> None:
    cluster = ScriptedCluster(kind, queues=2)
    _check_nothing_older_is_handled(cluster, bug)


@upstream(
    "the 0 of an old broker is believed",
    patch_attribute(member_responses, "is_offset_doubtful", lambda _queue, _start, _offset, _version: False),
)
def test_a_new_group_that_wants_what_comes_gets_nothing_older_from_release_4_9(bug: Mutant | None) -> None:
    cluster = ScriptedCluster("apache", queues=2, version="4.9")
    _check_nothing_older_is_handled(cluster, bug)


def test_a_group_that_was_at_0_goes_on_there_on_release_4_9() -> None:
    cluster = ScriptedCluster("apache", version="4.9")
    first = cluster.member(1, is_steered=False, start=StartAt.LAST, work=handler_taking(600_000))
    cluster.run(5_000)
    bodies = cluster.put(2)
    cluster.run(5_000)
    assert sorted(cluster.started()) == sorted(bodies)
    first.kill("vanished")
    bodies += cluster.put(4)
    cluster.run(120_000)
    cluster.member(2, is_steered=False, start=StartAt.LAST)
    cluster.run(60_000)
    assert sorted(cluster.started()[2:]) == sorted(bodies), "nobody finished anything, so all of it comes again"


_report = MemberProcess._record_report


def _forget_with_the_route(member: MemberProcess, action: MemberReport) -> None:
    """Forget the offset of a queue as soon as it is given up."""
    _report(member, action)
    if action.kind in ("released", "lost"):
        for queue in action.queues:
            member.offsets.pop(queue, None)


@upstream(
    "a lost route takes the offsets along", patch_attribute(MemberProcess, "_record_report", _forget_with_the_route)
)
def test_a_broadcasting_member_goes_on_where_it_was_when_a_route_comes_back(bug: Mutant | None) -> None:
    cluster = ScriptedCluster("ours", brokers=2)
    member = cluster.member(1, is_steered=False, mode=ConsumeMode.BROADCAST, start=StartAt.LAST)
    cluster.run(3_000)
    bodies = cluster.put(4)
    cluster.run(2_000)
    gone = cluster.brokers[1]
    gone.stop()
    cluster.run(100_000)
    assert member.member.assignment() == (cluster.queues[0],), "it is nobody's queue any more"
    gone.restart()
    cluster.run(100)
    bodies += cluster.put(4)
    cluster.run(60_000)
    with fails_with(bug):
        assert sorted(cluster.started()) == bodies


# -- threads, suspensions, generations --------------------------------------------------------------------------------

_send_command = MemberProcess._send


def _send_and_wait(member: MemberProcess, outgoing: OutgoingCommand) -> None:
    """Wait for a broker that does not respond before anything else is done."""
    _send_command(member, outgoing)
    if outgoing.server is not None and not member.world.processes[outgoing.server].is_alive:
        member.pause()
        member.world.schedule(5_000_000, member.resume)


@upstream("one thread does everything, and waits", patch_attribute(MemberProcess, "_send", _send_and_wait))
def test_a_dead_broker_does_not_stop_reading_the_others(bug: Mutant | None) -> None:
    cluster = ScriptedCluster("ours", brokers=2, queues=2)
    cluster.member(1, is_steered=False)
    cluster.run(3_000)
    cluster.brokers[1].kill("vanished")
    sent_ms: dict[str, int] = {}
    for _ in range(40):
        sent_ms[cluster.put(1, spread=2)[0]] = cluster.world.now_ms()
        cluster.run(500)
    started_ms = {fact.uid: fact.at_ms for fact in cluster.facts(HandlerStarted) if isinstance(fact, HandlerStarted)}
    with fails_with(bug):
        assert max(started_ms.get(uid, 1 << 62) - at_ms for uid, at_ms in sent_ms.items()) < 100


def _check_the_last_pull(fetcher: Fetcher) -> None:
    """Treat a queue that does not pull as one whose pull is lost."""
    for record in list(fetcher._context.process_queues.values()):
        if record.state is QueueState.OWNED:
            fetcher._apply(record, QueueEvent.PULL_STUCK)


@upstream("who does not pull is stuck", patch_attribute(Fetcher, "_check_stuck_pulls", _check_the_last_pull))
def test_a_queue_that_is_suspended_for_long_is_not_stuck(bug: Mutant | None) -> None:
    stage = MemberHarness(mode=ConsumeMode.ORDERLY, max_attempts=-1, queue_messages=5).own(Q)
    stage.pulled(Q, *range(8))
    generation = stage.generation(Q)
    for _ in range(400):
        tried = stage.emitted(HandleMessages)[-1]
        stage.step(Handled(Q, tried.generation, (), (tried.offsets[0],)))
        stage.wait(1_000)
    with fails_with(bug):
        assert stage.emitted(HandleMessages)[-1].attempt == 400, "it was tried again and again"
        assert stage.generation(Q) == generation
        assert stage.state(Q) is QueueState.OWNED


def _take_any_answer(fetcher: Fetcher, event: Pulled | PullFailed) -> None:
    """Accept every pulled message of a queue, whatever its generation."""
    record = fetcher._context.process_queues.get(event.queue)
    if record is not None and isinstance(event, Pulled):
        record.pull_sent_ms = None
        fetcher._apply(record, QueueEvent.PULLED, event)


@upstream("a queue has no generations", patch_attribute(Fetcher, "pull_answered", _take_any_answer))
def test_responses_for_an_earlier_assignment_of_a_queue_are_ignored(bug: Mutant | None) -> None:
    stage = MemberHarness().own(Q)
    stage.pulled(Q, 0)
    stage.handled(Q, 0)
    earlier = stage.generation(Q)
    stage.plan()
    stage.confirmed(Q)
    stage.unlocked(Q)
    assert stage.state(Q) is QueueState.ABSENT
    stage.plan(Q)
    stage.grant(Q, epoch=2)
    stage.offset(Q, 1)
    stage.actions.clear()
    stage.step(Pulled(Q, earlier, PullOutcome.FOUND, 8, [5, 6, 7], ["m5", "m6", "m7"], 30))
    for handle in stage.emitted(HandleMessages):
        stage.step(Handled(Q, handle.generation, handle.offsets))
    stage.wait(2_000)
    with fails_with(bug):
        assert not [commit.offset for commit in stage.emitted(Commit) if commit.offset > 1], "1 to 4 were never handled"
