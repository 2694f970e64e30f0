"""Bodies are opened one at a time: what waits is as small as it is stored, and many never are large together."""

import asyncio
import threading
import zlib
from collections.abc import Iterator

import pytest

from steelyard import Consumer, Finding, PullConsumer, Queue, ReceivedMessage
from steelyard.balance.group.events import UnreadableMessage
from steelyard.client.consumer import decompression
from steelyard.client.consumer.decompression import DecompressionBudget, decompress_message
from steelyard.errors import MissingExtra
from steelyard.serve.embedded import Cluster
from steelyard.wire import stored_messages
from steelyard.wire.limits import DECOMPRESSED_BYTES
from tests.client.consumer_scene import Seen, make_topic, put
from tests.waiting import LONGEST_S, until

_ZLIB = 0x301
_LARGE = 4 << 20
_LARGE_BODY = zlib.compress(bytes(_LARGE))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Run one cluster for all."""
    with Cluster() as running:
        yield running


class _Opened:
    """Counts how much is open at a time, in what handlers are given."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.now = self.most = self.bodies = 0

    def begin(self, messages: list[ReceivedMessage]) -> int:
        """Record what was handed out."""
        size = sum(len(message.body) for message in messages)
        with self.lock:
            self.now += size
            self.most = max(self.most, self.now)
        return size

    def end(self, messages: list[ReceivedMessage], size: int) -> None:
        """Record that it is done."""
        with self.lock:
            self.now -= size
            self.bodies += len(messages)


# -- room -------------------------------------------------------------------------------------------------------------


def test_room_is_there_for_one_body_however_little_is_allowed() -> None:
    budget = DecompressionBudget(1)
    budget.acquire()
    budget.keep_only(10)
    assert budget.used_bytes == 10
    budget.release(10)
    assert budget.used_bytes == 0


def test_who_finds_no_room_waits_until_others_are_done() -> None:
    budget = DecompressionBudget(DECOMPRESSED_BYTES)
    budget.acquire()
    began, ended = threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        budget.acquire()
        budget.release(DECOMPRESSED_BYTES)
        ended.set()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert began.wait(LONGEST_S)
    assert budget.used_bytes == DECOMPRESSED_BYTES
    assert not ended.is_set()
    budget.release(DECOMPRESSED_BYTES)
    for thread in threads:
        thread.join(LONGEST_S)
    assert budget.used_bytes == 0


def test_a_task_that_waits_for_room_is_woken_from_a_thread() -> None:
    async def scene() -> int:
        budget = DecompressionBudget(DECOMPRESSED_BYTES)
        await budget.acquire_on_loop()
        second = asyncio.ensure_future(budget.acquire_on_loop())
        gone = asyncio.ensure_future(budget.acquire_on_loop())
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.to_thread(budget.release, DECOMPRESSED_BYTES)
        async with asyncio.timeout(LONGEST_S):
            await second
        return budget.used_bytes

    assert asyncio.run(scene()) == DECOMPRESSED_BYTES


# -- consumers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["in threads", "on the loop", "in batches", "in batches on the loop", "in order"])
def test_many_small_bodies_never_are_many_large_ones(cluster: Cluster, kind: str) -> None:
    topic = "large-" + kind.replace(" ", "-")
    make_topic(cluster, topic, queues=1)
    put(cluster, topic, 0, [_LARGE_BODY] * 40, sys_flag=_ZLIB)
    opened = _Opened()
    # Nobody may have more than one body of the largest kind open, and room for one is always there.
    consumer = Consumer(cluster.namesrv, group=topic, start_from="first", queue_bytes=DECOMPRESSED_BYTES)

    def take(given: ReceivedMessage | list[ReceivedMessage]) -> None:
        messages = given if isinstance(given, list) else [given]
        assert all(len(message.body) == _LARGE and not message.sys_flag & 1 for message in messages)
        opened.end(messages, opened.begin(messages))

    async def take_on_loop(given: ReceivedMessage | list[ReceivedMessage]) -> None:
        messages = given if isinstance(given, list) else [given]
        size = opened.begin(messages)
        await asyncio.sleep(0)
        opened.end(messages, size)

    batch = 32 if "batches" in kind else 1
    consumer.handles(topic, batch=batch, orderly=kind == "in order")(take_on_loop if "loop" in kind else take)
    with consumer:
        until(lambda: opened.bodies == 40, "all of it")
    assert opened.most <= 2 * DECOMPRESSED_BYTES
    assert consumer.failures == {}


def test_what_waits_counts_as_it_is_stored(cluster: Cluster) -> None:
    make_topic(cluster, "waiting", queues=1)
    put(cluster, "waiting", 0, [_LARGE_BODY] * 20, sys_flag=_ZLIB)
    go, seen = threading.Event(), Seen()
    consumer = Consumer(cluster.namesrv, group="waiting", start_from="first", workers=1)

    @consumer.handles("waiting")
    def take(message: ReceivedMessage) -> None:
        go.wait(LONGEST_S)
        seen.record_message(message)

    with consumer:
        until(lambda: "19 wait and 1 are handled" in str(consumer.explain()), "all of it is there")
        go.set()
        until(lambda: len(seen.messages) == 20, "all of it is handled")


@pytest.mark.parametrize("is_assigned", [False, True], ids=["shared", "assigned"])
def test_a_poll_opens_no_more_than_may_be_open_together(cluster: Cluster, *, is_assigned: bool) -> None:
    topic = f"polled-{is_assigned}".lower()
    make_topic(cluster, topic, queues=1)
    put(cluster, topic, 0, [_LARGE_BODY] * 20, sys_flag=_ZLIB)
    offsets: list[int] = []
    with PullConsumer(cluster.namesrv, topic, start_from="first") as pull_consumer:
        if is_assigned:
            pull_consumer.assign([Queue(topic, "broker-0", 0)])
        else:
            pull_consumer.subscribe(topic)
        while len(offsets) < 20:
            polled = pull_consumer.poll(1)
            assert sum(len(message.body) for message in polled) <= 2 * DECOMPRESSED_BYTES
            offsets += [message.offset for message in polled]
    assert offsets == list(range(20))


# -- an extra that is missing -----------------------------------------------------------------------------------------


def _missing(_body: bytes, _sys_flag: int) -> bytes:
    raise MissingExtra("zstd bodies", extra="fast")


@pytest.mark.parametrize("choice", ["dead-letter", "skip", "stop"])
def test_an_extra_that_is_missing_stops_the_queue_loudly_and_loses_nothing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, choice: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = f"extra-{choice}"
    make_topic(cluster, topic, queues=1)
    put(cluster, topic, 0, [zlib.compress(b"good")], sys_flag=_ZLIB)
    seen, findings = Seen(), list[Finding]()

    def consumer() -> Consumer:
        made = Consumer(cluster.namesrv, group=topic, start_from="first", on_unreadable=choice)
        made.on_warning(findings.append)
        made.handles(topic)(seen.record_message)
        return made

    with monkeypatch.context() as patched:
        patched.setattr(stored_messages, "decompress", _missing)
        with consumer() as first:
            until(lambda: findings, "it is told")
            assert "zstd bodies need a package that is not installed" in findings[0].message
            assert "stands still at offset 0" in str(first.explain())
        assert findings[0].message in caplog.text
    assert seen.bodies == []
    with consumer():
        seen.wait([b"good"])


def test_what_is_not_sealed_is_handed_out_as_it_is() -> None:
    message = ReceivedMessage(Queue("t", "b", 0), 1, b"plain")
    assert decompress_message(message) is message
    assert isinstance(
        decompression.decompress_message(ReceivedMessage(Queue("t", "b", 0), 1, b"?", sys_flag=_ZLIB)),
        UnreadableMessage,
    )
