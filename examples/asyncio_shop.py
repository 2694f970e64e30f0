"""The same in asyncio, until Ctrl-C or SIGTERM: python examples/asyncio_shop.py localhost:9876."""

import asyncio
import sys

from steelyard import Message, ReceivedMessage
from steelyard.aio import Consumer, Producer


async def main(namesrv: str) -> None:
    """Send some orders and handle them on the same loop."""
    consumer = Consumer(namesrv, group="async-billing", start_from="first")

    @consumer.handles("async-orders")
    async def bill(message: ReceivedMessage) -> None:
        await asyncio.sleep(0.01)
        print("billed", message.body.decode(), flush=True)

    async with Producer(namesrv, group="async-shop") as producer:
        await asyncio.gather(*(producer.send(Message("async-orders", f"order-{n}".encode())) for n in range(5)))
        await consumer.run()


asyncio.run(main(sys.argv[1]))
