"""What can be asked about queues without reading them: which there are, where they begin and end, how far a group is.

Names go in and out as users write them, without the namespace.
"""

import asyncio
from collections.abc import Iterable
from datetime import datetime
from typing import Self

from steelyard.balance.actions import Start, StartAt
from steelyard.client.connect import Connect
from steelyard.client.context import Context
from steelyard.client.guard import closed
from steelyard.client.moments import start_of
from steelyard.client.pulling.queue_offsets import ask_committed, ask_offset
from steelyard.client.session import Session
from steelyard.errors import ConfigurationError
from steelyard.model import Queue

__all__ = ["Questions"]


class Questions(Context):
    """The part of a puller that is connected and asks."""

    def __init__(self, connect: Connect, group: str) -> None:
        super().__init__()
        self._session = Session(connect)
        self._names = self._session.names
        self._group = self._names.full(group)
        self._opening = asyncio.Lock()
        self._is_open = self._is_closed = False

    @property
    def id(self) -> str:
        """The client id: what brokers and other members know it by."""
        return self._session.client_id

    async def open(self) -> Self:
        """Connect, if it is not connected; the first call of anything else does it too."""
        async with self._opening:
            await self._connected()
        return self

    async def close(self) -> None:
        """Hang up. It cannot be opened again."""
        if self.is_elsewhere:
            return
        self._is_closed = True
        async with self._opening:
            was_open, self._is_open = self._is_open, False
        if was_open:
            await self._session.close()

    def _check_open(self) -> None:
        self.check_process()
        if self._is_closed:
            raise closed(type(self).__name__)

    async def _connected(self) -> Session:
        """Return the session, connected; one at a time."""
        self._check_open()
        if not self._is_open:
            session = Session(self._session.connect, client_id=self._session.client_id)
            await session.start()
            self._session, self._is_open = session, True
        self._session.check_loop()
        return self._session

    async def queues(self, topic: str) -> list[Queue]:
        """Return the readable queues of a topic, in order; a topic that is nowhere raises TopicNotFound."""
        await self.open()
        route = await self._session.routes.look_up(self._names.full(topic))
        return list(map(self._names.bare_queue, route.readable()))

    async def committed(self, queue: Queue) -> int | None:
        """Return how far the group is in a queue, as its broker has it; None if it never committed anything."""
        full = await self._routed(queue)
        return await ask_committed(self._session, self._group, full)

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

    def _full(self, queue: Queue) -> Queue:
        if not isinstance(queue, Queue):
            raise ConfigurationError(
                f"{queue!r} is not a queue", next_step='give one such as Queue("orders", "broker-a", 0)'
            )
        return self._names.full_queue(queue)
