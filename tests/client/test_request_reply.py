"""A request gets its reply, and one that nobody answers ends in time."""

import asyncio
import threading

import pytest

from steelyard.aio import Producer as AsyncProducer
from steelyard.client.config import ClientConfig
from steelyard.client.session import Session
from steelyard.client.sync.producer import Producer
from steelyard.errors import ConnectionClosed, ReplyTimedOut
from steelyard.model import Message, StoredMessage
from steelyard.protocol.request_reply import reply_request
from steelyard.serve.embedded import Cluster
from tests.client.sending_scene import scene, stored
from tests.waiting import until

PRICE = Message("orders", b"sku-1")


def requests(cluster: Cluster, topic: str = "orders") -> list[StoredMessage]:
    """Return the requests that were stored."""
    return [message for messages in stored(cluster, topic).values() for message in messages]


async def answer(cluster: Cluster, message: StoredMessage, body: bytes) -> None:
    """Reply to a message by hand, as a consumer of any kind does."""
    session = Session(ClientConfig(cluster.namesrv))
    await session.start()
    try:
        await session.routes.find(message.topic)
        reply = reply_request("repliers", message, body, unique_key="R1", now_ms=1)
        await session.request_ok(message.queue.broker, reply)
    finally:
        await session.close()


def test_a_reply_comes_back_to_the_one_who_asked() -> None:
    with scene() as cluster, Producer(cluster.namesrv, group="shop") as producer:

        def reply() -> None:
            until(lambda: len(requests(cluster)) == 1)
            asyncio.run(answer(cluster, requests(cluster)[0], b"9.99"))

        replier = threading.Thread(target=reply)
        replier.start()
        got = producer.request(PRICE, timeout_s=20)
        replier.join()
        assert got.body == b"9.99"
        (asked,) = requests(cluster)
        assert asked.body == b"sku-1"
        assert asked.properties["REPLY_TO_CLIENT"] == producer.client_id


def test_many_at_once_get_each_their_own() -> None:
    async def scenario(cluster: Cluster) -> None:
        async with AsyncProducer(ClientConfig(cluster.namesrv, namespace="eu"), group="shop") as producer:
            asking = [
                asyncio.ensure_future(producer.request(Message("orders", b"%d" % number), timeout_s=20))
                for number in range(8)
            ]
            await asyncio.to_thread(until, lambda: len(requests(cluster, "eu%orders")) == 8)
            for message in reversed(requests(cluster, "eu%orders")):
                await answer(cluster, message, b"re: " + message.body)
            replies = await asyncio.gather(*asking)
            assert [reply.body for reply in replies] == [b"re: %d" % number for number in range(8)]

    with scene(topic="eu%orders") as cluster:
        asyncio.run(scenario(cluster))


def test_a_request_that_nobody_answers_ends_in_time_and_a_late_reply_is_passed_over() -> None:
    async def scenario(cluster: Cluster) -> None:
        async with AsyncProducer(cluster.namesrv, group="shop") as producer:
            with pytest.raises(ReplyTimedOut, match="no reply to a request to 'orders' within 100 ms"):
                await producer.request(PRICE, timeout_s=0.1)
            await answer(cluster, requests(cluster)[0], b"too late")
            assert (await producer.send(Message("orders", b"it goes on"))).queue.topic == "orders"

    with scene() as cluster:
        asyncio.run(scenario(cluster))


def test_closing_ends_the_wait_for_a_reply() -> None:
    async def scenario(cluster: Cluster) -> None:
        producer = await AsyncProducer(cluster.namesrv, group="shop").open()
        asking = asyncio.ensure_future(producer.request(PRICE, timeout_s=60))
        await asyncio.to_thread(until, lambda: len(requests(cluster)) == 1)
        await producer.close()
        with pytest.raises(ConnectionClosed, match="closed before a reply came"):
            await asking

    with scene() as cluster:
        asyncio.run(scenario(cluster))
