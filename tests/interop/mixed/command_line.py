"""`steelyard consume` as a member of a group: what it holds is read from the lines that it writes for programs."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from steelyard.model import Queue
from tests.interop.mixed.reporting_members import Held

_END_SECONDS = 60


class CommandLineMember:
    """A process that somebody started in a terminal."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.ids: set[str] = set()
        self.other_output: list[str] = []
        self._process = process
        self._held: Held = frozenset()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def held(self) -> Held:
        """Return what it holds by its last line."""
        return self._held

    def leave(self) -> int:
        """Tell it to end, and return how it did."""
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(_END_SECONDS)
        self._reader.join()
        return code

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if not line.startswith(b"{"):
                self.other_output.append(line.decode())
                continue
            reported = json.loads(line)
            self.ids.add(reported["id"])
            self._held = frozenset(Queue(*queue) for queue in reported["queues"])


@contextmanager
def consuming(name_server: str, group: str, topics: Sequence[str], allocate: str) -> Iterator[CommandLineMember]:
    """Run `steelyard consume`; it is killed at the end unless it left."""
    settings = ["--namesrv", name_server, "--group", group, "--strategy", allocate, "--events", "json"]
    command = [sys.executable, "-m", "steelyard", "consume", *topics, *settings]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            yield CommandLineMember(process)
        finally:
            process.kill()
