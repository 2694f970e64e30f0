"""What whoever watches a client can be told: derive from `Observer`, and override what is wanted.

    class Slow(Observer):
        def handling(self, client, incoming):
            def ended(outcome):
                if outcome.took_ns > 1e9:
                    print(incoming.messages[0].message_id, "took long")
            return ended

    Consumer("localhost:9876", group="billing", observers=[Slow()])

Something that takes time is told as it begins; what the method returns is called with what became of it. So nothing has
to be remembered elsewhere. Methods are called where things happen, in the sender's thread, in a handler's or on the
loop, and are waited for: they should be quick. One that raises is logged, and its observer is left alone from then on;
no send and no handler fails by it. One observer may watch any number of clients.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import Struct

from steelyard.client.producing.sent import Sent
from steelyard.model import Message, Queue

if TYPE_CHECKING:
    from steelyard.client.consuming.news import Moved
    from steelyard.client.consuming.received import Received

__all__ = [
    "Cached",
    "Delivered",
    "HandleEnded",
    "Incoming",
    "Observed",
    "Observer",
    "Outcome",
    "Outgoing",
    "SendEnded",
    "TransactionEnd",
]


class Observed(Struct, frozen=True):
    """The client in which something happens."""

    kind: str
    """``producer``, ``consumer`` or ``puller``."""
    group: str
    id: str = ""
    """What brokers know it by; empty before it is open."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Messages that are about to be sent by one call."""

    messages: tuple[Message, ...]
    kind: str = "normal"
    """``normal``, ``delayed``, ``half`` (of a transaction) or ``oneway``."""
    properties: dict[str, str] = field(default_factory=dict)
    """What is put here goes along with each of them, unless it has such a property of its own."""

    @property
    def topic(self) -> str | None:
        """The topic that they all go to; None where there are several."""
        first = self.messages[0].topic
        return first if all(message.topic == first for message in self.messages) else None


@dataclass(frozen=True, slots=True)
class Delivered:
    """What became of messages that were sent."""

    results: tuple[Sent | BaseException, ...]
    """One for each message; nobody answers to those that are sent one way."""
    error: BaseException | None
    """What the sender is told if not all went well."""
    took_ns: int


@dataclass(frozen=True, slots=True)
class Incoming:
    """One call of a handler: a message, or all of a batch."""

    messages: "Sequence[Received]"
    queue: Queue
    """Where they were read from: a queue of retries, if they came back."""
    handler: str
    """What the function is called."""
    is_batch: bool
    """Whether it is given a list, be it of one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a handler made of its messages."""

    became: str
    """``done``, ``failed`` (it raised), ``later`` (it asked for them again) or ``left`` (as if never begun)."""
    error: BaseException | None
    took_ns: int


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """How a producer ended a transaction."""

    message_id: str
    topic: str
    tags: str | None
    keys: tuple[str, ...]
    broker: str
    commits: bool
    was_asked: bool
    """Whether the broker had to ask."""


@dataclass(frozen=True, slots=True)
class Cached:
    """What a consumer has fetched of a topic and not finished."""

    messages: int
    body_bytes: int


SendEnded = Callable[[Delivered], object]
HandleEnded = Callable[[Outcome], object]


class Observer:
    """Watches clients; every method does nothing until it is overridden.

    >>> from steelyard import Producer
    >>> from steelyard.serve.embedded import Cluster
    >>> class Counter(Observer):
    ...     stored = 0
    ...
    ...     def sending(self, client, outgoing):
    ...         outgoing.properties["shop"] = "berlin"
    ...
    ...         def ended(delivered):
    ...             self.stored += delivered.error is None
    ...
    ...         return ended
    >>> counter = Counter()
    >>> with Cluster() as cluster, Producer(cluster.namesrv, observers=[counter]) as producer:
    ...     sent = producer.send(Message("orders", b"{}"))
    >>> counter.stored
    1
    """

    @property
    def is_on(self) -> bool:
        """Whether it wants to be told anything now: asked some times a second."""
        return True

    def opened(self, client: Observed) -> None:
        """Take note that a client is connected."""

    def closed(self, client: Observed) -> None:
        """Take note that a client has ended."""

    def sending(self, client: Observed, outgoing: Outgoing) -> SendEnded | None:
        """Take note that messages are about to be sent; what is returned is called with what became of them."""

    def ended_transaction(self, client: Observed, end: TransactionEnd) -> None:
        """Take note of how a transaction ended."""

    def received(self, client: Observed, messages: "Sequence[Received]") -> None:
        """Take note of messages that came: fetched ahead for a consumer, or returned by a puller's poll."""

    def handling(self, client: Observed, incoming: Incoming) -> HandleEnded | None:
        """Take note that a handler is about to be called; what is returned is called with what became of it.

        Both happen in the handler's own context, the first right before it and the last right after.
        """

    def moved(self, client: Observed, moved: "Moved", *, avoided: int) -> None:
        """Take note that queues came or went.

        ``avoided`` is how many messages this member had in hand, since it began, when their queue was given up, and
        finished and committed before that: another make's client would have them handled again.
        """

    def cached(self, client: Observed, by_topic: Mapping[str, Cached]) -> None:
        """Take note of what a consumer has in hand: about once a second."""
