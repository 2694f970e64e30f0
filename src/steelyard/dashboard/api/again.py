"""Having a message handled again: by a member of a group, now; or by every group, as a copy that is sent."""

from msgspec import Struct

from steelyard.client.producing.producer import Producer
from steelyard.dashboard.asking import Ask
from steelyard.dashboard.desk import Desk
from steelyard.dashboard.message.placed import placed
from steelyard.dashboard.routes import changes, tries
from steelyard.model import Message, StoredMessage
from steelyard.model.message import RESERVED_PROPERTIES

__all__ = ["ROUTES", "Redeliver", "RedeliverPreview", "Redelivered", "Resend", "ResendPreview", "Resent"]

_MOST_MEMBERS = 200


class Redeliver(Struct, frozen=True):
    """Which group is to handle it, and which member of it; any, if none is named."""

    group: str
    member: str | None = None


class RedeliverPreview(Struct, frozen=True):
    """Who would get it."""

    group: str
    member: str | None
    """None if nobody is there."""
    members: list[str]
    """Who of the group is online at the message's broker."""
    is_past: bool | None
    """Whether the group is past it; None if it reads the topic nowhere."""
    committed: int | None


class Redelivered(Struct, frozen=True):
    """What came of it."""

    group: str
    member: str
    outcome: str
    is_done: bool
    took_ms: int
    remark: str | None


class Resend(Struct, frozen=True):
    """Where a copy is to be sent; to the topic of the message, if nothing is said."""

    to: str | None = None


class ResendPreview(Struct, frozen=True):
    """What would be sent."""

    to: str
    size: int
    tag: str | None
    keys: list[str]
    properties: int
    """How many properties of its sender's own go with it."""
    groups: list[str]
    """Who reads that topic."""


class Resent(Struct, frozen=True):
    """Where the copy is."""

    topic: str
    broker: str
    queue: int
    offset: int
    id: str


@tries("/api/messages/{topic}/{broker}/{queue}/{offset}/redeliver/preview")
async def _redeliver_preview(desk: Desk, ask: Ask) -> RedeliverPreview:
    message, wanted = await placed(desk, ask), await ask.body(Redeliver)
    _means_redeliver(desk, ask, message, wanted)
    online = [each.id for each in await desk.admin.members(wanted.group) if message.queue.broker in each.brokers]
    readers = {each.group: each for each in await desk.admin.readers(message)}
    reader = readers.get(wanted.group)
    return RedeliverPreview(
        wanted.group,
        wanted.member or (online[0] if online else None),
        online[:_MOST_MEMBERS],
        None if reader is None else reader.is_past,
        None if reader is None else reader.committed,
    )


@changes("/api/messages/{topic}/{broker}/{queue}/{offset}/redeliver")
async def _redeliver(desk: Desk, ask: Ask) -> Redelivered:
    message, wanted = await placed(desk, ask), await ask.body(Redeliver)
    _means_redeliver(desk, ask, message, wanted)
    done = await desk.admin.redeliver(message, wanted.group, wanted.member)
    return Redelivered(done.group, done.member, done.outcome, done.is_done, done.took_ms, done.remark)


def _means_redeliver(desk: Desk, ask: Ask, message: StoredMessage, wanted: Redeliver) -> None:
    words = ("--group", wanted.group, "--member", wanted.member, "--topic", message.topic)
    ask.means(desk.command("message", "redeliver", message.offset_id, *words))


@tries("/api/messages/{topic}/{broker}/{queue}/{offset}/resend/preview")
async def _resend_preview(desk: Desk, ask: Ask) -> ResendPreview:
    message, wanted = await placed(desk, ask), await ask.body(Resend)
    copy = _copy(desk, ask, message, wanted)
    groups = await desk.admin.topic_groups(copy.topic)
    return ResendPreview(copy.topic, len(copy.body), copy.tags, list(copy.keys), len(copy.properties), groups)


@changes("/api/messages/{topic}/{broker}/{queue}/{offset}/resend")
async def _resend(desk: Desk, ask: Ask) -> Resent:
    message, wanted = await placed(desk, ask), await ask.body(Resend)
    copy = _copy(desk, ask, message, wanted)
    async with Producer(desk.connect) as producer:
        sent = await producer.send(copy)
    return Resent(sent.queue.topic, sent.queue.broker, sent.queue.queue_id, sent.offset, sent.message_id)


def _copy(desk: Desk, ask: Ask, message: StoredMessage, wanted: Resend) -> Message:
    """Return the copy that is sent: what the protocol itself wrote stays behind."""
    to = wanted.to or None
    ask.means(desk.command("message", "resend", message.offset_id, "--topic", message.topic, "--to", to))
    own = {name: text for name, text in message.properties.items() if name not in RESERVED_PROPERTIES}
    return Message(to or message.topic, message.body, message.tags, message.keys, own, message.flag)


ROUTES = (_redeliver_preview, _redeliver, _resend_preview, _resend)
