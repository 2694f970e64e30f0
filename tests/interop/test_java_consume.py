"""Java's consumers: handed over, in order, to all, pulled and polled."""

from collections import defaultdict
from collections.abc import Callable

from tests.interop.clients import until
from tests.interop.java_clients import Delivered, JavaClients, every, tagged

COUNT = 40


def test_a_push_consumer_waits_for_messages_and_gets_each_once(hands: JavaClients, topic: str, group: str) -> None:
    consumer = hands.push(group, every(topic))
    until(lambda: consumer.owned(topic), lambda owned: owned == [0, 1, 2, 3])
    producer = hands.producer("senders")
    # The consumer is parked at the broker by now: each send wakes it.
    for number in range(COUNT):
        producer.send(topic, str(number))
    found = consumer.wait(COUNT)
    assert sorted(int(each.body or "") for each in found) == list(range(COUNT))


def test_an_orderly_consumer_gets_each_queue_in_order_even_after_failures(
    hands: JavaClients, topic: str, group: str
) -> None:
    producer = hands.producer("senders")
    for number in range(COUNT):
        fails = {"fails": 2} if number in (8, 9) else {}
        producer.send_selected(topic, str(number), number % 2, properties=fails)
    consumer = hands.push(group, every(topic), orderly=True, consumeThreadMin=4, consumeThreadMax=4)
    found = consumer.wait_until(lambda found: len({each.body for each in found if not each.failed}) == COUNT)
    queues = defaultdict(list)
    for each in found:
        queues[each.queue].append(int(each.body or ""))
    assert queues[0] == [0, 2, 4, 6, 8, 8, *range(8, COUNT, 2)]
    assert queues[1] == [1, 3, 5, 7, 9, 9, *range(9, COUNT, 2)]


def test_broadcasting_hands_every_message_to_every_member(hands: JavaClients, topic: str, group: str) -> None:
    # Now and then pulls of a 5.5 member are refused after its start (25: the broker knows an older subscription), by
    # Apache's broker too, it seems; the next heartbeat should end that, so it comes soon.
    members = [
        hands.push(
            group,
            every(topic),
            messageModel="BROADCASTING",
            instanceName=f"{group}-{number}",
            heartbeatBrokerInterval=1000,
        )
        for number in range(2)
    ]
    until(lambda: [member.owned(topic) for member in members], lambda owned: owned == [[0, 1, 2, 3]] * 2)
    producer = hands.producer("senders")
    for number in range(8):
        producer.send(topic, str(number))
    for member in members:
        assert sorted(each.body or "" for each in member.wait(8)) == [str(number) for number in range(8)]


def test_one_consumer_may_have_several_topics(hands: JavaClients, topic: str, group: str) -> None:
    other = f"{topic}-other"
    producer = hands.producer("senders")
    producer.send(topic, "here", tags="A")
    producer.send(other, "there", tags="A")
    producer.send(other, "not this", tags="B")
    producer.send(other, "there too", tags="C")
    found = hands.push(group, every(topic), tagged(other, "A || C")).wait(3)
    assert {(each.topic, each.body) for each in found} == {(topic, "here"), (other, "there"), (other, "there too")}


def test_a_pull_consumer_holds_the_loop(hands: JavaClients, topic: str, group: str) -> None:
    producer, pull_consumer = hands.producer("senders"), hands.pull_consumer(group)
    queues = pull_consumer.queues(topic)
    assert queues == [(topic, hands.cluster.broker_name, number) for number in range(4)]
    queue = queues[2]
    assert pull_consumer.pull(queue, 0).status == "NO_NEW_MSG"
    for number in range(10):
        producer.send_to(queue, str(number), tags="even" if number % 2 == 0 else "odd")
    assert pull_consumer.bounds(queue) == (0, 10)

    page = pull_consumer.pull(queue, 0, most=4)
    assert (page.status, page.next, page.min, page.max) == ("FOUND", 4, 0, 10)
    assert [each.body for each in page.messages] == ["0", "1", "2", "3"]
    odd = pull_consumer.pull(queue, 4, tags="odd")
    assert [each.body for each in odd.messages] == ["5", "7", "9"]
    assert (odd.status, odd.next) == ("FOUND", 10)
    none = pull_consumer.pull(queue, 0, tags="neither")
    assert (none.status, none.next, none.messages) == ("NO_MATCHED_MSG", 10, [])
    end = pull_consumer.pull(queue, 10)
    assert (end.status, end.next) == ("NO_NEW_MSG", 10)
    beyond = pull_consumer.pull(queue, 99)
    assert (beyond.status, beyond.next) == ("OFFSET_ILLEGAL", 10)


def test_a_pull_consumer_keeps_its_offsets_at_the_broker(hands: JavaClients, topic: str, group: str) -> None:
    producer, pull_consumer = hands.producer("senders"), hands.pull_consumer(group)
    queue = pull_consumer.queues(topic)[1]
    for number in range(5):
        producer.send_to(queue, str(number))
    assert (
        len(pull_consumer.pull(queue, 0).messages) == 5
    )  # the first pull makes the group; 5.x keeps no offsets of others
    pull_consumer.commit(queue, 3)
    assert until(lambda: pull_consumer.committed(queue), lambda offset: offset == 3) == 3
    pull_consumer.stop()
    assert hands.pull_consumer(group).committed(queue) == 3


def test_a_lite_consumer_subscribes_polls_and_commits(hands: JavaClients, topic: str, group: str) -> None:
    producer = hands.producer("senders")
    for number in range(12):
        producer.send(topic, str(number), tags="odd" if number % 2 else "even")
    consumer = hands.lite(group, tagged(topic, "odd"), autoCommit=False)
    found = _polled(lambda: consumer.poll(500), 6)
    assert sorted(int(each.body or "") for each in found) == [1, 3, 5, 7, 9, 11]
    assert [number for _, _, number in consumer.owned()] == [0, 1, 2, 3]
    consumer.commit()
    consumer.stop()
    producer.send(topic, "99", tags="odd")
    again = hands.lite(group, tagged(topic, "odd"))
    assert [each.body for each in _polled(lambda: again.poll(500), 1)] == ["99"]


def test_a_lite_consumer_is_assigned_queues_and_seeks(hands: JavaClients, topic: str, group: str) -> None:
    producer = hands.producer("senders")
    queue = (topic, hands.cluster.broker_name, 1)
    for number in range(10):
        producer.send_to(queue, str(number))
    consumer = hands.lite(group, queues=[queue])
    assert consumer.queues(topic)[1] == queue
    assert [each.body for each in _polled(lambda: consumer.poll(500), 10)] == [str(number) for number in range(10)]
    consumer.seek(queue, 7)
    assert [each.body for each in _polled(lambda: consumer.poll(500), 3)] == ["7", "8", "9"]
    consumer.seek(queue, "begin")
    assert len(_polled(lambda: consumer.poll(500), 10)) == 10
    consumer.seek(queue, "end")
    assert consumer.poll(300) == []
    producer.send_to(queue, "new")
    assert [each.body for each in _polled(lambda: consumer.poll(500), 1)] == ["new"]


def _polled(poll: Callable[[], list[Delivered]], count: int) -> list[Delivered]:
    """Poll until there are so many messages."""
    found: list[Delivered] = []

    def more() -> list[Delivered]:
        found.extend(poll())
        return found

    return until(more, lambda found: len(found) >= count)
