"""Who holds the loop reads by polling: shared with a group or exactly the queues named, from where it is told."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from steelyard import Admin, Message, Producer, PullConsumer, Queue, StoredMessage
from steelyard.errors import ConfigurationError, SteelyardError
from tests.live.clusters import Live, until
from tests.live.handled import owned, poll_all, send_all

NUMBERS = [str(number) for number in range(40)]


def bodies(found: Sequence[StoredMessage]) -> list[str]:
    """Return the bodies by number."""
    return sorted((message.body.decode() for message in found), key=int)


def fail_after_a_poll(consumer: PullConsumer, topic: str) -> None:
    """Poll something and raise while it is dealt with."""
    with consumer:
        consumer.subscribe(topic)
        poll_all(consumer, 1)
        raise ZeroDivisionError


def test_a_subscriber_polls_everything_and_commits(
    cluster: Live, producer: Producer, admin: Admin, topic: str, group: str
) -> None:
    send_all(producer, topic, NUMBERS)
    with PullConsumer(cluster.namesrv, group=group, start_from="first") as consumer:
        consumer.subscribe(topic)
        assert bodies(poll_all(consumer, 40)) == NUMBERS
        consumer.commit()
        assert sum(row.lag for row in admin.offsets.list(group, topic)) == 0
        assert len(owned(consumer, topic)) == 8
    with PullConsumer(cluster.namesrv, group=group) as consumer:
        consumer.subscribe(topic)
        send_all(producer, topic, ["40"])
        assert bodies(poll_all(consumer, 1)) == ["40"]


def test_what_was_polled_and_not_committed_comes_again(
    cluster: Live, producer: Producer, topic: str, group: str
) -> None:
    send_all(producer, topic, NUMBERS)
    with PullConsumer(cluster.namesrv, group=group, start_from="first", auto_commit=False) as consumer:
        consumer.subscribe(topic)
        assert bodies(poll_all(consumer, 40)) == NUMBERS
    with pytest.raises(ZeroDivisionError):
        fail_after_a_poll(PullConsumer(cluster.namesrv, group=group, start_from="first"), topic)
    with PullConsumer(cluster.namesrv, group=group, start_from="first") as consumer:
        consumer.subscribe(topic)
        assert bodies(poll_all(consumer, 40)) == NUMBERS


def test_tags_and_conditions_choose(cluster: Live, producer: Producer, topic: str, group: str) -> None:
    for number in NUMBERS:
        tags = "even" if int(number) % 2 == 0 else "odd"
        producer.send(Message(topic, number.encode(), tags=tags, properties={"n": number}))
    with PullConsumer(cluster.namesrv, group=group, start_from="first") as consumer:
        consumer.subscribe(topic, tags="even")
        assert bodies(poll_all(consumer, 20)) == NUMBERS[::2]
    with PullConsumer(cluster.namesrv, group=f"{group}-sql", start_from="first") as consumer:
        consumer.subscribe(topic, sql="n >= 30")
        assert bodies(poll_all(consumer, 10)) == NUMBERS[30:]
    with PullConsumer(cluster.namesrv, group=f"{group}-assigned", start_from="first") as consumer:
        consumer.assign(consumer.queues(topic), tags="odd")
        assert bodies(poll_all(consumer, 20)) == NUMBERS[1::2]


def test_assigned_queues_are_read_from_anywhere(
    cluster: Live, producer: Producer, admin: Admin, topic: str, group: str
) -> None:
    with PullConsumer(cluster.namesrv, group=group, start_from="first", auto_commit=False) as consumer:
        queue = consumer.queues(topic)[3]
        for number in NUMBERS:
            producer.send(Message(topic, number.encode()), queue=queue)
        consumer.assign([queue])
        assert bodies(poll_all(consumer, 40)) == NUMBERS
        assert consumer.position(queue) == 40
        consumer.seek(queue, 35)
        assert consumer.position(queue) == 35
        assert bodies(poll_all(consumer, 5)) == NUMBERS[35:]
        consumer.seek(queue, "first")
        assert bodies(consumer.poll(timeout_s=30, most=10)) == NUMBERS[:10]
        consumer.seek(queue, "last")
        assert consumer.poll(timeout_s=0.2) == []
        stored = admin.messages.at(queue, 20)
        assert stored is not None
        consumer.seek(queue, stored.stored_at)
        found = poll_all(consumer, 1)[0]
        is_near = cluster.is_4 and found.stored_at == stored.stored_at
        assert found.offset <= 20 or is_near, "4.9 goes to any message of that millisecond, others to the first"
        assert consumer.committed(queue) == (0 if cluster.is_4 else None), (
            "4.9 says 0 of a young queue, as if it were so"
        )
        consumer.commit({queue: 17})
        assert consumer.committed(queue) == 17
        assert (consumer.begins([queue]), consumer.ends([queue])) == ({queue: 0}, {queue: 40})
        assert consumer.offset_at(queue, datetime.now(UTC)) == (39 if cluster.is_4 else 40), "4.9 goes to the last one"
    assert [row.committed for row in admin.offsets.list(group, topic) if row.queue == queue] == [17]


def test_a_subscriber_may_seek_too(cluster: Live, producer: Producer, topic: str, group: str) -> None:
    queue = Queue(topic, cluster.brokers[0], 0)
    for number in NUMBERS:
        producer.send(Message(topic, number.encode()), queue=queue)
    with PullConsumer(cluster.namesrv, group=group, start_from="first") as consumer:
        consumer.subscribe(topic)
        assert bodies(poll_all(consumer, 40)) == NUMBERS
        consumer.seek(queue, 38)
        assert bodies(poll_all(consumer, 2)) == NUMBERS[38:]


def test_a_paused_queue_keeps_its_place(cluster: Live, producer: Producer, topic: str, group: str) -> None:
    send_all(producer, topic, NUMBERS)
    with PullConsumer(cluster.namesrv, group=group, start_from="first") as consumer:
        queues = consumer.queues(topic)
        consumer.assign(queues)
        consumer.pause(queues[:4])
        first = poll_all(consumer, 20)
        assert {message.queue for message in first} == set(queues[4:])
        assert consumer.paused == frozenset(queues[:4])
        assert consumer.poll(timeout_s=0.1) == []
        consumer.resume(queues[:4])
        second = poll_all(consumer, 20)
        assert {message.queue for message in second} == set(queues[:4])
    assert bodies([*first, *second]) == NUMBERS


def test_a_poll_returns_when_something_comes(cluster: Live, producer: Producer, topic: str, group: str) -> None:
    with PullConsumer(cluster.namesrv, group=group) as consumer:
        consumer.subscribe(topic)
        until(lambda: consumer.poll(timeout_s=0.05) == [] and len(owned(consumer, topic)) == 8, "it has all queues")
        future = producer.submit(Message(topic, b"1"))
        assert bodies(poll_all(consumer, 1)) == ["1"]
        future.result(30)
        producer.send(Message(topic, b"2"))
        assert next(iter(consumer)).body == b"2"


def test_what_cannot_be_read_is_reported(cluster: Live, topic: str, group: str) -> None:
    with PullConsumer(cluster.namesrv, group=group) as consumer:
        with pytest.raises(SteelyardError, match=f"Did you mean '{topic}'"):
            consumer.queues(topic[:-1])
        consumer.assign([Queue(topic, cluster.brokers[0], 99)])
        with pytest.raises(ConfigurationError, match="there is no queue"):
            consumer.poll()
