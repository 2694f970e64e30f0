"""What `/metrics` answers: the numbers of the cluster that runs in this process, or what one elsewhere lets be seen.

Whoever scrapes more often than every few seconds gets the same answer again, and only one look is under way at a time:
a cluster elsewhere is asked many questions for one answer, and must not be asked more the more people scrape.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Protocol

from steelyard.client.admin.admin import Admin
from steelyard.dashboard.desk import LocalMeasures
from steelyard.dashboard.numbers.from_outside import measure_from_outside
from steelyard.model.exposition import Exposition
from steelyard.model.exposition import exposition as written
from steelyard.model.measures import Family
from steelyard.net.clock import steady_ms

__all__ = ["Measured", "exposition"]

_HERE_MS, _ELSEWHERE_MS = 1_000, 10_000
"""How long an answer is good: by then nobody scrapes anew, or asks a cluster elsewhere again."""

_KEPT = "measures"


class Measured(Protocol):
    """What is needed of a desk."""

    admin: Admin
    local_measures: LocalMeasures | None
    kept: dict[str, Any]


@dataclass(slots=True)
class _Last:
    """The last look, and whether one is under way."""

    families: list[Family] = field(default_factory=list)
    until_ms: int = 0
    looking: asyncio.Lock = field(default_factory=asyncio.Lock)


async def exposition(desk: Measured, accept: str = "") -> tuple[str, str]:
    """Return what there is to tell, written as a reader with this Accept header wants it, and its content type."""
    last: _Last = desk.kept.setdefault(_KEPT, _Last())
    async with last.looking:
        if steady_ms() >= last.until_ms:
            here = desk.local_measures
            last.families = await (measure_from_outside(desk.admin) if here is None else here())
            last.until_ms = steady_ms() + (_ELSEWHERE_MS if here is None else _HERE_MS)
    way = Exposition.accepted(accept)
    return written(last.families, way), way.value
