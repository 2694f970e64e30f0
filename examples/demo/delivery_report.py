"""Delivery report: which messages were sent and handled, by whom, and a sentence for each broken promise.

Every message has a number, which a member prints once it has handled it. What a killed member had handled and not yet
printed does not count as handled.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from examples.demo.spark_job import ParquetCount
from steelyard.model.formatting import pluralize


@dataclass(frozen=True, slots=True)
class DeliveryCounts:
    """The counts at the end."""

    sent: int
    failed: int
    """Sends that ended with an error: their messages may be stored or not."""
    handled: int
    lost: int
    duplicates: int
    """Handled more than once, and no crash explains it."""
    duplicates_by_kill: int
    """Handled by a member that was killed before it committed, and again by another."""


@dataclass(slots=True)
class DeliveryLog:
    """Records what is sent and handled, from any thread."""

    _sent: dict[int, str] = field(default_factory=dict)
    _handled: dict[int, list[str]] = field(default_factory=dict)
    _failed: int = 0
    _killed: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def record_sent(self, number: int, broker: str) -> None:
        """Record a message that a broker stored."""
        with self._lock:
            self._sent[number] = broker

    def record_failed(self) -> None:
        """Record a message that could not be sent."""
        with self._lock:
            self._failed += 1

    def record_handled(self, number: int, member: str) -> None:
        """Record a message that a member handled."""
        with self._lock:
            self._handled.setdefault(number, []).append(member)

    def record_killed(self, member: str) -> None:
        """Record a member that was killed: what it handled last may be handled again."""
        with self._lock:
            self._killed.add(member)

    @property
    def sent(self) -> int:
        """How many messages are stored."""
        return len(self._sent)

    @property
    def handled(self) -> int:
        """How many messages were handled, each counted once."""
        return len(self._handled)

    def brokers_since(self, count: int) -> list[str]:
        """Return which brokers stored the messages after the first so many."""
        with self._lock:
            return list(self._sent.values())[count:]

    def is_all_handled(self) -> bool:
        """Say whether every message that was sent was handled."""
        with self._lock:
            return self._handled.keys() >= self._sent.keys()

    def count(self) -> DeliveryCounts:
        """Return the counts."""
        with self._lock:
            again = [members for members in self._handled.values() if len(members) > 1]
            explained = [members for members in again if self._is_explained_by_kill(members)]
            return DeliveryCounts(
                sent=len(self._sent),
                failed=self._failed,
                handled=len(self._handled),
                lost=len(self._sent.keys() - self._handled.keys()),
                duplicates=len(again) - len(explained),
                duplicates_by_kill=len(explained),
            )

    def _is_explained_by_kill(self, members: list[str]) -> bool:
        """Say whether kills explain a duplicate: each member had it once, and all but one were killed."""
        return len(set(members) - self._killed) <= 1 and len(set(members)) == len(members)

    def members(self) -> set[str]:
        """Return the members that handled messages."""
        with self._lock:
            return set(chain.from_iterable(self._handled.values()))


@dataclass(frozen=True, slots=True)
class SparkReport:
    """What Spark has written."""

    parquet: ParquetCount
    windowed_messages: int
    """How many messages its windowed table counts."""


@dataclass(frozen=True, slots=True)
class DemoReport:
    """All counts of the demo."""

    deliveries: DeliveryCounts
    exit_codes: tuple[int, ...]
    """Of the members that were stopped."""
    spark: SparkReport | None
    """None without Spark."""

    def numbers(self) -> Iterator[tuple[str, int]]:
        """Yield the numbers that are shown at the end."""
        yield "sent", self.deliveries.sent
        yield "handled", self.deliveries.handled
        yield "lost", self.deliveries.lost
        yield "handled twice in planned changes", self.deliveries.duplicates
        yield "handled twice because of the kill", self.deliveries.duplicates_by_kill
        if self.spark is not None:
            yield "rows in Parquet", self.spark.parquet.messages
            yield (
                "duplicate rows in Parquet",
                self.spark.parquet.messages - self.spark.parquet.distinct_places,
            )
            yield "messages in Spark's windowed table", self.spark.windowed_messages

    def broken_promises(self) -> Iterator[str]:
        """Yield a sentence for each broken promise; none is the proof."""
        counts, spark = self.deliveries, self.spark
        if not counts.sent:
            yield "no message was sent"
        if counts.failed:
            yield f"{pluralize(counts.failed, 'send')} failed"
        if counts.lost:
            yield f"{pluralize(counts.lost, 'message')} of {counts.sent} never handled"
        if counts.duplicates:
            yield f"{pluralize(counts.duplicates, 'message')} handled twice, which no kill explains"
        if any(self.exit_codes):
            yield f"members that were stopped ended with {', '.join(map(str, self.exit_codes))}"
        if spark is not None:
            yield from _spark_broken_promises(spark, counts.sent)


def _spark_broken_promises(spark: SparkReport, sent: int) -> Iterator[str]:
    parquet = spark.parquet
    if parquet.distinct_places != sent:
        yield f"Parquet has {parquet.distinct_places} of {pluralize(sent, 'message')}"
    if parquet.messages != parquet.distinct_places:
        yield f"{pluralize(parquet.messages - parquet.distinct_places, 'row')} in Parquet twice"
    if spark.windowed_messages != sent:
        yield f"Spark's windowed table counts {spark.windowed_messages} of {pluralize(sent, 'message')}"
