"""What was written to a topic: how much in each queue, under each key, on each broker, in each step of time.

These are the sums that Spark works out (report/reading.py): few values, however many messages there were. A *step* is
a minute, or what cuts the time into a hundred pieces or less. Bytes are those of bodies as a reader gets them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from steelyard.model import Queue

__all__ = ["KeyInQueue", "KeyLoad", "QueueLoad", "StepLoad", "Traffic", "step_for"]

_STEPS_MS = (
    *(1_000, 5_000, 15_000, 60_000, 300_000, 900_000, 3_600_000, 10_800_000, 21_600_000),
    *(86_400_000, 7 * 86_400_000, 28 * 86_400_000),
)
_MOST_STEPS = 100


@dataclass(frozen=True, slots=True)
class KeyInQueue:
    """A key's part of a queue."""

    key: str
    messages: int


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """What a queue got."""

    queue: Queue
    messages: int = 0
    body_bytes: int = 0
    heaviest: KeyInQueue | None = None
    """The key with the most messages in it."""

    @property
    def name(self) -> str:
        """What it is called where the topic is known.

        >>> QueueLoad(Queue("orders", "broker-a", 3)).name
        'broker-a:3'
        """
        return f"{self.queue.broker}:{self.queue.queue_id}"


@dataclass(frozen=True, slots=True)
class KeyLoad:
    """What was written under a key."""

    key: str
    messages: int
    body_bytes: int
    queues: int
    """In how many queues it is; one, where the key decides."""
    mostly_in: Queue


@dataclass(frozen=True, slots=True)
class StepLoad:
    """What a broker got in a step of time."""

    at_ms: int
    """When the step begins."""
    broker: str
    messages: int
    body_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What was written to a topic."""

    queues: tuple[QueueLoad, ...]
    """All that it has, in order, also those that got nothing."""
    keys: tuple[KeyLoad, ...] = ()
    """The heaviest ones, the heaviest first."""
    keyed: int = 0
    """How many messages have a key."""
    distinct_keys: int = 0
    step_ms: int = 60_000
    steps: tuple[StepLoad, ...] = ()
    """By time, then by broker; where nothing was written there is none."""
    cells: Mapping[Queue, Mapping[int, int]] = field(default_factory=dict)
    """Messages of each queue by the beginning of the step; empty if there are too many queues to be shown."""

    @property
    def messages(self) -> int:
        """How many messages there were."""
        return sum(each.messages for each in self.queues)

    @property
    def body_bytes(self) -> int:
        """How large their bodies are."""
        return sum(each.body_bytes for each in self.queues)

    @property
    def brokers(self) -> tuple[str, ...]:
        """Who has queues of the topic, in their order."""
        return tuple(dict.fromkeys(each.queue.broker for each in self.queues))


def step_for(start_ms: int, end_ms: int) -> int:
    """Return the length of a step: a minute or more for long times, less for short ones.

    >>> step_for(0, 20_000), step_for(0, 3_600_000), step_for(0, 7 * 86_400_000)
    (1000, 60000, 10800000)
    """
    span_ms = max(0, end_ms - start_ms)
    return next((step for step in _STEPS_MS if span_ms / step <= _MOST_STEPS), span_ms // _MOST_STEPS)
