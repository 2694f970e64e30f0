"""Looking through a topic for messages, within limits: so many messages, so many bytes, so many seconds.

It is read by a puller that joins no group and commits nothing, a few queues at a time, and only what the page shows of
a message is kept. Forwards from a place or a time, the first that fit are found; else the newest. Where a limit ended
it before everything was looked at, that is said.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from msgspec import Struct

from steelyard.client.connect import Connect
from steelyard.client.consuming.received import Received
from steelyard.client.pulling.peeking import Peek
from steelyard.client.pulling.puller import Puller
from steelyard.dashboard.message.bodies import Row, row_of
from steelyard.errors import ConfigurationError
from steelyard.model import Queue

__all__ = ["Found", "Limits", "Search", "look_through", "queues_of", "wanted_tags", "wanted_text"]

_EndedBy = Literal["messages", "bytes", "seconds"]

_QUEUES_AT_ONCE = 32
_AHEAD = 512
_AHEAD_BYTES = 4 << 20
_POLL_S = 0.05
_POLLED = 512


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is looked at for one question."""

    messages: int = 20_000
    body_bytes: int = 256 << 20
    seconds: float = 8.0


@dataclass(frozen=True, slots=True)
class Search:
    """What is looked for."""

    topic: str
    queue: Queue | None = None
    """None: all of them."""
    start: int | datetime | None = None
    """From this offset of each queue, or this time on; None: the newest."""
    end: datetime | None = None
    tags: str | None = None
    text: str | None = None
    """Has to be in the body; large and small letters of ASCII are the same."""
    count: int = 100
    limits: Limits = Limits()


class Found(Struct, frozen=True):
    """What was found."""

    rows: list[Row]
    """The oldest first."""
    looked: int
    """Offsets that were looked at."""
    left: int
    """Offsets that were not, of those that could have been."""
    ended_by: _EndedBy | None
    """The limit that ended it; None if none did."""


@dataclass(slots=True)
class _Span:
    """The part of a queue that is looked at."""

    first: int
    """The lowest offset that could be looked at."""
    start: int
    end: int
    rows: deque[tuple[tuple[int, str, int], Row]]
    """With what orders them: time, broker, position in its log."""
    is_done: bool = False
    looked: int = 0


@dataclass(slots=True)
class _Budget:
    """What is left of the limits."""

    messages: int
    body_bytes: int
    until_s: float
    ended_by: _EndedBy | None = None

    def is_used_up(self, now_s: float) -> bool:
        """Say whether one of the limits was reached, and remember which."""
        if self.ended_by is None:
            if self.body_bytes <= 0:
                self.ended_by = "bytes"
            elif self.messages <= 0:
                self.ended_by = "messages"
            elif now_s >= self.until_s:
                self.ended_by = "seconds"
        return self.ended_by is not None


def wanted_text(text: str | None) -> Callable[[bytes], object]:
    """Return what says whether a text is in a body.

    >>> bool(wanted_text("Paid")(b"it was paid")), bool(wanted_text("é")("É".encode()))
    (True, False)
    """
    if not text:
        return lambda _body: True
    return re.compile(re.escape(text.encode(errors="replace")), re.IGNORECASE).search


def wanted_tags(tags: str | None) -> Callable[[str | None], bool]:
    """Return what says whether a tag is one of those wanted: a broker compares only their hashes.

    >>> wanted_tags("paid || refunded")("refunded"), wanted_tags("paid")(None), wanted_tags(None)("any")
    (True, False, True)
    """
    if not tags or tags.strip() == "*":
        return lambda _tag: True
    return {tag.strip() for tag in tags.split("||")}.__contains__


def queues_of(topic: str, listed: str | None, known: Sequence[Queue]) -> list[Queue]:
    """Return the queues that are named as ``broker-0:3,broker-0:4``; all, if none is.

    >>> queues_of("orders", "a:1", [Queue("orders", "a", 0), Queue("orders", "a", 1)])
    [Queue(topic='orders', broker='a', queue_id=1)]
    """
    if not listed:
        return list(known)
    by_name = {f"{each.broker}:{each.queue_id}": each for each in known}
    names = [name.strip() for name in listed.split(",")]
    for name in names:
        if name not in by_name:
            raise ConfigurationError(
                f"topic {topic!r} has no queue {name[:80]!r}",
                next_step=f"write it as BROKER:ID; it has {', '.join(list(by_name)[:20]) or 'none that can be read'}",
            )
    return [by_name[name] for name in dict.fromkeys(names)]


async def look_through(connect: Connect, search: Search) -> Found:
    """Look for messages until enough were found, all was looked at, or a limit was reached."""
    loop, limits = asyncio.get_running_loop(), search.limits
    budget = _Budget(limits.messages, limits.body_bytes, loop.time() + limits.seconds)
    async with _puller(connect) as puller:
        queues = [search.queue] if search.queue is not None else await puller.queues(search.topic)
        begins, ends = await asyncio.gather(puller.begins(queues), puller.ends(queues))
        has_filter = bool(search.tags or search.text)
        depth = max(1, limits.messages // max(1, len(queues))) if has_filter else search.count
        spans = {queue: await _span(puller, queue, begins[queue], ends[queue], search, depth=depth) for queue in queues}
    unread = [queue for queue in queues if spans[queue].start < spans[queue].end]
    while unread and not budget.is_used_up(loop.time()):
        part, unread = unread[:_QUEUES_AT_ONCE], unread[_QUEUES_AT_ONCE:]
        async with _puller(connect) as puller:
            await _read(puller, {queue: spans[queue] for queue in part}, search, budget)
    merged = sorted((each for span in spans.values() for each in span.rows), key=lambda each: each[0])
    chosen = merged[-search.count :] if search.start is None else merged[: search.count]
    looked = sum(span.looked for span in spans.values())
    left = sum(max(0, span.end - span.first) for span in spans.values()) - looked
    return Found([row for _, row in chosen], looked, max(0, left), budget.ended_by)


def _puller(connect: Connect) -> Peek:
    return Peek(connect, pull_batch=256, queue_messages=_AHEAD, queue_bytes=_AHEAD_BYTES)


async def _span(puller: Puller, queue: Queue, begin: int, end: int, search: Search, *, depth: int) -> _Span:
    """Say which offsets of a queue are looked at."""
    first = begin
    if isinstance(search.start, int):
        first = max(begin, search.start)
    elif search.start is not None:
        first = max(begin, await puller.offset_at(queue, search.start))
    if search.end is not None:
        # Where all are older a broker tells the last one, so one more is looked at.
        end = min(end, 1 + await puller.offset_at(queue, search.end))
    start = max(begin, end - depth) if search.start is None else first
    return _Span(first, start, end, deque(maxlen=search.count))


async def _read(puller: Puller, spans: dict[Queue, _Span], search: Search, budget: _Budget) -> None:
    loop = asyncio.get_running_loop()
    puller.assign(spans, tags=search.tags)
    for queue, span in spans.items():
        await puller.seek(queue, span.start)
    has_tag, has_text = wanted_tags(search.tags), wanted_text(search.text)
    end_ms = None if search.end is None else search.end.timestamp() * 1000
    start_ms = search.start.timestamp() * 1000 if isinstance(search.start, datetime) else 0
    unread = set(spans)
    while unread and not budget.is_used_up(loop.time()):
        for message in await puller.poll(timeout_s=_POLL_S, most=_POLLED):
            budget.body_bytes -= len(message.body)
            span = spans[Queue(search.topic, message.queue.broker, message.queue.queue_id)]
            if message.offset >= span.end or (end_ms is not None and message.stored_ms >= end_ms):
                span.is_done = True
            elif span.is_done or message.stored_ms < start_ms:
                continue
            elif has_tag(message.tags) and has_text(message.body):
                _keep(span, search, message)
        puller.forget()
        for queue in list(unread):
            span, position = spans[queue], await puller.position(queue)
            looked = max(span.looked, min(position, span.end) - span.start)
            budget.messages -= looked - span.looked
            span.looked = looked
            if span.is_done or position >= span.end:
                unread.discard(queue)
                puller.pause([queue])
        # Comparing is work of the loop that everybody who watches shares.
        await asyncio.sleep(0)


def _keep(span: _Span, search: Search, message: Received) -> None:
    order = (message.stored_ms, message.queue.broker, message.position)
    span.rows.append((order, row_of(search.topic, message)))
    if search.start is not None and len(span.rows) == search.count:
        span.is_done = True
