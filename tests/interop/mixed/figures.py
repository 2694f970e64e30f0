"""Figures that tests found, as a table for people and as a file for whoever quotes them."""

import json
import os
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path

Row = Mapping[str, object]


def show(title: str, rows: Sequence[Row], folder: Path) -> None:
    """Print rows under each other, and add them to the file of figures.

    The file is `figures.jsonl` in the folder that STEELYARD_FIGURES names, or in the one that is given: the test's own.
    """
    columns = list(dict.fromkeys(name for row in rows for name in row))
    table = [columns, *([_written(row.get(name)) for name in columns] for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(columns))]
    print(f"\n{title}")
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    folder = Path(os.environ.get("STEELYARD_FIGURES") or folder)
    with (folder / "figures.jsonl").open("a") as file:
        file.write(json.dumps({"title": title, "rows": [dict(row) for row in rows]}) + "\n")


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that so large a share of the values does not exceed.

    >>> percentile([3, 1, 2], 0.5), percentile([3, 1, 2], 0.99)
    (2, 3)
    """
    return sorted(values)[max(0, ceil(share * len(values)) - 1)]


def _written(value: object) -> str:
    return "" if value is None else str(value)
