"""What all blocking clients have in common: the asyncio client behind it, and waiting for it.

A face has no rules of its own. `waits` turns a method of the asyncio client into one that is waited for, so there are
no twins to keep alike. It opens itself with the first call, and everything that is still open when the process ends is
closed then.
"""

import atexit
import functools
import logging
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from steelyard.client.guard import Guard, closed
from steelyard.client.hub import Hub

__all__ = ["Face", "Openable", "looks", "still_open", "waits"]

P = ParamSpec("P")
R = TypeVar("R")

_log = logging.getLogger("steelyard")


class Openable(Protocol):
    """What an asyncio client can do."""

    async def open(self) -> Any:
        """Connect."""

    async def close(self) -> None:
        """Finish, and hang up."""


C = TypeVar("C", bound=Openable)
C_co = TypeVar("C_co", bound=Openable, covariant=True)

_open: "set[Face[Any]]" = set()
"""Open ones, which stay until they are closed: one that nobody has a name for works on, and is closed at the end."""


class Face(Guard, Generic[C_co]):
    """A blocking client."""

    def __init__(self, client: C_co) -> None:
        super().__init__()
        self._client = client
        self._hub: Hub | None = None
        # One that can be taken again: a user's signal handler may close it while it is being opened.
        self._opening = threading.RLock()
        self._is_closed = False

    def open(self) -> Self:
        """Connect, if it is not connected; a call of anything else does it too."""
        self._ready()
        return self

    def close(self) -> None:
        """Finish what is under way, hang up, and end its thread if it was the last. It cannot be opened again."""
        if self.is_elsewhere:
            return
        if self._hub is not None:
            self._hub.check_elsewhere()
        with self._opening:
            self._is_closed = True
            hub, self._hub = self._hub, None
        if hub is not None:
            _open.discard(self)
            try:
                if self._is_heard_by(hub):
                    hub.run(self._client.close())
            finally:
                hub.give_back()

    def _is_heard_by(self, hub: Hub) -> bool:
        """Say whether a loop comes to what it is asked to do, and tell why there is no goodbye if it does not."""
        is_heard = hub.answers()
        if not is_heard:
            _log.warning(
                "a %s is left without a goodbye: something on the loop never gives way, such as an async handler that "
                "sleeps or computes",
                type(self).__name__,
            )
        return is_heard

    def close_at_exit(self) -> None:
        """Close what nobody closed before the process ends."""
        self.close()

    def __enter__(self) -> Self:
        """Connect."""
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def _ready(self) -> Hub:
        """Return the loop to wait for, with the client open on it."""
        hub = self._hub
        if hub is not None and not self.is_elsewhere:
            return hub
        self.check_process()
        with self._opening:
            self._check_not_closed()
            if self._hub is None:
                hub = Hub.take()
                try:
                    hub.run(self._client.open())
                    if self._is_closed:
                        hub.run(self._client.close())
                    self._check_not_closed()
                except BaseException:
                    self._is_heard_by(hub)
                    hub.give_back()
                    raise
                self._hub = hub
                _open.add(self)
            return self._hub

    def _check_not_closed(self) -> None:
        if self._is_closed:
            raise closed(type(self).__name__)


def waits(
    method: Callable[Concatenate[C, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Face[C], P], R]:
    """Make a blocking method of one of the asyncio client."""

    @functools.wraps(method)
    def wait(self: Face[C], /, *args: P.args, **kwargs: P.kwargs) -> R:
        hub = self._ready()
        return hub.run(method(self._client, *args, **kwargs))

    return wait


def looks(method: Callable[Concatenate[C, P], R]) -> Callable[Concatenate[Face[C], P], R]:
    """Make a method that looks at the asyncio client safely, on its loop, of one that does not wait."""

    @functools.wraps(method)
    def look(self: Face[C], /, *args: P.args, **kwargs: P.kwargs) -> R:
        hub = self._ready()
        return hub.call(lambda: method(self._client, *args, **kwargs))

    return look


def still_open() -> "list[Face[Any]]":
    """List the clients of this process that nobody has closed."""
    return list(_open)


@atexit.register
def _close_what_is_open() -> None:
    for face in still_open():
        try:
            face.close_at_exit()
        except Exception as error:
            # Whatever it is, the others are to be closed too.
            _log.warning("a %s could not be closed at the end: %s", type(face).__name__, error)
