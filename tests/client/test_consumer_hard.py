"""Handlers and callbacks that do what they should not: the consumer goes on, or ends, and loses nothing by it."""

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest

from steelyard import aio
from steelyard.client.consumer.handler_task import SLOW_NS
from steelyard.client.consumer.notifications import Rebalanced
from steelyard.client.consumer.received_message import ReceivedMessage
from steelyard.client.loop_thread import LoopThread
from steelyard.client.sync.admin import Admin
from steelyard.client.sync.consumer import Consumer
from steelyard.errors import ConfigurationError
from steelyard.serve.embedded import Cluster
from tests.client.consumer_scene import Seen, clocked, fill, make_topic, put
from tests.waiting import until

_ENDINGS: list[type[BaseException]] = [SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Run one cluster for all."""
    with Cluster() as running:
        yield running


def _committed(cluster: Cluster, topic: str) -> int:
    with Admin(cluster.namesrv) as admin:
        return sum(each.committed or 0 for each in admin.offsets.list(f"{topic}-group", topic))


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_whatever_a_handler_raises_only_its_message_comes_again(kind: str) -> None:
    seen = Seen()

    def handle(message: ReceivedMessage) -> None:
        seen.record_message(message)
        number = int(message.body)
        if number < len(_ENDINGS) and message.attempt == 1:
            raise _ENDINGS[number]

    async def handle_on_the_loop(message: ReceivedMessage) -> None:
        handle(message)

    with clocked() as (cluster, pass_a_second):
        make_topic(cluster, "raising", queues=1)
        put(cluster, "raising", 0, [b"%d" % number for number in range(8)])
        consumer = Consumer(cluster.namesrv, group="raising-group", start_from="first", workers=2)
        consumer.handles("raising")(handle if kind == "plain" else handle_on_the_loop)
        with consumer:
            until(lambda: len(seen.bodies) >= 8 + len(_ENDINGS) or pass_a_second(), "coming again")
            assert len(consumer.failures) == len(_ENDINGS)
        counts = seen.counts()
        assert [counts[b"%d" % number] for number in range(8)] == [2] * len(_ENDINGS) + [1] * (8 - len(_ENDINGS))
        assert _committed(cluster, "raising") == 8


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_whatever_a_callback_raises_the_consumer_goes_on(
    cluster: Cluster, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = f"calling-back-{kind}"
    make_topic(cluster, topic, queues=1)
    seen, moves = Seen(), list[Rebalanced]()
    consumer = Consumer(cluster.namesrv, group=f"{topic}-group", start_from="first")
    consumer.handles(topic)(seen.record_message)

    def raise_at(rebalanced: Rebalanced) -> None:
        moves.append(rebalanced)
        raise SystemExit(3)

    async def raise_on_the_loop(rebalanced: Rebalanced) -> None:
        raise_at(rebalanced)

    consumer.on_rebalance(raise_at if kind == "plain" else raise_on_the_loop)
    with caplog.at_level(logging.ERROR, "steelyard"), consumer:
        until(lambda: moves, "being told")
        put(cluster, topic, 0, [b"one"])
        seen.wait([b"one"])
    assert _committed(cluster, topic) == 1
    assert any("SystemExit" in (record.exc_text or "") for record in caplog.records)
    if kind == "plain":
        assert len(moves) == 2  # also of what was released at the end


@pytest.mark.parametrize("way", ["stop", "close"])
def test_a_plain_handler_may_stop_its_consumer(cluster: Cluster, way: str) -> None:
    topic = f"own-{way}"
    make_topic(cluster, topic, queues=1)
    put(cluster, topic, 0, [b"one"])
    consumer = Consumer(cluster.namesrv, group=f"{topic}-group", start_from="first", drain_s=None)

    @consumer.handles(topic)
    def handle(message: ReceivedMessage) -> None:
        assert message.body == b"one"
        consumer.stop() if way == "stop" else consumer.close()

    consumer.run()
    assert not consumer.failures
    assert _committed(cluster, topic) == 1


def test_an_async_handler_may_stop_its_consumer(cluster: Cluster) -> None:
    make_topic(cluster, "own-aio", queues=1)
    put(cluster, "own-aio", 0, [b"one"])

    async def work() -> None:
        consumer = aio.Consumer(cluster.namesrv, group="own-aio-group", start_from="first", drain_s=None)

        @consumer.handles("own-aio")
        async def handle(message: ReceivedMessage) -> None:
            assert message.body == b"one"
            await consumer.stop()

        await consumer.run()
        assert not consumer.failures

    asyncio.run(work())
    assert _committed(cluster, "own-aio") == 1


def test_a_callback_may_stop_its_consumer(cluster: Cluster) -> None:
    make_topic(cluster, "moved-away")
    consumer = Consumer(cluster.namesrv, group="moved-away-group")
    consumer.handles("moved-away")(print)
    consumer.on_rebalance(lambda rebalanced: consumer.stop() if rebalanced.taken else None)
    consumer.run()

    async def work() -> None:
        other = aio.Consumer(cluster.namesrv, group="moved-away-group")
        other.handles("moved-away")(print)

        @other.on_rebalance
        async def rebalanced(_: Rebalanced) -> None:
            await other.stop()

        await other.run()

    asyncio.run(work())
    with Admin(cluster.namesrv) as admin:
        assert not admin.groups.members("moved-away-group")


def test_a_blocking_consumer_that_is_closed_on_its_own_loop_refuses_and_goes_on(cluster: Cluster) -> None:
    make_topic(cluster, "wrong-thread", queues=1)
    put(cluster, "wrong-thread", 0, [b"one"])
    errors, seen = list[str](), Seen()
    consumer = Consumer(cluster.namesrv, group="wrong-thread-group", start_from="first")

    @consumer.handles("wrong-thread")
    async def handle(message: ReceivedMessage) -> None:
        for end in (consumer.stop, consumer.close):
            try:
                end()
            except ConfigurationError as error:
                errors.append(str(error))
        seen.record_message(message)

    with consumer:
        seen.wait([b"one"])
        put(cluster, "wrong-thread", 0, [b"two"])
        seen.wait([b"two"])
    assert len(errors) == 4
    assert all("on its own loop" in error for error in errors)


@pytest.mark.parametrize("way", ["stop", "close", "explain"])
def test_an_async_handler_that_runs_before_its_consumer_is_open_is_refused_too(
    cluster: Cluster, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"early-async-{way}"
    begun, errors = threading.Event(), list[str]()
    consumer = _handled_while_it_opens(cluster, topic, begun, monkeypatch)

    @consumer.handles(topic)
    async def handle(_: ReceivedMessage) -> None:
        begun.set()
        with pytest.raises(ConfigurationError) as caught:
            getattr(consumer, way)()
        errors.append(str(caught.value))

    with consumer:
        put(cluster, topic, 0, [b"two"])
        until(lambda: len(errors) == 2, "both messages were handled, and each call was refused")
    assert all("on its own loop" in error for error in errors)
    assert not consumer.failures


@pytest.mark.parametrize("way", ["stop", "close"])
def test_a_plain_handler_that_runs_before_its_consumer_is_open_may_stop_it(
    cluster: Cluster, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"early-plain-{way}"
    begun = threading.Event()
    consumer = _handled_while_it_opens(cluster, topic, begun, monkeypatch)

    @consumer.handles(topic)
    def handle(_: ReceivedMessage) -> None:
        begun.set()
        consumer.stop() if way == "stop" else consumer.close()

    consumer.run()
    assert not consumer.failures
    assert _committed(cluster, topic) == 1


def _handled_while_it_opens(
    cluster: Cluster, topic: str, begun: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> Consumer:
    """Make a consumer that is open only some time after its handler began with the first message."""
    make_topic(cluster, topic, queues=1)
    put(cluster, topic, 0, [b"one"])
    consumer = Consumer(cluster.namesrv, group=f"{topic}-group", start_from="first", drain_s=None)
    open_client = consumer._client.open

    async def open_slowly() -> None:
        await open_client()
        while not begun.is_set():
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # what a plain handler calls meanwhile finds it half open

    monkeypatch.setattr(consumer._client, "open", open_slowly)
    return consumer


def test_nothing_is_begun_after_the_end(cluster: Cluster) -> None:
    make_topic(cluster, "impatience", queues=1)
    put(cluster, "impatience", 0, [b"%d" % number for number in range(40)])
    seen, begun, free = Seen(), threading.Event(), threading.Event()
    consumer = Consumer(cluster.namesrv, group="impatience-group", start_from="first", workers=2)

    @consumer.handles("impatience")
    def handle(message: ReceivedMessage) -> None:
        seen.record_message(message)
        begun.set()
        free.wait(30)

    consumer.start()
    assert begun.wait(30)
    consumer.interrupt()
    consumer.interrupt()
    consumer.close()
    before = len(seen.bodies)
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("steelyard-impatience")]
    free.set()
    for thread in threads:
        thread.join(30)
    assert len(seen.bodies) == before <= 2


def test_a_stop_while_it_starts_stops_it(cluster: Cluster) -> None:
    make_topic(cluster, "hesitant")

    async def work() -> None:
        consumer = aio.Consumer(cluster.namesrv, group="hesitant-group")
        consumer.handles("hesitant")(print)
        starting = asyncio.get_running_loop().create_task(consumer.start())
        await asyncio.sleep(0)
        await consumer.stop()
        await starting
        assert consumer.is_over

    asyncio.run(work())


@pytest.mark.parametrize("new_loop", ["asyncio", "uvloop"])
def test_consumers_and_producers_live_in_several_loops_one_after_the_other(cluster: Cluster, new_loop: str) -> None:
    topic = f"loops-{new_loop}"
    make_topic(cluster, topic)
    factory = asyncio.new_event_loop if new_loop == "asyncio" else pytest.importorskip("uvloop").new_event_loop
    seen = Seen()

    async def work(body: bytes) -> None:
        async with aio.Producer(cluster.namesrv) as producer:
            await producer.send(aio.Message(topic, body))
        consumer = aio.Consumer(cluster.namesrv, group=f"{topic}-group", start_from="first")
        consumer.handles(topic)(seen.record_message)
        async with consumer:
            while body not in seen.bodies:
                await asyncio.sleep(0.003)

    for body in (b"one", b"two", b"three"):
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(work(body))
    assert sorted(seen.bodies) == [b"one", b"three", b"two"]


def test_a_client_whose_loop_has_ended_reports_it_and_can_be_closed(cluster: Cluster) -> None:
    make_topic(cluster, "stranded")
    producer, pull_consumer = aio.Producer(cluster.namesrv), aio.PullConsumer(cluster.namesrv, "stranded-group")
    admin, message = aio.Admin(cluster.namesrv), aio.Message("stranded", b"one")
    pull_consumer.subscribe("stranded")

    async def work() -> None:
        await producer.send(message)
        await pull_consumer.poll(0)
        await admin.open()
        # As a loop that ends in order leaves them: with their connections gone.
        for session in (producer.session, pull_consumer._session, admin._session._session):
            assert session is not None
            session.abort()
        await asyncio.sleep(0.05)

    async def again() -> None:
        for use in (
            lambda: producer.send(message),
            lambda: pull_consumer.poll(0.1),
            lambda: pull_consumer.queues("stranded"),
        ):
            with pytest.raises(ConfigurationError, match="the loop that it was opened on has ended"):
                await use()
        await asyncio.gather(producer.close(), pull_consumer.close(), admin.close())

    asyncio.run(work())
    asyncio.run(again())


def test_each_message_is_handled_once_while_members_come_and_go_in_the_middle_of_chunks(cluster: Cluster) -> None:
    make_topic(cluster, "chunked", queues=4)
    bodies, seen = fill(cluster, "chunked", 1_200), Seen()
    is_slow = threading.Event()

    def handle(message: ReceivedMessage) -> None:
        seen.record_message(message)
        # Quick first, so that chunks are large, and then some are slow: what waits behind those goes to others.
        if is_slow.is_set() and message.offset % 32 == 0:
            time.sleep(2 * SLOW_NS / 1e9)

    def member(number: int) -> Consumer:
        made = Consumer(cluster.namesrv, group="chunked-group", name=f"m{number}", start_from="first", workers=3)
        made.handles("chunked")(handle)
        return made

    with member(0):
        seen.wait(bodies)
        is_slow.set()
        for turn in range(3):
            with member(turn + 1) as other:
                put(cluster, "chunked", turn, [b"%d-%d" % (turn, number) for number in range(300)])
                put(cluster, "chunked", turn + 1, [b"%d+%d" % (turn, number) for number in range(300)])
                until(partial(getattr, other, "assignment"), "sharing")
        total = 1_200 + 3 * 600
        until(lambda: len(set(seen.bodies)) == total, "handling all")
    assert set(seen.counts().values()) == {1}
    assert _committed(cluster, "chunked") == total


def test_a_loop_that_has_ended_is_not_waited_for() -> None:
    loop_thread = LoopThread.acquire()
    waiting = threading.Event()

    async def wait() -> None:
        waiting.set()
        await asyncio.Event().wait()

    errors: list[str] = []

    def wait_for_it() -> None:
        try:
            loop_thread.run(wait())
        except ConfigurationError as error:
            errors.append(str(error))

    thread = threading.Thread(target=wait_for_it)
    thread.start()
    assert waiting.wait(30)
    loop_thread.release()
    thread.join(30)
    assert errors == ["the client was closed meanwhile; make another one"]
    with pytest.raises(ConfigurationError, match="the client is closed"):
        loop_thread.run(wait())


def test_a_loop_goes_on_after_somebody_wanted_to_exit_on_it() -> None:
    async def leave() -> None:
        raise SystemExit(1)

    async def stay() -> int:
        return 7

    loop_thread = LoopThread.acquire()
    try:
        with pytest.raises(SystemExit):
            loop_thread.run(leave())
        loop_thread.loop.call_soon_threadsafe(loop_thread.loop.stop)
        assert loop_thread.run(stay()) == 7
    finally:
        loop_thread.release()
