"""Send requests: one message, a half message, or a batch, encoded again for each queue that is tried.

The queue is in the request, and a broker's version decides how a delay is written, so nothing is encoded before the
queue is known. Connections and attempts are not known here: a queue becomes a command, and an answer a result.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import ClassVar, Protocol, TypeVar

from msgspec import Struct

from steelyard.balance.producer.send_attempts import FailedAttempt
from steelyard.client.namespace import ClientNamespace
from steelyard.client.producer.send_result import SendResult, failed_attempts
from steelyard.model import Message, Queue
from steelyard.net.clock import now_ms
from steelyard.protocol.batch_send import batch_request, read_batch_receipts
from steelyard.protocol.send import Delay, HalfMessageRef, read_receipt, resolve_delay, send_request
from steelyard.wire.command import Command
from steelyard.wire.sysflag import Compression

R_co = TypeVar("R_co", covariant=True)


class SendRequest(Protocol[R_co]):
    """What one request stores: all of it or nothing."""

    @property
    def count(self) -> int:
        """The number of its messages."""

    @property
    def size(self) -> int:
        """The size of its bodies in bytes."""

    def encode(self, queue: Queue) -> Command:
        """Encode it for a queue."""

    def decode(self, answer: Command, queue: Queue, tried: tuple[FailedAttempt, ...]) -> R_co:
        """Return the result in a broker's answer; raises if it was refused."""


class SendDefaults(Struct, frozen=True):
    """What all sends of a producer have in common."""

    group: str
    namespace: ClientNamespace
    compress_from: int | None
    compression: Compression
    has_timers: Callable[[str], bool]
    """Whether a broker can deliver at any time, not only by delay levels."""
    warn: Callable[[str], None]
    """Called with a sentence if a delay had to be changed."""


class SingleSend(Struct, frozen=True):
    """One message."""

    defaults: SendDefaults
    message: Message
    unique_key: str
    size: int
    delay_s: float | None = None
    deliver_at: datetime | None = None
    extra_properties: Mapping[str, str] | None = None
    is_oneway: bool = False

    count: ClassVar[int] = 1

    def encode(self, queue: Queue) -> Command:
        """Encode it for a queue."""
        defaults = self.defaults
        at_ms = now_ms()
        extra = self.extra_properties or {}
        if self.delay_s is not None or self.deliver_at is not None:
            extra = {**extra, **self._delay_properties(queue, at_ms)}
        return send_request(
            defaults.group,
            self.message,
            queue,
            unique_key=self.unique_key,
            now_ms=at_ms,
            extra_properties=extra,
            compress_from=defaults.compress_from,
            compression=defaults.compression,
            is_oneway=self.is_oneway,
        )

    def decode(self, answer: Command, queue: Queue, tried: tuple[FailedAttempt, ...]) -> SendResult:
        """Return the result in a broker's answer."""
        receipt = read_receipt(answer, queue, unique_key=self.unique_key)
        queue = receipt.queue
        shown = self.defaults.namespace.unwrap_queue(queue) if self.defaults.namespace.name else queue
        attempts = failed_attempts(tried) if tried else ()
        return SendResult(shown, receipt.offset, self.unique_key, receipt.is_late, attempts, receipt.message_id)

    def _delay_properties(self, queue: Queue, at_ms: int) -> Mapping[str, str]:
        defaults = self.defaults
        timers = defaults.has_timers(queue.broker)
        delay: Delay | None = resolve_delay(self.delay_s, self.deliver_at, now_ms=at_ms, has_timers=timers)
        if delay is None:
            return {}
        if delay.note:
            defaults.warn(delay.note)
        return delay.properties


class HalfSend:
    """The half message of a transaction."""

    __slots__ = ("_defaults", "_message", "_unique_key", "count", "size")

    def __init__(self, defaults: SendDefaults, message: Message, unique_key: str) -> None:
        self._defaults, self._message, self._unique_key = defaults, message, unique_key
        self.count, self.size = 1, len(message.body)

    def encode(self, queue: Queue) -> Command:
        """Encode it for a queue."""
        defaults = self._defaults
        return send_request(
            defaults.group,
            self._message,
            queue,
            unique_key=self._unique_key,
            now_ms=now_ms(),
            compress_from=defaults.compress_from,
            compression=defaults.compression,
            is_half=True,
        )

    def decode(
        self, answer: Command, queue: Queue, tried: tuple[FailedAttempt, ...]
    ) -> tuple[SendResult, HalfMessageRef]:
        """Return the result, and the reference that ends the transaction."""
        receipt = read_receipt(answer, queue, unique_key=self._unique_key, is_half=True)
        assert receipt.half is not None
        shown = self._defaults.namespace.unwrap_queue(receipt.queue)
        attempts = failed_attempts(tried)
        sent = SendResult(shown, receipt.offset, self._unique_key, receipt.is_late, attempts, receipt.message_id)
        return sent, receipt.half


class BatchSend:
    """Many messages for one queue: all are stored, in order and adjacent, or none."""

    __slots__ = ("_defaults", "_messages", "_unique_keys", "count", "size")

    def __init__(self, defaults: SendDefaults, messages: Sequence[Message], unique_keys: Sequence[str]) -> None:
        self._defaults, self._messages, self._unique_keys = defaults, messages, unique_keys
        self.count, self.size = len(messages), sum(len(message.body) for message in messages)

    def encode(self, queue: Queue) -> Command:
        """Encode them for a queue."""
        return batch_request(
            self._defaults.group, self._messages, queue, unique_keys=self._unique_keys, now_ms=now_ms()
        )

    def decode(self, answer: Command, queue: Queue, tried: tuple[FailedAttempt, ...]) -> list[SendResult]:
        """Return the results in a broker's answer."""
        receipts = read_batch_receipts(answer, queue, self._unique_keys)
        shown, attempts = self._defaults.namespace.unwrap_queue(receipts[0].queue), failed_attempts(tried)
        return [
            SendResult(shown, receipt.offset, key, receipt.is_late, attempts, receipt.message_id)
            for receipt, key in zip(receipts, self._unique_keys, strict=True)
        ]
