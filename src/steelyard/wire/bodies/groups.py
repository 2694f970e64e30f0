"""Configs of consumer groups: of one, and tables of all."""

from collections.abc import Mapping
from enum import Enum

from msgspec import field

from steelyard.model import ExpressionType
from steelyard.wire.bodies.common import TableVersion
from steelyard.wire.java_json import Int32, Int64
from steelyard.wire.json_body import JsonBody, always_written


class GroupRetryPolicyType(Enum):
    """Which of the two policies is used (Java: GroupRetryPolicyType)."""

    CUSTOMIZED = "CUSTOMIZED"
    EXPONENTIAL = "EXPONENTIAL"


class CustomRetryPolicy(JsonBody, frozen=True, kw_only=True):
    """A delay for each attempt (Java: CustomizedRetryPolicy)."""

    delays_ms: tuple[Int64, ...] = always_written((), "next")


class ExponentialRetryPolicy(JsonBody, frozen=True, kw_only=True):
    """A delay that grows with each attempt (Java: ExponentialRetryPolicy)."""

    initial_ms: Int64 = always_written(5_000, "initial")
    max_ms: Int64 = always_written(7_200_000, "max")
    multiplier: Int64 = always_written(2)


class GroupRetryPolicy(JsonBody, frozen=True, kw_only=True):
    """How long a message waits for its redelivery (Java: GroupRetryPolicy)."""

    custom: CustomRetryPolicy | None = field(default=None, name="customizedRetryPolicy")
    exponential: ExponentialRetryPolicy | None = field(default=None, name="exponentialRetryPolicy")
    kind: GroupRetryPolicyType = always_written(GroupRetryPolicyType.CUSTOMIZED, "type")


class SimpleSubscription(JsonBody, frozen=True, kw_only=True):
    """A subscription in the config of a group (Java: SimpleSubscriptionData)."""

    expression: str | None = None
    expression_type: str | None = None
    topic: str | None = None
    version: Int64 = always_written(0)


class SubscriptionGroupConfig(JsonBody, frozen=True, kw_only=True):
    """The config of a group on a broker (Java: SubscriptionGroupConfig); optional fields are not in 4.9."""

    attributes: Mapping[str, str] | None = None
    broker_id: Int64 = always_written(0)
    broadcast_enabled: bool = always_written(True, "consumeBroadcastEnable")
    consume_enabled: bool = always_written(True, "consumeEnable")
    from_min_enabled: bool = always_written(True, "consumeFromMinEnable")
    orderly: bool | None = field(default=None, name="consumeMessageOrderly")
    consume_timeout_minutes: Int32 | None = field(default=None, name="consumeTimeoutMinute")
    name: str = field(name="groupName")
    retry_policy: GroupRetryPolicy | None = field(default=None, name="groupRetryPolicy")
    sys_flag: Int32 | None = field(default=None, name="groupSysFlag")
    notices_enabled: bool = always_written(True, "notifyConsumerIdsChangedEnable")
    max_retries: Int32 = always_written(16, "retryMaxTimes")
    retry_queues: Int32 = always_written(1, "retryQueueNums")
    subscriptions: tuple[SimpleSubscription, ...] | None = field(default=None, name="subscriptionDataSet")
    slow_broker_id: Int64 = always_written(1, "whichBrokerWhenConsumeSlowly")


class SubscriptionGroupConfigList(JsonBody, frozen=True, kw_only=True):
    """Groups to create or change together (Java: SubscriptionGroupList)."""

    groups: tuple[SubscriptionGroupConfig, ...] = always_written((), "groupConfigList")


class SavedSubscription(JsonBody, frozen=True, kw_only=True):
    """A group's subscription to a topic, as our broker saves it."""

    kind: str = always_written(ExpressionType.TAG.value, "expressionType")
    expression: str = always_written("*", "subString")
    version: Int64 = always_written(0, "subVersion")


class SavedSubscriptionTable(JsonBody, frozen=True, kw_only=True):
    """The saved subscriptions of all groups of our broker, by group and topic."""

    groups: Mapping[str, Mapping[str, SavedSubscription]] = always_written({}, "subscriptionTable")


class SubscriptionGroupTable(JsonBody, frozen=True, kw_only=True):
    """Every group of a broker (Java: SubscriptionGroupWrapper)."""

    version: TableVersion | None = field(default=None, name="dataVersion")
    forbidden: Mapping[str, Mapping[str, Int32]] | None = field(default=None, name="forbiddenTable")
    groups: Mapping[str, SubscriptionGroupConfig] = always_written({}, "subscriptionGroupTable")
