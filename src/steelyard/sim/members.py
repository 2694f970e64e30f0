"""Our member as a program in the world: the machine, its voice, lines to servers, and the user's code as timers.

It is what a client is, without sockets. Each server has a caller (sim/calling.py), which opens another line when one is
gone; nothing of an old line is heard. Brokers are learnt from routes and never forgotten. What is unanswered at a name
server when its line breaks is asked of the next one.

The user's code takes as long as a function handed in says, one message after the other of what it is given, and dies
with the process; while that is paused it does not end. A broadcasting member keeps its offsets in a table that is
handed in, as a client keeps them in a file: who is started again with the same table goes on where it was.
"""

from collections import deque
from collections.abc import Callable, MutableMapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from steelyard.balance.actions import Action, AskOffset, AskRoute, Commit, Handle, Left, Report
from steelyard.balance.events import (
    CommitConfirmed,
    Event,
    Handled,
    LeaveAsked,
    LineOpened,
    OffsetSeen,
    RouteFailed,
    Tick,
)
from steelyard.balance.holdings import Holdings
from steelyard.balance.member import Member
from steelyard.balance.member_options import MemberOptions, Mode
from steelyard.dialect.voice import Said, Voice
from steelyard.errors import ConfigurationError
from steelyard.model import Queue, Route, StoredMessage
from steelyard.sim.calling import Caller
from steelyard.sim.facts import Ended, Joined, Reported, Situation, Started
from steelyard.sim.line import Line
from steelyard.sim.member_facts import MemberWatch
from steelyard.sim.process import Process
from steelyard.sim.world import World
from steelyard.wire.command import Command

if TYPE_CHECKING:
    from steelyard.sim.timer import Timer

__all__ = ["MemberProcess", "UserCode", "uid_of"]

UserCode = Callable[[StoredMessage, int], tuple[int, bool]]
"""Takes a message and how often it was tried here; says how long it takes in milliseconds, and whether it is fine."""


class MemberProcess(Process):
    """One member of one group. Its name in the world is its client id."""

    def __init__(
        self,
        world: World,
        options: MemberOptions,
        host: str,
        name_servers: Sequence[str],
        work: UserCode,
        offsets: MutableMapping[Queue, int] | None = None,
    ) -> None:
        super().__init__(world, options.id, host)
        self.options, self.work = options, work
        self.member = Member(options, self.clock.steady_ms())
        self.voice = Voice(options, f"{world.random.getrandbits(128):032x}")
        self.offsets: MutableMapping[Queue, int] = {} if offsets is None else offsets
        """Those of a broadcasting member."""
        self._watch = MemberWatch(self.member, options, world.tell, world.now_ms)
        self._names = Caller(self, None, name_servers)
        self._callers: dict[str | None, Caller] = {None: self._names}
        self._unrouted: list[AskRoute] = []
        """What a name server did not answer before its line broke."""
        self._events: deque[Event] = deque()
        self._is_stepping = False
        self._timer: Timer | None = None
        self._timer_ms = 0

    # -- for those who tell it what to do -----------------------------------------------------------------------------

    def begin(self) -> None:
        """Start it."""
        options = self.options
        self.world.tell(
            Joined(
                at_ms=self.world.now_ms(),
                member=options.id,
                group=options.group,
                kind="ours",
                mode=options.mode.value,
                strategy=options.strategy.name,
                topics=tuple(sorted(options.topics)),
            )
        )
        self._names.call()
        self._feed([Tick()])

    def leave(self, drain_ms: int | None = 30_000) -> None:
        """Let it finish, say goodbye and end; one that is paused hears it later, a dead one never."""
        self.after(0, lambda: self._leave(drain_ms))

    def _leave(self, drain_ms: int | None) -> None:
        about = {"process": self.name}
        self.world.tell(Situation(at_ms=self.world.now_ms(), name="a member is asked to leave", about=about))
        self._feed([LeaveAsked(drain_ms)])

    def died(self, how: str) -> None:
        """Forget what it was about to do."""
        del how
        self._events.clear()

    # -- lines --------------------------------------------------------------------------------------------------------

    def opened(self, line: Line) -> None:
        """Take note that a line which it asked for is open."""
        caller = self._caller_of(line)
        if caller is None:
            line.close()
            return
        caller.opened()
        if caller.server is not None:
            self._feed([LineOpened(caller.server)])
        else:
            again, self._unrouted = self._unrouted, []
            for action in again:
                self._do(action)
            self._feed(())

    def heard(self, line: Line, command: Command) -> None:
        """Take a command of a server."""
        caller = self._caller_of(line)
        if caller is None:
            return
        caller.heard()
        heard = self.voice.hear(caller.server, command, self._now_ms(), self._holdings)
        for route in heard.routes:
            self._learn(route)
        for reply in heard.replies:
            line.say(reply)
        for said in heard.says:
            self._say(said)
        self._feed(heard.events)

    def closed(self, line: Line) -> None:
        """Take note that a line is gone, or could not be opened."""
        caller = self._caller_of(line)
        if caller is not None:
            self._lost(caller)

    def _caller_of(self, line: Line) -> Caller | None:
        """Return whose line this is; None for one that was given up."""
        return next((caller for caller in self._callers.values() if caller.line is line), None)

    def _lost(self, caller: Caller) -> None:
        was_open = caller.lost()
        lost = self.voice.cut(caller.server)
        if caller.server is None:
            self._feed(self._ask_the_next(lost))
        elif was_open:
            self._feed(lost)

    def _ask_the_next(self, lost: Sequence[Event]) -> list[Event]:
        """Keep what a name server did not answer for the next one; give up once each was tried."""
        self._unrouted += [AskRoute(event.topic) for event in lost if isinstance(event, RouteFailed)]
        if self._names.failures < len(self._names.addresses):
            return []
        given_up, self._unrouted = self._unrouted, []
        return [RouteFailed(action.topic) for action in given_up]

    def _learn(self, route: Route) -> None:
        for place in route.brokers:
            address = place.master or next(iter(place.addresses.values()), None)
            if address is None:
                continue
            known = self._callers.get(place.name)
            if known is not None:
                known.addresses = (address,)
            else:
                caller = self._callers[place.name] = Caller(self, place.name, (address,))
                caller.call()

    # -- the machine --------------------------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return self.clock.steady_ms()

    def _holdings(self, about: Sequence[Queue]) -> Holdings:
        return self.member.holdings(self._now_ms(), about)

    def _feed(self, events: Sequence[Event]) -> None:
        """Tell the machine what happened and do what it wants, and then what happened by that."""
        waiting = self._events
        waiting.extend(events)
        if self._is_stepping:
            return
        self._is_stepping = True
        while waiting:
            actions = self.member.step(waiting.popleft(), self._now_ms())
            self._watch.look()
            for action in actions:
                self._do(action)
        self._is_stepping = False
        if self.is_alive:
            self._arm()

    def _do(self, action: Action) -> None:
        match action:
            case Handle():
                self._handle(action, 0)
            case Report():
                self._report(action)
            case Left():
                self._end()
            case AskOffset() | Commit() if self._is_kept_here(action):
                self._events.append(self._kept(action))
            case AskRoute() if not self._names.is_open:
                self._unrouted.append(action)
            case _:
                said = self.voice.say(action, self._now_ms())
                if said is not None:
                    self._say(said)

    def _say(self, said: Said) -> None:
        caller = self._callers.get(said.to)
        if caller is None or not caller.say(said.command):
            self._events.extend(self.voice.unsaid(said))

    def _report(self, action: Report) -> None:
        self.world.tell(
            Reported(
                at_ms=self.world.now_ms(),
                member=self.options.id,
                group=self.options.group,
                kind=action.kind,
                sentence=action.sentence,
                queues=action.queues,
            )
        )

    def _end(self) -> None:
        """Close the lines, so that what was said is still heard, and be gone."""
        for caller in self._callers.values():
            caller.hang_up()
        self.kill("left")

    # -- time ---------------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        due_ms = min(self.member.due_ms(), self.voice.due_ms())
        if self._timer is not None:
            if self._timer_ms <= due_ms:
                return
            self._timer.cancel()
        self._timer, self._timer_ms = self.after(max(1, due_ms - self._now_ms()), self._wake), due_ms

    def _wake(self) -> None:
        self._timer = None
        now_ms = self._now_ms()
        if self.voice.due_ms() <= now_ms:
            overdue = self.voice.tick(now_ms)
            self._feed(overdue.events)
            for server in overdue.silent:
                self._hang_up_on(server)
        self._feed([Tick()] if self.member.due_ms() <= now_ms else ())

    def _hang_up_on(self, server: str | None) -> None:
        caller = self._callers[server]
        if caller.line is not None:
            caller.line.close()
            self._lost(caller)

    # -- broadcasting -------------------------------------------------------------------------------------------------

    def _is_kept_here(self, action: AskOffset | Commit) -> bool:
        if self.options.mode is not Mode.BROADCAST:
            return False
        return isinstance(action, Commit) or action.queue in self.offsets

    def _kept(self, action: AskOffset | Commit) -> Event:
        queue = action.queue
        if isinstance(action, Commit):
            self.offsets[queue] = action.offset
            return CommitConfirmed(queue, action.offset)
        return OffsetSeen(queue, self.offsets[queue], stored=True)

    # -- the user's code ----------------------------------------------------------------------------------------------

    def _handle(self, action: Handle, place: int) -> None:
        """Give one message to the user's code; the next one follows when that is done."""
        message = action.messages[place]
        if not isinstance(message, StoredMessage):
            raise ConfigurationError(
                f"{action.queue} brought a {type(message).__name__}", next_step="hand out what was pulled"
            )
        self.world.tell(
            Started(
                at_ms=self.world.now_ms(),
                member=self.options.id,
                group=self.options.group,
                queue=action.queue,
                offset=action.offsets[place],
                uid=uid_of(message),
                generation=action.generation,
                epoch=action.fence,
                attempt=action.attempt,
                reconsume_times=message.reconsume_times,
            )
        )
        took_ms, ok = self.work(message, action.attempt)
        self.after(took_ms, partial(self._handled, action, place, message, ok))

    def _handled(self, action: Handle, place: int, message: StoredMessage, ok: bool) -> None:
        queue, generation, offset = action.queue, action.generation, action.offsets[place]
        self.world.tell(
            Ended(
                at_ms=self.world.now_ms(),
                member=self.options.id,
                group=self.options.group,
                queue=queue,
                offset=offset,
                uid=uid_of(message),
                ok=ok,
                generation=generation,
            )
        )
        self._feed([Handled(queue, generation, (offset,)) if ok else Handled(queue, generation, (), (offset,))])
        rest = action.offsets[place + 1 :]
        if not rest:
            return
        if self.member.may_start(queue, generation, self._now_ms()):
            self._handle(action, place + 1)
        else:
            self._feed([Handled(queue, generation, (), skipped=rest)])


def uid_of(message: StoredMessage) -> str:
    """Return what a message is recognised by: its body."""
    return message.body.decode(errors="replace")
