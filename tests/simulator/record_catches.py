"""Record what a hunt found: `python -m simulator --hunt --output json | python -m tests.simulator.record_catches`.

The seeds go to `simulator/mutants/hunt.py`, the table to `docs/reliability.md`.
"""

import re
import sys
from pathlib import Path
from typing import TypedDict

import msgspec

from simulator.mutants.catalog import MUTANTS

_ROOT = Path(__file__).parents[2]
_CATCHES = _ROOT / "simulator" / "mutants" / "hunt.py"
_PAGE = _ROOT / "docs" / "reliability.md"
_ROWS = re.compile(r"(?<=CATCHES: dict\[str, tuple\[str, int\]\] = \{\n).*?(?=^\}$)", re.DOTALL | re.MULTILINE)
_TABLE = re.compile(r"(?<=<!-- planted: begin -->\n).*(?=\n<!-- planted: end -->)", re.DOTALL)


class Found(TypedDict):
    """What a hunt found of one mutant."""

    checker: str
    kind: str
    seed: int
    histories: int


def shown(text: str) -> str:
    """Return the table of mutants on the page."""
    found = _TABLE.search(text)
    assert found is not None, f"{_PAGE.name} has no place for the table of planted bugs"
    return found[0]


def table(catches: dict[str, tuple[str, int]]) -> str:
    """Format the table of mutants."""
    rows = ["| planted bug | what goes wrong | found by | kind and seed |", "|---|---|---|---|"]
    for name, bug in MUTANTS.items():
        checker, seed = catches[name]
        rows.append(f"| `{name}` | {bug.sentence} | {checker} | {bug.kind_of(seed)} {seed} |")
    return "\n".join(rows)


def record(catches: dict[str, tuple[str, int]]) -> None:
    """Rewrite both files."""
    rows = "".join(f'    "{name}": ("{checker}", {seed}),\n' for name, (checker, seed) in catches.items())
    _CATCHES.write_text(_ROWS.sub(lambda _: rows, _CATCHES.read_text(encoding="utf-8")), encoding="utf-8")
    page = _PAGE.read_text(encoding="utf-8")
    _PAGE.write_text(_TABLE.sub(lambda _: table(catches), page), encoding="utf-8")


if __name__ == "__main__":
    hunted = msgspec.json.decode(sys.stdin.buffer.read(), type=dict[str, Found | None])
    if missed := [name for name, found in hunted.items() if found is None]:
        sys.exit(f"nothing is recorded, since nothing found {', '.join(missed)}")
    record({name: (found["checker"], found["seed"]) for name, found in hunted.items() if found is not None})
