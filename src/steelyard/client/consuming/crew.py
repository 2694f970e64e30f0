"""Who runs the user's functions: threads for plain ones, tasks on the loop for those that are ``async def``.

A worker takes a whole chunk: to hand over each message by itself would cost more than a quick handler does. Results
come back in one call of the loop for as many chunks as ended meanwhile. Threads are started when there is work for
them, and are daemons: a handler that never returns does not keep a process alive that wants to end.

Once it is closed no message is begun any more, whatever a queue says: nobody would hear what became of it.

An error of a handler is told once for its kind, with where it came from; those that follow are counted.
"""

import asyncio
import inspect
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from queue import SimpleQueue
from typing import cast

from steelyard.balance.actions import Handle
from steelyard.balance.chunking import Chunking
from steelyard.balance.events import Handled
from steelyard.client.consuming.delivery import Delivery, Replier, set_delivery
from steelyard.client.consuming.handlers import Handler
from steelyard.client.consuming.job import Finished, Job, MayStart
from steelyard.client.consuming.opening import Room
from steelyard.client.consuming.received import Received, sent_to
from steelyard.client.consuming.tallies import Tallies
from steelyard.client.consuming.troubles import Troubles
from steelyard.client.observing.handled import observed
from steelyard.client.observing.observing import Observing
from steelyard.net.clock import steady_ns
from steelyard.wire.sysflag import SEALED

__all__ = ["Crew"]

_log = logging.getLogger("steelyard")
_LOOK_S = 0.005
_SLOW_LOOK_S = 0.02
_CANCELLED_S = 1.0
"""How long a handler on the loop may take to end once it is cancelled."""


class Crew:
    """The workers of one consumer. All but the workers themselves is on the loop."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        *,
        workers: int,
        may_start: MayStart,
        told: Callable[[Sequence[Handled]], None],
        resize: Callable[[str, int], None],
        replier: Replier | None = None,
        name: str = "steelyard",
        observing: Observing | None = None,
        open_bytes: int = 0,
    ) -> None:
        self._room = Room(open_bytes)
        self._handlers = handlers
        """By topic, as servers call it."""
        self._workers = workers
        self._may_start, self._told, self._resize, self._replier = may_start, told, resize, replier
        self._name, self._observing = name, observing
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._is_short = False
        """Whether it was told that there are fewer threads than wanted."""
        self._outstanding = 0
        """Jobs that threads have or will have."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: deque[Job] = deque()
        """Jobs for the loop beyond what may run at a time."""
        self._ended: deque[Job] = deque()
        self._is_told = False
        self._is_closed = False
        self._shared: dict[Job, None] = {}
        """Jobs of several messages, of which others may take some, oldest first."""
        self._look_timer: asyncio.TimerHandle | None = None
        self._chunkings = {topic: Chunking() for topic, handler in handlers.items() if handler.batch == 1}
        self.tallies = Tallies()
        self.troubles = Troubles()

    # -- work comes in ------------------------------------------------------------------------------------------------

    def take(self, handle: Handle) -> None:
        """Have messages handled."""
        delivery = Delivery(handle.queue, handle.fence, handle.attempt, self._loop, self._replier)
        messages = cast("Sequence[Received]", handle.messages)
        topic = handle.queue.topic
        handler = self._handlers.get(topic)
        if handler is not None:
            self._begin(Job(topic, handle, handler, handle.offsets, messages, delivery, self._may_start))
            return
        # These came back: each goes to the handler of the topic it was sent to.
        by_topic: dict[str, list[int]] = {}
        for place, message in enumerate(messages):
            by_topic.setdefault(sent_to(message), []).append(place)
        for topic, places in by_topic.items():
            offsets = [handle.offsets[place] for place in places]
            handler = self._handlers.get(topic)
            if handler is None:
                self.troubles.note_homeless(topic)
                self._told([Handled(handle.queue, handle.generation, (), offsets)])
            else:
                theirs = [messages[place] for place in places]
                self._begin(Job(topic, handle, handler, offsets, theirs, delivery, self._may_start))

    def handle_now(self, message: Received, then: Finished) -> bool:
        """Have one message handled besides its queue, for somebody who wants to see; False: no handler takes it."""
        topic = sent_to(message)
        handler = self._handlers.get(topic)
        if handler is None:
            return False
        handle = Handle(message.queue, -1, (message.offset,), (message,), None)
        delivery = Delivery(message.queue, None, 0, self._loop, self._replier)
        self._begin(Job(topic, handle, handler, handle.offsets, (message,), delivery, None, then))
        return True

    def _begin(self, job: Job) -> None:
        if self._is_closed:
            return
        if len(job.offsets) > 1 and not job.handler.orderly and job.handler.batch == 1:
            self._shared[job] = None
            if self._look_timer is None:
                self._look_timer = self._loop.call_later(_SLOW_LOOK_S, self._look_for_slow)
        if job.handler.is_async:
            if len(self._tasks) >= self._workers:
                self._waiting.append(job)
            else:
                self._start_task(job)
            return
        self._outstanding += 1
        if len(self._threads) < min(self._workers, self._outstanding):
            self._start_thread()
        self._jobs.put(job)

    def _start_thread(self) -> None:
        number = len(self._threads)
        thread = threading.Thread(target=self._work, name=f"{self._name}-{number}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            # The system gives no more of them: those that are there do the work, and the next job tries again.
            if not self._is_short:
                self._is_short = True
                _log.warning("only %d of %d workers could be started: %s", number, self._workers, error)
            return
        self._threads.append(thread)

    def _look_for_slow(self) -> None:
        """Give what waits in a job that turned out slow to others, and smaller jobs to its handler."""
        self._look_timer = None
        now_ns = steady_ns()
        for job in [job for job in self._shared if job.is_slow(now_ns)]:
            del self._shared[job]
            for rest in job.take_rest():
                self._begin(rest)
            self._note_time(job.topic, [now_ns - job.begun_ns])
        if self._shared:
            self._look_timer = self._loop.call_later(_SLOW_LOOK_S, self._look_for_slow)

    # -- threads ------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        take = self._jobs.get
        while (job := take()) is not None:
            set_delivery(job.delivery)
            self._run(job)
            set_delivery(None)
            self._ended.append(job)
            if not self._is_told:
                self._is_told = True
                self._wake()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._tell)
        except RuntimeError:
            _log.debug("a handler ended after the loop it was started from")

    def _run(self, job: Job) -> None:
        function = job.handler.function
        # Once for a chunk: to ask for each message would cost more than a quick handler does.
        observing = self._observing
        call = self._call if observing is None or not observing.is_on else partial(self._call_observed, observing)
        if job.handler.batch > 1 and not job.is_sealed:
            if not self._is_closed and job.begins_all():
                call(job, function, list(job.messages))
            return
        while not self._is_closed and job.begins():
            message = job.current
            if message.sys_flag & SEALED or job.handler.batch > 1:
                self._room.wait()
                given, size = _opened(job)
                self._room.leave(size)
                if given is not None:
                    call(job, function, given)
                job.close()
                self._room.give(size)
            else:
                call(job, function, message)

    def _call_observed(self, observing: Observing, job: Job, function: Callable[..., object], given: object) -> None:
        with observed(observing, job):
            self._call(job, function, given)

    def _call(self, job: Job, function: Callable[..., object], given: object) -> None:
        try:
            result = function(given)
            if result is not None and inspect.iscoroutine(result):
                asyncio.run_coroutine_threadsafe(result, self._loop).result()
        except BaseException as error:
            job.ended_badly(error)
            self.troubles.note(job.handler, job.current, error)
        else:
            job.ended()

    # -- tasks --------------------------------------------------------------------------------------------------------

    def _start_task(self, job: Job) -> None:
        task = self._loop.create_task(self._run_async(job))
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)

    def _task_ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return  # the loop comes to its end
        while self._waiting and len(self._tasks) < self._workers:
            self._start_task(self._waiting.popleft())

    async def _run_async(self, job: Job) -> None:
        set_delivery(job.delivery)
        function: Callable[..., object] = job.handler.function
        observing = self._observing
        wait = self._await if observing is None or not observing.is_on else partial(self._await_observed, observing)
        if job.handler.batch > 1 and not job.is_sealed:
            if not self._is_closed and job.begins_all():
                await wait(job, function, list(job.messages))
        else:
            while not self._is_closed and job.begins():
                message = job.current
                if message.sys_flag & SEALED or job.handler.batch > 1:
                    await self._room.wait_on_loop()
                    given, size = _opened(job)
                    self._room.leave(size)
                    try:
                        if given is not None:
                            await wait(job, function, given)
                    finally:
                        job.close()
                        self._room.give(size)
                else:
                    await wait(job, function, message)
        self._note(job)

    async def _await_observed(
        self, observing: Observing, job: Job, function: Callable[..., object], given: object
    ) -> None:
        with observed(observing, job):
            await self._await(job, function, given)

    async def _await(self, job: Job, function: Callable[..., object], given: object) -> None:
        try:
            result = function(given)
            if inspect.isawaitable(result):
                await result
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            job.ended_badly(error)
            self.troubles.note(job.handler, job.current, error)
        else:
            job.ended()

    # -- results ------------------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        """Tell the member of all jobs that threads finished."""
        self._is_told = False
        ended = self._ended
        results: list[Handled] = []
        while ended:
            job = ended.popleft()
            self._outstanding -= 1
            results += self._settled(job)
        if results:
            self._told(results)

    def _note(self, job: Job) -> None:
        results = self._settled(job)
        if results:
            self._told(results)

    def _settled(self, job: Job) -> list[Handled]:
        """Take note of how a job went."""
        self._shared.pop(job, None)
        if job.then is not None:
            try:
                job.then(job)
            except Exception:
                # What became of other messages must be told, whatever this was.
                _log.exception("the result of a message that was handled out of turn could not be told")
            return []
        topic = job.topic
        self.tallies.note(topic, job.count - len(job.unreadable), len(job.failed), job.took_ns)
        self._note_time(topic, job.took_ns)
        return job.results()

    def _note_time(self, topic: str, took_ns: Sequence[int]) -> None:
        chunking = self._chunkings.get(topic)
        if chunking is not None:
            before = chunking.size
            size = chunking.note(took_ns)
            if size != before:
                self._resize(topic, size)

    # -- the end ------------------------------------------------------------------------------------------------------

    @property
    def is_here(self) -> bool:
        """Whether this is called in a handler: who waits there for the end of all handlers waits for itself."""
        if threading.current_thread() in self._threads:
            return True
        try:
            return asyncio.current_task() in self._tasks
        except RuntimeError:
            return False

    async def close(self, wait_s: float) -> int:
        """Take no more work, and wait for what runs; return how many handlers are still running."""
        self._is_closed = True
        self._waiting.clear()
        if self._look_timer is not None:
            self._look_timer.cancel()
        for _ in self._threads:
            self._jobs.put(None)
        end_s = self._loop.time() + wait_s
        while self._busy() and self._loop.time() < end_s:
            await asyncio.sleep(_LOOK_S)
        still = self._busy()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CANCELLED_S)
        self.troubles.tell()
        return still

    def _busy(self) -> int:
        return sum(thread.is_alive() for thread in self._threads) + len(self._tasks)


def _opened(job: Job) -> tuple[object, int]:
    """Open what was begun: return what the handler gets, None for nothing, and how many bytes that is."""
    if job.handler.batch > 1:
        batch, size = job.open_batch()
        return batch or None, size
    opened_bytes = job.open()
    return (None, 0) if opened_bytes is None else (job.current, opened_bytes)


def _is_cancelled() -> bool:
    """Say whether the loop wants this task to end, and not only something that its handler waited for was cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
