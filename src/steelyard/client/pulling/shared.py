"""Reading what one's share of a group's queues is: a member like any other, whose handler is whoever polls.

The machine hands messages out, and they wait on shelves until a poll takes them. What the user says is done is told to
the machine, which commits it. A queue that is given to another member gives back at once what nobody polled, and waits
for what was polled until that is done, or until the time for draining is over. A queue that was lost (its line was cut
for too long, or that time ran out) takes along what was polled of it: it comes again elsewhere, and whoever commits is
told so.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import cast

from steelyard.balance.actions import Handle, Report
from steelyard.balance.events import CommitAsked, Handled, Lent, OffsetReset, Unreadable
from steelyard.balance.hazards import Hazard
from steelyard.balance.life import State
from steelyard.balance.member_options import OnUnreadable
from steelyard.balance.progress import Progress
from steelyard.client.consuming.explained import Explained, explain_member
from steelyard.client.consuming.membership import Membership
from steelyard.client.consuming.news import Moved, News
from steelyard.client.consuming.received import Received, received_in
from steelyard.client.pulling.puller_options import PullerOptions
from steelyard.client.pulling.shelves import Shelf, Shelves
from steelyard.client.session import Session
from steelyard.errors import ConfigurationError, MalformedRecord, QueuesLost, SteelyardError, TimedOut
from steelyard.model import Queue, Subscription
from steelyard.net.clock import now_ms, steady_ms

__all__ = ["Shared", "lost_error", "unreadable_error"]

_COMMIT_S = 5.0
_DRAIN_MS = 1_000
_LEAVE_S = 5.0
"""A bit more than the machine's own patience: what is given back drains at once, unless a broker does not answer."""

_KEPT = frozenset({State.OWNED, State.UNSURE})
"""States in which what waits to be polled may still be polled, now or after a doubt is settled."""
_COMMITTABLE = frozenset({State.OWNED, State.UNSURE, State.DRAINING, State.COMMITTING})

_log = logging.getLogger("steelyard")


def lost_error(queues: Iterable[Queue]) -> QueuesLost:
    """Make the error of a commit that came too late for some queues."""
    what = "queues went to another member before they were committed, and what was polled comes again there"
    return QueuesLost(what, queues=tuple(map(str, queues)))


def unreadable_error(queue: Queue, offset: int, found: Unreadable) -> MalformedRecord:
    """Make the error for who polls a queue that stands still."""
    what = f"{queue}, offset {offset}, cannot be read: {found.why}"
    next_step = "start it again with that installed" if found.is_here else "seek behind it to go on"
    return MalformedRecord(what, where="record", next_step=next_step)


class _Wait:
    """Offsets that somebody waits for to be stored."""

    __slots__ = ("future", "lost", "targets")

    def __init__(self, targets: dict[Queue, tuple[int, int]], future: "asyncio.Future[None]") -> None:
        self.targets = targets
        """What is to be reached in each queue: its generation, and the offset."""
        self.lost: list[Queue] = []
        self.future = future


class Shared:
    """The share of one puller in a group. It runs on the loop of its session."""

    trouble: SteelyardError | None = None
    """Why a queue stands still, for whoever polls next."""

    def __init__(
        self,
        session: Session,
        options: PullerOptions,
        wanted: Mapping[str, Subscription],
        shelves: Shelves,
        wake: Callable[[], None],
        on_move: Callable[[Moved], None],
        on_hazard: Callable[[Hazard], None],
    ) -> None:
        self._session, self._shelves, self._wake = session, shelves, wake
        self._news = News(options.group, session.names, on_move, on_hazard)
        group = session.names.full(options.group)
        self.membership = Membership(
            session,
            options.member_options(group, session.client_id, wanted),
            handle=self._handle,
            report=self._report,
            left=self._left,
            stepped=self._stepped,
            message_type=received_in(session.names),
        )
        self.member = self.membership.member
        self._changes = 0
        self._lost: dict[Queue, None] = {}
        """Queues that went while messages of them were polled and not done."""
        self._waits: list[_Wait] = []
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # -- its life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Join the group."""
        self.membership.start()

    async def close(self) -> None:
        """Hand everything over and leave; what is not done is given back, once nothing more is handed out."""
        self.membership.leave(_DRAIN_MS)
        for shelf in self._shelves.all():
            self._give_back(shelf, shelf.done() + shelf.clear())
        await asyncio.wait([self._gone], timeout=_LEAVE_S)
        self.membership.end()

    def _left(self) -> None:
        if not self._gone.done():
            self._gone.set_result(None)

    # -- for who polls ------------------------------------------------------------------------------------------------

    def assignment(self) -> tuple[Queue, ...]:
        """Return the queues that are owned now."""
        return self.member.assignment()

    @property
    def avoided(self) -> int:
        """How many messages were polled when their queue had to go, and were done before that."""
        return self.member.avoided

    def may_give(self, shelf: Shelf) -> bool:
        """Say whether messages of a shelf may be polled: its queue is ours beyond doubt."""
        return self.member.may_start(shelf.queue, shelf.generation, steady_ms())

    def look(self) -> None:
        """Drop what is here of queues that went, or start anew elsewhere."""
        for shelf in self._shelves.all():
            self._look_at(shelf)

    def polled(self) -> None:
        """Tell the machine what the user has: it does not count as waiting."""
        for shelf in self._shelves.all():
            if shelf.polled:
                self.membership.feed(Lent(shelf.queue, shelf.generation, len(shelf.polled)))

    def done(self, shelf: Shelf, offsets: list[int]) -> None:
        """Tell the machine what is done."""
        queue, generation = shelf.queue, shelf.generation
        self.membership.feed_all((Handled(queue, generation, offsets), Lent(queue, generation, len(shelf.polled))))

    def unreadable(self, message: Received, found: Unreadable) -> bool:
        """Let the machine decide about a message that cannot be read; who polls is told if its queue stands still."""
        queue, offset = message.queue, message.offset
        shelf = self._shelves.find(queue)
        if shelf is not None:
            shelf.withdraw(offset)
            self.membership.feed(Handled(queue, shelf.generation, (), unreadable={offset: found}))
        is_still = found.is_here or self.member.options.on_unreadable is OnUnreadable.STOP
        if is_still:
            self.trouble = unreadable_error(self._session.names.bare_queue(queue), offset, found)
        return is_still

    def lost(self) -> tuple[Queue, ...]:
        """Return the queues that went while messages of them were polled and not done, each once."""
        lost, self._lost = tuple(self._lost), {}
        return lost

    async def position(self, queue: Queue) -> int:
        """Return the offset that is polled next."""
        progress = self._progress(queue, frozenset({State.OWNED}))
        shelf = self._shelves.find(queue)
        first = None if shelf is None or shelf.generation != progress.generation else shelf.first()
        return progress.next if first is None else first

    def seek(self, queue: Queue, offset: int) -> None:
        """Go on at another offset, which is the group's from now on; what was polled before does not count any more."""
        self._progress(queue, frozenset({State.OWNED}))
        shelf = self._shelves.drop(queue)
        self.membership.feed(OffsetReset(queue, offset))
        if shelf is not None:
            self._give_back(shelf, shelf.done() + shelf.clear())

    def _progress(self, queue: Queue, states: frozenset[State]) -> Progress:
        progress = self.member.progress(queue)
        if progress is None or progress.state not in states:
            owned = ", ".join(map(str, self.assignment())) or "none"
            raise ConfigurationError(f"{queue} is not one of this puller's queues now", next_step=f"it has: {owned}")
        return progress

    # -- progress -----------------------------------------------------------------------------------------------------

    async def store(self) -> tuple[Queue, ...]:
        """Store how far each queue is done, and wait for the brokers to confirm it; return those that were lost."""
        targets: dict[Queue, tuple[int, int]] = {}
        for queue in self.member.states():
            progress = self.member.progress(queue)
            if progress is None or progress.state not in _COMMITTABLE:
                continue
            if progress.acked is None or progress.acked < progress.low:
                targets[queue] = progress.generation, progress.low
        return await self._stored(targets)

    async def store_at(self, offsets: Mapping[Queue, int]) -> tuple[Queue, ...]:
        """Store these offsets: what was polled below each is done. Return the queues that were lost."""
        for queue, offset in offsets.items():
            progress = self._progress(queue, _COMMITTABLE)
            shelf = self._shelves.find(queue)
            first = None if shelf is None else shelf.first()
            end = progress.next if first is None else first
            if not progress.low <= offset <= end:
                raise ConfigurationError(
                    f"{queue} is done up to {progress.low} and polled up to {end}, and {offset} is to be committed",
                    next_step="commit what was polled, or seek to go on elsewhere",
                )
        for queue, offset in offsets.items():
            shelf = self._shelves.find(queue)
            if shelf is not None:
                self.done(shelf, shelf.done(offset))
        return await self.store()

    async def _stored(self, targets: dict[Queue, tuple[int, int]]) -> tuple[Queue, ...]:
        if not targets:
            return ()
        wait = _Wait(targets, asyncio.get_running_loop().create_future())
        self._waits.append(wait)
        self.membership.feed_all([CommitAsked(queue) for queue in list(targets)])
        try:
            async with asyncio.timeout(_COMMIT_S):
                await wait.future
        except TimeoutError:
            named = ", ".join(map(str, wait.targets))
            raise TimedOut(
                f"how far {named} is was not confirmed in {_COMMIT_S:g} s", next_step="it is tried again by itself"
            ) from None
        finally:
            self._waits.remove(wait)
        return tuple(wait.lost)

    def explain(self) -> Explained:
        """Return what this member does, and why."""
        return explain_member(self.member, self._session.names, self._news.hazards(), steady_ms())

    # -- what the machine wants ---------------------------------------------------------------------------------------

    def _handle(self, action: Handle) -> None:
        shelf = self._shelves.find(action.queue)
        if shelf is None or shelf.generation != action.generation:
            if shelf is not None:
                self._drop(shelf)
            shelf = self._shelves.begin(action.queue, action.generation)
        self._shelves.put(shelf, action.offsets, cast("list[Received]", action.messages))
        self._wake()

    def _report(self, report: Report) -> None:
        if report.kind in ("released", "lost", "drain-bound"):
            for wait in self._waits:
                for queue in report.queues:
                    if wait.targets.pop(queue, None) is not None and report.kind != "released":
                        wait.lost.append(queue)
        self._news.report(report, steady_ms())

    def _stepped(self) -> None:
        """Look at what the last steps changed: queues that came or went, and commits that somebody waits for."""
        if self.member.changes != self._changes:
            self._changes = self.member.changes
            self.look()
            self._wake()
        if self._news.has_moves:
            members = len(self.member.members)
            why = f"{members} member{'s' * (members != 1)}, shared by {self.member.strategy_name}"
            queues = tuple(map(self._session.names.bare_queue, self.assignment()))
            self._news.moved(now_ms(), self._session.client_id, queues, why)
        for wait in self._waits:
            self._look_at_wait(wait)

    def _look_at(self, shelf: Shelf) -> None:
        progress = self.member.progress(shelf.queue)
        if progress is None or progress.generation != shelf.generation:
            self._drop(shelf)
        elif progress.state not in _KEPT and shelf.count:
            self._give_back(shelf, shelf.clear())

    def _drop(self, shelf: Shelf) -> None:
        self._shelves.drop(shelf.queue)
        polled = shelf.done()
        if polled:
            self._lost[shelf.queue] = None
        self._give_back(shelf, polled + shelf.clear())

    def _give_back(self, shelf: Shelf, offsets: list[int]) -> None:
        if offsets:
            self.membership.feed(Handled(shelf.queue, shelf.generation, (), skipped=offsets))

    def _look_at_wait(self, wait: _Wait) -> None:
        for queue, (generation, offset) in list(wait.targets.items()):
            progress = self.member.progress(queue)
            if progress is None or progress.generation != generation:
                wait.lost.append(queue)
                del wait.targets[queue]
            elif progress.acked is not None and progress.acked >= offset:
                del wait.targets[queue]
        if not wait.targets and not wait.future.done():
            wait.future.set_result(None)
