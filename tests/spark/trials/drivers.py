"""Driver programs as processes that are killed with all that belongs to them, and what they left behind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from steelyard import Admin
from steelyard.model import Queue

__all__ = ["committed_ends", "driver", "group_offsets", "kill_whole"]

_ROOT = Path(__file__).parents[3]


@contextmanager
def driver(module: str, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """Run a driver program in a process group of its own: its JVM and its workers die with it."""
    errors = Path(words[3]) / "driver.log"
    errors.parent.mkdir(parents=True, exist_ok=True)
    with (
        errors.open("ab") as log,
        subprocess.Popen(
            [sys.executable, "-m", module, *words],
            cwd=_ROOT,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            kill_whole(process)


def kill_whole(process: "subprocess.Popen[str]") -> None:
    """Kill -9 a driver and everything it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def committed_ends(checkpoint: Path) -> dict[Queue, int]:
    """Return how far a query is with what it has committed, as its checkpoint has it."""
    done = [int(each.name) for each in (checkpoint / "commits").glob("*") if each.name.isdigit()]
    if not done:
        return {}
    lines = (checkpoint / "offsets" / str(max(done))).read_text(encoding="utf-8").splitlines()
    ends = json.loads(lines[-1])["q"]
    return {
        Queue(topic, broker, int(queue)): end
        for topic, brokers in ends.items()
        for broker, queues in brokers.items()
        for queue, end in queues.items()
    }


def group_offsets(namesrv: str, group: str, topic: str) -> dict[Queue, int]:
    """Return how far a group is, as every tool sees it; queues that it has not begun are left out."""
    with Admin(namesrv) as admin:
        found = admin.offsets(group, topic)
    return {each.queue: each.committed for each in found if each.committed is not None and each.committed > 0}
