"""The figures of a run as a page: bench/RESULTS.md, written by ``python -m bench --write`` and by nothing else."""

import os
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.table import Row

RESULTS = Path(__file__).with_name("RESULTS.md")
_HEAD = """# Measured

Refreshed by `python -m bench --write`, all of it or the benchmarks that are named; `make bench` only prints.

Each figure stands beside another way to do the same, measured in the same run, so that the ratio holds on
a busy machine too. CPU time, the best of a few runs, where the processor is the question; wall time where
the disk is, for syncs and for opening a store whose files are in the page cache, and for what brokers serve."""
_HEADINGS = ("what", "ours", "beside it, in the same run", "ratio", "goal", "reached")


def machine() -> str:
    """Return what the figures were measured on, and how busy it is now."""
    load = os.getloadavg()[0]
    return f"Python {sys.version.split()[0]}, {_processor()}, {os.cpu_count()} cores, load {load:.1f} before the run"


def page(found_on: str, rows: Mapping[str, Sequence[Row]], before: str = "") -> str:
    """Write a page of tables, one for each benchmark; those that did not run stay as they are on the page before."""
    sections = {part.partition(":")[0]: part.strip("\n") for part in before.split("\n## ")[1:]}
    sections |= {name: _section(name, found_on, measured) for name, measured in rows.items()}
    return "\n\n## ".join([_HEAD, *sections.values()]) + "\n"


def _section(name: str, found_on: str, measured: Sequence[Row]) -> str:
    missed = sum(not row.met for row in measured)
    lines = [f"{name}: {len(measured) - missed} of {len(measured)} goals reached", ""]
    lines += [f"{datetime.now(UTC):%Y-%m-%d}, {found_on}.", "", _line(_HEADINGS), _line("---" for _ in _HEADINGS)]
    lines += [_line((*row[:5], "yes" if row.met else "**no**")) for row in measured]
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _processor() -> str:
    """Return the name of the processor where the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()
