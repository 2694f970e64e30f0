"""Fetch loop of owned queues: one pull of a queue at a time, the next one before the messages are handled.

A queue under flow control pulls again when messages of it were finished, not by a timer. A failed pull is repeated
after a pause, and so is one that the broker answers at once with nothing, again and again, instead of holding it. If a
pull is never answered, its queue starts again.

After a lost connection the first pull starts one message early. A broker whose machine lost power has lost the end of
its log and gives the same offsets to other messages; a member that goes on where it was would skip them. A log is cut
at its end, so if the last message is the known one, so are all before it.
"""

from collections.abc import Iterable

from steelyard.balance.group.actions import PullMessages
from steelyard.balance.group.context import ApplyEvent, MemberContext
from steelyard.balance.group.events import MessagesPolled, Pulled, PullFailed, PullOutcome
from steelyard.balance.group.flow_control import FlowControl
from steelyard.balance.group.process_queue import ProcessQueue
from steelyard.balance.group.queue_states import QueueEvent, QueueState

_MAX_QUICK_EMPTY_PULLS = 2
"""With this many quick empty responses in a row, the broker does not hold pulls."""


def is_same_log(process_queue: ProcessQueue, event: Pulled) -> bool:
    """Say whether a pull that started with the last known message found it, or that message had expired."""
    if process_queue.last_pulled is None:
        return True
    offset, message = process_queue.last_pulled
    if event.outcome is PullOutcome.OFFSET_MOVED:
        return event.next_offset > offset
    return bool(event.offsets) and (event.offsets[0], event.messages[0]) == (offset, message)


class Fetcher:
    """The pulls of one member."""

    def __init__(self, context: MemberContext, apply: ApplyEvent) -> None:
        self._context = context
        self._apply = apply
        self._times = context.times
        self._max_messages = context.options.pull_batch
        self.flow_control = FlowControl(context.options)
        self._is_stuck_check_scheduled = False

    def pull(self, process_queue: ProcessQueue) -> None:
        """Pull a queue if it is owned, has no pull in flight and flow control allows it.

        The log is checked in any case, also while the queue drains.
        """
        is_log_check = process_queue.log_check_offset is not None
        if process_queue.pull_sent_ms is not None:
            return
        if process_queue.state is not QueueState.OWNED and not (
            is_log_check and process_queue.state is QueueState.DRAINING
        ):
            return
        process_queue.is_flow_controlled = not self.flow_control.may_pull(
            process_queue.queue.topic, process_queue.window, process_queue.polled
        )
        if not process_queue.is_flow_controlled or is_log_check:
            process_queue.pull_sent_ms = self._context.now_ms
            offset, last = process_queue.window.next_offset, process_queue.last_pulled
            if is_log_check and last is not None:
                offset = last[0]
            self._context.actions.append(
                PullMessages(
                    process_queue.queue, process_queue.generation, offset, self._max_messages, not is_log_check
                )
            )

    def pull_flow_controlled(self, process_queues: Iterable[ProcessQueue]) -> None:
        """Pull queues again that were under flow control, because their limits changed."""
        for process_queue in process_queues:
            if process_queue.is_flow_controlled:
                self.pull(process_queue)

    def messages_polled(self, event: MessagesPolled) -> None:
        """Record how many messages the user holds: there may be room for more now."""
        process_queue = self._context.process_queues.get(event.queue)
        if process_queue is not None and process_queue.generation == event.generation:
            process_queue.polled = event.count
            if process_queue.is_flow_controlled:
                self.pull(process_queue)

    def pull_answered(self, event: Pulled | PullFailed) -> None:
        """Apply a response to its queue; one to an abandoned pull or an earlier generation is dropped."""
        process_queue = self._context.process_queues.get(event.queue)
        if process_queue is None or process_queue.generation != event.generation or process_queue.pull_sent_ms is None:
            return
        took_ms, process_queue.pull_sent_ms = self._context.now_ms - process_queue.pull_sent_ms, None
        if isinstance(event, Pulled):
            is_empty = event.outcome is PullOutcome.NOTHING and event.next_offset <= process_queue.window.next_offset
            process_queue.quick_empty_pulls = (
                process_queue.quick_empty_pulls + 1 if is_empty and took_ms < self._times.pull_empty_ms else 0
            )
            self._apply(process_queue, QueueEvent.PULLED, event)
        else:
            self._apply(process_queue, QueueEvent.PULL_FAILED, event)

    def pull_next(self, process_queue: ProcessQueue) -> None:
        """Pull again after a response; after a pause if the broker does not hold pulls."""
        if process_queue.quick_empty_pulls < _MAX_QUICK_EMPTY_PULLS:
            self.pull(process_queue)
        else:
            self._pull_after(process_queue, self._times.pull_empty_ms)

    def retry_later(self, process_queue: ProcessQueue, is_busy: bool) -> None:
        """Pull again after a pause."""
        self._pull_after(process_queue, self._times.pull_busy_ms if is_busy else self._times.pull_retry_ms)

    def _pull_after(self, process_queue: ProcessQueue, wait_ms: int) -> None:
        self._context.timers.call_at(
            self._context.now_ms + wait_ms, self._pull_again, process_queue, process_queue.generation
        )

    def _pull_again(self, process_queue: ProcessQueue, generation: int) -> None:
        if self._context.is_current(process_queue, generation):
            self.pull(process_queue)

    def schedule_stuck_check(self) -> None:
        """Schedule the check for pulls that are never answered."""
        if not self._is_stuck_check_scheduled:
            self._is_stuck_check_scheduled = True
            self._context.timers.call_at(self._context.now_ms + self._times.stuck_pull_ms, self._check_stuck_pulls)

    def _check_stuck_pulls(self) -> None:
        self._is_stuck_check_scheduled = False
        oldest_ms = self._context.now_ms
        for process_queue in list(self._context.process_queues.values()):
            sent_ms = process_queue.pull_sent_ms
            if process_queue.state is not QueueState.OWNED or sent_ms is None:
                continue
            if self._context.now_ms - sent_ms >= self._times.stuck_pull_ms:
                self._apply(process_queue, QueueEvent.PULL_STUCK)
            else:
                oldest_ms = min(oldest_ms, sent_ms)
        if self._context.process_queues:
            self._is_stuck_check_scheduled = True
            self._context.timers.call_at(oldest_ms + self._times.stuck_pull_ms, self._check_stuck_pulls)
