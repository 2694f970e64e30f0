"""How a producer works: one value, checked together once; every option is a keyword of `Producer`."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TypedDict

from steelyard.balance.attempts import SendOptions
from steelyard.balance.latency_table import LatencyTable, latency_table
from steelyard.client.observing.observer import Observer
from steelyard.client.observing.observing import check_observers
from steelyard.errors import ConfigurationError
from steelyard.model.names import TRACE_TOPIC
from steelyard.wire.sysflag import Compression

__all__ = ["ProducerOptions", "ProducerSettings"]

_MIB = 1 << 20
_COMPRESSIONS = {kind.name.lower(): kind for kind in Compression}
_WHOLE = {
    "retries": 0,
    "compress_from": 0,
    "max_message_bytes": 1,
    "batch_bytes": 1,
    "in_flight": 1,
    "in_flight_bytes": 1,
}
"""Options that count something, and the least that each may be."""
_SPANS = {"timeout_s": 0.001, "linger_ms": 0, "close_timeout_s": 0}
"""Options that are a time, and the least that each may be."""
_MAY_LACK = ("compress_from", "linger_ms")


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """The options of a producer.

    >>> ProducerOptions(retries=-1)
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: retries is -1; give 0 or more, a whole number
    """

    timeout_s: float = 3.0
    """The time for all attempts of a send together."""
    retries: int = 2
    """How many attempts there may be after the first."""
    another_when_late: bool = False
    """Whether to try another broker where a message is stored, but its flush or its replica was late."""
    avoid_slow_brokers: bool = False
    """Whether to keep a ledger of latencies and faults, and to walk around brokers that are slow or fail."""
    latency_table: str | LatencyTable = "modern"
    """How long a slow broker is avoided: ``modern``, ``classic``, or a table of one's own."""
    against_median: bool = False
    """Whether slow means slower than the others; where all are slow nobody is avoided then."""
    rooms: Collection[str] = ()
    """The machine rooms that ``select="machine-room"`` prefers: those of brokers that are called ``room@name``."""
    compress_from: int | None = 4_096
    """Bodies of so many bytes, and larger ones, are compressed; None for never."""
    compression: str = "zlib"
    """``zlib``, which every reader knows, ``lz4`` (the extra ``lz4``) or ``zstd`` (``fast``, before Python 3.14)."""
    max_message_bytes: int = 4 * _MIB
    """The largest body; brokers refuse larger ones."""
    linger_ms: float | None = None
    """How long a message waits for others to share a batch with; None for not at all."""
    batch_bytes: int = _MIB
    """The size of a batch of `send_many` and of messages that linger."""
    in_flight: int = 4_096
    """How many messages may be on their way at once; who sends more waits."""
    in_flight_bytes: int = 64 * _MIB
    """How large they may be together."""
    close_timeout_s: float = 5.0
    """How long `close` waits for messages that are on their way."""
    observers: Sequence[Observer] = ()
    """Who is told what happens: `steelyard.otel.OpenTelemetry`, `steelyard.metrics.ClientMetrics`, or your own."""
    message_trace: bool = False
    """Whether to write down what becomes of each message, for `steelyard message trace` and Java's tools."""
    trace_topic: str = TRACE_TOPIC
    """Where that is written."""

    def __post_init__(self) -> None:
        for name, least in (*_WHOLE.items(), *_SPANS.items()):
            value = getattr(self, name)
            if value is None and name in _MAY_LACK:
                continue
            kind, a_kind = (int, ", a whole number") if name in _WHOLE else (int | float, "")
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
    def kind(self) -> Compression:
        """The kind of compression."""
        return _COMPRESSIONS[self.compression]

    @property
    def table(self) -> LatencyTable:
        """The table of latencies."""
        return latency_table(self.latency_table) if isinstance(self.latency_table, str) else self.latency_table

    def send_options(self, timeout_s: float | None = None, *, is_oneway: bool = False) -> SendOptions:
        """Return the rules of one send; a queue that the caller chose is tried again by them."""
        given = self.timeout_s if timeout_s is None else timeout_s
        if not isinstance(given, int | float) or not isfinite(given) or given <= 0:
            raise ConfigurationError(f"the time for a send is {given!r}", next_step="give seconds, more than 0")
        return SendOptions(
            timeout_ms=max(1, round(given * 1000)),
            retries=self.retries,
            another_when_late=self.another_when_late,
            again_on_the_same=True,
            is_oneway=is_oneway,
        )


class ProducerSettings(TypedDict, total=False):
    """The same as keywords; a test sees to it that both agree."""

    timeout_s: float
    retries: int
    another_when_late: bool
    avoid_slow_brokers: bool
    latency_table: str | LatencyTable
    against_median: bool
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
