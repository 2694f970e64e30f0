"""A request is a message that gets an answer: from a plain handler or one on the loop, or a clear error."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from steelyard import Consumer, Message, Producer, ReceivedMessage
from steelyard.errors import ConfigurationError, ReplyFailed, ReplyTimedOut
from tests.live.clusters import Live


@contextmanager
def prices(cluster: Live, topic: str, group: str, *, on_loop: bool) -> Iterator[None]:
    """Answer requests."""
    consumer = Consumer(cluster.namesrv, group=group, start_from="first")
    if on_loop:

        @consumer.handles(topic)
        async def answer_on_loop(message: ReceivedMessage) -> None:
            await message.reply(message.body.upper())
    else:

        @consumer.handles(topic)
        def answer(message: ReceivedMessage) -> None:
            if message.body != b"silence":
                message.reply(message.body.upper())

    with consumer:
        yield


@pytest.mark.parametrize("on_loop", [False, True], ids=["in a thread", "on the loop"])
def test_a_request_is_answered(cluster: Live, producer: Producer, topic: str, group: str, *, on_loop: bool) -> None:
    with prices(cluster, topic, group, on_loop=on_loop):
        for number in range(3):
            reply = producer.request(Message(topic, f"sku-{number}".encode()), timeout_s=30)
            assert reply.body == f"SKU-{number}".encode()


def test_requests_of_two_producers_do_not_mix(cluster: Live, producer: Producer, topic: str, group: str) -> None:
    with prices(cluster, topic, group, on_loop=False), Producer(cluster.namesrv, group="others") as other:
        mine = producer.request(Message(topic, b"mine"), timeout_s=30)
        theirs = other.request(Message(topic, b"theirs"), timeout_s=30)
    assert (mine.body, theirs.body) == (b"MINE", b"THEIRS")


def test_nobody_answers_in_time(producer: Producer, topic: str) -> None:
    producer.send(Message(topic, b"a message"))  # so that there is a connection, and all the time is for the reply
    with pytest.raises(ReplyTimedOut, match=f"no reply to a request to '{topic}' within 500 ms"):
        producer.request(Message(topic, b"silence"), timeout_s=0.5)


def test_a_message_that_is_no_request_cannot_be_answered(
    cluster: Live, producer: Producer, topic: str, group: str
) -> None:
    errors: list[Exception] = []
    done = threading.Event()
    consumer = Consumer(cluster.namesrv, group=group, start_from="first")

    @consumer.handles(topic)
    def handle(message: ReceivedMessage) -> None:
        try:
            message.reply(b"why?")
        except (ReplyFailed, ConfigurationError) as error:
            errors.append(error)
        done.set()

    with consumer:
        producer.send(Message(topic, b"no question"))
        assert done.wait(60)
    assert "reply only to a message that was sent as a request" in str(errors[0])
