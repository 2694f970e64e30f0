"""Producers in a simulated world: every message is recorded, and stored where it was acknowledged."""

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import pytest

from simulator.actors.broker import BrokerProcess
from simulator.actors.name_server import NameServerProcess
from simulator.actors.producer import ProducerProcess
from simulator.facts import Fact, MessageAcked, MessageLogged, MessageSent, SendGivenUp
from simulator.scenario import ScenarioProducer
from simulator.world import World
from steelyard.broker.options import BrokerOptions

if TYPE_CHECKING:
    from steelyard.model import Queue

F = TypeVar("F", bound=Fact)


class _Town:
    """A name server, two brokers and their producers."""

    def __init__(self, seed: int = 1, brokers: str = "ab") -> None:
        self.world = World(seed)
        self.facts: list[Fact] = []
        self.world.journal.listeners.append(self.facts.append)
        self.name_server = NameServerProcess(self.world)
        self.name_server.start()
        self.brokers = [
            BrokerProcess(
                self.world,
                BrokerOptions(
                    name=f"broker-{letter}",
                    host=f"10.0.1.{number}",
                    transaction_check_ms=2_000,
                    transaction_timeout_ms=1_000,
                ),
                [self.name_server.address],
            )
            for number, letter in enumerate(brokers, 1)
        ]
        for broker in self.brokers:
            broker.start()

    def producer(
        self,
        style: str = "plain",
        *,
        messages: int = 40,
        rollback_percent: int = 0,
        avoids_slow: bool = False,
        decisions: dict[str, bool] | None = None,
    ) -> ProducerProcess:
        name = f"p{len(self.world.processes)}"
        scenario = ScenarioProducer(
            name, "orders", messages, 300, 40, style, rollback_percent=rollback_percent, avoids_slow_brokers=avoids_slow
        )
        host = f"10.0.2.{len(self.world.processes)}"
        producer = ProducerProcess(self.world, scenario, host, [self.name_server.address], decisions=decisions)
        producer.start()
        return producer

    def at_ms(self, at_ms: int, act: Callable[[], None]) -> None:
        self.world.schedule((at_ms - self.world.now_ms()) * 1000, act)

    def reported(self, kind: type[F]) -> list[F]:
        return [fact for fact in self.facts if isinstance(fact, kind)]

    def logged(self, topic: str = "orders") -> list[MessageLogged]:
        return [each for broker in self.brokers for each in broker.logged_messages() if each.queue.topic == topic]


@pytest.mark.parametrize("style", ["plain", "keyed"])
def test_what_is_acknowledged_is_where_it_was_said_to_be(style: str) -> None:
    town = _Town()
    producer = town.producer(style)
    town.world.run(5_000)
    assert producer.is_done
    places = {(each.queue, each.offset): each.uid for each in town.logged()}
    acked = town.reported(MessageAcked)
    assert len(town.reported(MessageSent)) == len(acked) == 40
    assert all(each.queue and places[each.queue, each.offset or 0] == each.uid for each in acked)


def test_plain_messages_are_spread_evenly() -> None:
    town = _Town()
    town.producer()
    town.world.run(5_000)
    assert set(Counter(each.queue for each in town.logged()).values()) == {5}, "8 queues"


@pytest.mark.parametrize("avoids_slow", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_a_broker_that_dies_costs_no_message_while_another_is_there(seed: int, avoids_slow: bool) -> None:
    town = _Town(seed)
    producer = town.producer(messages=80, avoids_slow=avoids_slow)
    town.at_ms(1_000, town.brokers[0].crash)
    town.at_ms(2_500, town.brokers[0].restart)
    town.world.run(12_000)
    assert producer.is_done
    assert not town.reported(SendGivenUp)
    uids = {each.uid for each in town.logged()}
    assert uids == {each.uid for each in town.reported(MessageAcked)}
    assert len(uids) == 80


def test_a_send_that_no_broker_accepts_is_recorded_as_given_up() -> None:
    town = _Town()
    producer = town.producer()
    for broker in town.brokers:
        town.at_ms(800, broker.crash)
    town.world.run(15_000)
    assert producer.is_done
    ended = {each.uid for each in town.reported(MessageAcked)} | {each.uid for each in town.reported(SendGivenUp)}
    assert ended == {each.uid for each in town.reported(MessageSent)}
    assert town.reported(SendGivenUp)


def test_a_send_without_a_route_waits_for_one_and_fails_when_its_time_is_over() -> None:
    town = _Town(brokers="")
    producer = town.producer(messages=3)
    town.world.run(10_000)
    assert producer.is_done
    assert len(town.reported(SendGivenUp)) == 3


@pytest.mark.parametrize("seed", range(4))
def test_messages_of_one_key_are_in_one_queue_and_in_order(seed: int) -> None:
    town = _Town(seed)
    town.producer("keyed", messages=80)
    town.at_ms(1_000, town.brokers[1].crash)
    town.at_ms(2_000, town.brokers[1].restart)
    town.world.run(15_000)
    sent = {each.uid: each for each in town.reported(MessageSent)}
    queues: defaultdict[str | None, set[Queue]] = defaultdict(set)
    numbers: defaultdict[str | None, list[int]] = defaultdict(list)
    for each in town.logged():
        queues[sent[each.uid].key].add(each.queue)
        numbers[sent[each.uid].key].append(sent[each.uid].number)
    assert all(len(used) == 1 for used in queues.values())
    assert all(found == sorted(found) for found in numbers.values())
    assert sum(map(len, numbers.values())) >= len(town.reported(MessageAcked))


def test_a_producer_that_comes_back_while_the_broker_of_a_key_is_gone_waits_for_it() -> None:
    town = _Town(2)
    producer = town.producer("keyed", messages=60)
    town.at_ms(1_000, producer.kill)
    town.at_ms(1_000, town.brokers[0].stop)
    town.at_ms(1_500, producer.restart)
    town.at_ms(5_000, town.brokers[0].restart)
    town.world.run(30_000)
    assert producer.is_done
    sent = {each.uid: each.key for each in town.reported(MessageSent)}
    assert len({(sent[each.uid], each.queue) for each in town.logged()}) == len({*sent.values()})


def test_a_delayed_message_says_when_it_is_due() -> None:
    town = _Town()
    town.producer("delayed")
    town.world.run(8_000)
    assert all(each.due_ms == each.at_ms + 1_000 for each in town.reported(MessageSent))
    assert all(each.queue is None for each in town.reported(MessageAcked)), "it is not in its queue yet"
    assert {each.uid for each in town.logged()} == {each.uid for each in town.reported(MessageSent)}


@pytest.mark.parametrize("seed", range(3))
def test_transactions_are_seen_once_they_are_committed_and_never_if_they_are_not(seed: int) -> None:
    town = _Town(seed)
    producer = town.producer("transactional", messages=60, rollback_percent=30)
    town.at_ms(1_200, town.brokers[0].crash)
    town.at_ms(2_000, town.brokers[0].restart)
    town.world.run(25_000)
    assert producer.is_done
    assert producer.transactions.unconfirmed_commits == 0, "brokers asked about all that was not said"
    seen = {each.uid for each in town.logged()}
    rolled_back = {each.uid for each in town.reported(SendGivenUp) if each.rolled_back}
    assert seen == {each.uid for each in town.reported(MessageAcked)}
    assert seen.isdisjoint(rolled_back)
    assert len(seen | rolled_back) == 60
    assert rolled_back


def test_a_producer_that_was_killed_answers_for_its_transactions_when_it_is_back() -> None:
    town = _Town(3)
    decisions: dict[str, bool] = {}
    producer = town.producer("transactional", messages=60, decisions=decisions)
    town.at_ms(1_500, producer.kill)
    town.at_ms(3_000, producer.restart)
    town.world.run(25_000)
    assert producer.is_done
    seen = {each.uid for each in town.logged()}
    assert {each.uid for each in town.reported(MessageAcked)} <= seen
    assert {uid for uid, commits in decisions.items() if commits} == seen
    assert len(town.reported(MessageSent)) == 60


def test_the_same_seed_is_the_same_history() -> None:
    def digest(seed: int) -> str:
        town = _Town(seed)
        for style in ("plain", "keyed", "delayed", "transactional"):
            town.producer(style, messages=20, avoids_slow=True)
        town.at_ms(900, town.brokers[0].crash)
        town.at_ms(1_500, town.brokers[0].restart)
        town.world.run(8_000)
        return town.world.journal.digest()

    assert digest(5) == digest(5)
    assert digest(5) != digest(6)


def test_a_stopped_producer_begins_no_more() -> None:
    town = _Town()
    producer = town.producer()
    town.at_ms(700, producer.stop)
    town.world.run(3_000)
    assert producer.is_done
    assert 0 < len(town.reported(MessageSent)) < 20
