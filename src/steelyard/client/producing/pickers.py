"""The turns of a producer: one picker for each topic, shared by all threads that send, and one ledger for all.

One lock guards them: a turn is taken once, so that k times N sends put exactly k on each of N queues, whoever sends.
A new route replaces a picker's list as a whole, and its counter goes on.
"""

import random
import threading
from collections.abc import Callable, Collection
from dataclasses import replace

from steelyard.balance.latency_table import LatencyTable
from steelyard.balance.ledger import Ledger, Standing
from steelyard.balance.pick import Picker
from steelyard.model import PublishList, Queue, Route
from steelyard.net.clock import now_ms, steady_ms

__all__ = ["Pickers", "SharedPicker"]


class SharedPicker(Picker):
    """A picker for many threads."""

    __slots__ = ("_lock", "is_borrowed")

    def __init__(self, listed: PublishList, ledger: Ledger | None, lock: threading.Lock) -> None:
        self._lock = lock
        self.is_borrowed = False
        """Whether the list is the default topic's, because the topic does not exist yet."""
        super().__init__(listed, random.getrandbits(31), ledger)

    def use(self, listed: PublishList) -> None:
        """Take a new list, as a whole."""
        with self._lock:
            super().use(listed)
            self.is_borrowed = not listed.real

    def pick(self, now_ms: int = 0, failed: Collection[str] = ()) -> Queue:
        """Choose the next queue."""
        with self._lock:
            return super().pick(now_ms, failed)


class _SharedLedger(Ledger):
    """A ledger that is written by many threads; pickers read it while they hold its lock."""

    def __init__(self, table: LatencyTable, lock: threading.Lock, *, against_median: bool) -> None:
        super().__init__(table, against_median=against_median)
        self._lock = lock
        self.on_news: Callable[[], None] | None = None

    def _has_news(self) -> None:
        if self.on_news is not None:
            self.on_news()

    def note(self, broker: str, took_ms: int, failed: bool, now_ms: int) -> None:
        """Note a finished attempt."""
        with self._lock:
            super().note(broker, took_ms, failed, now_ms)


class Pickers:
    """The pickers of one producer. From any thread."""

    def __init__(self, table: LatencyTable | None, *, against_median: bool = False) -> None:
        """Begin without any; ``table`` is None where slow brokers are not avoided."""
        self._lock = threading.Lock()
        self._ledger = None if table is None else _SharedLedger(table, self._lock, against_median=against_median)
        self._by_topic: dict[str, SharedPicker] = {}
        self._making = threading.Lock()

    def known(self, topic: str) -> SharedPicker | None:
        """Return the picker of a topic, if there is one."""
        return self._by_topic.get(topic)

    def take(self, listed: PublishList) -> SharedPicker:
        """Return the picker of a list's topic; an empty list raises NoRoute."""
        with self._making:
            known = self._by_topic.get(listed.topic)
            if known is None:
                known = self._by_topic[listed.topic] = SharedPicker(listed, self._ledger, self._lock)
                known.is_borrowed = not listed.real
            return known

    def changed(self, topic: str, route: Route) -> None:
        """Take note of a topic's new route; one without queues is no news: its brokers may be restarting."""
        picker = self._by_topic.get(topic)
        listed = route.publish_list()
        if picker is None or not listed:
            return
        before = self._brokers()
        picker.use(listed)
        if self._ledger is not None:
            after = self._brokers()
            with self._lock:
                for broker in after - before:
                    self._ledger.appeared(broker, steady_ms())
                self._ledger.keep_only(after, steady_ms())

    def _brokers(self) -> set[str]:
        return {broker for each in list(self._by_topic.values()) for broker in each.brokers}

    def watch(self, on_news: Callable[[], None]) -> bool:
        """Have somebody called when a broker is new or begins to be avoided, on any thread; False without a ledger."""
        if self._ledger is not None:
            self._ledger.on_news = on_news
        return self._ledger is not None

    def is_calm(self) -> bool:
        """Say whether nobody is avoided or coming back."""
        return self._ledger is None or self._ledger.is_calm(steady_ms())

    def look(self) -> tuple[Standing, ...]:
        """Show what is known of each broker, with times of the steady clock."""
        if self._ledger is None:
            return ()
        with self._lock:
            return self._ledger.look(steady_ms())

    def standings(self) -> list[Standing]:
        """Show what is known of each broker, with times in milliseconds since 1970."""
        seen = self.look()
        ahead_ms = now_ms() - steady_ms()
        return [
            replace(
                each,
                avoided_until_ms=None if each.avoided_until_ms is None else each.avoided_until_ms + ahead_ms,
                avoided_since_ms=None if each.avoided_since_ms is None else each.avoided_since_ms + ahead_ms,
            )
            for each in seen
        ]
