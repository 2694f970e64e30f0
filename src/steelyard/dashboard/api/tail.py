"""The live tail: a topic's new messages as they arrive, with a filter, ten batches a second, within bounded memory.

A pull consumer that joins no group and commits nothing starts at the end of each queue. If the browser, or the limit of
messages scanned per second, does not keep up, the oldest are skipped and counted.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from steelyard.client.config import ClientConfig
from steelyard.client.consumer.received_message import ReceivedMessage
from steelyard.client.pull_consumer.pull_consumer import PullConsumer
from steelyard.client.pull_consumer.queue_browser import QueueBrowser
from steelyard.dashboard.api_routing import ApiRequest, stream_route
from steelyard.dashboard.context import DashboardContext
from steelyard.dashboard.message_search import parse_queues, tag_filter, text_filter
from steelyard.dashboard.message_view import MessageRow, message_row
from steelyard.dashboard.polling import PollFailure
from steelyard.errors import ConfigurationError, TransportError
from steelyard.model import Queue

_Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]

_MAX_QUEUES = 256  # each is a pull that its broker holds
_MAX_SILENCE_S = 1.0  # an event is sent that often even without messages: it has the counts


@dataclass(frozen=True, slots=True)
class TailLimits:
    """The limits of one tail."""

    interval_s: float = 0.1  # how long messages are gathered before they are sent
    scanned: int = 500  # messages scanned per interval
    sent: int = 250  # messages sent per interval
    buffered: int = 2_000  # messages buffered for the browser
    max_behind: int = 5_000  # if the tail is further behind the end of a queue, it skips to its end
    end_poll_s: float = 1.0  # how often the max offsets are polled
    queue_poll_s: float = 10.0  # how often the queues are listed


@dataclass(frozen=True, slots=True)
class TailFilter:
    """Which messages match."""

    topic: str
    queues: str | None = None  # as ``broker-0:3,broker-0:4``; None: all
    tags: str | None = None
    key: str | None = None
    text: str | None = None


class TailBatch(Struct, frozen=True):
    """What arrived since the last batch; the counts are of the whole tail."""

    rows: list[MessageRow]
    scanned: int  # messages that were scanned
    matched: int  # of these, messages that matched
    skipped: int  # messages that were not sent, or not even scanned, since they were too many
    queues: int  # how many queues are read


class Tail:
    """One browser's tail of a topic."""

    def __init__(
        self,
        config: ClientConfig,
        tail_filter: TailFilter,
        limits: TailLimits | None = None,
        *,
        spawn: _Spawn | None = None,
    ) -> None:
        """``spawn`` starts the task that reads, for callers that must wait for its end."""
        self._config, self._filter, self._limits = config, tail_filter, limits or TailLimits()
        self._spawn = spawn or asyncio.get_running_loop().create_task
        self._positions: dict[Queue, int] = {}
        self._reached: dict[Queue, int] = {}
        """The same for all queues that were ever read: those of a broker that comes back are not new."""
        self._rows: deque[MessageRow] = deque()
        self._scanned = self._matched = self._skipped = 0
        self._has_tag, self._has_text = tag_filter(tail_filter.tags), text_filter(tail_filter.text)
        self._has_rows = asyncio.Event()
        self.failure: PollFailure | None = None
        """Why it may be silent: brokers that did not answer the last poll of max offsets."""

    async def batches(self) -> AsyncGenerator[TailBatch, None]:
        """Yield batches, for ever; the first says that the tail has started."""
        began = asyncio.Event()
        reading = self._spawn(self._read_forever(began))
        try:
            await self._wait(began, reading, None)
            yield self._batch()
            while True:
                await self._wait(self._has_rows, reading, _MAX_SILENCE_S)
                # What arrives right after the first message goes with it.
                await asyncio.sleep(self._limits.interval_s)
                yield self._batch()
        finally:
            if not reading.done():
                reading.cancel()
                # Not awaited itself: a second cancel of ours would interrupt its cleanup.
                await asyncio.wait({reading})
            if not reading.cancelled():
                reading.exception()  # retrieved, so that asyncio does not log it

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
            self._has_rows.clear()
        rows.sort(key=lambda row: row.stored_ms)
        return TailBatch(rows, self._scanned, self._matched, self._skipped, len(self._positions))

    async def _read_forever(self, began: asyncio.Event) -> None:
        """Read, with another consumer whenever the queues of the topic changed."""
        while True:
            async with QueueBrowser(
                self._config, pull_batch=128, queue_messages=2 * self._limits.scanned, queue_bytes=512 << 10
            ) as puller:
                await self._find_queues(puller)
                puller.assign(self._positions, tags=self._filter.tags)
                for queue, position in self._positions.items():
                    await puller.seek(queue, position)
                began.set()
                await self._read(puller)
                self._reached |= self._positions

    async def _find_queues(self, puller: PullConsumer) -> None:
        topic = self._filter.topic
        queues = parse_queues(topic, self._filter.queues, await puller.queues(topic))
        if len(queues) > _MAX_QUEUES:
            raise ConfigurationError(
                f"topic {topic!r} has {len(queues)} queues", next_step=f"choose {_MAX_QUEUES} of them at most"
            )
        new = [queue for queue in queues if queue not in self._reached]
        found = await (puller.begins(new) if self._reached else puller.ends(new))
        self._reached |= found
        self._positions = {queue: self._reached[queue] for queue in queues}

    async def _read(self, puller: PullConsumer) -> None:
        """Read until the queues of the topic have changed."""
        loop = asyncio.get_running_loop()
        ends_polled = queues_listed = loop.time()
        while True:
            began = loop.time()
            budget = self._limits.scanned
            while budget > 0 and (rest_s := began + self._limits.interval_s - loop.time()) > 0:
                polled = await puller.poll(timeout_s=rest_s, most=budget)
                puller.forget()
                self._add_polled(polled)
                budget -= len(polled)
            # Others need the loop too: more messages wait for the next interval.
            await asyncio.sleep(max(0.0, began + self._limits.interval_s - loop.time()))
            if loop.time() - ends_polled > self._limits.end_poll_s:
                ends_polled = loop.time()
                try:
                    await self._catch_up(puller)
                    self.failure = None
                except TransportError as error:
                    self.failure = PollFailure(error)
            if self._filter.queues is None and loop.time() - queues_listed > self._limits.queue_poll_s:
                queues_listed = loop.time()
                with suppress(TransportError):
                    if set(await puller.queues(self._filter.topic)) != set(self._positions):
                        return

    def _add_polled(self, polled: Iterable[ReceivedMessage]) -> None:
        topic, key = self._filter.topic, self._filter.key
        for message in polled:
            self._scanned += 1
            queue = Queue(topic, message.queue.broker, message.queue.queue_id)
            self._positions[queue] = message.offset + 1
            if not self._has_tag(message.tags) or (key and key not in message.keys):
                continue
            if self._has_text(message.body):
                self._matched += 1
                self._rows.append(message_row(topic, message))
        while len(self._rows) > self._limits.buffered:
            self._rows.popleft()
            self._skipped += 1
        if self._rows:
            self._has_rows.set()

    async def _catch_up(self, puller: PullConsumer) -> None:
        """Skip to the end of queues that grow faster than they can be scanned."""
        for queue, end in (await puller.ends(self._positions)).items():
            position = await puller.position(queue)
            self._positions[queue] = position
            if end - position > self._limits.max_behind:
                ahead = end - self._limits.sent
                self._skipped += ahead - position
                self._positions[queue] = ahead
                await puller.seek(queue, ahead)


_MAX_TAILS = 16  # at a time: each has its own connections to the brokers
_CACHE_KEY = "tails"


@stream_route("/api/tail")
async def _tail(context: DashboardContext, request: ApiRequest) -> AsyncIterator[TailBatch | PollFailure]:
    wanted = TailFilter(
        request.required_text("topic"),
        request.text("queue"),
        request.text("tag"),
        request.text("key"),
        request.text("text"),
    )
    tails: set[Tail] = context.cache.setdefault(_CACHE_KEY, set())
    if len(tails) >= _MAX_TAILS:
        raise ConfigurationError(f"{len(tails)} tails are open, which is the limit", next_step="close one of them")
    tail = Tail(context.client_config, wanted, spawn=context.spawn)
    tails.add(tail)
    batches = tail.batches()
    try:
        async for batch in batches:
            yield batch
            if tail.failure is not None:
                yield tail.failure
    finally:
        tails.discard(tail)
        await batches.aclose()


ROUTES = (_tail,)
