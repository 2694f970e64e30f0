"""A Python that starts at once, for tests that start many: each is forked from one that has imported our modules.

`python()` gives the words to put in front of `-m steelyard …`, `-c …` or a script, in place of `sys.executable`. What
comes of it is a process as any other, with streams, an environment, a directory and an end of its own, and with a tenth
of the intervals of production; signals reach it through the process that was started. Tests about how Python itself
starts and ends (what is imported, closed streams, encodings, limits) start Python.
"""

import atexit
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import pytest

from tests.intervals import shorten

_CLIENT = Path(__file__).with_name("forkclient.py")
# What the command line loads when it is needed, and what only other tests need.
_LATE = ("encodings.idna", "rich.box", "rich.table", "rich.text", "uvloop")
_OTHERS = tuple(f"steelyard.{name}" for name in ("__main__", "cli.demo", "cli.pipeline", "pipelines", "spark"))

_READY = b"ready\n"

_running: list[tuple[ExitStack, str]] = []
"""What ends it and removes its directory, and where it listens."""


def python() -> list[str]:
    """Return the words that a command begins with; the first call starts what they need, `stop` ends it."""
    if not _running:
        with ExitStack() as started:
            path = started.enter_context(tempfile.TemporaryDirectory(prefix="forks-")) + "/s"
            process = started.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "tests.forkserver", path],
                    cwd=_CLIENT.parents[1],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    start_new_session=True,
                )
            )
            assert process.stdout is not None
            assert process.stdout.readline() == _READY, "the fork server did not start; what it said is above"
            _running.append((started.pop_all(), path))
    return [sys.executable, "-ISB", str(_CLIENT), _running[0][1]]


def stop() -> None:
    """End it, and whatever it has started and still runs."""
    while _running:
        started, _ = _running.pop()
        started.close()


class _Server:
    """Forks on request until its stdin ends, and reports how each child has ended."""

    def __init__(self, path: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(64)
        self._ends, self._pen = os.pipe()
        os.set_blocking(self._pen, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._pen)
        self._connections: dict[int, socket.socket] = {}
        self._ready = selectors.DefaultSelector()
        for source in (0, self._ends, self._listener):
            self._ready.register(source, selectors.EVENT_READ)

    def serve(self) -> list[str]:
        """Go on for ever; return in each child, with the arguments for Python."""
        os.write(1, _READY)
        while True:
            for key, _ in self._ready.select():
                if key.fileobj == 0:
                    for child in self._connections:
                        os.kill(child, signal.SIGKILL)
                    os._exit(0)
                elif key.fileobj == self._ends:
                    self._reap()
                elif isinstance(key.fileobj, socket.socket) and key.data:
                    self._pass_on(key.fileobj, key.data)
                elif (words := self._fork()) is not None:
                    return words

    def _fork(self) -> list[str] | None:
        connection, _ = self._listener.accept()
        wish, handles = _receive(connection)
        child = os.fork() if wish else -1
        if not child:
            self._leave(connection)
            return _dress(json.loads(wish), handles)
        for handle in handles:
            os.close(handle)
        if wish:
            self._connections[child] = connection
            self._ready.register(connection, selectors.EVENT_READ, child)
        return None

    def _leave(self, connection: socket.socket) -> None:
        """Close what is the server's, in a child."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._ready.close()
        for each in (self._listener, connection, *self._connections.values()):
            each.close()
        os.close(self._ends)
        os.close(self._pen)

    def _reap(self) -> None:
        os.read(self._ends, 4096)
        while self._connections and (over := os.waitpid(-1, os.WNOHANG))[0]:
            connection = self._connections.pop(over[0])
            with suppress(KeyError):
                self._ready.unregister(connection)
            with connection, suppress(OSError):  # nobody may listen any more
                connection.sendall(os.waitstatus_to_exitcode(over[1]).to_bytes(4, "big", signed=True))

    def _pass_on(self, connection: socket.socket, child: int) -> None:
        """Pass signals on, a byte each. No more bytes: the process that was started was killed, and so is the child."""
        received = connection.recv(64)
        for number in received or [signal.SIGKILL]:
            os.kill(child, number)
        if not received:
            self._ready.unregister(connection)


def _receive(connection: socket.socket) -> tuple[bytes, list[int]]:
    """Return what is to be started, and its streams and directory; nothing if the client is gone."""
    received, handles, _, _ = socket.recv_fds(connection, 4, 4)
    size, wish = int.from_bytes(received, "big"), b""
    while len(wish) < size and (received := connection.recv(size - len(wish))):
        wish += received
    return wish if len(wish) == size else b"", handles


def _dress(wish: dict[str, Any], handles: list[int]) -> list[str]:
    """Become the process that was wished for, up to its arguments."""
    os.setpgid(0, 0)
    os.fchdir(handles[-1])
    for number, handle in enumerate(handles[:-1]):
        os.dup2(handle, number)
    for handle in handles:
        os.close(handle)
    os.environ.clear()
    os.environ.update(wish["environment"])
    time.tzset()
    words: list[str] = wish["words"]
    return words


def _be_python(words: list[str]) -> None:
    """Do what Python does with these arguments."""
    what, *rest = words
    sys.path[0] = "" if what in {"-m", "-c"} else str(Path(what).parent)
    if what == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif what == "-c":
        with tempfile.TemporaryFile() as program:
            program.write(rest[0].encode())
            program.seek(0)
            sys.argv = ["-c", *rest[1:]]
            runpy.run_path(f"/dev/fd/{program.fileno()}", run_name="__main__")
    else:
        sys.argv = words
        runpy.run_path(what, run_name="__main__")


class _End:
    """Ends a child without taking every module apart, which takes longer than most of them run."""

    def __init__(self) -> None:
        self.code: int | None = None
        atexit.register(self._end)  # before anybody else, so that it comes last

    def _end(self) -> None:
        if self.code is not None:
            with suppress(OSError, ValueError):  # then Python says what it says
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(self.code)


def _load() -> None:
    for module in walk_packages(import_module("steelyard").__path__, "steelyard."):
        if not module.name.startswith(_OTHERS):
            import_module(module.name)
    for name in filter(find_spec, _LATE):
        import_module(name)
    shorten(pytest.MonkeyPatch())
    gc.collect()
    gc.freeze()


def _main() -> None:
    end = _End()
    _load()
    words = _Server(sys.argv[1]).serve()
    try:
        _be_python(words)
    except SystemExit as left:
        if left.code is None or isinstance(left.code, int):
            end.code = (left.code or 0) & 0xFF
        raise
    end.code = 0


if __name__ == "__main__":
    _main()
