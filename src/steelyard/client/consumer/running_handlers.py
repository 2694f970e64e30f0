"""Running handlers: which messages handlers have now, for how long, and the Python stack of each.

It is what Java's tools print as ``jstack``. Stacks are read from outside, so a handler that hangs does not hold up the
answer. They hold places in the code and no values of variables, and they are bounded.

A thread's stack is its current frame. A coroutine that waits has the frames of all coroutines that it awaits; one that
runs, and so blocks its loop, is a part of the stack of the loop's thread.
"""

import asyncio
import gc
import sys
import threading
import traceback
from collections.abc import Iterable, Sequence
from types import CodeType, FrameType

from steelyard.client.consumer.handler_task import HandlerTask
from steelyard.wire.bodies.members import RunningHandler

MAX_HANDLERS = 64
"""Handlers that are shown, those that run for longest first: the others mostly wait for the same."""
_MAX_THREADS = 64
_MAX_FRAMES = 40
_MAX_STACK_CHARS = 6_000


def thread_frames(frame: FrameType | None) -> list[FrameType]:
    """Return the frames of a thread, the outermost first."""
    return [each for each, _ in traceback.walk_stack(frame)][::-1] if frame is not None else []


def coroutine_frames(coroutine: object, loop_frames: Sequence[FrameType]) -> list[FrameType]:
    """Return the frames of a coroutine, the outermost first; ``loop_frames`` are those of its loop's thread."""
    found: list[FrameType] = []
    waiting: object = coroutine
    while waiting is not None:
        if (kind := _kind_of(waiting)) is None:
            # An iterator of a task or of an asynchronous generator: only the garbage collector knows what it is of.
            waiting = next((each for each in map(_coroutine_of, gc.get_referents(waiting)) if _kind_of(each)), None)
            continue
        frame: FrameType | None = getattr(waiting, f"{kind}_frame")
        if frame is None:
            break
        if frame in loop_frames:
            return found + list(loop_frames[loop_frames.index(frame) :])
        found.append(frame)
        waiting = getattr(waiting, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")
    return found


def _kind_of(awaited: object) -> str | None:
    """Return how the attributes of a coroutine, a generator or an asynchronous generator begin; None for others."""
    return next((kind for kind in ("cr", "gi", "ag") if hasattr(awaited, f"{kind}_frame")), None)


def _coroutine_of(awaited: object) -> object:
    return awaited.get_coro() if isinstance(awaited, asyncio.Task) else awaited


def running_handler(
    task: HandlerTask, worker: str, frames: Sequence[FrameType], caller: CodeType, now_ns: int
) -> RunningHandler | None:
    """Return what a worker does; None between messages. Frames up to that of ``caller`` are ours and left out."""
    given = task.given if task.count else ()
    if not given:
        return None
    start = next((place + 1 for place, frame in enumerate(frames) if frame.f_code is caller), 0)
    return RunningHandler(
        handler=task.handler.name,
        message_id=given[0].message_id,
        messages=len(given),
        offset=given[0].offset,
        queue=task.handle.queue,
        running_ms=max(0, now_ns - task.started_ns) // 1_000_000,
        stack=format_frames(frames[start:]),
        worker=worker,
    )


def format_frames(frames: Sequence[FrameType]) -> str:
    """Return frames as a traceback shows them; of too many, the innermost."""
    summary = traceback.StackSummary.extract((frame, frame.f_lineno or 0) for frame in frames[-_MAX_FRAMES:])
    text = "".join(summary.format())
    is_whole = len(frames) <= _MAX_FRAMES and len(text) <= _MAX_STACK_CHARS
    return text if is_whole else f"  …\n{text[-_MAX_STACK_CHARS:]}"


def format_stacks(running: Iterable[RunningHandler]) -> str:
    """Return the stacks of running handlers and of all other threads, in the form that tools show of a Java program."""
    running = tuple(running)
    parts = [f"{each}\n{each.stack}" for each in running]
    shown = {each.worker for each in running}
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    others = [
        (names.get(number, str(number)), frame)
        for number, frame in sys._current_frames().items()
        if names.get(number) not in shown
    ]
    parts += [f"{name}\n{format_frames(thread_frames(frame))}" for name, frame in others[:_MAX_THREADS]]
    if len(others) > _MAX_THREADS:
        parts.append(f"and {len(others) - _MAX_THREADS} more threads\n")
    return "\n".join(parts)
