"""The same clients, awaited: every way to send, to handle, to pull and to look."""

import asyncio
from collections.abc import Callable

import pytest

from steelyard import Message, ReceivedMessage, StoredMessage
from steelyard.aio import Admin, Consumer, Producer, PullConsumer
from tests.live.clusters import Live
from tests.live.handled import Handled

NUMBERS = [str(number) for number in range(60)]
LONGEST_S = 60


@pytest.fixture
def cluster(own_clock: Live) -> Live:
    """Use a cluster with a clock of its own."""
    return own_clock


async def until(condition: Callable[[], object]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(LONGEST_S):
        while not condition():
            await asyncio.sleep(0.02)


def test_messages_are_sent_and_handled_on_one_loop(cluster: Live, topic: str, group: str) -> None:
    handled = Handled()

    async def main() -> None:
        consumer = Consumer(cluster.namesrv, group=group, start_from="first")

        @consumer.handles(topic)
        async def on_loop(message: ReceivedMessage) -> None:
            await asyncio.sleep(0.001)
            handled(message)

        async with Producer(cluster.namesrv, group=group) as producer, consumer:
            await producer.send(Message(topic, NUMBERS[0].encode()))
            await asyncio.gather(*(producer.send(Message(topic, each.encode())) for each in NUMBERS[1:20]))
            await producer.send_many([Message(topic, each.encode()) for each in NUMBERS[20:50]])
            for each in NUMBERS[50:]:
                await producer.post(Message(topic, each.encode()))
            await until(lambda: len(handled.messages) == 60)

    asyncio.run(main())
    assert sorted(handled.bodies, key=int) == NUMBERS


def test_plain_handlers_do_not_hold_up_the_loop(cluster: Live, topic: str, group: str) -> None:
    handled = Handled()

    async def main() -> None:
        consumer = Consumer(cluster.namesrv, group=group, start_from="first", workers=2)
        consumer.handles(topic, orderly=True)(handled)
        async with Producer(cluster.namesrv, group=group, linger_ms=5) as producer, consumer:
            await asyncio.gather(*(producer.send(Message(topic, each.encode()), key="k") for each in NUMBERS))
            await until(lambda: len(handled.messages) == 60)

    asyncio.run(main())
    assert sorted(handled.bodies, key=int) == NUMBERS


def test_transactions_and_requests(cluster: Live, topic: str, group: str) -> None:
    async def main() -> tuple[bytes, list[bytes]]:
        async def check(message: StoredMessage) -> bool:
            return message.body == b"asked about"

        consumer = Consumer(cluster.namesrv, group=group, start_from="first")

        @consumer.handles(topic, tags="question")
        async def answer(message: ReceivedMessage) -> None:
            await message.reply(b"42")

        async with (
            Admin(cluster.namesrv) as admin,
            Producer(cluster.namesrv, group=group, check=check) as producer,
            consumer,
        ):
            async with producer.transaction(Message(topic, b"committed")):
                pass
            reply = await producer.request(Message(topic, b"?", tags="question"), timeout_s=30)
            async with Producer(cluster.namesrv, group=group) as crashed:
                await crashed.transaction(Message(topic, b"asked about")).begin()
            async with asyncio.timeout(LONGEST_S):
                while len(found := await admin.messages.list(topic)) < 3:
                    await asyncio.sleep(0.02)
                    await asyncio.to_thread(cluster.pass_time)
        return reply.body, sorted(message.body for message in found)

    assert asyncio.run(main()) == (b"42", [b"?", b"asked about", b"committed"])


def test_pulling(cluster: Live, topic: str, group: str) -> None:
    async def main() -> list[str]:
        found: list[StoredMessage] = []
        async with Producer(cluster.namesrv) as producer, PullConsumer(cluster.namesrv, group=group) as pull_consumer:
            await producer.send_many([Message(topic, each.encode()) for each in NUMBERS[:-1]])
            pull_consumer.assign(await pull_consumer.queues(topic))
            for queue in pull_consumer.assignment:
                await pull_consumer.seek(queue, "first")
            async with asyncio.timeout(LONGEST_S):
                while len(found) < 59:
                    found += await pull_consumer.poll(timeout_s=1)
                await producer.send(Message(topic, NUMBERS[-1].encode()))
                async for message in pull_consumer:
                    found.append(message)
                    break
            await pull_consumer.commit()
        return [message.body.decode() for message in found]

    assert sorted(asyncio.run(main()), key=int) == NUMBERS
