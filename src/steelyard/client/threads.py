"""A user's function in a thread of its own, awaited on the loop.

The thread is a daemon: an executor's are waited for when the interpreter ends, before anything can be closed, so a
function that never returns would keep the process alive.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

__all__ = ["call_in_thread"]

A = TypeVar("A")
R = TypeVar("R")


async def call_in_thread(name: str, function: Callable[[A], R], given: A) -> R:
    """Call a function in a new thread, and return or raise what it does; SystemExit too is only an error here."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    results: list[R] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(function(given))
        except BaseException as error:
            errors.append(error)
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(lambda: None if ended.done() else ended.set_result(None))

    threading.Thread(target=work, name=name, daemon=True).start()
    await ended
    if errors:
        error = errors[0]
        raise error if isinstance(error, Exception) else RuntimeError(f"it raised {error!r}") from error
    return results[0]
