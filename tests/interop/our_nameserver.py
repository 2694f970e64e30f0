"""Our name server on a port of its own, in a thread, for brokers that are not ours."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from steelyard.net.server import TcpListener
from steelyard.serve.nameserver import RunningNameServer

_START_SECONDS = 10


@contextmanager
def our_name_server() -> Iterator[int]:
    """Run a name server, and return its port."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="our name server", daemon=True)
    thread.start()
    listener = TcpListener.bind("127.0.0.1", 0)
    try:
        server = asyncio.run_coroutine_threadsafe(RunningNameServer.start(listener), loop).result(_START_SECONDS)
        try:
            yield listener.port
        finally:
            asyncio.run_coroutine_threadsafe(server.stop(), loop).result(_START_SECONDS)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_START_SECONDS)
        loop.close()
