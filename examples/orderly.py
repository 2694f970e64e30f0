"""Handles the messages of each queue in order, one at a time: python examples/orderly.py localhost:9876."""

import sys

from steelyard import Admin, Consumer, Message, Producer, StoredMessage

STEPS = ("created", "paid", "shipped")

with Admin(sys.argv[1]) as admin:
    admin.topics.create("steps", 4)  # first: a key keeps its queue as long as the topic keeps its queues

with Producer(sys.argv[1], group="shop") as producer:
    for step in STEPS:
        for order in ("order-1", "order-2", "order-3"):
            producer.send(Message("steps", f"{order} {step}".encode(), keys=order), key=order)

consumer = Consumer(sys.argv[1], group="warehouse", start_from="first")


@consumer.handles("steps", orderly=True)
def follow(message: StoredMessage) -> None:
    """Handle the steps of an order as they were sent."""
    print(f"{message.body.decode()}\n", end="", flush=True)  # one write: queues are handled side by side


consumer.run()
