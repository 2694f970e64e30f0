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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import Protocol, Self, TypeVar, Unpack

from steelyard.balance.actions import Start, StartAt
from steelyard.balance.hazards import Hazard
from steelyard.client.assigned import Assigned
from steelyard.client.conditions import check_condition
from steelyard.client.connect import Connect, Where
from steelyard.client.explained import Explained
from steelyard.client.guard import Guard
from steelyard.client.moments import StartFrom, start_of
from steelyard.client.news import Moved
from steelyard.client.puller_options import POLL_MOST, PullerOptions, PullerSettings
from steelyard.client.queue_offsets import ask_committed, ask_offset
from steelyard.client.received import Received
from steelyard.client.session import Session
from steelyard.client.shared import Shared, lost_error
from steelyard.client.shelves import Shelf, Shelves
from steelyard.errors import ConfigurationError, SteelyardError
from steelyard.model import FilterKind, Queue, Subscription

__all__ = ["Puller"]

T = TypeVar("T")

_log = logging.getLogger("steelyard")


class Reading(Protocol):
    """One of the two ways to read."""

    trouble: SteelyardError | None
    """Why something cannot be read, for whoever polls next."""

    def start(self) -> None:
        """Begin."""

    async def close(self) -> None:
        """End, in order."""

    def assignment(self) -> tuple[Queue, ...]:
        """Return the queues that are read now."""

    def may_give(self, shelf: Shelf) -> bool:
        """Say whether messages of a shelf may be polled."""

    def look(self) -> None:
        """Drop what is here of queues that are not read any more."""

    def polled(self) -> None:
        """Take note that messages were polled."""

    def done(self, shelf: Shelf, offsets: list[int]) -> None:
        """Take note that messages are done."""

    def lost(self) -> tuple[Queue, ...]:
        """Return queues that went while messages of them were polled and not done; each is told of once."""

    def explain(self) -> Explained:
        """Return what is read, how far that is, and why."""

    async def position(self, queue: Queue) -> int:
        """Return the offset that is polled next."""

    def seek(self, queue: Queue, offset: int) -> None:
        """Go on at another offset."""

    async def store(self) -> tuple[Queue, ...]:
        """Store how far every queue is done; return those for which that came too late."""

    async def store_at(self, offsets: Mapping[Queue, int]) -> tuple[Queue, ...]:
        """Store these offsets; return the queues for which that came too late."""


class Puller(Guard):
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
        super().__init__()
        connect = Connect.of(where)
        self.options = PullerOptions(group, **settings)
        self._session = Session(connect if name is None else replace(connect, name=name))
        self._names = self._session.names
        self._topics: dict[str, Subscription] = {}
        self._queues: dict[Queue, Subscription] = {}
        self._shelves = Shelves()
        self._reading: Reading | None = None
        self._beginning = asyncio.Lock()
        self._news = asyncio.Event()
        self._is_polling = self._is_open = self._is_closed = False
        self._polling_ended = asyncio.Event()
        self._on_move: list[Callable[[Moved], object]] = []
        self._on_hazard: list[Callable[[Hazard], object]] = []

    @property
    def id(self) -> str:
        """The client id: what brokers and other members know it by."""
        return self._session.client_id

    # -- its life -----------------------------------------------------------------------------------------------------

    async def open(self) -> Self:
        """Connect, if it is not connected; the first call of anything else does it too."""
        self.check_process()
        async with self._beginning:
            await self._open()
        return self

    async def close(self, *, done: bool = True) -> None:
        """Hand over, leave and hang up; a poll that waits returns nothing. It cannot be opened again.

        With ``auto_commit`` what the last poll returned counts as done, unless ``done`` is False.
        """
        if self._is_closed or self.is_elsewhere:
            return
        self._is_closed = True
        self._news.set()
        while self._is_polling:
            await self._polling_ended.wait()
        reading = self._reading
        if reading is not None:
            if done and self.options.auto_commit:
                self._count_as_done(reading)
            await reading.close()
        if self._is_open:
            await self._session.close()

    async def __aenter__(self) -> Self:
        """Connect."""
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; after an exception what the last poll returned does not count as done."""
        await self.close(done=kind is None)

    def _check_open(self) -> None:
        self.check_process()
        if self._is_closed:
            raise ConfigurationError("the puller is closed", next_step="make another one")

    async def _open(self) -> None:
        self._check_open()
        if not self._is_open:
            await self._session.start()
            self._is_open = True

    async def _begun(self) -> Reading:
        """Return the reading, begun with the first call that needs it."""
        self._check_open()
        if self._reading is None:
            async with self._beginning:
                await self._open()
                if self._reading is None:
                    reading = await self._begin()
                    reading.start()
                    self._reading = reading
        return self._reading

    async def _begin(self) -> Reading:
        if not self._topics and not self._queues:
            raise ConfigurationError(
                "the puller was not told what to read", next_step="subscribe to a topic, or assign queues"
            )
        session, group = self._session, self._names.full(self.options.group)
        for wanted in {**self._topics, **{each.topic: each for each in self._queues.values()}}.values():
            await check_condition(session, group, wanted)
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
        return Assigned(session, self.options, self._queues, self._shelves, self._news.set)

    # -- telling ------------------------------------------------------------------------------------------------------

    def on_move(self, tell: "Callable[[Moved], T]") -> "Callable[[Moved], T]":
        """Call a function on the loop each time queues came or went; it may be used as a decorator."""
        self._on_move.append(tell)
        return tell

    def on_hazard(self, tell: "Callable[[Hazard], T]") -> "Callable[[Hazard], T]":
        """Call a function on the loop each time something looks wrong."""
        self._on_hazard.append(tell)
        return tell

    def _moved(self, moved: Moved) -> None:
        for tell in self._on_move:
            _call(tell, moved)

    def _looks_wrong(self, hazard: Hazard) -> None:
        for tell in self._on_hazard:
            _call(tell, hazard)

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
        return Subscription(full, tags or "*") if sql is None else Subscription(full, sql, FilterKind.SQL92)

    def _full(self, queue: Queue) -> Queue:
        if not isinstance(queue, Queue):
            raise ConfigurationError(
                f"{queue!r} is not a queue", next_step='give one such as Queue("orders", "broker-a", 0)'
            )
        return self._names.full_queue(queue)

    # -- polling ------------------------------------------------------------------------------------------------------

    async def poll(self, timeout_s: float = 1.0, most: int | None = None) -> list[Received]:
        """Return what is there, as soon as something is; nothing if nothing comes in time.

        At most ``most`` messages (500 if not said), some of each queue in turn, in order within a queue. With
        ``auto_commit`` what the poll before returned is done now. One poll at a time.
        """
        if timeout_s < 0 or (most is not None and most < 1):
            raise ConfigurationError(
                f"a poll for {most} messages in {timeout_s} s", next_step="give 1 or more, and 0 s or more"
            )
        if self._is_polling:
            raise ConfigurationError("another poll is under way", next_step="poll from one task or thread at a time")
        self._is_polling = True
        try:
            reading = await self._begun()
            if self.options.auto_commit:
                self._count_as_done(reading)
                self._tell_lost(reading)
            return await self._next(reading, timeout_s, most or POLL_MOST)
        finally:
            self._is_polling = False
            self._polling_ended.set()

    async def _next(self, reading: Reading, timeout_s: float, most: int) -> list[Received]:
        time_s = asyncio.get_running_loop().time
        end_s = time_s() + timeout_s
        while not self._is_closed:
            self._news.clear()
            taken = self._shelves.take(most, reading.may_give)
            if taken:
                reading.polled()
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

    async def poll_one(self) -> Received | None:
        """Return the next message, however long that takes; None when the puller is closed."""
        while not self._is_closed:
            found = await self.poll(60.0, 1)
            if found:
                return found[0]
        return None

    def __aiter__(self) -> Self:
        """Iterate over messages, one by one, until the puller is closed; to ask for the next one is to poll."""
        return self

    async def __anext__(self) -> Received:
        """Return the next message."""
        found = await self.poll_one()
        if found is None:
            raise StopAsyncIteration
        return found

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

    async def queues(self, topic: str) -> list[Queue]:
        """Return the readable queues of a topic, in order; a topic that is nowhere raises TopicNotFound."""
        await self.open()
        route = await self._session.routes.look_up(self._names.full(topic))
        return list(map(self._names.bare_queue, route.readable()))

    async def committed(self, queue: Queue) -> int | None:
        """Return how far the group is in a queue, as its broker has it; None if it never committed anything."""
        full = await self._routed(queue)
        return await ask_committed(self._session, self._names.full(self.options.group), full)

    async def begins(self, queues: Iterable[Queue]) -> dict[Queue, int]:
        """Return the offset of the first message of each queue."""
        return await self._offsets(queues, Start(StartAt.FIRST))

    async def ends(self, queues: Iterable[Queue]) -> dict[Queue, int]:
        """Return the offset that the next message of each queue will have."""
        return await self._offsets(queues, Start(StartAt.LAST))

    async def offset_at(self, queue: Queue, when: datetime) -> int:
        """Return the offset of the first message that was stored at a time or later."""
        return await ask_offset(self._session, await self._routed(queue), start_of(when))

    async def _offsets(self, queues: Iterable[Queue], start: Start) -> dict[Queue, int]:
        listed = {queue: await self._routed(queue) for queue in queues}
        found = await asyncio.gather(*(ask_offset(self._session, full, start) for full in listed.values()))
        return dict(zip(listed, found, strict=True))

    async def _routed(self, queue: Queue) -> Queue:
        """Return a queue's full name, with the place of its broker known."""
        full = self._full(queue)
        await self.open()
        await self._session.routes.find(full.topic)
        return full


def _call(tell: Callable[[T], object], about: T) -> None:
    try:
        tell(about)
    except Exception:
        _log.exception("a function that was to be told of %s failed", about)
