"""One broker while ranges of its queues are read: what to ask it for next, and what to do when it does not answer.

How much it gives to one pull is learnt from its answers: a full one after the other makes stretches longer, a short one
shorter. A new acquaintance, and one that was busy, is asked for little at first. A line that breaks is opened again and
everything that was under way on it asked for once more: an answer counts only once it was heard, so nothing is read
twice. From the second failure on the name servers are asked where the broker is now. All of it ends when the broker
gave nothing for as long as its reader is patient.

That a queue ends before a range does is believed of a master only: a replica may be late, and is waited for.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from steelyard.client.bulk.finding import find_route
from steelyard.client.bulk.judging import Again, Gone, Missing, Next, Pause, judge
from steelyard.client.bulk.lines import LineShelf
from steelyard.client.bulk.stretches import RangeReading, Stretch
from steelyard.client.connect import Connect
from steelyard.errors import (
    CannotConnect,
    LineClosed,
    ProtocolError,
    SteelyardError,
    TimedOut,
    TopicNotFound,
    TransportError,
)
from steelyard.model import Queue
from steelyard.net.clock import steady_ms
from steelyard.net.pipelined import PipelinedLine
from steelyard.wire.command import Command

__all__ = ["BrokerReading", "Terms"]

_CONNECT_MS = 3_000
_FIND_MS = 1_000
_PAUSES_MS = (0, 50, 100, 200, 400, 800, 1_000)
"""Before each attempt since the broker gave something; the last one repeats."""
_PATIENT_TIMES = 4
"""So many times as long as it may give nothing, it may take for one answer of which something comes now and then."""
_FEW = 4
"""Pulls under way at the beginning."""
_MANY = 1 << 10
_FULL_ONES = 4
"""So many full answers in a row, and more is asked for."""
_LOOKED_AT = 1_000
"""How long stretches are where a filter is: a broker looks at so many messages for one pull, about."""
_ANSWER_BYTES = 256 * 1024
"""What an answer is expected to have before there was one."""


class Terms(NamedTuple):
    """On what terms ranges are read: the same for all brokers."""

    connect: Connect
    lines: LineShelf
    request: Callable[[Queue, int, int], Command]
    """Makes the pull of so many messages from an offset on."""
    most: int
    """How many messages one pull asks for at most."""
    is_filtered: bool
    patience_ms: int
    """How long a broker may give nothing."""
    silence_ms: int
    """How long a line may be silent while something is under way on it."""
    settle_ms: int
    """How long offsets may be beyond the end of their queue, or the topic not be there, until they count as lost."""


class BrokerReading:
    """A broker, the ranges of its queues, and what is under way."""

    def __init__(self, name: str, address: str | None, readings: Sequence[RangeReading], terms: Terms) -> None:
        self.name, self._address, self._terms = name, address, terms
        self.line: PipelinedLine | None = None
        self.asked: dict[int, Stretch] = {}
        """What is under way, by the number of its request."""
        self.answer_bytes = _ANSWER_BYTES
        """How large an answer is, about."""
        self._useful_ms = self._heard_ms = steady_ms()
        """When it gave something last, and when it said anything at all."""
        self._due_ms = 0
        """Not to be asked before this time."""
        self._readings = deque(readings)
        """Those that are not cut up yet."""
        self._again: deque[Stretch] = deque()
        """To be asked for (once more): the rest of stretches, and what was under way on a line that broke."""
        self._waiting: list[Stretch] = []
        """To be asked for again at their time."""
        self._has_answered = False
        self._few = _FEW
        self._stride = max(terms.most, _LOOKED_AT) if terms.is_filtered else terms.most
        self._full_ones = 0
        self._failures = 0

    @property
    def has_work(self) -> bool:
        """Whether something is to be asked for or to be heard."""
        return bool(self.asked or self._again or self._waiting or self._readings)

    def is_waiting(self, now_ms: int) -> bool:
        """Say whether something is to be asked for at a time of its own, whatever is heard until then."""
        return bool(self._waiting) or self._due_ms > now_ms

    def next_due_ms(self, now_ms: int) -> int:
        """Return until when there is nothing to do but to hear what comes."""
        if self.line is None or self._due_ms > now_ms:
            return self._due_ms
        silent_ms = self._heard_ms if self.asked else now_ms
        return min([silent_ms + self._terms.silence_ms, *[stretch.due_ms for stretch in self._waiting]])

    def excuse(self, idle_ms: int) -> None:
        """Do not hold against it what it could not be heard saying."""
        self._useful_ms += idle_ms
        self._heard_ms += idle_ms

    # -- asking -------------------------------------------------------------------------------------------------------

    def ask(self, depth: int, room_bytes: int) -> int:
        """Have as many pulls under way as may be, beyond the room only what others wait for; return how many more."""
        now_ms = steady_ms()
        line = self.line
        if now_ms < self._due_ms or not self.has_work or (line is None and (line := self._open()) is None):
            return 0
        if not (before := len(self.asked)):
            self._heard_ms = now_ms
        depth = min(depth, self._few)
        while len(self.asked) < depth:
            stretch = self._next(now_ms, only_heads=room_bytes < self.answer_bytes)
            if stretch is None:
                break
            room_bytes -= self.answer_bytes
            stretch.asked = min(self._terms.most, stretch.end - stretch.at)
            self.asked[line.say(self._terms.request(stretch.reading.queue, stretch.at, stretch.asked))] = stretch
        try:
            line.flush(self._terms.silence_ms)
        except TransportError as error:
            self.failed(error)
            return 0
        return len(self.asked) - before

    def _next(self, now_ms: int, *, only_heads: bool) -> Stretch | None:
        """Return what to ask for next: first what is held up, then something new."""
        if self._waiting:
            due = [stretch for stretch in self._waiting if stretch.due_ms <= now_ms]
            self._waiting = [stretch for stretch in self._waiting if stretch.due_ms > now_ms]
            self._again.extend(due)
        for stretch in self._again:
            if stretch.is_head or not only_heads:
                self._again.remove(stretch)
                return stretch
        while self._readings and self._readings[0].is_cut:
            self._readings.popleft()
        for reading in self._readings:
            # Before the first answer nobody knows how long stretches should be: one of each range.
            may = (
                not reading.stretches and reading.is_next if only_heads else self._has_answered or not reading.stretches
            )
            if may and not reading.is_cut:
                return reading.cut(self._stride)
        return None

    # -- hearing ------------------------------------------------------------------------------------------------------

    def hear(self) -> None:
        """Hear what it says: what was found is with the ranges."""
        if self.line is None:
            return
        try:
            answers = self.line.hear(self._terms.silence_ms)
        except TransportError as error:
            self.failed(error)
            return
        self._heard_ms = steady_ms()
        if not answers and self._heard_ms - self._useful_ms > _PATIENT_TIMES * self._terms.patience_ms:
            self.failed(TimedOut(f"{self.line.address} took too long for one answer"))
        for answer in answers:
            stretch = self.asked.pop(answer.opaque, None)
            if stretch is not None:
                try:
                    self._answered(stretch, answer)
                except ProtocolError as error:
                    self._again.append(stretch)
                    self.failed(error)
                    break
        if self.line is not None and self._address not in (None, self.line.address):
            self.failed(LineClosed(f"{self.name} is at {self._address} now"))

    def check_silence(self) -> None:
        """Give the line up if nothing comes that is under way on it."""
        limit_ms = self._terms.silence_ms
        if self.line is not None and self.asked and steady_ms() - self._heard_ms >= limit_ms:
            self.failed(TimedOut(f"{self.line.address} said nothing for {limit_ms} ms"))

    def _answered(self, stretch: Stretch, answer: Command) -> None:
        reading, at = stretch.reading, stretch.at
        verdict = judge(answer, at, is_filtered=self._terms.is_filtered, server=self.name)
        if isinstance(verdict, Next):
            stretch.take(verdict.offset, answer.body)
            if not self._terms.is_filtered:
                self._learn(stretch, stretch.at - at)
                if not stretch.is_done and reading.uncut(stretch) and reading not in self._readings:
                    self._readings.appendleft(reading)
            self._useful(len(answer.body))
        elif isinstance(verdict, Missing):
            stretch.lose(verdict.offset, verdict.why)
            reading.skip_to(verdict.offset, verdict.why)
            self._useful(0)
        elif isinstance(verdict, Pause):
            self._few, self._failures = 1, max(1, self._failures)
            self._again.append(stretch)
            self._pause(verdict.why)
            return
        else:
            self._stuck(stretch, verdict)
            return
        if not stretch.is_done:
            self._again.append(stretch)

    def _useful(self, size: int) -> None:
        self._useful_ms, self._failures = steady_ms(), 0
        self.answer_bytes = max(size, self.answer_bytes - self.answer_bytes // 8)
        self._few = min(2 * self._few, _MANY)
        self._has_answered = True

    def _learn(self, stretch: Stretch, got: int) -> None:
        """Learn from an answer how much the broker gives."""
        if got < stretch.asked:
            # One message that is large among small ones makes one short answer: only the first is believed at once.
            self._stride = max(got, self._stride // 4 if self._has_answered else 1)
            self._full_ones = 0
        elif stretch.asked >= self._stride:
            self._full_ones += 1
            if self._full_ones >= _FULL_ONES:
                self._stride, self._full_ones = min(2 * self._stride, self._terms.most), 0

    def _stuck(self, stretch: Stretch, verdict: Gone | Again) -> None:
        """Ask again a little later; for a while, then it is a loss, or an error."""
        now_ms = steady_ms()
        if stretch.stuck_ms is None:
            stretch.stuck_ms = now_ms
        stuck_ms = now_ms - stretch.stuck_ms
        if isinstance(verdict, Gone) and stuck_ms >= self._terms.settle_ms and self._is_master(stretch.reading):
            stretch.lose(stretch.end, verdict.why)
            stretch.reading.skip_to(stretch.reading.end, verdict.why)
            return
        if stuck_ms >= self._terms.patience_ms:
            raise TimedOut(
                f"{self.name} gave nothing of {stretch.reading.queue} at offset {stretch.at} in {stuck_ms} ms "
                f"({verdict.why})",
                next_step="look at the broker's log",
            )
        self._useful_ms = now_ms  # it is there
        stretch.tries += 1
        stretch.due_ms = now_ms + _PAUSES_MS[min(stretch.tries, len(_PAUSES_MS) - 1)]
        self._waiting.append(stretch)

    # -- trouble ------------------------------------------------------------------------------------------------------

    def failed(self, error: SteelyardError) -> None:
        """Give the line up; what was under way is asked for again on the next one."""
        if self.line is not None:
            self.line.close()
            self._terms.lines.drop(self.line.address, self._terms.connect)
            self.line = None
        self._again.extendleft(reversed(self.asked.values()))
        self.asked.clear()
        self._few = min(self._few, _FEW)
        self._pause(error.what)

    def _pause(self, why: str) -> None:
        now_ms = steady_ms()
        if now_ms < self._due_ms:
            return  # several pulls had the same answer
        silent_ms = now_ms - self._useful_ms
        if silent_ms >= self._terms.patience_ms:
            where = f" at {self._address}" if self._address else ""
            raise TimedOut(
                f"{self.name}{where} gave nothing for {silent_ms / 1000:.0f} s: {why}",
                next_step="check that it runs, and that the name servers know where",
            )
        self._due_ms = now_ms + _PAUSES_MS[min(self._failures, len(_PAUSES_MS) - 1)]
        self._failures += 1

    def _open(self) -> PipelinedLine | None:
        """Open a line, or take one that rests; None if that fails."""
        terms = self._terms
        try:
            if self._failures > 1 or self._address is None:
                self._find()
            if self._address is None:
                raise CannotConnect(f"nobody knows the address of {self.name}")
            self.line = terms.lines.take(self._address, terms.connect, timeout_ms=_CONNECT_MS)
        except TransportError as error:
            self.failed(error)
        return self.line

    def _is_master(self, reading: RangeReading) -> bool:
        """Ask the name servers whether the one that answers is the master, and where else that is now."""
        try:
            route = find_route(reading.queue.topic, self._terms.connect, timeout_ms=_FIND_MS)
        except TopicNotFound:
            return True  # there is none to say otherwise
        except SteelyardError:
            return False
        masters = [place.master for place in route.brokers if place.name == self.name]
        if not masters or masters[0] == self._address:
            return True
        self._address = masters[0] or self._address
        return False

    def _find(self) -> None:
        """Ask the name servers where the broker is now; if they do not know it stays where it was."""
        reading = self._readings[0] if self._readings else (*self._again, *self._waiting)[0].reading
        try:
            route = find_route(reading.queue.topic, self._terms.connect, timeout_ms=_FIND_MS)
        except SteelyardError:
            return
        for place in route.brokers:
            if place.name == self.name and place.addresses:
                self._address = place.addresses[min(place.addresses)]

    def close(self) -> None:
        """Let the line rest for whoever comes next, if nothing is under way on it."""
        line, self.line = self.line, None
        if line is not None:
            if self.asked:
                line.close()
            else:
                self._terms.lines.put_back(line, self._terms.connect)
