"""Questions on a line that wait for their answers, and one watch for those whose time is over.

Nearly every question is answered long before its time, so none has a timer of its own: the watch wakes up when the
first of those that wait now is due, looks at all, and sleeps until the next. A question that is due sooner wakes it
sooner.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from steelyard.errors import SteelyardError
from steelyard.net.clock import steady_ms
from steelyard.wire.command import Command

__all__ = ["Asked", "FutureAnswer", "Question", "Unanswered"]

_NEVER_MS = 1 << 62


class Question(Protocol):
    """Who waits for an answer; one of these is called, once, on the loop."""

    def answered(self, answer: Command) -> None:
        """Hear the answer, whatever it says."""

    def failed(self, error: SteelyardError) -> None:
        """Hear that there will be none."""


class FutureAnswer:
    """A question whose answer goes into a future."""

    __slots__ = ("_future",)

    def __init__(self, future: "asyncio.Future[Command]") -> None:
        self._future = future

    def answered(self, answer: Command) -> None:
        """Hear the answer."""
        if not self._future.done():
            self._future.set_result(answer)

    def failed(self, error: SteelyardError) -> None:
        """Hear that there will be none."""
        if not self._future.done():
            self._future.set_exception(error)


class Asked(Struct, frozen=True):
    """A question that waits: what was asked, when, and for how long it waits."""

    question: Question
    code: int
    timeout_ms: int
    asked_ms: int

    @property
    def due_ms(self) -> int:
        """When its time is over."""
        return self.asked_ms + self.timeout_ms


class Unanswered:
    """The questions of one line, by their numbers; ``late`` is told of each whose time is over."""

    def __init__(self, loop: asyncio.AbstractEventLoop, late: Callable[[int, Asked], None]) -> None:
        self._loop, self._late = loop, late
        self._asked: dict[int, Asked] = {}
        self._watch: asyncio.TimerHandle | None = None
        self._wakes_ms = _NEVER_MS

    def __bool__(self) -> bool:
        """Say whether a question waits."""
        return bool(self._asked)

    def __contains__(self, opaque: int) -> bool:
        """Say whether this one waits."""
        return opaque in self._asked

    def add(self, opaque: int, question: Question, code: int, timeout_ms: int) -> None:
        """Let a question wait for so long."""
        now_ms = steady_ms()
        self._asked[opaque] = Asked(question, code, timeout_ms, now_ms)
        if now_ms + timeout_ms < self._wakes_ms:
            self._wake_at(now_ms + timeout_ms, now_ms)

    def take(self, opaque: int) -> Asked | None:
        """Return a question that waits no longer; None if it did not."""
        return self._asked.pop(opaque, None)

    def take_all(self) -> list[Asked]:
        """Return all of them; none waits any longer."""
        asked, self._asked = list(self._asked.values()), {}
        return asked

    def _wake_at(self, due_ms: int, now_ms: int) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._wakes_ms = due_ms
        self._watch = self._loop.call_later((due_ms - now_ms) / 1000, self._look)

    def _look(self) -> None:
        self._watch, self._wakes_ms = None, _NEVER_MS
        now_ms = steady_ms()
        for opaque in [opaque for opaque, asked in self._asked.items() if asked.due_ms <= now_ms]:
            # Who hears of one may end others.
            asked = self._asked.pop(opaque, None)
            if asked is not None:
                self._late(opaque, asked)
        next_ms = min((asked.due_ms for asked in self._asked.values()), default=_NEVER_MS)
        if next_ms < self._wakes_ms:
            self._wake_at(next_ms, steady_ms())
