"""Which topics and queues are read: topics by name, by a pattern, or certain queues alone."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from steelyard.errors import ConfigurationError
from steelyard.model import Queue
from steelyard.spark.options.values import Given, wrong

__all__ = ["Topics", "topics_of"]

_ASSIGN = 'write it as {"orders": {"broker-a": [0, 1]}}'


@dataclass(frozen=True, slots=True)
class Topics:
    """One of three: names, a pattern, or queues. Topics are as users write them.

    >>> Topics(pattern="orders-.*").takes("orders-eu"), Topics(("orders",)).takes("orders-eu")
    (True, False)
    """

    names: tuple[str, ...] = ()
    """All topics that are named; empty with a pattern."""
    pattern: str | None = None
    assigned: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    """Queues by topic and broker, if only those are wanted."""

    def takes(self, topic: str) -> bool:
        """Say whether a topic is read."""
        return topic in self.names if self.pattern is None else re.fullmatch(self.pattern, topic) is not None

    @property
    def queues(self) -> frozenset[Queue] | None:
        """The queues that are read; None if it is all of the topics."""
        if not self.assigned:
            return None
        return frozenset(
            Queue(topic, broker, number)
            for topic, brokers in self.assigned.items()
            for broker, numbers in brokers.items()
            for number in numbers
        )

    def among(self, queues: Iterable[Queue]) -> list[Queue]:
        """Return those of some queues that are read."""
        chosen = self.queues
        if chosen is None:
            return [queue for queue in queues if self.takes(queue.topic)]
        return [queue for queue in queues if queue in chosen]

    def __str__(self) -> str:
        return f"topics that match {self.pattern}" if self.pattern else ", ".join(self.names)


def topics_of(given: Given) -> Topics:
    """Read what is to be read."""
    name = given.one_of("subscribe", "subscribePattern", "assign")
    if name is None:
        meant = f"option('subscribe', {given.path!r}) and load()" if given.path else "option('subscribe', 'orders')"
        raise ConfigurationError("no topic is named", next_step=f"give one, as in {meant}; or subscribePattern, assign")
    value = given.words(name) or ""
    if name == "subscribe":
        names = tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
        if not names:
            raise wrong(name, value, "name topics, with commas between them")
        return Topics(names)
    if name == "subscribePattern":
        try:
            re.compile(value)
        except (re.error, RecursionError, OverflowError) as error:
            raise wrong(name, value, f"give a regular expression ({error})") from None
        return Topics(pattern=value)
    assigned = _assigned(given, value)
    return Topics(tuple(assigned), assigned=assigned)


def _assigned(given: Given, value: str) -> dict[str, dict[str, tuple[int, ...]]]:
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    topics = given.json("assign")
    if not isinstance(topics, dict) or not topics:
        raise wrong("assign", value, _ASSIGN)
    for topic, brokers in topics.items():
        if not isinstance(brokers, dict) or not brokers:
            raise wrong("assign", value, _ASSIGN)
        for broker, numbers in brokers.items():
            if not isinstance(numbers, list) or not numbers or not all(map(_is_number, numbers)):
                raise wrong("assign", value, _ASSIGN)
            found.setdefault(topic, {})[broker] = tuple(sorted(set(numbers)))
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31
