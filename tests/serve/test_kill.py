"""A broker that is killed in the middle of its work: nothing that it answered for is lost, and nothing else appears.

Several senders send as fast as they can, each with some messages on the way, until the process is killed after so
many answers as chance picks. Then another process opens the directory. `STEELYARD_KILLS` says how often this is done.
Where the disk takes over five seconds for a sync, the broker answers that it does not know: that promises nothing.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.headers.send import SendMessageResponse
from tests.fuzzing import Dice
from tests.serve.raw_connection import RawConnection, pull_all, send, send_command

_KILLS = int(os.environ.get("STEELYARD_KILLS", "3"))
_SENDERS, _QUEUES, _ON_THE_WAY = 4, 4, 8
_TOPIC = "orders"


class Sender(threading.Thread):
    """Sends numbered messages to one queue until the connection breaks, and knows which ones were answered for."""

    def __init__(self, address: str, name: str, queue_id: int) -> None:
        super().__init__(name=name, daemon=True)
        self._connection, self._queue_id = RawConnection(address), queue_id
        self.sent: set[bytes] = set()
        self.acked: dict[bytes, int] = {}
        """The offset of each message that was answered for."""
        self.refusals: list[str] = []

    def run(self) -> None:
        way: dict[int, bytes] = {}
        count = 0
        try:
            while True:
                while len(way) < _ON_THE_WAY:
                    body = f"{self.name}/{count}".encode()
                    count += 1
                    command = send_command(_TOPIC, body, queue_id=self._queue_id)
                    self.sent.add(body)
                    way[command.opaque] = body
                    self._connection.send(command)
                opaque = next(iter(way))
                answer = self._connection.response_to(Command(0, opaque=opaque))
                body = way.pop(opaque)
                if answer.code == ResponseCode.SUCCESS:
                    self.acked[body] = answer.header(SendMessageResponse).queue_offset
                elif answer.code != ResponseCode.FLUSH_DISK_TIMEOUT:
                    self.refusals.append(f"{answer.code}: {answer.remark}")
                    return
        except OSError:
            return  # the broker is gone
        finally:
            self._connection.socket.close()


@contextmanager
def broker(directory: Path) -> Iterator[tuple["subprocess.Popen[str]", str, float]]:
    """Run a broker; yield its process, its address, and how long it took to be ready."""
    command = [sys.executable, "-m", "steelyard", "up", "--json", "--port", "0", "--flush", "sync"]
    started = time.monotonic()
    with subprocess.Popen([*command, "--data", str(directory)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            output = json.loads(process.stdout.readline())
            yield process, output["brokers"]["broker-0"], time.monotonic() - started
        finally:
            process.kill()


def found_in(address: str) -> dict[int, list[bytes]]:
    """Return the bodies of each queue, in the order of their offsets, which must be dense."""
    found: dict[int, list[bytes]] = {}
    with RawConnection(address) as connection:
        for queue_id in range(_QUEUES):
            records = list(pull_all(connection, _TOPIC, queue_id=queue_id))
            assert [record.offset for record in records] == list(range(len(records)))
            found[queue_id] = [record.body for record in records]
    return found


@pytest.mark.process
@pytest.mark.timeout(60 + 20 * _KILLS)
def test_a_killed_broker_has_all_it_answered_for_and_nothing_else(tmp_path: Path) -> None:
    chance = Dice(20_260_701)
    sent: set[bytes] = set()
    acked: dict[bytes, tuple[int, int]] = {}
    starts: list[float] = []
    for kill in range(_KILLS):
        with broker(tmp_path) as (process, address, ready_s):
            starts.append(ready_s)
            if not kill:
                with RawConnection(address) as connection:
                    send(connection, _TOPIC, b"the first makes the topic")
                sent.add(b"the first makes the topic")
            senders = [Sender(address, f"{kill}-{number}", number % _QUEUES) for number in range(_SENDERS)]
            for sender in senders:
                sender.start()
            wanted = chance.randint(1, 200)
            while all(sender.is_alive() for sender in senders) and sum(len(each.acked) for each in senders) < wanted:
                time.sleep(0.001)
            process.send_signal(signal.SIGKILL)
            for number, sender in enumerate(senders):
                sender.join()
                assert not sender.refusals
                sent |= sender.sent
                acked |= {body: (number % _QUEUES, offset) for body, offset in sender.acked.items()}
    with broker(tmp_path) as (_, address, ready_s):
        starts.append(ready_s)
        found = found_in(address)
    assert acked, "nothing was answered for, so nothing was tried"
    lost = {body: place for body, place in acked.items() if found[place[0]][place[1] : place[1] + 1] != [body]}
    assert not lost
    bodies = Counter(body for queue in found.values() for body in queue)
    assert set(bodies) <= sent
    assert max(bodies.values()) == 1, "a message that was sent once is there once"
    print(f"{_KILLS} kills: {len(acked)} answered for, none lost; ready after at most {max(starts):.2f} s")
