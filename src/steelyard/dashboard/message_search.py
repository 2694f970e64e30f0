"""Searching a topic for messages, within limits on messages, bytes and seconds.

A pull consumer that joins no group and commits nothing reads a few queues at a time. From an offset or a time on, the
search finds the first matches; else the newest. If a limit ended it, the result says so.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from msgspec import Struct

from steelyard.client.config import ClientConfig
from steelyard.client.consumer.received_message import ReceivedMessage
from steelyard.client.pull_consumer.pull_consumer import PullConsumer
from steelyard.client.pull_consumer.queue_browser import QueueBrowser
from steelyard.dashboard.message_view import MessageRow, message_row
from steelyard.errors import ConfigurationError
from steelyard.model import Queue

_Limit = Literal["messages", "bytes", "seconds"]

_QUEUES_AT_ONCE = 32
_PREFETCH_MESSAGES = 512
_PREFETCH_BYTES = 4 << 20
_POLL_S = 0.05
_POLL_MESSAGES = 512


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """How much one search may scan."""

    messages: int = 20_000
    body_bytes: int = 256 << 20
    seconds: float = 8.0


@dataclass(frozen=True, slots=True)
class MessageSearch:
    """What to search for."""

    topic: str
    queue: Queue | None = None  # None: all queues
    start: int | datetime | None = None  # from this offset of each queue, or this time on; None: the newest
    end: datetime | None = None
    tags: str | None = None
    text: str | None = None  # must be in the body; ASCII letters match in either case
    count: int = 100
    limits: SearchLimits = SearchLimits()


class SearchResult(Struct, frozen=True):
    """What was found."""

    rows: list[MessageRow]  # the oldest first
    scanned: int  # offsets that were scanned
    remaining: int  # offsets that could have been scanned and were not
    limit_reached: _Limit | None  # the limit that ended it; None if none did


@dataclass(slots=True)
class _QueueScan:
    """The part of a queue that is scanned."""

    first: int  # the lowest offset that could be scanned
    start: int
    end: int
    rows: deque[tuple[tuple[int, str, int], MessageRow]]  # each with its sort key: time, broker, position in its log
    is_done: bool = False
    scanned: int = 0


@dataclass(slots=True)
class _SearchBudget:
    """What is left of the limits."""

    messages: int
    body_bytes: int
    until_s: float
    limit_reached: _Limit | None = None

    def is_exhausted(self, now_s: float) -> bool:
        """Say whether a limit was reached, and remember which."""
        if self.limit_reached is None:
            if self.body_bytes <= 0:
                self.limit_reached = "bytes"
            elif self.messages <= 0:
                self.limit_reached = "messages"
            elif now_s >= self.until_s:
                self.limit_reached = "seconds"
        return self.limit_reached is not None


def text_filter(text: str | None) -> Callable[[bytes], object]:
    """Return a predicate that finds a text in a body.

    >>> bool(text_filter("Paid")(b"it was paid")), bool(text_filter("é")("É".encode()))
    (True, False)
    """
    if not text:
        return lambda _body: True
    return re.compile(re.escape(text.encode(errors="replace")), re.IGNORECASE).search


def tag_filter(tags: str | None) -> Callable[[str | None], bool]:
    """Return a predicate that accepts the wanted tags: brokers compare only their hashes.

    >>> tag_filter("paid || refunded")("refunded"), tag_filter("paid")(None), tag_filter(None)("any")
    (True, False, True)
    """
    if not tags or tags.strip() == "*":
        return lambda _tag: True
    return {tag.strip() for tag in tags.split("||")}.__contains__


def parse_queues(topic: str, listed: str | None, known: Sequence[Queue]) -> list[Queue]:
    """Parse a list of queues such as ``broker-0:3,broker-0:4``; none means all.

    >>> parse_queues("orders", "a:1", [Queue("orders", "a", 0), Queue("orders", "a", 1)])
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


async def search_messages(config: ClientConfig, search: MessageSearch) -> SearchResult:
    """Scan until enough messages were found, all was scanned, or a limit was reached."""
    loop, limits = asyncio.get_running_loop(), search.limits
    budget = _SearchBudget(limits.messages, limits.body_bytes, loop.time() + limits.seconds)
    async with _open_puller(config) as puller:
        queues = [search.queue] if search.queue is not None else await puller.queues(search.topic)
        begins, ends = await asyncio.gather(puller.begins(queues), puller.ends(queues))
        has_filter = bool(search.tags or search.text)
        depth = max(1, limits.messages // max(1, len(queues))) if has_filter else search.count
        spans = {
            queue: await _queue_scan(puller, queue, begins[queue], ends[queue], search, depth=depth) for queue in queues
        }
    unread = [queue for queue in queues if spans[queue].start < spans[queue].end]
    while unread and not budget.is_exhausted(loop.time()):
        part, unread = unread[:_QUEUES_AT_ONCE], unread[_QUEUES_AT_ONCE:]
        async with _open_puller(config) as puller:
            await _scan(puller, {queue: spans[queue] for queue in part}, search, budget)
    merged = sorted((each for span in spans.values() for each in span.rows), key=lambda each: each[0])
    chosen = merged[-search.count :] if search.start is None else merged[: search.count]
    scanned = sum(span.scanned for span in spans.values())
    remaining = sum(max(0, span.end - span.first) for span in spans.values()) - scanned
    return SearchResult([row for _, row in chosen], scanned, max(0, remaining), budget.limit_reached)


def _open_puller(config: ClientConfig) -> QueueBrowser:
    return QueueBrowser(config, pull_batch=256, queue_messages=_PREFETCH_MESSAGES, queue_bytes=_PREFETCH_BYTES)


async def _queue_scan(
    puller: PullConsumer, queue: Queue, begin: int, end: int, search: MessageSearch, *, depth: int
) -> _QueueScan:
    """Return the offsets of a queue to scan."""
    first = begin
    if isinstance(search.start, int):
        first = max(begin, search.start)
    elif search.start is not None:
        first = max(begin, await puller.offset_at(queue, search.start))
    if search.end is not None:
        # If all are older, a broker returns the last offset, so one more is scanned.
        end = min(end, 1 + await puller.offset_at(queue, search.end))
    start = max(begin, end - depth) if search.start is None else first
    return _QueueScan(first, start, end, deque(maxlen=search.count))


async def _scan(
    puller: PullConsumer, spans: dict[Queue, _QueueScan], search: MessageSearch, budget: _SearchBudget
) -> None:
    loop = asyncio.get_running_loop()
    puller.assign(spans, tags=search.tags)
    for queue, span in spans.items():
        await puller.seek(queue, span.start)
    has_tag, has_text = tag_filter(search.tags), text_filter(search.text)
    end_ms = None if search.end is None else search.end.timestamp() * 1000
    start_ms = search.start.timestamp() * 1000 if isinstance(search.start, datetime) else 0
    unread = set(spans)
    while unread and not budget.is_exhausted(loop.time()):
        for message in await puller.poll(timeout_s=_POLL_S, most=_POLL_MESSAGES):
            budget.body_bytes -= len(message.body)
            span = spans[Queue(search.topic, message.queue.broker, message.queue.queue_id)]
            if message.offset >= span.end or (end_ms is not None and message.stored_ms >= end_ms):
                span.is_done = True
            elif span.is_done or message.stored_ms < start_ms:
                continue
            elif has_tag(message.tags) and has_text(message.body):
                _keep_row(span, search, message)
        puller.forget()
        for queue in list(unread):
            span, position = spans[queue], await puller.position(queue)
            scanned = max(span.scanned, min(position, span.end) - span.start)
            budget.messages -= scanned - span.scanned
            span.scanned = scanned
            if span.is_done or position >= span.end:
                unread.discard(queue)
                puller.pause([queue])
        # Matching blocks the loop that all requests share.
        await asyncio.sleep(0)


def _keep_row(span: _QueueScan, search: MessageSearch, message: ReceivedMessage) -> None:
    order = (message.stored_ms, message.queue.broker, message.position)
    span.rows.append((order, message_row(search.topic, message)))
    if search.start is not None and len(span.rows) == search.count:
        span.is_done = True
