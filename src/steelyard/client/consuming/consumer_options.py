"""How a consumer works: one value, checked together once; every option is a keyword of `Consumer`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypedDict

from steelyard.balance.actions import Start
from steelyard.balance.allocate import Average, Rule, Strategy, find_strategy
from steelyard.balance.allocate.strategy import remembers
from steelyard.balance.member_options import MemberOptions, Mode, OnUnreadable, Times
from steelyard.client.consuming.handlers import Handlers
from steelyard.client.moments import StartFrom, start_of
from steelyard.client.names import Names
from steelyard.client.observing.observer import Observer
from steelyard.client.observing.observing import check_observers
from steelyard.errors import ConfigurationError
from steelyard.model.names import TRACE_TOPIC

__all__ = ["Allocate", "ConsumerOptions", "ConsumerSettings"]

Allocate = str | Strategy | Rule
"""A strategy: by its name, ours or Java's, or a callable ``(group, member, queues, members) -> queues``."""

_GROUP = re.compile(r"[%|A-Za-z0-9_-]{1,255}")
_MODES = ("clustering", "broadcast")
_ON_UNREADABLE = tuple(choice.value for choice in OnUnreadable)


class ConsumerSettings(TypedDict, total=False):
    """The same as keywords: `ConsumerOptions` has the words for each."""

    allocate: Allocate
    mixed: Allocate | None
    allocate_settings: Mapping[str, object]
    mode: str
    start_from: StartFrom
    workers: int
    drain_s: float | None
    pull_batch: int
    queue_messages: int
    queue_bytes: int
    topic_messages: int | None
    topic_bytes: int | None
    most_tries: int
    on_unreadable: str
    offsets_dir: str | Path | None
    times: Times
    observers: Sequence[Observer]
    message_trace: bool
    trace_topic: str


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """The options of a consumer.

    >>> options = ConsumerOptions("billing", allocate="CONSISTENT_HASH")
    >>> options.strategy.name, options.java_strategy.name, ConsumerOptions("billing").java_strategy.name
    ('CONSISTENT_HASH', 'CONSISTENT_HASH', 'AVG')
    >>> ConsumerOptions("billing", mode="multicast")
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: the mode is 'multicast'; give clustering or broadcast
    """

    group: str
    """The group that it is a member of."""
    allocate: Allocate = "sticky"
    """How queues are shared."""
    mixed: Allocate | None = None
    """How they are shared while members of other makes are in the group, which cannot know what ours owned before.
    Without it that is the same strategy, and Java's default where that one remembers owners."""
    allocate_settings: Mapping[str, object] = field(default_factory=dict)
    """What a strategy needs to know: rooms, fixed queues, weights; of single members by their ``name``."""
    mode: str = "clustering"
    """``clustering``: the members share the messages; ``broadcast``: each gets all of them."""
    start_from: StartFrom = "last"
    """Where a group begins that has never been here: ``first``, ``last``, or a time."""
    workers: int = 20
    """Threads for plain handlers, and how many ``async def`` handlers run at a time."""
    drain_s: float | None = 30.0
    """How long handlers may go on when their queue moves, or at the end; None: as long as they need."""
    pull_batch: int = 32
    """How many messages are asked for at a time."""
    queue_messages: int = 1_000
    """More than these of one queue waiting, and it is not pulled from."""
    queue_bytes: int = 100 << 20
    """The same for the bytes of their bodies."""
    topic_messages: int | None = None
    """The same for all queues of a topic together: each that is owned has an equal share, anew after each rebalance."""
    topic_bytes: int | None = None
    """The same for the bytes of a topic."""
    most_tries: int = 16
    """How often an orderly message is tried before it goes to the dead letters; -1: for ever."""
    on_unreadable: str = "dead-letter"
    """What becomes of a message whose body cannot be opened: ``dead-letter`` sends its bytes and the reason to the
    dead letters, ``skip`` passes over it, ``stop`` lets its queue stand still. A missing extra always stops."""
    offsets_dir: str | Path | None = None
    """Where a broadcasting member keeps how far it is."""
    times: Times = field(default_factory=Times)
    """The times of the balancing protocol; all members of a group should have the same."""
    observers: Sequence[Observer] = ()
    """Who is told what happens: `steelyard.otel.OpenTelemetry`, `steelyard.metrics.ClientMetrics`, or your own."""
    message_trace: bool = False
    """Whether to write down what becomes of each message, for `steelyard message trace` and Java's tools."""
    trace_topic: str = TRACE_TOPIC
    """Where that is written."""
    strategy: Strategy = field(init=False)
    java_strategy: Strategy = field(init=False)
    start: Start = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.group, str) or not _GROUP.fullmatch(self.group):
            raise ConfigurationError(
                f"the group is {self.group!r}", next_step="give a name of letters, digits, - and _, such as billing"
            )
        if self.mode not in _MODES:
            raise ConfigurationError(f"the mode is {self.mode!r}", next_step=f"give {' or '.join(_MODES)}")
        if self.on_unreadable not in _ON_UNREADABLE:
            raise ConfigurationError(
                f"on_unreadable is {self.on_unreadable!r}", next_step=f"give {' or '.join(_ON_UNREADABLE)}"
            )
        for name in ("workers", "pull_batch", "queue_messages", "queue_bytes"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} is {getattr(self, name)}", next_step="give 1 or more")
        for name in ("topic_messages", "topic_bytes"):
            limit = getattr(self, name)
            if limit is not None and limit < 1:
                raise ConfigurationError(f"{name} is {limit}", next_step="give 1 or more, or None for no limit")
        if self.drain_s is not None and not self.drain_s >= 0:
            raise ConfigurationError(f"drain_s is {self.drain_s}", next_step="give 0 or more, or None for no bound")
        check_observers(self.observers)
        strategy = find_strategy(self.allocate, self.allocate_settings)
        if self.mixed is not None:
            java = find_strategy(self.mixed, self.allocate_settings)
        else:
            java = Average() if remembers(strategy) else strategy
        if remembers(java):
            raise ConfigurationError(
                f"members of other makes cannot share queues by {java.name}", next_step="give mixed='average'"
            )
        object.__setattr__(self, "strategy", strategy)
        object.__setattr__(self, "java_strategy", java)
        object.__setattr__(self, "start", start_of(self.start_from))

    @property
    def is_broadcast(self) -> bool:
        """Whether every member gets all messages."""
        return self.mode == "broadcast"

    @property
    def drain_ms(self) -> int | None:
        """How long handlers may go on."""
        return None if self.drain_s is None else int(self.drain_s * 1000)

    def member_options(self, handlers: Handlers, names: Names, client_id: str, version: int) -> MemberOptions:
        """Return how the member is set up; what is written here with bare names is sent with full ones."""
        mode = Mode.ORDERLY if handlers.is_orderly else Mode.CONCURRENT
        if self.is_broadcast:
            if mode is Mode.ORDERLY:
                raise ConfigurationError(
                    f"the handlers of group {self.group} want order, and every member gets every message",
                    next_step="give orderly=True only with mode='clustering'",
                )
            mode = Mode.BROADCAST
        topics = {
            full: handler.subscription(full, version) for handler in handlers for full in [names.full(handler.topic)]
        }
        return MemberOptions(
            names.full(self.group),
            client_id,
            topics,
            mode=mode,
            strategy=self.strategy,
            java_strategy=self.java_strategy,
            start=self.start,
            handlers=self.workers,
            pull_most=self.pull_batch,
            queue_messages=self.queue_messages,
            queue_bytes=self.queue_bytes,
            topic_messages=self.topic_messages,
            topic_bytes=self.topic_bytes,
            most_tries=self.most_tries,
            on_unreadable=OnUnreadable(self.on_unreadable),
            times=replace(self.times, drain_ms=self.drain_ms),
        )
