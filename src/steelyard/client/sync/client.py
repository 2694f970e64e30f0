"""SyncClient: the base of blocking clients, which run an asyncio client on the loop thread.

`blocking` turns a method of the asyncio client into one that waits for it, so there is no second implementation. What
is still open when the process ends is closed then.
"""

import atexit
import functools
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from steelyard.client.loop_thread import LoopThread
from steelyard.client.process_guard import ProcessGuard, closed_error

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_log = logging.getLogger("steelyard.client")


class _Openable(Protocol):
    """What every asyncio client can do."""

    async def open(self) -> Any:
        """Connect."""

    async def close(self) -> None:
        """Finish and disconnect."""


C = TypeVar("C", bound=_Openable)
C_co = TypeVar("C_co", bound=_Openable, covariant=True)

_open_clients: "set[SyncClient[Any]]" = set()
"""Open clients. One without a reference works on, and is closed at exit."""


class SyncClient(ProcessGuard, Generic[C_co]):
    """A blocking client."""

    def __init__(self, client: C_co) -> None:
        super().__init__()
        self._client = client
        self._loop_thread: LoopThread | None = None
        # Reentrant: a user's signal handler may close it while it is being opened.
        self._opening = threading.RLock()
        self._is_closed = False

    def open(self) -> Self:
        """Connect unless connected; any other call does it too."""
        self._ensure_open()
        return self

    def close(self) -> None:
        """Finish, disconnect, and end the loop's thread if it was the last. It cannot be reopened."""
        if self.is_forked:
            return
        self._opened_loop_thread()
        with self._opening:
            self._is_closed = True
            loop_thread, self._loop_thread = self._loop_thread, None
        if loop_thread is not None:
            _open_clients.discard(self)
            try:
                if self._is_responsive(loop_thread):
                    loop_thread.run(self._client.close())
            finally:
                loop_thread.release()

    def _is_responsive(self, loop_thread: LoopThread) -> bool:
        """Say whether the loop runs callbacks; if not, log that the client is not closed in order."""
        is_responsive = loop_thread.is_responsive()
        if not is_responsive:
            _log.warning(
                "a %s is not closed in order: something blocks the loop, such as an async handler that "
                "sleeps or computes",
                type(self).__name__,
            )
        return is_responsive

    def close_at_exit(self) -> None:
        """Close a client that is still open when the process ends."""
        self.close()

    def __enter__(self) -> Self:
        """Connect."""
        return self.open()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Close."""
        self.close()

    def _ensure_open(self) -> LoopThread:
        """Return the loop thread, with the client open on it."""
        loop_thread = self._loop_thread
        if loop_thread is not None and not self.is_forked:
            return loop_thread
        self.check_process()
        LoopThread.check_not_on_loop()
        with self._opening:
            self._check_not_closed()
            if self._loop_thread is None:
                loop_thread = LoopThread.acquire()
                try:
                    loop_thread.run(self._client.open())
                    if self._is_closed:
                        loop_thread.run(self._client.close())
                    self._check_not_closed()
                except BaseException:
                    self._is_responsive(loop_thread)
                    loop_thread.release()
                    raise
                self._loop_thread = loop_thread
                _open_clients.add(self)
            return self._loop_thread

    def _opened_loop_thread(self) -> LoopThread | None:
        """Return the loop thread, or None if it is not open; waits for a thread that is opening it.

        Handlers may run before that thread knows that it is open. On the loop's own thread that is an error: opening
        needs the loop, which would wait for itself.
        """
        LoopThread.check_not_on_loop()
        with self._opening:
            return self._loop_thread

    def _check_not_closed(self) -> None:
        if self._is_closed:
            raise closed_error(type(self).__name__)


class SyncPart(Generic[T_co]):
    """A part of a blocking client, such as ``admin.topics``, over the same part of the asyncio client."""

    def __init__(self, owner: SyncClient[Any], part: T_co) -> None:
        self._client = part
        self._ensure_open = owner._ensure_open


class _OnLoop(Protocol[T_co]):
    """What `blocking` needs: a `SyncClient` or a `SyncPart`."""

    @property
    def _client(self) -> T_co: ...

    @property
    def _ensure_open(self) -> Callable[[], LoopThread]: ...


def blocking(method: Callable[Concatenate[T, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[_OnLoop[T], P], R]:
    """Return a blocking method for one of the asyncio client."""

    @functools.wraps(method)
    def wait(self: _OnLoop[T], /, *args: P.args, **kwargs: P.kwargs) -> R:
        loop_thread = self._ensure_open()
        return loop_thread.run(method(self._client, *args, **kwargs))

    return wait


def on_loop(method: Callable[Concatenate[C, P], R]) -> Callable[Concatenate[SyncClient[C], P], R]:
    """Return a method that calls a plain one of the asyncio client on its loop."""

    @functools.wraps(method)
    def call(self: SyncClient[C], /, *args: P.args, **kwargs: P.kwargs) -> R:
        loop_thread = self._ensure_open()
        return loop_thread.call(lambda: method(self._client, *args, **kwargs))

    return call


def open_clients() -> "list[SyncClient[Any]]":
    """Return the open clients of this process."""
    return list(_open_clients)


@atexit.register
def _close_all() -> None:
    for client in open_clients():
        try:
            client.close_at_exit()
        except Exception as error:
            # The others have to be closed too.
            _log.warning("a %s could not be closed at the end: %s", type(client).__name__, error)
