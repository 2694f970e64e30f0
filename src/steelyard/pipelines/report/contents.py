"""The data of a balance report as one value: traffic by queue, key, broker and time, the group, and its history. Pure.

Traffic is aggregated by Spark (report/traffic_query.py): few values, however many messages there were. A *step* is a
minute, or whatever divides the period into at most a hundred. Bytes are those of bodies as a consumer gets them.

*Skew* is the maximum over the mean. 1.0 is even; 4.1 means that the busiest queue has 4.1 times the mean, and since a
group is done only when its busiest queue is, everything takes 4.1 times as long as it could. Small numbers are uneven
by chance: `Skew.is_uneven` requires more than chance explains.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import Generic, TypeVar

from steelyard.client.admin.group_description import GroupDescription
from steelyard.client.describe import short_names
from steelyard.model import Queue
from steelyard.pipelines.report.formatting import printable
from steelyard.pipelines.report.rebalance_history import OwnershipHistory

__all__ = [
    "KeyInQueue",
    "KeyLoad",
    "LagSample",
    "MemberLoad",
    "QueueLoad",
    "ReportContents",
    "Skew",
    "TimeStepLoad",
    "TopicTraffic",
    "choose_step_ms",
    "measure_skew",
]


_STEPS_MS = (
    *(1_000, 5_000, 15_000, 60_000, 300_000, 900_000, 3_600_000, 10_800_000, 21_600_000),
    *(86_400_000, 7 * 86_400_000, 28 * 86_400_000),
)
_MAX_STEPS = 100


@dataclass(frozen=True, slots=True)
class KeyInQueue:
    """A key in a queue."""

    key: str
    messages: int


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """The traffic of a queue."""

    queue: Queue
    messages: int = 0
    body_bytes: int = 0
    heaviest: KeyInQueue | None = None  # its key with the most messages

    @property
    def name(self) -> str:
        """Its name within the topic.

        >>> QueueLoad(Queue("orders", "broker-a", 3)).name
        'broker-a:3'
        """
        return f"{self.queue.broker}:{self.queue.queue_id}"


@dataclass(frozen=True, slots=True)
class KeyLoad:
    """The traffic of a key."""

    key: str
    messages: int
    body_bytes: int
    queues: int  # in how many queues it is; one, if the key decides the queue
    mostly_in: Queue


@dataclass(frozen=True, slots=True)
class TimeStepLoad:
    """The traffic of a broker in a step of time."""

    at_ms: int  # the start of the step
    broker: str
    messages: int
    body_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTraffic:
    """The traffic of a topic."""

    queues: tuple[QueueLoad, ...]  # all queues, in order, also empty ones
    keys: tuple[KeyLoad, ...] = ()  # the heaviest keys, in descending order
    keyed: int = 0  # how many messages have a key
    distinct_keys: int = 0
    step_ms: int = 60_000
    steps: tuple[TimeStepLoad, ...] = ()  # by time, then by broker; empty steps are left out
    queue_steps: Mapping[Queue, Mapping[int, int]] = field(default_factory=dict)
    """Messages of each queue by the start of the step; empty if there are too many queues to show."""

    @property
    def messages(self) -> int:
        """The number of messages."""
        return sum(each.messages for each in self.queues)

    @property
    def body_bytes(self) -> int:
        """The total size of bodies."""
        return sum(each.body_bytes for each in self.queues)

    @property
    def brokers(self) -> tuple[str, ...]:
        """The brokers of the topic, in order."""
        return tuple(dict.fromkeys(each.queue.broker for each in self.queues))


def choose_step_ms(start_ms: int, end_ms: int) -> int:
    """Return the length of a step for a period.

    >>> choose_step_ms(0, 20_000), choose_step_ms(0, 3_600_000), choose_step_ms(0, 7 * 86_400_000)
    (1000, 60000, 10800000)
    """
    span_ms = max(0, end_ms - start_ms)
    return next((step for step in _STEPS_MS if span_ms / step <= _MAX_STEPS), span_ms // _MAX_STEPS)


@dataclass(frozen=True, slots=True)
class LagSample:
    """The lag of the group in the topic at a moment."""

    at_ms: int
    messages: int


@dataclass(frozen=True, slots=True)
class MemberLoad:
    """The traffic of a member's queues."""

    id: str
    queues: int
    messages: int
    body_bytes: int
    lag: int  # the lag of its queues


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportContents:
    """The data of a report."""

    topic: str
    at_ms: int  # when it was made
    traffic: TopicTraffic
    group: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    group_view: GroupDescription | None = None
    history: OwnershipHistory | None = None
    lag_samples: tuple[LagSample, ...] = ()  # by time
    notes: tuple[str, ...] = ()  # what is unknown, or less exact than it seems

    def lags(self) -> dict[Queue, int]:
        """Return the lag of each queue of the topic, where it is known."""
        rows = () if self.group_view is None else self.group_view.queues
        return {each.queue: each.lag for each in rows if each.queue.topic == self.topic and each.lag is not None}

    def owners(self) -> dict[Queue, tuple[str, ...]]:
        """Return the owners of each queue of the topic."""
        rows = () if self.group_view is None else self.group_view.queues
        return {each.queue: each.owners for each in rows if each.queue.topic == self.topic}

    def member_names(self) -> dict[str, str]:
        """Return short printable names of members, by id."""
        ids = [member.id for member in self.group_view.members] if self.group_view is not None else []
        if self.history is not None:
            ids += self.history.members
        ids += (owner for owners in self.owners().values() for owner in owners)
        return {each: printable(name) for each, name in short_names(ids).items()}

    def members(self) -> tuple[MemberLoad, ...]:
        """Return the current members of the group with the traffic of their queues."""
        if self.group_view is None:
            return ()
        lags = self.lags()
        loads = {each.queue: each for each in self.traffic.queues}
        mine: dict[str, list[Queue]] = {member.id: [] for member in self.group_view.members}
        for queue, owners in self.owners().items():
            for owner in owners:
                mine.setdefault(owner, []).append(queue)
        return tuple(
            MemberLoad(
                name,
                len(queues),
                _total(queues, loads, lambda load: load.messages),
                _total(queues, loads, lambda load: load.body_bytes),
                sum(lags.get(queue, 0) for queue in queues),
            )
            for name, queues in mine.items()
        )


def _total(queues: list[Queue], loads: Mapping[Queue, QueueLoad], of: Callable[[QueueLoad], int]) -> int:
    return sum(of(loads[queue]) for queue in queues if queue in loads)


_NOTABLE_RATIO = 1.25
_CHANCE_DEVIATIONS = 4.0  # standard deviations beyond which it is not chance: once in some ten thousand

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Skew(Generic[T]):
    """The distribution of a load: total, maximum, and who has it."""

    parts: int
    total: float
    busiest: T | None  # None if there is no load
    max_load: float
    empty: int  # how many have no load

    @property
    def mean(self) -> float:
        """The load of each if it were even."""
        return self.total / self.parts if self.parts else 0.0

    @property
    def ratio(self) -> float:
        """The maximum over the mean; 1 if there is no load."""
        return self.max_load / self.mean if self.mean else 1.0

    @property
    def is_uneven(self) -> bool:
        """Whether it is more than chance, and notable."""
        return self.mean > 0 and self.ratio > max(_NOTABLE_RATIO, 1 + _CHANCE_DEVIATIONS / sqrt(self.mean))


def measure_skew(loads: Mapping[T, float]) -> Skew[T]:
    """Measure the skew of loads; of two equal maxima the first is the busiest.

    >>> weighed = measure_skew({"broker-a:0": 10, "broker-a:1": 10, "broker-b:0": 40, "broker-b:1": 20})
    >>> weighed.busiest, weighed.mean, weighed.ratio
    ('broker-b:0', 20.0, 2.0)
    """
    total = sum(loads.values())
    busiest = max(loads, key=loads.__getitem__, default=None) if total else None
    most = loads[busiest] if busiest is not None else 0.0
    return Skew(len(loads), total, busiest, most, sum(not load for load in loads.values()))
