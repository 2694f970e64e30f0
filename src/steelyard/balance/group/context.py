"""The state that the parts of one member share: its queues, its timers, and the actions and reports of this step.

The parts (locks, probes, start offsets, pulls, handlers, commits) know this context and not each other. They raise
events through `ApplyEvent`, and see the group through `GroupView`.
"""

from typing import Protocol

from steelyard.balance.group.actions import Action, MemberReport
from steelyard.balance.group.diagnostics import join_some
from steelyard.balance.group.heartbeats import BrokerSessions
from steelyard.balance.group.options import MemberOptions
from steelyard.balance.group.process_queue import ProcessQueue
from steelyard.balance.group.queue_states import QueueEvent
from steelyard.balance.group.timers import TimerQueue
from steelyard.model import Queue

__all__ = ["ApplyEvent", "GroupView", "MemberContext"]


class ApplyEvent(Protocol):
    """Applies an event to a queue, by the table of transitions."""

    def __call__(self, process_queue: ProcessQueue, event: QueueEvent, payload: object = None, /) -> None:
        """Apply an event, with what it brought."""


class GroupView(Protocol):
    """What the parts of a member may know of its group. `Rebalancer` implements it."""

    def plan(self) -> tuple[Queue, ...] | None:
        """Return the queues of this member, in order; None before the first plan."""

    def members(self) -> tuple[str, ...]:
        """Return the members that the last plan was made for, in order."""

    def listed_members(self, broker: str, now_ms: int) -> tuple[str, ...]:
        """Return the members to probe: those on a broker's last list, and those that left it a moment ago."""

    def has_departed(self, member: str, now_ms: int) -> bool:
        """Say whether a member is certainly gone."""

    def has_foreign(self) -> bool:
        """Say whether a member of the group runs another client than this one."""

    def readable_queues(self) -> frozenset[Queue]:
        """Return the queues that are readable by the last routes."""

    def is_new(self, queue: Queue) -> bool:
        """Say whether a queue appeared while the group was running: it is read from its first message."""

    def request_rebalance(self, now_ms: int) -> None:
        """Rebalance as soon as the rate limit allows it."""


class MemberContext:
    """The shared state of one member."""

    def __init__(self, options: MemberOptions, sessions: BrokerSessions, rebalancer: GroupView, now_ms: int) -> None:
        self.options = options
        self.times = options.times
        self.sessions = sessions
        self.rebalancer = rebalancer
        self.timers = TimerQueue()
        self.now_ms = now_ms
        self.process_queues: dict[Queue, ProcessQueue] = {}
        self.by_broker: dict[str, dict[Queue, ProcessQueue]] = {}
        """The same by broker."""
        self.actions: list[Action] = []
        """Those of this step so far."""
        self.is_leaving = False
        self.leave_by_ms: int | None = None
        """Until when handlers may go on once the member leaves; None: without limit."""
        self._number = 0
        self._reports: dict[tuple[str, str], list[Queue]] = {}

    def emit(self, action: Action) -> None:
        """Add an action to this step."""
        self.actions.append(action)

    def report(self, kind: str, message: str, queue: Queue) -> None:
        """Report something about a queue to the user; at the end of the step, equal messages become one report."""
        self._reports.setdefault((kind, message), []).append(queue)

    def flush_reports(self) -> None:
        """Emit the reports that were collected."""
        for (kind, message), queues in self._reports.items():
            self.emit(MemberReport(kind, f"{message}: {join_some(queues)}", tuple(queues)))
        self._reports.clear()

    def end_step(self) -> list[Action]:
        """End the step: return its actions, in order."""
        if self._reports:
            self.flush_reports()
        actions, self.actions = self.actions, []
        return actions

    def next_number(self) -> int:
        """Return a number that this member never used before, for generations."""
        self._number += 1
        return self._number

    def is_current(self, process_queue: ProcessQueue, generation: int | None = None) -> bool:
        """Say whether a queue, and its generation if one is given, is the same as when a timer was set."""
        is_same = self.process_queues.get(process_queue.queue) is process_queue
        return is_same and generation in (None, process_queue.generation)
