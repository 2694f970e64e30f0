"""Code under test: a consumer that bills orders, and refuses some."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from steelyard import Consumer
from steelyard.client.consumer.received_message import ReceivedMessage
from steelyard.testing import Mq


@contextmanager
def billing(mq: Mq, *, tags: str | None = None, bill: Callable[[bytes], object] = bytes) -> Iterator[list[bytes]]:
    """Run a member of the group billing; what it has handled is in the list."""
    billed: list[bytes] = []
    consumer = Consumer(mq.address, "billing", start_from="first", drain_s=0.1)

    @consumer.handles("orders", tags=tags)
    def handle(message: ReceivedMessage) -> None:
        bill(message.body)
        billed.append(message.body)

    with consumer:
        yield billed
