"""Headers of a broker's upkeep: how its log is read, its index compared, its replicas told, its containers filled."""

from msgspec import field

from steelyard.wire.fields import Header
from steelyard.wire.numbers import Int32, Int64

__all__ = ["AddBroker", "CheckIndex", "FlushOffset", "ReadAhead", "RemoveBroker"]


class CheckIndex(Header, frozen=True):
    """354 CHECK_ROCKSDB_CQ_WRITE_PROGRESS: whether two kinds of index say the same from a time on."""

    topic: str
    check_store_time: Int64 = 0


class AddBroker(Header, frozen=True):
    """902 ADD_BROKER: start a broker inside a container, from a file that the container can read."""

    config_path: str


class RemoveBroker(Header, frozen=True):
    """903 REMOVE_BROKER: stop a broker that runs inside a container."""

    broker_cluster_name: str
    broker_name: str
    broker_id: Int64


class FlushOffset(Header, frozen=True):
    """908 RESET_MASTER_FLUSH_OFFSET: what a replica believes that its master has flushed."""

    master_flush_offset: Int64


class ReadAhead(Header, frozen=True):
    """2004 SET_COMMITLOG_READ_MODE: 0 is as the system does it, 1 is without reading ahead."""

    mode: Int32 = field(name="READ_AHEAD_MODE")
