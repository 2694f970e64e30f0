"""Commands as processes against a real cluster; their lines are read as they come."""

import json
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from signal import SIGTERM, Signals
from typing import IO, Any

from steelyard.client.sync.admin import Admin
from tests import forkserver
from tests.waiting import LONGEST_S

TIMEOUT_S = LONGEST_S
"""How long anything may take here; what needs Spark takes longer."""


def create_topic(namesrv: str, topic: str, queues: int = 4) -> None:
    """Create a topic with so many queues on each broker."""
    with Admin(namesrv) as admin:
        admin.topics.create(topic, queues)


def run_process(namesrv: str, *words: str, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    """Run a command as a process, to its end."""
    command = [*forkserver.python(), "-m", "steelyard", *words, "--namesrv", namesrv]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=TIMEOUT_S, check=False)


class CommandProcess:
    """A command that runs in a process. Its output is read as it comes."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.out: list[str] = []
        self.err: list[str] = []
        self._news: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._read, args=(stream, lines), daemon=True)
            for stream, lines in ((process.stdout, self.out), (process.stderr, self.err))
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, stream: IO[str], lines: list[str]) -> None:
        for line in stream:
            lines.append(line.rstrip("\n"))
            self._news.put(None)
        self._news.put(None)

    def wait_for(self, true: Callable[[], bool]) -> None:
        """Wait until something is true, looked at again with every line."""
        end = time.monotonic() + TIMEOUT_S
        while not true():
            try:
                self._news.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"it never became true; it said {self.err[-5:]}") from None

    def owned(self) -> list[list[Any]]:
        """Return the queues it owns, as it reported last."""
        events: list[dict[str, Any]] = [json.loads(line) for line in self.err]
        return list(events[-1]["queues"]) if events else []

    def wait_for_queues(self, count: int) -> None:
        """Wait until it owns so many queues."""
        self.wait_for(lambda: len(self.owned()) == count)

    def stop(self, how: Signals = SIGTERM) -> int:
        """Stop it, and return its exit code."""
        self.process.send_signal(how)
        return self.end()

    def end(self) -> int:
        """Wait for its end, and return its exit code."""
        code = self.process.wait(TIMEOUT_S)
        for thread in self._threads:
            thread.join(TIMEOUT_S)
        return code


@contextmanager
def command_process(namesrv: str, *words: str) -> Iterator[CommandProcess]:
    """Run a command in a process, and kill it if it still runs at the end."""
    command = [*forkserver.python(), "-m", "steelyard", *words, "--namesrv", namesrv]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        running = CommandProcess(process)
        try:
            yield running
        finally:
            process.kill()
            running.end()
