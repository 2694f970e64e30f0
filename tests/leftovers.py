"""What the suite leaves behind: processes, ports, threads and files. The run fails if there is anything.

Every child inherits a mark in its environment, by which it is found after the last test, whoever its parent is by then.
Temporary files go into a directory of the run's own, which has to be empty in the end; pytest's own directories, which
it keeps for people to look into, are not in there. Processes and ports are looked for where there is /proc.
"""

import os
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

_MARK = "STEELYARD_SUITE"
_ROOT = Path(__file__).parents[1]
_GRACE_S = 10.0
"""How long something that is just ending may take on a busy machine."""
_LISTENS = "0A"
# Caches of the tools, and where Java keeps its counters, which it clears up itself when it starts next.
_CACHES = frozenset({".git", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"})
_JAVA = "hsperfdata_"


def mark() -> dict[str, str]:
    """Return what the environment of each child has to have, by which it is found in the end."""
    return {name: value for name, value in os.environ.items() if name == _MARK}


class Leftovers:
    """A plug-in of pytest: in each worker it looks at the process, in the one that hands out tests at all the rest."""

    def __init__(self, config: pytest.Config) -> None:
        self._worker_output: dict[str, Any] | None = getattr(config, "workeroutput", None)
        self._threads = set(threading.enumerate())
        # xdist's threads are not known to Python until one of them happens to run a finalizer that asks where it is.
        self._native_threads = {int(each.name) for each in Path("/proc/self/task").glob("*")}
        self._found: list[str] = []
        if self._worker_output is None:
            # pytest's own directories stay where they were.
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
            self._temporary = Path(tempfile.mkdtemp(prefix="steelyard-suite-"))
            os.environ["TMPDIR"] = tempfile.tempdir = str(self._temporary)
            self._mark = os.environ[_MARK] = secrets.token_hex(8)
            self._tree = set(_tree())

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker has found."""
        self._found += getattr(node, "workeroutput", {}).get("leftovers", [])

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Look, once all tests and fixtures are over; give what is ending its time."""
        end_s = time.monotonic() + _GRACE_S
        while (found := [*self._collect()]) and time.monotonic() < end_s:
            time.sleep(0.05)
        if self._worker_output is not None:
            self._worker_output["leftovers"] = [f"{os.environ['PYTEST_XDIST_WORKER']}: {each}" for each in found]
            return
        with suppress(OSError):
            shutil.rmtree(self._temporary)
        self._found += found
        if self._found and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: "pytest.TerminalReporter") -> None:
        """Tell what was found."""
        if self._found:
            terminalreporter.section("left behind: end what a test starts, in the test", red=True, bold=True)
            for each in self._found:
                terminalreporter.write_line(each)

    def _collect(self) -> Iterator[str]:
        for thread in threading.enumerate():
            if thread not in self._threads and thread.native_id not in self._native_threads:
                yield f"thread {thread.name}"
        yield from (f"port {port}" for port in _listening())
        if self._worker_output is None:
            yield from (f"process {process}" for process in _processes(f"{_MARK}={self._mark}".encode()))
            yield from (f"file {path}" for path in sorted(set(_tree()) - self._tree))
            left = (path for path in self._temporary.iterdir() if not path.name.startswith(_JAVA))
            yield from (f"temporary file {path.name}" for path in left)


def _processes(mark: bytes) -> Iterator[str]:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if process.name != str(os.getpid()) and mark in (process / "environ").read_bytes():
                yield f"{process.name}: {(process / 'cmdline').read_text().replace(chr(0), ' ')}"
        except OSError:
            continue  # it is gone, or another user's


def _listening() -> Iterator[int]:
    """Return the ports at which this process listens."""
    sockets = set()
    for descriptor in Path("/proc/self/fd").glob("*"):
        try:
            sockets.add(str(descriptor.readlink()).removeprefix("socket:[").removesuffix("]"))
        except OSError:
            continue  # the one that was open for this look
    for table in (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6")):
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            columns = line.split()
            if columns[3] == _LISTENS and columns[9] in sockets:
                yield int(columns[1].rpartition(":")[2], 16)


def _tree() -> Iterator[str]:
    """Return the files of the tree, without environments and caches."""
    for folder, folders, files in os.walk(_ROOT):
        folders[:] = [name for name in folders if name not in _CACHES and not name.startswith(".venv")]
        yield from (os.path.relpath(Path(folder, name), _ROOT) for name in files)
