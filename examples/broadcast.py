"""Two members that both get everything: python examples/broadcast.py localhost:9876 some-directory."""

import sys
import threading
from pathlib import Path

from steelyard import Consumer, Message, Producer, StoredMessage

namesrv, folder = sys.argv[1], Path(sys.argv[2])
both = threading.Barrier(3, timeout=30)


def member(name: str) -> Consumer:
    """Make a member that keeps in a file how far it is."""
    consumer = Consumer(namesrv, group="caches", mode="broadcast", start_from="first", offsets_dir=folder, name=name)

    @consumer.handles("prices")
    def forget(message: StoredMessage) -> None:
        print(f"{name} forgets {message.body.decode()}\n", end="", flush=True)  # one write: both print at once
        both.wait()

    return consumer


with Producer(namesrv, group="shop") as producer:
    producer.send(Message("prices", b"sku-1"))
with member("left"), member("right"):
    both.wait()
