"""Handles messages in lists, chosen by a condition: python examples/batches.py localhost:9876."""

import sys

from steelyard import Consumer, StoredMessage

consumer = Consumer(sys.argv[1], group="statistics", start_from="first")


@consumer.handles("orders", sql="amount > 10", batch=32)
def count(messages: list[StoredMessage]) -> None:
    """Handle up to 32 at a time."""
    print(len(messages), "at once:", sum(float(message.properties["amount"]) for message in messages), flush=True)


consumer.run()
