"""Handler pool: runs user handlers, plain ones in threads and ``async def`` ones as tasks on the loop.

A worker gets a whole task of messages: handing over each message costs more than a quick handler does. Results return
to the loop in one call for all tasks that finished meanwhile. Threads start when there is work and are daemons: a
handler that never returns does not keep a process alive. A closed pool begins no message, since its result would not
reach the member.

The first error of a kind is logged with its traceback, later ones are counted. Throughput and failures are kept by
topic for tools that ask (307).
"""

import asyncio
import inspect
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from typing import cast

from steelyard.balance.group.actions import HandleMessages
from steelyard.balance.group.dispatch import HandlerBatchSizer
from steelyard.balance.group.events import Handled
from steelyard.client.consumer.decompression import DecompressionBudget
from steelyard.client.consumer.handler_task import HandlerTask, MayStart, OnFinished, describe_error
from steelyard.client.consumer.handlers import Handler
from steelyard.client.consumer.received_message import (
    DeliveryContext,
    ReceivedMessage,
    ReplySender,
    origin_topic,
    set_delivery,
)
from steelyard.client.consumer.running_handlers import (
    MAX_HANDLERS,
    coroutine_frames,
    running_handler,
    thread_frames,
)
from steelyard.client.observers.observers import Observers, observe_handler
from steelyard.net.clock import now_ms, steady_ns
from steelyard.wire.bodies.members import ConsumeStatus, RunningHandler
from steelyard.wire.sysflag import SEALED

_RATE_SPAN_MS = 60_000
"""Rates are those of the last minute, as far as there are samples."""
_FAILURE_SPAN_MS = 3_600_000


class _TopicStats:
    __slots__ = ("done", "failed", "samples", "took_ns")

    def __init__(self, began_ms: int) -> None:
        self.done = self.failed = self.took_ns = 0
        self.samples: deque[tuple[int, int, int, int]] = deque([(began_ms, 0, 0, 0)])

    def sample(self, now_ms: int) -> None:
        self.samples.append((now_ms, self.done, self.failed, self.took_ns))
        # One older sample is kept for the failures of the last hour.
        while len(self.samples) > 2 and now_ms - self.samples[1][0] >= _FAILURE_SPAN_MS:
            self.samples.popleft()

    def snapshot(self, now_ms: int) -> ConsumeStatus:
        hour_ms = now_ms - _FAILURE_SPAN_MS
        failed_before = next((failed for at_ms, _, failed, _ in self.samples if at_ms >= hour_ms), 0)
        since = next((each for each in self.samples if each[0] >= now_ms - _RATE_SPAN_MS), (now_ms, 0, 0, 0))
        span_s = max(1.0, (now_ms - since[0]) / 1000)
        done, failed, took_ns = self.done - since[1], self.failed - since[2], self.took_ns - since[3]
        return ConsumeStatus(
            failed_messages=self.failed - failed_before,
            failed_tps=round(failed / span_s, 2),
            handled_tps=round(done / span_s, 2),
            handle_ms=round(took_ns / 1e6 / max(1, done + failed), 3),
            pull_tps=round((done + failed) / span_s, 2),
        )


class _HandlerStats:
    """Throughput and failures of one consumer, by topic, since each topic's first message.

    >>> tallies = _HandlerStats(clock=lambda: 1_000)
    >>> tallies.record("orders", 6, 1, [1_000_000] * 6)
    >>> tallies.sample(6_000)
    >>> tallies.snapshot(6_000)["orders"].handled_tps, tallies.snapshot(6_000)["orders"].failed_messages
    (1.0, 1)
    """

    def __init__(self, clock: Callable[[], int] = now_ms) -> None:
        self._clock = clock
        self._by_topic: dict[str, _TopicStats] = {}

    def record(self, topic: str, count: int, failed: int, took_ns: Sequence[int]) -> None:
        """Count handled messages."""
        stats = self._by_topic.get(topic)
        if stats is None:
            stats = self._by_topic[topic] = _TopicStats(self._clock())
        stats.done += count - failed
        stats.failed += failed
        stats.took_ns += sum(took_ns)

    def sample(self, now_ms: int) -> None:
        """Sample the counters; called every few seconds."""
        for stats in self._by_topic.values():
            stats.sample(now_ms)

    def snapshot(self, now_ms: int) -> dict[str, ConsumeStatus]:
        """Return the rates of each topic."""
        return {topic: stats.snapshot(now_ms) for topic, stats in sorted(self._by_topic.items())}

    def handled(self) -> dict[str, int]:
        """Return how many messages of each topic succeeded."""
        return {topic: stats.done for topic, stats in sorted(self._by_topic.items())}

    def failed(self) -> dict[str, int]:
        """Return how many messages of each topic failed."""
        return {topic: stats.failed for topic, stats in sorted(self._by_topic.items())}


_log = logging.getLogger("steelyard.client")


class _HandlerFailures:
    """Errors of the handlers of one consumer; from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], int] = {}
        self._unlogged: dict[tuple[str, str], int] = {}
        self._unhandled_topics: set[str] = set()

    def record(self, handler: Handler, message: ReceivedMessage, error: BaseException) -> None:
        """Count an error of a handler; the first of its kind is logged."""
        kind = handler.name, type(error).__qualname__
        with self._lock:
            count = self._counts[kind] = self._counts.get(kind, 0) + 1
            if count > 1:
                self._unlogged[kind] = self._unlogged.get(kind, 0) + 1
        if count == 1:
            _log.warning(
                "handler %s raised %s for message %s of %s, offset %d; it will be redelivered",
                *kind,
                message.message_id,
                message.queue,
                message.offset,
                exc_info=error,
            )

    def record_unhandled_topic(self, topic: str) -> None:
        """Log once that a retried message has no handler here."""
        if topic not in self._unhandled_topics:
            self._unhandled_topics.add(topic)
            _log.warning(
                "a retried message of topic %r has no handler here: it is left to other members; "
                "all members of a group must handle the same topics",
                topic,
            )

    def log_repeats(self) -> None:
        """Log how often each kind of error was repeated since the last time."""
        with self._lock:
            repeats, self._unlogged = self._unlogged, {}
        for (name, error), count in sorted(repeats.items()):
            times = "once more" if count == 1 else f"{count} more times"
            _log.warning("handler %s raised %s %s", name, error, times)

    def counts(self) -> dict[str, int]:
        """Return how often each handler raised each error."""
        with self._lock:
            return {f"{name}: {error}": count for (name, error), count in sorted(self._counts.items())}


_POLL_S = 0.005
_SLOW_CHECK_S = 0.02
_CANCEL_TIMEOUT_S = 1.0
"""How long a cancelled handler on the loop may take to end."""


class HandlerPool:
    """The workers of one consumer. Everything but the workers themselves runs on the loop."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        *,
        workers: int,
        may_start: MayStart,
        on_handled: Callable[[Sequence[Handled]], None],
        set_chunk: Callable[[str, int], None],
        reply_sender: ReplySender | None = None,
        name: str = "steelyard",
        observers: Observers,
        max_open_bytes: int = 0,
        secrets: Sequence[str] = (),
    ) -> None:
        self._budget = DecompressionBudget(max_open_bytes)
        self._handlers = handlers
        """By topic, as servers know it."""
        self._workers = workers
        self._may_start, self._on_handled, self._set_chunk, self._reply_sender = (
            may_start,
            on_handled,
            set_chunk,
            reply_sender,
        )
        self._name, self._observers = name, observers
        self._secrets = secrets
        """What must not be sent with an error."""
        self._loop = asyncio.get_running_loop()
        self._task_queue: SimpleQueue[HandlerTask | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._is_short_of_threads = False
        """Whether a lack of threads was logged."""
        self._outstanding = 0
        """The number of tasks that threads have or will have."""
        self._thread_tasks: dict[int, tuple[str, HandlerTask]] = {}
        """What each busy thread has, with its name."""
        self._async_tasks: dict[asyncio.Task[None], HandlerTask] = {}
        self._loop_thread = threading.get_ident()
        self._waiting: deque[HandlerTask] = deque()
        """Tasks for the loop beyond the limit."""
        self._finished: deque[HandlerTask] = deque()
        self._wake_pending = False
        self._is_closed = False
        self._splittable: dict[HandlerTask, None] = {}
        """Tasks of several messages, of which other workers may take some, oldest first."""
        self._slow_timer: asyncio.TimerHandle | None = None
        self._chunkings = {topic: HandlerBatchSizer() for topic, handler in handlers.items() if handler.batch == 1}
        self.stats = _HandlerStats()
        self.failures = _HandlerFailures()

    def submit(self, handle: HandleMessages) -> None:
        """Handle messages."""
        delivery = DeliveryContext(handle.queue, handle.fence, handle.attempt, self._loop, self._reply_sender)
        messages = cast("Sequence[ReceivedMessage]", handle.messages)
        topic = handle.queue.topic
        handler = self._handlers.get(topic)
        if handler is not None:
            self._enqueue(HandlerTask(topic, handle, handler, handle.offsets, messages, delivery, self._may_start))
            return
        # Retries: each goes to the handler of the topic it was first sent to.
        by_topic: dict[str, list[int]] = {}
        for place, message in enumerate(messages):
            by_topic.setdefault(origin_topic(message), []).append(place)
        for topic, places in by_topic.items():
            offsets = [handle.offsets[place] for place in places]
            handler = self._handlers.get(topic)
            if handler is None:
                self.failures.record_unhandled_topic(topic)
                self._on_handled([Handled(handle.queue, handle.generation, (), offsets)])
            else:
                matching = [messages[place] for place in places]
                self._enqueue(HandlerTask(topic, handle, handler, offsets, matching, delivery, self._may_start))

    def handle_directly(self, message: ReceivedMessage, on_finished: OnFinished) -> bool:
        """Handle one message outside its queue, for an administrator; False if it has no handler."""
        topic = origin_topic(message)
        handler = self._handlers.get(topic)
        if handler is None:
            return False
        handle = HandleMessages(message.queue, -1, (message.offset,), (message,), None)
        delivery = DeliveryContext(message.queue, None, 0, self._loop, self._reply_sender)
        self._enqueue(HandlerTask(topic, handle, handler, handle.offsets, (message,), delivery, None, on_finished))
        return True

    def _enqueue(self, task: HandlerTask) -> None:
        if self._is_closed:
            return
        if len(task.offsets) > 1 and not task.handler.orderly and task.handler.batch == 1:
            self._splittable[task] = None
            if self._slow_timer is None:
                self._slow_timer = self._loop.call_later(_SLOW_CHECK_S, self._split_slow_tasks)
        if task.handler.is_async:
            if len(self._async_tasks) >= self._workers:
                self._waiting.append(task)
            else:
                self._start_async_task(task)
            return
        self._outstanding += 1
        if len(self._threads) < min(self._workers, self._outstanding):
            self._start_thread()
        self._task_queue.put(task)

    def _start_thread(self) -> None:
        number = len(self._threads)
        thread = threading.Thread(target=self._run_worker, name=f"{self._name}-{number}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            # The system has no more threads: the existing ones do the work, and the next task tries again.
            if not self._is_short_of_threads:
                self._is_short_of_threads = True
                _log.warning("only %d of %d workers could be started: %s", number, self._workers, error)
            return
        self._threads.append(thread)

    def _split_slow_tasks(self) -> None:
        """Split tasks that turned out slow, and give smaller ones to their handler."""
        self._slow_timer = None
        now_ns = steady_ns()
        for task in [task for task in self._splittable if task.is_slow(now_ns)]:
            del self._splittable[task]
            for rest in task.split_rest():
                self._enqueue(rest)
            self._record_durations(task.topic, [now_ns - task.begun_ns])
        if self._splittable:
            self._slow_timer = self._loop.call_later(_SLOW_CHECK_S, self._split_slow_tasks)

    def _run_worker(self) -> None:
        next_task, tasks = self._task_queue.get, self._thread_tasks
        ident, name = threading.get_ident(), threading.current_thread().name
        while (task := next_task()) is not None:
            tasks[ident] = name, task
            set_delivery(task.delivery)
            self._run(task)
            set_delivery(None)
            del tasks[ident]
            self._finished.append(task)
            if not self._wake_pending:
                self._wake_pending = True
                try:
                    self._loop.call_soon_threadsafe(self._collect_finished)
                except RuntimeError:
                    _log.debug("a handler ended after its loop")

    def _run(self, task: HandlerTask) -> None:
        function = task.handler.function
        # Once per task: checking for each message costs more than a quick handler does.
        call = self._call_observed if self._observers.is_on else self._call
        if task.handler.batch > 1 and not task.is_compressed:
            if not self._is_closed and task.start_all():
                call(task, function, list(task.messages))
            return
        while task.not_begun and not self._is_closed and task.start_next():
            message = task.messages[task.count - 1]
            if message.sys_flag & SEALED or task.handler.batch > 1:
                self._budget.acquire()
                given, size = _decompressed(task)
                self._budget.keep_only(size)
                if given is not None:
                    call(task, function, given)
                task.release()
                self._budget.release(size)
            else:
                call(task, function, message)

    def _call_observed(self, task: HandlerTask, function: Callable[..., object], given: object) -> None:
        with observe_handler(self._observers, task):
            self._call(task, function, given)

    def _call(self, task: HandlerTask, function: Callable[..., object], given: object) -> None:
        try:
            result = function(given)
            if result is not None and inspect.iscoroutine(result):
                asyncio.run_coroutine_threadsafe(result, self._loop).result()
        except BaseException as error:
            task.raised(error, describe_error(error, self._secrets))
            self.failures.record(task.handler, task.current, error)
        else:
            task.succeeded()

    def _start_async_task(self, task: HandlerTask) -> None:
        running = self._loop.create_task(self._run_async(task))
        self._async_tasks[running] = task
        running.add_done_callback(self._async_task_done)

    def _async_task_done(self, task: "asyncio.Task[None]") -> None:
        del self._async_tasks[task]
        if task.cancelled():
            return  # the loop is ending
        while self._waiting and len(self._async_tasks) < self._workers:
            self._start_async_task(self._waiting.popleft())

    async def _run_async(self, task: HandlerTask) -> None:
        set_delivery(task.delivery)
        function: Callable[..., object] = task.handler.function
        wait = self._await_observed if self._observers.is_on else self._await
        if task.handler.batch > 1 and not task.is_compressed:
            if not self._is_closed and task.start_all():
                await wait(task, function, list(task.messages))
        else:
            while not self._is_closed and task.start_next():
                message = task.current
                if message.sys_flag & SEALED or task.handler.batch > 1:
                    await self._budget.acquire_on_loop()
                    given, size = _decompressed(task)
                    self._budget.keep_only(size)
                    try:
                        if given is not None:
                            await wait(task, function, given)
                    finally:
                        task.release()
                        self._budget.release(size)
                else:
                    await wait(task, function, message)
        self._finish(task)

    async def _await_observed(self, task: HandlerTask, function: Callable[..., object], given: object) -> None:
        with observe_handler(self._observers, task):
            await self._await(task, function, given)

    async def _await(self, task: HandlerTask, function: Callable[..., object], given: object) -> None:
        try:
            result = function(given)
            if inspect.isawaitable(result):
                await result
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            task.raised(error, describe_error(error, self._secrets))
            self.failures.record(task.handler, task.current, error)
        else:
            task.succeeded()

    def _collect_finished(self) -> None:
        """Report all tasks that threads finished."""
        self._wake_pending = False
        ended = self._finished
        results: list[Handled] = []
        while ended:
            task = ended.popleft()
            self._outstanding -= 1
            results += self._results_of(task)
        if results:
            self._on_handled(results)

    def _finish(self, task: HandlerTask) -> None:
        results = self._results_of(task)
        if results:
            self._on_handled(results)

    def _results_of(self, task: HandlerTask) -> list[Handled]:
        """Record a finished task, and return its results."""
        self._splittable.pop(task, None)
        if task.on_finished is not None:
            try:
                task.on_finished(task)
            except Exception:
                # The results of other messages must be reported, whatever this was.
                _log.exception("the result of a message that was handled directly could not be sent")
            return []
        topic = task.topic
        self.stats.record(topic, task.count - len(task.unreadable), len(task.failed), task.took_ns)
        self._record_durations(topic, task.took_ns)
        return task.results()

    def _record_durations(self, topic: str, took_ns: Sequence[int]) -> None:
        chunking = self._chunkings.get(topic)
        if chunking is not None:
            before = chunking.size
            size = chunking.record_durations(took_ns)
            if size != before:
                self._set_chunk(topic, size)

    def running_handlers(self) -> list[RunningHandler]:
        """Return the handlers that run now, those that run for longest first. From any thread."""
        now_ns, frames = steady_ns(), sys._current_frames()
        loop_frames = thread_frames(frames.get(self._loop_thread))
        found = [
            running_handler(task, name, thread_frames(frames.get(ident)), HandlerPool._call.__code__, now_ns)
            for ident, (name, task) in self._thread_tasks.copy().items()
        ]
        found += [
            running_handler(
                task,
                running.get_name(),
                coroutine_frames(running.get_coro(), loop_frames),
                HandlerPool._await.__code__,
                now_ns,
            )
            for running, task in self._async_tasks.copy().items()
        ]
        return sorted(filter(None, found), key=lambda each: -each.running_ms)[:MAX_HANDLERS]

    @property
    def is_current(self) -> bool:
        """Whether this is called in a handler, which must not wait for the end of all handlers."""
        if threading.current_thread() in self._threads:
            return True
        try:
            return asyncio.current_task() in self._async_tasks
        except RuntimeError:
            return False

    async def close(self, wait_s: float) -> int:
        """Stop, and wait for running handlers; return how many still run."""
        self._is_closed = True
        self._waiting.clear()
        if self._slow_timer is not None:
            self._slow_timer.cancel()
        for _ in self._threads:
            self._task_queue.put(None)
        end_s = self._loop.time() + wait_s
        while self._busy_count() and self._loop.time() < end_s:
            await asyncio.sleep(_POLL_S)
        still = self._busy_count()
        tasks = list(self._async_tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CANCEL_TIMEOUT_S)
        self.failures.log_repeats()
        return still

    def _busy_count(self) -> int:
        return sum(thread.is_alive() for thread in self._threads) + len(self._async_tasks)


def _decompressed(task: HandlerTask) -> tuple[object, int]:
    """Decompress what was begun; return what the handler gets, None for nothing, and its size."""
    if task.handler.batch > 1:
        batch, size = task.decompress_batch()
        return batch or None, size
    opened_bytes = task.decompress()
    return (None, 0) if opened_bytes is None else (task.current, opened_bytes)


def _is_cancelled() -> bool:
    """Say whether this task was cancelled, and not only something that its handler awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
