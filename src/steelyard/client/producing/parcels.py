"""What is on its way: one message, half of a transaction, or a batch, written anew for each queue that is tried.

The queue is in the request and a broker's age decides how a delay is said, so nothing is written before the queue is
known. A parcel knows nothing of lines and attempts: it turns a queue into a request, and an answer into a result.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from msgspec import Struct

from steelyard.balance.attempts import Tried
from steelyard.client.names import Names
from steelyard.client.producing.sent import Sent, attempts_of
from steelyard.dialect.batching import batch_request, read_batch_receipts
from steelyard.dialect.delays import Delay, delay_of
from steelyard.dialect.sending import Half, read_receipt, send_request
from steelyard.model import Message, Queue
from steelyard.net.clock import now_ms
from steelyard.wire.command import Command
from steelyard.wire.sysflag import Compression

__all__ = ["Batch", "HalfMessage", "Parcel", "Single", "Stamp"]

R_co = TypeVar("R_co", covariant=True)


class Parcel(Protocol[R_co]):
    """Something to be stored, as a whole or not at all."""

    @property
    def count(self) -> int:
        """How many messages it has."""

    @property
    def size(self) -> int:
        """How many bytes its bodies have."""

    def request(self, queue: Queue) -> Command:
        """Write it for a queue."""

    def read(self, answer: Command, queue: Queue, tried: tuple[Tried, ...]) -> R_co:
        """Read what a broker said to it; a no is raised."""


class Stamp(Struct, frozen=True):
    """What all messages of a producer have in common."""

    group: str
    names: Names
    compress_from: int | None
    compression: Compression
    has_timers: Callable[[str], bool]
    """Whether a broker can deliver at any time, and not by levels alone."""
    told: Callable[[str], None]
    """Takes a sentence about what had to be done otherwise."""


class Single:
    """One message."""

    __slots__ = (
        "_delay_s",
        "_deliver_at",
        "_is_oneway",
        "_message",
        "_more",
        "_stamp",
        "_unique_key",
        "count",
        "size",
    )

    def __init__(
        self,
        stamp: Stamp,
        message: Message,
        unique_key: str,
        *,
        delay_s: float | None = None,
        deliver_at: datetime | None = None,
        more: Mapping[str, str] | None = None,
        is_oneway: bool = False,
    ) -> None:
        self._stamp, self._message, self._unique_key = stamp, message, unique_key
        self._delay_s, self._deliver_at = delay_s, deliver_at
        self._more, self._is_oneway = more, is_oneway
        self.count, self.size = 1, len(message.body)

    def request(self, queue: Queue) -> Command:
        """Write it for a queue."""
        stamp = self._stamp
        at_ms = now_ms()
        more = self._more or {}
        if self._delay_s is not None or self._deliver_at is not None:
            more = {**more, **self._delay(queue, at_ms)}
        return send_request(
            stamp.group,
            self._message,
            queue,
            unique_key=self._unique_key,
            now_ms=at_ms,
            more=more,
            compress_from=stamp.compress_from,
            compression=stamp.compression,
            is_oneway=self._is_oneway,
        )

    def read(self, answer: Command, queue: Queue, tried: tuple[Tried, ...]) -> Sent:
        """Read what a broker said to it."""
        receipt = read_receipt(answer, queue, unique_key=self._unique_key)
        queue = receipt.queue
        shown = self._stamp.names.bare_queue(queue) if self._stamp.names.namespace else queue
        attempts = attempts_of(tried) if tried else ()
        return Sent(shown, receipt.offset, self._unique_key, receipt.late, attempts, receipt.message_id)

    def _delay(self, queue: Queue, at_ms: int) -> Mapping[str, str]:
        stamp = self._stamp
        timers = stamp.has_timers(queue.broker)
        delay: Delay | None = delay_of(self._delay_s, self._deliver_at, now_ms=at_ms, timers=timers)
        if delay is None:
            return {}
        if delay.note:
            stamp.told(delay.note)
        return delay.properties


class HalfMessage:
    """The first half of a transaction."""

    __slots__ = ("_message", "_stamp", "_unique_key", "count", "size")

    def __init__(self, stamp: Stamp, message: Message, unique_key: str) -> None:
        self._stamp, self._message, self._unique_key = stamp, message, unique_key
        self.count, self.size = 1, len(message.body)

    def request(self, queue: Queue) -> Command:
        """Write it for a queue."""
        stamp = self._stamp
        return send_request(
            stamp.group,
            self._message,
            queue,
            unique_key=self._unique_key,
            now_ms=now_ms(),
            compress_from=stamp.compress_from,
            compression=stamp.compression,
            is_half=True,
        )

    def read(self, answer: Command, queue: Queue, tried: tuple[Tried, ...]) -> tuple[Sent, Half]:
        """Read what a broker said to it, and what the end of the transaction will have to name."""
        receipt = read_receipt(answer, queue, unique_key=self._unique_key, is_half=True)
        assert receipt.half is not None
        shown = self._stamp.names.bare_queue(receipt.queue)
        attempts = attempts_of(tried)
        sent = Sent(shown, receipt.offset, self._unique_key, receipt.late, attempts, receipt.message_id)
        return sent, receipt.half


class Batch:
    """Many messages for one queue: all of them are stored, in order and side by side, or none."""

    __slots__ = ("_messages", "_stamp", "_unique_keys", "count", "size")

    def __init__(self, stamp: Stamp, messages: Sequence[Message], unique_keys: Sequence[str]) -> None:
        self._stamp, self._messages, self._unique_keys = stamp, messages, unique_keys
        self.count, self.size = len(messages), sum(len(message.body) for message in messages)

    def request(self, queue: Queue) -> Command:
        """Write them for a queue."""
        return batch_request(self._stamp.group, self._messages, queue, unique_keys=self._unique_keys, now_ms=now_ms())

    def read(self, answer: Command, queue: Queue, tried: tuple[Tried, ...]) -> list[Sent]:
        """Read what a broker said to them."""
        receipts = read_batch_receipts(answer, queue, self._unique_keys)
        shown, attempts = self._stamp.names.bare_queue(receipts[0].queue), attempts_of(tried)
        return [
            Sent(shown, receipt.offset, key, receipt.late, attempts, receipt.message_id)
            for receipt, key in zip(receipts, self._unique_keys, strict=True)
        ]
