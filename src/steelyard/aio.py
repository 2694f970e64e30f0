"""The clients for asyncio: those of `steelyard`, with coroutines.

>>> import asyncio
>>> from steelyard.serve.embedded import Cluster
>>> async def send_one(namesrv: str) -> int:
...     async with Producer(namesrv, group="shop") as producer:
...         sent = await producer.send(Message("orders", b"{}"))
...     return sent.offset
>>> with Cluster() as cluster:
...     asyncio.run(send_one(cluster.namesrv))
0
"""

from steelyard.client.admin import Admin
from steelyard.client.config import ClientConfig
from steelyard.client.consumer.consumer import Consumer
from steelyard.client.producer.producer import Producer
from steelyard.client.pull_consumer.pull_consumer import PullConsumer
from steelyard.model import Message, Queue

__all__ = ["Admin", "ClientConfig", "Consumer", "Message", "Producer", "PullConsumer", "Queue"]
