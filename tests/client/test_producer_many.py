"""Many messages at once: packed into batches, lingering for each other, in flight by the thousand, and bounded."""

import asyncio
import threading
from collections import Counter
from concurrent.futures import wait

import pytest

from steelyard.aio import Producer as AsyncProducer
from steelyard.client.producer.send_async import InFlightLimit
from steelyard.client.sync.producer import Producer
from steelyard.errors import ConfigurationError, ConnectionClosed
from steelyard.model import Message
from steelyard.wire.codes import RequestCode
from tests.client.proxy import Proxy, detour
from tests.client.sending_scene import scene, stored, stored_bodies
from tests.waiting import until

BATCH, SINGLE = RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2


def numbered(count: int, size: int = 1) -> list[Message]:
    """Make messages whose bodies say which they are."""
    return [Message("orders", b"%d" % number * size) for number in range(count)]


def test_many_are_packed_and_each_has_its_own_result() -> None:
    with scene(2) as cluster, detour(cluster) as around, Producer(around.namesrv) as producer:
        sent = producer.send_many(numbered(2_000))
        batches = sum(len(proxy.requests(BATCH)) for proxy in around.brokers.values())
        assert batches == 4
        where = {message.body: message for messages in stored(cluster).values() for message in messages}
        for number, result in enumerate(sent):
            message = where[b"%d" % number]
            assert (message.queue, message.offset, message.message_id) == (
                result.queue,
                result.offset,
                result.message_id,
            )
        assert len({each.queue for each in sent}) == 4, "batches take turns as messages do"
        assert producer.send_many([]) == []


def test_a_batch_has_its_size_and_one_message_is_none() -> None:
    with scene() as cluster, detour(cluster) as around, Producer(around.namesrv, batch_bytes=10_000) as producer:
        producer.send_many([Message("orders", b"x" * 4_000) for _ in range(5)])
        proxy = around.brokers["broker-0"]
        assert [len(proxy.requests(code)) for code in (BATCH, SINGLE)] == [2, 1]
        assert max(len(each.body) for each in proxy.requests(BATCH)) <= 10_000


def test_messages_of_a_key_keep_their_order_over_many_batches() -> None:
    with scene(2) as cluster, Producer(cluster.namesrv, batch_bytes=500) as producer:
        producer.send_many(numbered(400), key=lambda message: int(message.body) % 5)
        for messages in stored(cluster).values():
            for key in range(5):
                numbers = [int(message.body) for message in messages if int(message.body) % 5 == key]
                assert numbers == sorted(numbers)
                assert len(numbers) in (0, 80)


def test_messages_to_several_topics_go_each_to_its_own() -> None:
    with scene() as cluster, Producer(cluster.namesrv) as producer:
        sent = producer.send_many([Message("orders" if n % 2 else "audit", b"%d" % n) for n in range(10)])
        assert [each.queue.topic for each in sent] == ["audit", "orders"] * 5


def test_a_thousand_submits_are_all_answered_in_their_queues_in_turn() -> None:
    with scene() as cluster, Producer(cluster.namesrv) as producer:
        futures = [producer.submit(message) for message in numbered(1_000)]
        assert Counter(future.result().queue for future in futures).most_common() == [
            (queue, 250) for queue, _ in Counter(future.result().queue for future in futures).most_common()
        ]
        assert sorted(map(int, stored_bodies(cluster))) == list(range(1_000))


def test_messages_that_linger_share_a_batch() -> None:
    with (
        scene() as cluster,
        detour(cluster) as around,
        Producer(around.namesrv, linger_ms=60_000, batch_bytes=4_500) as producer,
    ):
        proxy = around.brokers["broker-0"]
        futures = [producer.submit(Message("orders", b"x" * 1_000)) for _ in range(9)]
        wait(futures[:8])
        assert [len(proxy.requests(code)) for code in (BATCH, SINGLE)] == [2, 0]
        assert not futures[8].done()
        assert producer.submit(Message("orders", b"y" * 4_096)).result().offset >= 0, "a large one goes alone"
        producer.submit(Message("orders", b"later"), delay_s=5).result()
        assert len(proxy.requests(SINGLE)) == 2
        producer.close()
        assert futures[8].result().queue.topic == "orders", "closing lets the last ones leave"


def test_lingering_ends_by_time_too() -> None:
    async def scenario(namesrv: str) -> None:
        async with AsyncProducer(namesrv, linger_ms=1) as producer:
            sent = await asyncio.gather(*map(producer.send, numbered(50)))
            assert len({each.message_id for each in sent}) == 50

    with scene() as cluster:
        asyncio.run(scenario(cluster.namesrv))
        with Producer(cluster.namesrv, linger_ms=1) as producer:
            assert producer.send(Message("orders", b"x"), key="k").queue.topic == "orders"


def test_submit_waits_while_too_many_are_on_their_way() -> None:
    with scene() as cluster, detour(cluster) as around, Producer(around.namesrv, in_flight=10) as producer:
        producer.send(Message("orders", b"first"))
        proxy = around.brokers["broker-0"]
        proxy.swallows = True
        futures = [producer.submit(Message("orders", b"x")) for _ in range(10)]
        late = threading.Thread(target=lambda: futures.append(producer.submit(Message("orders", b"late"))))
        late.start()
        until(lambda: len(proxy.requests(SINGLE)) >= 11)
        assert late.is_alive()
        assert len(futures) == 10
        proxy.swallows = False
        proxy.cut()
        late.join()
        assert len({future.result().message_id for future in futures}) == 11


def test_a_cancelled_send_is_not_tried_again() -> None:
    async def scenario(namesrv: str, proxy: Proxy) -> None:
        async with AsyncProducer(namesrv) as producer:
            await producer.send(Message("orders", b"first"))
            proxy.swallows = True
            sending = asyncio.ensure_future(producer.send(Message("orders", b"cancelled")))
            await asyncio.to_thread(until, lambda: len(proxy.requests(SINGLE)) == 2)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            proxy.swallows = False
            await asyncio.to_thread(proxy.cut)
            await producer.send(Message("orders", b"after"))
            assert producer.in_flight.count == 0
        bodies = [each.body for each in proxy.requests(SINGLE)]
        assert bodies.count(b"cancelled") == 1

    with scene() as cluster, detour(cluster) as around:
        asyncio.run(scenario(around.namesrv, around.brokers["broker-0"]))


def test_room_is_given_in_the_order_of_asking_and_a_giant_goes_alone() -> None:
    async def scenario() -> None:
        flights = InFlightLimit(2, 100)
        await flights.acquire(1, 1_000)
        assert not flights.try_acquire(1, 1)
        order: list[str] = []

        async def enter(name: str, size: int) -> None:
            await flights.acquire(1, size)
            order.append(name)

        waiting = [asyncio.ensure_future(enter(name, 60)) for name in "abc"]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.gather(waiting[0], return_exceptions=True)
        flights.release(1, 1_000)
        await waiting[1]
        assert order == ["b"]
        flights.release(1, 60)
        await waiting[2]
        assert order == ["b", "c"]
        blocked = asyncio.ensure_future(enter("d", 60))
        in_thread = asyncio.ensure_future(asyncio.to_thread(flights.acquire_in_thread, 1, 60))
        await asyncio.sleep(0)
        flights.close(ConnectionClosed("over"))
        for late in (blocked, in_thread):
            with pytest.raises(ConfigurationError, match="closed before the message was sent"):
                await late

    asyncio.run(scenario())
