"""The clients for asyncio: the same as those of `steelyard`, to be awaited.

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
from steelyard.client.connect import Connect
from steelyard.client.consuming.consumer import Consumer
from steelyard.client.producing.producer import Producer
from steelyard.client.pulling.puller import Puller
from steelyard.model import Message, Queue

__all__ = ["Admin", "Connect", "Consumer", "Message", "Producer", "Puller", "Queue"]
