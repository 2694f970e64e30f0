"""An observer that keeps all it is told, for tests of those who watch clients."""

import threading
from collections.abc import Mapping, Sequence

from steelyard import Rebalanced, ReceivedMessage
from steelyard.client.observers.observer import (
    CachedMessages,
    HandleEnded,
    HandlerCall,
    HandlerOutcome,
    Observed,
    Observer,
    OutgoingMessages,
    SendEnded,
    SendOutcome,
    TransactionEnd,
)


class RecordingObserver(Observer):
    """Keeps everything, in order; from any thread."""

    def __init__(self, **added: str) -> None:
        self.added = added
        self._lock = threading.Lock()
        self.clients: list[tuple[str, Observed]] = []
        self.sent: list[tuple[OutgoingMessages, SendOutcome]] = []
        self.begun = 0
        self.handled: list[tuple[HandlerCall, HandlerOutcome]] = []
        self.ends: list[TransactionEnd] = []
        self.came: list[ReceivedMessage] = []
        self.moves: list[tuple[Rebalanced, int]] = []
        self.in_hand: list[Mapping[str, CachedMessages]] = []
        self.off = False

    @property
    def is_on(self) -> bool:
        """Say what the test said."""
        return not self.off

    def opened(self, client: Observed) -> None:
        """Keep it."""
        self.clients.append(("opened", client))

    def closed(self, client: Observed) -> None:
        """Keep it."""
        self.clients.append(("closed", client))

    def sending(self, client: Observed, outgoing: OutgoingMessages) -> SendEnded | None:
        """Keep how it ends."""
        assert client.kind == "producer"
        assert client.id
        self.begun += 1
        outgoing.properties.update(self.added)

        def ended(delivered: SendOutcome) -> None:
            with self._lock:
                self.sent.append((outgoing, delivered))

        return ended

    def ended_transaction(self, client: Observed, end: TransactionEnd) -> None:
        """Keep it."""
        assert client.kind == "producer"
        self.ends.append(end)

    def received(self, client: Observed, messages: Sequence[ReceivedMessage]) -> None:
        """Keep them."""
        assert client.kind in ("consumer", "pull_consumer")
        self.came += messages

    def handling(self, client: Observed, incoming: HandlerCall) -> HandleEnded | None:
        """Keep how it ends."""
        assert client.kind == "consumer"

        def ended(outcome: HandlerOutcome) -> None:
            with self._lock:
                self.handled.append((incoming, outcome))

        return ended

    def rebalanced(self, client: Observed, event: Rebalanced, *, avoided: int) -> None:
        """Keep it."""
        assert client.group
        self.moves.append((event, avoided))

    def cached(self, client: Observed, by_topic: Mapping[str, CachedMessages]) -> None:
        """Keep it."""
        assert client.group
        self.in_hand.append(by_topic)
