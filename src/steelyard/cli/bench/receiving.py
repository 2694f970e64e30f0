"""`steelyard bench receive`: how many messages a second can be read, and how old they are when they come.

It reads every queue without being in a group, and leaves nothing behind. How old a message is counts only if it was
born while this runs: that is what somebody else sends meanwhile, or this itself with ``--rate``.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.bench.figures import Figures
from steelyard.cli.bench.load import Load, send_load, tell_until
from steelyard.cli.bench.options import Count, Duration, OwnQueues, Rate, Size
from steelyard.cli.bench.scratch import topic_for
from steelyard.cli.frame.arguments import SomeTopic
from steelyard.cli.frame.ending import Ending, until_told
from steelyard.cli.frame.exits import Exit
from steelyard.cli.frame.logs import log_on_stderr
from steelyard.cli.frame.moments import seconds
from steelyard.cli.frame.output import Out
from steelyard.cli.frame.screen import note, refuse
from steelyard.cli.frame.where import Where, at_cluster
from steelyard.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from steelyard.client.connect import Connect
    from steelyard.client.pulling.puller import Puller
    from steelyard.model import Queue

__all__ = ["bench_receive"]

_OWN_COUNT = 100_000
_OWN_S = 10.0
_FILL_TOGETHER = 100
_FILL_IN_FLIGHT = 8
_POLL_S = 0.2
_MOST = 1_000
_PULLED = 256
_PATIENCE_S = 10.0
"""How long to wait for what was sent and does not come."""


@dataclass(frozen=True, slots=True)
class _Wish:
    """What to read, and when it is enough."""

    start: str
    count: int | None
    duration_s: float | None


@at_cluster
def bench_receive(
    where: Where,
    out: Out,
    topic: SomeTopic = None,
    start: Annotated[
        str, typer.Option("--from", metavar="first|last", help="Of a topic that is there: from where on.")
    ] = "first",
    size: Size = 100,
    count: Count = None,
    duration: Duration = None,
    rate: Rate = None,
    queues: OwnQueues = 8,
) -> None:
    """Measure receiving: messages a second and megabytes a second, and how old new messages are when they come.

    With TOPIC it reads what is there, up to its end, --count or --duration. Without, it fills a topic of its own with
    --count messages (100000) first, or sends --rate a second to it meanwhile, and deletes it at the end. Ctrl-C ends it
    with the figures so far. The exit code is 1 if something that was sent did not come.
    """
    if start not in ("first", "last"):
        raise ConfigurationError(f"--from is {start!r}", next_step="give first or last")
    if topic is not None and rate is not None:
        raise ConfigurationError(
            "--rate is for a topic of its own",
            next_step=f"to send to {topic}: steelyard bench send {topic} --rate {rate:g}",
        )
    span_s = None if duration is None else seconds(duration)
    if start == "last" and count is None and span_s is None:
        span_s = _OWN_S
    sent, figures = Figures("sent"), Figures("received")
    with log_on_stderr(), until_told() as ending:
        wish = _Wish(start, count, span_s)
        if topic is not None:
            asyncio.run(_read_topic(where.connect(), topic, wish, figures, ending))
        else:
            load = _own_load(size, wish, rate)
            asyncio.run(_read_own(where.connect(), load, queues, sent, figures, ending))
    out.one(figures.values())
    missing = sent.messages - figures.messages
    if missing > 0 and not ending:
        raise typer.Exit(refuse(f"{missing} messages that were sent did not come", Exit.FAILED))
    if sent.failed:
        raise typer.Exit(Exit.FAILED)


def _own_load(size: int, wish: _Wish, rate: float | None) -> Load:
    if rate is not None:
        span_s = wish.duration_s or (None if wish.count else _OWN_S)
        return Load(size, wish.count, span_s, _FILL_IN_FLIGHT * _FILL_TOGETHER, 1, rate)
    return Load(size, wish.count or _OWN_COUNT, wish.duration_s, _FILL_IN_FLIGHT, _FILL_TOGETHER, None)


async def _read_topic(where: "Connect", topic: str, wish: _Wish, figures: Figures, ending: Ending) -> None:
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


async def _read_own(where: "Connect", load: Load, queues: int, sent: Figures, figures: Figures, ending: Ending) -> None:
    from steelyard.client.producing.producer import Producer

    async with topic_for(where, None, queues) as topic, Producer(where, "STEELYARD_BENCH") as producer:
        sending = asyncio.ensure_future(send_load(producer, topic, load, sent, ending))
        if load.rate is None:
            await asyncio.gather(sending, tell_until(sent, sending.done))
            note(f"filled {topic} with {sent.messages} messages")
        async with _puller(where) as puller:
            await _begin(puller, topic, "first", figures)
            patience = _Patience(figures)

            async def is_enough() -> bool:
                return sending.done() and (figures.messages >= sent.messages or patience.is_over())

            everything = _Wish("first", None, None)
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


def _puller(where: "Connect") -> "Puller":
    from steelyard.client.admin.asking import TOOLS_GROUP
    from steelyard.client.pulling.puller import Puller

    # The group of tools is there on every broker; without commits nothing of us is kept.
    return Puller(where, TOOLS_GROUP, auto_commit=False, pull_batch=_PULLED)


async def _begin(puller: "Puller", topic: str, start: str, figures: Figures) -> "list[Queue]":
    queues = await puller.queues(topic)
    puller.assign(queues)
    figures.begin()  # from here on messages come
    for queue in queues:
        await puller.seek(queue, start)
    return queues


async def _read(
    puller: "Puller",
    wish: _Wish,
    figures: Figures,
    is_told: "Callable[[], bool]",
    is_enough: "Callable[[], Awaitable[bool]]",
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
