"""Sends messages in every way there is: python examples/send.py localhost:9876."""

import sys
from collections.abc import Sequence

from steelyard import Message, Producer, Queue


def by_region(queues: Sequence[Queue], message: Message) -> Queue:
    """Choose a queue by a property of the message."""
    return queues[sum(message.properties["region"].encode()) % len(queues)]


with Producer(sys.argv[1], group="shop") as producer:
    sent = producer.send(Message("orders", b'{"id": 1}', tags="paid", keys="order-1"))
    print("sent to", sent.queue, "at", sent.offset, "as", sent.message_id)

    first = producer.send(Message("orders", b'{"id": 2}'), key="order-2")
    second = producer.send(Message("orders", b'{"id": 3}'), key="order-2")
    print("one key, one queue:", first.queue == second.queue)

    producer.send(Message("orders", b'{"id": 4}', properties={"region": "eu"}), select=by_region)
    producer.send(Message("orders", b'{"id": 5}'), delay_s=30)

    results = producer.send_many(Message("orders", b'{"id": %d}' % number) for number in range(6, 106))
    print("packed into batches:", len(results))

    futures = [producer.submit(Message("orders", b'{"id": %d}' % number)) for number in range(106, 206)]
    print("many in flight:", len([future.result() for future in futures]))

    producer.post(Message("audit", b"no answer, no promise"))
