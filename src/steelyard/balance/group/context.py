"""The state that the parts of one member share: its queues, its timers, and the actions and reports of this step.

The parts (locks, probes, start offsets, pulls, handlers, commits) know this context and not each other. They raise
events through `ApplyEvent`, and see the group through the `Rebalancer`.
"""

from typing import Protocol

from steelyard.balance.group.actions import Action, MemberReport
from steelyard.balance.group.heartbeats import BrokerSessions
from steelyard.balance.group.options import MemberOptions
from steelyard.balance.group.process_queue import ProcessQueue
from steelyard.balance.group.queue_states import QueueEvent
from steelyard.balance.group.rebalance import Rebalancer
from steelyard.balance.group.timers import TimerQueue
from steelyard.diagnostics.group import join_some
from steelyard.model import Queue


class ApplyEvent(Protocol):
    """Applies an event to a queue, by the table of transitions."""

    def __call__(self, process_queue: ProcessQueue, event: QueueEvent, payload: object = None, /) -> None:
        """Apply an event, with what it brought."""


class MemberContext:
    """The shared state of one member."""

    def __init__(self, options: MemberOptions, sessions: BrokerSessions, rebalancer: Rebalancer, now_ms: int) -> None:
        self.options = options
        self.times = options.times
        self.sessions = sessions
        self.rebalancer = rebalancer
        self.timers = TimerQueue()
        self.now_ms = now_ms
        self.process_queues: dict[Queue, ProcessQueue] = {}
        self.by_broker: dict[str, dict[Queue, ProcessQueue]] = {}
        self.actions: list[Action] = []
        self.is_leaving = False
        self.leave_by_ms: int | None = None
        """Until when handlers may go on once the member leaves; None: without limit."""
        self._number = 0
        self.reports: dict[tuple[str, str], list[Queue]] = {}
        """Those of this step so far: the queues of each kind and message."""

    def emit(self, action: Action) -> None:
        """Add an action to this step."""
        self.actions.append(action)

    def report(self, kind: str, message: str, queue: Queue) -> None:
        """Report something about a queue to the user; at the end of the step, equal messages become one report."""
        self.reports.setdefault((kind, message), []).append(queue)

    def flush_reports(self) -> None:
        """Emit the reports that were collected."""
        for (kind, message), queues in self.reports.items():
            self.emit(MemberReport(kind, f"{message}: {join_some(queues)}", tuple(queues)))
        self.reports.clear()

    def next_number(self) -> int:
        """Return a number that this member never used before, for generations."""
        self._number += 1
        return self._number

    def is_current(self, process_queue: ProcessQueue, generation: int | None = None) -> bool:
        """Say whether a queue, and its generation if one is given, is the same as when a timer was set."""
        is_same = self.process_queues.get(process_queue.queue) is process_queue
        return is_same and generation in (None, process_queue.generation)
