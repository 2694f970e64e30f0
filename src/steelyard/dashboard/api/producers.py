"""Who sends, and what each producer knows of each broker: the ledger of latency, live.

A ledger is told by producers of ours that avoid slow brokers, to brokers of ours. Of all others it is not known, and
that is null here, not empty.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime

from msgspec import Struct

from steelyard.client.admin.producers import LedgerRow, ProducerLine
from steelyard.dashboard.asking import Ask
from steelyard.dashboard.desk import Desk
from steelyard.dashboard.routes import streams

__all__ = ["ROUTES", "ProducerRow", "ProducersAnswer", "ranked"]

_PERIOD_MS = 1_000
_MOST_ROWS = 2_000
"""Producers that are shown; all are counted."""


class ProducerRow(Struct, frozen=True):
    """One producer."""

    group: str
    id: str
    address: str
    client: str
    brokers: tuple[str, ...]
    seen_at: datetime | None
    told_at: datetime | None
    ledger: tuple[LedgerRow, ...] | None


class ProducersAnswer(Struct, frozen=True):
    """All producers that brokers know."""

    count: int
    producers: list[ProducerRow]
    brokers: list[str]
    """Those that ledgers know of, by name."""
    command: str


@streams("/api/producers/live")
async def _live(desk: Desk, ask: Ask) -> AsyncIterator[object]:
    del ask

    async def look(_before: ProducersAnswer | None) -> ProducersAnswer:
        return _answer(desk, await desk.admin.producers())

    async for value in desk.watches.watch("producers", _PERIOD_MS, look):
        yield value


def _answer(desk: Desk, found: Sequence[ProducerLine]) -> ProducersAnswer:
    shown = ranked(found)[:_MOST_ROWS]
    brokers = {row.broker for each in shown for row in each.ledger or ()}
    return ProducersAnswer(
        len(found), [_row(each) for each in shown], sorted(brokers), desk.command("producer", "ledger")
    )


def ranked(found: Sequence[ProducerLine]) -> list[ProducerLine]:
    """Put those first that tell most: who walks around a broker must not be cut off."""
    return sorted(found, key=lambda each: (not _avoids_somebody(each), each.ledger is None, each.group, each.id))


def _avoids_somebody(line: ProducerLine) -> bool:
    return any(row.avoided_ms is not None for row in line.ledger or ())


def _row(line: ProducerLine) -> ProducerRow:
    return ProducerRow(
        line.group,
        line.id,
        line.address,
        f"{line.language} {line.release}".strip(),
        line.brokers,
        line.seen_at,
        line.told_at,
        line.ledger,
    )


ROUTES = (_live,)
