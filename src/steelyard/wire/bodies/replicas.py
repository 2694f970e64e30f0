"""How copies of a broker's log follow its master: as they say themselves, and as a controller sees it."""

from collections.abc import Mapping

from msgspec import field

from steelyard.wire.body import Body, always, always_map
from steelyard.wire.numbers import Int32, Int64

__all__ = ["Epoch", "Epochs", "Following", "Replica", "ReplicaSet", "ReplicaSets", "Replication", "ReplicationLine"]


class ReplicationLine(Body, frozen=True, kw_only=True):
    """A replica as its master sees it (Java: HAConnectionRuntimeInfo)."""

    address: str | None = field(default=None, name="addr")
    behind_bytes: Int64 = always(0, "diff")
    in_sync: bool = always(False)
    acked: Int64 = always(0, "slaveAckOffset")
    sent_from: Int64 = always(0, "transferFromWhere")
    bytes_a_second: Int64 = always(0, "transferredByteInSecond")


class Following(Body, frozen=True, kw_only=True):
    """How a replica follows its master (Java: HAClientRuntimeInfo)."""

    is_active: bool = always(False, "activated")
    read_ms: Int64 = always(0, "lastReadTimestamp")
    written_ms: Int64 = always(0, "lastWriteTimestamp")
    master_address: str | None = field(default=None, name="masterAddr")
    master_flushed: Int64 = always(0, "masterFlushOffset")
    end: Int64 = always(0, "maxOffset")
    bytes_a_second: Int64 = always(0, "transferredByteInSecond")


class Replication(Body, frozen=True, kw_only=True):
    """A broker's part in copying its log (Java: HARuntimeInfo): a master has lines, a replica follows."""

    following: Following | None = field(default=None, name="haClientRuntimeInfo")
    lines: tuple[ReplicationLine, ...] = always((), "haConnectionInfo")
    in_sync: Int32 = always(0, "inSyncSlaveNums")
    is_master: bool = always(False, "master")
    end: Int64 = always(0, "masterCommitLogMaxOffset")


class Epoch(Body, frozen=True, kw_only=True):
    """The part of a log that was written under one master (Java: EpochEntry)."""

    end: Int64 = always(0, "endOffset")
    epoch: Int32 = always(0)
    start: Int64 = always(0, "startOffset")


class Epochs(Body, frozen=True, kw_only=True):
    """Under which masters a broker's log was written (Java: EpochEntryCache)."""

    broker_id: Int64 = always(0)
    broker_name: str | None = None
    cluster: str | None = field(default=None, name="clusterName")
    epochs: tuple[Epoch, ...] = always((), "epochList")
    end: Int64 = always(0, "maxOffset")


class Replica(Body, frozen=True, kw_only=True):
    """A replica as a controller knows it (Java: ReplicaIdentity)."""

    alive: bool | None = None
    address: str | None = field(default=None, name="brokerAddress")
    broker_id: Int64 = always(0)
    broker_name: str | None = None


class ReplicaSet(Body, frozen=True, kw_only=True):
    """The replicas of one broker, and who is its master (Java: ReplicasInfo)."""

    in_sync: tuple[Replica, ...] = always((), "inSyncReplicas")
    master_address: str | None = None
    master_id: Int64 | None = field(default=None, name="masterBrokerId")
    master_epoch: Int32 | None = None
    behind: tuple[Replica, ...] = always((), "notInSyncReplicas")
    sync_epoch: Int32 | None = field(default=None, name="syncStateSetEpoch")


class ReplicaSets(Body, frozen=True, kw_only=True):
    """The replicas of several brokers by their names (Java: BrokerReplicasInfo)."""

    brokers: Mapping[str, ReplicaSet] = always_map("replicasInfoTable")
