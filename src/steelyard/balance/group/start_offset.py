"""Start offsets: one request for a queue at a time, and a response counts only for what it was requested for.

A response carries no id. So a request is not repeated while one is unanswered; if the queue was dropped and acquired
again, the response is dropped and the offset requested again, since another member may have committed meanwhile.
"""

from steelyard.balance.group.actions import QueryStartOffset, StartAt, StartPosition
from steelyard.balance.group.context import ApplyEvent, MemberContext
from steelyard.balance.group.events import StartOffsetFailed, StartOffsetReceived
from steelyard.balance.group.process_queue import ProcessQueue, ProofStep
from steelyard.balance.group.queue_states import QueueEvent, QueueState
from steelyard.model import Queue


class StartOffsets:
    """The requests of one member for start offsets."""

    def __init__(self, context: MemberContext, apply: ApplyEvent) -> None:
        self._context = context
        self._apply = apply
        self._pending: dict[Queue, int] = {}
        """Unanswered requests, with the incarnation of the queue that made each."""

    @property
    def is_idle(self) -> bool:
        """Whether no request is unanswered."""
        return not self._pending

    def is_pending(self, process_queue: ProcessQueue) -> bool:
        """Whether a request of this incarnation of a queue is unanswered."""
        return self._pending.get(process_queue.queue) == process_queue.incarnation

    def request(self, process_queue: ProcessQueue) -> None:
        """Request the start offset; if a request of an earlier incarnation is unanswered, once it is."""
        if process_queue.queue not in self._pending:
            self._pending[process_queue.queue] = process_queue.incarnation
            self._context.emit(QueryStartOffset(process_queue.queue, self._start_position(process_queue.queue)))

    def answered(self, event: StartOffsetReceived | StartOffsetFailed) -> None:
        """Apply a response to the queue that waits for it."""
        if event.queue not in self._pending:
            return
        incarnation = self._pending.pop(event.queue)
        process_queue = self._context.process_queues.get(event.queue)
        if process_queue is None or not _is_waiting_for_offset(process_queue):
            return
        if incarnation != process_queue.incarnation:
            self.request(process_queue)
        elif isinstance(event, StartOffsetReceived):
            self._apply(process_queue, QueueEvent.OFFSET_RECEIVED, event)
        else:
            self._apply(process_queue, QueueEvent.OFFSET_FAILED)

    def connection_lost(self, broker: str) -> None:
        """Drop the requests of a lost connection."""
        for queue in [queue for queue in self._pending if queue.broker == broker]:
            del self._pending[queue]

    def _start_position(self, queue: Queue) -> StartPosition:
        # A queue that appeared while the group was running is read from its first message: it is new to every member.
        return StartPosition(StartAt.FIRST) if self._context.rebalancer.is_new(queue) else self._context.options.start


def _is_waiting_for_offset(process_queue: ProcessQueue) -> bool:
    return process_queue.state is QueueState.STARTING or (
        process_queue.state is QueueState.UNSURE and process_queue.proof_step is ProofStep.OFFSET
    )
