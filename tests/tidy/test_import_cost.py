"""Importing `steelyard` is cheap, and brings in nothing that only some need.

The one timing that is a test. It counts processor time and not the time on the wall, takes the best of several runs of
each, and runs the two in turn: a busy machine makes all of them slower, but not the difference of the best.
"""

import os
import sys
from pathlib import Path

_MOST_MS = 60
_RUNS = 7
_ONLY_FOR_SOME = ("pyspark", "pyarrow", "numpy", "starlette", "uvicorn", "rich", "typer", "uvloop", "asyncio")


def test_importing_steelyard_costs_little() -> None:
    bare, ours = [], []
    _processor_ms("import steelyard")  # once for the compiled files, which only the first run has to write
    for _ in range(_RUNS):
        bare.append(_processor_ms("pass"))
        ours.append(_processor_ms("import steelyard"))
    cost_ms = min(ours) - min(bare)
    assert cost_ms < _MOST_MS, (
        f"`import steelyard` takes {cost_ms:.0f} ms over bare Python, and {_MOST_MS} is the most: "
        "see `python -X importtime -c 'import steelyard'` and import what costs in the function that needs it"
    )


def test_importing_steelyard_brings_in_only_what_everybody_needs(tmp_path: Path) -> None:
    listed = tmp_path / "modules"
    _processor_ms(f"import sys, steelyard; print(*sys.modules, file=open({str(listed)!r}, 'w'))")
    loaded = listed.read_text(encoding="utf-8").split()
    assert "steelyard" in loaded
    unwanted = sorted(set(_ONLY_FOR_SOME).intersection(loaded))
    assert not unwanted, f"`import steelyard` loads {', '.join(unwanted)}: import it in the function that needs it"


def _processor_ms(code: str) -> float:
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    child = os.posix_spawn(sys.executable, [sys.executable, "-c", code], environment)
    _, status, usage = os.wait4(child, 0)
    assert status == 0, f"`python -c {code!r}` failed"
    return (usage.ru_utime + usage.ru_stime) * 1000
