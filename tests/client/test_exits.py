"""A process ends, whatever is open in it and however it is told to, and what was open has said goodbye."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from steelyard.client.sync.admin import Admin
from steelyard.serve.embedded import Cluster
from tests.client.consumer_scene import make_topic, put
from tests.waiting import LONGEST_S, until

pytestmark = pytest.mark.process

_ROOT = Path(__file__).parents[2]
_HEAD = """
import asyncio, logging, os, signal, sys, threading, time
from steelyard import Consumer, Message, Producer, PullConsumer, aio
from steelyard.balance.group.options import MemberTimings
from steelyard.client import loop_thread
from steelyard.client.consumer import handler_pool
logging.basicConfig(format="%(message)s")
logging.getLogger("asyncio").setLevel("ERROR")    # a callback that is slow on a busy machine is no error
namesrv, topic = sys.argv[1], sys.argv[2]
group = topic + "-group"
def say(*words): os.write(1, (" ".join(map(str, words)) + "\\n").encode())    # at once: a child says things too
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Run one cluster for all."""
    with Cluster() as running:
        yield running


@contextmanager
def _program(cluster: Cluster, topic: str, text: str, *more: str) -> Iterator["subprocess.Popen[str]"]:
    """Run a program; what it says is read connection by connection."""
    command = [sys.executable, "-X", "dev", "-W", "ignore::DeprecationWarning", "-c", _HEAD + textwrap.dedent(text)]
    with subprocess.Popen(
        [*command, cluster.namesrv, topic, *more],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        try:
            yield program
        finally:
            program.kill()


def _read_until(program: "subprocess.Popen[str]", wanted: str) -> None:
    assert program.stdout is not None
    for line in program.stdout:
        if line.rstrip("\n") == wanted:
            return
    assert program.stderr is not None
    raise AssertionError(f"it ended without {wanted!r}: {program.stderr.read()}")


def _errors(program: "subprocess.Popen[str]", code: int = 0) -> str:
    assert program.stderr is not None
    assert program.wait(LONGEST_S) == code, program.stderr.read()
    return program.stderr.read()


def _topic(cluster: Cluster, name: str, *bodies: bytes) -> str:
    make_topic(cluster, name, queues=1)
    put(cluster, name, 0, bodies)
    return name


def _committed(cluster: Cluster, topic: str) -> list[int | None]:
    with Admin(cluster.namesrv) as admin:
        assert not admin.groups.members(f"{topic}-group")
        return [each.committed for each in admin.offsets.list(f"{topic}-group", topic)]


def test_what_nobody_closed_is_closed_when_the_process_ends(cluster: Cluster) -> None:
    topic = _topic(cluster, "exit-open", b"one", b"two")
    program = """
        begun = threading.Event()
        def work():
            consumer = Consumer(namesrv, group=group, start_from="first")
            consumer.handles(topic)(lambda message: message.body == b"two" and begun.set())
            consumer.start()
        work()          # nobody has a name for it any more
        producer, puller = Producer(namesrv), PullConsumer(namesrv, group=group + "-puller", start_from="first")
        puller.subscribe(topic)
        while not puller.poll(): pass
        producer.send(Message(topic, b"three"))
        producer.submit(Message(topic, b"four"))
        assert begun.wait(60)
    """
    with _program(cluster, topic, program) as running:
        assert not _errors(running)
    committed = _committed(cluster, topic)[0]
    assert committed is not None
    assert committed >= 2


def test_a_broadcasting_member_keeps_its_offsets_when_nobody_stops_it(cluster: Cluster, tmp_path: Path) -> None:
    topic = _topic(cluster, "exit-broadcast", b"one", b"two")
    program = """
        begun = threading.Event()
        consumer = Consumer(namesrv, group=group, start_from="first", mode="broadcast", offsets_dir=sys.argv[3])
        consumer.handles(topic)(lambda message: message.body == b"two" and begun.set())
        consumer.start()
        assert begun.wait(60)
    """
    with _program(cluster, topic, program, str(tmp_path)) as running:
        assert not _errors(running)
    assert f'["{topic}","broker-0",0,2]' in (tmp_path / f"{topic}-group.json").read_text()


def test_a_process_ends_by_sys_exit_while_a_handler_never_returns(cluster: Cluster) -> None:
    topic = _topic(cluster, "exit-stuck", b"one")
    program = """
        begun = threading.Event()
        times = MemberTimings(leave_grace_ms=100)
        consumer = Consumer(namesrv, group=group, start_from="first", drain_s=0.1, times=times)
        consumer.handles(topic)(lambda message: begun.set() or time.sleep(600))
        consumer.start()
        assert begun.wait(60)
        sys.exit(3)
    """
    with _program(cluster, topic, program) as running:
        assert "1 of its handlers still run" in _errors(running, 3)


def test_a_handler_on_the_loop_that_ignores_its_end_does_not_hold_it_up(cluster: Cluster) -> None:
    topic = _topic(cluster, "exit-deaf", b"one")
    program = """
        loop_thread._CANCEL_TIMEOUT_S = handler_pool._CANCEL_TIMEOUT_S = 0.1
        times = MemberTimings(leave_grace_ms=100)
        consumer = Consumer(namesrv, group=group, start_from="first", drain_s=0.1, times=times)
        @consumer.handles(topic)
        async def handle(message):
            say("begun")
            while True:
                try: await asyncio.sleep(600)
                except asyncio.CancelledError: pass
        consumer.run()
    """
    with _program(cluster, topic, program) as running:
        _read_until(running, "begun")
        running.send_signal(signal.SIGTERM)
        assert "1 of its handlers still run" in _errors(running)


def test_a_handler_that_blocks_the_loop_cannot_keep_a_process_alive(cluster: Cluster) -> None:
    topic = _topic(cluster, "exit-blocked", b"one")
    program = """
        loop_thread._JOIN_TIMEOUT_S = 0.2
        consumer = Consumer(namesrv, group=group, start_from="first", drain_s=0.1)
        @consumer.handles(topic)
        async def handle(message):
            say("begun")
            time.sleep(600)
        signal_was = signal.getsignal(signal.SIGTERM)
        consumer.run()
        assert signal.getsignal(signal.SIGTERM) is signal_was
    """
    with _program(cluster, topic, program) as running:
        _read_until(running, "begun")
        running.send_signal(signal.SIGTERM)
        running.send_signal(signal.SIGINT)
        assert "something blocks the loop" in _errors(running)


def test_two_signals_end_a_consumer_whose_start_blocks_the_loop(cluster: Cluster) -> None:
    topic = _topic(cluster, "exit-unstarted")
    program = """
        loop_thread._JOIN_TIMEOUT_S = 0.2
        consumer = Consumer(namesrv, group=group)
        consumer.handles(topic)(print)
        async def start():
            say("starting")
            time.sleep(600)
        consumer._client._start = start
        consumer.run()
        say("ended")
    """
    with _program(cluster, topic, program) as running:
        _read_until(running, "starting")
        running.send_signal(signal.SIGTERM)
        running.send_signal(signal.SIGINT)
        _read_until(running, "ended")
        assert "something blocks the loop" in _errors(running)


@pytest.mark.parametrize("kind", ["plain", "aio"])
def test_a_signal_while_it_starts_ends_it_when_it_has(cluster: Cluster, kind: str) -> None:
    topic = _topic(cluster, f"exit-early-{kind}")
    program = """
        consumer = (aio.Consumer if sys.argv[3] == "aio" else Consumer)(namesrv, group=group)
        consumer.handles(topic)(print)
        inner = getattr(consumer, "_client", consumer)
        start = inner._start
        async def slow_start():
            await start()
            say("starting")
            await asyncio.sleep(0.2)
        inner._start = slow_start
        if sys.argv[3] == "aio": asyncio.run(consumer.run())
        else: consumer.run()
        say("ended")
    """
    with _program(cluster, topic, program, kind) as running:
        _read_until(running, "starting")
        running.send_signal(signal.SIGTERM)
        _read_until(running, "ended")
        assert not _errors(running)


def test_a_user_s_own_signal_handler_may_close_it_while_it_starts(cluster: Cluster) -> None:
    topic = _topic(cluster, "exit-own-handler")
    program = """
        consumer = Consumer(namesrv, group=group)
        consumer.handles(topic)(print)
        start = consumer._client._start
        async def slow_start():
            await start()
            say("starting")
            await asyncio.sleep(0.5)
        consumer._client._start = slow_start
        signal.signal(signal.SIGTERM, lambda *_: consumer.close())
        try: consumer.start()
        except Exception as error: say(error)
    """
    with _program(cluster, topic, program) as running:
        _read_until(running, "starting")
        running.send_signal(signal.SIGTERM)
        _read_until(running, "the Consumer is closed; make another one")
        assert not _errors(running)
    with Admin(cluster.namesrv) as admin:
        assert not admin.groups.members(f"{topic}-group")


def test_one_signal_ends_all_consumers_of_a_loop(cluster: Cluster) -> None:
    topic = _topic(cluster, "exit-both", b"one")
    program = """
        async def main():
            consumers = [aio.Consumer(namesrv, group=group + str(number), start_from="first") for number in range(2)]
            for consumer in consumers: consumer.handles(topic)(lambda message: say("begun"))
            await asyncio.gather(*(consumer.run() for consumer in consumers))
        before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        asyncio.run(main())
        assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    """
    with _program(cluster, topic, program) as running:
        _read_until(running, "begun")
        _read_until(running, "begun")
        running.send_signal(signal.SIGTERM)
        assert not _errors(running)
    with Admin(cluster.namesrv) as admin:
        assert not admin.groups.members(f"{topic}-group0")
        assert not admin.groups.members(f"{topic}-group1")


def test_control_c_in_the_middle_of_an_async_with_hands_over_first(cluster: Cluster) -> None:
    topic = _topic(cluster, "exit-with", b"one", b"two")
    program = """
        async def main():
            consumer = aio.Consumer(namesrv, group=group, start_from="first")
            @consumer.handles(topic)
            async def handle(message):
                say("begun", message.body.decode())
                await asyncio.sleep(0.3)
            async with consumer:
                await asyncio.Event().wait()
        try: asyncio.run(main())
        except KeyboardInterrupt: say("interrupted")
    """
    with _program(cluster, topic, program) as running:
        _read_until(running, "begun one")
        running.send_signal(signal.SIGINT)
        _read_until(running, "interrupted")
        assert not _errors(running)
    assert _committed(cluster, topic)[0] in (1, 2)


def test_a_loop_that_ends_under_a_consumer_begins_no_more_messages(cluster: Cluster) -> None:
    topic = _topic(cluster, "exit-loopless", *(b"%d" % number for number in range(20)))
    program = """
        async def main():
            consumer = aio.Consumer(namesrv, group=group, start_from="first", workers=1)
            begun = asyncio.Event()
            @consumer.handles(topic)
            async def handle(message):
                say("begun")
                begun.set()
                await asyncio.Event().wait()
            await consumer.start()
            await begun.wait()
        asyncio.run(main())
        say("ended")
    """
    with _program(cluster, topic, program) as running:
        out, _ = running.communicate(timeout=LONGEST_S)
        assert out.split("\n")[-2] == "ended"
        assert out.count("begun") == 1


def test_a_consumer_that_runs_in_a_thread_ends_with_the_process(cluster: Cluster) -> None:
    topic = _topic(cluster, "exit-thread", b"one")
    program = """
        begun = threading.Event()
        consumer = Consumer(namesrv, group=group, start_from="first")
        consumer.handles(topic)(lambda message: begun.set())
        threading.Thread(target=consumer.run, daemon=True).start()
        assert begun.wait(60)
    """
    with _program(cluster, topic, program) as running:
        assert not _errors(running)
    assert _committed(cluster, topic) == [1]


def test_a_check_that_never_returns_does_not_keep_a_process_alive(cluster: Cluster) -> None:
    topic = _topic(cluster, "exit-check")
    program = """
        from steelyard.client.producer.transactions import ProducerTransactions
        asked = threading.Event()
        producer = Producer(namesrv, group=group, check=lambda message: asked.set() or time.sleep(600))
        producer.open()
        class Half: unique_key = "half"
        desk = producer._client._transactions
        async def ask():
            desk._session.spawn(desk._run_check(desk._check, "broker-0", None, Half()))
        producer._ensure_open().run(ask())
        assert asked.wait(60)
    """
    with _program(cluster, topic, program) as running:
        assert not _errors(running)


@pytest.mark.parametrize("dies", [False, True])
def test_a_member_of_a_parent_that_dies_is_gone_at_once_though_its_child_lives(cluster: Cluster, *, dies: bool) -> None:
    topic = _topic(cluster, f"exit-forked-{dies}", b"one")
    program = """
        begun = threading.Event()
        consumer = Consumer(namesrv, group=group, start_from="first")
        consumer.handles(topic)(lambda message: begun.set())
        consumer.start()
        producer = Producer(namesrv)
        assert begun.wait(60)
        producer.send(Message(topic, b"two"))
        if not os.fork():
            for use in (lambda: producer.send(Message(topic, b"no")), consumer.explain, consumer.start):
                try: use()
                except Exception as error: say(type(error).__name__)
            with Producer(namesrv) as own: own.send(Message(topic, b"of the child"))
            say("child")
            os.read(int(sys.argv[3]), 1)    # nothing, once the test has closed its end
            sys.exit(0)     # as a program does: what is its parent's is left alone
        producer.send(Message(topic, b"three"))
        say("parent", producer.send(Message(topic, b"four")).queue.broker)
        for line in sys.stdin:
            if line == "wait\\n": os.wait(); say("waited")
            if line == "send\\n": producer.send(Message(topic, b"five")); say("sent")
            if line == "explain\\n": say(len(consumer.explain().queues) > 0)
    """
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _HEAD + textwrap.dedent(program)]
    child_lives, end_child = os.pipe()
    with (
        os.fdopen(child_lives),
        os.fdopen(end_child, "wb") as child,
        subprocess.Popen(
            [*command, cluster.namesrv, topic, str(child_lives)],
            cwd=_ROOT,
            pass_fds=[child_lives],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as running,
        Admin(cluster.namesrv) as admin,
    ):
        assert running.stdin is not None
        assert running.stdout is not None
        try:
            output = [running.stdout.readline().strip() for _ in range(5)]
            assert sorted(output) == ["ConfigurationError"] * 3 + ["child", "parent broker-0"]
            assert len(admin.groups.members(f"{topic}-group")) == 1
            if dies:
                running.kill()
                # Far sooner than a broker gives up a connection on which nothing is said.
                until(lambda: not admin.groups.members(f"{topic}-group"), "being missed", 30)
                return
            child.close()
            for word, answer in (("wait", "waited"), ("send", "sent"), ("explain", "True")):
                running.stdin.write(f"{word}\n")
                running.stdin.flush()
                assert running.stdout.readline().strip() == answer
            assert len(admin.groups.members(f"{topic}-group")) == 1
            running.stdin.close()
            assert not _errors(running)
            assert not admin.groups.members(f"{topic}-group")
        finally:
            running.kill()
            child.close()
            running.stdout.read()  # to its end, which is there when nobody writes any more: not the child either
