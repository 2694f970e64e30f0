"""The members of the demo's group: processes of their own, so that one can be killed as a crash does it.

Each is `steelyard consume`, which says on stdout what it handled and on stderr, line by line, what it owns.
"""

import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import chain
from signal import SIGKILL, SIGTERM
from typing import IO

import msgspec

from steelyard.cli.demo.proof import Proof
from steelyard.model import Queue, in_order

__all__ = ["Crew", "Event"]

_GOODBYE_S = 20.0


class Event(msgspec.Struct, frozen=True):
    """What a member owns after a change, as it said it."""

    at_ms: int
    id: str
    queues: list[Queue]
    why: str


class _Handled(msgspec.Struct):
    body: str


class Crew:
    """All members that were started, and who owns what."""

    def __init__(self, namesrv: str, topic: str, group: str, proof: Proof) -> None:
        self._words = [
            *(sys.executable, "-m", "steelyard", "consume", topic, "--namesrv", namesrv, "--group", group),
            *("--from", "first", "--events", "json", "--json", "--work-ms", "2"),
        ]
        self._proof = proof
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._events: dict[str, Event] = {}
        self._killed: set[str] = set()
        self.complaints: list[str] = []
        """What members said that is no event."""

    def start(self, name: str) -> None:
        """Start a member."""
        process = subprocess.Popen(
            [*self._words, "--name", name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Ctrl-C is for the demo: it tells its members itself.
            start_new_session=True,
        )
        self._processes[name] = process
        for stream, take in ((process.stdout, self._take_handled), (process.stderr, self._take_said)):
            thread = threading.Thread(target=self._read, args=(name, stream, take), daemon=True)
            thread.start()
            self._threads.append(thread)

    def kill(self, name: str) -> None:
        """Kill a member: no goodbye, nothing saved."""
        self._proof.note_killed(name)
        with self._lock:
            self._killed.add(name)
            self._events.pop(name, None)
            self._processes[name].send_signal(SIGKILL)

    def leave(self) -> list[int]:
        """Tell all members that still run to leave, wait for that, and return their exit codes."""
        left = [process for process in self._processes.values() if process.poll() is None]
        for process in left:
            process.send_signal(SIGTERM)
        try:
            return [process.wait(_GOODBYE_S) for process in left]
        except subprocess.TimeoutExpired:
            return [1]

    def end(self) -> None:
        """Leave nothing running, whatever happened."""
        for process in self._processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()
        for thread in self._threads:
            thread.join(_GOODBYE_S)

    # -- who owns what ------------------------------------------------------------------------------------------------

    def owners(self) -> dict[str, list[Queue]]:
        """Return what each member owns, as it said last."""
        with self._lock:
            return {name: in_order(event.queues) for name, event in sorted(self._events.items())}

    def settled_ms(self) -> int:
        """Return when the last change of an owner was."""
        with self._lock:
            return max((event.at_ms for event in self._events.values()), default=0)

    def shares(self) -> list[int]:
        """Return how many queues members own, least first; nothing while two of them own the same."""
        owned = [mine for mine in self.owners().values() if mine]
        every = list(chain.from_iterable(owned))
        return sorted(map(len, owned)) if len(set(every)) == len(every) else []

    # -- what members say ---------------------------------------------------------------------------------------------

    @staticmethod
    def _read(name: str, stream: IO[bytes], take: Callable[[str, bytes], None]) -> None:
        with stream:
            for line in stream:
                if line.endswith(b"\n"):  # half a line is the last breath of one that was killed
                    take(name, line)

    def _take_handled(self, name: str, line: bytes) -> None:
        self._proof.note_handled(int(msgspec.json.decode(line, type=_Handled).body), name)

    def _take_said(self, name: str, line: bytes) -> None:
        try:
            event = msgspec.json.decode(line, type=Event)
        except msgspec.DecodeError:
            self.complaints.append(f"{name}: {line.decode(errors='replace').rstrip()}")
            return
        with self._lock:
            if name not in self._killed:
                self._events[name] = event
