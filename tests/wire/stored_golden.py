"""Stored messages and batches as Apache's own brokers and clients sent them, cut out of the recorded frames."""

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

_FOLDER = Path(__file__).parent.parent / "golden"
_ANSWERED_WITH_RECORDS = (11, 12, 33, 361, 200050)
_ASKED_WITH_A_RECORD = (39, 309)
_ASKED_WITH_A_BATCH = 320


class Recorded(NamedTuple):
    """One body, and where it was recorded."""

    name: str
    body: bytes


@cache
def record_bodies() -> tuple[Recorded, ...]:
    """Return all recorded bodies that are records back to back."""
    return tuple(
        found
        for answered, code, found in _bodies()
        if answered in _ANSWERED_WITH_RECORDS or (answered is None and code in _ASKED_WITH_A_RECORD)
    )


@cache
def batch_bodies() -> tuple[Recorded, ...]:
    """Return all recorded batches."""
    return tuple(found for answered, code, found in _bodies() if answered is None and code == _ASKED_WITH_A_BATCH)


@cache
def _bodies() -> tuple[tuple[int | None, int, Recorded], ...]:
    bodies: list[tuple[int | None, int, Recorded]] = []
    for version in ("4.9.7", "5.5.0"):
        lines = (_FOLDER / f"frames-{version}.jsonl").read_text().splitlines()
        for number, line in enumerate(lines[1:], start=2):
            row = json.loads(line)
            frame = bytes.fromhex(row["frame_hex"])
            header_bytes = int.from_bytes(frame[5:8], "big")
            body = frame[8 + header_bytes :]
            answered = row["request_code"] if row["response"] else None
            if body:
                bodies.append((answered, row["code"], Recorded(f"{version} line {number} {row['case']}", body)))
    return tuple(bodies)
