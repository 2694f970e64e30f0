"""Changes of topics, each with a preview: create one, change its settings, delete it, send a message to it.

A preview and its change are planned from the same request, so what is applied is what was shown.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from steelyard.client.admin.topic_plan import TopicChangePlan, TopicSpec
from steelyard.client.producer.producer import Producer
from steelyard.dashboard.api_routing import ApiRequest, action_route, preview_route
from steelyard.dashboard.context import DashboardContext
from steelyard.errors import ConfigurationError, TopicExists
from steelyard.model import Message, Permission

_MAX_TEXT_LENGTH = 1_000
_MAX_KEYS = 20

_ShortText = Annotated[str, Meta(max_length=_MAX_TEXT_LENGTH)]

_PERMISSIONS = {
    "read-write": Permission.READ | Permission.WRITE,
    "read": Permission.READ,
    "write": Permission.WRITE,
    "nothing": Permission(0),
}
_May = Literal["read-write", "read", "write", "nothing"]  # as on the command line


class _CreateRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The topic to create."""

    queues: int
    may: _May = "read-write"
    order: bool = False


class _SettingsRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings to change; what is None stays as it is on each broker."""

    read_queues: int | None = None
    write_queues: int | None = None
    may: _May | None = None
    order: bool | None = None


class _SendRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The message to send."""

    body: str
    tags: _ShortText | None = None
    keys: Annotated[list[_ShortText], Meta(max_length=_MAX_KEYS)] = []
    key: _ShortText | None = None


class _BrokerChange(Struct, frozen=True):
    """What changes on one broker."""

    broker: str
    what: str  # create, change or keep
    details: str
    hidden: int  # queues that could be read before, and cannot be read afterwards


class _TopicChanges(Struct, frozen=True):
    """What changes, or was changed."""

    topic: str
    changes: tuple[_BrokerChange, ...]


class _Deletion(Struct, frozen=True):
    """What is deleted with a topic."""

    topic: str
    messages: int
    brokers: tuple[str, ...]
    groups: tuple[str, ...]  # those that read it


@preview_route("/api/topics/{topic}/create/preview")
async def _create_preview(context: DashboardContext, request: ApiRequest) -> _TopicChanges:
    return _topic_changes(request, await _plan_creation(context, request))


@action_route("/api/topics/{topic}/create")
async def _create(context: DashboardContext, request: ApiRequest) -> _TopicChanges:
    return _topic_changes(request, await context.admin.topics.apply(await _plan_creation(context, request)))


async def _plan_creation(context: DashboardContext, request: ApiRequest) -> TopicChangePlan:
    topic, wanted = request.path("topic"), await request.body(_CreateRequest)
    options = ["--may", wanted.may] if wanted.may != "read-write" else []
    options += ["--order"] if wanted.order else []
    request.command = context.command("topic", "create", topic, "--queues", wanted.queues, *options)
    spec = TopicSpec(name=topic, queues=wanted.queues, permission=_PERMISSIONS[wanted.may], order=wanted.order or None)
    plan = await context.admin.topics.plan([spec])
    there = [change.broker for change in plan.changes if change.what == "change"]
    if there:
        raise TopicExists(
            server=there[0],
            what=f"topic {topic!r} exists already, with other settings on {', '.join(there)}",
            next_step="change its settings instead, or choose another name",
        )
    return plan


@preview_route("/api/topics/{topic}/settings/preview")
async def _settings_preview(context: DashboardContext, request: ApiRequest) -> _TopicChanges:
    return _topic_changes(request, await _plan_settings(context, request))


@action_route("/api/topics/{topic}/settings")
async def _settings(context: DashboardContext, request: ApiRequest) -> _TopicChanges:
    return _topic_changes(request, await context.admin.topics.apply(await _plan_settings(context, request)))


async def _plan_settings(context: DashboardContext, request: ApiRequest) -> TopicChangePlan:
    topic, wanted = request.path("topic"), await request.body(_SettingsRequest)
    order = [] if wanted.order is None else ["--order" if wanted.order else "--no-order"]
    counts = ("--read-queues", wanted.read_queues, "--write-queues", wanted.write_queues)
    request.command = context.command("topic", "set", topic, "--may", wanted.may, *counts, *order, "--yes")
    if wanted == _SettingsRequest():
        raise ConfigurationError(f"no change of topic {topic!r} is given", next_step="change a setting")
    spec = TopicSpec(
        name=topic,
        read_queues=wanted.read_queues,
        write_queues=wanted.write_queues,
        permission=None if wanted.may is None else _PERMISSIONS[wanted.may],
        order=wanted.order,
    )
    return await context.admin.topics.plan([spec], only_existing=True)


def _topic_changes(request: ApiRequest, plan: TopicChangePlan) -> _TopicChanges:
    return _TopicChanges(
        request.path("topic"),
        tuple(_BrokerChange(each.broker, each.what, each.details, len(each.hidden)) for each in plan.changes),
    )


@preview_route("/api/topics/{topic}/delete/preview")
async def _delete_preview(context: DashboardContext, request: ApiRequest) -> _Deletion:
    return await _deletion(context, request)


@action_route("/api/topics/{topic}/delete")
async def _delete(context: DashboardContext, request: ApiRequest) -> _Deletion:
    deletion = await _deletion(context, request)
    await context.admin.topics.delete(deletion.topic)
    return deletion


async def _deletion(context: DashboardContext, request: ApiRequest) -> _Deletion:
    topic = request.path("topic")
    request.command = context.command("topic", "delete", topic, "--yes")
    view = await context.admin.topics.describe(topic)
    return _Deletion(topic, view.messages, view.brokers, tuple(await context.admin.topics.groups(topic)))


@preview_route("/api/topics/{topic}/send/preview")
async def _send_preview(context: DashboardContext, request: ApiRequest) -> dict[str, object]:
    message, _ = await _message_to_send(context, request)
    groups = await context.admin.topics.groups(message.topic)
    return {"topic": message.topic, "size": len(message.body), "groups": groups}


@action_route("/api/topics/{topic}/send")
async def _send(context: DashboardContext, request: ApiRequest) -> dict[str, object]:
    message, key = await _message_to_send(context, request)
    async with Producer(context.client_config) as producer:
        sent = await producer.send(message, key=key)
    topic, broker, queue_id = sent.queue
    return {"topic": topic, "broker": broker, "queue": queue_id, "offset": sent.offset, "id": sent.message_id}


async def _message_to_send(context: DashboardContext, request: ApiRequest) -> tuple[Message, str | None]:
    topic, wanted = request.path("topic"), await request.body(_SendRequest)
    keys = [word for key in wanted.keys for word in ("--keys", key)]
    request.command = context.command(
        "send", topic, "--body", wanted.body, "--tags", wanted.tags or None, *keys, "--key", wanted.key or None
    )
    return Message(topic, wanted.body.encode(), wanted.tags or None, wanted.keys), wanted.key or None


ROUTES = (
    _create_preview,
    _create,
    _settings_preview,
    _settings,
    _delete_preview,
    _delete,
    _send_preview,
    _send,
)
