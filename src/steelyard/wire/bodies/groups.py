"""Consumer groups as brokers keep them: the settings of one, and tables of all."""

from collections.abc import Mapping
from enum import Enum

from msgspec import field

from steelyard.model import FilterKind
from steelyard.wire.bodies.shared import TableVersion
from steelyard.wire.body import Body, always, always_map
from steelyard.wire.numbers import Int32, Int64

__all__ = [
    "CustomRetries",
    "ExponentialRetries",
    "GroupSettings",
    "GroupSettingsList",
    "GroupTable",
    "KeptSubscription",
    "RetryKind",
    "RetryPolicy",
    "SimpleSubscription",
    "SubscriptionTable",
]


class RetryKind(Enum):
    """Which of the two policies decides (Java: GroupRetryPolicyType)."""

    CUSTOMIZED = "CUSTOMIZED"
    EXPONENTIAL = "EXPONENTIAL"


class CustomRetries(Body, frozen=True, kw_only=True):
    """A delay for each attempt (Java: CustomizedRetryPolicy)."""

    delays_ms: tuple[Int64, ...] = always((), "next")


class ExponentialRetries(Body, frozen=True, kw_only=True):
    """A delay that grows with each attempt (Java: ExponentialRetryPolicy)."""

    initial_ms: Int64 = always(5_000, "initial")
    max_ms: Int64 = always(7_200_000, "max")
    multiplier: Int64 = always(2)


class RetryPolicy(Body, frozen=True, kw_only=True):
    """How long a group's message waits before it comes again (Java: GroupRetryPolicy)."""

    custom: CustomRetries | None = field(default=None, name="customizedRetryPolicy")
    exponential: ExponentialRetries | None = field(default=None, name="exponentialRetryPolicy")
    kind: RetryKind = always(RetryKind.CUSTOMIZED, "type")


class SimpleSubscription(Body, frozen=True, kw_only=True):
    """A subscription kept with the group's settings (Java: SimpleSubscriptionData)."""

    expression: str | None = None
    expression_type: str | None = None
    topic: str | None = None
    version: Int64 = always(0)


class GroupSettings(Body, frozen=True, kw_only=True):
    """The settings of a group on a broker (Java: SubscriptionGroupConfig); what may be absent is missing in 4.9."""

    attributes: Mapping[str, str] | None = None
    broker_id: Int64 = always(0)
    broadcast_enabled: bool = always(True, "consumeBroadcastEnable")
    consume_enabled: bool = always(True, "consumeEnable")
    from_min_enabled: bool = always(True, "consumeFromMinEnable")
    orderly: bool | None = field(default=None, name="consumeMessageOrderly")
    consume_timeout_minutes: Int32 | None = field(default=None, name="consumeTimeoutMinute")
    name: str = field(name="groupName")
    retry_policy: RetryPolicy | None = field(default=None, name="groupRetryPolicy")
    sys_flag: Int32 | None = field(default=None, name="groupSysFlag")
    notices_enabled: bool = always(True, "notifyConsumerIdsChangedEnable")
    max_retries: Int32 = always(16, "retryMaxTimes")
    retry_queues: Int32 = always(1, "retryQueueNums")
    subscriptions: tuple[SimpleSubscription, ...] | None = field(default=None, name="subscriptionDataSet")
    slow_broker_id: Int64 = always(1, "whichBrokerWhenConsumeSlowly")


class GroupSettingsList(Body, frozen=True, kw_only=True):
    """Groups to create or change together (Java: SubscriptionGroupList)."""

    groups: tuple[GroupSettings, ...] = always((), "groupConfigList")


class KeptSubscription(Body, frozen=True, kw_only=True):
    """What a group wanted of a topic, as our broker keeps it for its next start."""

    kind: str = always(FilterKind.TAG.value, "expressionType")
    expression: str = always("*", "subString")
    version: Int64 = always(0, "subVersion")


class SubscriptionTable(Body, frozen=True, kw_only=True):
    """What the groups of a broker of ours wanted when it was saved, by group and topic."""

    groups: Mapping[str, Mapping[str, KeptSubscription]] = always_map("subscriptionTable")


class GroupTable(Body, frozen=True, kw_only=True):
    """Every group of a broker (Java: SubscriptionGroupWrapper)."""

    version: TableVersion | None = field(default=None, name="dataVersion")
    forbidden: Mapping[str, Mapping[str, Int32]] | None = field(default=None, name="forbiddenTable")
    groups: Mapping[str, GroupSettings] = always_map("subscriptionGroupTable")
