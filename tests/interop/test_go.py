"""Apache's Go client sends, is handed messages by many at once and in order, and listens to all of a topic."""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.interop.backends import Cluster
from tests.interop.clients import JavaProcess, JavaRefused, until
from tests.interop.golang import GO, command
from tests.interop.guest_clients import running_guest
from tests.interop.java_clients import JavaClients, every, sql, tagged
from tests.interop.prepared import NotReady
from tests.interop.wire_client import committed

QUEUES = 4
# Go's members look again at who owns what every twenty seconds, and after a message from the broker.
SETTLED_S = 45

pytestmark = pytest.mark.timeout(150)


@pytest.fixture(scope="module")
def go(cluster: Cluster) -> Iterator[JavaProcess]:
    """Run our Go program for one cluster."""
    try:
        program = command()
    except NotReady as problem:
        pytest.skip(str(problem))
    assert cluster.name_server
    with running_guest(GO, program) as guest:
        yield guest


@pytest.fixture
def hands(go: JavaProcess, cluster: Cluster) -> Iterator[JavaClients]:
    """Give Go's producers and consumers."""
    hands = JavaClients(go, cluster)
    yield hands
    hands.stop()


def test_what_go_sends_arrives(hands: JavaClients, topic: str, group: str) -> None:
    producer = hands.producer("go-senders")
    sent = [producer.send(topic, f"body {number}", tags="T", keys=f"k{number}") for number in range(8)]
    assert {each.status for each in sent} == {"SEND_OK"}
    assert Counter(each.queue for each in sent) == dict.fromkeys(range(QUEUES), 2)
    consumer = hands.push(group, every(topic))
    found = consumer.wait(8)
    assert {(each.body, each.tags, each.keys) for each in found} == {(f"body {n}", "T", f"k{n}") for n in range(8)}
    assert {(each.queue, each.offset, each.unique) for each in found} == {(s.queue, s.offset, s.id) for s in sent}


def test_go_sends_without_waiting_and_in_batches(hands: JavaClients, topic: str, group: str) -> None:
    producer = hands.producer("go-senders")
    producer.send_async(topic, "later")
    (reported,) = producer.wait_sent(1)
    assert reported["status"] == "SEND_OK"
    producer.send_oneway(topic, "never told")
    batch = producer.send_batch(topic, [f"item {number}" for number in range(5)], tags="B")
    assert batch.status == "SEND_OK"
    found = hands.push(group, every(topic)).wait(7)
    assert {each.body for each in found} == {"later", "never told", *(f"item {number}" for number in range(5))}
    items = [each for each in found if each.tags == "B"]
    assert {each.queue for each in items} == {batch.queue}
    assert sorted(each.offset for each in items) == list(range(batch.offset, batch.offset + 5))


def test_a_body_that_go_compressed_is_opened_by_go(hands: JavaClients, topic: str, group: str) -> None:
    hands.producer("go-senders").send(topic, "x", times=20_000)
    (found,) = hands.push(group, every(topic)).wait(1)
    assert (found.size, found.sys_flag & 1) == (20_000, 1)


def test_go_sends_to_a_topic_that_does_not_exist_yet(hands: JavaClients, topic: str, group: str) -> None:
    made = f"{topic}-made-by-go"
    assert hands.producer("go-senders").send(made, "the first").status == "SEND_OK"
    assert [each.body for each in hands.push(group, every(made)).wait(1)] == ["the first"]


def test_go_is_refused_a_topic_with_a_name_that_may_not_be(hands: JavaClients) -> None:
    with pytest.raises(JavaRefused):
        hands.producer("go-senders").send("not a name", "body")


def test_go_is_handed_only_what_its_tags_ask_for(hands: JavaClients, topic: str, group: str) -> None:
    producer = hands.producer("go-senders")
    for number in range(12):
        producer.send(topic, f"body {number}", tags="ABC"[number % 3])
    consumer = hands.push(group, tagged(topic, "A || C"))
    assert {each.tags for each in consumer.wait(8)} == {"A", "C"}
    producer.send(topic, "the end", tags="A")
    assert len(consumer.wait_until(lambda found: found[-1].body == "the end")) == 9


def test_go_is_handed_only_what_its_condition_asks_for(hands: JavaClients, topic: str, group: str) -> None:
    producer = hands.producer("go-senders")
    for number in range(8):
        producer.send(topic, f"body {number}", properties={"price": str(number)})
    found = hands.push(group, sql(topic, "price BETWEEN 2 AND 4")).wait(3)
    assert {each.body for each in found} == {"body 2", "body 3", "body 4"}


def test_a_message_that_fails_comes_again_as_a_retry(hands: JavaClients, topic: str, group: str) -> None:
    hands.producer("go-senders").send(topic, "twice", properties={"fails": "1"})
    consumer = hands.push(group, every(topic))
    # The first retry is due after ten seconds.
    first, second = consumer.wait(2, 60)
    assert [(each.body, each.times, each.failed) for each in (first, second)] == [
        ("twice", 0, True),
        ("twice", 1, False),
    ]
    assert first.unique == second.unique
    assert second.at_ms - first.at_ms >= 9_000


def test_order_is_kept_in_every_queue(hands: JavaClients, topic: str, group: str) -> None:
    producer = hands.producer("go-senders")
    for number in range(40):
        producer.send_selected(topic, f"{number}", number % QUEUES)
    consumer = hands.push(group, every(topic), orderly=True)
    found = consumer.wait(40, SETTLED_S)
    for queue in range(QUEUES):
        assert [int(each.body or "") for each in found if each.queue == queue] == list(range(queue, 40, QUEUES))


def test_everybody_hears_a_broadcast(hands: JavaClients, topic: str, group: str) -> None:
    consumers = [hands.push(group, every(topic), messageModel="BROADCASTING") for _ in range(2)]
    producer = hands.producer("go-senders")
    for number in range(8):
        producer.send(topic, f"body {number}")
    for consumer in consumers:
        assert {each.body for each in consumer.wait(8)} == {f"body {number}" for number in range(8)}


def test_two_members_settle_on_two_queues_each(hands: JavaClients, topic: str, group: str) -> None:
    both = [hands.push(group, every(topic)) for _ in range(2)]
    producer = hands.producer("go-senders")
    sent: set[str] = set()

    def hearers() -> list[int]:
        """Send to every queue, and return how many messages of this round each member heard."""
        bodies = {f"body {len(sent) + number}" for number in range(QUEUES)}
        for body in sorted(bodies):
            producer.send(topic, body)
        sent.update(bodies)
        both[0].wait_until(lambda found: sent <= {each.body for each in (*found, *both[1].received())}, SETTLED_S)
        return [sum(each.body in bodies for each in consumer.received()) for consumer in both]

    # While queues change hands, one member may hear all, and both may hear the same.
    until(hearers, lambda counts: counts == [QUEUES // 2] * 2, seconds=SETTLED_S)


def test_how_far_a_group_is_stands_at_the_broker(hands: JavaClients, cluster: Cluster, topic: str, group: str) -> None:
    producer = hands.producer("go-senders")
    for number in range(8):
        producer.send(topic, f"body {number}")
    consumer = hands.push(group, every(topic))
    consumer.wait(8)
    with cluster.connection() as connection:
        until(
            lambda: [committed(connection, group, topic, queue) for queue in range(QUEUES)],
            lambda offsets: offsets == [2] * QUEUES,
        )
    consumer.stop()
    producer.send(topic, "the ninth")
    assert [each.body for each in hands.push(group, every(topic)).wait(1)] == ["the ninth"]
