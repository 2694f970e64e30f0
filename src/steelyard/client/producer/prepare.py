"""Prepares sends: validates messages, adds namespaces and unique keys, and chooses queues. From any thread.

Each topic has one queue rotation, shared by all threads, and one lock guards them all: every turn is given once, so
k times N sends put exactly k messages on each of N queues, whichever threads send. A new route replaces the queues of a
rotation at once, and its counter goes on. All rotations share one latency tracker.
"""

import asyncio
import inspect
import random
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from msgspec import structs

from steelyard.balance.producer.broker_latency import BrokerHealth, LatencyTable, LatencyTracker
from steelyard.balance.producer.queue_selection import (
    KeyHashSelector,
    MachineRoomSelector,
    MessageQueueSelector,
    QueueRotation,
    RandomSelector,
    RoundRobinSelector,
    make_selector,
    select_queue,
)
from steelyard.balance.producer.send_attempts import SendOptions
from steelyard.client.ids import UniqueKeys
from steelyard.client.producer.send_request import BatchSend, SendDefaults, SingleSend
from steelyard.errors import ConfigurationError, MessageRefused, NoNameServer
from steelyard.model import Message, PublishList, Queue, TopicRoute
from steelyard.net.clock import now_ms, steady_ms
from steelyard.protocol.send import resolve_delay

if TYPE_CHECKING:
    from steelyard.client.producer.options import ProducerOptions
    from steelyard.client.session import Session


class SharedQueueRotation(QueueRotation):
    """A queue rotation for many threads."""

    __slots__ = ("_lock", "is_default_topic")

    def __init__(self, listed: PublishList, latency: LatencyTracker | None, lock: threading.Lock) -> None:
        self._lock = lock
        self.is_default_topic = False
        """Whether its queues are the default topic's, because the topic does not exist yet."""
        super().__init__(listed, random.getrandbits(31), latency)

    def replace_queues(self, listed: PublishList) -> None:
        """Replace all queues at once."""
        with self._lock:
            super().replace_queues(listed)
            self.is_default_topic = not listed.topic_exists

    def next_queue(self, now_ms: int = 0, failed: Collection[str] = ()) -> Queue:
        """Return the next queue."""
        with self._lock:
            return super().next_queue(now_ms, failed)


class _SharedLatencyTracker(LatencyTracker):
    """A latency tracker for many threads; rotations read it while they hold its lock."""

    def __init__(self, table: LatencyTable, lock: threading.Lock, *, relative_to_median: bool) -> None:
        super().__init__(table, relative_to_median=relative_to_median)
        self._lock = lock
        self.on_change: Callable[[], None] | None = None

    def _on_change(self) -> None:
        if self.on_change is not None:
            self.on_change()

    def record_latency(self, broker: str, took_ms: int, failed: bool, now_ms: int) -> None:
        """Record a finished attempt."""
        with self._lock:
            super().record_latency(broker, took_ms, failed, now_ms)


class QueueRotations:
    """The queue rotations of one producer, by topic. From any thread."""

    def __init__(self, table: LatencyTable | None, *, relative_to_median: bool = False) -> None:
        """Start empty; ``table`` is None if slow brokers are not avoided."""
        self._lock = threading.Lock()
        self._latency = (
            None if table is None else _SharedLatencyTracker(table, self._lock, relative_to_median=relative_to_median)
        )
        self.by_topic: dict[str, SharedQueueRotation] = {}
        """The rotations of the topics that were sent to; only this class changes it."""
        self._create_lock = threading.Lock()

    def get_or_create(self, listed: PublishList) -> SharedQueueRotation:
        """Return the rotation of a list's topic; an empty list raises NoRoute."""
        with self._create_lock:
            known = self.by_topic.get(listed.topic)
            if known is None:
                known = self.by_topic[listed.topic] = SharedQueueRotation(listed, self._latency, self._lock)
                known.is_default_topic = not listed.topic_exists
            return known

    def route_changed(self, topic: str, route: TopicRoute) -> None:
        """Use a topic's new route; one without queues is ignored: its brokers may be restarting."""
        rotation = self.by_topic.get(topic)
        listed = route.publish_list()
        if rotation is None or not listed:
            return
        before = self._brokers()
        rotation.replace_queues(listed)
        if self._latency is not None:
            after = self._brokers()
            with self._lock:
                for broker in after - before:
                    self._latency.broker_appeared(broker, steady_ms())
                self._latency.retain(after, steady_ms())

    def _brokers(self) -> set[str]:
        return {broker for each in list(self.by_topic.values()) for broker in each.brokers}

    def watch_latency(self, on_change: Callable[[], None]) -> bool:
        """Call a function, on any thread, when a broker appears or begins to be avoided; False without a tracker."""
        if self._latency is not None:
            self._latency.on_change = on_change
        return self._latency is not None

    def is_calm(self) -> bool:
        """Say whether no broker is avoided or coming back."""
        return self._latency is None or self._latency.are_all_available(steady_ms())

    def latency_snapshot(self) -> tuple[BrokerHealth, ...]:
        """Return the latency and failures of each broker, with times of the steady clock."""
        if self._latency is None:
            return ()
        with self._lock:
            return self._latency.snapshot(steady_ms())

    def broker_health(self) -> list[BrokerHealth]:
        """Return the latency and failures of each broker, with times in epoch milliseconds."""
        seen = self.latency_snapshot()
        ahead_ms = now_ms() - steady_ms()
        return [
            replace(
                each,
                avoided_until_ms=None if each.avoided_until_ms is None else each.avoided_until_ms + ahead_ms,
                avoided_since_ms=None if each.avoided_since_ms is None else each.avoided_since_ms + ahead_ms,
            )
            for each in seen
        ]


A = TypeVar("A")

Select: TypeAlias = (
    str | Callable[[Sequence[Queue], Message], Queue | None] | Callable[[Sequence[Queue], Message, A], Queue | None]
)
"""A queue selector: a name or an object of balance/producer/queue_selection.py, or a callable
``(queues, message) -> queue``. One that has a third parameter gets ``select_arg``."""

_BUILTIN_SELECTORS = KeyHashSelector | RandomSelector | RoundRobinSelector | MachineRoomSelector
_BY_HASH = make_selector("hash")


class SendPreparer:
    """Prepares the sends of one producer."""

    def __init__(self, session: "Session", group: str, options: "ProducerOptions", defaults: SendDefaults) -> None:
        self._routes, self._namespace = session.routes, session.namespace
        self._max_bytes = options.max_message_bytes
        self.group = group
        self.defaults = defaults
        self.rotations = QueueRotations(
            options.resolved_latency_table if options.avoid_slow_brokers else None,
            relative_to_median=options.relative_to_median,
        )
        self.next_key = UniqueKeys(session.local_address).next
        self._rooms = options.rooms
        self._named_rules: dict[str, MessageQueueSelector] = {}
        self._rule_lock = threading.Lock()
        session.routes.on_change.append(self.rotations.route_changed)

    def validate(self, message: Message) -> Message:
        """Return a message with its full topic; an empty or too large body raises MessageRefused."""
        if not isinstance(message, Message):
            raise ConfigurationError(
                f"a {type(message).__name__} is not a message", next_step="send a steelyard.Message"
            )
        if not message.body:
            raise _message_refused(message, "its body is empty", "give it a body: brokers since 5.0 refuse one without")
        if len(message.body) > self._max_bytes:
            raise _message_refused(
                message,
                f"its body has {len(message.body)} bytes, the limit is {self._max_bytes}",
                "send less, or raise max_message_bytes here and at the brokers",
            )
        if not self._namespace.name:
            return message
        return structs.replace(message, topic=self._namespace.wrap(message.topic))

    async def find_rotation(self, topic: str) -> SharedQueueRotation:
        """Return the rotation of a topic, looked up if need be; on the loop."""
        return self.rotations.by_topic.get(topic) or self.rotations.get_or_create(
            await self._routes.publish_list(topic)
        )

    async def find_rotation_in_time(self, topic: str, options: SendOptions) -> tuple[SharedQueueRotation, SendOptions]:
        """Return the rotation of a topic, and options with the time that is left; raises NoNameServer."""
        began_ms = steady_ms()
        try:
            async with asyncio.timeout(options.timeout_ms / 1000):
                rotation = await self.find_rotation(topic)
        except TimeoutError:
            raise NoNameServer(
                f"the route of topic {self._namespace.unwrap(topic)!r} was not found within {options.timeout_ms} ms",
                next_step="check that the name servers are well, or give the send more time",
            ) from None
        return rotation, replace(options, spent_ms=steady_ms() - began_ms)

    def prepare(
        self,
        message: Message,
        *,
        delay_s: float | None = None,
        deliver_at: datetime | None = None,
        extra_properties: Mapping[str, str] | None = None,
        is_oneway: bool = False,
    ) -> SingleSend:
        """Return the send of one message."""
        if delay_s is not None or deliver_at is not None:
            resolve_delay(
                delay_s, deliver_at, now_ms=now_ms(), has_timers=True
            )  # raises now if the delay is not possible
        return SingleSend(
            self.defaults,
            message,
            self.next_key(),
            len(message.body),
            delay_s,
            deliver_at,
            extra_properties,
            is_oneway,
        )

    def prepare_batch(self, messages: Sequence[Message]) -> BatchSend:
        """Return the send of messages as one batch."""
        return BatchSend(self.defaults, messages, [self.next_key() for _ in messages])

    def choose_queue(
        self,
        rotation: SharedQueueRotation,
        message: Message,
        key: str | int | None,
        chosen_by: Select[Any] | None,
        argument: object,
        queue: Queue | None,
    ) -> Queue | None:
        """Return the queue that the caller chose; None leaves it to the rotation."""
        if argument is not None and (chosen_by is None or key is not None):
            other = "no selector" if chosen_by is None else "a key too"
            raise ConfigurationError(
                f"select_arg is given, and {other}", next_step="give select and either key or select_arg"
            )
        if queue is not None:
            return self._explicit_queue(message, key, chosen_by, queue)
        if chosen_by is None:
            return None if key is None else select_queue(_BY_HASH, rotation.queues, message, key)
        names = self._namespace
        queues = [names.unwrap_queue(each) for each in rotation.queues] if names.name else rotation.queues
        shown = structs.replace(message, topic=names.unwrap(message.topic)) if names.name else message
        if isinstance(chosen_by, str | _BUILTIN_SELECTORS):
            with self._rule_lock:  # some selectors have a counter
                chosen = select_queue(self._rule_named(chosen_by), queues, shown, argument if key is None else key)
        else:
            chosen = select_queue(_with_argument(chosen_by, key, argument), queues, shown, argument)
        return names.wrap_queue(chosen)

    def _explicit_queue(self, message: Message, key: object, chosen_by: object, queue: Queue) -> Queue:
        if key is not None or chosen_by is not None:
            raise ConfigurationError("a queue is given, and a key or a selector too", next_step="give one of them")
        if not isinstance(queue, Queue):
            raise ConfigurationError(
                f"{queue!r} is not a queue", next_step='give one such as Queue("orders", "broker-a", 0)'
            )
        full = self._namespace.wrap_queue(queue)
        if full.topic != message.topic:
            raise ConfigurationError(
                f"a message to {message.topic!r} is to go to {queue}", next_step="give a queue of its own topic"
            )
        return full

    def _rule_named(self, chosen_by: str | MessageQueueSelector) -> MessageQueueSelector:
        if not isinstance(chosen_by, str):
            return chosen_by
        known = self._named_rules.get(chosen_by)
        if known is None:
            known = self._named_rules[chosen_by] = make_selector(
                chosen_by, draw=lambda: random.getrandbits(31), rooms=self._rooms, start=random.getrandbits(31)
            )
        return known


def _with_argument(chosen_by: Callable[..., Queue | None], key: object, argument: object) -> MessageQueueSelector:
    """Return a caller's own function as a selector: one of two parameters does not get the argument."""
    if not callable(chosen_by) or key is not None:
        what = "a callable, and a key is given too" if callable(chosen_by) else f"of type {type(chosen_by).__name__}"
        raise ConfigurationError(
            f"the selector is {what}",
            next_step="give a callable (queues, message, argument) -> queue and select_arg, or a name and a key",
        )
    name = getattr(chosen_by, "__name__", type(chosen_by).__name__)
    if argument is not None:
        if not _accepts_arguments(chosen_by, 3):
            raise ConfigurationError(
                f"select_arg is given, and the selector {name!r} has no parameter for it",
                next_step="give a callable (queues, message, argument) -> queue",
            )
        return chosen_by
    if not _accepts_arguments(chosen_by, 2):
        return chosen_by

    def chosen(queues: Sequence[Queue], message: Message, _argument: object) -> Queue | None:
        return chosen_by(queues, message)

    chosen.__name__ = name
    return chosen


def _accepts_arguments(function: Callable[..., object], count: int) -> bool:
    """Say whether a function takes so many arguments; one without a signature, as some in C, is assumed to."""
    if isinstance(function, FunctionType) and not function.__code__.co_flags & inspect.CO_VARARGS:
        # Called with every send, and `inspect.signature` takes longer than choosing a queue.
        most = function.__code__.co_argcount
        return most - len(function.__defaults__ or ()) <= count <= most
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def _message_refused(message: Message, why: str, next_step: str) -> MessageRefused:
    what = f"a message to {message.topic!r} was not sent: {why}"
    return MessageRefused(code=13, server="the producer", what=what, next_step=next_step)
