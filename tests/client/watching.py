"""An observer that keeps all it is told, for tests of those who watch clients."""

import threading
from collections.abc import Mapping, Sequence

from steelyard import Moved, Received
from steelyard.client.observing.observer import (
    Cached,
    Delivered,
    HandleEnded,
    Incoming,
    Observed,
    Observer,
    Outcome,
    Outgoing,
    SendEnded,
    TransactionEnd,
)

__all__ = ["Keeping"]


class Keeping(Observer):
    """Keeps everything, in order; from any thread."""

    def __init__(self, **added: str) -> None:
        self.added = added
        self._lock = threading.Lock()
        self.clients: list[tuple[str, Observed]] = []
        self.sent: list[tuple[Outgoing, Delivered]] = []
        self.begun = 0
        self.handled: list[tuple[Incoming, Outcome]] = []
        self.ends: list[TransactionEnd] = []
        self.came: list[Received] = []
        self.moves: list[tuple[Moved, int]] = []
        self.in_hand: list[Mapping[str, Cached]] = []
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

    def sending(self, client: Observed, outgoing: Outgoing) -> SendEnded | None:
        """Keep how it ends."""
        assert client.kind == "producer"
        assert client.id
        self.begun += 1
        outgoing.properties.update(self.added)

        def ended(delivered: Delivered) -> None:
            with self._lock:
                self.sent.append((outgoing, delivered))

        return ended

    def ended_transaction(self, client: Observed, end: TransactionEnd) -> None:
        """Keep it."""
        assert client.kind == "producer"
        self.ends.append(end)

    def received(self, client: Observed, messages: Sequence[Received]) -> None:
        """Keep them."""
        assert client.kind in ("consumer", "puller")
        self.came += messages

    def handling(self, client: Observed, incoming: Incoming) -> HandleEnded | None:
        """Keep how it ends."""
        assert client.kind == "consumer"

        def ended(outcome: Outcome) -> None:
            with self._lock:
                self.handled.append((incoming, outcome))

        return ended

    def moved(self, client: Observed, moved: Moved, *, avoided: int) -> None:
        """Keep it."""
        assert client.group
        self.moves.append((moved, avoided))

    def cached(self, client: Observed, by_topic: Mapping[str, Cached]) -> None:
        """Keep it."""
        assert client.group
        self.in_hand.append(by_topic)
