"""Node's client `ali-ons` sends to a topic that is there, and is handed messages; it makes no topics."""

from collections.abc import Iterator

import pytest

from tests.interop.backends import Cluster
from tests.interop.clients import JavaProcess, until
from tests.interop.guest_clients import running_guest
from tests.interop.java_clients import JavaClients, every, tagged
from tests.interop.nodejs import NODE, command
from tests.interop.prepared import NotReady
from tests.interop.wire_client import committed

QUEUES = 4

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def node(cluster: Cluster) -> Iterator[JavaProcess]:
    """Run our Node program for one cluster: inside, it keeps a producer of its own that never changes its servers."""
    try:
        program = command()
    except NotReady as problem:
        pytest.skip(str(problem))
    assert cluster.name_server
    with running_guest(NODE, program) as guest:
        yield guest


@pytest.fixture
def hands(node: JavaProcess, cluster: Cluster) -> Iterator[JavaClients]:
    """Give Node's producers and consumers."""
    hands = JavaClients(node, cluster)
    yield hands
    hands.stop()


def test_what_node_sends_arrives(hands: JavaClients, topic: str, group: str) -> None:
    producer = hands.producer("node-senders")
    sent = [producer.send(topic, f"bödy {number}", tags="T", keys=f"k{number}") for number in range(8)]
    assert {each.status for each in sent} == {"SEND_OK"}
    assert {each.queue for each in sent} == set(range(QUEUES))
    consumer = hands.push(group, every(topic))
    found = consumer.wait(8)
    assert {(each.body, each.tags, each.keys) for each in found} == {(f"bödy {n}", "T", f"k{n}") for n in range(8)}
    assert {(each.queue, each.offset, each.id) for each in found} == {(s.queue, s.offset, s.id) for s in sent}


def test_what_is_sent_while_node_waits_is_handed_over(hands: JavaClients, topic: str, group: str) -> None:
    consumer = hands.push(group, every(topic))
    producer = hands.producer("node-senders")
    for number in range(8):
        producer.send(topic, f"body {number}")
    assert {each.body for each in consumer.wait(8, 40)} == {f"body {number}" for number in range(8)}


def test_a_body_that_node_compressed_is_opened_by_node(hands: JavaClients, topic: str, group: str) -> None:
    hands.producer("node-senders").send(topic, "x", times=20_000)
    (found,) = hands.push(group, every(topic)).wait(1)
    assert (found.size, found.sys_flag & 1) == (20_000, 1)


def test_node_is_handed_only_what_its_tags_ask_for(hands: JavaClients, topic: str, group: str) -> None:
    producer = hands.producer("node-senders")
    for number in range(9):
        producer.send(topic, f"body {number}", tags="ABC"[number % 3])
    found = hands.push(group, tagged(topic, "A || C")).wait(6)
    assert {each.body for each in found} == {f"body {number}" for number in (0, 2, 3, 5, 6, 8)}


def test_a_message_that_fails_is_sent_back_and_comes_again(hands: JavaClients, topic: str, group: str) -> None:
    hands.producer("node-senders").send(topic, "twice", properties={"fails": "1"})
    consumer = hands.push(group, every(topic))
    # The first retry is due after ten seconds.
    first, second = consumer.wait(2, 60)
    assert [(each.body, each.times, each.failed) for each in (first, second)] == [
        ("twice", 0, True),
        ("twice", 1, False),
    ]


def test_everybody_hears_a_broadcast(hands: JavaClients, topic: str, group: str) -> None:
    consumers = [hands.push(group, every(topic), messageModel="BROADCASTING") for _ in range(2)]
    producer = hands.producer("node-senders")
    for number in range(8):
        producer.send(topic, f"body {number}")
    for consumer in consumers:
        assert {each.body for each in consumer.wait(8, 40)} == {f"body {number}" for number in range(8)}


def test_how_far_a_group_is_stands_at_the_broker(hands: JavaClients, cluster: Cluster, topic: str, group: str) -> None:
    producer = hands.producer("node-senders")
    for number in range(8):
        producer.send(topic, f"body {number}")
    hands.push(group, every(topic)).wait(8)
    with cluster.connection() as connection:
        until(
            lambda: sum(committed(connection, group, topic, queue) for queue in range(QUEUES)),
            lambda together: together == 8,
        )
