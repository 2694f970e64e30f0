"""A broker in sync mode answers a send after the sync, and many requests share one sync (group commit)."""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from steelyard.broker.options import BrokerOptions
from steelyard.errors import DiskFailed
from steelyard.net.event_loop import new_event_loop
from steelyard.net.server import TcpListener
from steelyard.serve.broker import RunningBroker
from steelyard.serve.disks import MemoryDisk
from steelyard.store.disk import File
from steelyard.store.options import StoreOptions
from steelyard.wire.command import Command
from steelyard.wire.headers.send import SendMessageResponse
from tests.net.toy_server import ToyClient
from tests.serve.raw_connection import send_command
from tests.waiting import LONGEST_S


class SlowFile:
    """A file whose syncs, by the thread for them, wait for the test and may fail."""

    def __init__(self, file: File, disk: "SlowDisk") -> None:
        self._file, self._disk = file, disk

    @property
    def size(self) -> int:
        return self._file.size

    def read(self, at: int, size: int) -> bytes:
        return self._file.read(at, size)

    def write(self, at: int, data: bytes) -> int:
        return self._file.write(at, data)

    def sync(self) -> None:
        if threading.current_thread().name.startswith("sync-"):
            self._disk.syncs += 1
            assert self._disk.may_sync.wait(LONGEST_S)
            if self._disk.fails:
                raise DiskFailed("fdatasync", path="commitlog", why="it was told to")

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def zeros_from(self) -> int:
        return self._file.zeros_from()

    def view(self) -> memoryview:
        return self._file.view()

    def close(self) -> None:
        self._file.close()


class SlowDisk:
    """A disk in memory with slow files."""

    def __init__(self) -> None:
        self._disk = MemoryDisk()
        self.syncs, self.fails, self.may_sync = 0, False, threading.Event()
        self.names, self.read, self.mkdir = self._disk.names, self._disk.read, self._disk.mkdir
        self.rename, self.remove, self.sync_folder = self._disk.rename, self._disk.remove, self._disk.sync_folder
        self.free_bytes, self.size_bytes, self.lock = self._disk.free_bytes, self._disk.size_bytes, self._disk.lock

    def open(self, path: str, *, create: bool = False) -> File:
        return SlowFile(self._disk.open(path, create=create), self)


@asynccontextmanager
async def sync_broker(disk: SlowDisk, flush_wait_ms: int = 15_000) -> AsyncIterator[RunningBroker]:
    options = BrokerOptions(flush="sync", flush_wait_ms=flush_wait_ms)
    store_options = StoreOptions(segment_bytes=1 << 20)
    broker = await RunningBroker.start(options, disk, TcpListener.bind("127.0.0.1", 0), store_options=store_options)
    try:
        yield broker
    finally:
        disk.may_sync.set()
        await broker.stop()


async def call(broker: RunningBroker) -> ToyClient:
    host, _, port = broker.address.rpartition(":")
    return ToyClient(*await asyncio.open_connection(host, int(port)))


def run(scenario: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(scenario)


async def until_syncing(disk: SlowDisk, count: int) -> None:
    async with asyncio.timeout(LONGEST_S):
        while disk.syncs < count:
            await asyncio.sleep(0.002)


async def answers(caller: ToyClient, count: int) -> list[Command]:
    return [await caller.read() for _ in range(count)]


async def nothing_arrives(caller: ToyClient) -> bool:
    try:
        async with asyncio.timeout(0.1):
            await caller.reader.read(1)
    except TimeoutError:
        return True
    return False


def test_many_who_wait_share_one_sync_and_are_answered_after_it() -> None:
    async def scenario() -> None:
        disk = SlowDisk()
        async with sync_broker(disk) as broker:
            one, many = await call(broker), await call(broker)
            one.write(send_command("orders", b"first"))
            await until_syncing(disk, 1)
            for number in range(100):
                many.write(send_command("orders", b"%d" % number))
                await asyncio.sleep(0)
            assert await nothing_arrives(many)
            assert disk.syncs == 1
            disk.may_sync.set()
            (first,) = await answers(one, 1)
            assert first.header(SendMessageResponse).queue_offset == 0
            later = await answers(many, 100)
            assert [answer.header(SendMessageResponse).queue_offset for answer in later] == list(range(1, 101))
            assert disk.syncs <= 3
            await one.close()
            await many.close()

    run(scenario())


def test_a_failed_sync_fails_all_waiting_sends_and_later_ones() -> None:
    async def scenario() -> None:
        disk = SlowDisk()
        disk.fails = True
        async with sync_broker(disk) as broker:
            caller = await call(broker)
            caller.write(*(send_command("orders", b"%d" % number) for number in range(10)))
            await until_syncing(disk, 1)
            disk.may_sync.set()
            for answer in await answers(caller, 10):
                assert answer.code == 14
                assert "a sync failed" in (answer.remark or "")
            caller.write(send_command("orders", b"late"))
            assert (await caller.read()).code == 14
            await caller.close()

    run(scenario())


def test_a_slow_disk_is_reported_as_slow() -> None:
    async def scenario() -> None:
        disk = SlowDisk()
        async with sync_broker(disk, flush_wait_ms=100) as broker:
            caller = await call(broker)
            caller.write(send_command("orders", b"stored"))
            answer = await caller.read()
            assert (answer.code, answer.header(SendMessageResponse).queue_offset) == (10, 0)
            await caller.close()

    run(scenario())
