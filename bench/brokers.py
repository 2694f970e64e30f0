"""The brokers that are put under load, each a process of its own: ours, and Apache's, both on a real disk.

Ports are free ones, and a broker is measured only if it is the one that was started here: ours says itself where it
listens, Apache's must name the directory it was given. Both end by their own handle, and their files with them.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from bench.load import cpu_s
from steelyard.wire.codes import RequestCode
from steelyard.wire.headers.common import OffsetResponse
from steelyard.wire.headers.group import GetMaxOffset
from steelyard.wire.headers.nameserver import GetRoute
from tests.interop.servers import WireConnection, apache
from tests.interop.wire_client import create_topic

APACHE_RELEASE = "4.9.7"
APACHE, OURS = f"Apache {APACHE_RELEASE}", "ours"
_MEMORY = ("-Xms1g", "-Xmx2g", "-XX:+UseG1GC")
# A broker of Apache turns sends away after 200 ms in its own queue; here it may take its time, so that none is lost.
_PATIENT = {"waitTimeMillsInSendQueue": 10_000, "osPageCacheBusyTimeOutMills": 10_000}
_ROUTE_S = 45
_STOP_S = 30


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that runs, and its name server."""

    name: str
    name_server: str
    port: int
    pid: int

    @contextmanager
    def connection(self) -> Iterator[WireConnection]:
        """Connect to the broker, and hang up afterwards."""
        connection = WireConnection(self.port)
        try:
            yield connection
        finally:
            connection.close()

    def cpu_s(self) -> float:
        """Return how much of a processor the broker's process has used so far."""
        return cpu_s(self.pid)

    def make_topic(self, topic: str, queues: int) -> None:
        """Make a topic, and wait until the name server tells its route."""
        with self.connection() as connection:
            create_topic(connection, topic, queues)
        end = monotonic() + _ROUTE_S
        while not self._is_routed(topic):
            if monotonic() > end:
                raise RuntimeError(f"{self.name}: the name server does not know {topic} after {_ROUTE_S} s")
            sleep(0.1)

    def _is_routed(self, topic: str) -> bool:
        try:
            names = WireConnection(int(self.name_server.rpartition(":")[2]))
        except OSError:
            return False  # on a busy machine it may start more slowly than the broker
        try:
            return names.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute(topic)).code == 0
        finally:
            names.close()


def stored(connection: WireConnection, topic: str, queues: int) -> list[int]:
    """Return the next offset of every queue."""
    return [
        connection.ask(RequestCode.GET_MAX_OFFSET, GetMaxOffset(topic, queue)).header(OffsetResponse).offset
        for queue in range(queues)
    ]


@contextmanager
def running(name: str, *, is_sync: bool) -> Iterator[Broker]:
    """Run ours or Apache's, which answers once a message is in the page cache, or once it is on the disk."""
    with running_ours(is_sync=is_sync) if name == OURS else _running_apache(is_sync=is_sync) as broker:
        yield broker


@contextmanager
def _running_apache(*, is_sync: bool) -> Iterator[Broker]:
    flush = "SYNC_FLUSH" if is_sync else "ASYNC_FLUSH"
    with TemporaryDirectory(prefix="steelyard-bench-") as folder:
        root = Path(folder) / "store"
        with apache(APACHE_RELEASE, root, _MEMORY, flushDiskType=flush, **_PATIENT) as broker:
            yield Broker(APACHE, f"127.0.0.1:{broker.name_port}", broker.port, broker.pid)


@contextmanager
def running_ours(*, is_sync: bool = False) -> Iterator[Broker]:
    """Run ours as a person does, with `steelyard up`."""
    with TemporaryDirectory(prefix="steelyard-bench-") as folder, (Path(folder) / "said").open("w+b") as output:
        flush = "sync" if is_sync else "async"
        command = [sys.executable, "-m", "steelyard", "up", "--port", "0", "--json", "--flush", flush]
        process = subprocess.Popen(
            [*command, "--data", f"{folder}/data"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=output
        )
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            if not ready:
                output.seek(0)
                raise RuntimeError(f"steelyard up does not start: {output.read().decode()[-2000:]}")
            places = json.loads(ready)
            (address,) = places["brokers"].values()
            yield Broker(OURS, places["namesrv"], int(address.rpartition(":")[2]), process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
