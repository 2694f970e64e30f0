"""Who holds the loop reads by polling: shared with a group or exactly the queues named, from where it is told."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from tests.live.clusters import Live, until
from tests.live.handled import owned, poll_all, send_all

from steelyard import Admin, Message, Producer, Puller, Queue, StoredMessage
from steelyard.errors import ConfigurationError, SteelyardError

NUMBERS = [str(number) for number in range(40)]


def bodies(found: Sequence[StoredMessage]) -> list[str]:
    """Return the bodies by number."""
    return sorted((message.body.decode() for message in found), key=int)


def fail_after_a_poll(puller: Puller, topic: str) -> None:
    """Poll something and raise while it is dealt with."""
    with puller:
        puller.subscribe(topic)
        poll_all(puller, 1)
        raise ZeroDivisionError


def test_a_subscriber_polls_everything_and_commits(
    cluster: Live, producer: Producer, admin: Admin, topic: str, group: str
) -> None:
    send_all(producer, topic, NUMBERS)
    with Puller(cluster.namesrv, group=group, start_from="first") as puller:
        puller.subscribe(topic)
        assert bodies(poll_all(puller, 40)) == NUMBERS
        puller.commit()
        assert sum(row.lag for row in admin.offsets(group, topic)) == 0
        assert len(owned(puller, topic)) == 8
    with Puller(cluster.namesrv, group=group) as puller:
        puller.subscribe(topic)
        send_all(producer, topic, ["40"])
        assert bodies(poll_all(puller, 1)) == ["40"]


def test_what_was_polled_and_not_committed_comes_again(
    cluster: Live, producer: Producer, topic: str, group: str
) -> None:
    send_all(producer, topic, NUMBERS)
    with Puller(cluster.namesrv, group=group, start_from="first", auto_commit=False) as puller:
        puller.subscribe(topic)
        assert bodies(poll_all(puller, 40)) == NUMBERS
    with pytest.raises(ZeroDivisionError):
        fail_after_a_poll(Puller(cluster.namesrv, group=group, start_from="first"), topic)
    with Puller(cluster.namesrv, group=group, start_from="first") as puller:
        puller.subscribe(topic)
        assert bodies(poll_all(puller, 40)) == NUMBERS


def test_tags_and_conditions_choose(cluster: Live, producer: Producer, topic: str, group: str) -> None:
    for number in NUMBERS:
        tags = "even" if int(number) % 2 == 0 else "odd"
        producer.send(Message(topic, number.encode(), tags=tags, properties={"n": number}))
    with Puller(cluster.namesrv, group=group, start_from="first") as puller:
        puller.subscribe(topic, tags="even")
        assert bodies(poll_all(puller, 20)) == NUMBERS[::2]
    with Puller(cluster.namesrv, group=f"{group}-sql", start_from="first") as puller:
        puller.subscribe(topic, sql="n >= 30")
        assert bodies(poll_all(puller, 10)) == NUMBERS[30:]
    with Puller(cluster.namesrv, group=f"{group}-assigned", start_from="first") as puller:
        puller.assign(puller.queues(topic), tags="odd")
        assert bodies(poll_all(puller, 20)) == NUMBERS[1::2]


def test_assigned_queues_are_read_from_anywhere(
    cluster: Live, producer: Producer, admin: Admin, topic: str, group: str
) -> None:
    with Puller(cluster.namesrv, group=group, start_from="first", auto_commit=False) as puller:
        queue = puller.queues(topic)[3]
        for number in NUMBERS:
            producer.send(Message(topic, number.encode()), queue=queue)
        puller.assign([queue])
        assert bodies(poll_all(puller, 40)) == NUMBERS
        assert puller.position(queue) == 40
        puller.seek(queue, 35)
        assert puller.position(queue) == 35
        assert bodies(poll_all(puller, 5)) == NUMBERS[35:]
        puller.seek(queue, "first")
        assert bodies(puller.poll(timeout_s=30, most=10)) == NUMBERS[:10]
        puller.seek(queue, "last")
        assert puller.poll(timeout_s=0.2) == []
        stored = admin.message_at(queue, 20)
        assert stored is not None
        puller.seek(queue, stored.stored_at)
        found = poll_all(puller, 1)[0]
        is_near = cluster.is_4 and found.stored_at == stored.stored_at
        assert found.offset <= 20 or is_near, "4.9 goes to any message of that millisecond, others to the first"
        assert puller.committed(queue) == (0 if cluster.is_4 else None), "4.9 says 0 of a young queue, as if it were so"
        puller.commit({queue: 17})
        assert puller.committed(queue) == 17
        assert (puller.begins([queue]), puller.ends([queue])) == ({queue: 0}, {queue: 40})
        assert puller.offset_at(queue, datetime.now(UTC)) == (39 if cluster.is_4 else 40), "4.9 goes to the last one"
    assert [row.committed for row in admin.offsets(group, topic) if row.queue == queue] == [17]


def test_a_subscriber_may_seek_too(cluster: Live, producer: Producer, topic: str, group: str) -> None:
    queue = Queue(topic, cluster.brokers[0], 0)
    for number in NUMBERS:
        producer.send(Message(topic, number.encode()), queue=queue)
    with Puller(cluster.namesrv, group=group, start_from="first") as puller:
        puller.subscribe(topic)
        assert bodies(poll_all(puller, 40)) == NUMBERS
        puller.seek(queue, 38)
        assert bodies(poll_all(puller, 2)) == NUMBERS[38:]


def test_a_paused_queue_keeps_its_place(cluster: Live, producer: Producer, topic: str, group: str) -> None:
    send_all(producer, topic, NUMBERS)
    with Puller(cluster.namesrv, group=group, start_from="first") as puller:
        queues = puller.queues(topic)
        puller.assign(queues)
        puller.pause(queues[:4])
        first = poll_all(puller, 20)
        assert {message.queue for message in first} == set(queues[4:])
        assert puller.paused == frozenset(queues[:4])
        assert puller.poll(timeout_s=0.1) == []
        puller.resume(queues[:4])
        second = poll_all(puller, 20)
        assert {message.queue for message in second} == set(queues[:4])
    assert bodies([*first, *second]) == NUMBERS


def test_a_poll_returns_when_something_comes(cluster: Live, producer: Producer, topic: str, group: str) -> None:
    with Puller(cluster.namesrv, group=group) as puller:
        puller.subscribe(topic)
        until(lambda: puller.poll(timeout_s=0.05) == [] and len(owned(puller, topic)) == 8, "it has all queues")
        future = producer.submit(Message(topic, b"1"))
        assert bodies(poll_all(puller, 1)) == ["1"]
        future.result(30)
        producer.send(Message(topic, b"2"))
        assert next(iter(puller)).body == b"2"


def test_what_cannot_be_read_is_said(cluster: Live, topic: str, group: str) -> None:
    with Puller(cluster.namesrv, group=group) as puller:
        with pytest.raises(SteelyardError, match=f"Did you mean '{topic}'"):
            puller.queues(topic[:-1])
        puller.assign([Queue(topic, cluster.brokers[0], 99)])
        with pytest.raises(ConfigurationError, match="there is no queue"):
            puller.poll()
