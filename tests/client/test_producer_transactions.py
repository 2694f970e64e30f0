"""Half a message first, then the user's work: it is seen after a commit, and never after a roll-back."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest
from msgspec import structs

from steelyard.aio import Producer as AsyncProducer
from steelyard.broker.options import BrokerOptions
from steelyard.client.config import ClientConfig
from steelyard.client.sync.producer import Producer
from steelyard.errors import ConfigurationError, ServerError
from steelyard.model import Message, StoredMessage
from steelyard.serve.embedded import Cluster
from steelyard.wire.codes import RequestCode
from tests.client.proxy import detour
from tests.client.sending_scene import scene, stored_bodies
from tests.waiting import until

ORDER = Message("orders", b"order", keys="order-1")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Run a cluster that asks about open transactions every few milliseconds."""
    options = BrokerOptions(transaction_timeout_ms=50, transaction_check_ms=50, transaction_checks=1_000)
    with scene(options=options) as running:
        yield running


def test_leaving_the_context_commits(cluster: Cluster) -> None:
    with Producer(cluster.namesrv, group="shop") as producer:
        with producer.transaction(ORDER) as tx:
            assert stored_bodies(cluster) == []
            assert tx.sent.queue.topic == "orders"
        assert stored_bodies(cluster) == [b"order"]


def test_an_exception_rolls_back_and_goes_on(cluster: Cluster) -> None:
    def work(producer: Producer) -> None:
        with producer.transaction(ORDER):
            raise ZeroDivisionError("the user's work failed")

    asked: list[StoredMessage] = []
    with Producer(cluster.namesrv, group="shop", check=asked.append) as producer:
        with pytest.raises(ZeroDivisionError):
            work(producer)
        with producer.transaction(Message("orders", b"another")):
            pass
        assert stored_bodies(cluster) == [b"another"]
    assert asked == [], "the broker knew how both ended"


def test_a_transaction_may_be_ended_by_hand_and_only_once(cluster: Cluster) -> None:
    with Producer(cluster.namesrv, group="shop") as producer:
        with producer.transaction(Message("orders", b"dropped")) as tx:
            assert tx.rollback()
        tx = producer.transaction(Message("orders", b"kept"))
        with pytest.raises(ConfigurationError, match="has not begun"):
            tx.commit()
        assert tx.begin().commit()
        with pytest.raises(ConfigurationError, match="has ended already"):
            tx.rollback()
        assert stored_bodies(cluster) == [b"kept"]


def test_the_same_in_asyncio(cluster: Cluster) -> None:
    async def scenario() -> None:
        async with AsyncProducer(cluster.namesrv, group="shop") as producer:
            async with producer.transaction(Message("orders", b"kept")):
                pass
            with pytest.raises(ZeroDivisionError):
                async with producer.transaction(Message("orders", b"dropped")):
                    raise ZeroDivisionError
        assert stored_bodies(cluster) == [b"kept"]

    asyncio.run(scenario())


@pytest.mark.parametrize("commits", [True, False])
def test_a_process_that_forgot_is_asked_and_its_check_decides(cluster: Cluster, commits: bool) -> None:
    with Producer(cluster.namesrv, group="shop") as forgetful:
        forgetful.transaction(ORDER).begin()
    asked: list[tuple[str, tuple[str, ...], str]] = []

    def check(message: StoredMessage) -> bool | None:
        asked.append((message.topic, message.keys, threading.current_thread().name))
        return commits if len(asked) > 1 else None  # at first nobody knows

    with Producer(cluster.namesrv, group="shop", check=check) as producer:
        producer.send(Message("orders", b"so that it knows the broker"))
        until(lambda: len(asked) > 1)
        assert {each[:2] for each in asked} == {("orders", ("order-1",))}
        assert all(name.startswith("steelyard-check") for _, _, name in asked)
        if commits:
            until(lambda: b"order" in stored_bodies(cluster))
        seen = len(asked)
        until(lambda: _is_settled(cluster))
        assert len(asked) <= seen + 1
    assert (b"order" in stored_bodies(cluster)) is commits


def _is_settled(cluster: Cluster) -> bool:
    """Say whether an end is in the log: its queue has a message."""
    return len(stored_bodies(cluster, "RMQ_SYS_TRANS_OP_HALF_TOPIC", 1)) > 0


def test_an_async_check_is_awaited_and_one_that_fails_is_asked_again(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        asked: list[bytes] = []

        async def check(message: StoredMessage) -> bool:
            await asyncio.sleep(0)
            asked.append(message.body)
            if len(asked) == 1:
                raise ZeroDivisionError("the database is away")
            return True

        async with AsyncProducer(ClientConfig(cluster.namesrv, namespace="eu"), group="shop") as forgetful:
            await forgetful.transaction(ORDER).begin()
        async with AsyncProducer(ClientConfig(cluster.namesrv, namespace="eu"), group="shop", check=check) as producer:
            await producer.send(Message("orders", b"so that it knows the broker"))
            await asyncio.to_thread(until, lambda: b"order" in stored_bodies(cluster, "eu%orders"))
        assert asked[:2] == [b"order", b"order"]

    asyncio.run(scenario())
    assert "the check of transaction" in caplog.text


def test_a_check_that_waits_for_cancelled_work_has_failed_and_is_asked_again(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[bytes] = []

    def check(message: StoredMessage) -> bool:
        asked.append(message.body)
        if len(asked) == 1:
            cancelled = Future[bool]()
            cancelled.cancel()
            return cancelled.result()
        return True

    async def begin() -> None:
        async with AsyncProducer(cluster.namesrv, group="shop") as forgetful:
            await forgetful.transaction(ORDER).begin()

    asyncio.run(begin())
    with Producer(cluster.namesrv, group="shop", check=check) as producer:
        producer.send(Message("orders", b"so that it knows the broker"))
        until(lambda: b"order" in stored_bodies(cluster))
    assert asked[:2] == [b"order", b"order"]
    assert "the check of transaction" in caplog.text


def test_a_broker_is_not_answered_while_the_transaction_is_open_here(cluster: Cluster) -> None:
    asked: list[StoredMessage] = []
    with detour(cluster) as around:
        proxy = around.brokers["broker-0"]

        def check(message: StoredMessage) -> bool:
            asked.append(message)
            return False

        with Producer(around.namesrv, group="shop", check=check) as producer:
            with producer.transaction(ORDER):
                until(lambda: proxy.answers(RequestCode.CHECK_TRANSACTION_STATE) >= 2)
                assert not proxy.requests(RequestCode.END_TRANSACTION)
            assert stored_bodies(cluster) == [b"order"]
    assert asked == []


def test_a_broker_that_asks_before_its_answer_to_the_half_came_is_not_answered_either(cluster: Cluster) -> None:
    asked: list[StoredMessage] = []
    with detour(cluster) as around, Producer(around.namesrv, group="shop", check=asked.append) as producer:
        proxy = around.brokers["broker-0"]
        producer.send(Message("orders", b"so that it knows the broker"))
        proxy.swallows = True
        tx = producer.transaction(ORDER, timeout_s=60)
        beginning = threading.Thread(target=tx.begin)
        beginning.start()
        until(lambda: proxy.answers(RequestCode.CHECK_TRANSACTION_STATE) >= 1)
        proxy.swallows = False
        seen = proxy.answers(RequestCode.CHECK_TRANSACTION_STATE)
        until(lambda: proxy.answers(RequestCode.CHECK_TRANSACTION_STATE) >= seen + 2)
        assert beginning.is_alive()
        assert asked == []
        proxy.cut()
        beginning.join()
        assert tx.commit()


def test_a_commit_that_was_refused_is_told_again_when_the_broker_asks(cluster: Cluster) -> None:
    with detour(cluster) as around, Producer(around.namesrv, group="shop") as producer:
        tx = producer.transaction(ORDER).begin()
        behind = tx._transaction
        right = behind._needs_begin()
        wrong = structs.replace(right.half, position=right.half.position + 1)
        behind._begun = right._replace(half=wrong)
        with pytest.raises(ServerError):
            tx.commit()
        until(lambda: stored_bodies(cluster) == [b"order"])


def test_a_commit_that_was_not_confirmed_is_reported_when_the_broker_asks(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    with detour(cluster) as around, Producer(around.namesrv, group="shop") as producer:
        tx = producer.transaction(ORDER).begin()
        around.brokers["broker-0"].refuse()
        until(lambda: not producer._client.session.broker_connection("broker-0").is_open)
        assert not tx.commit(), "nobody confirmed it"
        assert "has not confirmed to commit" in caplog.text
        around.brokers["broker-0"].accept()
        until(lambda: stored_bodies(cluster) == [b"order"])


def test_without_a_check_the_question_is_reported_once(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    with Producer(cluster.namesrv, group="shop") as forgetful:
        forgetful.transaction(ORDER).begin()
    with detour(cluster) as around, Producer(around.namesrv, group="shop") as producer:
        producer.send(Message("orders", b"so that it knows the broker"))
        until(lambda: around.brokers["broker-0"].answers(RequestCode.CHECK_TRANSACTION_STATE) >= 3)
    assert caplog.text.count("give the producer a check=") == 1
