"""Killing a process with all that it started, at once: Spark's Java is in a session of its own, and has children."""

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

__all__ = ["kill_family"]

_PROC = Path("/proc")
_GONE_S = 5.0
_LOOK_S = 0.02


def kill_family(pid: int) -> None:
    """Kill -9 a process, its children, and theirs, and wait until they are gone; one that was gone before is fine."""
    family: set[int] = set()
    more = {pid}
    while more:
        family |= more
        _signal(more, signal.SIGSTOP)  # so that they start nothing while they are looked at
        more = {child for child, parent in _parents().items() if parent in family} - family
    _signal(family, signal.SIGKILL)
    end = time.monotonic() + _GONE_S
    # The child itself stays listed until whoever started it has asked how it ended.
    while (family - {pid}) & _parents().keys() and time.monotonic() < end:
        time.sleep(_LOOK_S)


def _signal(family: set[int], number: signal.Signals) -> None:
    for member in sorted(family):
        with suppress(ProcessLookupError):
            os.kill(member, number)


def _parents() -> dict[int, int]:
    """Return the parent of every process that still runs: as /proc has it, else (on a Mac) as ps says."""
    if (_PROC / "self" / "stat").exists():
        lines = [_stat(directory) for directory in _PROC.iterdir() if directory.name.isdigit()]
    else:
        asked = [shutil.which("ps") or "ps", "-A", "-o", "pid=,state=,ppid="]
        lines = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [line.split() for line in lines if line]
    return {int(child): int(parent) for child, state, parent, *_ in rows if not state.startswith("Z")}


def _stat(directory: Path) -> str:
    """Return a process's number, state and parent; nothing if it is gone by now. Its name may hold anything."""
    try:
        text = (directory / "stat").read_text(errors="replace")
    except OSError:
        return ""
    return f"{directory.name} {text.rpartition(')')[2]}"
