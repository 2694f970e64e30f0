"""One send in the thread that wants it: the same rules as on the loop, on lines that the thread has for itself.

Handing a message to the loop and its answer back costs several times what the send itself does. So a thread that waits
for its message anyway keeps a line to each broker it sends to, until it ends or the producer is closed. Routes are the
loop's: it is asked when a topic is new and when every broker has failed.
"""

import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Self, TypeVar

from steelyard.balance.attempts import Attempt, GaveUp, Sending, SendOptions, Step
from steelyard.client.guard import closed
from steelyard.client.producing.sends import look_up_ms, shortened
from steelyard.errors import SteelyardError
from steelyard.net.blocking import BlockingLine
from steelyard.net.clock import steady_ms
from steelyard.wire.command import ONEWAY, Command
from steelyard.wire.signing import signed

if TYPE_CHECKING:
    from steelyard.client.producing.parcels import Parcel
    from steelyard.client.producing.pickers import SharedPicker
    from steelyard.client.session import Session
    from steelyard.model import Queue

__all__ = ["Direct"]

R = TypeVar("R")

_RESTED_MS = 1_000
"""A line that was not used for so long is looked at before it is: servers close lines on which nothing is said."""
_LOOK_S = 0.002


class _Lines:
    """The lines of one thread, by address; within the context they are busy."""

    __slots__ = ("__weakref__", "_direct", "by_address", "is_busy")

    def __init__(self, direct: "Direct") -> None:
        self._direct = direct
        self.by_address: dict[str, BlockingLine] = {}
        self.is_busy = False

    def __enter__(self) -> Self:
        self.is_busy = True  # first, and then look: who closes does it the other way round
        try:
            self._direct.check_open()
        except BaseException:
            self.is_busy = False
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.is_busy = False

    def drop(self, address: str) -> None:
        line = self.by_address.pop(address, None)
        if line is not None:
            line.close()

    def close(self) -> None:
        for address in list(self.by_address):
            self.drop(address)

    def __del__(self) -> None:
        self.close()  # the thread has ended


class Direct:
    """The lines of all threads that send through one producer."""

    def __init__(self, session: "Session", has_new_route: Callable[[str, int], bool]) -> None:
        self._session = session
        self._has_new_route = has_new_route
        """Looks a topic up again for at most so many milliseconds; says whether it is elsewhere now."""
        self._tls = session.connect.tls_context()
        self._credentials = session.connect.credentials
        self._mine = threading.local()
        self._all: weakref.WeakSet[_Lines] = weakref.WeakSet()
        self._adding = threading.Lock()
        self._is_closing = False
        self._closed = threading.Event()

    def send(
        self, picker: "SharedPicker", parcel: "Parcel[R]", options: SendOptions, chosen: "Queue | None" = None
    ) -> R:
        """Send a parcel, and return what a broker said to it; raises SendFailed."""
        with self._lines() as lines:
            sending = Sending(picker, options, chosen=chosen)
            now_ms = steady_ms()
            deadline_ms = now_ms + options.left_ms
            step: Step = sending.begin(now_ms)
            late: R | None = None
            while isinstance(step, Attempt):
                if step.pause_ms:
                    self._closed.wait(step.pause_ms / 1000)
                try:
                    answer = self._ask(lines, step, parcel.request(step.queue))
                    result = parcel.read(answer, step.queue, sending.tried)
                except SteelyardError as error:
                    step = self._failed(sending, picker.topic, error, deadline_ms)
                    continue
                is_late = answer.code != 0
                step = sending.succeeded(steady_ms(), late=is_late)
                if picker.is_borrowed:
                    self._session.routes.refresh_soon(picker.topic)
                if not is_late:
                    return result
                late = result if late is None else late
        if isinstance(step, GaveUp):
            raise step.error
        assert late is not None
        return late

    def tell(self, picker: "SharedPicker", parcel: "Parcel[R]", options: SendOptions) -> None:
        """Send a parcel one way; raises SendFailed if it could not even be written."""
        with self._lines() as lines:
            sending = Sending(picker, options)
            attempt = sending.begin(steady_ms())
            try:
                self._ask(lines, attempt, parcel.request(attempt.queue))
            except SteelyardError as error:
                end = sending.failed(error, steady_ms())
                if isinstance(end, GaveUp):
                    raise end.error from None

    def close(self, timeout_s: float) -> None:
        """Wait for the sends that are under way, so long at most, then close all lines."""
        end_s = time.monotonic() + timeout_s
        with self._adding:
            self._is_closing = True
            everybody = list(self._all)
        while any(lines.is_busy for lines in everybody) and time.monotonic() < end_s:
            time.sleep(_LOOK_S)
        self._closed.set()
        for lines in everybody:
            lines.close()

    def _lines(self) -> _Lines:
        """Return the lines of this thread."""
        lines: _Lines | None = getattr(self._mine, "lines", None)
        if lines is None:
            lines = self._mine.lines = _Lines(self)
            with self._adding:
                self._all.add(lines)
        return lines

    def check_open(self) -> None:
        """Refuse to begin anything once it is being closed."""
        if self._is_closing:
            raise closed("Producer")

    def _failed(self, sending: Sending, topic: str, error: SteelyardError, deadline_ms: int) -> Step:
        now_ms = steady_ms()
        step = sending.failed(error, now_ms)
        self._session.routes.refresh_soon(topic)
        allowed_ms = look_up_ms(sending, error, deadline_ms, now_ms)
        if allowed_ms and not self._closed.is_set():
            if self._has_new_route(topic, allowed_ms):
                return sending.renewed(steady_ms())
            return shortened(step, steady_ms() - now_ms)
        return step

    def _ask(self, lines: _Lines, attempt: Attempt, request: Command) -> Command:
        """Say something to a broker and return the answer; a request that wants none is returned itself."""
        if self._credentials is not None:
            request = signed(request, self._credentials)
        address = self._session.address_of(attempt.queue.broker)
        began_ms = steady_ms()
        line = lines.by_address.get(address)
        left_ms = attempt.timeout_ms
        try:
            if line is None or began_ms - line.used_ms > _RESTED_MS:
                line = self._open(lines, address, left_ms)
                left_ms = max(1, left_ms - (steady_ms() - began_ms))
            if request.flag & ONEWAY:
                line.tell(request, left_ms)
                return request
            return line.ask(request, left_ms)
        except BaseException:
            # An answer that is still to come would be taken for the next one's.
            lines.drop(address)
            raise

    def _open(self, lines: _Lines, address: str, timeout_ms: int) -> BlockingLine:
        """Return a line that has rested, if it is still good, or a new one."""
        known = lines.by_address.get(address)
        if known is not None:
            if known.is_quiet():
                return known
            lines.drop(address)
        if self._closed.is_set():
            raise closed("Producer")
        made = lines.by_address[address] = BlockingLine(address, tls=self._tls, timeout_ms=timeout_ms)
        return made
