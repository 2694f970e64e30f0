"""`make bench`: every benchmark of this folder as one table. Leave the machine alone while it runs."""

import os
import sys

from rich.console import Console
from rich.table import Table

from bench import allocators, codec


def main() -> int:
    """Run all and print the table; the exit code says whether every goal was met."""
    console = Console()
    load = os.getloadavg()[0]
    console.print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, load {load:.1f} before the run")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("what", "ours", "beside it", "ratio", "goal", ""):
        table.add_column(heading, no_wrap=True)
    missed = 0
    for bench in (codec, allocators):
        for row in bench.run():
            missed += not row.met
            table.add_row(row.what, row.ours, row.beside, row.ratio, row.goal, "" if row.met else "missed")
    console.print(table)
    if missed:
        console.print(f"{missed} goals missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
