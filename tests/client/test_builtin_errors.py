"""What a program catches by Python's own classes, with blocking clients and with those for asyncio."""

import asyncio
import socket
from collections.abc import Iterator

import pytest

from steelyard import ClientConfig, Message, Producer, aio
from tests.client.sending_scene import scene

_REQUEST = Message("orders", b"nobody replies")


@pytest.fixture
def refusing() -> Iterator[ClientConfig]:
    """Keep a port bound on which nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield ClientConfig(f"127.0.0.1:{bound.getsockname()[1]}", timeout_s=0.1)


def test_a_request_without_a_reply_is_a_timeout_error() -> None:
    with scene() as cluster, Producer(cluster.namesrv, group="shop") as producer, pytest.raises(TimeoutError):
        producer.request(_REQUEST, timeout_s=0.1)


def test_a_request_without_a_reply_is_one_with_asyncio_too() -> None:
    async def scenario(namesrv: str) -> None:
        async with aio.Producer(namesrv, group="shop") as producer:
            with pytest.raises(TimeoutError, match="no reply to a request"):
                await producer.request(_REQUEST, timeout_s=0.1)
            # The limit of the caller's own is one that cancels, and no other is in its way.
            with pytest.raises(TimeoutError, match=r"^$"):
                async with asyncio.timeout(0.1):
                    await producer.request(_REQUEST, timeout_s=20)

    with scene() as cluster:
        asyncio.run(scenario(cluster.namesrv))


def test_a_server_that_is_not_there_is_a_connection_error(refusing: ClientConfig) -> None:
    with pytest.raises(ConnectionError, match="refused"), Producer(refusing):
        pass


def test_a_server_that_is_not_there_is_one_with_asyncio_too(refusing: ClientConfig) -> None:
    async def scenario() -> None:
        with pytest.raises(ConnectionError, match="refused"):
            async with aio.Producer(refusing):
                pass

    asyncio.run(scenario())
