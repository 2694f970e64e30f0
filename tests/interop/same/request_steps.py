"""Steps that many scripts have: make a topic or a group, send, pull, say hello."""

from collections.abc import Mapping
from typing import Any

from steelyard.model.java_strings import java_hash
from steelyard.wire.codes import RequestCode as Code
from tests.interop.same.steps import Step

BROKER_NAME = "broker-a"


def topic(name: str, queues: int = 2, step: str = "", *, in_4: bool = True, **changed: object) -> Step:
    """Make a topic."""
    fields = {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": queues,
        "writeQueueNums": queues,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
    }
    return Step(step or f"make topic {name}", Code.UPDATE_AND_CREATE_TOPIC, fields | changed, in_4=in_4)


def group(name: str, step: str = "", **changed: object) -> Step:
    """Make a group."""
    body = {
        "attributes": {},
        "brokerId": 0,
        "consumeBroadcastEnable": True,
        "consumeEnable": True,
        "consumeFromMinEnable": True,
        "consumeMessageOrderly": False,
        "consumeTimeoutMinute": 15,
        "groupName": name,
        "groupRetryPolicy": {"type": "CUSTOMIZED"},
        "groupSysFlag": 0,
        "notifyConsumerIdsChangedEnable": True,
        "retryMaxTimes": 16,
        "retryQueueNums": 1,
        "whichBrokerWhenConsumeSlowly": 1,
    }
    return Step(step or f"make group {name}", Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body | changed)


def named(properties: Mapping[str, str]) -> str:
    """Return properties as a header has them, whatever they are."""
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items())


def send(
    step: str,
    name: str,
    queue_id: int = 0,
    body: bytes = b"hello",
    properties: Mapping[str, str] | None = None,
    *,
    letters: Mapping[str, object] | None = None,
    **more: Any,
) -> Step:
    """Send one message, with the short names of fields."""
    given = {"UNIQ_KEY": "7F00000100002A9F0000000000000001", "WAIT": "true"} if properties is None else properties
    fields: dict[str, object] = {
        "a": "same-producers",
        "b": name,
        "c": "TBW102",
        "d": 4,
        "e": queue_id,
        "f": 0,
        "g": "$now",
        "h": 7,
        "i": named(given),
        "j": 0,
        "k": False,
        "l": 16,
        "m": False,
        "n": BROKER_NAME,
    }
    fields |= letters or {}
    given_fields = {name: value for name, value in fields.items() if value is not None}
    return Step(step, more.pop("code", Code.SEND_MESSAGE_V2), given_fields, body, **more)


def pull(step: str, group_name: str, name: str, queue_id: int = 0, offset: int = 0, **more: Any) -> Step:
    """Pull, with the filter in the request unless another flag is given."""
    fields = {
        "consumerGroup": group_name,
        "topic": name,
        "queueId": queue_id,
        "queueOffset": offset,
        "maxMsgNums": more.pop("most", 32),
        "sysFlag": more.pop("flags", 4),
        "commitOffset": more.pop("commits", 0),
        "suspendTimeoutMillis": more.pop("wait_ms", 0),
        "subscription": more.pop("wants", "*"),
        "subVersion": more.pop("wants_version", 0),
        "expressionType": more.pop("kind", "TAG"),
    }
    return Step(step, more.pop("code", Code.PULL_MESSAGE), fields, **more)


def commit(step: str, group_name: str, name: str, queue_id: int, offset: int, **more: Any) -> Step:
    """Say how far a group is."""
    fields = {"consumerGroup": group_name, "topic": name, "queueId": queue_id, "commitOffset": offset}
    return Step(step, Code.UPDATE_CONSUMER_OFFSET, fields, **more)


def query_offset(step: str, group_name: str, name: str, queue_id: int = 0, **fields: object) -> Step:
    """Ask how far a group is."""
    asked = {"consumerGroup": group_name, "topic": name, "queueId": queue_id}
    return Step(step, Code.QUERY_CONSUMER_OFFSET, asked | fields)


def queue(name: str, queue_id: int = 0, broker: str = BROKER_NAME) -> dict[str, object]:
    """Return a queue as an object."""
    return {"brokerName": broker, "queueId": queue_id, "topic": name}


def wanted(name: str, expression: str = "*", kind: str = "TAG", version: int = 1) -> dict[str, object]:
    """Return a subscription as an object."""
    tags = [] if expression == "*" or kind != "TAG" else expression.split(" || ")
    return {
        "classFilterMode": False,
        "codeSet": [java_hash(tag) for tag in tags],
        "expressionType": kind,
        "subString": expression,
        "subVersion": version,
        "tagsSet": tags,
        "topic": name,
    }


def consumer(name: str, *subscriptions: object, model: str = "CLUSTERING") -> dict[str, object]:
    """Return a group as a heartbeat has it."""
    return {
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "consumeType": "CONSUME_PASSIVELY",
        "groupName": name,
        "messageModel": model,
        "subscriptionDataSet": list(subscriptions),
        "unitMode": False,
    }


def heartbeat(
    step: str, client_id: str, consumers: list[object] | None = None, producers: tuple[str, ...] = (), **more: Any
) -> Step:
    """Say that a client is there, and in which groups."""
    body: dict[str, object] = {
        "clientID": client_id,
        "consumerDataSet": consumers or [],
        "heartbeatFingerprint": more.pop("fingerprint", 0),
        "producerDataSet": [{"groupName": each} for each in producers],
        "withoutSub": more.pop("without_sub", False),
    }
    return Step(step, Code.HEART_BEAT, body=body, **more)
