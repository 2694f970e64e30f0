"""Asks and answers: python examples/request_reply.py localhost:9876."""

import sys

from steelyard import Admin, Consumer, Message, Producer, ReceivedMessage

PRICES = {b"sku-1": b"9.90", b"sku-2": b"12.00"}

consumer = Consumer(sys.argv[1], group="price-list", start_from="first")


@consumer.handles("price-requests")
def answer(message: ReceivedMessage) -> None:
    """Answer a request."""
    message.reply(PRICES[message.body])


with Admin(sys.argv[1]) as admin:
    admin.topics.create("price-requests", 4)
with consumer, Producer(sys.argv[1], group="shop") as producer:
    for sku in PRICES:
        reply = producer.request(Message("price-requests", sku), timeout_s=10)
        print(sku.decode(), "costs", reply.body.decode())
