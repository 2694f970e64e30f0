"""What a consumer does with the messages of each topic: the functions that a user handed in, checked together.

One handler a topic, all in order or none: the order of a queue is kept by a lock for the whole group, and a group is of
one kind. A message that comes back through the topic of retries goes to the handler of the topic it was sent to.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from steelyard.errors import ConfigurationError
from steelyard.model import FilterKind, Subscription

__all__ = ["BATCH_MOST", "Handler", "HandlerFunction", "Handlers"]

BATCH_MOST = 1_024

HandlerFunction = Callable[[Any], object] | Callable[[Any], Awaitable[object]]
"""Takes a message, or a list of them where it was registered with a batch."""


@dataclass(frozen=True, slots=True, eq=False)
class Handler:
    """One topic and what is done with its messages."""

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
        if not 1 <= self.batch <= BATCH_MOST:
            raise ConfigurationError(
                f"the handler of topic {self.topic!r} wants batches of {self.batch}",
                next_step=f"give 1 to {BATCH_MOST}",
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
        """Return what is wanted of the topic, under the name that servers have for it."""
        if self.sql is not None:
            return Subscription(full_topic, self.sql, FilterKind.SQL92, version)
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
        """Take one more."""
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
