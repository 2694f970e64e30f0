"""Answers of the real Java allocation classes; what produced them is told inside the file."""

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

from steelyard.model import Queue


class GoldenAllocation(NamedTuple):
    """One case: queues and members in order, and for each strategy the places of each member's queues."""

    queues: list[Queue]
    members: list[str]
    shares: dict[str, dict[str, list[int]]]


@cache
def golden_allocations() -> tuple[GoldenAllocation, ...]:
    """Read all cases."""
    read = json.loads((Path(__file__).parent / "golden" / "allocation.json").read_text())
    return tuple(
        GoldenAllocation([Queue(*queue) for queue in case["mqAll"]], case["cidAll"], case["alloc"])
        for case in read["cases"]
    )
