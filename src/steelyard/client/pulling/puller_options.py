"""How a puller works: one value, checked together once; every option is a keyword of `Puller`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict

from steelyard.balance.actions import Start
from steelyard.balance.member_options import MemberOptions, OnUnreadable, Times
from steelyard.client.consuming.consumer_options import Allocate, ConsumerOptions
from steelyard.client.moments import StartFrom
from steelyard.client.observing.observer import Observer
from steelyard.model import Subscription

__all__ = ["POLL_MOST", "PullerOptions", "PullerSettings"]

POLL_MOST = 500
"""How many messages a poll returns at most if nobody says otherwise."""

_ALL = 1 << 30
"""As many as there are: how much waits to be polled is bounded queue by queue."""
_NO_SPAN = 1 << 62
"""Messages are polled in order, so the distance of the first from the last says nothing."""


class PullerSettings(TypedDict, total=False):
    """The same as keywords: `PullerOptions` has the words for each."""

    auto_commit: bool
    start_from: StartFrom
    allocate: Allocate
    mixed: Allocate | None
    allocate_settings: Mapping[str, object]
    drain_s: float | None
    pull_batch: int
    queue_messages: int
    queue_bytes: int
    topic_messages: int | None
    topic_bytes: int | None
    on_unreadable: str
    times: Times
    observers: Sequence[Observer]


@dataclass(frozen=True, slots=True)
class PullerOptions:
    """The options of a puller.

    >>> PullerOptions("report").start.at.value, PullerOptions("report", start_from="first").start.at.value
    ('last', 'first')
    >>> PullerOptions("")
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: the group is ''; give a name of letters, digits, - and _, such as billing
    """

    group: str
    """The group that it reads for."""
    auto_commit: bool = True
    """Whether what one poll returned counts as done when the next one begins."""
    start_from: StartFrom = "last"
    """Where a group begins that has never been here: ``first``, ``last``, or a time."""
    allocate: Allocate = "sticky"
    """How queues are shared with other members of the group; this, and all to ``drain_s``, is for who subscribes."""
    mixed: Allocate | None = None
    """How they are shared while members of other makes are in the group."""
    allocate_settings: Mapping[str, object] = field(default_factory=dict)
    """What a strategy needs to know: rooms, fixed queues, weights; of single members by their ``name``."""
    drain_s: float | None = 30.0
    """How long a queue that goes to another member waits for what was polled of it; None: as long as it takes."""
    pull_batch: int = 32
    """How many messages are asked for at a time."""
    queue_messages: int = 1_000
    """More than these of one queue waiting to be polled, and it is not pulled from."""
    queue_bytes: int = 100 << 20
    """The same for the bytes of their bodies."""
    topic_messages: int | None = None
    """The same for all queues of a topic together: each that is owned has an equal share, anew after each rebalance."""
    topic_bytes: int | None = None
    """The same for the bytes of a topic."""
    on_unreadable: str = "dead-letter"
    """What becomes of a message whose body cannot be opened: ``dead-letter`` sends its bytes and the reason to the
    dead letters, ``skip`` passes over it, ``stop`` lets its queue stand still and raises an error in `poll`. A missing
    extra always stops."""
    times: Times = field(default_factory=Times)
    """The times of the balancing protocol; all members of a group should have the same."""
    observers: Sequence[Observer] = ()
    """Who is told what happens: `steelyard.otel.OpenTelemetry`, `steelyard.metrics.ClientMetrics`, or your own."""
    _checked: ConsumerOptions = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # What is the same for a consumer is checked where a consumer's is.
        checked = ConsumerOptions(
            self.group,
            allocate=self.allocate,
            mixed=self.mixed,
            allocate_settings=self.allocate_settings,
            start_from=self.start_from,
            drain_s=self.drain_s,
            pull_batch=self.pull_batch,
            queue_messages=self.queue_messages,
            queue_bytes=self.queue_bytes,
            topic_messages=self.topic_messages,
            topic_bytes=self.topic_bytes,
            on_unreadable=self.on_unreadable,
            times=self.times,
            observers=self.observers,
        )
        object.__setattr__(self, "_checked", checked)

    @property
    def start(self) -> Start:
        """Where to begin in a queue for which the group has stored nothing."""
        return self._checked.start

    def member_options(self, group: str, member_id: str, wanted: Mapping[str, Subscription]) -> MemberOptions:
        """Return how the member of a puller is set up; topics and group are full names."""
        checked = self._checked
        return MemberOptions(
            group,
            member_id,
            wanted,
            strategy=checked.strategy,
            java_strategy=checked.java_strategy,
            start=checked.start,
            handlers=_ALL,
            chunk=self.pull_batch,
            pull_most=self.pull_batch,
            queue_messages=self.queue_messages,
            queue_bytes=self.queue_bytes,
            topic_messages=self.topic_messages,
            topic_bytes=self.topic_bytes,
            queue_span=_NO_SPAN,
            has_retries=False,
            on_unreadable=OnUnreadable(self.on_unreadable),
            times=replace(self.times, drain_ms=checked.drain_ms),
        )
