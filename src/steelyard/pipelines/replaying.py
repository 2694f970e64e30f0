"""A replay as steps: which offsets of each queue are sent together, decided once and kept.

All queues go forward at the same time, each by its share: after half of the steps every queue is half sent, so that
what came together comes together again. A step begins after the one before is stored: the order within a queue holds
over steps. The plan is kept in the checkpoint, so that a replay that goes on sends the same steps, with the same ids:
an id contains the number of its task, so the plan keeps the number of tasks as well.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from uuid import uuid4

from steelyard.errors import ConfigurationError, JobFailed
from steelyard.model import OffsetRange, Queue
from steelyard.pipelines.files import Files

__all__ = ["ReplayPlan", "Steps"]


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """What is sent, in how many steps.

    >>> plan = ReplayPlan("all", "id", 10, 2, (OffsetRange(Queue("orders", "a", 0), 100, 110),))
    >>> [str(part) for step in range(2) for part in plan.step(step)]
    ['orders@a:0[100, 105)', 'orders@a:0[105, 110)']
    """

    job: str
    """What it is the plan of, in words; another job is refused."""
    id: str
    rows: int
    steps: int
    queues: tuple[OffsetRange, ...]
    tasks: int = 1
    """In how many tasks a step is sent, at most."""

    @classmethod
    def of(
        cls, job: str, rows: int, most_in_step: int, queues: Iterable[OffsetRange], *, tasks: int = 1
    ) -> "ReplayPlan":
        """Make a plan whose steps have about so many rows at most."""
        return cls(job, uuid4().hex, rows, -(-rows // max(1, most_in_step)), tuple(queues), tasks)

    def step(self, number: int) -> list[OffsetRange]:
        """Return what a step sends of each queue; queues with nothing in it are left out."""
        cut = [
            OffsetRange(
                each.queue,
                each.start + len(each) * number // self.steps,
                each.start + len(each) * (number + 1) // self.steps,
            )
            for each in self.queues
        ]
        return [each for each in cut if each]

    def text(self) -> str:
        """Return it as it is kept."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str, path: str) -> "ReplayPlan":
        """Read what was kept."""
        try:
            kept = json.loads(text)
            queues = tuple(OffsetRange(Queue(*each["queue"]), each["start"], each["end"]) for each in kept["queues"])
            return cls(kept["job"], kept["id"], kept["rows"], kept["steps"], queues, kept["tasks"])
        except (ValueError, LookupError, TypeError, ConfigurationError):
            raise JobFailed(f"{path} is damaged", next_step="give another --checkpoint") from None


class Steps:
    """What a replay remembers: its plan, and how many steps are done. Without a directory it remembers nothing."""

    def __init__(self, files: Files, directory: str | None) -> None:
        self._files, self._directory = files, directory

    def plan(self, job: str) -> ReplayPlan | None:
        """Return the plan that was begun; None if there is none, an error if it is another job's."""
        if self._directory is None:
            return None
        path = f"{self._directory}/plan.json"
        text = self._files.read(path)
        if text is None:
            return None
        plan = ReplayPlan.read(text, path)
        if plan.job != job:
            raise ConfigurationError(
                f"{self._directory} is the checkpoint of another job ({plan.job!r})",
                next_step="give another --checkpoint",
            )
        return plan

    def begin(self, plan: ReplayPlan) -> None:
        """Keep a plan."""
        if self._directory is not None:
            self._files.write(f"{self._directory}/plan.json", plan.text())

    def done(self) -> int:
        """Return how many steps are done."""
        found = self._files.sizes(f"{self._directory}/done") if self._directory is not None else {}
        return max((int(name) for name in found if name.isdigit()), default=0)

    def note(self, done: int) -> None:
        """Keep that so many are done."""
        if self._directory is not None:
            self._files.write(f"{self._directory}/done/{done}", "")
            self._files.delete(f"{self._directory}/done/{done - 1}")
