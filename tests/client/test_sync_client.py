"""A blocking blocking client waits for the asyncio client behind it, on one thread for the whole process."""

import asyncio
import multiprocessing
import os
import pickle
import threading
from typing import Self

import pytest

from steelyard.client.loop_thread import LoopThread
from steelyard.client.process_guard import ProcessGuard
from steelyard.client.sync.client import SyncClient, blocking, on_loop
from steelyard.errors import ConfigurationError


class _Slow(ProcessGuard):
    """A client that remembers what happened to it."""

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__()
        self.happened: list[str] = []
        self._fails = fails

    async def open(self) -> Self:
        self.happened.append("open")
        if self._fails:
            raise ConfigurationError("it does not open")
        return self

    async def close(self) -> None:
        self.happened.append("close")

    async def double(self, number: int, *, times: int = 1) -> int:
        await asyncio.sleep(0)
        self.happened.append(threading.current_thread().name)
        return 2 * number * times

    async def wait_for_ever(self) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.happened.append("cancelled")
            raise

    def count(self) -> int:
        return len(self.happened)


class _SyncSlow(SyncClient[_Slow]):
    """Its blocking blocking client."""

    double = blocking(_Slow.double)
    wait_for_ever = blocking(_Slow.wait_for_ever)
    count = on_loop(_Slow.count)


def _threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


def test_a_sync_client_opens_itself_works_on_the_loop_and_ends_its_thread() -> None:
    client = _Slow()
    sync_client = _SyncSlow(client)
    assert sync_client.double(21, times=2) == 84
    assert sync_client.count() == 2
    sync_client.close()
    sync_client.close()
    assert client.happened == ["open", "steelyard", "close"]
    assert "steelyard" not in _threads()


def test_all_sync_clients_of_a_process_share_one_thread() -> None:
    with _SyncSlow(_Slow()) as one, _SyncSlow(_Slow()) as other:
        assert one.double(1) == other.double(1) == 2
        assert [thread.name for thread in threading.enumerate()].count("steelyard") == 1
    assert "steelyard" not in _threads()


def test_a_sync_client_that_does_not_open_leaves_nothing_and_gives_the_reason() -> None:
    with pytest.raises(ConfigurationError, match="it does not open"):
        _SyncSlow(_Slow(fails=True)).open()
    assert "steelyard" not in _threads()


def test_a_closed_sync_client_reports_it() -> None:
    sync_client = _SyncSlow(_Slow())
    sync_client.close()
    with pytest.raises(ConfigurationError, match="the _SyncSlow is closed; make another one"):
        sync_client.double(1)


def test_a_blocking_client_on_its_own_loop_is_refused_and_does_not_hang() -> None:
    loop_thread = LoopThread.acquire()
    try:
        with pytest.raises(ConfigurationError, match="was used on its own loop"):
            loop_thread.call(lambda: loop_thread.run(asyncio.sleep(0)))
    finally:
        loop_thread.release()


def test_what_interrupts_a_wait_cancels_the_work() -> None:
    client = _Slow()
    with _SyncSlow(client) as sync_client:
        loop_thread = sync_client._ensure_open()
        waiting = asyncio.run_coroutine_threadsafe(client.wait_for_ever(), loop_thread.loop)
        assert loop_thread.call(waiting.done) is False
        waiting.cancel()
        assert sync_client.double(1) == 2
    assert "cancelled" in client.happened


def test_a_client_cannot_be_sent_to_another_process() -> None:
    with pytest.raises(ConfigurationError, match="cannot be sent to another process; make one in each process"):
        pickle.dumps(_SyncSlow(_Slow()))


@pytest.mark.process
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_refused_the_parents_client_and_can_have_its_own() -> None:
    def child(results: "multiprocessing.connection.Connection", parents: _SyncSlow) -> None:
        try:
            parents.double(1)
        except ConfigurationError as error:
            results.send(str(error))
        parents.close()
        with _SyncSlow(_Slow()) as own:
            results.send(own.double(4))

    context = multiprocessing.get_context("fork")
    receives, says = context.Pipe(duplex=False)
    client = _Slow()
    with _SyncSlow(client) as sync_client:
        process = context.Process(target=child, args=(says, sync_client))
        process.start()
        assert f"was made in process {os.getpid()} and is used in process {process.pid}" in receives.recv()
        assert receives.recv() == 8
        process.join(10)
        assert process.exitcode == 0
        assert sync_client.double(1) == 2
    assert client.happened.count("close") == 1
