"""What is written down of a history."""

from tests.sim.talker import Echo, Talker

from steelyard.model import Queue
from steelyard.sim.facts import Fact, Granted, Moved, Situation
from steelyard.sim.journal import Journal
from steelyard.sim.world import World


def talk(seed: int, *, trace: bool = False, words: int = 5) -> World:
    """Let two processes talk for a while."""
    world = World(seed, trace=trace)
    Echo(world)
    talker = Talker(world)
    for number in range(words):
        talker.after(100 * number, talker.shout)
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
        Granted(at_ms=1, broker="broker-a", lock_group="g", queue=queue, member="m1"),
        Granted(at_ms=1, broker="broker-a", lock_group="g", queue=queue, member="m2"),
        Granted(at_ms=2, broker="broker-a", lock_group="g", queue=queue, member="m1"),
        Moved(at_ms=1, member="m1", group="g", queue=queue, before="absent", after="WANTED"),
        Situation(at_ms=1, name="something", about={"a": "b"}),
    ]
    digests = set()
    for fact in facts:
        journal = Journal(lambda: 1)
        journal.tell(fact)
        digests.add(journal.digest())
    assert len(digests) == len(facts)


def test_listeners_hear_facts_in_order() -> None:
    world, heard = World(1), list[tuple[str, Fact]]()
    world.journal.listeners += [lambda fact: heard.append(("one", fact)), lambda fact: heard.append(("two", fact))]
    first, second = Situation(at_ms=1, name="first"), Situation(at_ms=2, name="second")
    world.tell(first)
    world.tell(second)
    assert heard == [("one", first), ("two", first), ("one", second), ("two", second)]
    assert world.journal.facts == [first, second]


def test_a_trace_has_a_line_for_each_command_fact_and_remark_that_people_can_read() -> None:
    world = World(1, trace=True)
    Echo(world)
    talker = Talker(world)
    world.run(100)
    talker.ask(11, {"topic": "orders", "brokerName": "broker-a", "queueId": "0", "queueOffset": "41"})
    world.network.slow("echo", "talker", 5_000)
    world.tell(Situation(at_ms=world.now_ms(), name="a thing happened", about={"to": "m1"}))
    lines = world.journal.lines
    assert lines is not None
    assert [line.partition(" ")[2] for line in lines] == [
        "talker → echo #1 PULL_MESSAGE orders@broker-a:0 queueOffset=41",
        "echo → talker #1 answer SUCCESS",
        "· LineLost one=echo other=talker how=slow",
        "the lines of echo and talker take 5 ms longer",
        "· Situation name=a thing happened about={'to': 'm1'}",
    ]
    assert all(line[:2] == "0." and line[5] == " " for line in lines)


def test_nothing_is_kept_for_people_unless_they_asked() -> None:
    assert talk(1).journal.lines is None
