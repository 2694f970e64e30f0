"""A producer begins, ends and leaves nothing behind: no thread, no connection, nobody who waits for ever."""

import asyncio
import multiprocessing
import os
import pickle
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from steelyard.aio import Producer as AsyncProducer
from steelyard.client.sync.producer import Producer
from steelyard.errors import ConfigurationError, SteelyardError
from steelyard.model import Message
from steelyard.wire.codes import RequestCode
from tests.client.proxy import detour
from tests.client.sending_scene import scene, stored_bodies
from tests.waiting import until

ORDER = Message("orders", b"x")


def threads() -> set[str]:
    """Return the names of all threads."""
    return {thread.name for thread in threading.enumerate()}


def sockets() -> int:
    """Return how many sockets this process has."""
    found = 0
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the one that lists them is gone by now
            found += str(each.readlink()).startswith("socket:")
    return found


def test_closing_leaves_no_thread_and_no_connection() -> None:
    with scene() as cluster:
        before = threads()
        with detour(cluster) as around:
            with Producer(around.namesrv) as producer:
                workers = [threading.Thread(target=producer.send, args=(ORDER,)) for _ in range(4)]
                for worker in workers:
                    worker.start()
                for worker in workers:
                    worker.join()
                producer.send(ORDER)
                producer.submit(ORDER).result()
                proxy = around.brokers["broker-0"]
                until(lambda: proxy.lines == 2)  # the loop's, and this thread's: the others have ended
            until(lambda: proxy.lines == 0)
            assert len(proxy.requests(RequestCode.UNREGISTER_CLIENT)) == 1
        ours = {name for name in threads() - before if name.startswith(("steelyard", "proxy"))}
        assert not ours, "the cluster may have begun some of its own"
        producer.close()


def test_a_closed_producer_reports_it() -> None:
    with scene() as cluster:
        producer = Producer(cluster.namesrv)
        producer.send(ORDER)
        producer.close()
        producer.close()
        for use in (producer.send, producer.submit, producer.post, producer.transaction, producer.request):
            with pytest.raises(ConfigurationError, match="closed"):
                use(ORDER)
        with pytest.raises(ConfigurationError, match="closed"):
            producer.send_many([ORDER])

        async def scenario() -> None:
            async with AsyncProducer(cluster.namesrv) as later:
                await later.send(ORDER)
            await later.close()
            with pytest.raises(ConfigurationError, match="closed"):
                await later.send(ORDER)

        asyncio.run(scenario())


def test_closing_waits_for_what_is_on_its_way() -> None:
    with scene() as cluster, detour(cluster) as around:
        around.brokers["broker-0"].delay_ms = 300
        with Producer(around.namesrv) as producer:
            futures = [producer.submit(Message("orders", b"%d" % number)) for number in range(20)]
        assert all(future.result().message_id for future in futures)
        assert len(stored_bodies(cluster)) == 20


def test_what_is_not_answered_when_the_time_is_over_fails_and_nobody_waits_for_ever() -> None:
    with scene() as cluster, detour(cluster) as around:
        producer = Producer(around.namesrv, close_timeout_s=0.1, timeout_s=60)
        producer.send(ORDER)
        proxy = around.brokers["broker-0"]
        proxy.swallows = True
        seen = len(proxy.requests(RequestCode.SEND_MESSAGE_V2))
        errors: list[SteelyardError] = []

        def send() -> None:
            try:
                producer.send(ORDER)
            except SteelyardError as error:
                errors.append(error)

        blocked = threading.Thread(target=send)
        blocked.start()
        futures = [producer.submit(ORDER) for _ in range(10)]
        until(lambda: len(proxy.requests(RequestCode.SEND_MESSAGE_V2)) == seen + 11)
        producer.close()
        blocked.join(20)
        assert not blocked.is_alive()
        assert len(errors) == 1
        for future in futures:
            with pytest.raises(SteelyardError, match="closed before an answer came"):
                future.result(20)


def test_an_idle_producer_opens_connections_and_sends_nothing_but_heartbeats() -> None:
    with scene() as cluster, detour(cluster) as around, Producer(around.namesrv) as producer:
        producer.send(ORDER)
        proxy = around.brokers["broker-0"]
        until(lambda: len(proxy.requests(RequestCode.HEART_BEAT)) == 1)
        assert {command.code for command in proxy.seen} == {RequestCode.HEART_BEAT, RequestCode.SEND_MESSAGE_V2}


@pytest.mark.process
def test_a_forked_child_refuses_and_the_parent_goes_on() -> None:
    with scene() as cluster, Producer(cluster.namesrv) as producer:
        producer.send(ORDER)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            results = b"nothing"
            try:
                producer.send(ORDER)
            except ConfigurationError as error:
                results = str(error).encode()
            producer.close()
            producer._senders = None  # what the collector would do
            os.write(writer, results)
            os._exit(0)
        os.waitpid(child, 0)
        assert b"make one in each process" in os.read(reader, 4_096)
        os.close(reader)
        os.close(writer)
        assert producer.send(ORDER).attempts == ()
        assert len(stored_bodies(cluster)) == 2


def test_a_producer_cannot_be_pickled_and_says_what_to_do() -> None:
    for kind in (Producer, AsyncProducer):
        with pytest.raises(ConfigurationError, match="make one in each process"):
            pickle.dumps(kind("localhost:9876"))


def _send_in_child(namesrv: str) -> None:
    with Producer(namesrv) as producer:
        producer.send(Message("orders", b"from a child"))


@pytest.mark.process
def test_a_child_makes_its_own() -> None:
    with scene() as cluster, Producer(cluster.namesrv) as producer:
        producer.send(ORDER)
        child = multiprocessing.get_context("spawn").Process(target=_send_in_child, args=(cluster.namesrv,))
        child.start()
        child.join()
        assert child.exitcode == 0
        assert b"from a child" in stored_bodies(cluster)


def test_sockets_do_not_pile_up_with_threads_that_come_and_go() -> None:
    with scene() as cluster, Producer(cluster.namesrv) as producer:
        producer.send(ORDER)
        before = sockets()
        for _ in range(10):
            worker = threading.Thread(target=producer.send, args=(ORDER,))
            worker.start()
            worker.join()
        until(lambda: sockets() <= before + 1)
