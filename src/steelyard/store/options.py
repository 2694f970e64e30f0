"""Store options: one frozen value, checked once."""

from dataclasses import dataclass

from steelyard.errors import ConfigurationError
from steelyard.wire.hosts import IPV4_BYTES, IPV6_BYTES

_SMALLEST_SEGMENT = 1024
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Sizes and times; the defaults are Apache's."""

    segment_bytes: int = 1 << 30
    """Size of a log file. A directory that already has log files keeps their size."""

    keep_ms: int | None = 72 * _HOUR_MS
    """Log files whose newest message is older than this are removed; None keeps them at any age."""

    keep_bytes: int | None = None
    """The oldest log files are removed while the log is larger than this."""

    store_host: bytes = bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F))
    """The broker's address as written to records: 4 or 16 bytes, then 4 bytes of port."""

    keeps_apache_keys: bool = False
    """Whether to maintain the key index of an Apache broker that opens the directory next; `steelyard up` does."""

    def __post_init__(self) -> None:
        if not _SMALLEST_SEGMENT <= self.segment_bytes <= 0x7FFFFFFF:
            raise ConfigurationError(
                f"a log file of {self.segment_bytes} bytes is not possible",
                next_step=f"give {_SMALLEST_SEGMENT} to {0x7FFFFFFF}",
            )
        if len(self.store_host) not in (IPV4_BYTES, IPV6_BYTES):
            raise ConfigurationError(
                f"the store's host is {self.store_host!r}", next_step="give 4 or 16 bytes of address and 4 of port"
            )
        for name, least in (("keep_ms", self.keep_ms), ("keep_bytes", self.keep_bytes)):
            if least is not None and least < 0:
                raise ConfigurationError(f"{name} is {least}", next_step="give 0 or more, or None")
