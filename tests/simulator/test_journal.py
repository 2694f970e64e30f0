"""The journal of a history: facts, digest and trace."""

from simulator.facts import Fact, LockGranted, QueueStateChanged, Situation
from simulator.world import Journal, World
from steelyard.model import Queue
from tests.simulator.talker import Echo, Talker


def talk(seed: int, *, trace: bool = False, words: int = 5) -> World:
    """Let two processes exchange requests for a while."""
    world = World(seed, trace=trace)
    Echo(world)
    talker = Talker(world)
    for number in range(words):
        talker.call_later(100 * number, talker.shout)
    world.run(1_000)
    return world


def test_the_same_seed_gives_the_same_digest_traced_or_not() -> None:
    assert talk(1).journal.digest() == talk(1).journal.digest() == talk(1, trace=True).journal.digest()


def test_another_seed_or_one_word_more_gives_another_digest() -> None:
    digests = {talk(1).journal.digest(), talk(2).journal.digest(), talk(1, words=6).journal.digest()}
    assert len(digests) == 3


def test_every_fact_counts_in_the_digest() -> None:
    queue = Queue("orders", "broker-a", 0)
    facts: list[Fact] = [
        LockGranted(at_ms=1, broker="broker-a", lock_group="g", queue=queue, member="m1"),
        LockGranted(at_ms=1, broker="broker-a", lock_group="g", queue=queue, member="m2"),
        LockGranted(at_ms=2, broker="broker-a", lock_group="g", queue=queue, member="m1"),
        QueueStateChanged(at_ms=1, member="m1", group="g", queue=queue, before="absent", after="WANTED"),
        Situation(at_ms=1, name="something", about={"a": "b"}),
    ]
    digests = set()
    for fact in facts:
        journal = Journal(lambda: 1)
        journal.record(fact)
        digests.add(journal.digest())
    assert len(digests) == len(facts)


def test_listeners_get_facts_in_order() -> None:
    world, received = World(1), list[tuple[str, Fact]]()
    world.journal.listeners += [
        lambda fact: received.append(("one", fact)),
        lambda fact: received.append(("two", fact)),
    ]
    first, second = Situation(at_ms=1, name="first"), Situation(at_ms=2, name="second")
    world.record(first)
    world.record(second)
    assert received == [("one", first), ("two", first), ("one", second), ("two", second)]
    assert world.journal.facts == [first, second]


def test_a_trace_has_a_readable_line_for_each_command_fact_and_remark() -> None:
    world = World(1, trace=True)
    Echo(world)
    talker = Talker(world)
    world.run(100)
    talker.ask(11, {"topic": "orders", "brokerName": "broker-a", "queueId": "0", "queueOffset": "41"})
    world.network.slow("echo", "talker", 5_000)
    world.record(Situation(at_ms=world.now_ms(), name="a thing happened", about={"to": "m1"}))
    lines = world.journal.trace_lines
    assert lines is not None
    assert [line.partition(" ")[2] for line in lines] == [
        "talker → echo #1 PULL_MESSAGE orders@broker-a:0 queueOffset=41",
        "echo → talker #1 answer SUCCESS",
        "· LineLost one=echo other=talker how=slow",
        "connections of echo and talker are 5 ms slower",
        "· Situation name=a thing happened about={'to': 'm1'}",
    ]
    assert all(line[:2] == "0." and line[5] == " " for line in lines)


def test_nothing_is_kept_for_people_unless_they_asked() -> None:
    assert talk(1).journal.trace_lines is None
