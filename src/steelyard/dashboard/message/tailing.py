"""Following a topic as it grows: new messages of its queues, gathered ten times a second, within a bounded memory.

A puller reads that joins no group and commits nothing. It begins behind the last message of each queue. What fits the
filter waits for the browser, up to a limit; where the browser, or the limit of messages looked at in a second, does not
keep up, the oldest are passed over, and how many is told. Queues that a topic gets later are read from their beginning.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from steelyard.client.connect import Connect
from steelyard.client.consuming.received import Received
from steelyard.client.pulling.peeking import Peek
from steelyard.client.pulling.puller import Puller
from steelyard.dashboard.message.bodies import Row, row_of
from steelyard.dashboard.message.searching import queues_of, wanted_tags, wanted_text
from steelyard.dashboard.watching import Trouble
from steelyard.errors import ConfigurationError, TransportError
from steelyard.model import Queue

__all__ = ["Tail", "TailBatch", "TailLimits", "Wanted"]

_Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]

_MOST_QUEUES = 256
"""Each is a pull that its broker holds."""
_QUIET_S = 1.0
"""An event comes that often even if nothing else does: it has the counts."""


@dataclass(frozen=True, slots=True)
class TailLimits:
    """How much one tail takes."""

    beat_s: float = 0.1
    """So long is gathered before a browser is told."""
    looked: int = 500
    """Messages looked at in a beat."""
    sent: int = 250
    """Messages sent in a beat."""
    waiting: int = 2_000
    """Messages that wait for the browser."""
    behind: int = 5_000
    """Further behind the end of a queue than that, the tail goes on near its end."""
    ends_s: float = 1.0
    """So often it is asked where queues end."""
    queues_s: float = 10.0
    """So often it is asked which queues there are."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which messages are followed."""

    topic: str
    queues: str | None = None
    """As ``broker-0:3,broker-0:4``; None: all."""
    tags: str | None = None
    key: str | None = None
    text: str | None = None


class TailBatch(Struct, frozen=True):
    """What came since the last one; the numbers are of the whole tail."""

    rows: list[Row]
    seen: int
    """Messages that were looked at."""
    matched: int
    """Of these, messages that fit."""
    skipped: int
    """Messages that came and were not sent, or not even looked at, since they were too many."""
    queues: int
    """How many queues are read."""


class Tail:
    """One browser's look at the end of a topic."""

    def __init__(
        self, connect: Connect, wanted: Wanted, limits: TailLimits | None = None, *, spawn: _Spawn | None = None
    ) -> None:
        """Say what is followed; ``spawn`` begins the task that reads, for who has to wait for its end."""
        self._connect, self._wanted, self._limits = connect, wanted, limits or TailLimits()
        self._spawn = spawn or asyncio.get_running_loop().create_task
        self._positions: dict[Queue, int] = {}
        self._reached: dict[Queue, int] = {}
        """The same of all queues that were ever read: those of a broker that was away are not new when it is back."""
        self._rows: deque[Row] = deque()
        self._seen = self._matched = self._skipped = 0
        self._has_tag, self._has_text = wanted_tags(wanted.tags), wanted_text(wanted.text)
        self._news = asyncio.Event()
        self.trouble: Trouble | None = None
        """Why it may be quiet: brokers that did not answer when they were last asked where queues end."""

    async def batches(self) -> AsyncGenerator[TailBatch, None]:
        """Yield what comes, for ever; the first batch says that the tail has begun."""
        began = asyncio.Event()
        reading = self._spawn(self._read_on(began))
        try:
            await self._wait(began, reading, None)
            yield self._batch()
            while True:
                await self._wait(self._news, reading, _QUIET_S)
                # Whoever comes with the first one goes with it.
                await asyncio.sleep(self._limits.beat_s)
                yield self._batch()
        finally:
            if not reading.done():
                reading.cancel()
                # Not awaited itself: whoever cancels us would cancel it once more, while it hangs up.
                await asyncio.wait({reading})
            if not reading.cancelled():
                reading.exception()  # seen, if it was not before

    @staticmethod
    async def _wait(event: asyncio.Event, reading: asyncio.Task[None], timeout_s: float | None) -> None:
        """Wait for an event, or for the time; if reading failed, so does this."""
        waiting = asyncio.get_running_loop().create_task(event.wait())
        try:
            await asyncio.wait({waiting, reading}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if reading.done():
            reading.result()

    def _batch(self) -> TailBatch:
        rows = [self._rows.popleft() for _ in range(min(len(self._rows), self._limits.sent))]
        if not self._rows:
            self._news.clear()
        rows.sort(key=lambda row: row.stored_ms)
        return TailBatch(rows, self._seen, self._matched, self._skipped, len(self._positions))

    # -- reading ------------------------------------------------------------------------------------------------------

    async def _read_on(self, began: asyncio.Event) -> None:
        """Read, with another puller whenever the topic has got more queues."""
        while True:
            async with Peek(
                self._connect, pull_batch=128, queue_messages=2 * self._limits.looked, queue_bytes=512 << 10
            ) as puller:
                await self._find_queues(puller)
                puller.assign(self._positions, tags=self._wanted.tags)
                for queue, position in self._positions.items():
                    await puller.seek(queue, position)
                began.set()
                await self._read(puller)
                self._reached |= self._positions

    async def _find_queues(self, puller: Puller) -> None:
        topic = self._wanted.topic
        queues = queues_of(topic, self._wanted.queues, await puller.queues(topic))
        if len(queues) > _MOST_QUEUES:
            raise ConfigurationError(
                f"topic {topic!r} has {len(queues)} queues", next_step=f"choose {_MOST_QUEUES} of them at most"
            )
        new = [queue for queue in queues if queue not in self._reached]
        found = await (puller.begins(new) if self._reached else puller.ends(new))
        self._reached |= found
        self._positions = {queue: self._reached[queue] for queue in queues}

    async def _read(self, puller: Puller) -> None:
        """Read until the queues of the topic have changed."""
        loop = asyncio.get_running_loop()
        looked_around = asked = loop.time()
        while True:
            began = loop.time()
            left = self._limits.looked
            while left > 0 and (rest_s := began + self._limits.beat_s - loop.time()) > 0:
                polled = await puller.poll(timeout_s=rest_s, most=left)
                puller.forget()
                self._take(polled)
                left -= len(polled)
            # More may be waiting; they wait for the next beat, so that others have the loop too.
            await asyncio.sleep(max(0.0, began + self._limits.beat_s - loop.time()))
            if loop.time() - looked_around > self._limits.ends_s:
                looked_around = loop.time()
                try:
                    await self._catch_up(puller)
                    self.trouble = None
                except TransportError as error:
                    self.trouble = Trouble(error)
            if self._wanted.queues is None and loop.time() - asked > self._limits.queues_s:
                asked = loop.time()
                with suppress(TransportError):
                    if set(await puller.queues(self._wanted.topic)) != set(self._positions):
                        return

    def _take(self, polled: Iterable[Received]) -> None:
        topic, key = self._wanted.topic, self._wanted.key
        for message in polled:
            self._seen += 1
            queue = Queue(topic, message.queue.broker, message.queue.queue_id)
            self._positions[queue] = message.offset + 1
            if not self._has_tag(message.tags) or (key and key not in message.keys):
                continue
            if self._has_text(message.body):
                self._matched += 1
                self._rows.append(row_of(topic, message))
        while len(self._rows) > self._limits.waiting:
            self._rows.popleft()
            self._skipped += 1
        if self._rows:
            self._news.set()

    async def _catch_up(self, puller: Puller) -> None:
        """Go on near the end of queues that grow quicker than they can be looked at."""
        for queue, end in (await puller.ends(self._positions)).items():
            position = await puller.position(queue)
            self._positions[queue] = position
            if end - position > self._limits.behind:
                ahead = end - self._limits.sent
                self._skipped += ahead - position
                self._positions[queue] = ahead
                await puller.seek(queue, ahead)
