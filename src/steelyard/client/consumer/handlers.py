"""Handlers: the functions that a user registered for topics, checked together.

A topic has one handler, and either all are orderly or none: queue locks are per group, and a group has one mode. A
message from the retry topic goes to the handler of the topic it was first sent to.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from steelyard.errors import ConfigurationError
from steelyard.model import ExpressionType, Subscription

_MAX_BATCH = 1_024

HandlerFunction = Callable[[Any], object] | Callable[[Any], Awaitable[object]]
"""Takes a message, or a list of them where it was registered with a batch."""


@dataclass(frozen=True, slots=True, eq=False)
class Handler:
    """The handler of one topic."""

    topic: str
    """As the user wrote it."""
    function: HandlerFunction
    tags: str | None = None
    sql: str | None = None
    orderly: bool = False
    batch: int = 1
    is_async: bool = field(init=False, default=False)
    """Whether it runs on the loop."""

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ConfigurationError(
                f"the handler of topic {self.topic!r} is a {type(self.function).__name__}",
                next_step="give a function that takes a message",
            )
        if self.tags is not None and self.sql is not None:
            raise ConfigurationError(
                f"the handler of topic {self.topic!r} wants tags and an SQL condition",
                next_step="write the tags into the condition: TAGS in ('paid', 'refunded')",
            )
        if not 1 <= self.batch <= _MAX_BATCH:
            raise ConfigurationError(
                f"the handler of topic {self.topic!r} wants batches of {self.batch}",
                next_step=f"give 1 to {_MAX_BATCH}",
            )
        self.subscription(self.topic, 0)
        call = type(self.function).__call__
        is_async = inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(call)
        object.__setattr__(self, "is_async", is_async)

    @property
    def name(self) -> str:
        """What the function is called."""
        return getattr(self.function, "__qualname__", None) or repr(self.function)

    def subscription(self, full_topic: str, version: int) -> Subscription:
        """Return the subscription, with the topic as servers know it."""
        if self.sql is not None:
            return Subscription(full_topic, self.sql, ExpressionType.SQL92, version)
        return Subscription(full_topic, self.tags or "*", version=version)


class Handlers:
    """The handlers of one consumer, by topic."""

    def __init__(self) -> None:
        self._by_topic: dict[str, Handler] = {}

    def __len__(self) -> int:
        return len(self._by_topic)

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._by_topic.values())

    @property
    def is_orderly(self) -> bool:
        """Whether the order of each queue counts."""
        return any(handler.orderly for handler in self)

    def add(self, handler: Handler) -> None:
        """Add a handler."""
        known = self._by_topic.get(handler.topic)
        if known is not None:
            raise ConfigurationError(
                f"topic {handler.topic!r} has a handler already, {known.name}",
                next_step="give one function, which calls both",
            )
        other = next((each for each in self if each.orderly != handler.orderly), None)
        if other is not None:
            first, second = (other, handler) if other.orderly else (handler, other)
            raise ConfigurationError(
                f"{first.name} wants topic {first.topic!r} in order, {second.name} takes {second.topic!r} in any order",
                next_step="make a consumer of another group for one of them, or give orderly=True to both",
            )
        self._by_topic[handler.topic] = handler
