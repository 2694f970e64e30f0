"""Options of a consumer, and those it shares with a pull consumer: frozen values, checked once."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict

from steelyard.balance.assignors import (
    Average,
    ByConfig,
    MachineRoomNearby,
    Strategy,
    StrategyFunction,
    find_strategy,
)
from steelyard.balance.assignors.strategy import uses_owners
from steelyard.balance.group.actions import StartPosition
from steelyard.balance.group.options import ConsumeMode, MemberOptions, MemberTimings, UnreadablePolicy
from steelyard.client.consumer.handlers import Handlers
from steelyard.client.namespace import ClientNamespace
from steelyard.client.observers.observer import Observer
from steelyard.client.observers.observers import check_observers
from steelyard.client.times import StartFrom, parse_start
from steelyard.errors import ConfigurationError
from steelyard.model import Subscription
from steelyard.model.reserved_names import TRACE_TOPIC

StrategyChoice = str | Strategy | StrategyFunction
"""A strategy: by its name, ours or Java's, or a callable ``(group, member, queues, members) -> queues``."""

_GROUP = re.compile(r"[%|A-Za-z0-9_-]{1,255}")
_MODES = ("clustering", "broadcast")
_ON_UNREADABLE = tuple(choice.value for choice in UnreadablePolicy)


class MemberSettings(TypedDict, total=False):
    """The keywords of consumers and pull consumers; `SharedOptions` describes each."""

    strategy: StrategyChoice
    mixed_group_strategy: StrategyChoice | None
    strategy_options: Mapping[str, object]
    start_from: StartFrom
    drain_s: float | None
    pull_batch: int
    queue_messages: int
    queue_bytes: int
    topic_messages: int | None
    topic_bytes: int | None
    on_unreadable: str
    times: MemberTimings
    observers: Sequence[Observer]


class ConsumerSettings(MemberSettings, total=False):
    """The keywords of a consumer; `ConsumerOptions` describes each."""

    mode: str
    workers: int
    max_attempts: int
    offsets_dir: str | Path | None
    message_trace: bool
    trace_topic: str


@dataclass(frozen=True, slots=True)
class SharedOptions:
    """The options that consumers and pull consumers share. Those of a member are for `subscribe`, not for `assign`."""

    group: str
    """The group that it is a member of, or reads for."""
    strategy: StrategyChoice = "sticky"
    """The allocation strategy."""
    mixed_group_strategy: StrategyChoice | None = None
    """The strategy while members of other clients are in the group, which cannot know what ours owned before.
    Default: ``strategy``, or Java's default if that one depends on previous owners."""
    strategy_options: Mapping[str, object] = field(default_factory=dict)
    """The settings of a strategy: rooms, fixed queues, weights; of single members by their ``name``."""
    start_from: StartFrom = "last"
    """Where a group without committed offsets begins: ``first``, ``last``, or a time."""
    drain_s: float | None = 30.0
    """How long a queue that is revoked waits for running handlers, or for the commit of what was polled; None: as long
    as it takes. A consumer that stops waits for its handlers, too."""
    pull_batch: int = 32
    """How many messages a pull asks for."""
    queue_messages: int = 1_000
    """Flow control: a queue is not pulled while more of its messages wait."""
    queue_bytes: int = 100 << 20
    """The same in bytes of their bodies."""
    topic_messages: int | None = None
    """The same for all queues of a topic together; each owned queue has an equal share after each rebalance."""
    topic_bytes: int | None = None
    """The same in bytes for a topic."""
    on_unreadable: str = "dead-letter"
    """What to do with a message whose body cannot be decompressed: ``dead-letter`` sends its bytes and the reason to
    the dead letters, ``skip`` skips it, ``stop`` stops its queue and raises in `poll`. A missing extra always stops."""
    times: MemberTimings = field(default_factory=MemberTimings)
    """The timings of the rebalance protocol; all members of a group should have the same."""
    observers: Sequence[Observer] = ()
    """What observes it: `steelyard.otel.OpenTelemetry`, `steelyard.metrics.ClientMetrics`, or your own."""
    resolved_strategy: Strategy = field(init=False)
    resolved_mixed_strategy: Strategy = field(init=False)
    start: StartPosition = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.group, str) or not _GROUP.fullmatch(self.group):
            raise ConfigurationError(
                f"the group is {self.group!r}", next_step="give a name of letters, digits, - and _, such as billing"
            )
        if self.on_unreadable not in _ON_UNREADABLE:
            raise ConfigurationError(
                f"on_unreadable is {self.on_unreadable!r}", next_step=f"give {' or '.join(_ON_UNREADABLE)}"
            )
        for name in ("pull_batch", "queue_messages", "queue_bytes"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} is {getattr(self, name)}", next_step="give 1 or more")
        for name in ("topic_messages", "topic_bytes"):
            limit = getattr(self, name)
            if limit is not None and limit < 1:
                raise ConfigurationError(f"{name} is {limit}", next_step="give 1 or more, or None for no limit")
        if self.drain_s is not None and not self.drain_s >= 0:
            raise ConfigurationError(f"drain_s is {self.drain_s}", next_step="give 0 or more, or None for no bound")
        check_observers(self.observers)
        strategy = find_strategy(self.strategy, self.strategy_options)
        if self.mixed_group_strategy is not None:
            mixed = find_strategy(self.mixed_group_strategy, self.strategy_options)
        else:
            mixed = Average() if uses_owners(strategy) else strategy
        if uses_owners(mixed):
            raise ConfigurationError(
                f"members of other clients cannot use the strategy {mixed.name}",
                next_step="give mixed_group_strategy='average'",
            )
        object.__setattr__(self, "resolved_strategy", strategy)
        object.__setattr__(self, "resolved_mixed_strategy", mixed)
        object.__setattr__(self, "start", parse_start(self.start_from))

    @property
    def drain_ms(self) -> int | None:
        """``drain_s`` in milliseconds."""
        return None if self.drain_s is None else int(self.drain_s * 1000)

    def _member_options(
        self, namespace: ClientNamespace, member_id: str, subscriptions: Mapping[str, Subscription], **own: Any
    ) -> MemberOptions:
        """Return the options of the member state machine; topics are full names."""
        return MemberOptions(
            namespace.wrap(self.group),
            member_id,
            subscriptions,
            strategy=_with_namespace(self.resolved_strategy, namespace),
            mixed_group_strategy=_with_namespace(self.resolved_mixed_strategy, namespace),
            start=self.start,
            pull_batch=self.pull_batch,
            queue_messages=self.queue_messages,
            queue_bytes=self.queue_bytes,
            topic_messages=self.topic_messages,
            topic_bytes=self.topic_bytes,
            on_unreadable=UnreadablePolicy(self.on_unreadable),
            times=replace(self.times, drain_ms=self.drain_ms),
            **own,
        )


@dataclass(frozen=True, slots=True)
class ConsumerOptions(SharedOptions):
    """The options of a consumer.

    >>> options = ConsumerOptions("billing", strategy="CONSISTENT_HASH")
    >>> options.resolved_strategy.name, options.resolved_mixed_strategy.name
    ('CONSISTENT_HASH', 'CONSISTENT_HASH')
    >>> ConsumerOptions("billing").resolved_mixed_strategy.name
    'AVG'
    >>> ConsumerOptions("billing", mode="multicast")
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: the mode is 'multicast'; give clustering or broadcast
    """

    mode: str = "clustering"
    """``clustering``: the members share the messages; ``broadcast``: each gets all of them."""
    workers: int = 20
    """The number of threads for plain handlers, and of ``async def`` handlers that run at a time."""
    max_attempts: int = 16
    """How often an orderly message is tried before it goes to the dead letters; -1: for ever."""
    offsets_dir: str | Path | None = None
    """The directory of the offset file of a broadcasting member; by default ``steelyard/offsets`` in XDG_STATE_HOME."""
    message_trace: bool = False
    """Whether to write message traces, for `steelyard message trace` and Java's tools."""
    trace_topic: str = TRACE_TOPIC
    """The topic of message traces."""

    def __post_init__(self) -> None:
        if self.mode not in _MODES:
            raise ConfigurationError(f"the mode is {self.mode!r}", next_step=f"give {' or '.join(_MODES)}")
        if self.workers < 1:
            raise ConfigurationError(f"workers is {self.workers}", next_step="give 1 or more")
        # Without arguments it would look for the class before `slots=True` replaced it.
        super(ConsumerOptions, self).__post_init__()

    @property
    def is_broadcast(self) -> bool:
        """Whether every member gets all messages."""
        return self.mode == "broadcast"

    def member_options(
        self, handlers: Handlers, namespace: ClientNamespace, client_id: str, version: int
    ) -> MemberOptions:
        """Return the options of the member state machine, with full names."""
        mode = ConsumeMode.ORDERLY if handlers.is_orderly else ConsumeMode.CONCURRENT
        if self.is_broadcast:
            if mode is ConsumeMode.ORDERLY:
                raise ConfigurationError(
                    f"the handlers of group {self.group} want order, and every member gets every message",
                    next_step="give orderly=True only with mode='clustering'",
                )
            mode = ConsumeMode.BROADCAST
        topics = [(namespace.wrap(handler.topic), handler) for handler in handlers]
        subscriptions = {topic: handler.subscription(topic, version) for topic, handler in topics}
        return self._member_options(
            namespace,
            client_id,
            subscriptions,
            mode=mode,
            handler_limit=self.workers,
            max_attempts=self.max_attempts,
        )


def _with_namespace(strategy: Strategy, namespace: ClientNamespace) -> Strategy:
    """Return a strategy whose fixed lists name queues as brokers do."""
    if isinstance(strategy, ByConfig):
        return strategy.map_queues(namespace.wrap_queue)
    if isinstance(strategy, MachineRoomNearby):
        return replace(strategy, inner=_with_namespace(strategy.inner, namespace))
    return strategy
