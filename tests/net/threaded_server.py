"""Servers in another thread, for connections that block theirs."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.net.toy_server import ToyServer, toy_server


@contextmanager
def running() -> Iterator[tuple[str, ToyServer]]:
    """Run a server in another thread."""
    started, ended = threading.Event(), threading.Event()
    found: list[ToyServer] = []

    async def serve() -> None:
        async with toy_server() as server:
            found.append(server)
            started.set()
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    started.wait()
    try:
        yield f"127.0.0.1:{found[0].listener.port}", found[0]
    finally:
        ended.set()
        thread.join()


@contextmanager
def scripted(*pieces: bytes) -> Iterator[str]:
    """Run a server that reads one request and then writes some bytes, piece by piece, and waits for the end."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65_536)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for piece in pieces:
                connection.sendall(piece)
            connection.recv(65_536)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        thread.join()
        listener.close()
