"""Lines of a process that rest between tasks: taken out by who works with one, and put back after.

Opening a line costs a round trip, with TLS several, and a task of Spark often lasts no longer than that; the processes
that run tasks live on between them. A line is out of the shelf while it is in use, so two tasks of one process never
share one. It is put back only by who has heard every answer on it; anything else closes it. A forked child begins with
an empty shelf.

Servers close lines that rest for two minutes. Here they are closed after one, by whoever comes to the shelf next.
"""

import atexit
import os
import threading
from functools import lru_cache
from typing import TYPE_CHECKING

from steelyard.client.connect import DEFAULT_ADDRESS, Connect
from steelyard.net.clock import steady_ms
from steelyard.net.pipelined import PipelinedLine

if TYPE_CHECKING:
    import ssl
    from collections.abc import Hashable
    from pathlib import Path

    from steelyard.net.tls import Tls

__all__ = ["LineShelf", "shared_lines"]

_REST_MS = 60_000
_FRESH_MS = 1_000
"""A line that rested for longer is looked at before it is used: the server may have hung up."""
_MOST_EACH = 4
_MOST = 64
"""Lines that may rest: to one server, and in all. A line has a file handle and two MiB."""


class LineShelf:
    """Lines at rest, by where they go to and how they got in. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._resting: dict[Hashable, list[PipelinedLine]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._resting.values()))

    def take(self, address: str, connect: Connect, *, timeout_ms: int = 3_000) -> PipelinedLine:
        """Return a line to a server, one that rested or a new one; raises CannotConnect."""
        key = _key(address, connect)
        self._sweep()
        while True:
            with self._lock:
                resting = self._resting.get(key)
                line = resting.pop() if resting else None
            if line is None:
                return PipelinedLine(address, tls=_context(connect.tls), timeout_ms=timeout_ms)
            if steady_ms() - line.used_ms < _FRESH_MS or line.is_quiet():
                return line
            line.close()

    def put_back(self, line: PipelinedLine, connect: Connect) -> None:
        """Let a line rest on which nothing is under way."""
        line.used_ms = steady_ms()
        with self._lock:
            resting = self._resting.setdefault(_key(line.address, connect), [])
            is_kept = len(resting) < _MOST_EACH and len(self) < _MOST
            if is_kept:
                resting.append(line)
        if not is_kept:
            line.close()
        self._sweep()

    def drop(self, address: str, connect: Connect) -> None:
        """Close the lines to a server that rest: one that was used has broken."""
        with self._lock:
            lines = self._resting.pop(_key(address, connect), [])
        for line in lines:
            line.close()

    def close(self) -> None:
        """Close all lines that rest; the shelf can be used on."""
        with self._lock:
            lines = [line for resting in self._resting.values() for line in resting]
            self._resting.clear()
        for line in lines:
            line.close()

    def _sweep(self) -> None:
        """Close what rested for too long."""
        end_ms = steady_ms() - _REST_MS
        with self._lock:
            old = [line for resting in self._resting.values() for line in resting if line.used_ms < end_ms]
            if not old:
                return
            for key, resting in list(self._resting.items()):
                self._resting[key] = [line for line in resting if line.used_ms >= end_ms]
                if not self._resting[key]:
                    del self._resting[key]
        for line in old:
            line.close()

    def _forget(self) -> None:
        """Begin anew in a forked child: the lines are the parent's, and a thread of it may have had the lock."""
        self._lock = threading.Lock()
        self._resting = {}


def _key(address: str, connect: Connect) -> "Hashable":
    return address, connect.credentials, connect.tls


@lru_cache(maxsize=16)
def _context(tls: "bool | str | Path | ssl.SSLContext | Tls") -> "ssl.SSLContext | None":
    """Make what lines are encrypted with, once: reading the authorities takes longer than many a task."""
    return Connect(DEFAULT_ADDRESS, tls=tls).tls_context()


_shared = LineShelf()
atexit.register(_shared.close)


def shared_lines() -> LineShelf:
    """Return the shelf of this process."""
    return _shared


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_shared._forget)
