"""All that a report knows, as one value: what was written, how the group is, what became of its queues."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from steelyard.client.admin.group_view import GroupView
from steelyard.client.short_names import short_names
from steelyard.model import Queue
from steelyard.pipelines.report.history import History
from steelyard.pipelines.report.traffic import QueueLoad, Traffic
from steelyard.pipelines.report.words import named

__all__ = ["MemberLoad", "Study", "Waiting"]


@dataclass(frozen=True, slots=True)
class Waiting:
    """How many messages of the topic waited for the group at a moment."""

    at_ms: int
    messages: int


@dataclass(frozen=True, slots=True)
class MemberLoad:
    """A member by what its queues got."""

    id: str
    queues: int
    messages: int
    body_bytes: int
    lag: int
    """How many messages wait in its queues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """All that a report knows."""

    topic: str
    at_ms: int
    """When it was made."""
    traffic: Traffic
    group: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    view: GroupView | None = None
    history: History | None = None
    waiting: tuple[Waiting, ...] = ()
    """Looks at the group's lag, by time."""
    notes: tuple[str, ...] = ()
    """What could not be found out, or is less exact than it looks."""

    def lags(self) -> dict[Queue, int]:
        """Return how many messages wait in each queue of the topic, where that is known."""
        rows = () if self.view is None else self.view.queues
        return {each.queue: each.lag for each in rows if each.queue.topic == self.topic and each.lag is not None}

    def owners(self) -> dict[Queue, tuple[str, ...]]:
        """Return who has each queue of the topic."""
        rows = () if self.view is None else self.view.queues
        return {each.queue: each.owners for each in rows if each.queue.topic == self.topic}

    def member_names(self) -> dict[str, str]:
        """Return how members are called here: as short as it gets, and safe to show; by their ids."""
        ids = [member.id for member in self.view.members] if self.view is not None else []
        if self.history is not None:
            ids += self.history.members
        ids += (owner for owners in self.owners().values() for owner in owners)
        return {each: named(name) for each, name in short_names(ids).items()}

    def members(self) -> tuple[MemberLoad, ...]:
        """Return the members of the group, those that are there now, by what their queues got."""
        if self.view is None:
            return ()
        lags = self.lags()
        loads = {each.queue: each for each in self.traffic.queues}
        mine: dict[str, list[Queue]] = {member.id: [] for member in self.view.members}
        for queue, owners in self.owners().items():
            for owner in owners:
                mine.setdefault(owner, []).append(queue)
        return tuple(
            MemberLoad(
                name,
                len(queues),
                _total(queues, loads, lambda load: load.messages),
                _total(queues, loads, lambda load: load.body_bytes),
                sum(lags.get(queue, 0) for queue in queues),
            )
            for name, queues in mine.items()
        )


def _total(queues: list[Queue], loads: Mapping[Queue, QueueLoad], of: Callable[[QueueLoad], int]) -> int:
    return sum(of(loads[queue]) for queue in queues if queue in loads)
