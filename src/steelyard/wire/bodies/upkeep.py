"""What brokers tell of their upkeep: who reads what is long out of memory, and whether two indexes say the same."""

from collections.abc import Mapping

from msgspec import field

from steelyard.wire.body import Body, always, always_map
from steelyard.wire.numbers import Int32, Int64

__all__ = ["ColdReader", "ColdReads", "IndexCheck"]


class ColdReader(Body, frozen=True, kw_only=True):
    """What a group read from disk lately (Java: AccAndTimeStamp)."""

    read_bytes: Int64 = always(0, "coldAcc")
    since_ms: Int64 = always(0, "createTimeMills")
    read_ms: Int64 = always(0, "lastColdReadTimeMills")


class ColdReads(Body, frozen=True, kw_only=True):
    """How much groups read from disk and may read, in bytes, for a span of a few seconds."""

    group_limit: Int64 = always(0, "cgColdReadThreshold")
    limits: Mapping[str, Int64] = always_map("configTable")
    read_bytes: Int64 = always(0, "globalAcc")
    limit: Int64 = always(0, "globalColdReadThreshold")
    readers: Mapping[str, ColdReader] = always_map("runtimeTable")


class IndexCheck(Body, frozen=True, kw_only=True):
    """Whether two kinds of index say the same (Java: CheckRocksdbCqWriteResult)."""

    result: str | None = field(default=None, name="checkResult")
    status: Int32 = always(0, "checkStatus")
    """0 they do, 1 they do not, 2 it is being looked at, 3 that failed."""
