"""A producer at its edges: what people give it by mistake, and what happens while it is being opened or closed."""

import asyncio
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from steelyard.aio import Admin as AsyncAdmin
from steelyard.aio import Producer as AsyncProducer
from steelyard.aio import PullConsumer as AsyncPullConsumer
from steelyard.client.sync.producer import Producer
from steelyard.errors import ConfigurationError, SendFailed
from steelyard.model import Message, Queue
from tests.client.sending_scene import scene, stored_bodies

if TYPE_CHECKING:
    from concurrent.futures import Future

    from steelyard.client.producer.send_result import SendResult

ORDER = Message("orders", b"x")
WITHOUT_ZONE = datetime(2030, 1, 1, tzinfo=UTC).replace(tzinfo=None)

Client = AsyncProducer | AsyncAdmin | AsyncPullConsumer


def _tasks() -> int:
    return len(asyncio.all_tasks())


@pytest.mark.parametrize("make", [AsyncProducer, AsyncAdmin, lambda namesrv: AsyncPullConsumer(namesrv, "g")])
def test_what_is_closed_while_it_opens_leaves_nothing(make: Callable[[str], Client]) -> None:
    async def scenario(namesrv: str) -> None:
        client = make(namesrv)
        opening = asyncio.ensure_future(client.open())
        await asyncio.sleep(0)
        await client.close()
        await asyncio.gather(opening, return_exceptions=True)
        with pytest.raises(ConfigurationError, match="closed"):
            await client.open()
        assert _tasks() == 1, "this one"

    with scene() as cluster:
        asyncio.run(scenario(cluster.namesrv))


@pytest.mark.parametrize("make", [AsyncProducer, AsyncAdmin, lambda namesrv: AsyncPullConsumer(namesrv, "g")])
def test_an_opening_that_was_cancelled_leaves_nothing_and_may_be_begun_again(make: Callable[[str], Client]) -> None:
    async def scenario(namesrv: str) -> None:
        client = make(namesrv)
        opening = asyncio.ensure_future(client.open())
        await asyncio.sleep(0)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        assert _tasks() == 1, "this one"
        await asyncio.gather(client.open(), client.open())
        await client.close()
        assert _tasks() == 1, "this one"

    with scene() as cluster:
        asyncio.run(scenario(cluster.namesrv))


def test_a_callback_may_submit_even_where_nothing_more_may_be_on_its_way() -> None:
    left = 200
    over = threading.Event()

    def again(future: "Future[SendResult]") -> None:
        nonlocal left
        assert future.exception() is None
        if left:
            left -= 1
            producer.submit(ORDER).add_done_callback(again)
        else:
            over.set()

    with scene() as cluster, Producer(cluster.namesrv, in_flight=1) as producer:
        producer.send(ORDER)
        for _ in range(5):
            producer.submit(ORDER).add_done_callback(again)
        assert over.wait(30)
        producer.close()
        assert len(stored_bodies(cluster)) == 206


def test_messages_that_linger_leave_before_their_properties_are_too_much_for_a_batch() -> None:
    with scene() as cluster, Producer(cluster.namesrv, linger_ms=20) as producer:
        wordy = Message("orders", b"x", properties={"words": "x" * 30_000})
        futures = [producer.submit(wordy) for _ in range(150)]  # 4.5 MB: more than a broker takes at once
        assert all(future.result().message_id for future in futures)


@pytest.mark.usefixtures("advance")
def test_too_many_properties_are_the_senders_fault_and_not_the_brokers() -> None:
    wordy = Message("orders", b"x", properties={"words": "x" * 33_000})
    with scene() as cluster, Producer(cluster.namesrv, avoid_slow_brokers=True) as producer:
        producer.send(ORDER)
        for send in (
            lambda: producer.send(wordy),
            lambda: producer.submit(wordy).result(),
            lambda: producer.send_many([wordy, wordy], key="one"),
        ):
            with pytest.raises(SendFailed, match="have 33059 bytes together, the limit is 32767"):
                send()
        assert [each.avoided_until_ms for each in producer.brokers()] == [None]


def by_first(queues: Sequence[Queue], message: Message) -> Queue:
    """Select the first queue of a message's topic."""
    assert message.topic == queues[0].topic
    return queues[0]


def by_mistake(queues: Sequence[Queue], message: Message) -> Queue:
    """Select nothing, and raise."""
    raise ZeroDivisionError(f"{message.topic} has {len(queues)}")


@pytest.mark.parametrize(
    ("wish", "complaint"),
    [
        ({"timeout_s": 0}, "the time for a send is 0; give seconds, more than 0"),
        ({"timeout_s": -1}, "the time for a send is -1; give seconds, more than 0"),
        ({"timeout_s": float("nan")}, "the time for a send is nan"),
        ({"timeout_s": float("inf")}, "the time for a send is inf"),
        ({"timeout_s": "3"}, "the time for a send is '3'"),
        ({"deliver_at": WITHOUT_ZONE}, "give a datetime with a time zone"),
        ({"delay_s": -1}, "the delay of a message is -1; give seconds, 0 or more"),
        ({"delay_s": 1, "deliver_at": WITHOUT_ZONE}, "a delay and a moment are given"),
        ({"queue": "orders"}, "'orders' is not a queue; give one such as Queue"),
        ({"queue": Queue("audit", "broker-0", 0)}, "give a queue of its own topic"),
        ({"queue": Queue("orders", "broker-0", 0), "key": "k"}, "a queue is given, and a key or a selector too"),
        ({"select": by_first, "key": "k"}, "a callable, and a key is given too"),
        ({"select": 3}, "the selector is of type int"),
        ({"select": by_mistake}, "raised ZeroDivisionError"),
        ({"key": 1.5}, "has a float as its key"),
    ],
)
def test_a_wish_that_cannot_be_is_refused_at_once_and_nothing_is_sent(wish: Any, complaint: str) -> None:
    with scene() as cluster, Producer(cluster.namesrv) as producer:
        producer.send(ORDER)
        for use in (producer.send, producer.submit):
            with pytest.raises(ConfigurationError, match=re.escape(complaint)):
                use(ORDER, **wish)
        if "timeout_s" in wish:
            with pytest.raises(ConfigurationError, match=re.escape(complaint)):
                producer.request(ORDER, **wish)
        assert len(stored_bodies(cluster)) == 1


@pytest.mark.parametrize(
    ("wish", "complaint"),
    [
        ({"timeout_s": float("inf")}, "timeout_s is inf; give 0.001 or more"),
        ({"timeout_s": "3"}, "timeout_s is '3'"),
        ({"timeout_s": None}, "timeout_s is None"),
        ({"retries": 1.5}, "retries is 1.5; give 0 or more, a whole number"),
        ({"in_flight": 0}, "in_flight is 0; give 1 or more"),
        ({"linger_ms": float("nan")}, "linger_ms is nan; give 0 or more"),
        ({"check": 3}, "check is a int; give a callable"),
        ({"group": ""}, "a producer has no group"),
    ],
)
def test_an_option_that_cannot_be_is_refused_when_the_producer_is_made(wish: Any, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(complaint)):
        Producer("localhost:9876", **wish)


def test_many_messages_are_all_made_before_the_first_is_sent() -> None:
    def messages() -> Iterator[Message]:
        yield ORDER
        raise ZeroDivisionError("the user's file ended")

    with scene() as cluster, Producer(cluster.namesrv) as producer:
        with pytest.raises(ZeroDivisionError):
            producer.send_many(messages())
        assert producer.send_many([]) == []
        assert producer.send_many(iter([ORDER])) != []
        assert len(stored_bodies(cluster)) == 1
