"""PullConsumer for asyncio: the user's code polls for messages.

What a poll returned is done when it is committed, or, with ``auto_commit``, when the next poll begins. So a process
that dies in between gets its messages again. Closing after an exception counts nothing as done.

A consumer has one of two readers. `subscribe` makes it a member of its group, and rebalances assign it queues
(subscribed.py). `assign` reads exactly the given queues, whoever else reads them (assigned.py). Both use full names for
queues and topics, and share the fetch buffer with the consumer.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Self, TypeAlias, Unpack

from steelyard.balance.group.actions import StartAt, StartPosition
from steelyard.balance.group.events import UnreadableMessage
from steelyard.client.config import ClientConfig, NamesrvOrConfig, signature_with_options
from steelyard.client.consumer.decompression import MAX_OPEN_BYTES, decompress_message
from steelyard.client.consumer.explain import MemberExplanation
from steelyard.client.consumer.notifications import NotifyingClient, Rebalanced
from steelyard.client.consumer.received_message import ReceivedMessage
from steelyard.client.filter_check import check_sql_filter
from steelyard.client.observers.observers import Observers
from steelyard.client.process_guard import closed_error
from steelyard.client.pull_consumer.assigned import AssignedReader, query_committed_offset, query_offset
from steelyard.client.pull_consumer.fetch_buffer import FetchBuffer
from steelyard.client.pull_consumer.options import MAX_POLL, PullConsumerOptions, PullConsumerSettings
from steelyard.client.pull_consumer.subscribed import SubscribedReader, queues_lost_error
from steelyard.client.session import Session
from steelyard.client.times import StartFrom, parse_start
from steelyard.errors import ConfigurationError
from steelyard.model import ExpressionType, Queue, Subscription
from steelyard.net.clock import now_ms
from steelyard.wire.sysflag import SEALED

PullReader: TypeAlias = SubscribedReader | AssignedReader
"""Reads queues into the fetch buffer: those of a member, or the given ones."""

_log = logging.getLogger("steelyard.client")


class PullConsumer(NotifyingClient):
    """Reads topics for a group, poll by poll. All options are in `PullConsumerOptions`."""

    def __init__(
        self,
        namesrv: NamesrvOrConfig = None,
        group: str = "",
        *,
        name: str | None = None,
        **settings: Unpack[PullConsumerSettings],
    ) -> None:
        """Make a pull consumer; the first call that needs it connects."""
        super().__init__(f"a pull consumer of group {group}")
        config = ClientConfig.of(namesrv)
        self.options = PullConsumerOptions(group, **settings)
        self._observers = Observers("pull_consumer", group, self.options.observers)
        self._session = Session(config if name is None else replace(config, name=name))
        self._namespace = self._session.namespace
        self._group = self._namespace.wrap(group)
        self._opening = asyncio.Lock()
        self._is_open = self._is_closed = False
        self._topics: dict[str, Subscription] = {}
        self._queues: dict[Queue, Subscription] = {}
        self._buffer = FetchBuffer()
        self._reader: PullReader | None = None
        self._wakeup = asyncio.Event()
        """Set when there may be messages to poll."""
        self._polling: asyncio.Future[None] | None = None
        """Done when the running poll has ended."""
        self.counts_last_poll = True
        """Whether `close` counts the last poll as done, with ``auto_commit``."""

    __signature__ = signature_with_options(__init__, PullConsumerOptions)

    async def open(self) -> Self:
        """Connect unless connected; the first call of anything else does it too."""
        async with self._opening:
            await self._ensure_connected()
        return self

    async def close(self, *, done: bool = True) -> None:
        """Release queues, leave and disconnect; a waiting poll returns nothing. It cannot be reopened.

        With ``auto_commit`` the last poll counts as done, unless ``done`` is False.
        """
        self.counts_last_poll = self.counts_last_poll and done
        if self._is_closed or self.is_forked:
            return
        self._is_closed = True
        if self._session.is_loop_closed:
            return
        self._wakeup.set()
        try:
            if self._polling is not None:
                await asyncio.wait([self._polling])
            reader = self._reader
            if reader is not None:
                if self.counts_last_poll and self.options.auto_commit:
                    self._mark_polled_done(reader)
                await reader.close()
        finally:
            await self._observers.closed()
            async with self._opening:
                was_open, self._is_open = self._is_open, False
            if was_open:
                await self._session.close()

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        """Close; after an exception the last poll does not count as done."""
        await self.close(done=kind is None)

    def _check_open(self) -> None:
        self.check_process()
        if self._is_closed:
            raise closed_error(type(self).__name__)

    async def _ensure_connected(self) -> Session:
        """Return the connected session; one call at a time."""
        self._check_open()
        if not self._is_open:
            session = Session(self._session.config, client_id=self._session.client_id)
            await session.start()
            self._session, self._is_open = session, True
        self._session.check_loop()
        return self._session

    async def _ensure_reader(self) -> PullReader:
        """Return the reader; the first call that needs it starts it."""
        self._check_open()
        if self._reader is None:
            async with self._opening:
                session = await self._ensure_connected()
                if self._reader is None:
                    reader = await self._create_reader(session)
                    self._check_open()
                    reader.start()
                    self._reader = reader
                    self._observers.opened(session)
        self._session.check_loop()
        return self._reader

    async def _create_reader(self, session: Session) -> PullReader:
        if not self._topics and not self._queues:
            raise ConfigurationError(
                "the consumer has nothing to read", next_step="subscribe to a topic, or assign queues"
            )
        for wanted in {**self._topics, **{each.topic: each for each in self._queues.values()}}.values():
            await check_sql_filter(session, self._group, wanted)
        if self._topics:
            return SubscribedReader(
                session, self.options, self._topics, self._buffer, self._wakeup.set, self._rebalanced, self._warn
            )
        for topic in {queue.topic for queue in self._queues}:
            readable = (await session.routes.find(topic)).readable_queues()
            for queue in self._queues:
                if queue.topic == topic and queue not in readable:
                    known = ", ".join(str(self._namespace.unwrap_queue(each)) for each in readable) or "none"
                    raise ConfigurationError(
                        f"there is no queue {self._namespace.unwrap_queue(queue)}", next_step=f"readable are: {known}"
                    )
        return AssignedReader(session, self.options, self._queues, self._buffer, self._wakeup.set, self._warn)

    def _rebalanced(self, event: Rebalanced) -> None:
        self._observers.rebalanced(event, self._reader.avoided if isinstance(self._reader, SubscribedReader) else 0)
        super()._rebalanced(event)

    def subscribe(self, topic: str, *, tags: str | None = None, sql: str | None = None) -> None:
        """Read a topic as a member of the group; before the first poll, once for each topic.

        ``tags`` are such as ``"paid || refunded"``; ``sql`` is a condition over properties, such as ``"amount > 10"``.
        """
        self._check_not_reading()
        if self._queues:
            raise ConfigurationError(
                "queues are assigned to this consumer", next_step="make another one to share topics with a group"
            )
        wanted = self._subscription(topic, tags, sql)
        if wanted.topic in self._topics:
            raise ConfigurationError(
                f"topic {topic!r} is subscribed to already", next_step="name all tags at once: paid || refunded"
            )
        self._topics[wanted.topic] = wanted

    def assign(self, queues: Iterable[Queue], *, tags: str | None = None, sql: str | None = None) -> None:
        """Read exactly these queues, whoever else reads them; before the first poll. Calling it again replaces them.

        It does not join the group: there is no rebalance, and others may read the same queues.
        """
        self._check_not_reading()
        if self._topics:
            raise ConfigurationError(
                "this consumer is subscribed to topics", next_step="make another one to read certain queues"
            )
        listed = [self._wrap(queue) for queue in queues]
        if not listed:
            raise ConfigurationError("no queue is assigned", next_step="give one or more, such as those of queues()")
        self._queues = {queue: self._subscription(queue.topic, tags, sql) for queue in listed}

    def _check_not_reading(self) -> None:
        self._check_open()
        if self._reader is not None:
            raise ConfigurationError("the consumer reads already", next_step="make another one to read something else")

    def _subscription(self, topic: str, tags: str | None, sql: str | None) -> Subscription:
        if tags is not None and sql is not None:
            raise ConfigurationError(
                f"topic {topic!r} is wanted by tags and by an SQL condition",
                next_step="write the tags into the condition: TAGS in ('paid', 'refunded')",
            )
        full = self._namespace.wrap(topic)
        if sql is not None:
            return Subscription(full, sql, ExpressionType.SQL92, now_ms())
        return Subscription(full, tags or "*", version=now_ms())

    async def poll(self, timeout_s: float = 1.0, most: int | None = None) -> list[ReceivedMessage]:
        """Return messages as soon as there are some; nothing after the timeout.

        At most ``most`` messages (default 500), some of each queue in turn, in order within a queue; fewer once
        16 MiB of compressed bodies were decompressed. With ``auto_commit`` the previous poll is done now. One poll at a
        time.
        """
        if timeout_s < 0 or (most is not None and most < 1):
            raise ConfigurationError(
                f"a poll for {most} messages in {timeout_s} s", next_step="give 1 or more, and 0 s or more"
            )
        if self._polling is not None:
            raise ConfigurationError("another poll is under way", next_step="poll from one task or thread at a time")
        self._polling = ended = asyncio.get_running_loop().create_future()
        try:
            reader = await self._ensure_reader()
            if self.options.auto_commit:
                self._mark_polled_done(reader)
                if lost := reader.pop_lost():
                    _log.warning("%s", queues_lost_error(map(self._namespace.unwrap_queue, lost)))
            return await self._wait_for_messages(reader, timeout_s, most or MAX_POLL)
        finally:
            self._polling = None
            ended.set_result(None)

    async def _wait_for_messages(self, reader: PullReader, timeout_s: float, most: int) -> list[ReceivedMessage]:
        time_s = asyncio.get_running_loop().time
        end_s = time_s() + timeout_s
        while not self._is_closed:
            self._wakeup.clear()
            taken = self._buffer.poll(most, reader.may_poll)
            if any(message.sys_flag & SEALED for message in taken):
                taken = self._decompress(reader, taken)
            if taken:
                reader.on_polled()
                self._observers.received(taken)
                return taken
            trouble, reader.pending_error = reader.pending_error, None
            if trouble is not None:
                raise trouble
            left_s = end_s - time_s()
            if left_s <= 0:
                break
            try:
                async with asyncio.timeout(left_s):
                    await self._wakeup.wait()
            except TimeoutError:
                continue
        return []

    def _decompress(self, reader: PullReader, taken: list[ReceivedMessage]) -> list[ReceivedMessage]:
        """Decompress bodies up to the limit; the rest waits for the next poll."""
        given: list[ReceivedMessage] = []
        left: list[ReceivedMessage] = []
        still: set[Queue] = set()
        size = 0
        for message in taken:
            if size >= MAX_OPEN_BYTES or message.queue in still:
                left.append(message)
                continue
            found = decompress_message(message)
            if not isinstance(found, UnreadableMessage):
                given.append(found)
                size += len(found.body)
            elif reader.handle_unreadable(message, found):
                still.add(message.queue)
        if left:
            self._buffer.put_back(left)
        if len(given) < len(taken):
            self._wakeup.set()
        return given

    def put_back(self, messages: Sequence[ReceivedMessage]) -> None:
        """Put back what the last poll returned, because its caller was interrupted."""
        self._buffer.put_back(messages)
        if self._reader is not None:
            self._reader.drop_revoked()

    async def poll_one(self) -> ReceivedMessage | None:
        """Return the next message, however long that takes; None when the consumer is closed."""
        while not self._is_closed:
            found = await self.poll(60.0, 1)
            if found:
                return found[0]
        return None

    async def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """Iterate over messages until the consumer is closed; each step is a poll."""
        while (found := await self.poll_one()) is not None:
            yield found

    async def commit(self, offsets: Mapping[Queue, int] | None = None) -> None:
        """Commit everything polled, or the given offset of each queue: the messages below it are done.

        If a subscribed queue was revoked before, what was polled is redelivered to its new owner, and `QueuesLost` is
        raised after everything else is committed. A queue that is being revoked waits for its commit, for
        ``drain_s`` at most. The offset of an assigned queue is committed as it is given.
        """
        reader = await self._ensure_reader()
        reader.drop_revoked()
        if offsets is None:
            self._mark_polled_done(reader)
            lost = await reader.commit()
        else:
            lost = await reader.commit_at({self._wrap(queue): offset for queue, offset in offsets.items()})
        lost = (*lost, *reader.pop_lost())
        if lost:
            raise queues_lost_error(map(self._namespace.unwrap_queue, lost))

    def forget(self) -> None:
        """Forget what was polled without a commit: for assigned queues whose offsets are stored elsewhere.

        Otherwise it is kept until it is committed, however much that is. A later commit counts it as done.
        """
        self._check_open()
        if self._topics:
            raise ConfigurationError(
                "polled messages of subscribed topics have to be handled",
                next_step="commit them, or close the consumer",
            )
        for buffer in self._buffer.all():
            buffer.mark_done()

    def _mark_polled_done(self, reader: PullReader) -> None:
        reader.drop_revoked()
        for buffer in self._buffer.all():
            if buffer.polled:
                reader.on_done(buffer, buffer.mark_done())

    async def position(self, queue: Queue) -> int:
        """Return the offset that is polled next."""
        return await (await self._ensure_reader()).position(self._wrap(queue))

    async def seek(self, queue: Queue, to: int | StartFrom) -> None:
        """Continue at an offset, at the ``"first"`` message, behind the ``"last"`` one, or at a time.

        What was polled of the queue before does not count any more. A subscribed queue's new offset is also committed,
        so that its next owner continues there. The broker corrects an offset that does not exist.
        """
        reader, full = await self._ensure_reader(), self._wrap(queue)
        if not isinstance(to, int):
            to = await query_offset(self._session, full, parse_start(to))
        if to < 0:
            raise ConfigurationError(f"{queue} has no offset {to}", next_step="give 0 or more")
        reader.seek(full, to)

    def pause(self, queues: Iterable[Queue]) -> None:
        """Poll nothing of these queues until they are resumed; they keep their position and their buffer."""
        self._check_open()
        self._buffer.paused.update(map(self._wrap, queues))

    def resume(self, queues: Iterable[Queue]) -> None:
        """Poll these queues again."""
        self._check_open()
        self._buffer.paused.difference_update(map(self._wrap, queues))
        self._wakeup.set()

    @property
    def assignment(self) -> tuple[Queue, ...]:
        """The queues that are read now: the assigned ones, or those that this member owns."""
        if self._reader is None:
            return tuple(map(self._namespace.unwrap_queue, self._queues))
        return tuple(map(self._namespace.unwrap_queue, self._reader.assignment()))

    def explain(self) -> MemberExplanation:
        """Explain what it reads and why, in plain words: print it."""
        if self._reader is None:
            return MemberExplanation(self.options.group, self.id, "nothing yet", (), (), None, ())
        return self._reader.explain()

    @property
    def paused(self) -> frozenset[Queue]:
        """The queues that are paused."""
        return frozenset(map(self._namespace.unwrap_queue, self._buffer.paused))

    async def queues(self, topic: str) -> list[Queue]:
        """Return the readable queues of a topic, in order; raises TopicNotFound."""
        await self.open()
        route = await self._session.routes.look_up(self._namespace.wrap(topic))
        return list(map(self._namespace.unwrap_queue, route.readable_queues()))

    async def committed(self, queue: Queue) -> int | None:
        """Return the group's committed offset in a queue; None if it never committed."""
        full = await self._with_route(queue)
        return await query_committed_offset(self._session, self._group, full)

    async def begins(self, queues: Iterable[Queue]) -> dict[Queue, int]:
        """Return the offset of the first message of each queue."""
        return await self._offsets(queues, StartPosition(StartAt.FIRST))

    async def ends(self, queues: Iterable[Queue]) -> dict[Queue, int]:
        """Return the offset that the next message of each queue will have."""
        return await self._offsets(queues, StartPosition(StartAt.LAST))

    async def offset_at(self, queue: Queue, when: datetime) -> int:
        """Return the offset of the first message that was stored at a time or later."""
        return await query_offset(self._session, await self._with_route(queue), parse_start(when))

    async def _offsets(self, queues: Iterable[Queue], start: StartPosition) -> dict[Queue, int]:
        listed = {queue: await self._with_route(queue) for queue in queues}
        found = await asyncio.gather(*(query_offset(self._session, full, start) for full in listed.values()))
        return dict(zip(listed, found, strict=True))

    async def _with_route(self, queue: Queue) -> Queue:
        """Return a queue's full name, once its route is known."""
        full = self._wrap(queue)
        await self.open()
        await self._session.routes.find(full.topic)
        return full

    def _wrap(self, queue: Queue) -> Queue:
        if not isinstance(queue, Queue):
            raise ConfigurationError(
                f"{queue!r} is not a queue", next_step='give one such as Queue("orders", "broker-a", 0)'
            )
        return self._namespace.wrap_queue(queue)
