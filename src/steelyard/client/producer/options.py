"""Options of a producer: one frozen value, checked once; every option is a keyword of `Producer`."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TypedDict

from steelyard.balance.producer.broker_latency import LatencyTable, latency_table
from steelyard.balance.producer.send_attempts import SendOptions
from steelyard.client.observers.observer import Observer
from steelyard.client.observers.observers import check_observers
from steelyard.errors import ConfigurationError
from steelyard.model.reserved_names import TRACE_TOPIC
from steelyard.wire.sysflag import Compression

_MIB = 1 << 20
_COMPRESSIONS = {kind.name.lower(): kind for kind in Compression}
_INTEGER_MINIMUMS = {
    "retries": 0,
    "compress_from": 0,
    "max_message_bytes": 1,
    "batch_bytes": 1,
    "in_flight": 1,
    "in_flight_bytes": 1,
}
"""Options that are integers, with their minimum."""
_DURATION_MINIMUMS = {"timeout_s": 0.001, "linger_ms": 0, "close_timeout_s": 0}
"""Options that are durations, with their minimum."""
_OPTIONAL = ("compress_from", "linger_ms")


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """The options of a producer.

    >>> ProducerOptions(retries=-1)
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: retries is -1; give 0 or more, a whole number
    """

    timeout_s: float = 3.0
    """The deadline of a send, with all its attempts."""
    retries: int = 2
    """How many attempts may follow the first."""
    retry_other_broker_if_not_stored: bool = False
    """Whether to try another broker if the flush or the replication of a stored message timed out."""
    avoid_slow_brokers: bool = False
    """Whether to track latencies and failures, and to route around brokers that are slow or fail."""
    latency_table: str | LatencyTable = "modern"
    """How long a slow broker is avoided: ``modern``, ``classic``, or a table of your own."""
    relative_to_median: bool = False
    """Whether slow means slower than the median; if all are slow, none is avoided then."""
    rooms: Collection[str] = ()
    """The machine rooms that ``select="machine-room"`` prefers: brokers are named ``room@name``."""
    compress_from: int | None = 4_096
    """The smallest body that is compressed, in bytes; None for never."""
    compression: str = "zlib"
    """``zlib``, which every client can read, ``lz4`` (the extra ``lz4``) or ``zstd`` (``fast``, before Python 3.14)."""
    max_message_bytes: int = 4 * _MIB
    """The largest body; brokers refuse larger ones."""
    linger_ms: float | None = None
    """How long a message waits for others to fill a batch; None for not at all."""
    batch_bytes: int = _MIB
    """The size of a batch, of `send_many` and of ``linger_ms``."""
    in_flight: int = 4_096
    """How many messages may be in flight; further sends wait."""
    in_flight_bytes: int = 64 * _MIB
    """How many bytes may be in flight."""
    close_timeout_s: float = 5.0
    """How long `close` waits for messages in flight."""
    observers: Sequence[Observer] = ()
    """What observes it: `steelyard.otel.OpenTelemetry`, `steelyard.metrics.ClientMetrics`, or your own."""
    message_trace: bool = False
    """Whether to write message traces, for `steelyard message trace` and Java's tools."""
    trace_topic: str = TRACE_TOPIC
    """The topic of message traces."""

    def __post_init__(self) -> None:
        for name, least in (*_INTEGER_MINIMUMS.items(), *_DURATION_MINIMUMS.items()):
            value = getattr(self, name)
            if value is None and name in _OPTIONAL:
                continue
            kind, a_kind = (int, ", a whole number") if name in _INTEGER_MINIMUMS else (int | float, "")
            if not isinstance(value, kind) or not isfinite(value) or value < least:
                raise ConfigurationError(f"{name} is {value!r}", next_step=f"give {least} or more{a_kind}")
        if self.compression not in _COMPRESSIONS:
            raise ConfigurationError(
                f"no compression is called {self.compression!r}", next_step=f"known: {', '.join(_COMPRESSIONS)}"
            )
        if isinstance(self.latency_table, str):
            latency_table(self.latency_table)
        if isinstance(self.rooms, str):
            raise ConfigurationError(f"rooms is {self.rooms!r}", next_step=f"give a collection: [{self.rooms!r}]")
        check_observers(self.observers)

    @property
    def compression_kind(self) -> Compression:
        """The kind of compression."""
        return _COMPRESSIONS[self.compression]

    @property
    def resolved_latency_table(self) -> LatencyTable:
        """The latency table."""
        return latency_table(self.latency_table) if isinstance(self.latency_table, str) else self.latency_table

    def send_options(self, timeout_s: float | None = None, *, is_oneway: bool = False) -> SendOptions:
        """Return the options of one send; a queue that the caller chose is retried."""
        given = self.timeout_s if timeout_s is None else timeout_s
        if not isinstance(given, int | float) or not isfinite(given) or given <= 0:
            raise ConfigurationError(f"the time for a send is {given!r}", next_step="give seconds, more than 0")
        return SendOptions(
            timeout_ms=max(1, round(given * 1000)),
            retries=self.retries,
            retry_other_broker_if_not_stored=self.retry_other_broker_if_not_stored,
            retry_same_queue=True,
            is_oneway=is_oneway,
        )


class ProducerSettings(TypedDict, total=False):
    """The same as keywords; a test compares both."""

    timeout_s: float
    retries: int
    retry_other_broker_if_not_stored: bool
    avoid_slow_brokers: bool
    latency_table: str | LatencyTable
    relative_to_median: bool
    rooms: Collection[str]
    compress_from: int | None
    compression: str
    max_message_bytes: int
    linger_ms: float | None
    batch_bytes: int
    in_flight: int
    in_flight_bytes: int
    close_timeout_s: float
    observers: Sequence[Observer]
    message_trace: bool
    trace_topic: str
