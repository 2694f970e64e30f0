"""Reads what is there, in a loop of its own: python examples/pull.py localhost:9876."""

import sys

from steelyard import Message, Producer, Puller

with Producer(sys.argv[1], group="shop") as producer:
    producer.send_many(Message("visits", f"visitor {number}".encode()) for number in range(10))

seen = 0
with Puller(sys.argv[1], group="report", start_from="first") as puller:
    puller.subscribe("visits")
    while seen < 10:
        for message in puller.poll(timeout_s=1):
            seen += 1
            print(message.body.decode())
        puller.commit()
    print(
        "at the end:",
        all(puller.committed(queue) == end for queue, end in puller.ends(puller.queues("visits")).items() if end),
    )
