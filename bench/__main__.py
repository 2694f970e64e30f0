"""`make bench`: every benchmark of this folder as one table. Leave the machine alone while it runs.

Names (``codec``, ``store``, ``broker`` …) run only those; ``--write`` puts the figures into bench/RESULTS.md, too.
``--quick`` makes the long runs of ``broker``, ``client``, ``spark`` and ``tracing`` short: they show that it works, and
measure nothing.
"""

import sys
from collections.abc import Callable, Iterable
from functools import partial

from rich.console import Console
from rich.table import Table

from bench import (
    allocators,
    balancing,
    broker,
    client,
    codec,
    rebalance,
    requests,
    spark,
    spark_decode,
    startup,
    store,
    tracing,
)
from bench.results import RESULTS, machine, page
from bench.table import Row

_BENCHMARKS: dict[str, Callable[[], Iterable[Row]]] = {
    "codec": codec.run,
    "allocators": allocators.run,
    "balancing": balancing.run,
    "rebalance": rebalance.run,
    "requests": requests.run,
    "store": store.run,
    "broker": broker.run,
    "client": client.run,
    "tracing": tracing.run,
    "decode": spark_decode.run,
    "spark": spark.run,
    "startup": startup.run,
}
_QUICK: dict[str, Callable[[], Iterable[Row]]] = {
    "broker": partial(broker.run, is_quick=True),
    "client": partial(client.run, is_quick=True),
    "spark": partial(spark.run, is_quick=True),
    "tracing": partial(tracing.run, is_quick=True),
}


def main(arguments: list[str]) -> int:
    """Run all and print the table; the exit code says whether every goal was met."""
    # Into a file, lines may be as long as they are.
    console, found_on = Console(width=None if sys.stdout.isatty() else 200), machine()
    console.print(found_on)
    is_kept = "--write" in arguments
    benchmarks = _BENCHMARKS | (_QUICK if "--quick" in arguments else {})
    wanted = [name for name in benchmarks if name in arguments] or list(benchmarks)
    measured = {name: list(benchmarks[name]()) for name in wanted}
    rows = [row for each in measured.values() for row in each]
    console.print(_table(rows))
    if is_kept:
        RESULTS.write_text(page(found_on, measured, RESULTS.read_text(encoding="utf-8")), encoding="utf-8")
    missed = sum(not row.met for row in rows)
    if missed:
        console.print(f"{missed} goals missed")
    return 1 if missed else 0


def _table(rows: list[Row]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("what", "ours", "beside it", "ratio", "goal", ""):
        table.add_column(heading, no_wrap=True)
    for row in rows:
        table.add_row(*row[:5], "" if row.met else "missed")
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
