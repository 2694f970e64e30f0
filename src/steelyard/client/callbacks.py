"""Calling what a user registered for moves and hazards: whatever it does, the client goes on."""

import inspect
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

__all__ = ["call_all"]

E = TypeVar("E")

_log = logging.getLogger("steelyard")


def call_all(
    functions: Sequence[Callable[[E], object]],
    event: E,
    whose: str,
    spawn: Callable[[Coroutine[Any, Any, None]], None],
) -> None:
    """Call each function with an event; those that are ``async def`` are handed to ``spawn``.

    >>> call_all([print], "orders@broker-a:0 came", "the consumer", spawn=lambda work: None)
    orders@broker-a:0 came
    """
    for function in functions:
        try:
            result = function(event)
        except Exception:
            _log.exception("a callback of %s failed", whose)
            continue
        if inspect.iscoroutine(result):
            spawn(result)
