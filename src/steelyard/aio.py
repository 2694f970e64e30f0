"""The clients for asyncio: the same as those of `steelyard`, to be awaited.

async with Producer("localhost:9876") as producer:
    sent = await producer.send(Message("orders", b"{}"))
"""

from steelyard.client.admin import Admin
from steelyard.client.connect import Connect
from steelyard.client.consuming.consumer import Consumer
from steelyard.client.producing.producer import Producer
from steelyard.client.pulling.puller import Puller
from steelyard.model import Message, Queue

__all__ = ["Admin", "Connect", "Consumer", "Message", "Producer", "Puller", "Queue"]
