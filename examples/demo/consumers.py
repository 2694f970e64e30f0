"""The consumers of the demo: processes, so that one can be killed as in a crash.

Each is `steelyard consume`, which prints the messages it handled on stdout and the queues it owns on stderr.
"""

import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import chain
from signal import SIGKILL, SIGTERM
from typing import IO

import msgspec

from examples.demo.delivery_report import DeliveryLog
from steelyard.model import Queue, sort_queues

_LEAVE_TIMEOUT_S = 20.0


class OwnershipEvent(msgspec.Struct, frozen=True):
    """The queues that a member owns after a rebalance, as it reported them."""

    at_ms: int
    id: str
    queues: list[Queue]
    why: str


class _HandledMessage(msgspec.Struct):
    body: str


class ConsumerProcesses:
    """All members that were started, and the queues they own."""

    def __init__(self, namesrv: str, topic: str, group: str, delivery_log: DeliveryLog) -> None:
        self._command = [
            *(sys.executable, "-m", "steelyard", "consume", topic, "--namesrv", namesrv, "--group", group),
            *("--from", "first", "--events", "json", "--json", "--work-ms", "2"),
        ]
        self._delivery_log = delivery_log
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._events: dict[str, OwnershipEvent] = {}
        self._killed: set[str] = set()
        self.unexpected_output: list[str] = []
        """Lines on stderr that are no events."""

    def start(self, name: str) -> None:
        """Start a member."""
        process = subprocess.Popen(
            [*self._command, "--name", name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Ctrl-C is for the demo, which stops its members itself.
            start_new_session=True,
        )
        self._processes[name] = process
        for stream, handle_line in ((process.stdout, self._record_handled), (process.stderr, self._record_event)):
            thread = threading.Thread(target=self._read_lines, args=(name, stream, handle_line), daemon=True)
            thread.start()
            self._threads.append(thread)

    def kill(self, name: str) -> None:
        """Kill a member, without a chance to commit or to leave."""
        self._delivery_log.record_killed(name)
        with self._lock:
            self._killed.add(name)
            self._events.pop(name, None)
            self._processes[name].send_signal(SIGKILL)

    def leave(self) -> list[int]:
        """Stop all members that still run, wait for them, and return their exit codes."""
        left = [process for process in self._processes.values() if process.poll() is None]
        for process in left:
            process.send_signal(SIGTERM)
        try:
            return [process.wait(_LEAVE_TIMEOUT_S) for process in left]
        except subprocess.TimeoutExpired:
            return [1]

    def end(self) -> None:
        """Kill whatever still runs."""
        for process in self._processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()
        for thread in self._threads:
            thread.join(_LEAVE_TIMEOUT_S)

    def owners(self) -> dict[str, list[Queue]]:
        """Return the queues of each member, as it reported last."""
        with self._lock:
            return {name: sort_queues(event.queues) for name, event in sorted(self._events.items())}

    def settled_ms(self) -> int:
        """Return the time of the last rebalance."""
        with self._lock:
            return max((event.at_ms for event in self._events.values()), default=0)

    def queue_counts(self) -> list[int]:
        """Return how many queues members own, fewest first; an empty list while two of them own the same queue."""
        owned = [mine for mine in self.owners().values() if mine]
        every = list(chain.from_iterable(owned))
        return sorted(map(len, owned)) if len(set(every)) == len(every) else []

    @staticmethod
    def _read_lines(name: str, stream: IO[bytes], handle_line: Callable[[str, bytes], None]) -> None:
        with stream:
            for line in stream:
                if line.endswith(b"\n"):  # a killed process may leave half a line
                    handle_line(name, line)

    def _record_handled(self, name: str, line: bytes) -> None:
        self._delivery_log.record_handled(int(msgspec.json.decode(line, type=_HandledMessage).body), name)

    def _record_event(self, name: str, line: bytes) -> None:
        try:
            event = msgspec.json.decode(line, type=OwnershipEvent)
        except msgspec.DecodeError:
            self.unexpected_output.append(f"{name}: {line.decode(errors='replace').rstrip()}")
            return
        with self._lock:
            if name not in self._killed:
                self._events[name] = event
