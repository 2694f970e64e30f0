"""Dispatch messages to handlers, in turn over all queues, and retry those that failed.

At most ``handler_limit`` batches run at a time, and each queue gets one batch per turn. An orderly queue has one batch
at a time; its handler stops at the first failure, and the failed message is retried here, alone, before any behind it.
Otherwise a failed message is sent back to its broker for redelivery, or retried here if that fails. A broadcasting
member drops it. A member without retries (polling) keeps it.

Batches that run when their queue is lost or its drain times out are *orphans*: they finish and occupy a handler until
then, but their results do not count. So are messages that were sent back because their handler took too long. A message
whose body cannot be read never reaches a handler: it goes to the dead letters, is skipped, or stops its queue, by
`UnreadablePolicy`; it stops the queue if only this process cannot read it. It counts as finished once it is stored.

Why a message failed is sent along. Apache's brokers take no error with a send-back, so a message that this member gives
up is sent to them as a copy. Other failures go there without an error: only the broker knows which attempt is the last,
and it makes any copy a dead letter while a member of the group holds a lock.
"""

from collections import deque
from collections.abc import Sequence
from operator import itemgetter

from steelyard.balance.group.actions import HandleMessages, MemberReport, SendBackMessage
from steelyard.balance.group.context import ApplyEvent, MemberContext
from steelyard.balance.group.events import Handled, SendBackFailed, SentBack, UnreadableMessage
from steelyard.balance.group.options import ConsumeMode, UnreadablePolicy
from steelyard.balance.group.process_queue import HandlerBatch, ProcessQueue
from steelyard.balance.group.queue_locks import QueueLocks
from steelyard.balance.group.queue_states import QueueEvent, QueueState
from steelyard.model import Queue

DEAD_LETTER = -1
"""In place of a delay level: no further attempt."""

_TIMEOUT_DELAY_LEVEL = 3
"""A message whose handler took too long is redelivered after 10 s."""


class Dispatcher:
    """The dispatcher of one member."""

    _orphans: dict[tuple[Queue, int], dict[int, HandlerBatch]]
    """Batches that may finish and do not count, by queue and generation."""

    def __init__(self, context: MemberContext, apply: ApplyEvent, locks: QueueLocks) -> None:
        self._context = context
        self._apply = apply
        self._locks = locks
        self._sessions = context.sessions
        self._options = context.options
        self._times = context.times
        self._is_orderly = context.options.mode is ConsumeMode.ORDERLY
        self.ready: deque[ProcessQueue] = deque()
        """Queues that wait for a free handler."""
        self._running: dict[HandlerBatch, None] = {}
        self._orphans = {}
        self._is_timeout_check_scheduled = False
        self.batch_sizes: dict[str, int] = {}
        """The maximal number of messages in a batch, by topic, where it differs from the options."""

    def enqueue(self, process_queue: ProcessQueue) -> None:
        """Put a queue in line for a handler, if it has something to start."""
        if not process_queue.is_dispatch_queued and self._can_start(process_queue):
            process_queue.is_dispatch_queued = True
            self.ready.append(process_queue)

    def _can_start(self, process_queue: ProcessQueue) -> bool:
        if (
            process_queue.state is not QueueState.OWNED
            or process_queue.stopped_at
            or not (process_queue.batches or process_queue.local_retries)
        ):
            return False
        return not self._is_orderly or not (process_queue.running or process_queue.is_suspended)

    def dispatch(self) -> None:
        """Start batches as long as handlers are free, each queue in its turn."""
        ready, running, limit = self.ready, self._running, self._options.handler_limit
        while ready and len(running) < limit:
            process_queue = ready.popleft()
            process_queue.is_dispatch_queued = False
            if not self._can_start(process_queue):
                continue
            if not self._locks.fence_holds(process_queue):
                self._apply(process_queue, QueueEvent.PROOF_EXPIRED)
                continue
            self._dispatch_batch(process_queue)
            if process_queue.batches or process_queue.local_retries:
                self.enqueue(process_queue)

    def _dispatch_batch(self, process_queue: ProcessQueue) -> None:
        offsets, messages, attempt = self._next_batch(process_queue)
        batch = HandlerBatch(process_queue, offsets, messages, attempt, self._context.now_ms)
        self._running[batch] = None
        for offset in offsets:
            process_queue.running[offset] = batch
        self._context.actions.append(
            HandleMessages(
                process_queue.queue, process_queue.generation, offsets, messages, process_queue.epoch, attempt
            )
        )
        if not self._is_timeout_check_scheduled:
            self._schedule_timeout_check()

    def _next_batch(self, process_queue: ProcessQueue) -> tuple[Sequence[int], Sequence[object], int]:
        if process_queue.local_retries:
            (offset, message, attempt), *rest = process_queue.local_retries
            process_queue.local_retries = tuple(rest)
            return (offset,), (message,), attempt
        offsets, messages = process_queue.batches[0]
        at = process_queue.batch_position
        end = at + self.batch_sizes.get(process_queue.queue.topic, self._options.handler_batch)
        if end < len(offsets):
            process_queue.batch_position = end
        else:
            del process_queue.batches[0]
            process_queue.batch_position = 0
        return offsets[at:end], messages[at:end], 0

    def handled(self, event: Handled) -> None:
        """Process the results of a handler."""
        process_queue = self._context.process_queues.get(event.queue)
        if process_queue is None or process_queue.generation != event.generation:
            self._orphan_handled(event)
            return
        running, before = process_queue.running, len(process_queue.running)
        finished = []
        for offset in event.done:
            batch = running.pop(offset, None)
            if batch is not None:
                finished.append(offset)
                batch.remaining -= 1
                if not batch.remaining:
                    del self._running[batch]
        if finished:
            process_queue.finish(finished, self._context.now_ms)
            if process_queue.state is QueueState.DRAINING:
                process_queue.finished_while_draining += finished
        if event.failed or event.skipped or event.unreadable:
            self._process_unfinished(process_queue, event)
        if len(running) < before:
            self._apply(process_queue, QueueEvent.HANDLED)
        else:
            # It timed out and was sent back long ago, and the queue may be in any state by now.
            self._orphan_handled(event)

    def _finish_one(self, batch: HandlerBatch) -> None:
        batch.remaining -= 1
        if not batch.remaining:
            del self._running[batch]

    def _process_unfinished(self, process_queue: ProcessQueue, event: Handled) -> None:
        retries: list[tuple[int, object, int]] = []
        for offset in event.failed:
            batch = process_queue.running.pop(offset, None)
            if batch is None:
                continue
            self._finish_one(batch)
            if not self._is_orderly:
                self._message_failed(process_queue, offset, batch, event)
            elif retries or process_queue.is_suspended:
                # It was behind one that failed, and has to wait for it.
                retries.append((offset, batch.message(offset), 0))
            else:
                retries += self._orderly_message_failed(process_queue, offset, batch, event)
        for offset in event.skipped:
            batch = process_queue.running.pop(offset, None)
            if batch is not None:
                retries.append((offset, batch.message(offset), batch.attempt))
                self._finish_one(batch)
        for offset, found in event.unreadable.items():
            batch = process_queue.running.pop(offset, None)
            if batch is not None:
                self._finish_one(batch)
                retries += self._message_unreadable(process_queue, offset, batch, found)
        if process_queue.state is QueueState.OWNED or process_queue.state is QueueState.UNSURE:
            # In the order of offsets, whatever the order of the results.
            process_queue.local_retries = tuple(sorted((*process_queue.local_retries, *retries), key=itemgetter(0)))

    def _orphan_handled(self, event: Handled) -> None:
        running = self._orphans.get((event.queue, event.generation))
        if running is None:
            return
        orphans = [
            batch
            for offset in (*event.done, *event.failed, *event.skipped, *event.unreadable)
            if (batch := running.pop(offset, None))
        ]
        for batch in orphans:
            self._finish_one(batch)
        if not running:
            del self._orphans[event.queue, event.generation]
        if orphans and (event.done or event.failed):
            self._context.report("late-result", "late results of handlers are ignored", event.queue)

    def _message_failed(self, process_queue: ProcessQueue, offset: int, batch: HandlerBatch, event: Handled) -> None:
        if self._options.mode is ConsumeMode.BROADCAST:
            process_queue.finish((offset,), self._context.now_ms)
            self._context.report(
                "dropped", "failed messages are dropped, because broadcasting has no retries", process_queue.queue
            )
        elif not self._options.has_retries:
            self._retry_locally(process_queue, offset, batch.message(offset), batch.attempt + 1)
        else:
            self._send_back(process_queue, offset, batch, event.delay_level, event.errors.get(offset, ""))

    def _orderly_message_failed(
        self, process_queue: ProcessQueue, offset: int, batch: HandlerBatch, event: Handled
    ) -> list[tuple[int, object, int]]:
        process_queue.is_suspended = True
        # A maximum of -1 is none.
        if event.delay_level == DEAD_LETTER or 0 <= self._options.max_attempts <= batch.attempt + 1:
            self._send_back(process_queue, offset, batch, DEAD_LETTER, event.errors.get(offset, ""))
            return []
        self._resume_later(process_queue)
        return [(offset, batch.message(offset), batch.attempt + 1)]

    def _message_unreadable(
        self, process_queue: ProcessQueue, offset: int, batch: HandlerBatch, found: UnreadableMessage
    ) -> list[tuple[int, object, int]]:
        policy = UnreadablePolicy.STOP if found.is_local else self._options.on_unreadable
        outcome = {
            UnreadablePolicy.SKIP: " and is skipped",
            UnreadablePolicy.DEAD_LETTER: " and goes to the dead letters",
            UnreadablePolicy.STOP: ", and the queue stands still there",
        }[policy]
        message_at = f"{process_queue.queue}, offset {offset}, cannot be read"
        self._context.emit(MemberReport("unreadable", f"{message_at}{outcome}: {found.why}", (process_queue.queue,)))
        if policy is UnreadablePolicy.SKIP:
            process_queue.finish((offset,), self._context.now_ms)
            return []
        if policy is UnreadablePolicy.DEAD_LETTER:
            process_queue.is_suspended = process_queue.is_suspended or self._is_orderly
            self._send_back(process_queue, offset, batch, DEAD_LETTER, found.why, is_unreadable=True)
            return []
        if process_queue.stopped_at is None or offset < process_queue.stopped_at[0]:
            process_queue.stopped_at = offset, found.why
        return [(offset, batch.message(offset), batch.attempt)]

    def _resume_later(self, process_queue: ProcessQueue) -> None:
        due_ms = self._context.now_ms + self._times.suspend_ms
        self._context.timers.call_at(due_ms, self._resume, process_queue, process_queue.generation)

    def _resume(self, process_queue: ProcessQueue, generation: int) -> None:
        if self._context.is_current(process_queue, generation):
            process_queue.is_suspended = False
            self.enqueue(process_queue)

    def _send_back(
        self,
        process_queue: ProcessQueue,
        offset: int,
        batch: HandlerBatch,
        delay_level: int,
        error: str,
        *,
        is_unreadable: bool = False,
    ) -> None:
        is_apache = self._sessions.is_steelyard(process_queue.broker) is False
        back = SendBackMessage(
            process_queue.queue,
            process_queue.generation,
            offset,
            batch.message(offset),
            delay_level,
            error,
            as_copy=is_unreadable or (is_apache and delay_level == DEAD_LETTER and bool(error)),
            is_unreadable=is_unreadable,
        )
        if process_queue.state is QueueState.UNSURE:
            # Ownership is in doubt, and messages of a lost queue are not sent back.
            process_queue.owed_retries += ((back, batch.attempt),)
        else:
            self._emit_send_back(process_queue, back, batch.attempt)

    def _emit_send_back(self, process_queue: ProcessQueue, back: SendBackMessage, attempt: int) -> None:
        process_queue.sending_back[back.offset] = back.message, attempt
        self._context.emit(back)

    def send_owed_retries(self, process_queue: ProcessQueue) -> None:
        """Send back the messages that failed while a queue was unsure."""
        owed, process_queue.owed_retries = process_queue.owed_retries, ()
        for back, attempt in owed:
            self._emit_send_back(process_queue, back, attempt)

    def sent_back(self, event: SentBack | SendBackFailed) -> None:
        """Process the outcome of a send-back."""
        process_queue = self._context.process_queues.get(event.queue)
        if process_queue is None or process_queue.generation != event.generation:
            return
        if event.offset not in process_queue.sending_back:
            return
        message, attempt = process_queue.sending_back.pop(event.offset)
        if isinstance(event, SentBack):
            process_queue.finish((event.offset,), self._context.now_ms)
            process_queue.is_suspended = False
        else:
            self._retry_locally(process_queue, event.offset, message, attempt + 1)
        self._apply(process_queue, QueueEvent.HANDLED)

    def connection_lost(self, process_queue: ProcessQueue) -> None:
        """Retry messages here whose send-back has an unknown outcome."""
        for offset, (message, attempt) in process_queue.sending_back.items():
            self._retry_locally(process_queue, offset, message, attempt + 1)
        process_queue.sending_back.clear()

    def _retry_locally(self, process_queue: ProcessQueue, offset: int, message: object, attempt: int) -> None:
        wait_ms = self._times.suspend_ms if self._is_orderly else self._times.send_back_retry_ms
        due_ms = self._context.now_ms + wait_ms
        self._context.timers.call_at(
            due_ms, self._start_local_retry, process_queue, process_queue.generation, (offset, message, attempt)
        )

    def _start_local_retry(self, process_queue: ProcessQueue, generation: int, retry: tuple[int, object, int]) -> None:
        # A drain discards it: in the window it stays unfinished, and the next owner gets it.
        is_held = process_queue.state in (QueueState.OWNED, QueueState.UNSURE)
        if is_held and self._context.is_current(process_queue, generation):
            process_queue.local_retries = retry, *process_queue.local_retries
            process_queue.is_suspended = False
            self.enqueue(process_queue)

    def orphan_running(self, process_queue: ProcessQueue) -> bool:
        """Ignore the results of running handlers from now on; say whether there were any."""
        running, process_queue.running = process_queue.running, {}
        process_queue.sending_back.clear()
        if running:
            self._orphans.setdefault((process_queue.queue, process_queue.generation), {}).update(running)
        return bool(running)

    def _schedule_timeout_check(self) -> None:
        if self._options.mode is ConsumeMode.CONCURRENT and self._options.has_retries and self._running:
            self._is_timeout_check_scheduled = True
            oldest = next(iter(self._running))
            self._context.timers.call_at(oldest.started_ms + self._times.consume_timeout_ms, self._check_timeouts)

    def _check_timeouts(self) -> None:
        """Send back messages that have been in a handler for too long: they count as finished, and are redelivered."""
        self._is_timeout_check_scheduled = False
        limit_ms = self._context.now_ms - self._times.consume_timeout_ms
        error = f"the handler took longer than {self._times.consume_timeout_ms // 1000} s"
        for batch in [batch for batch in self._running if batch.started_ms <= limit_ms]:
            # It still occupies a handler; move it behind those that started later.
            del self._running[batch]
            self._running[batch] = None
            batch.started_ms = self._context.now_ms
            process_queue = batch.process_queue
            late = [offset for offset in batch.offsets if process_queue.running.get(offset) is batch]
            for offset in late:
                del process_queue.running[offset]
                self._orphans.setdefault((process_queue.queue, process_queue.generation), {})[offset] = batch
                self._send_back(process_queue, offset, batch, _TIMEOUT_DELAY_LEVEL, error)
            if late:
                self._context.report("overdue", "sent back messages whose handler took too long", process_queue.queue)
        self._schedule_timeout_check()


_TARGET_BATCH_NS = 1_000_000


class HandlerBatchSizer:
    """Chooses the number of messages that a handler gets at once: one while it is slow, more while it is quick.

    To pass a message to a thread costs more than a quick handler does. So a batch should take about a millisecond. The
    duration of a message is the median of its batch, since one among them may have waited for the interpreter; it
    counts in full when it grows, and half when it falls.

    >>> sizer = HandlerBatchSizer(max_size=32)
    >>> sizer.size, sizer.record_durations([2_000]), sizer.record_durations([200_000] * 32)
    (1, 32, 5)
    >>> sizer.record_durations([30_000_000])
    1
    """

    __slots__ = ("_message_ns", "max_size", "size")

    def __init__(self, max_size: int = 32) -> None:
        self.max_size = max_size
        self.size = 1
        self._message_ns: int | None = None

    def record_durations(self, took_ns: Sequence[int]) -> int:
        """Record how long each message of a batch took; return the size of the next batch."""
        if took_ns:
            now_ns = max(1, sorted(took_ns)[len(took_ns) // 2])
            before_ns = self._message_ns
            self._message_ns = now_ns if before_ns is None or now_ns >= before_ns else (before_ns + now_ns) // 2
            self.size = max(1, min(self.max_size, _TARGET_BATCH_NS // self._message_ns))
        return self.size
