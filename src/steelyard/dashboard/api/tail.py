"""The live tail: a topic's new messages as they come, with a filter."""

from collections.abc import AsyncIterator

from steelyard.dashboard.asking import Ask
from steelyard.dashboard.desk import Desk
from steelyard.dashboard.message.tailing import Tail, TailBatch, Wanted
from steelyard.dashboard.routes import streams
from steelyard.dashboard.watching import Trouble
from steelyard.errors import ConfigurationError

__all__ = ["ROUTES"]

_MOST_TAILS = 16
"""At a time: each has lines of its own to the brokers."""
_OPEN = "tails"


@streams("/api/tail")
async def _tail(desk: Desk, ask: Ask) -> AsyncIterator[TailBatch | Trouble]:
    wanted = Wanted(ask.wanted("topic"), ask.text("queue"), ask.text("tag"), ask.text("key"), ask.text("text"))
    is_open: set[Tail] = desk.kept.setdefault(_OPEN, set())
    if len(is_open) >= _MOST_TAILS:
        raise ConfigurationError(
            f"{len(is_open)} tails are open, which is as many as there may be", next_step="close one of them"
        )
    tail = Tail(desk.connect, wanted, spawn=desk.spawn)
    is_open.add(tail)
    batches = tail.batches()
    try:
        async for batch in batches:
            yield batch
            if tail.trouble is not None:
                yield tail.trouble
    finally:
        is_open.discard(tail)
        await batches.aclose()


ROUTES = (_tail,)
