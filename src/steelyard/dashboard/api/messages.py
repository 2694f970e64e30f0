"""Messages: search, and everything about one of them.

They are found among the newest, from an offset or a time on, by key or by id; the first three also by tag and by a text
in the body, within limits that the response names.
"""

from datetime import UTC, datetime

from msgspec import Struct, convert
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from steelyard.client.describe import MessageHistory, MessageProperty, message_history, message_properties
from steelyard.dashboard.api_routing import ApiRequest, error_response, query_route
from steelyard.dashboard.context import DashboardContext
from steelyard.dashboard.message_search import MessageSearch, SearchLimits, SearchResult, parse_queues, search_messages
from steelyard.dashboard.message_view import BodyView, MessageRow, body_view, message_at, message_row, show_command
from steelyard.errors import ConfigurationError, MalformedRecord, NoMessage, SteelyardError, TopicNotFound
from steelyard.model.time_text import parse_time

__all__ = [
    "ROUTES",
    "MessageReaderRow",
    "MessageReadersResponse",
    "MessageResponse",
    "MessageSearchResponse",
    "MessageTraceResponse",
    "QueueNamesResponse",
    "TopicNamesResponse",
    "TraceRow",
]

_MAX_ROWS = 1_000
_MAX_BY_KEY = 64
_DEFAULT_SCANNED = 20_000
_MAX_SCANNED = 1_000_000
_SHORT_SEARCH_S, _LONG_SEARCH_S = 8.0, 30.0
_MAX_READERS = 200
_MAX_TOPICS = 5_000


class TopicNamesResponse(Struct, frozen=True):
    """Topics that a form can offer."""

    topics: list[str]


class QueueNamesResponse(Struct, frozen=True):
    """The readable queues of a topic."""

    queues: list[str]  # as ``broker-0:3``


class MessageSearchResponse(Struct, frozen=True):
    """What was found, and how much was scanned."""

    rows: list[MessageRow]
    scanned: int | None  # offsets that were scanned; None for a search by index
    remaining: int
    limit_reached: str | None
    command: str
    notes: list[str]


class MessageResponse(Struct, frozen=True):
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


class MessageReaderRow(Struct, frozen=True):
    """A group that reads the topic."""

    group: str
    is_past: bool
    committed: int | None


class MessageReadersResponse(Struct, frozen=True):
    """Which groups have consumed a message."""

    readers: list[MessageReaderRow]
    command: str


class TraceRow(Struct, frozen=True):
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


class MessageTraceResponse(Struct, frozen=True):
    """The trace of a message, recorded by clients."""

    traces: list[TraceRow]
    command: str
    notes: list[str]


@query_route("/api/message-topics")
async def _topics(context: DashboardContext, request: ApiRequest) -> TopicNamesResponse:
    with_system = request.flag("system")

    async def poll(_: list[str] | None) -> list[str]:
        return [topic.name for topic in await context.admin.topics.list(system=with_system)]

    return TopicNamesResponse((await context.polls.latest(("message-topics", with_system), 10_000, poll))[:_MAX_TOPICS])


@query_route("/api/message-queues")
async def _queues(context: DashboardContext, request: ApiRequest) -> QueueNamesResponse:
    route = await context.admin.topics.route(request.required_text("topic"))
    return QueueNamesResponse([f"{each.broker}:{each.queue_id}" for each in route.readable_queues()])


@query_route("/api/messages")
async def _find(context: DashboardContext, request: ApiRequest) -> MessageSearchResponse:
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


async def _by_id(context: DashboardContext, request: ApiRequest) -> MessageSearchResponse:
    wanted, topic = request.required_text("id").strip(), request.text("topic")
    try:
        message = await context.admin.messages.find(wanted.upper(), topic, opened=False)
    except MalformedRecord:
        raise ConfigurationError(
            f"{wanted[:60]!r} is no message id",
            next_step="it has 32, 34 or 56 hexadecimal digits; or search for it as a key",
        ) from None
    command = context.command("message", "show", message.offset_id or wanted, "--topic", topic)
    return MessageSearchResponse([message_row(message.topic, message)], None, 0, None, command, [])


async def _by_key(context: DashboardContext, request: ApiRequest, topic: str) -> MessageSearchResponse:
    key, count = (
        request.required_text("key"),
        min(request.integer("count", _MAX_BY_KEY, minimum=1, maximum=_MAX_ROWS), _MAX_BY_KEY),
    )
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
    return MessageSearchResponse([message_row(topic, each) for each in found], None, 0, None, command, notes)


async def _by_offset_or_time(
    context: DashboardContext, request: ApiRequest, topic: str, by: str
) -> MessageSearchResponse:
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
    end = None
    if by == "offset":
        start = request.integer("offset", 0, maximum=(1 << 63) - 1)
    elif by == "time":
        start, end = _parse_time(request, "from") or datetime.fromtimestamp(0, UTC), _parse_time(request, "until")
    limits = SearchLimits(messages=depth, seconds=_SHORT_SEARCH_S if depth <= _DEFAULT_SCANNED else _LONG_SEARCH_S)
    found = await search_messages(
        context.client_config, MessageSearch(topic, queue, start, end, tags, text, count, limits)
    )
    begin = (
        start if start is None or isinstance(start, int) else (_iso_time(start) if request.text("from") else "first")
    )
    span = ("--queue", listed, "--from", begin, "--until", _iso_time(end))
    command = context.command("message", "ls", topic, *span, "--tags", tags, "--count", count)
    return _search_response(found, command, text)


def _search_response(found: SearchResult, command: str, text: str | None) -> MessageSearchResponse:
    notes = []
    if text:
        notes.append("The command line does not search bodies: it lists the messages that were scanned.")
    return MessageSearchResponse(found.rows, found.scanned, found.remaining, found.limit_reached, command, notes)


def _parse_time(request: ApiRequest, name: str) -> datetime | None:
    text = request.text(name)
    return None if text is None else parse_time(text, datetime.now(UTC))


def _iso_time(when: datetime | None) -> str | None:
    return None if when is None else when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@query_route("/api/messages/{topic}/{broker}/{queue}/{offset}")
async def _message(context: DashboardContext, request: ApiRequest) -> MessageResponse:
    message = await message_at(context, request)
    first = end = None
    try:
        for each in (await context.admin.topics.describe(message.topic)).queues:
            if each.queue == message.queue:
                first, end = each.start, each.end
    except SteelyardError:
        # The bounds only help to browse to the next message.
        pass
    return MessageResponse(
        message_row(message.topic, message),
        message.offset_id,
        message.born_ms,
        message.born_host,
        message.store_host,
        message.position,
        message.size,
        message.flag,
        message.sys_flag,
        message_history(message),
        message_properties(message),
        body_view(message.body),
        first,
        end,
        show_command(context, message),
    )


@query_route("/api/messages/{topic}/{broker}/{queue}/{offset}/readers")
async def _readers(context: DashboardContext, request: ApiRequest) -> MessageReadersResponse:
    message = await message_at(context, request)
    found = await context.admin.messages.group_progress(message)
    rows = [MessageReaderRow(each.group, each.is_past, each.committed) for each in found[:_MAX_READERS]]
    return MessageReadersResponse(
        rows, context.command("message", "readers", message.offset_id, "--topic", message.topic)
    )


@query_route("/api/messages/{topic}/{broker}/{queue}/{offset}/trace")
async def _trace(context: DashboardContext, request: ApiRequest) -> MessageTraceResponse:
    message = await message_at(context, request)
    command = context.command("message", "trace", message.message_id)
    try:
        found = await context.admin.messages.traces(message.message_id)
        return MessageTraceResponse([convert(each, TraceRow, from_attributes=True) for each in found], command, [])
    except (NoMessage, TopicNotFound) as error:
        return MessageTraceResponse([], command, [str(error)])


async def _download(request: Request) -> Response:
    """Respond with the whole body as an attachment, so that a browser never renders it."""
    context: DashboardContext = request.app.state.context
    try:
        message = await message_at(context, ApiRequest(request))
    except SteelyardError as error:
        return error_response(error)
    name = f"message-{message.queue.queue_id}-{message.offset}.bin"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return Response(message.body, headers=headers, media_type="application/octet-stream")


ROUTES = (
    _topics,
    _queues,
    _find,
    _message,
    _readers,
    _trace,
    Route("/api/messages/{topic}/{broker}/{queue}/{offset}/body", _download, methods=["GET"]),
)
