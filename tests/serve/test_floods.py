"""A cluster under floods, as processes: others are served meanwhile, and it stops and starts as quickly as ever.

How long something takes depends on what else the machine does, so it is counted in processor time of the cluster: what
it used between a request and its answer, from SIGTERM to its end, and until it was ready. Of the stop only its own time
counts, not the system's: a folder per queue is created then, and on a disk that others write to each of them takes the
system several times as long. It takes a while, so `make chaos` does it (STEELYARD_SLOW=1), but for one round of the
requests that cost most.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.frames import encode_frame
from tests.serve.raw_connection import RawConnection, pull_command, send, send_command
from tests.waiting import until

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads processor times from /proc"),
]

_slow = pytest.mark.skipif("STEELYARD_SLOW" not in os.environ, reason="takes a while: STEELYARD_SLOW=1")

_WAIT_S = 1.0
"""How long the cluster may work on other things while a request waits; a lease lasts 12 s."""
_WAIT_FOR_ONE_S = 0.5
"""The same where others send one request after the other, each of a tenth of a second at most."""
_STOP_S = _START_S = 2.0
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


def processor_times_s(pid: int) -> tuple[float, float]:
    """Return the processor time that a process has used itself, and in the system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / _CLOCK_TICKS, int(fields[12]) / _CLOCK_TICKS


class Running:
    """A cluster in a process of its own."""

    def __init__(self, data: Path) -> None:
        command = [
            sys.executable,
            "-m",
            "steelyard",
            "up",
            "--data",
            str(data),
            "--port",
            "0",
            "--no-dashboard",
            "--json",
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.address: str = json.loads(self.process.stdout.readline())["brokers"]["broker-0"]
        self.started_s = self.used_s()

    def used_s(self) -> float:
        """Return the processor time it has used."""
        return sum(processor_times_s(self.process.pid))

    def stop(self) -> float:
        """Stop it in order; return the processor time it used for that itself."""
        began_s, _ = processor_times_s(self.process.pid)
        self.process.send_signal(signal.SIGTERM)
        _, status, used = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        assert self.process.returncode == 0
        return used.ru_utime - began_s


@contextmanager
def running(data: Path) -> Iterator[Running]:
    found = Running(data)
    try:
        yield found
    finally:
        if found.process.poll() is None:
            found.process.kill()
            found.process.wait()
        assert found.process.stdout is not None
        found.process.stdout.close()


class Flood:
    """Sends bytes on a connection of its own, and reads whatever is answered."""

    def __init__(self, address: str, data: bytes) -> None:
        self._connection = RawConnection(address, seconds=120)
        self._threads = [threading.Thread(target=self._send, args=(data,)), threading.Thread(target=self._read)]
        for thread in self._threads:
            thread.start()

    def _send(self, data: bytes) -> None:
        with suppress(OSError):
            self._connection.socket.sendall(data)

    def _read(self) -> None:
        with suppress(OSError):
            while self._connection.socket.recv(1 << 16):
                pass

    @property
    def is_sent(self) -> bool:
        return not self._threads[0].is_alive()

    def close(self) -> None:
        self._connection.socket.shutdown(2)
        self._connection.socket.close()
        for thread in self._threads:
            thread.join()


def heartbeats(count: int, name: str) -> bytes:
    text = b'{"clientID":"flood","consumerDataSet":[{"groupName":"%s-%d","subscriptionDataSet":[{"topic":"health"}]}]}'
    return b"".join(
        encode_frame(Command(RequestCode.HEART_BEAT, {}, text % (name.encode(), number), opaque=number))
        for number in range(count)
    )


def sends(count: int, name: str) -> bytes:
    return b"".join(encode_frame(send_command(f"{name}-{number}", b"x")) for number in range(count))


class WorstRequests(threading.Thread):
    """Sends requests that cost a broker much, each once the one before is answered."""

    def __init__(self, address: str, rounds: int) -> None:
        super().__init__()
        self._address, self._rounds = address, rounds
        self.answers: dict[int, int] = {}
        """The last answer's code, by request code."""
        self.start()

    @property
    def is_sent(self) -> bool:
        return not self.is_alive()

    def run(self) -> None:
        """Fill the broker, then ask."""
        with RawConnection(self._address, seconds=120) as connection:
            self._fill(connection)
            for at in range(self._rounds):
                for code, fields in _WORST_REQUESTS:
                    self.answers[code] = connection.request(code, fields).code
                pulls = [pull_command("held", at, wait_ms=60_000) for _ in range(2_000)]
                connection.send(*pulls)
                send(connection, "held", b"x")

    def _fill(self, connection: RawConnection) -> None:
        groups = b",".join(
            b'{"groupName":"g%d","subscriptionDataSet":[{"topic":"narrow"}]}' % number for number in range(400)
        )
        heartbeat = b'{"clientID":"worst","consumerDataSet":[%b]}' % groups
        assert connection.request(RequestCode.HEART_BEAT, {}, heartbeat).code == 0
        for name, queues in (("wide", 9_000), ("narrow", 4), ("held", 1)):
            assert connection.request(RequestCode.UPDATE_AND_CREATE_TOPIC, _topic(name, queues)).code == 0
        for number in range(400):
            fields = {"consumerGroup": f"g{number}", "topic": "narrow", "queueId": "0", "commitOffset": "1"}
            assert connection.request(RequestCode.UPDATE_CONSUMER_OFFSET, fields).code == 0
        for queue_id in range(2_000):
            connection.send(send_command("wide", b"x", queue_id=queue_id))


def _topic(name: str, queues: int) -> dict[str, str]:
    counts = {"readQueueNums": str(queues), "writeQueueNums": str(queues)}
    kind = {"perm": "6", "topicFilterType": "SINGLE_TAG", "order": "false"}
    return {"topic": name, "defaultTopic": "TBW102", **counts, **kind}


_GROUP_AND_TOPIC = {"group": "g1", "topic": "wide"}
_WORST_REQUESTS: list[tuple[RequestCode, dict[str, str]]] = [
    (RequestCode.UPDATE_AND_CREATE_TOPIC, _topic("narrow", 65_536)),
    (RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, {**_GROUP_AND_TOPIC, "timestamp": "0", "isForce": "true"}),
    (RequestCode.GET_TOPIC_STATS_INFO, {"topic": "wide"}),
    (RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g1", "topic": "wide"}),
    (RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}),
    (RequestCode.QUERY_CONSUME_TIME_SPAN, _GROUP_AND_TOPIC),
    (RequestCode.GET_ALL_CONSUMER_OFFSET, {}),
    (RequestCode.GET_ALL_TOPIC_CONFIG, {}),
    (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, {}),
]


def longest_wait_s(cluster: Running, floods: Sequence[Flood | WorstRequests]) -> float:
    """Send one message after the other until all of a flood is sent, and a second longer.

    Return the most processor time that the cluster used while one waited.
    """
    longest, end = 0.0, 0.0
    with RawConnection(cluster.address, seconds=120) as connection:
        while not end or time.monotonic() < end:
            began_s = cluster.used_s()
            send(connection, "health", b"fine")
            longest = max(longest, cluster.used_s() - began_s)
            if not end and all(flood.is_sent for flood in floods):
                end = time.monotonic() + 1
    return longest


@_slow
def test_ten_thousand_new_groups_at_once_keep_nobody_waiting(tmp_path: Path) -> None:
    with running(tmp_path) as cluster:
        floods = [Flood(cluster.address, heartbeats(10_000, "group"))]
        try:
            assert longest_wait_s(cluster, floods) < _WAIT_S
        finally:
            floods[0].close()
        assert cluster.stop() < _STOP_S


@_slow
def test_many_who_flood_at_once_keep_nobody_waiting_and_it_stops_and_starts_quickly(tmp_path: Path) -> None:
    with running(tmp_path) as cluster:
        empty_s = cluster.started_s
        data = [heartbeats(2_500, f"group-{each}") for each in range(4)]
        data += [sends(2_500, f"topic-{each}") for each in range(4)]
        floods = [Flood(cluster.address, each) for each in data]
        try:
            assert longest_wait_s(cluster, floods) < _WAIT_S
        finally:
            for flood in floods:
                flood.close()
        with RawConnection(cluster.address, seconds=60) as connection:
            until(lambda: connection.request(RequestCode.GET_BROKER_RUNTIME_INFO, {}).code == 0)
        stop_s = cluster.stop()
    with running(tmp_path) as cluster:
        start_s = cluster.started_s - empty_s
        print(f"started with {empty_s:.2f} s, stopped with {stop_s:.2f} s, started again with {start_s:.2f} s more")
        assert stop_s < _STOP_S
        assert start_s < _START_S
        assert cluster.stop() < _STOP_S


@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=_slow)])
def test_the_requests_that_cost_most_keep_nobody_waiting(tmp_path: Path, rounds: int) -> None:
    with running(tmp_path) as cluster:
        worst = WorstRequests(cluster.address, rounds)
        try:
            assert longest_wait_s(cluster, [worst]) < _WAIT_FOR_ONE_S
        finally:
            worst.join()
        too_much = {RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.QUERY_CONSUME_TIME_SPAN}
        assert {code for code, answer in worst.answers.items() if answer} == too_much
