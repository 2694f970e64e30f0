"""Importing `steelyard` is cheap, and brings in nothing that only some need.

What an import costs is counted in modules, which is the same on every machine; `make bench` measures the time.
"""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

_MOST_MODULES = 110
_MOST_OF_OURS = 20
_ONLY_FOR_SOME = ("pyspark", "pyarrow", "numpy", "starlette", "uvicorn", "rich", "click", "uvloop", "asyncio")


def test_importing_steelyard_costs_little() -> None:
    added = _modules("steelyard") - _modules("sys")
    ours = {name for name in added if name.split(".")[0] == "steelyard"}
    assert len(ours) <= _MOST_OF_OURS, f"`import steelyard` loads {len(ours)} modules of ours: {sorted(ours)}"
    assert len(added) <= _MOST_MODULES, (
        f"`import steelyard` loads {len(added)} modules: "
        "see `python -X importtime -c 'import steelyard'` and import what costs in the function that needs it"
    )


def test_importing_steelyard_brings_in_only_what_everybody_needs() -> None:
    loaded = _modules("steelyard")
    assert "steelyard" in loaded
    unwanted = sorted(loaded.intersection(_ONLY_FOR_SOME))
    assert not unwanted, f"`import steelyard` loads {', '.join(unwanted)}: import it in the function that needs it"


def _modules(name: str) -> set[str]:
    code = f"import sys, {name}; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())
