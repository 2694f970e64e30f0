"""What a piece of work costs: seconds on the wall, and seconds of a processor in every process that has to do with it.

Those are whole trees of processes, as Spark's is: the JVM, the daemons that fork Python workers, and the workers. What
a process used that has begun and ended meanwhile counts as well: whoever waited for it has it on its own account. What
such an account has from before does not, and a process that nobody waited for takes what it used with it.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """What something took."""

    wall_s: float
    cpu_s: float
    note: str = ""
    """What else is to be told."""


class _Account(NamedTuple):
    """What a process has used by itself, and what those had used for which it waited at their end; in ticks."""

    parent: int
    own: int
    ended: int


class Meter:
    """Looks at trees of processes, by their roots, and at this very process."""

    def __init__(self, roots: Iterable[int]) -> None:
        self._roots = frozenset(roots)

    def measure(self, work: Callable[[], object]) -> Cost:
        """Do it, and return what it took."""
        began, start = self.read_accounts(), time.perf_counter()
        work()
        return Cost(time.perf_counter() - start, self.used_s(began))

    def read_accounts(self) -> Mapping[int, _Account]:
        """Return the accounts as they are now, for `used_s`."""
        everybody = dict(_accounts())
        children: dict[int, list[int]] = {}
        for pid, account in everybody.items():
            children.setdefault(account.parent, []).append(pid)
        found = {os.getpid(): everybody[os.getpid()]}
        waiting = [pid for pid in self._roots if pid in everybody]
        while waiting:
            pid = waiting.pop()
            found[pid] = everybody[pid]
            waiting += children.get(pid, ())
        return found

    def used_s(self, began: Mapping[int, _Account]) -> float:
        """Return the seconds of a processor that were used since a look."""
        now = self.read_accounts()
        # Those who have ended since are on the account of their parent with all that they ever used.
        before: dict[int, int] = {}
        for pid, account in began.items():
            if pid not in now:
                before[account.parent] = before.get(account.parent, 0) + account.own + account.ended
        ticks = 0
        for pid, account in now.items():
            old = began.get(pid, _Account(account.parent, 0, 0))
            ticks += account.own - old.own + max(0, account.ended - old.ended - before.get(pid, 0))
        return ticks / _TICKS_A_SECOND


def _accounts() -> Iterator[tuple[int, _Account]]:
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # it has ended
        # The name of the program, in parentheses, may have blanks in it.
        fields = text.rpartition(")")[2].split()
        own, ended = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
        yield int(folder.name), _Account(int(fields[1]), own, ended)
