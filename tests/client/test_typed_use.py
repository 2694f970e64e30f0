"""The public clients as a typed program uses them: what type checkers, `help` and `dir` see is what there is.

mypy reads this file as strictly as all others: a name that is not typed for users, or typed wrongly, fails there.
"""

import asyncio
import inspect
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from typing import assert_type

import pytest

import steelyard
from steelyard import (
    Admin,
    ClientConfig,
    Consumer,
    Finding,
    Message,
    Producer,
    PullConsumer,
    Queue,
    Rebalanced,
    ReceivedMessage,
    SendResult,
    StoredMessage,
    aio,
)
from steelyard.client.admin.topics import TopicDescription
from steelyard.client.consumer.options import ConsumerOptions
from steelyard.client.producer.options import ProducerOptions
from steelyard.client.pull_consumer.options import PullConsumerOptions
from steelyard.serve.embedded import Cluster

_ADMIN, _ASYNC_ADMIN = Admin("localhost:1"), aio.Admin("localhost:1")
FACES = [
    (Producer, aio.Producer),
    (Consumer, aio.Consumer),
    (PullConsumer, aio.PullConsumer),
    (Admin, aio.Admin),
    *((type(part), type(getattr(_ASYNC_ADMIN, name))) for name, part in vars(_ADMIN).items() if name[0] != "_"),
]
"""Blocking clients, and the parts of `Admin`, with the asyncio ones behind them."""


def by_region(queues: Sequence[Queue], message: Message) -> Queue:
    """Select a queue."""
    return queues[len(message.body) % len(queues)]


def by_shard(queues: Sequence[Queue], _message: Message, shard: int) -> Queue:
    """Select a queue by an argument."""
    return queues[shard % len(queues)]


def order_exists(message: StoredMessage) -> bool | None:
    """Say what became of a transaction."""
    return bool(message.keys)


def test_a_typed_program_sends_and_receives() -> None:
    seen = threading.Event()
    with Cluster(brokers=2) as cluster, Admin(ClientConfig(cluster.namesrv, timeout_s=20)) as admin:
        assert_type(admin.topics.create("orders", 4), TopicDescription)
        with Producer(cluster.namesrv, group="shop", check=order_exists, avoid_slow_brokers=True) as producer:
            assert_type(producer.send(Message("orders", b"1", tags="paid", keys="order-1")), SendResult)
            producer.send(Message("orders", b"2"), key="order-1")
            producer.send(Message("orders", b"3"), select=by_region)
            producer.send(Message("orders", b"3"), select=lambda queues, _message: queues[0])
            producer.send(Message("orders", b"3"), select=by_shard, select_arg=7)
            producer.send(Message("orders", b"3"), select="fnv1a", select_arg="order-1")
            producer.send(Message("orders", b"4"), delay_s=30)
            producer.send(Message("orders", b"5"), deliver_at=datetime.now(UTC) + timedelta(hours=1))
            assert_type(producer.send_many(Message("orders", b"%d" % n) for n in range(3)), list[SendResult])
            assert_type(producer.submit(Message("orders", b"6")), Future[SendResult])
            producer.post(Message("audit", b"7"))
            with producer.transaction(Message("orders", b"8")) as transaction:
                assert_type(transaction.message_id, str)

            consumer = Consumer(cluster.namesrv, group="billing", strategy="sticky", start_from="first")

            @consumer.handles("orders", tags="paid || refunded")
            def bill(message: ReceivedMessage) -> None:
                assert message.tags == "paid"
                seen.set()

            @consumer.handles("prices")
            async def price(message: ReceivedMessage) -> None:
                await message.reply(b"9.90")

            @consumer.on_rebalance
            def rebalanced(news: Rebalanced) -> None:
                assert news.id == consumer.id

            @consumer.on_warning
            def looks_wrong(finding: Finding) -> None:
                raise AssertionError(finding.message)

            with consumer:
                reply = producer.request(Message("prices", b"sku-1"), timeout_s=20)
                assert_type(reply, StoredMessage)
                assert reply.body == b"9.90"
                assert seen.wait(20)
                assert_type(consumer.assignment, tuple[Queue, ...])
                assert "billing" in str(consumer.explain())
        with PullConsumer(cluster.namesrv, group="report", start_from="first") as polling:
            polling.subscribe("orders")
            assert_type(polling.poll(timeout_s=20, most=1), list[ReceivedMessage])
            polling.commit()


def test_a_typed_program_does_the_same_in_asyncio() -> None:
    async def scenario(namesrv: str) -> None:
        async with aio.Producer(namesrv, linger_ms=1) as producer:
            assert_type(await producer.send(Message("orders", b"1")), SendResult)
            assert_type(await producer.send_many([Message("orders", b"2")]), list[SendResult])
            async with producer.transaction(Message("orders", b"3")) as transaction:
                assert_type(transaction.sent, SendResult)
        async with aio.PullConsumer(namesrv, "report", start_from="first") as polling:
            polling.subscribe("orders")
            assert_type(await polling.poll(timeout_s=20), list[ReceivedMessage])

    with Cluster() as cluster:
        asyncio.run(scenario(cluster.namesrv))


@pytest.mark.parametrize(("sync_class", "behind"), FACES)
def test_a_blocking_method_shows_the_parameters_and_words_of_the_one_it_waits_for(
    sync_class: type, behind: type
) -> None:
    for name, method in inspect.getmembers(sync_class, inspect.isfunction):
        if name.startswith("_") or not hasattr(behind, name) or name in ("open", "close", "start"):
            continue
        assert inspect.getdoc(method), name
        shown, real = inspect.signature(method), inspect.signature(getattr(behind, name))
        assert [*map(str, shown.parameters.values())] == [*map(str, real.parameters.values())], name


@pytest.mark.parametrize(
    ("options", "clients"),
    [
        (ProducerOptions, (Producer, aio.Producer)),
        (ConsumerOptions, (Consumer, aio.Consumer)),
        (PullConsumerOptions, (PullConsumer, aio.PullConsumer)),
    ],
)
def test_every_option_is_a_keyword_that_the_signature_shows(options: type, clients: tuple[type, ...]) -> None:
    for client in clients:
        shown = inspect.signature(client).parameters
        assert shown.keys() >= inspect.signature(options).parameters.keys()
        assert inspect.Parameter.VAR_KEYWORD not in {each.kind for each in shown.values()}


def test_everything_public_can_be_named_and_is_listed() -> None:
    for module in (steelyard, aio):
        for name in module.__all__:
            assert getattr(module, name) is not None
            assert name in dir(module)
            assert inspect.getdoc(getattr(module, name)), name
