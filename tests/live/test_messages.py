"""An administrator finds messages and what became of them, and has one handled again."""

import pytest

from steelyard import Admin, Consumer, Message, Producer, Queue
from steelyard.errors import ConsumerOffline, NoMessage, TopicNotFound
from tests.live.clusters import Live, until
from tests.live.handled import Handled, send_all, stored

NUMBERS = [str(number) for number in range(8)]


def test_a_message_is_found_without_its_topic(admin: Admin, producer: Producer, topic: str) -> None:
    sent = producer.send(Message(topic, b"x", keys="k"))
    place = stored(admin, sent).offset_id
    until(lambda: admin.messages.find_by_key(topic, "k"), "it is in the index")
    assert admin.messages.find(sent.message_id).offset_id == place
    assert admin.messages.find(place).message_id == sent.message_id
    with pytest.raises(NoMessage):
        admin.messages.find("7F0000010000000000000000DEADBEEF")


def test_messages_are_read_by_place_queue_and_tag(admin: Admin, producer: Producer, topic: str) -> None:
    sent = [
        producer.send(Message(topic, each.encode(), "odd" if int(each) % 2 else "even"), key="k") for each in NUMBERS
    ]
    stored(admin, sent[-1])
    queue = sent[0].queue
    assert [each.body for each in admin.messages.list(topic, start=6)] == [b"6", b"7"]
    assert [each.body for each in admin.messages.list(topic, start=-1, queue=queue)] == [b"7"]
    assert [each.body for each in admin.messages.list(topic, newest=True, most=2)] == [b"6", b"7"]
    assert [each.body for each in admin.messages.list(topic, tags="odd", queue=queue)] == [b"1", b"3", b"5", b"7"]


def test_a_queue_has_an_index(admin: Admin, producer: Producer, topic: str) -> None:
    sent = [producer.send(Message(topic, each.encode()), key="k") for each in NUMBERS]
    last = stored(admin, sent[-1])
    part = admin.messages.consume_queue(sent[0].queue, 6)
    assert (part.start, part.end, [row.offset for row in part.rows]) == (0, 8, [6, 7])
    assert (part.rows[-1].position, part.rows[-1].size) == (last.position, last.size)
    other = next(row.queue for row in admin.topics.describe(topic).queues if row.queue != sent[0].queue)
    assert admin.messages.consume_queue(Queue(topic, other.broker, other.queue_id)).rows == ()


def test_a_member_handles_a_message_at_once(
    admin: Admin, cluster: Live, producer: Producer, topic: str, group: str
) -> None:
    handled = Handled()
    consumer = Consumer(cluster.namesrv, group=group, start_from="first")
    consumer.handles(topic)(handled)
    send_all(producer, topic, NUMBERS)
    with consumer:
        handled.wait(len(NUMBERS))
        message = admin.messages.list(topic, most=1)[0]
        until(lambda: all(reader.is_past for reader in admin.messages.group_progress(message)), "all is committed")
        assert [reader.group for reader in admin.messages.group_progress(message)] == [group]
        done = admin.messages.redeliver(message, group, consumer.id)
        assert (done.outcome, done.is_done) == ("done", True)
        handled.wait(len(NUMBERS) + 1)
    assert handled.bodies.count(message.body.decode()) == 2
    with pytest.raises(ConsumerOffline, match="is not online at"):
        admin.messages.redeliver(message, group, consumer.id)


def test_what_clients_wrote_down_is_found(admin: Admin, producer: Producer, topic: str) -> None:
    with pytest.raises(TopicNotFound, match="keeps no traces"):
        admin.messages.traces("some-id", f"{topic}-none")
    with pytest.raises(NoMessage, match="has no trace of message"):
        admin.messages.traces("some-id", topic)
    record = f"Recall\x015000\x01region\x01shop\x01{topic}\x01some-id\x01true\x02"
    producer.send(Message(topic, record.encode(), keys="some-id"))
    until(lambda: admin.messages.find_by_key(topic, "some-id"), "it is in the index")
    (trace,) = admin.messages.traces("some-id", topic)
    assert (trace.what, trace.at_ms, trace.group) == ("recalled", 5000, "shop")
