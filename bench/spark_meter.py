"""What a piece of work costs: seconds on the wall, and seconds of a processor in every process that has to do with it.

Those are whole trees of processes, as Spark's is: the JVM, the daemon that forks Python workers, and the workers. What
a process used that has ended meanwhile counts as well, for whoever waited for it has it on its own account.
"""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

__all__ = ["Cost", "Meter"]

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """What something took."""

    wall_s: float
    cpu_s: float
    note: str = ""
    """What else is to be told."""


class Meter:
    """Looks at trees of processes, by their roots, and at this very process."""

    def __init__(self, roots: Iterable[int]) -> None:
        self._roots = tuple(roots)

    def used_s(self) -> float:
        """Return the seconds of a processor that were used so far."""
        used, children = _processes()
        waiting, total = list(self._roots), time.process_time()
        while waiting:
            pid = waiting.pop()
            total += used.get(pid, 0.0)
            waiting += children[pid]
        return total

    def measure(self, work: Callable[[], object]) -> Cost:
        """Do it, and return what it took."""
        used_s, start = self.used_s(), time.perf_counter()
        work()
        return Cost(time.perf_counter() - start, self.used_s() - used_s)


def _processes() -> tuple[dict[int, float], dict[int, list[int]]]:
    """Return what every process has used, and who its children are."""
    used: dict[int, float] = {}
    children: dict[int, list[int]] = defaultdict(list)
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # it has ended
        # The name of the program, in parentheses, may have blanks in it.
        fields = text.rpartition(")")[2].split()
        pid = int(folder.name)
        used[pid] = sum(map(int, fields[11:15])) / _TICKS_A_SECOND
        children[int(fields[1])].append(pid)
    return used, children
