"""Observer: derive from it to be notified of what a client does, and override the methods that are needed.

What takes time is reported as it begins, and the function that the method returns gets the outcome; so no state has to
be kept elsewhere. Methods are called where things happen, in the sender's thread, in a handler's or on the loop, and
should be quick. One that raises is logged and not called again. One observer may observe any number of clients.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import Struct

from steelyard.client.producer.send_result import SendResult
from steelyard.model import Message, Queue

if TYPE_CHECKING:
    from steelyard.client.consumer.notifications import Rebalanced
    from steelyard.client.consumer.received_message import ReceivedMessage


def _unknown_address(broker: str) -> str | None:
    del broker
    return None


class Observed(Struct, frozen=True):
    """The client that is observed."""

    kind: str
    """``producer``, ``consumer`` or ``pull_consumer``."""
    group: str
    id: str = ""
    """Its client id; empty before it is open."""
    namespace: str = ""
    is_broadcast: bool = False
    """Whether it is a broadcasting consumer."""
    address_of: Callable[[str], str | None] = _unknown_address
    """Returns the address of a broker, as ``host:port``, by its name; None if the client does not know it."""


@dataclass(frozen=True, slots=True)
class OutgoingMessages:
    """Messages that are about to be sent by one call."""

    messages: tuple[Message, ...]
    kind: str = "normal"
    """``normal``, ``delayed``, ``half`` (of a transaction) or ``oneway``."""
    deliver_at_ms: int | None = None
    """When a delayed message is to be delivered, in milliseconds since 1970."""
    properties: dict[str, str] = field(default_factory=dict)
    """An observer may add properties here; a message's own properties win."""

    @property
    def topic(self) -> str | None:
        """Their topic; None if there are several."""
        first = self.messages[0].topic
        return first if all(message.topic == first for message in self.messages) else None


@dataclass(frozen=True, slots=True)
class SendOutcome:
    """The outcome of a send."""

    results: tuple[SendResult | BaseException, ...]
    """One for each message; none for those that are sent one way."""
    error: BaseException | None
    """What the call raises if not all were stored."""
    took_ns: int


@dataclass(frozen=True, slots=True)
class HandlerCall:
    """One call of a handler, with a message or a batch."""

    messages: "Sequence[ReceivedMessage]"
    queue: Queue
    """Where they were read from: a retry queue, if they are redelivered."""
    handler: str
    is_batch: bool
    """Whether it gets a list, even of one."""


@dataclass(frozen=True, slots=True)
class HandlerOutcome:
    """The outcome of a handler call."""

    became: str
    """``done``, ``failed`` (it raised), ``later`` (it asked for redelivery) or ``left`` (as if not begun)."""
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
    """Whether it was the answer to a check-back."""


@dataclass(frozen=True, slots=True)
class CachedMessages:
    """What a consumer has fetched of a topic and not finished."""

    messages: int
    body_bytes: int
    still_s: float = 0.0
    """For how long its queue that is stuck longest has made no progress; 0 if nothing waits."""


SendEnded = Callable[[SendOutcome], object]
HandleEnded = Callable[[HandlerOutcome], object]


class Observer:
    """Observes clients; every method does nothing until it is overridden.

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
        """Whether it wants to be notified now; read some times a second."""
        return True

    def opened(self, client: Observed) -> None:
        """Notify that a client is connected."""

    def closed(self, client: Observed) -> None:
        """Notify that a client has ended."""

    def sending(self, client: Observed, outgoing: OutgoingMessages) -> SendEnded | None:
        """Notify that messages are about to be sent; the returned function gets the outcome."""

    def ended_transaction(self, client: Observed, end: TransactionEnd) -> None:
        """Notify how a transaction ended."""

    def received(self, client: Observed, messages: "Sequence[ReceivedMessage]") -> None:
        """Notify that messages arrived: fetched by a consumer, or returned by a poll."""

    def handling(self, client: Observed, incoming: HandlerCall) -> HandleEnded | None:
        """Notify that a handler is about to be called; the returned function gets the outcome.

        Both are called in the handler's own context, right before and right after it.
        """

    def rebalanced(self, client: Observed, event: "Rebalanced", *, avoided: int) -> None:
        """Notify that queues were taken or released.

        ``avoided`` is how many messages this member finished and committed, since it started, after their queue was
        revoked: with other clients they would be handled again.
        """

    def cached(self, client: Observed, by_topic: Mapping[str, CachedMessages]) -> None:
        """Notify what a consumer has fetched and not finished: about once a second."""
