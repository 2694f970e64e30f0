"""How Java's client speaks to servers: lines when they are needed, answers or the lack of them, threads that wait.

A line is opened by the first request for it, and again by the next one after it was lost. What was unanswered on a line
that the other end closed fails at once with release 5, and with 4.9 only when its time is over. A thread of Java is a
generator here: it gives an `Ask` and goes on with the answer, None if there was none in time, or gives a `Sleep` and
goes on later. A thread that waits for an answer for too long closes the line, as Java's client does: the broker may
take it for a new member then.
"""

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from steelyard.sim.line import Line
from steelyard.sim.process import Process
from steelyard.wire.command import ONEWAY, Command

if TYPE_CHECKING:
    from steelyard.sim.timer import Timer

__all__ = ["Ask", "Calls", "Script", "Sleep"]

T = TypeVar("T")


class Ask(Struct, frozen=True):
    """A request that a thread waits for."""

    address: str
    command: Command
    timeout_ms: int = 3_000


class Sleep(Struct, frozen=True):
    """A thread does nothing for a while."""

    time_ms: int


Script = Generator[Ask | Sleep, Command | None, T]
"""What a thread does: asks, waits, and gives a result."""

_Then = Callable[[Command | None], None]


class Calls:
    """All lines of one client, and all that is unanswered on them."""

    def __init__(self, process: Process, when_opened: Callable[[str], None], *, fails_fast: bool) -> None:
        self._process, self._when_opened, self._fails_fast = process, when_opened, fails_fast
        self._lines: dict[str, Line] = {}
        self._up: set[int] = set()
        """The numbers of lines that were open."""
        self._open: dict[int, tuple[Line, _Then, Timer]] = {}
        self._opaque = 0

    def ask(self, address: str, command: Command, timeout_ms: int, then: _Then, *, closes: bool = False) -> None:
        """Ask a server, and do something with the answer; ``closes``: the line is closed if there is none in time."""
        self._opaque += 1
        opaque, line = self._opaque, self._line(address)
        timer = self._process.after(timeout_ms, lambda: self._late(opaque, closes=closes))
        self._open[opaque] = line, then, timer
        line.say(replace(command, opaque=opaque))

    def tell(self, address: str, command: Command) -> None:
        """Tell a server something, without an answer."""
        self._opaque += 1
        self._line(address).say(replace(command, opaque=self._opaque, flag=ONEWAY))

    def run(self, script: Script[T], then: Callable[[T], None]) -> None:
        """Let a thread run; do something with its result."""
        self._go_on(script, then, None)

    def _go_on(self, script: Script[T], then: Callable[[T], None], answer: Command | None) -> None:
        try:
            step = script.send(answer)
        except StopIteration as done:
            then(done.value)
            return
        if isinstance(step, Sleep):
            self._process.after(step.time_ms, lambda: self._go_on(script, then, None))
        else:
            self.ask(
                step.address,
                step.command,
                step.timeout_ms,
                lambda answer: self._go_on(script, then, answer),
                closes=True,
            )

    def opened(self, line: Line) -> None:
        """Take note that a line is open."""
        self._up.add(line.number)
        self._when_opened(line.remote)

    def answered(self, line: Line, answer: Command) -> None:
        """Take an answer."""
        found = self._open.get(answer.opaque)
        if found is not None and found[0] is line:
            del self._open[answer.opaque]
            found[2].cancel()
            found[1](answer)

    def lost(self, line: Line) -> None:
        """Take note that a line is gone, or could not be opened."""
        was_up = line.number in self._up
        self._up.discard(line.number)
        if self._lines.get(line.remote) is line:
            del self._lines[line.remote]
        if self._fails_fast or not was_up:
            self._fail(line)

    def _fail(self, line: Line) -> None:
        """Let everything fail that is unanswered on a line."""
        for opaque in [opaque for opaque, found in self._open.items() if found[0] is line]:
            found = self._open.pop(opaque, None)
            if found is not None:
                found[2].cancel()
                found[1](None)

    def _late(self, opaque: int, *, closes: bool) -> None:
        found = self._open.pop(opaque, None)
        if found is None:
            return
        line, then, _ = found
        if closes:
            line.close()
            self.lost(line)
            self._fail(line)
        then(None)

    def _line(self, address: str) -> Line:
        line = self._lines.get(address)
        if line is None:
            line = self._lines[address] = self._process.world.network.connect(self._process, address)
        return line
