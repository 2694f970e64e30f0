"""Who watches a client is told what happens in it, each thing once; and whatever he does, the client goes on."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from steelyard import Admin, Consumer, Message, Observer, Producer, PullConsumer, ReceivedMessage, aio
from steelyard.client.observers.observer import HandleEnded, HandlerCall, Observed, OutgoingMessages, SendEnded
from steelyard.client.producer.send_result import SendResult
from steelyard.errors import ConfigurationError, MessageRefused, SendFailed, TopicNotFound
from steelyard.serve.embedded import Cluster
from tests.client.consumer_scene import Seen
from tests.client.recording_observer import RecordingObserver
from tests.waiting import until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Run one broker for all."""
    with Cluster() as running:
        yield running


def _reported(keeping: RecordingObserver) -> list[tuple[str, int]]:
    return [(outgoing.kind, len(outgoing.messages)) for outgoing, _ in keeping.sent]


# -- sending ----------------------------------------------------------------------------------------------------------


def test_every_way_to_send_is_reported_once(cluster: Cluster, topic: str) -> None:
    keeping = RecordingObserver()
    one, two = Message(topic, b"1", tags="paid", keys="k"), Message(topic, b"2")
    with Producer(cluster.namesrv, group="shop", observers=[keeping]) as producer:
        sent = producer.send(one)
        producer.send(two, delay_s=1)
        producer.submit(two).result(20)
        assert producer.send_many([one, two])
        assert producer.send_many([one, two], key="k")
        producer.post(one)
        with producer.transaction(one) as transaction:
            assert transaction.message_id
    assert _reported(keeping) == [
        ("normal", 1),
        ("delayed", 1),
        ("normal", 1),
        ("normal", 2),
        ("normal", 2),
        ("oneway", 1),
        ("half", 1),
    ]
    assert keeping.begun == len(keeping.sent)
    outgoing, delivered = keeping.sent[0]
    assert (outgoing.messages, outgoing.topic, delivered.results, delivered.error) == ((one,), topic, (sent,), None)
    assert delivered.took_ns > 0
    assert all(
        len(each.results) == len(reported.messages) for reported, each in keeping.sent if reported.kind != "oneway"
    )
    (end,) = keeping.ends
    assert (end.message_id, end.topic, end.tags, end.keys, end.commits) == (
        transaction.message_id,
        topic,
        "paid",
        ("k",),
        True,
    )


def test_the_same_is_told_of_asyncio(cluster: Cluster, topic: str) -> None:
    keeping = RecordingObserver()
    message = Message(topic, b"1")

    async def send_all() -> None:
        async with aio.Producer(cluster.namesrv, group="shop", observers=[keeping]) as producer:
            await producer.send(message)
            await producer.send(message, delay_s=1)
            await producer.send_many([message, message])
            await producer.post(message)
            async with producer.transaction(message):
                pass

    asyncio.run(send_all())
    assert _reported(keeping) == [("normal", 1), ("delayed", 1), ("normal", 2), ("oneway", 1), ("half", 1)]


@pytest.mark.parametrize("linger_ms", [None, 0])
def test_messages_that_linger_are_told_each(cluster: Cluster, topic: str, linger_ms: float | None) -> None:
    keeping = RecordingObserver()
    with Producer(cluster.namesrv, group="shop", observers=[keeping], linger_ms=linger_ms) as producer:
        futures = [producer.submit(Message(topic, b"%d" % number)) for number in range(20)]
        stored = {future.result(20).message_id for future in futures}
    results = [result for _, delivered in keeping.sent for result in delivered.results]
    assert {result.message_id for result in results if isinstance(result, SendResult)} == stored
    assert len(keeping.sent) == 20


def test_a_request_and_its_reply(cluster: Cluster, topic: str) -> None:
    keeping = RecordingObserver()
    consumer = Consumer(cluster.namesrv, f"of-{topic}", start_from="first", observers=[keeping])

    @consumer.handles(topic)
    def answer(message: ReceivedMessage) -> None:
        message.reply(b"pong")

    with consumer, Producer(cluster.namesrv, observers=[keeping]) as producer:
        assert producer.request(Message(topic, b"ping"), timeout_s=20).body == b"pong"
        until(lambda: keeping.handled, "the handler's end is told")
    assert _reported(keeping) == [("normal", 1)]


def test_what_cannot_be_sent_is_reported_with_its_error(cluster: Cluster, topic: str) -> None:
    keeping = RecordingObserver()
    with Producer(cluster.namesrv, observers=[keeping]) as producer:
        with pytest.raises(MessageRefused):
            producer.send(Message(topic, b""))
        with pytest.raises(MessageRefused):
            producer.submit(Message(topic, b""))
        with pytest.raises(MessageRefused):
            producer.send_many([Message(topic, b"1"), Message(topic, b"")])
    for outgoing, delivered in keeping.sent:
        assert isinstance(delivered.error, MessageRefused)
        assert delivered.results == (delivered.error,) * len(outgoing.messages)
    assert len(keeping.sent) == keeping.begun == 3


def test_a_broker_that_is_gone_is_reported_as_a_failure() -> None:
    keeping = RecordingObserver()
    with Cluster() as cluster, Producer(cluster.namesrv, observers=[keeping]) as producer:
        producer.send(Message("orders", b"1"))
        cluster.stop()
        with pytest.raises(SendFailed):
            producer.send(Message("orders", b"2"), timeout_s=1)
        with pytest.raises(SendFailed):
            producer.submit(Message("orders", b"3"), timeout_s=1).result()
    errors = [delivered.error for _, delivered in keeping.sent]
    assert errors[0] is None
    assert all(isinstance(error, SendFailed) for error in errors[1:])


def test_a_topic_that_nobody_has_is_reported_as_a_failure() -> None:
    from steelyard.broker.options import BrokerOptions

    keeping = RecordingObserver()
    with (
        Cluster(broker_options=BrokerOptions(auto_create_topics=False)) as cluster,
        Producer(cluster.namesrv, observers=[keeping]) as producer,
        pytest.raises(TopicNotFound),
    ):
        producer.send(Message("nowhere", b"1"))
    assert [type(delivered.error) for _, delivered in keeping.sent] == [TopicNotFound]


def test_what_an_observer_adds_goes_along_unless_the_message_has_it(cluster: Cluster, topic: str) -> None:
    with Producer(cluster.namesrv, observers=[RecordingObserver(shop="berlin", till="7")]) as producer:
        producer.send(Message(topic, b"1", properties={"till": "9"}))
        producer.send_many([Message(topic, b"2"), Message(topic, b"3")])
        producer.submit(Message(topic, b"4")).result(20)
    with Admin(cluster.namesrv) as admin:
        found = {each.body: each.properties for each in admin.messages.list(topic)}
    assert {body: (each["shop"], each["till"]) for body, each in found.items()} == {
        b"1": ("berlin", "9"),
        b"2": ("berlin", "7"),
        b"3": ("berlin", "7"),
        b"4": ("berlin", "7"),
    }


def test_what_cannot_go_along_is_left_out_and_said_once(
    cluster: Cluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.ERROR, "steelyard"),
        Producer(cluster.namesrv, observers=[RecordingObserver(UNIQ_KEY="x")]) as p,
    ):
        p.send(Message(topic, b"1"))
        p.send(Message(topic, b"2"))
    assert len([each for each in caplog.messages if "left out" in each]) == 1


# -- handling ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
def test_each_call_of_a_handler_is_reported_with_what_became_of_it(
    cluster: Cluster, topic: str, is_async: bool
) -> None:
    keeping = RecordingObserver()
    consumer = Consumer(cluster.namesrv, f"of-{topic}", start_from="first", observers=[keeping])

    def handle(message: ReceivedMessage) -> None:
        if message.body == b"bad" and message.attempt == 1:
            raise ZeroDivisionError
        if message.body == b"later" and message.attempt == 1:
            message.later(1)

    async def handle_on_the_loop(message: ReceivedMessage) -> None:
        handle(message)

    consumer.handles(topic)(handle_on_the_loop if is_async else handle)
    with Producer(cluster.namesrv) as producer:
        producer.send_many([Message(topic, body) for body in (b"good", b"bad", b"later")])
    with consumer:
        until(lambda: len(keeping.handled) >= 3, "all are handled once")
    became = {incoming.messages[0].body: outcome for incoming, outcome in keeping.handled[:3]}
    assert {body: outcome.became for body, outcome in became.items()} == {
        b"good": "done",
        b"bad": "failed",
        b"later": "later",
    }
    assert isinstance(became[b"bad"].error, ZeroDivisionError)
    assert became[b"good"].error is None
    assert {message.body for message in keeping.came} >= {b"good", b"bad", b"later"}
    assert [what for what, _ in keeping.clients] == ["opened", "closed"]
    assert keeping.clients[0][1].group == f"of-{topic}"
    assert sum(len(moved.taken) for moved, _ in keeping.moves) == 2


def test_a_batch_is_one_call(cluster: Cluster, topic: str) -> None:
    keeping = RecordingObserver()
    consumer = Consumer(cluster.namesrv, f"of-{topic}", start_from="first", observers=[keeping])

    @consumer.handles(topic, batch=8)
    def handle(messages: list[ReceivedMessage]) -> None:
        assert messages

    with Producer(cluster.namesrv) as producer:
        producer.send_many([Message(topic, b"%d" % number) for number in range(8)])
    with consumer:
        until(lambda: sum(len(incoming.messages) for incoming, _ in keeping.handled) == 8, "all are handled")
    assert all(incoming.is_batch and outcome.became == "done" for incoming, outcome in keeping.handled)


def test_what_is_in_hand_is_reported_now_and_then(cluster: Cluster, topic: str) -> None:
    keeping, seen = RecordingObserver(), Seen()
    consumer = Consumer(cluster.namesrv, f"of-{topic}", start_from="first", observers=[keeping])
    consumer.handles(topic)(seen.record_message)
    with consumer:
        until(lambda: any(topic in each for each in keeping.in_hand), "it is told")


def test_what_a_poll_returns_is_reported(cluster: Cluster, topic: str) -> None:
    keeping = RecordingObserver()
    with Producer(cluster.namesrv) as producer:
        producer.send(Message(topic, b"1"))
    with PullConsumer(cluster.namesrv, f"of-{topic}", start_from="first", observers=[keeping]) as pull_consumer:
        pull_consumer.subscribe(topic)
        until(lambda: pull_consumer.poll(1), "something is polled")
    assert [message.body for message in keeping.came] == [b"1"]
    assert [what for what, _ in keeping.clients] == ["opened", "closed"]
    assert keeping.moves


# -- whatever they do -------------------------------------------------------------------------------------------------


class Clumsy(Observer):
    """Raises, at the beginning of everything or at its end."""

    def __init__(self, *, at_the_end: bool = False, by: type[BaseException] = ZeroDivisionError) -> None:
        self._at_the_end, self._by = at_the_end, by
        self.calls = 0

    def _trip(self) -> None:
        self.calls += 1
        raise self._by("clumsy")

    def sending(self, client: Observed, outgoing: OutgoingMessages) -> SendEnded | None:
        """Trip."""
        return self._at_last(client, outgoing)

    def handling(self, client: Observed, incoming: HandlerCall) -> HandleEnded | None:
        """Trip."""
        return self._at_last(client, incoming)

    def _at_last(self, *_: object) -> Callable[[object], None] | None:
        if self._at_the_end:
            return lambda _: self._trip()
        self._trip()
        return None


class Broken(Observer):
    """Cannot even say whether it is on."""

    @property
    def is_on(self) -> bool:
        """Trip."""
        raise ZeroDivisionError


@pytest.mark.parametrize(
    "clumsy",
    [
        Clumsy(),
        Clumsy(at_the_end=True),
        Clumsy(by=asyncio.CancelledError),
        Clumsy(at_the_end=True, by=asyncio.CancelledError),
        Broken(),
    ],
)
def test_one_that_raises_is_reported_once_and_left_alone(
    cluster: Cluster, topic: str, clumsy: Observer, caplog: pytest.LogCaptureFixture
) -> None:
    keeping, seen = RecordingObserver(), Seen()
    consumer = Consumer(cluster.namesrv, f"of-{topic}", start_from="first", observers=[clumsy, keeping])
    consumer.handles(topic)(seen.record_message)
    with caplog.at_level(logging.ERROR, "steelyard"):
        with Producer(cluster.namesrv, observers=[clumsy, keeping]) as producer:
            for number in range(4):
                producer.send(Message(topic, b"%d" % number))
        with consumer:
            until(lambda: len(keeping.handled) == 4, "all are handled")
    assert [outcome.became for _, outcome in keeping.handled] == ["done"] * 4
    assert len(keeping.sent) == 4
    reported = [each for each in caplog.messages if "is not called any more" in each]
    assert len(reported) == 2, reported  # once for each client
    assert not isinstance(clumsy, Clumsy) or clumsy.calls == 2


def test_one_that_is_off_is_not_told(cluster: Cluster, topic: str) -> None:
    keeping = RecordingObserver()
    keeping.off = True
    with Producer(cluster.namesrv, observers=[keeping]) as producer:
        producer.send(Message(topic, b"1"))
        assert not keeping.begun
        keeping.off = False
        until(lambda: producer.send_many([Message(topic, b"2")]) and keeping.sent, "it is told again")
    assert all(outgoing.messages[0].body == b"2" for outgoing, _ in keeping.sent)


@pytest.mark.parametrize("make", [Producer, Consumer, PullConsumer])
def test_what_is_no_observer_is_refused(make: Callable[..., Any]) -> None:
    with pytest.raises(ConfigurationError, match="derived from Observer"):
        make("localhost:1", "billing", observers=["loud"])
    with pytest.raises(ConfigurationError, match="give a list"):
        make("localhost:1", "billing", observers=Observer())
