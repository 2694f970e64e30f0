"""A member in a process of its own, which can be killed as a machine that loses its power is."""

import signal
import subprocess
import sys
from types import TracebackType
from typing import Self

_PROGRAM = """
import sys, threading
from steelyard import Consumer
namesrv, group, topic, name = sys.argv[1:]
consumer = Consumer(namesrv, group, name=name, start_from="first")
consumer.handles(topic)(lambda message: None)
consumer.start()
threading.Event().wait()
"""


class MemberProcess:
    """A member of a group that runs elsewhere. At the end of its context it is gone, if it was not before."""

    def __init__(self, namesrv: str, group: str, topic: str, name: str) -> None:
        self._words = [sys.executable, "-c", _PROGRAM, namesrv, group, topic, name]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start it."""
        self._process = subprocess.Popen(self._words)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """See to it that it is gone."""
        self.kill()

    def kill(self) -> None:
        """End it without a goodbye."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
