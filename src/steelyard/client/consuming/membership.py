"""One member of a group on a session: the live hands of the pure machine `Member` and of its `Voice`.

What a server says goes to the voice, what that means to the machine, and what the machine wants done to the voice and
out on a line. Every message of a consumer passes here: one step for each answer, and whatever it leads to is said at
once, in order; the line joins what is said in one turn of the loop.

A question that a name server did not answer is asked of the next one. Pulls go to a slave while the master says so
(slaves.py). A broadcasting member's offsets are in a table that is handed in; nobody else needs them.

Everything here runs on the loop of the session. Left out: what is done with messages, and whom reports are told.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, MutableMapping, Sequence

from steelyard.balance.actions import Action, AskOffset, AskRoute, Commit, Handle, Left, Report
from steelyard.balance.events import (
    CommitConfirmed,
    Event,
    LeaveAsked,
    LineOpened,
    OffsetSeen,
    Pulled,
    PullFailed,
    RouteFailed,
    Tick,
)
from steelyard.balance.holdings import Holdings
from steelyard.balance.member import Member
from steelyard.balance.member_options import MemberOptions, Mode
from steelyard.client.caller import Caller
from steelyard.client.consuming.received import Received
from steelyard.client.consuming.slaves import Slaves
from steelyard.client.refusals import Refusals, refusal_of
from steelyard.client.session import Session
from steelyard.dialect.voice import NEVER_MS, Said, Voice
from steelyard.errors import BrokerNotInRoute, ImpossibleEvent
from steelyard.model import Queue, StoredMessage
from steelyard.net.clock import steady_ms
from steelyard.wire.command import Command

__all__ = ["Membership"]

_log = logging.getLogger("steelyard")


class Membership:
    """One member, live. It is the listener of its session."""

    def __init__(
        self,
        session: Session,
        options: MemberOptions,
        *,
        handle: Callable[[Handle], None],
        report: Callable[[Report], None],
        left: Callable[[], None],
        stepped: Callable[[], None] | None = None,
        offsets: MutableMapping[Queue, int] | None = None,
        message_type: type[StoredMessage] = Received,
        received: Callable[[Pulled], None] | None = None,
    ) -> None:
        self.options = options
        self.member = Member(options, steady_ms())
        self.voice = Voice(options, session.instance, message_type)
        self._session = session
        self._handle, self._report, self._left = handle, report, left
        self._stepped = stepped
        """Who wants to look at the machine each time it took something in."""
        self._received = received
        """Who wants to see messages as they come."""
        self._is_broadcast = options.mode is Mode.BROADCAST
        self._offsets: MutableMapping[Queue, int] = {} if offsets is None else offsets
        self._slaves = Slaves(session, self.voice, self._answered_by_slave)
        self._unrouted: list[AskRoute] = []
        """What a name server did not answer before its line broke."""
        self.refusals = Refusals()
        """What brokers say who refuse pulls."""
        self._names_lost = 0
        """Lines to name servers that broke, or never came up, since one was heard last."""
        self._events: deque[Event] = deque()
        self._is_stepping = False
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._has_ended = False

    # -- for those who run it -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Listen to the session, and join the group."""
        session = self._session
        session.listener = self
        for name, caller in session.known_brokers().items():
            if caller.is_open:
                self._events.append(LineOpened(name))
        self._feed([Tick()])

    def leave(self, drain_ms: int | None) -> None:
        """Finish what runs, hand over, say goodbye; ``left`` is called when that is done."""
        self.feed(LeaveAsked(drain_ms))

    def feed(self, event: Event) -> None:
        """Tell the machine what happened: the results of handlers above all."""
        self._feed((event,))

    def feed_all(self, events: Sequence[Event]) -> None:
        """Tell the machine of several things that happened."""
        self._feed(events)

    def end(self) -> None:
        """Do nothing any more, whatever was left undone."""
        self._has_ended = True
        if self._session.listener is self:
            self._session.listener = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._slaves.end()

    # -- the session's listener ---------------------------------------------------------------------------------------

    def opened(self, server: str | None) -> None:
        """Take note of a new line."""
        if server is not None:
            self._feed((LineOpened(server),))
            return
        again, self._unrouted = self._unrouted, []
        for action in again:
            self._do(action)
        self._feed(())

    def lost(self, server: str | None) -> None:
        """Take note that a line is gone, and with it the answers that were to come."""
        lost = self.voice.cut(server)
        self._feed(self._ask_the_next(lost) if server is None else lost)

    def heard(self, server: str | None, command: Command) -> None:
        """Take what a server said."""
        if server is None:
            self._names_lost = 0
        heard = self.voice.hear(server, command, steady_ms(), self._holdings)
        for note in heard.notes:
            _log.warning("%s", note)
        for route in heard.routes:
            self._session.learn(route)
        for reply in heard.replies:
            caller = self._caller(server)
            if caller is not None:
                caller.say(reply)
        for said in heard.says:
            self._say(said)
        for event in heard.events:
            if isinstance(event, Pulled):
                self.refusals.clear(event.queue)
                if self._received is not None:
                    self._received(event)
            elif isinstance(event, PullFailed) and not event.busy:
                why = refusal_of(event.queue, command, event.queue.broker, event.why)
                self.refusals.note(event.queue, why)
                if event.why:
                    self._report(Report("unreadable", f"{event.queue} stands still: {why}", (event.queue,)))
        self._feed(heard.events)

    def _ask_the_next(self, lost: Sequence[Event]) -> list[Event]:
        """Keep what a name server did not answer for the next one; give up once each was tried."""
        self._names_lost += 1
        self._unrouted += [AskRoute(event.topic) for event in lost if isinstance(event, RouteFailed)]
        if self._names_lost < len(self._session.connect.name_servers):
            return []
        given_up, self._unrouted = self._unrouted, []
        return [RouteFailed(action.topic) for action in given_up]

    def _answered_by_slave(self, said: Said, answer: Command | None) -> None:
        if answer is None:
            self._events.extend(self.voice.unsaid(said))
            self._feed(())
        else:
            self.heard(said.to, answer)

    # -- the machine --------------------------------------------------------------------------------------------------

    def _holdings(self, about: Sequence[Queue]) -> Holdings:
        return self.member.holdings(steady_ms(), about)

    def _feed(self, events: Sequence[Event]) -> None:
        """Tell the machine what happened and do what it wants, and then what happened by that."""
        waiting = self._events
        waiting.extend(events)
        if self._is_stepping:
            return
        self._is_stepping = True
        try:
            while waiting:
                self._step(waiting.popleft())
        finally:
            self._is_stepping = False
        self._arm()
        if self._stepped is not None:
            self._stepped()

    def _step(self, event: Event) -> None:
        try:
            actions = self.member.step(event, steady_ms())
        except ImpossibleEvent:
            # A bug of ours with one queue: the others go on, and so does the rest of what happened.
            _log.exception("the member %s met what cannot be", self.options.id)
            return
        for action in actions:
            self._do(action)

    def _do(self, action: Action) -> None:
        if isinstance(action, Handle):
            self._handle(action)
        elif isinstance(action, Report):
            self._report(action)
        elif isinstance(action, Left):
            self._left()
        elif isinstance(action, AskRoute) and not self._session.name_servers.is_open:
            self._unrouted.append(action)
        elif self._is_broadcast and isinstance(action, AskOffset | Commit) and self._is_kept_here(action):
            self._events.append(self._kept(action))
        else:
            said = self.voice.say(action, steady_ms())
            if said is not None:
                self._say(said)

    def _say(self, said: Said) -> None:
        if said.broker_id and self._slaves.takes(said):
            return
        caller = self._caller(said.to)
        if caller is None or not caller.say(said.command):
            self._events.extend(self.voice.unsaid(said))

    def _caller(self, server: str | None) -> Caller | None:
        if server is None:
            return self._session.name_servers
        try:
            return self._session.broker(server)
        except BrokerNotInRoute:
            return None

    # -- broadcasting -------------------------------------------------------------------------------------------------

    def _is_kept_here(self, action: AskOffset | Commit) -> bool:
        return isinstance(action, Commit) or action.queue in self._offsets

    def _kept(self, action: AskOffset | Commit) -> Event:
        queue = action.queue
        if isinstance(action, Commit):
            self._offsets[queue] = action.offset
            return CommitConfirmed(queue, action.offset)
        return OffsetSeen(queue, self._offsets[queue], stored=True)

    # -- time ---------------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        due_ms = min(self.member.due_ms(), self.voice.due_ms())
        if self._timer is not None:
            if self._timer_ms <= due_ms:
                return
            self._timer.cancel()
            self._timer = None
        if due_ms < NEVER_MS and not self._has_ended:
            wait_s = max(1, due_ms - steady_ms()) / 1000
            self._timer, self._timer_ms = self._loop.call_later(wait_s, self._wake), due_ms

    def _wake(self) -> None:
        self._timer = None
        now_ms = steady_ms()
        if self.voice.due_ms() <= now_ms:
            overdue = self.voice.tick(now_ms)
            self._feed(overdue.events)
            for server in overdue.silent:
                caller = self._caller(server)
                if caller is not None:
                    caller.hang_up("it did not answer in time")
        self._feed((Tick(),) if self.member.due_ms() <= now_ms else ())
