"""Messages: search, everything about one of them, and its redelivery: to one member of a group, or as a new copy.

They are found among the newest, from an offset or a time on, by key or by id; the first three also by tag and by a text
in the body, within limits that the response names.
"""

from datetime import UTC, datetime

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from steelyard.client.describe import MessageHistory, MessageProperty, message_history, message_properties
from steelyard.client.producer.producer import Producer
from steelyard.dashboard.api_routing import (
    ApiRequest,
    action_route,
    copy_fields,
    error_response,
    preview_route,
    query_route,
)
from steelyard.dashboard.context import DashboardContext
from steelyard.dashboard.message_search import MessageSearch, SearchLimits, parse_queues, search_messages
from steelyard.dashboard.message_view import BodyView, MessageRow, body_view, message_at, message_row
from steelyard.errors import ConfigurationError, MalformedRecord, NoMessage, SteelyardError, TopicNotFound
from steelyard.model import Message, StoredMessage
from steelyard.model.message import RESERVED_PROPERTIES
from steelyard.model.time_text import parse_time

_MAX_ROWS = 1_000
_MAX_BY_KEY = 64
_DEFAULT_SCANNED = 20_000
_MAX_SCANNED = 1_000_000
_SHORT_SEARCH_S, _LONG_SEARCH_S = 8.0, 30.0
_MAX_READERS = 200
_MAX_TOPICS = 5_000
_MAX_MEMBERS = 200
_ONE_MESSAGE = "/api/messages/{topic}/{broker}/{queue}/{offset}"


class _MessageSearchResponse(Struct, frozen=True):
    """What was found, and how much was scanned."""

    rows: list[MessageRow]
    scanned: int | None  # offsets that were scanned; None for a search by index
    remaining: int
    limit_reached: str | None
    command: str
    notes: list[str]


class _MessageResponse(Struct, frozen=True):
    """One message in full."""

    row: MessageRow
    offset_id: str
    born_ms: int
    born_host: str
    store_host: str
    position: int
    stored_size: int
    flag: int
    sys_flag: int
    delivery: MessageHistory
    properties: list[MessageProperty]
    body: BodyView
    min_offset: int | None  # the first offset of its queue; None if unknown
    max_offset: int | None
    command: str


class _TraceRow(Struct, frozen=True):
    """One event of a message; what is not recorded is None."""

    what: str
    at_ms: int | None
    group: str | None
    topic: str | None
    client_host: str | None
    took_ms: int | None
    went_well: bool | None
    outcome: str | None
    attempt: int | None
    request_id: str | None


@query_route("/api/message-topics")
async def _topics(context: DashboardContext, request: ApiRequest) -> dict[str, list[str]]:
    with_system = request.flag("system")

    async def poll(_: list[str] | None) -> list[str]:
        return [topic.name for topic in await context.admin.topics.list(system=with_system)]

    names = await context.polls.latest(("message-topics", with_system), 10_000, poll)
    return {"topics": names[:_MAX_TOPICS]}


@query_route("/api/message-queues")
async def _queues(context: DashboardContext, request: ApiRequest) -> dict[str, list[str]]:
    route = await context.admin.topics.route(request.required_text("topic"))
    return {"queues": [f"{each.broker}:{each.queue_id}" for each in route.readable_queues()]}


@query_route("/api/messages")
async def _find(context: DashboardContext, request: ApiRequest) -> _MessageSearchResponse:
    by = request.text("by", "newest")
    if by == "id":
        return await _by_id(context, request)
    topic = request.required_text("topic")
    if by == "key":
        return await _by_key(context, request, topic)
    if by not in ("newest", "offset", "time"):
        raise ConfigurationError(
            f"messages are not found by {by[:40] if by else by!r}",
            next_step="newest, offset, time, key and id are known",
        )
    return await _by_offset_or_time(context, request, topic, by)


async def _by_id(context: DashboardContext, request: ApiRequest) -> _MessageSearchResponse:
    wanted, topic = request.required_text("id").strip(), request.text("topic")
    try:
        message = await context.admin.messages.find(wanted.upper(), topic, opened=False)
    except MalformedRecord:
        raise ConfigurationError(
            f"{wanted[:60]!r} is no message id",
            next_step="it has 32, 34 or 56 hexadecimal digits; or search for it as a key",
        ) from None
    command = context.command("message", "show", message.offset_id or wanted, "--topic", topic)
    return _MessageSearchResponse([message_row(message.topic, message)], None, 0, None, command, [])


async def _by_key(context: DashboardContext, request: ApiRequest, topic: str) -> _MessageSearchResponse:
    key = request.required_text("key")
    count = min(request.integer("count", _MAX_BY_KEY, minimum=1, maximum=_MAX_ROWS), _MAX_BY_KEY)
    start, end = _parse_time(request, "from"), _parse_time(request, "until")
    found = await context.admin.messages.find_by_key(topic, key, start=start, end=end, most=count, opened=False)
    times = ("--since", _iso_time(start), "--until", _iso_time(end))
    line = ("message", "find", *times, "--count", count)
    # Two dashes end the options: the key may look like one.
    command = context.command(*line, "--", topic, key) if key.startswith("-") else context.command(*line, topic, key)
    notes = []
    if len(found) == count:
        notes.append(f"These are the newest {count} with this key; a broker returns no more at a time.")
    if request.text("tag") or request.text("text"):
        notes.append("Tag and text are ignored in a search by key.")
    return _MessageSearchResponse([message_row(topic, each) for each in found], None, 0, None, command, notes)


async def _by_offset_or_time(
    context: DashboardContext, request: ApiRequest, topic: str, by: str
) -> _MessageSearchResponse:
    count = request.integer("count", 100, minimum=1, maximum=_MAX_ROWS)
    depth = request.integer("depth", _DEFAULT_SCANNED, minimum=1, maximum=_MAX_SCANNED)
    tags, text, listed = request.text("tag"), request.text("text"), request.text("queue")
    queue = None
    if listed is not None:
        route = await context.admin.topics.route(topic)
        chosen = parse_queues(topic, listed, route.readable_queues())
        if len(chosen) > 1:
            raise ConfigurationError("messages are found in one queue or in all", next_step="name one, or none")
        queue = chosen[0]._replace(topic=topic)
    start: int | datetime | None = None
    begin: int | datetime | str | None
    end = None
    if by == "offset":
        start = request.integer("offset", 0, maximum=(1 << 63) - 1)
    elif by == "time":
        start, end = _parse_time(request, "from") or datetime.fromtimestamp(0, UTC), _parse_time(request, "until")
    limits = SearchLimits(messages=depth, seconds=_SHORT_SEARCH_S if depth <= _DEFAULT_SCANNED else _LONG_SEARCH_S)
    found = await search_messages(
        context.client_config, MessageSearch(topic, queue, start, end, tags, text, count, limits)
    )
    begin = start
    if isinstance(start, datetime):
        begin = _iso_time(start) if request.text("from") else "first"
    span = ("--queue", listed, "--from", begin, "--until", _iso_time(end))
    command = context.command("message", "ls", topic, *span, "--tags", tags, "--count", count)
    notes = []
    if text:
        notes.append("The command line does not search bodies: it lists the messages that were scanned.")
    return copy_fields(_MessageSearchResponse, found, command=command, notes=notes)


def _parse_time(request: ApiRequest, name: str) -> datetime | None:
    text = request.text(name)
    return None if text is None else parse_time(text, datetime.now(UTC))


def _iso_time(when: datetime | None) -> str | None:
    return None if when is None else when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@query_route(_ONE_MESSAGE)
async def _message(context: DashboardContext, request: ApiRequest) -> _MessageResponse:
    message = await message_at(context, request)
    first = end = None
    try:
        for each in (await context.admin.topics.describe(message.topic)).queues:
            if each.queue == message.queue:
                first, end = each.start, each.end
    except SteelyardError:
        # The bounds only help to browse to the next message.
        pass
    place = f"{message.queue.broker}:{message.queue.queue_id}:{message.offset}"
    return copy_fields(
        _MessageResponse,
        message,
        row=message_row(message.topic, message),
        stored_size=message.size,
        delivery=message_history(message),
        properties=message_properties(message),
        body=body_view(message),
        min_offset=first,
        max_offset=end,
        command=context.command("message", "show", "--topic", message.topic, "--at", place),
    )


@query_route(f"{_ONE_MESSAGE}/readers")
async def _readers(context: DashboardContext, request: ApiRequest) -> dict[str, object]:
    message = await message_at(context, request)
    found = await context.admin.messages.group_progress(message)
    command = context.command("message", "readers", message.offset_id, "--topic", message.topic)
    return {"readers": found[:_MAX_READERS], "command": command}


@query_route(f"{_ONE_MESSAGE}/trace")
async def _trace(context: DashboardContext, request: ApiRequest) -> dict[str, object]:
    message = await message_at(context, request)
    traces, notes = list[_TraceRow](), list[str]()
    try:
        found = await context.admin.messages.traces(message.message_id)
        traces = [copy_fields(_TraceRow, each) for each in found]
    except (NoMessage, TopicNotFound) as error:
        notes = [str(error)]
    return {"traces": traces, "command": context.command("message", "trace", message.message_id), "notes": notes}


async def _download(request: Request) -> Response:
    """Respond with the whole body as an attachment, so that a browser never renders it."""
    context: DashboardContext = request.app.state.context
    try:
        message = await message_at(context, ApiRequest(request), opened=True)
    except SteelyardError as error:
        return error_response(error)
    name = f"message-{message.queue.queue_id}-{message.offset}.bin"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return Response(message.body, headers=headers, media_type="application/octet-stream")


class _RedeliverRequest(Struct, frozen=True):
    """The group that is to handle it, and the member; any, if None."""

    group: str
    member: str | None = None


class _RedeliverResult(Struct, frozen=True):
    """The outcome."""

    group: str
    member: str
    outcome: str
    is_done: bool
    took_ms: int
    remark: str | None


class _ResendRequest(Struct, frozen=True):
    """The topic of the copy; None: that of the message."""

    to: str | None = None


@preview_route(f"{_ONE_MESSAGE}/redeliver/preview")
async def _redeliver_preview(context: DashboardContext, request: ApiRequest) -> dict[str, object]:
    message, wanted = await message_at(context, request), await request.body(_RedeliverRequest)
    _set_redeliver_command(context, request, message, wanted)
    online = [
        each.id for each in await context.admin.groups.members(wanted.group) if message.queue.broker in each.brokers
    ]
    progress = await context.admin.messages.group_progress(message)
    reader = next((each for each in progress if each.group == wanted.group), None)
    return {
        "group": wanted.group,
        "member": wanted.member or (online[0] if online else None),  # null if no member is online
        "members": online[:_MAX_MEMBERS],  # those that are connected to the message's broker
        "is_past": None if reader is None else reader.is_past,  # null if the group does not read the topic
        "committed": None if reader is None else reader.committed,
    }


@action_route(f"{_ONE_MESSAGE}/redeliver")
async def _redeliver(context: DashboardContext, request: ApiRequest) -> _RedeliverResult:
    message, wanted = await message_at(context, request), await request.body(_RedeliverRequest)
    _set_redeliver_command(context, request, message, wanted)
    done = await context.admin.messages.redeliver(message, wanted.group, wanted.member)
    return copy_fields(_RedeliverResult, done)


def _set_redeliver_command(
    context: DashboardContext, request: ApiRequest, message: StoredMessage, wanted: _RedeliverRequest
) -> None:
    words = ("--group", wanted.group, "--member", wanted.member, "--topic", message.topic)
    request.command = context.command("message", "redeliver", message.offset_id, *words)


@preview_route(f"{_ONE_MESSAGE}/resend/preview")
async def _resend_preview(context: DashboardContext, request: ApiRequest) -> dict[str, object]:
    message, wanted = await message_at(context, request, opened=True), await request.body(_ResendRequest)
    copy = _make_copy(context, request, message, wanted)
    groups = await context.admin.topics.groups(copy.topic)
    return {
        "to": copy.topic,
        "size": len(copy.body),
        "tag": copy.tags,
        "keys": copy.keys,
        "properties": len(copy.properties),
        "groups": groups,
    }


@action_route(f"{_ONE_MESSAGE}/resend")
async def _resend(context: DashboardContext, request: ApiRequest) -> dict[str, object]:
    message, wanted = await message_at(context, request, opened=True), await request.body(_ResendRequest)
    copy = _make_copy(context, request, message, wanted)
    async with Producer(context.client_config) as producer:
        sent = await producer.send(copy)
    topic, broker, queue_id = sent.queue
    return {"topic": topic, "broker": broker, "queue": queue_id, "offset": sent.offset, "id": sent.message_id}


def _make_copy(
    context: DashboardContext, request: ApiRequest, message: StoredMessage, wanted: _ResendRequest
) -> Message:
    """Return the copy, without the properties that the protocol itself wrote."""
    to = wanted.to or None
    request.command = context.command("message", "resend", message.offset_id, "--topic", message.topic, "--to", to)
    own = {name: text for name, text in message.properties.items() if name not in RESERVED_PROPERTIES}
    return Message(to or message.topic, message.body, message.tags, message.keys, own, message.flag)


ROUTES = (
    _topics,
    _queues,
    _find,
    _message,
    _readers,
    _trace,
    _redeliver_preview,
    _redeliver,
    _resend_preview,
    _resend,
    Route(f"{_ONE_MESSAGE}/body", _download, methods=["GET"]),
)
