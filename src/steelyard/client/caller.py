"""One server, and the line to it that is kept open: when one is gone another is opened, soon at first, then less often.

A question waits for a line that is being opened, and fails at once while there is no hope of one: whoever asks may have
another server to go to. Every question ends, by an answer, by the end of its line or by its time. A server that lets
questions run out of time for long and says nothing at all is hung up on: its line may be dead without a word of it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from steelyard.client.unanswered import Asked, FutureAnswer, Question, Unanswered
from steelyard.errors import CannotConnect, LineClosed, SteelyardError, TimedOut
from steelyard.net.clock import steady_ms
from steelyard.net.line import Line, open_line
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import RESPONSE, Command

if TYPE_CHECKING:
    import ssl

    from steelyard.wire.signing import Credentials

__all__ = ["FIRST_OPAQUE", "Caller", "Switch"]

FIRST_OPAQUE = 1 << 30
"""From here on the numbers of questions are a caller's own; below they are a member's."""

_LAST_OPAQUE = (1 << 31) - 1
_PAUSES_MS = (0, 50, 100, 200, 400, 800, *([1_000] * 60), 5_000)
"""Before each attempt since the server was heard last; the last one repeats."""
_PATIENCE_MS = 250
"""How long an attempt to open a line is waited for after one that failed: a host that is gone does not say so."""
_AGAIN_MS = 100
"""Who asks does not wait for the next pause to end: so long after the last attempt another one is made."""
_SILENT_MS = 3_000
"""How long a server may answer nothing, while questions run out of time, before its line counts as dead."""
_GOING_AWAY = int(ResponseCode.GO_AWAY)

_log = logging.getLogger("steelyard")


class Switch(NamedTuple):
    """What all callers of a session have in common."""

    opened: "Callable[[Caller], None]"
    lost: "Callable[[Caller, bool], None]"
    """Told whether the line had been open."""
    heard: "Callable[[Caller, Command], None]"
    """Takes what is no answer to a question of ours."""
    tls: "ssl.SSLContext | None" = None
    sign: "Callable[[Command, Credentials], Command] | None" = None
    credentials: "Credentials | None" = None
    connect_ms: int = 3_000


class Caller:
    """One server. ``addresses`` are tried in turn; ``stays`` says whether a line is wanted even if nobody asks."""

    def __init__(self, switch: Switch, server: str | None, addresses: Sequence[str], *, stays: bool = True) -> None:
        self.server = server
        """A broker's name, None for the name servers."""
        self.addresses = tuple(addresses)
        self.failures = 0
        """Lines that broke, or never came up, since the server was heard last."""
        self.version = 0
        """The release that its last word named; 0 before the first."""
        self.why = ""
        """Why the last line ended, or did not come up."""
        self.advice = ""
        """What to do about it, where there is more to say than to check the address."""
        self._switch = switch
        self._stays = stays
        self._loop = asyncio.get_running_loop()
        self._line: Line | None = None
        self._line_address = ""
        self._turn = 0
        self._opening: asyncio.Task[None] | None = None
        self._opening_ms = 0
        self._timer: asyncio.TimerHandle | None = None
        self._opaque = FIRST_OPAQUE
        self._unanswered = Unanswered(self._loop, self._late)
        self._unsaid: dict[int, Command] = {}
        """Questions that wait for the line."""
        self._late_ms: int | None = None
        self._is_closed = False
        self._ended: asyncio.Future[None] = self._loop.create_future()
        """Done when the last line is gone."""

    # -- for everybody ------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether something can be said now."""
        return self._line is not None and self._line.is_open

    @property
    def is_full(self) -> bool:
        """Whether the server does not read what it is sent."""
        return self._line is not None and self._line.is_full

    @property
    def address(self) -> str:
        """Where the line goes, or will go next."""
        return self._line_address if self.is_open else self.addresses[self._turn % len(self.addresses)]

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for an answer."""
        return bool(self._unanswered)

    @property
    def asked(self) -> int:
        """A number that is another one after each question."""
        return self._opaque

    @property
    def local_host(self) -> str | None:
        """The address that the server sees us at, while there is a line."""
        return None if self._line is None else self._line.local_host

    def ask(self, command: Command, timeout_ms: int) -> "asyncio.Future[Command]":
        """Send a request and return what becomes its answer, whatever that says.

        It fails with CannotConnect, LineClosed or TimedOut.
        """
        answer: asyncio.Future[Command] = self._loop.create_future()
        self.put(FutureAnswer(answer), command, timeout_ms)
        return answer

    def put(self, question: Question, command: Command, timeout_ms: int) -> None:
        """Send a request, and let somebody know the answer; many sends a second do without a future for each."""
        self._opaque = opaque = self._opaque + 1 if self._opaque < _LAST_OPAQUE else FIRST_OPAQUE
        command = structs.replace(command, opaque=opaque)
        line = self._line
        if line is not None and line.is_open:
            try:
                line.say(self._signed(command))
            except SteelyardError as error:
                question.failed(error)
                return
        elif self._is_closed or self._is_hopeless:
            question.failed(CannotConnect(self.why or f"there is no line to {self.address}"))
            return
        else:
            self._unsaid[opaque] = command
            self.call()
        self._unanswered.add(opaque, question, command.code, timeout_ms)

    @property
    def _is_hopeless(self) -> bool:
        """Whether the last attempts to open a line failed, and none that may do better is under way or due."""
        if self.failures < len(self.addresses) or not self._stays:
            return False
        since_ms = steady_ms() - self._opening_ms
        return since_ms < _AGAIN_MS if self._opening is None else since_ms > _PATIENCE_MS

    def say(self, command: Command) -> bool:
        """Send a command as it is, if there is a line."""
        line = self._line
        if line is None or not line.is_open:
            return False
        line.say(self._signed(command))
        return True

    def _signed(self, command: Command) -> Command:
        switch = self._switch
        if switch.sign is None or switch.credentials is None or command.flag & RESPONSE:
            return command
        return switch.sign(command, switch.credentials)

    # -- for the session ----------------------------------------------------------------------------------------------

    def call(self) -> None:
        """Open a line, unless there is one or one is being opened."""
        if self._line is None and self._opening is None and not self._is_closed:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._opening = opening = self._loop.create_task(self._open())
            self._opening_ms = steady_ms()
            if self.failures >= len(self.addresses):
                self._loop.call_later(_PATIENCE_MS / 1000, self._lose_patience, opening)

    def go_to(self, addresses: Sequence[str]) -> None:
        """Take note of where the server is now; a line to where it is no more is given up."""
        if tuple(addresses) == self.addresses:
            return
        self.addresses, self._turn = tuple(addresses), 0
        if self._line is not None and self._line_address not in self.addresses:
            self._leave(self._line, "the server is elsewhere now")
        # What failed was somewhere else.
        self.failures = 0
        self.call()

    def stay(self) -> None:
        """Keep a line open from now on, even if nobody asks."""
        if not self._stays:
            self._stays, self.failures = True, 0
            self.call()

    def rest(self) -> None:
        """Hang up, unless an answer is awaited, and open a line only when somebody asks; until it is to stay again."""
        self._stays = False
        if self._unanswered:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        if self._line is not None:
            self._leave(self._line, "nobody needs the line")

    def hang_up(self, why: str = "the line was given up") -> None:
        """Drop the line; another one is opened, to the next address if there are several."""
        line = self._line
        if line is not None:
            # Before the loop tells of it: who asks again at once must not wait on a line that is going.
            self._gone(line, why)
            line.drop(why)

    def _leave(self, line: Line, why: str) -> None:
        """Say on a line what was said, and have nothing more to do with it: it may take long to end."""
        line.hang_up(why)
        if line is self._line:
            self._gone(line, why)

    def close(self) -> None:
        """End it all: no line is opened any more, and every question fails."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._opening is not None:
            self._opening.cancel()
        if self._line is not None:
            self._line.hang_up()
        self._fail_all(LineClosed(f"the line to {self.address} was closed by us"))

    async def closed(self, timeout_s: float) -> None:
        """Wait until the line is gone; one that does not go in time is dropped."""
        opening, self._opening = self._opening, None
        if opening is not None:
            await asyncio.wait([opening], timeout=timeout_s)
        if self._line is not None:
            await asyncio.wait([self._ended], timeout=timeout_s)
        if self._line is not None:
            self._line.drop()
            await asyncio.wait([self._ended], timeout=timeout_s)

    # -- the line -----------------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        address = self.addresses[self._turn % len(self.addresses)]
        self._turn += 1
        switch = self._switch
        try:
            line = await open_line(address, self._heard, self._gone, tls=switch.tls, timeout_ms=switch.connect_ms)
        except SteelyardError as error:
            self._opening = None
            self.why = error.what
            self.advice = "" if error.next_step == CannotConnect.next_step else error.next_step
            self._failed(error)
            return
        self._opening = None
        if self._is_closed:
            line.hang_up()
            return
        if not line.is_open:
            self._failed(LineClosed(f"{address} closed the line at once"))
            return
        self._line, self._line_address = line, address
        self._late_ms = None
        switch.opened(self)
        unsaid, self._unsaid = self._unsaid, {}
        for opaque, command in unsaid.items():
            if opaque in self._unanswered:
                self._say_late(opaque, command)

    def _lose_patience(self, opening: "asyncio.Task[None]") -> None:
        """Let nobody wait any longer for an attempt that will hardly do better than the last."""
        if self._opening is opening and self._unsaid:
            self._fail_all(CannotConnect(f"{self.address} cannot be reached (no answer in {_PATIENCE_MS} ms)"))

    def _say_late(self, opaque: int, command: Command) -> None:
        try:
            if not self.say(command):
                self._fail(opaque, LineClosed(f"{self.address} closed the line"))
        except SteelyardError as error:
            self._fail(opaque, error)

    def _failed(self, error: SteelyardError) -> None:
        """Take note that no line came up; questions go on waiting while there is another address to try."""
        self.failures += 1
        if self.failures >= len(self.addresses):
            self._fail_all(error)
        self._switch.lost(self, False)
        self._call_again()

    def _gone(self, line: Line, why: str) -> None:
        if line is not self._line:
            return
        self._line = None
        self.why = f"{self._line_address}: {why}"
        self.failures += 1
        _log.debug("the line to %s is gone: %s", self._line_address, why)
        self._fail_all(LineClosed(self.why))
        self._switch.lost(self, True)
        if self._is_closed:
            self._ended.set_result(None)
        self._call_again()

    def _call_again(self) -> None:
        if self._is_closed or not (self._stays or self._unanswered) or self._timer is not None:
            return
        pause_ms = _PAUSES_MS[min(max(self.failures - 1, 0), len(_PAUSES_MS) - 1)]
        self._timer = self._loop.call_later(pause_ms / 1000, self._call_on_time)

    def _call_on_time(self) -> None:
        self._timer = None
        self.call()

    # -- answers ------------------------------------------------------------------------------------------------------

    def _heard(self, line: Line, command: Command) -> None:
        if line is not self._line:
            return
        self.failures = 0
        self.version = command.version
        self._late_ms = None
        if command.flag & RESPONSE and command.opaque >= FIRST_OPAQUE:
            asked = self._unanswered.take(command.opaque)
            if asked is None:
                return
            if command.code == _GOING_AWAY:
                asked.question.failed(LineClosed(f"{self._line_address} is shutting down"))
                self._leave(line, "the server is shutting down")
                return
            asked.question.answered(command)
        else:
            self._switch.heard(self, command)

    def _late(self, opaque: int, asked: Asked) -> None:
        if self._unsaid.pop(opaque, None) is not None:
            asked.question.failed(CannotConnect(f"no line to {self.address} came up in {asked.timeout_ms} ms"))
            return
        asked.question.failed(TimedOut(f"{self.address} did not answer request {asked.code} in {asked.timeout_ms} ms"))
        now_ms = steady_ms()
        if self._late_ms is None:
            self._late_ms = asked.asked_ms
        # A name server has no grace: another one may know.
        if self._line is not None and (self.server is None or now_ms - self._late_ms >= 2 * _SILENT_MS):
            self.hang_up(f"nothing was heard for {now_ms - self._late_ms} ms")

    def _fail(self, opaque: int, error: SteelyardError) -> None:
        asked = self._unanswered.take(opaque)
        if asked is not None:
            asked.question.failed(error)

    def _fail_all(self, error: SteelyardError) -> None:
        self._unsaid.clear()
        for asked in self._unanswered.take_all():
            # A copy each: an error that is raised in many places collects all of their traces.
            asked.question.failed(copy(error))
