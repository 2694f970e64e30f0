"""ConnectionPool: idle connections of a process, reused between tasks.

Opening a connection costs a round trip, with TLS several, and a Spark task often takes no longer. A connection is out
of the pool while in use, and returned only after every answer on it was read. A forked child begins with an empty pool.
Servers close connections that are idle for two minutes. The pool closes them after one, at its next use.
"""

import atexit
import os
import threading
from functools import lru_cache
from typing import TYPE_CHECKING

from steelyard.client.config import DEFAULT_NAMESRV, ClientConfig
from steelyard.net.blocking_connection import PipelinedConnection
from steelyard.net.clock import steady_ms

if TYPE_CHECKING:
    import ssl
    from collections.abc import Hashable
    from pathlib import Path

    from steelyard.net.tls import Tls

_IDLE_MS = 60_000
_CHECK_IDLE_MS = 1_000
"""A connection that was idle for longer is checked before use: the server may have closed it."""
_MAX_PER_SERVER = 4
_MAX_IDLE = 64
"""Idle connections: to one server, and in all. Each has a file handle and 2 MiB."""


class ConnectionPool:
    """Idle connections by address, credentials and TLS. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[Hashable, list[PipelinedConnection]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._idle.values()))

    def acquire(self, address: str, config: ClientConfig, *, timeout_ms: int = 3_000) -> PipelinedConnection:
        """Return a connection to a server, idle or new; raises CannotConnect."""
        key = _key(address, config)
        self._close_idle()
        while True:
            with self._lock:
                idle = self._idle.get(key)
                connection = idle.pop() if idle else None
            if connection is None:
                return PipelinedConnection(address, tls=_tls_context(config.tls), timeout_ms=timeout_ms)
            if steady_ms() - connection.last_used_ms < _CHECK_IDLE_MS or connection.is_idle():
                return connection
            connection.close()

    def release(self, connection: PipelinedConnection, config: ClientConfig) -> None:
        """Return a connection without pending answers to the pool."""
        connection.last_used_ms = steady_ms()
        with self._lock:
            idle = self._idle.setdefault(_key(connection.address, config), [])
            is_kept = len(idle) < _MAX_PER_SERVER and len(self) < _MAX_IDLE
            if is_kept:
                idle.append(connection)
        if not is_kept:
            connection.close()
        self._close_idle()

    def discard(self, address: str, config: ClientConfig) -> None:
        """Close the idle connections to a server, after one that was in use failed."""
        with self._lock:
            connections = self._idle.pop(_key(address, config), [])
        for connection in connections:
            connection.close()

    def close(self) -> None:
        """Close all idle connections; the pool can still be used."""
        with self._lock:
            connections = [connection for idle in self._idle.values() for connection in idle]
            self._idle.clear()
        for connection in connections:
            connection.close()

    def _close_idle(self) -> None:
        """Close connections that were idle for too long."""
        end_ms = steady_ms() - _IDLE_MS
        with self._lock:
            old = [each for idle in self._idle.values() for each in idle if each.last_used_ms < end_ms]
            if not old:
                return
            kept = {key: [each for each in idle if each.last_used_ms >= end_ms] for key, idle in self._idle.items()}
            self._idle = {key: idle for key, idle in kept.items() if idle}
        for connection in old:
            connection.close()

    def _reset_after_fork(self) -> None:
        """Reset in a forked child: the connections are the parent's, and a thread of it may have held the lock."""
        self._lock = threading.Lock()
        self._idle = {}


def _key(address: str, config: ClientConfig) -> "Hashable":
    return address, config.credentials, config.tls


@lru_cache(maxsize=16)
def _tls_context(tls: "bool | str | Path | ssl.SSLContext | Tls") -> "ssl.SSLContext | None":
    """Return the TLS context, made once: reading the authorities takes longer than many a task."""
    return ClientConfig(DEFAULT_NAMESRV, tls=tls).tls_context()


_shared = ConnectionPool()
atexit.register(_shared.close)


def shared_pool() -> ConnectionPool:
    """Return the pool of this process."""
    return _shared


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_shared._reset_after_fork)
