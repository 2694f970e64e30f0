"""Java's members: they rebalance as Java does, with its weaknesses."""

from collections import Counter

import pytest

from simulator.actors.name_server import NameServerProcess
from simulator.apache.broker import ApacheBrokerProcess
from simulator.apache.java_client import JavaOptions
from simulator.apache.java_member import JavaMemberProcess
from simulator.facts import (
    AssignmentPlanned,
    HandlerEnded,
    HandlerStarted,
    LockFreed,
    LockGranted,
    OffsetCommitted,
    ProcessGone,
    ProcessStarted,
)
from simulator.scenario import UserHandler
from simulator.world import World
from steelyard.balance.assignors.registry import BUILT_IN_STRATEGIES, StrategyOptions
from steelyard.balance.assignors.strategy import Strategy
from steelyard.balance.group.actions import StartAt, StartPosition
from steelyard.balance.group.options import ConsumeMode
from steelyard.model import Queue, StoredMessage, Subscription
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.members import ConsumerRunningState
from steelyard.wire.codes import RequestCode
from steelyard.wire.headers.group import GetConsumerRunningState
from tests.simulator.apache_client import GROUP, TOPIC, ApacheTestClient, facts_of, place

_BOTH = pytest.mark.parametrize("version", ["4.9", "5.x"])
_MODES = pytest.mark.parametrize("mode", [ConsumeMode.CONCURRENT, ConsumeMode.ORDERLY])
_RETRY = f"%RETRY%{GROUP}"


def quick(_message: StoredMessage, _attempt: int) -> tuple[int, bool]:
    return 5, True


def java(
    world: World,
    names: NameServerProcess,
    name: str,
    *,
    work: UserHandler = quick,
    mode: ConsumeMode = ConsumeMode.CONCURRENT,
    version: str = "5.x",
    strategy: Strategy | None = None,
    group: str = GROUP,
    offsets: dict[Queue, int] | None = None,
    max_attempts: int = 16,
) -> JavaMemberProcess:
    options = JavaOptions(
        group,
        name,
        {TOPIC: Subscription(TOPIC)},
        mode=mode,
        strategy=strategy or BUILT_IN_STRATEGIES.make("AVG", StrategyOptions()),
        start=StartPosition(StartAt.FIRST),
        version=version,
        max_attempts=max_attempts,
    )
    member = JavaMemberProcess(world, options, f"10.0.3.{len(world.processes)}", [names.address], work, offsets)
    member.start()
    return member


def own(member: JavaMemberProcess) -> list[int]:
    return [queue.queue_id for queue in member.held_queues() if queue.topic == TOPIC]


def send(guest: ApacheTestClient, count: int, queues: int = 4) -> set[str]:
    uids = [f"p1-{number}" for number in range(count)]
    for number, uid in enumerate(uids):
        guest.send(uid, number % queues)
    return set(uids)


def started(world: World) -> list[HandlerStarted]:
    return [fact for fact in facts_of(world, HandlerStarted) if isinstance(fact, HandlerStarted)]


def handled(world: World) -> Counter[str]:
    return Counter(fact.uid for fact in facts_of(world, HandlerEnded) if isinstance(fact, HandlerEnded) and fact.ok)


@_BOTH
@_MODES
def test_three_java_members_share_a_topic_and_drain_it(version: str, mode: ConsumeMode) -> None:
    world, names, broker = place(version=version, queues=6)
    members = [java(world, names, f"c{number}", mode=mode, version=version) for number in range(3)]
    world.run(25_000)
    assert [own(member) for member in members] == [[0, 1], [2, 3], [4, 5]]
    assert [joined.kind for joined in facts_of(world, ProcessStarted) if isinstance(joined, ProcessStarted)][-3:] == [
        "java"
    ] * 3
    uids = send(ApacheTestClient(world, "p1", broker), 30, 6)
    world.run(world.now_ms() + 10_000)
    assert handled(world) == Counter(uids)
    assert {fact.member for fact in started(world)} == {"c0", "c1", "c2"}
    assert {broker.committed_offsets()[GROUP, Queue(TOPIC, "b1", number)] for number in range(6)} == {5}


@pytest.mark.parametrize("name", ["AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH"])
def test_members_with_one_strategy_cover_every_queue_once(name: str) -> None:
    world, names, _ = place(queues=8)
    members = [
        java(world, names, f"c{number}", strategy=BUILT_IN_STRATEGIES.make(name, StrategyOptions()))
        for number in range(3)
    ]
    world.run(25_000)
    assert sorted(number for member in members for number in own(member)) == list(range(8))


@_BOTH
def test_a_joiner_takes_its_share_soon_after_the_notice(version: str) -> None:
    world, names, _ = place(version=version)
    one = java(world, names, "c1", version=version)
    world.run(30_000)
    assert own(one) == [0, 1, 2, 3]
    two = java(world, names, "c2", version=version)
    world.run(33_000)
    assert (own(one), own(two)) == ([0, 1], [2, 3])
    two.leave()
    world.run(36_000)
    assert own(one) == [0, 1, 2, 3]
    assert [gone.how for gone in facts_of(world, ProcessGone) if isinstance(gone, ProcessGone)] == ["left"]


def test_a_queue_that_moves_while_it_is_handled_is_handled_again() -> None:
    world, names, broker = place()
    java(world, names, "c1", work=lambda _message, _attempt: (8_000, True))
    world.run(12_000)
    uids = send(ApacheTestClient(world, "p1", broker), 4)
    world.run(world.now_ms() + 1_000)
    java(world, names, "c2")
    world.run(world.now_ms() + 20_000)
    counts = Counter(fact.uid for fact in started(world))
    assert set(counts) == uids
    assert max(counts.values()) == 2


def test_in_order_a_queue_moves_once_the_user_code_is_out_of_it() -> None:
    world, names, broker = place()
    java(world, names, "c1", mode=ConsumeMode.ORDERLY, work=lambda _message, _attempt: (3_000, True))
    world.run(12_000)
    send(ApacheTestClient(world, "p1", broker), 8)
    java(world, names, "c2", mode=ConsumeMode.ORDERLY)
    world.run(world.now_ms() + 30_000)
    working: dict[Queue, str] = {}
    for fact in facts_of(world, HandlerStarted, HandlerEnded):
        if isinstance(fact, HandlerStarted):
            assert fact.queue not in working
            working[fact.queue] = fact.member
        elif isinstance(fact, HandlerEnded):
            del working[fact.queue]
    assert len(handled(world)) == 8


def test_a_killed_orderly_member_is_followed_only_when_its_lock_is_old() -> None:
    world, names, _ = place()
    one = java(world, names, "c1", mode=ConsumeMode.ORDERLY)
    world.run(10_000)
    two = java(world, names, "c2", mode=ConsumeMode.ORDERLY)
    world.run(30_000)
    assert (own(one), own(two)) == ([0, 1], [2, 3])
    one.kill()
    world.run(60_000)
    assert own(two) == [2, 3]
    world.run(100_000)
    assert own(two) == [0, 1, 2, 3]
    assert "expired" in {fact.how for fact in facts_of(world, LockFreed) if isinstance(fact, LockFreed)}


def test_a_leaving_orderly_member_unlocks() -> None:
    world, names, broker = place()
    one = java(world, names, "c1", mode=ConsumeMode.ORDERLY)
    world.run(10_000)
    assert {lock[1] for lock in broker.held_locks()} == {GROUP}
    one.leave()
    world.run(12_000)
    assert not broker.held_locks()
    assert len(facts_of(world, LockGranted)) >= 4


def test_a_member_that_does_not_find_itself_drops_everything() -> None:
    world, names, broker = place(version="4.9")
    one = java(world, names, "c1", version="4.9")
    world.run(5_000)
    assert own(one) == [0, 1, 2, 3]
    broker.crash()
    broker.restart()
    unknown = ApacheTestClient(world, "c0", broker)
    unknown.heartbeat()
    world.run(26_000)
    plans = [fact.queues for fact in facts_of(world, AssignmentPlanned) if isinstance(fact, AssignmentPlanned)]
    assert [len([queue for queue in scenario if queue.topic == TOPIC]) for scenario in plans][-2:] == [0, 2]
    assert own(one) == [2, 3]


def test_release_5_sends_a_heartbeat_on_every_new_connection() -> None:
    for version, is_known in (("4.9", False), ("5.x", True)):
        world, names, broker = place(version=version)
        java(world, names, "c1", version=version)
        world.run(2_000)
        broker.crash()
        broker.restart()
        world.run(15_000)
        assert (broker.state.registry.get(GROUP) is not None) == is_known


def test_a_failed_message_is_sent_back_and_comes_again() -> None:
    world, names, broker = place()
    java(world, names, "c1", work=lambda message, _attempt: (5, message.reconsume_times > 0))
    world.run(3_000)
    send(ApacheTestClient(world, "p1", broker), 1)
    world.run(60_000)
    assert [(fact.queue.topic, fact.reconsume_times) for fact in started(world)] == [(TOPIC, 0), (_RETRY, 1)]


def test_in_order_a_failure_is_tried_again_here_and_at_last_given_up() -> None:
    world, names, broker = place()
    java(world, names, "c1", mode=ConsumeMode.ORDERLY, work=lambda _message, _attempt: (5, False), max_attempts=2)
    world.run(3_000)
    send(ApacheTestClient(world, "p1", broker), 1)
    world.run(20_000)
    assert [fact.attempt for fact in started(world)] == [0, 1, 2]
    assert [logged.uid for logged in broker.logged_messages() if logged.queue.topic == f"%DLQ%{GROUP}"] == ["p1-0"]


def test_a_member_answers_what_it_has_in_java_words() -> None:
    world, names, broker = place()
    java(world, names, "c1")
    world.run(5_000)
    guest = ApacheTestClient(world, "g1", broker)
    answer = guest.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, GetConsumerRunningState(GROUP, "c1"))
    state = decode_body(ConsumerRunningState, answer.body)
    assert {queue.queue_id for queue in state.queues if queue.topic == TOPIC} == {0, 1, 2, 3}
    assert not any(queue.dropped for queue in state.queues.values())
    assert state.steelyard is None


def test_a_dropped_queue_that_cannot_be_removed_is_reported_as_dropped() -> None:
    world, names, broker = place()
    java(world, names, "c1", mode=ConsumeMode.ORDERLY, work=lambda _message, _attempt: (20_000, True))
    world.run(5_000)
    guest = ApacheTestClient(world, "p1", broker)
    send(guest, 4)
    java(world, names, "c2", mode=ConsumeMode.ORDERLY)
    world.run(world.now_ms() + 5_000)
    answer = guest.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, GetConsumerRunningState(GROUP, "c1"))
    state = decode_body(ConsumerRunningState, answer.body)
    dropped = {queue.queue_id for queue, text in state.queues.items() if text.dropped and queue.topic == TOPIC}
    assert dropped == {2, 3}


def test_offsets_are_committed_without_an_answer_whether_or_not_they_moved() -> None:
    world, names, broker = place()
    java(world, names, "c1")
    world.run(3_000)
    send(ApacheTestClient(world, "p1", broker), 4)
    world.run(40_000)
    text = [fact for fact in facts_of(world, OffsetCommitted) if isinstance(fact, OffsetCommitted)]
    assert len([fact for fact in text if fact.offset == fact.before]) > 4


def test_a_broadcasting_member_has_everything_and_keeps_its_own_offsets() -> None:
    world, names, broker = place()
    files: list[dict[Queue, int]] = [{}, {}]
    members = [
        java(world, names, f"c{number}", mode=ConsumeMode.BROADCAST, offsets=file) for number, file in enumerate(files)
    ]
    world.run(3_000)
    assert [own(member) for member in members] == [[0, 1, 2, 3]] * 2
    uids = send(ApacheTestClient(world, "p1", broker), 8)
    world.run(world.now_ms() + 15_000)
    assert handled(world) == Counter(dict.fromkeys(uids, 2))
    assert all(file[Queue(TOPIC, "b1", 0)] == 2 for file in files)
    assert not broker.committed_offsets()


def test_two_brokers_are_shared_and_either_is_asked() -> None:
    world, names, _ = place()
    second = ApacheBrokerProcess(world, "b2", "10.0.1.2", [names.address], topics={TOPIC: 4})
    second.start()
    world.run(500)
    members = [java(world, names, f"c{number}") for number in range(2)]
    world.run(25_000)
    assert sorted(queue for member in members for queue in member.held_queues() if queue.topic == TOPIC) == [
        Queue(TOPIC, broker, number) for broker in ("b1", "b2") for number in range(4)
    ]


def test_the_same_seed_gives_the_same_history() -> None:
    digests = set()
    for _ in range(2):
        world, names, broker = place(9)
        for number in range(3):
            java(world, names, f"c{number}")
        send(ApacheTestClient(world, "p1", broker), 12)
        broker.crash()
        broker.restart()
        world.run(60_000)
        digests.add(world.journal.digest())
    assert len(digests) == 1
