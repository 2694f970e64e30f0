"""Driver programs as processes that are killed with all that belongs to them, and what they left behind."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from examples.demo.spark_process import kill_process_tree
from steelyard import Admin
from steelyard.errors import GroupNotFound
from steelyard.model import Queue

_ROOT = Path(__file__).parents[3]
_BEGUN, _DONE = "offsets", "commits"


@contextmanager
def driver(
    module: str, directory: Path, *words: str, environ: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """Run a driver program, with what it has to say in ``driver.log``; whatever is left of it is killed at the end.

    ``environ`` is what its environment has besides.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with (
        (directory / "driver.log").open("ab") as log,
        subprocess.Popen(
            [sys.executable, "-m", module, *words],
            cwd=_ROOT,
            env={**os.environ, **(environ or {})},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            kill_whole(process)


def kill_whole(process: "subprocess.Popen[str]") -> None:
    """Kill -9 a driver and everything it started, all at once."""
    if process.poll() is None:
        kill_process_tree(process.pid)
        process.wait()


def batches(checkpoint: Path) -> tuple[int, int]:
    """Return how many batches a query has begun, and how many it has committed."""
    begun, done = (_numbers(checkpoint / name) for name in (_BEGUN, _DONE))
    return max(begun, default=-1) + 1, max(done, default=-1) + 1


def committed_ends(checkpoint: Path) -> dict[Queue, int]:
    """Return how far a query is with what it has committed, as its checkpoint has it."""
    done = _numbers(checkpoint / _DONE)
    if not done:
        return {}
    lines = (checkpoint / _BEGUN / str(max(done))).read_text(encoding="utf-8").splitlines()
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
        try:
            found = admin.offsets.list(group, topic)
        except GroupNotFound:
            return {}  # it comes with its first offset
    return {each.queue: each.committed for each in found if each.committed is not None and each.committed > 0}


def _numbers(log: Path) -> list[int]:
    return [int(each.name) for each in log.glob("*") if each.name.isdigit()]
