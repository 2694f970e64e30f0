"""A consumer whose loop is the user's: messages are there when they are asked for.

    async with Puller("localhost:9876", group="report") as puller:
        puller.subscribe("orders")                        # shared with the group; or puller.assign([queue, ...])
        for message in await puller.poll(timeout_s=1):
            ...
        await puller.commit()

What a poll returned is *polled*; it counts as done when it is committed, or, with ``auto_commit``, when the next poll
begins. So a process that dies in between gets its messages again. An end by an exception counts nothing as done.

Two ways to read, of which a puller has one. `subscribe` makes it a member of its group: queues are shared with the
others, and come and go (shared.py). `assign` reads exactly the queues named, whoever else reads them (assigned.py).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TypeVar, Unpack

from steelyard.balance.events import Unreadable
from steelyard.balance.hazards import Hazard
from steelyard.client.callbacks import call_all
from steelyard.client.conditions import check_condition
from steelyard.client.connect import Connect, Where
from steelyard.client.consuming.explained import Explained
from steelyard.client.consuming.news import Moved
from steelyard.client.consuming.opening import PART_BYTES, open_message
from steelyard.client.consuming.received import Received
from steelyard.client.keywords import with_options
from steelyard.client.moments import StartFrom, start_of
from steelyard.client.observing.observing import Observing
from steelyard.client.pulling.assigned import Assigned
from steelyard.client.pulling.puller_options import POLL_MOST, PullerOptions, PullerSettings
from steelyard.client.pulling.questions import Questions
from steelyard.client.pulling.queue_offsets import ask_offset
from steelyard.client.pulling.reading import Reading
from steelyard.client.pulling.shared import Shared, lost_error
from steelyard.client.pulling.shelves import Shelves
from steelyard.client.session import Session
from steelyard.errors import ConfigurationError
from steelyard.model import FilterKind, Queue, Subscription
from steelyard.net.clock import now_ms
from steelyard.wire.sysflag import SEALED

__all__ = ["Puller"]

E = TypeVar("E")
M = TypeVar("M", bound=Callable[[Moved], object])
H = TypeVar("H", bound=Callable[[Hazard], object])

_log = logging.getLogger("steelyard")


class Puller(Questions):
    """Reads topics for a group, poll by poll."""

    def __init__(
        self,
        where: Where = None,
        group: str = "",
        *,
        name: str | None = None,
        **settings: Unpack[PullerSettings],
    ) -> None:
        """Say where, for which group, and how (`PullerOptions`); nothing is connected before the first call."""
        connect = Connect.of(where)
        self.options = PullerOptions(group, **settings)
        self._observing = Observing.of("puller", group, self.options.observers)
        super().__init__(connect if name is None else replace(connect, name=name), group)
        self._topics: dict[str, Subscription] = {}
        self._queues: dict[Queue, Subscription] = {}
        self._shelves = Shelves()
        self._reading: Reading | None = None
        self._news = asyncio.Event()
        """Set when there may be something to poll."""
        self._polling: asyncio.Future[None] | None = None
        """Done when the poll that is under way has ended."""
        self.counts_last_poll = True
        """Whether a close counts what the last poll returned as done, where that happens by itself."""
        self._on_move: list[Callable[[Moved], object]] = []
        self._on_hazard: list[Callable[[Hazard], object]] = []

    __signature__ = with_options(__init__, PullerOptions)

    # -- its life -----------------------------------------------------------------------------------------------------

    async def close(self, *, done: bool = True) -> None:
        """Hand over, leave and hang up; a poll that waits returns nothing. It cannot be opened again.

        With ``auto_commit`` what the last poll returned counts as done, unless ``done`` is False.
        """
        self.counts_last_poll = self.counts_last_poll and done
        if self._is_closed or self.is_elsewhere:
            return
        self._is_closed = True
        if self._session.is_stranded:
            return
        self._news.set()
        try:
            if self._polling is not None:
                await asyncio.wait([self._polling])
            reading = self._reading
            if reading is not None:
                if self.counts_last_poll and self.options.auto_commit:
                    self._count_as_done(reading)
                await reading.close()
        finally:
            if self._observing is not None:
                await self._observing.closed()
            await super().close()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; after an exception what the last poll returned does not count as done."""
        await self.close(done=kind is None)

    async def _begun(self) -> Reading:
        """Return the reading, begun with the first call that needs it."""
        self._check_open()
        if self._reading is None:
            async with self._opening:
                session = await self._connected()
                if self._reading is None:
                    reading = await self._begin(session)
                    self._check_open()
                    reading.start()
                    self._reading = reading
                    if self._observing is not None:
                        self._observing.opened(session)
        self._session.check_loop()
        return self._reading

    async def _begin(self, session: Session) -> Reading:
        if not self._topics and not self._queues:
            raise ConfigurationError(
                "the puller was not told what to read", next_step="subscribe to a topic, or assign queues"
            )
        for wanted in {**self._topics, **{each.topic: each for each in self._queues.values()}}.values():
            await check_condition(session, self._group, wanted)
        if self._topics:
            return Shared(
                session, self.options, self._topics, self._shelves, self._news.set, self._moved, self._looks_wrong
            )
        for topic in {queue.topic for queue in self._queues}:
            readable = (await session.routes.find(topic)).readable()
            for queue in self._queues:
                if queue.topic == topic and queue not in readable:
                    known = ", ".join(str(self._names.bare_queue(each)) for each in readable) or "none"
                    raise ConfigurationError(
                        f"there is no queue {self._names.bare_queue(queue)}", next_step=f"readable are: {known}"
                    )
        return Assigned(session, self.options, self._queues, self._shelves, self._news.set, self._looks_wrong)

    # -- telling ------------------------------------------------------------------------------------------------------

    def on_move(self, function: M) -> M:
        """Have a function told when queues come and go; it gets a `Moved`."""
        self._on_move.append(function)
        return function

    def on_hazard(self, function: H) -> H:
        """Have a function told when something looks wrong; it gets a `Hazard`."""
        self._on_hazard.append(function)
        return function

    def _moved(self, moved: Moved) -> None:
        if self._observing is not None:
            self._observing.moved(moved, self._reading.avoided if isinstance(self._reading, Shared) else 0)
        self._tell(self._on_move, moved)

    def _looks_wrong(self, hazard: Hazard) -> None:
        self._tell(self._on_hazard, hazard)

    def _tell(self, functions: list[Callable[[E], object]], event: E) -> None:
        call_all(functions, event, f"a puller of group {self.options.group}", self._session.spawn)

    # -- what to read -------------------------------------------------------------------------------------------------

    def subscribe(self, topic: str, *, tags: str | None = None, sql: str | None = None) -> None:
        """Read one's share of a topic, for the group; before the first poll, once for each topic.

        ``tags`` are such as ``"paid || refunded"``; ``sql`` is a condition over properties, such as ``"amount > 10"``.
        """
        self._check_not_begun()
        if self._queues:
            raise ConfigurationError(
                "queues are assigned to this puller", next_step="make another one to share topics with a group"
            )
        wanted = self._wanted(topic, tags, sql)
        if wanted.topic in self._topics:
            raise ConfigurationError(
                f"topic {topic!r} is subscribed to already", next_step="name all tags at once: paid || refunded"
            )
        self._topics[wanted.topic] = wanted

    def assign(self, queues: Iterable[Queue], *, tags: str | None = None, sql: str | None = None) -> None:
        """Read exactly these queues, whoever else reads them; before the first poll. To assign again replaces them.

        The group is not joined: nothing moves, and nobody is kept from reading the same queues.
        """
        self._check_not_begun()
        if self._topics:
            raise ConfigurationError(
                "this puller is subscribed to topics", next_step="make another one to read certain queues"
            )
        listed = [self._full(queue) for queue in queues]
        if not listed:
            raise ConfigurationError("no queue is assigned", next_step="give one or more, such as those of queues()")
        self._queues = {queue: self._wanted(queue.topic, tags, sql) for queue in listed}

    def _check_not_begun(self) -> None:
        self._check_open()
        if self._reading is not None:
            raise ConfigurationError("the puller reads already", next_step="make another one to read something else")

    def _wanted(self, topic: str, tags: str | None, sql: str | None) -> Subscription:
        if tags is not None and sql is not None:
            raise ConfigurationError(
                f"topic {topic!r} is wanted by tags and by an SQL condition",
                next_step="write the tags into the condition: TAGS in ('paid', 'refunded')",
            )
        full = self._names.full(topic)
        if sql is not None:
            return Subscription(full, sql, FilterKind.SQL92, now_ms())
        return Subscription(full, tags or "*", version=now_ms())

    # -- polling ------------------------------------------------------------------------------------------------------

    async def poll(self, timeout_s: float = 1.0, most: int | None = None) -> list[Received]:
        """Return what is there, as soon as something is; nothing if nothing comes in time.

        At most ``most`` messages (500 if not said), some of each queue in turn, in order within a queue; fewer once
        bodies of 16 MiB were opened that are stored compressed. With
        ``auto_commit`` what the poll before returned is done now. One poll at a time.
        """
        if timeout_s < 0 or (most is not None and most < 1):
            raise ConfigurationError(
                f"a poll for {most} messages in {timeout_s} s", next_step="give 1 or more, and 0 s or more"
            )
        if self._polling is not None:
            raise ConfigurationError("another poll is under way", next_step="poll from one task or thread at a time")
        self._polling = ended = asyncio.get_running_loop().create_future()
        try:
            reading = await self._begun()
            if self.options.auto_commit:
                self._count_as_done(reading)
                self._tell_lost(reading)
            return await self._next(reading, timeout_s, most or POLL_MOST)
        finally:
            self._polling = None
            ended.set_result(None)

    async def _next(self, reading: Reading, timeout_s: float, most: int) -> list[Received]:
        time_s = asyncio.get_running_loop().time
        end_s = time_s() + timeout_s
        while not self._is_closed:
            self._news.clear()
            taken = self._shelves.take(most, reading.may_give)
            if any(message.sys_flag & SEALED for message in taken):
                taken = self._opened(reading, taken)
            if taken:
                reading.polled()
                if self._observing is not None:
                    self._observing.received(taken)
                return taken
            trouble, reading.trouble = reading.trouble, None
            if trouble is not None:
                raise trouble
            left_s = end_s - time_s()
            if left_s <= 0:
                break
            try:
                async with asyncio.timeout(left_s):
                    await self._news.wait()
            except TimeoutError:
                continue
        return []

    def _opened(self, reading: Reading, taken: list[Received]) -> list[Received]:
        """Open bodies, as many as may be open together; the rest waits for the next poll."""
        given: list[Received] = []
        left: list[Received] = []
        still: set[Queue] = set()
        size = 0
        for message in taken:
            if size >= PART_BYTES or message.queue in still:
                left.append(message)
                continue
            found = open_message(message)
            if not isinstance(found, Unreadable):
                given.append(found)
                size += len(found.body)
            elif reading.unreadable(message, found):
                still.add(message.queue)
        if left:
            self._shelves.take_back(left)
        if len(given) < len(taken):
            self._news.set()
        return given

    def take_back(self, messages: Sequence[Received]) -> None:
        """Let what the last poll returned be polled again: somebody was interrupted before he saw it."""
        self._shelves.take_back(messages)
        if self._reading is not None:
            self._reading.look()

    async def poll_one(self) -> Received | None:
        """Return the next message, however long that takes; None when the puller is closed."""
        while not self._is_closed:
            found = await self.poll(60.0, 1)
            if found:
                return found[0]
        return None

    async def __aiter__(self) -> AsyncIterator[Received]:
        """Iterate over messages, one by one, until the puller is closed; to ask for the next one is to poll."""
        while (found := await self.poll_one()) is not None:
            yield found

    # -- progress -----------------------------------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[Queue, int] | None = None) -> None:
        """Have the brokers store that everything polled is done; or what is below the offset given for a queue.

        Of queues that were shared and went to another member before this, what was polled comes again there: then
        `QueuesLost` is raised, after everything else is stored. Until then such a queue waits for its commit, for
        ``drain_s`` at most. For queues that were assigned, an offset is stored as it is given.
        """
        reading = await self._begun()
        reading.look()
        if offsets is None:
            self._count_as_done(reading)
            lost = await reading.store()
        else:
            lost = await reading.store_at({self._full(queue): offset for queue, offset in offsets.items()})
        lost = (*lost, *reading.lost())
        if lost:
            raise lost_error(map(self._names.bare_queue, lost))

    def forget(self) -> None:
        """Forget what was polled, without a commit: for who reads assigned queues and does not store how far he is.

        Otherwise it is remembered until it is committed, however much that becomes. A later commit counts it as done.
        """
        self._check_open()
        if self._topics:
            raise ConfigurationError(
                "what was polled of shared topics is somebody's to handle", next_step="commit it, or close the puller"
            )
        for shelf in self._shelves.all():
            shelf.done()

    def _count_as_done(self, reading: Reading) -> None:
        reading.look()
        for shelf in self._shelves.all():
            if shelf.polled:
                reading.done(shelf, shelf.done())

    def _tell_lost(self, reading: Reading) -> None:
        lost = reading.lost()
        if lost:
            _log.warning("%s", lost_error(map(self._names.bare_queue, lost)))

    async def position(self, queue: Queue) -> int:
        """Return the offset of the message that is polled next, or that will be."""
        return await (await self._begun()).position(self._full(queue))

    async def seek(self, queue: Queue, to: int | StartFrom) -> None:
        """Go on at an offset, at the ``"first"`` message, behind the ``"last"`` one, or at a time.

        What was polled of the queue before does not count any more. A shared queue's new offset is also committed, so
        that whoever has the queue next goes on there. An offset that is not there is corrected by the broker.
        """
        reading, full = await self._begun(), self._full(queue)
        if not isinstance(to, int):
            to = await ask_offset(self._session, full, start_of(to))
        if to < 0:
            raise ConfigurationError(f"{queue} has no offset {to}", next_step="give 0 or more")
        reading.seek(full, to)

    def pause(self, queues: Iterable[Queue]) -> None:
        """Poll nothing of these queues until they are resumed; they keep their place, and what was fetched ahead."""
        self._check_open()
        self._shelves.paused.update(map(self._full, queues))

    def resume(self, queues: Iterable[Queue]) -> None:
        """Poll these queues again."""
        self._check_open()
        self._shelves.paused.difference_update(map(self._full, queues))
        self._news.set()

    # -- looking ------------------------------------------------------------------------------------------------------

    @property
    def assignment(self) -> tuple[Queue, ...]:
        """The queues that are read now: those assigned, or those that are this member's share."""
        if self._reading is None:
            return tuple(map(self._names.bare_queue, self._queues))
        return tuple(map(self._names.bare_queue, self._reading.assignment()))

    def explain(self) -> Explained:
        """Return what it reads and why; as text that is something to show to people."""
        if self._reading is None:
            return Explained(self.options.group, self.id, "nothing yet", (), (), None, ())
        return self._reading.explain()

    @property
    def paused(self) -> frozenset[Queue]:
        """The queues that are paused."""
        return frozenset(map(self._names.bare_queue, self._shelves.paused))
