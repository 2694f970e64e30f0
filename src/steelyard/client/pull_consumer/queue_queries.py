"""Queue queries: which queues a topic has, where they begin and end, and a group's committed offsets.

A 4.9 broker answers 0 for a group without a committed offset in a young queue; its table of all offsets (43) has the
truth.
"""

import asyncio
from collections.abc import Iterable
from datetime import datetime
from typing import Self

from steelyard.balance.group.actions import StartAt, StartPosition
from steelyard.client.config import ClientConfig
from steelyard.client.consumer.notifications import NotifyingClient
from steelyard.client.process_guard import closed_error
from steelyard.client.session import Session
from steelyard.client.times import parse_start
from steelyard.errors import ConfigurationError, NotFound, ProtocolError, ServerError
from steelyard.model import Queue
from steelyard.protocol.offset_lookup import (
    FindStartOffset,
    reports_missing_offsets,
    start_offset_request,
    stored_offset,
)
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.headers.common import OffsetResponse
from steelyard.wire.headers.group import CommitOffset, QueryConsumerOffset

__all__ = ["QueueQueries", "commit_offset", "query_committed_offset", "query_offset"]


_TABLE_TIMEOUT_MS = 10_000


async def query_offset(session: Session, queue: Queue, start: StartPosition) -> int:
    """Return the offset of a start position in a queue."""
    code, header = start_offset_request(FindStartOffset(queue, start))
    answer = await session.request_ok(queue.broker, Command(code, header))
    return answer.header(OffsetResponse).offset


async def query_committed_offset(session: Session, group: str, queue: Queue) -> int | None:
    """Return a group's committed offset; None if it never committed."""
    topic, broker, queue_id = queue
    header = QueryConsumerOffset(group, topic, queue_id, set_zero_if_not_found=False)
    try:
        answer = await session.request_ok(broker, Command(RequestCode.QUERY_CONSUMER_OFFSET, header))
    except NotFound:
        return None
    offset = answer.header(OffsetResponse).offset
    if offset or reports_missing_offsets(answer.version):
        return offset
    request = Command(RequestCode.GET_ALL_CONSUMER_OFFSET, {})
    try:
        answer = await session.request_ok(broker, request, timeout_ms=_TABLE_TIMEOUT_MS)
        return stored_offset(answer.body, group, queue)
    except (ServerError, ProtocolError):
        return offset


async def commit_offset(session: Session, group: str, queue: Queue, offset: int) -> None:
    """Commit a group's offset in a queue, whoever reads it."""
    topic, broker, queue_id = queue
    header = CommitOffset(group, topic, queue_id, offset)
    await session.request_ok(broker, Command(RequestCode.UPDATE_CONSUMER_OFFSET, header))


class QueueQueries(NotifyingClient):
    """The connected part of a pull consumer, and its queries."""

    def __init__(self, config: ClientConfig, group: str) -> None:
        super().__init__(f"a pull consumer of group {group}")
        self._session = Session(config)
        self._namespace = self._session.namespace
        self._group = self._namespace.wrap(group)
        self._opening = asyncio.Lock()
        self._is_open = self._is_closed = False

    async def open(self) -> Self:
        """Connect unless connected; the first call of anything else does it too."""
        async with self._opening:
            await self._ensure_connected()
        return self

    async def close(self) -> None:
        """Disconnect. It cannot be reopened."""
        if self.is_forked:
            return
        self._is_closed = True
        async with self._opening:
            was_open, self._is_open = self._is_open, False
        if was_open:
            await self._session.close()

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
