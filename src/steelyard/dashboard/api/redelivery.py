"""Redelivery of a message: to one member of a group, now; or to every group, as a copy that is sent."""

from msgspec import Struct

from steelyard.client.producer.producer import Producer
from steelyard.dashboard.api_routing import ApiRequest, action_route, preview_route
from steelyard.dashboard.context import DashboardContext
from steelyard.dashboard.message_view import message_at
from steelyard.model import Message, StoredMessage
from steelyard.model.message import RESERVED_PROPERTIES

__all__ = [
    "ROUTES",
    "RedeliverPreview",
    "RedeliverRequest",
    "RedeliverResult",
    "ResendPreview",
    "ResendRequest",
    "ResendResult",
]

_MAX_MEMBERS = 200


class RedeliverRequest(Struct, frozen=True):
    """The group that is to handle it, and the member; any, if None."""

    group: str
    member: str | None = None


class RedeliverPreview(Struct, frozen=True):
    """The member that would get it."""

    group: str
    member: str | None  # None if no member is online
    members: list[str]  # members that are connected to the message's broker
    is_past: bool | None  # whether the group has consumed it; None if it does not read the topic
    committed: int | None


class RedeliverResult(Struct, frozen=True):
    """The outcome."""

    group: str
    member: str
    outcome: str
    is_done: bool
    took_ms: int
    remark: str | None


class ResendRequest(Struct, frozen=True):
    """The topic of the copy; None: that of the message."""

    to: str | None = None


class ResendPreview(Struct, frozen=True):
    """What would be sent."""

    to: str
    size: int
    tag: str | None
    keys: list[str]
    properties: int  # how many user properties are copied
    groups: list[str]  # groups that read that topic


class ResendResult(Struct, frozen=True):
    """Where the copy is stored."""

    topic: str
    broker: str
    queue: int
    offset: int
    id: str


@preview_route("/api/messages/{topic}/{broker}/{queue}/{offset}/redeliver/preview")
async def _redeliver_preview(context: DashboardContext, request: ApiRequest) -> RedeliverPreview:
    message, wanted = await message_at(context, request), await request.body(RedeliverRequest)
    _set_redeliver_command(context, request, message, wanted)
    online = [
        each.id for each in await context.admin.groups.members(wanted.group) if message.queue.broker in each.brokers
    ]
    readers = {each.group: each for each in await context.admin.messages.group_progress(message)}
    reader = readers.get(wanted.group)
    return RedeliverPreview(
        wanted.group,
        wanted.member or (online[0] if online else None),
        online[:_MAX_MEMBERS],
        None if reader is None else reader.is_past,
        None if reader is None else reader.committed,
    )


@action_route("/api/messages/{topic}/{broker}/{queue}/{offset}/redeliver")
async def _redeliver(context: DashboardContext, request: ApiRequest) -> RedeliverResult:
    message, wanted = await message_at(context, request), await request.body(RedeliverRequest)
    _set_redeliver_command(context, request, message, wanted)
    done = await context.admin.messages.redeliver(message, wanted.group, wanted.member)
    return RedeliverResult(done.group, done.member, done.outcome, done.is_done, done.took_ms, done.remark)


def _set_redeliver_command(
    context: DashboardContext, request: ApiRequest, message: StoredMessage, wanted: RedeliverRequest
) -> None:
    words = ("--group", wanted.group, "--member", wanted.member, "--topic", message.topic)
    request.set_command(context.command("message", "redeliver", message.offset_id, *words))


@preview_route("/api/messages/{topic}/{broker}/{queue}/{offset}/resend/preview")
async def _resend_preview(context: DashboardContext, request: ApiRequest) -> ResendPreview:
    message, wanted = await message_at(context, request), await request.body(ResendRequest)
    copy = _make_copy(context, request, message, wanted)
    groups = await context.admin.topics.groups(copy.topic)
    return ResendPreview(copy.topic, len(copy.body), copy.tags, list(copy.keys), len(copy.properties), groups)


@action_route("/api/messages/{topic}/{broker}/{queue}/{offset}/resend")
async def _resend(context: DashboardContext, request: ApiRequest) -> ResendResult:
    message, wanted = await message_at(context, request), await request.body(ResendRequest)
    copy = _make_copy(context, request, message, wanted)
    async with Producer(context.client_config) as producer:
        sent = await producer.send(copy)
    return ResendResult(sent.queue.topic, sent.queue.broker, sent.queue.queue_id, sent.offset, sent.message_id)


def _make_copy(
    context: DashboardContext, request: ApiRequest, message: StoredMessage, wanted: ResendRequest
) -> Message:
    """Return the copy, without the properties that the protocol itself wrote."""
    to = wanted.to or None
    request.set_command(context.command("message", "resend", message.offset_id, "--topic", message.topic, "--to", to))
    own = {name: text for name, text in message.properties.items() if name not in RESERVED_PROPERTIES}
    return Message(to or message.topic, message.body, message.tags, message.keys, own, message.flag)


ROUTES = (_redeliver_preview, _redeliver, _resend_preview, _resend)
