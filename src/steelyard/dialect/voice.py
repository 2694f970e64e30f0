"""A member's voice: actions in, commands out; commands in, events out. It knows what is unanswered, and of no line.

Whoever runs a member (a client on sockets, the simulator) hands each action to `say` and sends what comes back; hands
each command that a server sent to `hear`; calls `cut` when a line is gone and `tick` when `due_ms` says so. Every
question then has exactly one outcome: an event of its answer, of its time-out, or of its line's end. An answer that
comes after that finds nothing, and is dropped; so is one that comes on another line than the question left on, as long
as `cut` was called between the two.

Time is the caller's and never runs backwards. Nothing that a server sends raises an error.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import Struct

from steelyard.balance.actions import Action, AskOffset, AskRoute, Heartbeat, Pull, Unregister
from steelyard.balance.events import Event, LineCut, OffsetSeen, RouteFailed, RouteSeen
from steelyard.balance.holdings import Holdings
from steelyard.balance.member_options import MemberOptions, Mode
from steelyard.dialect.asking import Asking, Question, all_subscriptions
from steelyard.dialect.hearing import failure, outcome, read_route
from steelyard.dialect.pulling import pulled
from steelyard.dialect.requests import Tells, serve
from steelyard.dialect.starting import AskStored, FindStart, find_start
from steelyard.errors import SteelyardError
from steelyard.model import Queue, Route, StoredMessage
from steelyard.wire.command import RESPONSE, Command

__all__ = ["NEVER_MS", "Heard", "Overdue", "Said", "Voice"]

NEVER_MS = 1 << 62
"""When nothing is due."""

_SILENT_MS = 3_000
"""A broker that let a question run out of time, and another this much later, and said nothing at all between, is as
good as cut off. One is not enough: it may be slow, and a cut costs more than waiting. A name server has no grace."""

_LAST_OPAQUE = (1 << 30) - 1
"""The numbers above are left to whoever else asks something on the same lines."""


class Said(Struct, frozen=True, gc=False):
    """A command to send. ``to`` is a broker's name, None for a name server."""

    to: str | None
    command: Command
    broker_id: int = 0
    """Which broker of that name: the master, or the slave that it suggested for this pull. Who cannot reach that one
    says the same to the master."""


class Heard(Struct, frozen=True):
    """What a command means: events for the member, commands to send, and routes, whose brokers it is good to know."""

    events: Sequence[Event] = ()
    says: Sequence[Said] = ()
    """Questions that follow from an answer."""
    replies: Sequence[Command] = ()
    """Answers to the server, on the line it asked on."""
    routes: Sequence[Route] = ()
    notes: Sequence[str] = ()
    """What whoever runs the member should know."""


class Overdue(NamedTuple):
    """What ran out of time, and servers whose lines seem to be dead: tell the events, then close and `cut` those."""

    events: list[Event]
    silent: list[str | None]


class _Open(NamedTuple):
    to: str | None
    question: Question
    due_ms: int


_NOTHING = Heard()


class Voice:
    """Speaks for one member with every broker and one name server."""

    def __init__(
        self, options: MemberOptions, instance: str, message_type: type[StoredMessage] = StoredMessage
    ) -> None:
        self._options = options
        self._message_type = message_type
        self.tells: Tells | None = None
        """Who adds to the answer when a server asks how we are (307)."""
        self._asking = Asking(options, instance)
        self._wanted = all_subscriptions(options)
        self._opaque = 0
        # By how long an answer may take, so that the first of each is the one due next.
        self._open: dict[int, dict[int, _Open]] = {}
        # Queues whose master sent us to a slave.
        self._suggested: dict[Queue, int] = {}
        # Brokers that did not tell what is stored when they were asked for all of it: it may be too much.
        self._untold = set[str | None]()
        self._noted = set[tuple[str, str]]()
        # By server: when the first question ran out of time since it was heard last.
        self._late_ms: dict[str | None, int] = {}

    # -- speaking -----------------------------------------------------------------------------------------------------

    def say(self, action: Action, now_ms: int) -> Said | None:
        """Return the command of an action; None for what is not for a server to hear.

        A broadcasting member's offsets are in no broker: whoever runs it answers `AskOffset` and `Commit` where it can,
        and says an `AskOffset` only when it has none: then the start is looked for at once.
        """
        if type(action) is AskOffset and self._options.mode is Mode.BROADCAST:
            return self._ask(find_start(action), now_ms)
        return self._ask(action, now_ms)

    def _ask(self, question: Question, now_ms: int) -> Said | None:
        request = self._asking.request(question)
        if request is None:
            return None
        to, code, fields, body, answer_ms = request
        self._opaque = opaque = self._opaque + 1 if self._opaque < _LAST_OPAQUE else 1
        if type(question) is not Unregister:
            waiting = self._open.get(answer_ms)
            if waiting is None:
                waiting = self._open[answer_ms] = {}
            waiting[opaque] = _Open(to, question, now_ms + answer_ms)
        command = Command(code, fields, body, opaque)
        if self._suggested and type(question) is Pull:
            return Said(to, command, self._suggested.get(question.queue, 0))
        return Said(to, command)

    def slave_heartbeat(self, broker: str) -> Command:
        """Return the heartbeat that a slave hears before the first pull, and again while it is pulled from."""
        request = self._asking.heartbeat(Heartbeat(broker))
        return Command(request.code, request.fields, request.body)

    def unsaid(self, said: Said) -> list[Event]:
        """Take back a command that could not leave: there is no line. Its question has failed."""
        found = self._taken(said.to, said.command.opaque)
        return [] if found is None else self._failures([found])

    def _failures(self, lost: list[_Open]) -> list[Event]:
        self._note_untold(lost)
        if self._suggested:
            # Whatever a slave did not answer is asked of the master.
            for each in lost:
                if isinstance(each.question, Pull):
                    self._suggested.pop(each.question.queue, None)
        return [event for each in lost if (event := failure(each.question)) is not None]

    def _note_untold(self, lost: list[_Open]) -> None:
        self._untold.update(each.to for each in lost if type(each.question) is AskStored)

    # -- hearing ------------------------------------------------------------------------------------------------------

    def hear(
        self, broker: str | None, command: Command, now_ms: int, holdings: Callable[[Sequence[Queue]], Holdings]
    ) -> Heard:
        """Return what a command of a server means; ``holdings`` are asked for if a member wants to know them."""
        if self._late_ms:
            self._late_ms.pop(broker, None)
        if not command.flag & RESPONSE:
            if broker is None:
                return _NOTHING
            heard, reply = serve(self._options, self._wanted.values(), broker, command, holdings, self.tells)
            return Heard(heard, replies=() if reply is None else (reply,))
        found = self._taken(broker, command.opaque)
        if found is None:
            return _NOTHING
        question = found.question
        try:
            if type(question) is Pull:
                return Heard((self._pulled(question, command),))
            if type(question) is AskRoute:
                return _routed(question, command)
            meant = outcome(question, command, self._options.group)
        except SteelyardError:
            meant = None if type(question) is AskStored else failure(question)
        if type(question) is AskStored and meant is None:
            return self._undecided(question)
        if isinstance(meant, AskStored) and broker in self._untold:
            return self._undecided(meant)
        if isinstance(meant, FindStart | AskStored):
            said = self._ask(meant, now_ms)
            return _NOTHING if said is None else Heard(says=(said,))
        return _NOTHING if meant is None else Heard((meant,))

    def _undecided(self, question: AskStored) -> Heard:
        """Take the 0 of an old broker for the group's own, so that nothing is passed over, and say so once."""
        topic, broker, _ = question.queue
        note = (
            f"{broker} does not say whether group {self._options.group} was ever here: it reads queues of {topic} from "
            "their first message, whatever it was told to start from"
        )
        notes = () if (broker, topic) in self._noted else (note,)
        self._noted.add((broker, topic))
        return Heard((OffsetSeen(question.queue, 0, stored=True),), notes=notes)

    def _pulled(self, question: Pull, answer: Command) -> Event:
        event, broker_id = pulled(question, answer, self._wanted, self._message_type)
        if broker_id > 0:
            self._suggested[question.queue] = broker_id
        elif self._suggested:
            self._suggested.pop(question.queue, None)
        return event

    def _taken(self, to: str | None, opaque: int) -> _Open | None:
        """Take a question off the list, if it was asked there."""
        for waiting in self._open.values():
            found = waiting.get(opaque)
            if found is not None:
                if found.to != to:
                    return None
                del waiting[opaque]
                return found
        return None

    # -- losing -------------------------------------------------------------------------------------------------------

    def cut(self, broker: str | None) -> list[Event]:
        """Forget what is unanswered on a line that is gone; return what that means for the member.

        A broker's `LineCut` is the outcome of everything that was asked there. The member knows of no line to a name
        server: each of its questions has failed.
        """
        lost: list[_Open] = []
        for waiting in self._open.values():
            there = [opaque for opaque, each in waiting.items() if each.to == broker]
            lost += [waiting.pop(opaque) for opaque in there]
        self._late_ms.pop(broker, None)
        self._note_untold(lost)
        return [LineCut(broker)] if broker is not None else self._failures(lost)

    def tick(self, now_ms: int) -> Overdue:
        """Give up what was not answered in time."""
        late: list[_Open] = []
        for waiting in self._open.values():
            while waiting:
                opaque = next(iter(waiting))
                if waiting[opaque].due_ms > now_ms:
                    break
                late.append(waiting.pop(opaque))
        silent = [to for to in dict.fromkeys(each.to for each in late) if self._is_silent(to, now_ms)]
        return Overdue(self._failures(late), silent)

    def _is_silent(self, to: str | None, now_ms: int) -> bool:
        first_ms = self._late_ms.setdefault(to, now_ms)
        return to is None or now_ms - first_ms >= _SILENT_MS

    def due_ms(self) -> int:
        """Return when `tick` is due."""
        due_ms = NEVER_MS
        for waiting in self._open.values():
            for first in waiting.values():
                due_ms = min(due_ms, first.due_ms)
                break
        return due_ms


def _routed(question: AskRoute, answer: Command) -> Heard:
    route = read_route(question, answer)
    if route is None:
        return Heard((RouteFailed(question.topic),))
    return Heard((RouteSeen(question.topic, route.readable()),), routes=(route,))
