"""A sender among bad neighbours: how much of its rate is left.

They are a thousand senders that send a little of a frame each second, ten thousand pulls that wait, and a peer that
asks for megabytes and never reads. All of them are one process, `python -m bench.noisy_neighbours PORT`: it says when
they are in place, and leaves when its input ends. Their own work takes something of the processors too, and counts.
"""

import json
import resource
import selectors
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from time import monotonic

from bench.brokers import running_ours
from bench.flood import Flood, send_frame
from bench.table import Row
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.frames import FrameDecoder, encode_frame
from steelyard.wire.headers.pull import PullMessage

_SLOW, _PIECE_BYTES = 1_000, 100
_LINES, _PULLS_A_LINE, _QUEUES = 100, 100, 100
_SHORTEST_WAIT_MS, _WAIT_STEP_MS = 10_000, 2
_MAY_WAIT_AND_SUBSCRIBES = 2 | 4
_STEP_S = 0.01
_LEFT = 0.9
_TURNS = 3
_BUSY, _EMPTY, _TRICKLE = "busy", "empty", "trickle"
_SETTLE_S = 2.0
_LEAVE_S = 10


def beside_neighbours(*, seconds: float) -> Iterator[Row]:
    """Measure a sender alone, beside the neighbours, and alone again; the best of each counts."""
    with running_ours() as broker:
        for topic, queues in ((_BUSY, 8), (_EMPTY, _QUEUES), (_TRICKLE, 8)):
            broker.make_topic(topic, queues)
        with closing(Flood(broker.port, _BUSY, [number % 8 for number in range(1024)])) as sender:
            sender.rate(seconds)
            alone = [sender.rate(seconds) for _ in range(_TURNS)]
            with _neighbours(broker.port) as reported:
                beside = [sender.rate(seconds) for _ in range(_TURNS)]
            alone += [sender.rate(seconds) for _ in range(_TURNS)]
    left = max(beside) / max(alone)
    waiting = _LINES * _PULLS_A_LINE
    fault = "" if reported.get("too_early") == 0 else f" ({reported.get('too_early', 'all')} pulls did not wait)"
    yield Row(
        f"a sender beside {_SLOW:,} slow ones, {waiting:,} waiting pulls, one that never reads",
        f"{max(beside) / 1000:,.1f} k/s{fault}",
        f"alone: {max(alone) / 1000:,.1f} k/s",
        f"{left:.2f}x",
        f"≥ {_LEFT:g}x",
        left >= _LEFT and not fault,
    )


@contextmanager
def _neighbours(port: int) -> Iterator[dict[str, int]]:
    """Have the neighbours for a while; what they have to tell is there afterwards."""
    reported: dict[str, int] = {}
    with subprocess.Popen(
        [sys.executable, "-m", "bench.noisy_neighbours", str(port)],
        cwd=Path(__file__).parent.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if not process.stdout.readline():
            raise RuntimeError("the neighbours do not come")
        yield reported
        process.stdin.close()
        reported |= json.loads(process.stdout.readline() or "{}")
        try:
            process.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            process.kill()


# -- the process of the neighbours ------------------------------------------------------------------------------------


class _SlowSender:
    """Sends one frame, a piece at a time, again and again."""

    def __init__(self, port: int, number: int) -> None:
        self.connection = _connect(port)
        self._frame = send_frame(_TRICKLE, number % 8, number)
        self._at = number % len(self._frame) // _PIECE_BYTES * _PIECE_BYTES
        if self._at:
            self.connection.sendall(self._frame[: self._at])

    def send(self) -> None:
        """Send the next piece."""
        with suppress(BlockingIOError):
            self._at += self.connection.send(self._frame[self._at : self._at + _PIECE_BYTES])
        if self._at == len(self._frame):
            self._at = 0

    def read(self) -> None:
        """Take what was answered, and forget it."""
        _received(self.connection)


class _Waiting:
    """Has many pulls waiting, and asks again whenever one of them was told to."""

    def __init__(self, port: int, number: int) -> None:
        self.connection = _connect(port)
        self.too_early = 0
        self._splitter = FrameDecoder()
        self._frames, self._asked_at = [], [monotonic()] * _PULLS_A_LINE
        for pull in range(_PULLS_A_LINE):
            wait_ms = _SHORTEST_WAIT_MS + (number * _PULLS_A_LINE + pull) * _WAIT_STEP_MS
            self._frames.append(_pull_frame(_EMPTY, pull % _QUEUES, pull, wait_ms))
        self.connection.sendall(b"".join(self._frames))

    def read(self) -> None:
        """Ask again for what was answered."""
        again, now = [], monotonic()
        for answer in self._splitter.feed(_received(self.connection)):
            if not answer.is_response:
                continue
            self.too_early += now - self._asked_at[answer.opaque] < _SHORTEST_WAIT_MS / 2000
            self._asked_at[answer.opaque] = now
            again.append(self._frames[answer.opaque])
        if again:
            self.connection.setblocking(True)
            self.connection.sendall(b"".join(again))
            self.connection.setblocking(False)


def _never_read(port: int) -> socket.socket:
    """Ask for as much as the line takes."""
    connection = _connect(port)
    ask = _pull_frame(_BUSY, 0, 1, 0)
    connection.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            connection.send(ask)
    return connection


def _pull_frame(topic: str, queue_id: int, opaque: int, wait_ms: int) -> bytes:
    header = PullMessage("bystanders", topic, queue_id, 0, 32, _MAY_WAIT_AND_SUBSCRIBES, 0, wait_ms, 0, "*", "TAG")
    return encode_frame(Command(RequestCode.PULL_MESSAGE, header, opaque=opaque))


def _connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def _received(connection: socket.socket) -> bytes:
    try:
        received = connection.recv(1 << 16)
    except BlockingIOError:
        return b""
    if not received:
        raise RuntimeError("the broker closed the connection of a neighbour")
    return received


def _main(port: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    slow = [_SlowSender(port, number) for number in range(_SLOW)]
    waiting = [_Waiting(port, number) for number in range(_LINES)]
    with selectors.DefaultSelector() as selector:
        everybody: list[_SlowSender | _Waiting] = [*slow, *waiting]
        for each in everybody:
            each.connection.setblocking(False)
            selector.register(each.connection, selectors.EVENT_READ, each.read)
        is_over: list[bool] = []
        selector.register(sys.stdin, selectors.EVENT_READ, lambda: is_over.append(True))
        with closing(_never_read(port)):
            _go_on(selector, slow, is_over)
    print(json.dumps({"too_early": sum(each.too_early for each in waiting)}), flush=True)


def _go_on(selector: selectors.BaseSelector, slow: list[_SlowSender], is_over: list[bool]) -> None:
    """Send a piece of each slow frame a second, and answer what comes, until the input ends."""
    started, sent, is_reported = monotonic(), 0, False
    while not is_over:
        for key, _ in selector.select(_STEP_S):
            key.data()
        due = int((monotonic() - started) * _SLOW)
        for number in range(sent, min(due, sent + _SLOW)):
            slow[number % _SLOW].send()
        sent = due
        if not is_reported and monotonic() > started + _SETTLE_S:
            print("in place", flush=True)
            is_reported = True


if __name__ == "__main__":
    _main(int(sys.argv[1]))
