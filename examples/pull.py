"""Reads what is there, in a loop of its own: python examples/pull.py localhost:9876."""

import sys

from steelyard import Message, Producer, PullConsumer

with Producer(sys.argv[1], group="shop") as producer:
    producer.send_many(Message("visits", f"visitor {number}".encode()) for number in range(10))

seen = 0
with PullConsumer(sys.argv[1], group="report", start_from="first") as consumer:
    consumer.subscribe("visits")
    while seen < 10:
        for message in consumer.poll(timeout_s=1):
            seen += 1
            print(message.body.decode())
        consumer.commit()
    print(
        "at the end:",
        all(consumer.committed(queue) == end for queue, end in consumer.ends(consumer.queues("visits")).items() if end),
    )
