"""Handles messages until Ctrl-C or SIGTERM: python examples/receive.py localhost:9876."""

import logging
import sys

from steelyard import Consumer, StoredMessage

logging.basicConfig()  # warnings of the consumer, such as a handler that raised
consumer = Consumer(sys.argv[1], group="billing", strategy="sticky", start_from="first")


@consumer.handles("orders", tags="paid || refunded")
def bill(message: StoredMessage) -> None:
    """Return to acknowledge; raise to get it again later."""
    print("billed", message.body.decode(), flush=True)


consumer.on_rebalance(lambda event: print(event, flush=True))
consumer.run()
print("left in order")
