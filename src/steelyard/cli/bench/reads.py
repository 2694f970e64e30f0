"""Reading for a run: a topic that is there, or one of the run's own while it is filled or before."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.cli.bench.figures import Figures
from steelyard.cli.bench.load import PRODUCERS, Load, send_load, tell_until
from steelyard.cli.bench.scratch import topic_for
from steelyard.cli.frame.screen import note
from steelyard.client.admin.asking import TOOLS_GROUP
from steelyard.client.producing.producer import Producer
from steelyard.client.pulling.puller import Puller

if TYPE_CHECKING:
    from steelyard.cli.frame.ending import Ending
    from steelyard.client.connect import Connect
    from steelyard.model import Queue

__all__ = ["Wish", "read_own", "read_topic"]

_POLL_S = 0.2
_MOST = 1_000
_PULLED = 256
_PATIENCE_S = 10.0
"""How long to wait for what was sent and does not come."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What to read, and when it is enough."""

    start: str
    count: int | None
    duration_s: float | None


async def read_topic(where: "Connect", topic: str, wish: Wish, figures: Figures, ending: "Ending") -> None:
    """Read what is in a topic, until it is enough or somebody says so."""
    async with topic_for(where, topic, 0), _puller(where) as puller:
        queues = await _begin(puller, topic, wish.start, figures)
        ends = await puller.ends(queues)
        to_end = wish.start == "first" and wish.duration_s is None
        unread = set(queues)

        async def is_enough() -> bool:
            nonlocal unread
            if not to_end:
                return False
            unread = {queue for queue in unread if await puller.position(queue) < ends[queue]}
            return not unread

        reading = asyncio.ensure_future(_read(puller, wish, figures, lambda: bool(ending), is_enough))
        await asyncio.gather(reading, tell_until(figures, reading.done))


async def read_own(
    where: "Connect", load: Load, queues: int, sent: Figures, figures: Figures, ending: "Ending"
) -> None:
    """Make a topic, fill it first or meanwhile, and read it to its end."""
    async with topic_for(where, None, queues) as topic, Producer(where, PRODUCERS) as producer:
        sending = asyncio.ensure_future(send_load(producer, topic, load, sent, ending))
        if load.rate is None:
            await asyncio.gather(sending, tell_until(sent, sending.done))
            note(f"filled {topic} with {sent.messages} messages")
        async with _puller(where) as puller:
            await _begin(puller, topic, "first", figures)
            patience = _Patience(figures)

            async def is_enough() -> bool:
                return sending.done() and (figures.messages >= sent.messages or patience.is_over())

            everything = Wish("first", None, None)
            reading = asyncio.ensure_future(_read(puller, everything, figures, lambda: bool(ending), is_enough))
            await asyncio.gather(sending, reading, tell_until(figures, reading.done))


class _Patience:
    """Whether nothing has come for too long."""

    def __init__(self, figures: Figures) -> None:
        self._figures, self._seen, self._since_s = figures, 0, time.monotonic()

    def is_over(self) -> bool:
        if self._figures.messages != self._seen:
            self._seen, self._since_s = self._figures.messages, time.monotonic()
        return time.monotonic() - self._since_s > _PATIENCE_S


def _puller(where: "Connect") -> Puller:
    # The group of tools is there on every broker; without commits nothing of us is kept.
    return Puller(where, TOOLS_GROUP, auto_commit=False, pull_batch=_PULLED, on_unreadable="skip")


async def _begin(puller: Puller, topic: str, start: str, figures: Figures) -> "list[Queue]":
    queues = await puller.queues(topic)
    puller.assign(queues)
    figures.begin()  # from here on messages come
    for queue in queues:
        await puller.seek(queue, start)
    return queues


async def _read(
    puller: Puller,
    wish: Wish,
    figures: Figures,
    is_told: Callable[[], bool],
    is_enough: Callable[[], Awaitable[bool]],
) -> None:
    begin_ms, begin_s = time.time() * 1000, time.monotonic()
    while not is_told() and not await is_enough():
        if wish.duration_s is not None and time.monotonic() - begin_s >= wish.duration_s:
            return
        left = _MOST if wish.count is None else min(_MOST, wish.count - figures.messages)
        if not left:
            return
        found = await puller.poll(timeout_s=_POLL_S, most=left)
        puller.forget()
        if found:
            figures.add(len(found), sum(len(message.body) for message in found))
        now_ms = time.time() * 1000
        for message in found:
            if message.born_ms >= begin_ms:
                figures.latencies.note(round((now_ms - message.born_ms) * 1000))
