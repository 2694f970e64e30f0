"""Topics as brokers keep them: the settings of one, and tables of all."""

from collections.abc import Mapping

from msgspec import field

from steelyard.wire.bodies.routes import QueueMapping
from steelyard.wire.bodies.shared import TableVersion
from steelyard.wire.body import Body, always, always_map
from steelyard.wire.maps import ById
from steelyard.wire.numbers import Int32, Int64

__all__ = ["HostedPart", "QueueMappingDetail", "TopicSettings", "TopicSettingsList", "TopicTable"]


class HostedPart(Body, frozen=True, kw_only=True):
    """A stretch of a static topic's queue that lies in one queue of one broker (Java: LogicQueueMappingItem)."""

    broker: str | None = field(default=None, name="bname")
    end_offset: Int64 = always(-1)
    generation: Int32 = always(0, "gen")
    logic_offset: Int64 = always(0)
    queue_id: Int32 = always(0)
    start_offset: Int64 = always(0)
    end_ms: Int64 = always(-1, "timeOfEnd")
    start_ms: Int64 = always(-1, "timeOfStart")


class QueueMappingDetail(Body, frozen=True, kw_only=True):
    """A static topic on one broker with the history of its queues (Java: TopicQueueMappingDetail)."""

    broker: str | None = field(default=None, name="bname")
    current: ById[Int32] = always(ById(), "currIdMap")
    dirty: bool = always(False)
    epoch: Int64 = always(0)
    hosted: ById[tuple[HostedPart, ...]] = always(ById(), "hostedQueues")
    scope: str | None = None
    topic: str | None = None
    total_queues: Int32 = always(0)


class TopicSettings(Body, frozen=True, kw_only=True):
    """The settings of a topic on a broker (Java: TopicConfig); 4.9 has no attributes."""

    attributes: Mapping[str, str] | None = None
    mapping: QueueMappingDetail | None = field(default=None, name="mappingDetail")
    order: bool = always(False)
    permission: Int32 = always(6, "perm")
    read_queues: Int32 = always(16, "readQueueNums")
    filter_type: str = always("SINGLE_TAG", "topicFilterType")
    name: str = field(name="topicName")
    sys_flag: Int32 = always(0, "topicSysFlag")
    write_queues: Int32 = always(16, "writeQueueNums")


class TopicSettingsList(Body, frozen=True, kw_only=True):
    """Topics to create or change together (Java: CreateTopicListRequestBody)."""

    topics: tuple[TopicSettings, ...] = always((), "topicConfigList")


class TopicTable(Body, frozen=True, kw_only=True):
    """Every topic of a broker (Java: TopicConfigAndMappingSerializeWrapper); 4.9 has the version and the topics."""

    version: TableVersion | None = field(default=None, name="dataVersion")
    mapping_version: TableVersion | None = field(default=None, name="mappingDataVersion")
    topics: Mapping[str, TopicSettings] = always_map("topicConfigTable")
    mapping_details: Mapping[str, QueueMappingDetail] | None = field(default=None, name="topicQueueMappingDetailMap")
    mappings: Mapping[str, QueueMapping] | None = field(default=None, name="topicQueueMappingInfoMap")
