"""Killing a process with all that it started, at once: Spark's Java is in a session of its own, and has children."""

import os
import shutil
import signal
import subprocess
from contextlib import suppress

__all__ = ["kill_family"]


def kill_family(pid: int) -> None:
    """Kill -9 a process, its children, and theirs; one that is gone is fine."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)  # so that it starts nothing while it is looked at
        listed = subprocess.run(
            [shutil.which("ps") or "ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
        )
        parents = {int(child): int(parent) for child, parent in map(str.split, listed.stdout.splitlines())}
        family = {pid}
        while more := {child for child, parent in parents.items() if parent in family} - family:
            family |= more
        for member in sorted(family):
            with suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)
