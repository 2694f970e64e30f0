"""Frames recorded between real Apache RocketMQ peers, 4.9 and 5.5; how they were made is told in their first line."""

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

_FOLDER = Path(__file__).parent / "golden"
_POP_CODES = frozenset({200050, 200051, 200053, 200054, 200151})


class GoldenFrame(NamedTuple):
    """One recorded frame; ``request_code`` is that of the request answered, or its own."""

    release: str
    case: str
    code: int
    is_answer: bool
    request_code: int
    frame: bytes

    def __str__(self) -> str:
        return f"{self.release}-{self.case}-{self.request_code}{'-answer' if self.is_answer else ''}"


@cache
def golden_frames() -> tuple[GoldenFrame, ...]:
    """Read all recorded frames, in the order they were seen."""
    frames: list[GoldenFrame] = []
    for release in ("4.9.7", "5.5.0"):
        lines = (_FOLDER / f"frames-{release}.jsonl").read_text().splitlines()
        for row in map(json.loads, lines[1:]):
            asked = row.get("request_code", row["code"])
            frame = bytes.fromhex(row["frame_hex"])
            frames.append(GoldenFrame(release, row["case"], row["code"], row["response"], asked, frame))
    return tuple(frames)


def spoken_frames() -> list[GoldenFrame]:
    """Return the frames whose fields and bodies have types here: all but those of POP, which we refuse."""
    return [golden for golden in golden_frames() if golden.request_code not in _POP_CODES]
