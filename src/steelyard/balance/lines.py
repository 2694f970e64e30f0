"""What a member knows of each broker it talks to: is there a line, are we registered on it, when was that last proven.

The rule: a broker hears of us before we ask it anything. A new line begins with a heartbeat, which says what we hold
there until one such heartbeat was answered, and with the question for how long the broker has been running. After that
a heartbeat goes out in the rhythm of the broker, and at once after each change of what we own; while one is unanswered
another waits for it, unless it has to say that we leave.

A proof is as old as its question: it counts from when the answered heartbeat was *sent*. Where several are unanswered,
an answer is taken for the oldest and a failure for the newest, so that nobody believes in a proof that never was.

Left out: what is held (`Lines.claims` is set by whoever knows) and who else is in the group (views.py).
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from steelyard.balance.actions import Action, AskUptime, Heartbeat, Report
from steelyard.balance.events import BeatAnswered, BeatFailed, Event, LineCut, LineOpened, Tick, UptimeSeen
from steelyard.balance.member_options import MemberOptions
from steelyard.balance.rounds import NEVER_MS
from steelyard.model import Queue

__all__ = ["Lines"]


@dataclass(slots=True)
class _Line:
    """One broker, over all the lines that there were to it."""

    opened_ms: int | None = None
    """When the line came up that is up now."""
    restored_ms: int | None = None
    """The same, if there was one before it."""
    was_open: bool = False
    is_registered: bool = False
    ours: bool | None = None
    proven_ms: int | None = None
    heartbeat_ms: int = 0
    sent_ms: int = 0
    next_ms: int = NEVER_MS
    unanswered: deque[int] = field(default_factory=deque)
    """When each heartbeat was sent that is not answered yet, oldest first."""
    said_leaving: bool = False
    is_another_wanted: bool = False
    started_ms: int | None = None
    """When the broker was started, as far as it told; known anew for each line."""
    trouble: str = ""
    """Why the last heartbeat was refused, as reported."""
    avoided: int = 0
    """Messages of its queues that were finished and committed while their queue was being given up."""


class Lines:
    """The lines of one member."""

    def __init__(self, options: MemberOptions) -> None:
        self.claims: Callable[[str], Mapping[Queue, int]] = _nothing_held
        """What we hold at a broker of ours, with epochs."""
        self.stopped: Callable[[str], tuple[str, ...]] = _nothing_stopped
        """Who knows which queues of a broker stand still."""
        self.leaving = False
        """Whether heartbeats say that we are about to go."""
        self._options = options
        self._times = options.times
        self._lines: dict[str, _Line] = {}
        self._version = 0

    # -- looking -------------------------------------------------------------------------------------------------------

    def is_open(self, broker: str) -> bool:
        """Say whether there is a line to a broker."""
        line = self._lines.get(broker)
        return line is not None and line.opened_ms is not None

    def is_registered(self, broker: str) -> bool:
        """Say whether a heartbeat was answered on the very line that is up."""
        line = self._lines.get(broker)
        return line is not None and line.is_registered

    def is_ours(self, broker: str) -> bool | None:
        """Say whether a broker is ours, by what it answered last; None if it never did."""
        line = self._lines.get(broker)
        return None if line is None else line.ours

    def proven_ms(self, broker: str) -> int | None:
        """Return when the last heartbeat was sent that the broker answered, on this line or an earlier one."""
        line = self._lines.get(broker)
        return None if line is None else line.proven_ms

    def opened_ms(self, broker: str) -> int | None:
        """Return when the line came up that is up now."""
        line = self._lines.get(broker)
        return None if line is None else line.opened_ms

    def restored_ms(self, broker: str) -> int | None:
        """Return when the line that is up now replaced an earlier one; None for the first one."""
        line = self._lines.get(broker)
        return None if line is None else line.restored_ms

    def settles(self, broker: str, now_ms: int, foreign: bool) -> bool:
        """Say whether a broker may not know all its members yet, so that a free lock there proves nothing.

        One of ours knows that by itself, and denies. Another one is young for `settle_ms` after its start, longer if
        there are foreign members, which beat slowly; one that does not tell counts as started when our line came up.
        """
        line = self._lines.get(broker)
        if line is None or line.opened_ms is None or line.ours is None:
            return True
        if line.ours:
            return False
        return line.started_ms is None or now_ms - line.started_ms < self.settle_ms(foreign)

    def settle_ms(self, foreign: bool) -> int:
        """Return how long a restarted broker is given to hear from its members again."""
        return self._times.settle_foreign_ms if foreign else self._times.settle_ms

    def brokers(self) -> list[str]:
        """Return the brokers to which there is a line, in order."""
        return sorted(name for name, line in self._lines.items() if line.opened_ms is not None)

    def due_ms(self) -> int:
        """Return when the next heartbeat is due."""
        return min((line.next_ms for line in self._lines.values()), default=NEVER_MS)

    # -- stepping ------------------------------------------------------------------------------------------------------

    def step(self, event: Event, now_ms: int) -> list[Action]:
        """Take note of what happened to a line."""
        match event:
            case Tick():
                return self._beat_where_due(now_ms)
            case BeatAnswered():
                return self._answered(event, now_ms)
            case LineOpened():
                return self._opened(event.broker, now_ms)
            case LineCut():
                self._cut(event.broker)
            case BeatFailed():
                return self._failed(event, now_ms)
            case UptimeSeen():
                self._uptime(event, now_ms)
            case _:
                pass
        return []

    def is_beating(self, broker: str) -> bool:
        """Whether a heartbeat is unanswered on a line that is open."""
        line = self._lines.get(broker)
        return line is not None and bool(line.unanswered)

    def note_avoided(self, broker: str, messages: int) -> None:
        """Take note of messages that were in hand when their queue was given up, and need not be handled again."""
        line = self._lines.get(broker)
        if line is not None:
            line.avoided += messages

    @property
    def avoided(self) -> int:
        """How many messages there were of that kind, at all brokers."""
        return sum(line.avoided for line in self._lines.values())

    def avoided_at(self, broker: str) -> int:
        """Say how many of them were a broker's own."""
        line = self._lines.get(broker)
        return 0 if line is None else line.avoided

    def beat(self, broker: str | None, now_ms: int) -> list[Action]:
        """Say something new to a broker, or to all: that what we own changed, or that we leave."""
        self._version += 1
        actions: list[Action] = []
        for name in self.brokers() if broker is None else [broker]:
            line = self._lines.get(name)
            if line is None or line.opened_ms is None:
                continue
            if line.unanswered and line.said_leaving == self.leaving:
                line.is_another_wanted = True
            else:
                actions.append(self._heartbeat(name, line, now_ms))
        return actions

    def _opened(self, broker: str, now_ms: int) -> list[Action]:
        line = self._lines.setdefault(broker, _Line())
        self._forget_line(line)
        line.opened_ms = now_ms
        line.restored_ms = now_ms if line.was_open else None
        line.was_open = True
        return [self._heartbeat(broker, line, now_ms), AskUptime(broker)]

    def _cut(self, broker: str) -> None:
        line = self._lines.get(broker)
        if line is not None:
            self._forget_line(line)

    def _forget_line(self, line: _Line) -> None:
        line.opened_ms = line.restored_ms = line.started_ms = None
        line.is_registered = line.is_another_wanted = line.said_leaving = False
        line.unanswered.clear()
        line.next_ms = NEVER_MS

    def _answered(self, event: BeatAnswered, now_ms: int) -> list[Action]:
        line = self._lines.get(event.broker)
        if line is None or line.opened_ms is None or not line.unanswered:
            return []
        line.proven_ms = max(line.unanswered.popleft(), line.proven_ms or 0)
        line.ours = event.ours
        line.is_registered = True
        line.trouble = ""
        line.heartbeat_ms = self._rhythm_ms(event)
        line.next_ms = line.sent_ms + line.heartbeat_ms
        return self._beat_again(event.broker, line, now_ms)

    def _rhythm_ms(self, event: BeatAnswered) -> int:
        if not event.ours:
            return self._times.heartbeat_apache_ms
        return max(1, event.heartbeat_ms or self._times.heartbeat_ms)

    def _failed(self, event: BeatFailed, now_ms: int) -> list[Action]:
        line = self._lines.get(event.broker)
        if line is None or line.opened_ms is None or not line.unanswered:
            return []
        line.unanswered.pop()
        line.next_ms = min(line.next_ms, now_ms + self._times.ask_again_ms)
        actions: list[Action] = []
        if event.why and event.why != line.trouble:
            sentence = f"broker {event.broker} does not take {self._options.id} into group {self._options.group}"
            actions.append(Report("hazard", f"{sentence}: {event.why}", facts={"broker": event.broker}))
            line.trouble = event.why
        return actions + self._beat_again(event.broker, line, now_ms)

    def _uptime(self, event: UptimeSeen, now_ms: int) -> None:
        line = self._lines.get(event.broker)
        if line is not None and line.opened_ms is not None:
            line.started_ms = line.opened_ms if event.uptime_ms is None else now_ms - event.uptime_ms

    def _beat_again(self, broker: str, line: _Line, now_ms: int) -> list[Action]:
        if not line.is_another_wanted or line.unanswered:
            return []
        return [self._heartbeat(broker, line, now_ms)]

    def _beat_where_due(self, now_ms: int) -> list[Action]:
        return [
            self._heartbeat(broker, line, now_ms)
            for broker, line in sorted(self._lines.items())
            if line.next_ms <= now_ms
        ]

    def _heartbeat(self, broker: str, line: _Line, now_ms: int) -> Heartbeat:
        line.unanswered.append(now_ms)
        line.sent_ms = now_ms
        line.next_ms = now_ms + (line.heartbeat_ms if line.is_registered else self._times.heartbeat_ms)
        line.said_leaving = self.leaving
        line.is_another_wanted = False
        return Heartbeat(
            broker,
            held=None if line.is_registered else dict(self.claims(broker)),
            leaving=self.leaving,
            strategy=self._options.strategy.name,
            version=self._version,
            avoided=line.avoided,
            stopped=self.stopped(broker),
        )


def _nothing_held(_broker: str) -> Mapping[Queue, int]:
    return {}


def _nothing_stopped(_broker: str) -> tuple[str, ...]:
    return ()
