"""A consumer ends in order: by a signal, by `stop`, by its context; within its bound, and with nothing left behind."""

import asyncio
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from steelyard import aio
from steelyard.client.config import ClientConfig
from steelyard.client.consumer.notifications import Rebalanced
from steelyard.client.consumer.received_message import ReceivedMessage
from steelyard.client.sync.admin import Admin
from steelyard.client.sync.consumer import Consumer
from steelyard.errors import ConfigurationError, NoNameServer
from steelyard.serve.embedded import Cluster
from tests.client.consumer_scene import Seen, fill, make_topic, put
from tests.waiting import LONGEST_S, until

_ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Run one cluster for all."""
    with Cluster() as running:
        yield running


@contextmanager
def _program(
    cluster: Cluster, topic: str, takes_s: float, drain_s: float, kind: str
) -> Iterator["subprocess.Popen[str]"]:
    words = [cluster.namesrv, topic, f"{topic}-group", str(takes_s), str(drain_s), kind]
    command = [sys.executable, "-m", "tests.client.run_consumer", *words]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        try:
            yield program
        finally:
            program.kill()


def _read_until(program: "subprocess.Popen[str]", start: str) -> str:
    assert program.stdout is not None
    for line in program.stdout:
        if line.startswith(start):
            return line
    assert program.stderr is not None
    raise AssertionError(f"it ended without {start!r}: {program.stderr.read()}")


@pytest.mark.process
@pytest.mark.parametrize("kind", ["plain", "aio"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_what_runs_finish_and_commits_it(cluster: Cluster, kind: str, number: signal.Signals) -> None:
    topic = f"ended-{kind}-{number.name}"
    make_topic(cluster, topic, queues=1)
    put(cluster, topic, 0, [b"one"])
    with _program(cluster, topic, 0.3, 30, kind) as program:
        _read_until(program, "begun one")
        program.send_signal(number)
        _read_until(program, "done one")
        assert _read_until(program, "ended") == "ended []\n"
        assert program.wait(LONGEST_S) == 0
    with Admin(cluster.namesrv) as admin:
        assert [each.committed for each in admin.offsets.list(f"{topic}-group", topic)] == [1]
        assert not admin.groups.members(f"{topic}-group")


@pytest.mark.process
@pytest.mark.parametrize("kind", ["plain", "aio"])
def test_a_handler_slower_than_the_bound_does_not_hold_up_the_end(cluster: Cluster, kind: str) -> None:
    topic = f"overlong-{kind}"
    make_topic(cluster, topic, queues=1)
    put(cluster, topic, 0, [b"one"])
    with _program(cluster, topic, 600, 0.2, kind) as program:
        _read_until(program, "begun one")
        program.send_signal(signal.SIGTERM)
        _read_until(program, "ended")
        assert program.wait(LONGEST_S) == 0
        assert program.stderr is not None
        assert "of its handlers still run" in program.stderr.read()
    with Admin(cluster.namesrv) as admin:
        assert [each.committed for each in admin.offsets.list(f"{topic}-group", topic)] == [0]


@pytest.mark.process
@pytest.mark.parametrize("kind", ["plain", "aio"])
def test_a_second_signal_ends_at_once(cluster: Cluster, kind: str) -> None:
    topic = f"impatient-{kind}"
    make_topic(cluster, topic, queues=1)
    put(cluster, topic, 0, [b"one"])
    with _program(cluster, topic, 600, 500, kind) as program:
        _read_until(program, "begun one")
        program.send_signal(signal.SIGINT)
        # The first one was taken when the group hears that it leaves.
        with Admin(cluster.namesrv) as admin:
            until(lambda: _is_leaving(admin, topic), "leaving")
        program.send_signal(signal.SIGTERM)
        _read_until(program, "ended")
        assert program.wait(LONGEST_S) == 0
    # What was in a handler was not done: it comes again.
    seen = Seen()
    heir = Consumer(cluster.namesrv, group=f"{topic}-group")
    heir.handles(topic)(seen.record_message)
    with heir:
        seen.wait([b"one"])


def _is_leaving(admin: Admin, topic: str) -> bool:
    group = f"{topic}-group"
    held = [
        queue for member in admin.groups.members(group) for queue in admin.groups.member_status(group, member.id).queues
    ]
    return all(each.leaving for each in held if each.queue.topic == topic)


def test_run_ends_when_somebody_stops_it_from_another_thread(cluster: Cluster) -> None:
    make_topic(cluster, "stopped")
    bodies, seen = fill(cluster, "stopped", 20), Seen()
    consumer = Consumer(cluster.namesrv, group="stopped-group", start_from="first")
    consumer.handles("stopped")(seen.record_message)
    thread = threading.Thread(target=consumer.run)
    thread.start()
    seen.wait(bodies)
    consumer.interrupt()
    thread.join(30)
    assert not thread.is_alive()


def test_a_handler_can_end_its_consumer(cluster: Cluster) -> None:
    make_topic(cluster, "suicidal")
    put(cluster, "suicidal", 0, [b"one"])
    seen = Seen()
    consumer = Consumer(cluster.namesrv, group="suicidal-group", start_from="first")

    @consumer.handles("suicidal")
    def handle(message: ReceivedMessage) -> None:
        seen.record_message(message)
        consumer.interrupt()

    consumer.run()
    assert seen.bodies == [b"one"]


def test_nothing_is_left_after_the_end(cluster: Cluster) -> None:
    make_topic(cluster, "traceless")
    bodies, seen = fill(cluster, "traceless", 50), Seen()
    files, threads = _open_files(), _threads()
    consumer = Consumer(cluster.namesrv, group="traceless-group", start_from="first")
    consumer.handles("traceless")(seen.record_message)
    consumer.on_rebalance(list[Rebalanced]().append)
    with consumer:
        seen.wait(bodies)
    # Clusters, of this test and of others, are in this process too: what counts is what came on top.
    assert _threads() <= threads
    # It has its ends of the connections.
    until(lambda: _open_files() <= files, "closing all sockets")


def _threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name.startswith("steelyard")}


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_stop_is_bounded_and_can_be_called_again(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    make_topic(cluster, "stuck", queues=1)
    put(cluster, "stuck", 0, [b"one"])
    begun, free = threading.Event(), threading.Event()
    consumer = Consumer(cluster.namesrv, group="stuck-group", start_from="first")

    @consumer.handles("stuck")
    def handle(message: ReceivedMessage) -> None:
        assert message.body == b"one"
        begun.set()
        free.wait(60)

    consumer.start()
    assert begun.wait(30)
    with caplog.at_level(logging.WARNING, "steelyard"):
        consumer.stop(drain_s=0.1)
    consumer.stop()
    consumer.close()
    free.set()
    assert any("of its handlers still run" in record.getMessage() for record in caplog.records)
    with pytest.raises(ConfigurationError, match="is closed"):
        consumer.start()


def test_a_cancelled_run_leaves_the_group(cluster: Cluster) -> None:
    make_topic(cluster, "cancelled")
    bodies, seen = fill(cluster, "cancelled", 10), Seen()

    async def work() -> None:
        consumer = aio.Consumer(cluster.namesrv, group="cancelled-group", start_from="first")
        consumer.handles("cancelled")(seen.record_message)
        running = asyncio.get_running_loop().create_task(consumer.run())
        while len(seen.messages) < len(bodies):
            await asyncio.sleep(0.005)
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
        assert consumer.is_over

    asyncio.run(work())
    with Admin(cluster.namesrv) as admin:
        assert not admin.groups.members("cancelled-group")
        assert sum(each.committed or 0 for each in admin.offsets.list("cancelled-group", "cancelled")) == 10


def test_a_start_that_fails_is_raised_and_leaves_nothing(tmp_path: Path) -> None:
    threads = _threads()
    consumer = Consumer(
        ClientConfig("127.0.0.1:1", timeout_s=0.1), group="lost", mode="broadcast", offsets_dir=tmp_path
    )
    consumer.handles("anything")(print)
    with pytest.raises(NoNameServer):
        consumer.run()
    assert _threads() <= threads


def test_a_consumer_refuses_to_work_in_a_forked_child_and_to_be_pickled(cluster: Cluster) -> None:
    make_topic(cluster, "forked")
    bodies, seen = fill(cluster, "forked", 10), Seen()
    consumer = Consumer(cluster.namesrv, group="forked-group", start_from="first")
    consumer.handles("forked")(seen.record_message)
    with pytest.raises(ConfigurationError, match="cannot be sent to another process"):
        pickle.dumps(consumer)
    with consumer:
        seen.wait(bodies)
        consumer._pid -= 1
        try:
            with pytest.raises(ConfigurationError, match=f"is used in process {os.getpid()}"):
                consumer.explain()
            consumer.close()
        finally:
            consumer._pid += 1
        put(cluster, "forked", 0, [b"still here"])
        seen.wait([b"still here"])
