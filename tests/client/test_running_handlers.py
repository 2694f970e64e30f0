"""What handlers do now is seen from outside: which message each has, for how long, and its Python stack."""

import asyncio
import sys
import threading
import zlib
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from steelyard.client.consumer.running_handlers import coroutine_frames, format_frames, thread_frames
from steelyard.client.sync.admin import Admin
from steelyard.client.sync.consumer import Consumer
from steelyard.serve.embedded import Cluster
from steelyard.wire.bodies.members import RunningHandler
from tests.client.consumer_scene import make_topic, put
from tests.waiting import LONGEST_S, until

_SECRET = "4711-4711"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Run one cluster for all."""
    with Cluster() as running:
        yield running


class Gate:
    """Holds handlers up until it is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.entered = threading.Semaphore(0)

    def hang(self) -> None:
        """Wait in a thread, and know a number that nobody else should see."""
        number = _SECRET
        self.entered.release()
        self.opened.wait()
        del number

    async def hang_on_loop(self) -> None:
        """Wait in a task."""
        self.entered.release()
        while not self.opened.is_set():
            await asyncio.sleep(0.01)


@pytest.fixture
def gate() -> Iterator[Gate]:
    """Give a gate that is open at the end."""
    gate = Gate()
    yield gate
    gate.opened.set()


def _shown(cluster: Cluster, group: str, consumer: Consumer) -> tuple[RunningHandler, ...]:
    with Admin(cluster.namesrv) as admin:
        return admin.groups.member_status(group, consumer.id).running or ()


def test_hanging_handlers_are_shown_with_message_and_stack(cluster: Cluster, gate: Gate) -> None:
    make_topic(cluster, "hanging", 1)
    put(cluster, "hanging", 0, [b"a", b"b"], UNIQ_KEY="A1")
    consumer = Consumer(cluster.namesrv, "hangers", start_from="first", workers=2)

    @consumer.handles("hanging")
    def bill(_message: object) -> None:
        gate.hang()

    assert consumer.running_handlers() == []
    with consumer:
        for _ in range(2):
            assert gate.entered.acquire(timeout=LONGEST_S)
        here, there = consumer.running_handlers(), _shown(cluster, "hangers", consumer)
        with Admin(cluster.namesrv) as admin:
            dump = admin.groups.member_status("hangers", consumer.id, stacks=True).stacks or ""
        gate.opened.set()
        until(lambda: consumer.running_handlers() == [], "nothing runs")
    for found in (here, there):
        assert sorted(each.offset for each in found) == [0, 1]
        for each in found:
            assert (each.queue.topic, each.message_id, each.messages) == ("hanging", "A1", 1)
            assert each.handler.endswith("bill")
            assert each.worker.startswith("steelyard-hangers-")
            assert each.stack.startswith(f'  File "{__file__}"'), "frames of ours are left out"
            assert "in bill\n" in each.stack
            assert "in hang\n" in each.stack
            assert _SECRET not in each.stack
    assert all(str(each).split(" for ")[0] in dump for each in there)
    assert "MainThread" in dump


def test_a_coroutine_is_shown_with_all_that_it_awaits(cluster: Cluster, gate: Gate) -> None:
    make_topic(cluster, "awaiting", 1)
    put(cluster, "awaiting", 0, [b"a"])
    consumer = Consumer(cluster.namesrv, "awaiters", start_from="first")

    async def parts() -> AsyncIterator[int]:
        await asyncio.create_task(gate.hang_on_loop())
        yield 1

    @consumer.handles("awaiting")
    async def bill(_message: object) -> None:
        async for _ in parts():
            pass

    with consumer:
        assert gate.entered.acquire(timeout=LONGEST_S)
        (shown,) = _shown(cluster, "awaiters", consumer)
        gate.opened.set()
    places = [line.rpartition(" in ")[2] for line in shown.stack.splitlines() if line.startswith("  File")]
    assert places[:3] == ["bill", "parts", "hang_on_loop"]


def test_a_coroutine_that_blocks_its_loop_is_seen_by_its_own_program(cluster: Cluster, gate: Gate) -> None:
    make_topic(cluster, "blocking", 1)
    put(cluster, "blocking", 0, [b"a"])
    consumer = Consumer(cluster.namesrv, "blockers", start_from="first")

    @consumer.handles("blocking")
    async def bill(_message: object) -> None:
        gate.hang()

    with consumer:
        assert gate.entered.acquire(timeout=LONGEST_S)
        (shown,) = consumer.running_handlers()
        gate.opened.set()
    assert "in bill\n" in shown.stack
    assert "in hang\n" in shown.stack


@pytest.mark.parametrize("sys_flag", [0, 0x301], ids=["plain", "compressed"])
def test_of_a_batch_the_first_message_is_named(cluster: Cluster, gate: Gate, sys_flag: int) -> None:
    topic = f"batched-{sys_flag}"
    make_topic(cluster, topic, 1)
    body = zlib.compress(b"j" * 3) if sys_flag else b"j"
    put(cluster, topic, 0, [body] * 3, sys_flag=sys_flag, UNIQ_KEY="A1")
    consumer = Consumer(cluster.namesrv, f"{topic}-group", start_from="first")

    @consumer.handles(topic, batch=8)
    def bill(_messages: object) -> None:
        gate.hang()

    with consumer:
        assert gate.entered.acquire(timeout=LONGEST_S)
        (shown,) = consumer.running_handlers()
        gate.opened.set()
    assert (shown.offset, shown.messages) == (0, 3)
    assert "with 3 messages from A1 of " in str(shown)


def test_a_deep_stack_is_cut_to_its_innermost_frames() -> None:
    def deepen(levels: int, then: Callable[[], str]) -> str:
        return then() if not levels else deepen(levels - 1, then)

    text = deepen(200, lambda: format_frames(thread_frames(sys._getframe())))
    assert text.startswith("  …\n")
    assert len(text) < 7_000
    assert text.rstrip().splitlines()[-2].endswith("in <lambda>")


def test_what_is_awaited_without_a_frame_ends_a_stack() -> None:
    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    async def look() -> list[str]:
        waiting = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        frames = coroutine_frames(waiting.get_coro(), ())
        waiting.cancel()
        return [frame.f_code.co_name for frame in frames]

    assert asyncio.run(look()) == ["wait"]
    assert coroutine_frames(None, ()) == []
