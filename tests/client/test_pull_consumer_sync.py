"""A pull consumer in a plain program: threads, iteration, forks, and an end that leaves nothing behind."""

import asyncio
import multiprocessing
import pickle
import subprocess
import sys
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from steelyard.aio import PullConsumer as AsyncPullConsumer
from steelyard.client.config import ClientConfig
from steelyard.client.sync.pull_consumer import PullConsumer
from steelyard.errors import ConfigurationError, NoNameServer
from steelyard.serve.embedded import Cluster
from tests.client.pull_scene import bodies, drain, fill, make_topic, poll_until, put_all
from tests.waiting import until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


def _left() -> set[object]:
    """Return the open sockets and the threads of this process."""
    folder = Path("/proc/self/fd")
    if not folder.exists():
        pytest.skip("nobody tells here which sockets are open")
    found: set[object] = {each for each in threading.enumerate() if each.name.startswith("steelyard")}
    for entry in folder.iterdir():
        with suppress(OSError):
            target = str(entry.readlink())
            found |= {target} if target.startswith("socket:") else set()
    return found


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_close_in_another_thread_ends_a_poll_that_waits(cluster: Cluster, is_shared: bool) -> None:
    queues = make_topic(cluster, "close-it", 1)
    consumer = PullConsumer(cluster.namesrv, "closers")
    if is_shared:
        consumer.subscribe("close-it")
    else:
        consumer.assign(queues)
    consumer.poll(0)
    with ThreadPoolExecutor(2) as pool:
        polling = pool.submit(consumer.poll, 600)
        next_one = pool.submit(lambda: polling.result(30))
        consumer.close()
        assert next_one.result(30) == []
    with pytest.raises(ConfigurationError, match="closed"):
        consumer.poll(0)
    consumer.close()


def test_two_polls_at_once_are_refused(cluster: Cluster) -> None:
    make_topic(cluster, "one-at-a-time", 1)
    with PullConsumer(cluster.namesrv, "one-at-a-time") as consumer, ThreadPoolExecutor(1) as pool:
        consumer.subscribe("one-at-a-time")
        consumer.poll(0)
        waiting = pool.submit(consumer.poll, 600)
        until(lambda: consumer._client._polling is not None)
        with pytest.raises(ConfigurationError, match="another poll is under way"):
            consumer.poll(0)
        consumer.close()
        assert waiting.result(30) == []


@pytest.mark.parametrize("is_shared", [True, False])
def test_what_an_interrupted_poll_did_not_return_is_returned_by_the_next(
    cluster: Cluster, is_shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = make_topic(cluster, f"interrupted-{is_shared}", 2)
    stored = fill(cluster, queues, 5)
    with PullConsumer(cluster.namesrv, group=f"interrupted-{is_shared}", start_from="first") as consumer:
        if is_shared:
            consumer.subscribe(f"interrupted-{is_shared}")
        else:
            consumer.assign(queues)
        seen = bodies(poll_until(consumer, bool, 1))
        loop_thread = consumer._ensure_open()
        run = loop_thread.run

        def interrupt(work: Coroutine[object, object, object]) -> object:
            monkeypatch.setattr(loop_thread, "run", run)
            run(work)
            raise KeyboardInterrupt

        monkeypatch.setattr(loop_thread, "run", interrupt)
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(10, 3)
        seen += bodies(drain(consumer, len(stored) - len(seen)))
    assert sorted(seen) == sorted(stored)


def test_an_iteration_counts_each_message_when_the_next_one_is_asked_for(cluster: Cluster) -> None:
    (queue,) = make_topic(cluster, "iterated", 1)
    put_all(cluster, queue, [b"1", b"2", b"3", b"4"])
    with PullConsumer(cluster.namesrv, "iterators", start_from="first") as consumer:
        consumer.subscribe("iterated")
        seen = []
        for message in consumer:
            seen.append(message.body)
            if len(seen) == 3:
                consumer.close(done=False)
        assert seen == [b"1", b"2", b"3"]
    with PullConsumer(cluster.namesrv, "iterators") as consumer:
        assert consumer.committed(queue) == 2


def test_the_asyncio_pull_consumer_reads_alike(cluster: Cluster) -> None:
    (queue,) = make_topic(cluster, "awaited", 1)
    put_all(cluster, queue, [b"1", b"2", b"3"])

    async def read() -> list[bytes]:
        async with AsyncPullConsumer(cluster.namesrv, "awaiters", start_from="first") as consumer:
            consumer.subscribe("awaited")
            found = []
            async for message in consumer:
                found.append(message.body)
                if len(found) == 3:
                    break
            await consumer.commit()
            assert await consumer.committed(queue) == 3
            return found

    assert asyncio.run(read()) == [b"1", b"2", b"3"]


def test_nothing_is_left_when_it_is_closed(cluster: Cluster) -> None:
    queues = make_topic(cluster, "left", 1)
    before = _left()
    for _ in range(3):
        with PullConsumer(cluster.namesrv, "leavers") as shared, PullConsumer(cluster.namesrv, "leavers-2") as assigned:
            shared.subscribe("left")
            shared.on_rebalance(lambda _: None)
            assigned.assign(queues)
            until(lambda: shared.poll(0) == [] and len(shared.assignment) == 1)
            assigned.poll(0)
    # The cluster is in this process too, and has its ends of the connections; some older ones were still open.
    until(lambda: _left() <= before)


def test_nothing_is_left_where_there_is_no_cluster() -> None:
    before = _left()
    consumer = PullConsumer(ClientConfig("127.0.0.1:1", timeout_s=0.2), "nobody")
    for _ in range(2):
        with pytest.raises(NoNameServer):
            consumer.subscribe("left")
    consumer.close()
    assert _left() <= before


@pytest.mark.process
def test_a_child_and_a_pickle_are_refused(cluster: Cluster) -> None:
    make_topic(cluster, "forked", 1)
    with PullConsumer(cluster.namesrv, "forkers") as consumer:
        consumer.subscribe("forked")
        consumer.poll(0)
        with pytest.raises(ConfigurationError, match="another process"):
            pickle.dumps(consumer)
        context = multiprocessing.get_context("fork")
        results: multiprocessing.SimpleQueue[str] = context.SimpleQueue()
        child = context.Process(target=_poll_in_child, args=(consumer, results))
        child.start()
        assert "make one in each process" in results.get()
        child.join()
        assert consumer.poll(0) == []


def _poll_in_child(consumer: PullConsumer, results: "multiprocessing.SimpleQueue[str]") -> None:
    try:
        consumer.poll(0)
        results.put("it polled")
    except ConfigurationError as error:
        results.put(str(error))
    consumer.close()


_FORGETFUL = """
import sys
from steelyard import PullConsumer

puller = PullConsumer(sys.argv[1], "forgetful-" + sys.argv[2], start_from="first")
puller.subscribe("forgotten-" + sys.argv[2])
polled = []
while len(polled) < 2:
    polled += puller.poll(1, most=1)
print(len(polled), flush=True)
if sys.argv[2] == "fails":
    raise SystemExit("something went wrong")
"""


@pytest.mark.process
@pytest.mark.parametrize("how", ["ends", "fails"])
def test_a_program_that_forgets_to_close_ends_and_counts_only_what_it_polled_past(cluster: Cluster, how: str) -> None:
    (queue,) = make_topic(cluster, f"forgotten-{how}", 1)
    put_all(cluster, queue, [b"1", b"2", b"3"])
    with PullConsumer(cluster.namesrv, f"forgetful-{how}") as consumer:
        run = subprocess.run(
            [sys.executable, "-c", _FORGETFUL, cluster.namesrv, how], capture_output=True, text=True, timeout=60
        )
        assert run.stdout == "2\n"
        assert run.returncode == (how == "fails")
        assert consumer.committed(queue) == 1
        consumer.subscribe(queue.topic)
        assert bodies(drain(consumer, 2)) == [b"2", b"3"]
