"""Messages: finding them, and all about one of them.

They are found among the newest, from an offset or a time on, by key or by id; and among the first three by tag and by
a text in the body, within limits that the answer tells.
"""

from datetime import UTC, datetime

from msgspec import Struct, convert
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from steelyard.client.stories import Property, Story, properties_of, story_of
from steelyard.dashboard.answers import refusal
from steelyard.dashboard.api import again
from steelyard.dashboard.asking import Ask
from steelyard.dashboard.desk import Desk
from steelyard.dashboard.message.bodies import Body, Row, body_of, row_of
from steelyard.dashboard.message.placed import placed, show_command
from steelyard.dashboard.message.searching import Found, Limits, Search, look_through, queues_of
from steelyard.dashboard.routes import reads
from steelyard.errors import ConfigurationError, MalformedRecord, NoMessage, SteelyardError, TopicNotFound
from steelyard.model.times_in_words import moment

__all__ = [
    "ROUTES",
    "FoundAnswer",
    "MessageAnswer",
    "Names",
    "QueuesAnswer",
    "ReaderRow",
    "ReadersAnswer",
    "TraceAnswer",
    "TraceRow",
]

_MOST_ROWS = 1_000
_MOST_BY_KEY = 64
_LOOKED_AT = 20_000
_MOST_LOOKED_AT = 1_000_000
_QUICK_S, _PATIENT_S = 8.0, 30.0
_MOST_READERS = 200
_MOST_TOPICS = 5_000


class Names(Struct, frozen=True):
    """What a form can offer."""

    topics: list[str]


class QueuesAnswer(Struct, frozen=True):
    """The readable queues of a topic."""

    queues: list[str]
    """As ``broker-0:3``."""


class FoundAnswer(Struct, frozen=True):
    """What was found, and how far it was looked for."""

    rows: list[Row]
    looked: int | None
    """Offsets that were looked at; None where an index was asked."""
    left: int
    ended_by: str | None
    command: str
    notes: list[str]


class MessageAnswer(Struct, frozen=True):
    """All that is known of a message by itself."""

    row: Row
    offset_id: str
    born_ms: int
    born_host: str
    store_host: str
    position: int
    stored_size: int
    flag: int
    sys_flag: int
    story: Story
    properties: list[Property]
    body: Body
    first: int | None
    """The first offset of its queue; None where the broker does not tell."""
    end: int | None
    command: str


class ReaderRow(Struct, frozen=True):
    """A group that reads the topic."""

    group: str
    is_past: bool
    committed: int | None


class ReadersAnswer(Struct, frozen=True):
    """Who has a message behind, and who before them."""

    readers: list[ReaderRow]
    command: str


class TraceRow(Struct, frozen=True):
    """One thing that happened to a message; what its record does not say is None."""

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


class TraceAnswer(Struct, frozen=True):
    """What clients wrote down about a message."""

    traces: list[TraceRow]
    command: str
    notes: list[str]


@reads("/api/message-topics")
async def _topics(desk: Desk, ask: Ask) -> Names:
    with_system = ask.flag("system")

    async def look(_: list[str] | None) -> list[str]:
        return [topic.name for topic in await desk.admin.topics(system=with_system)]

    return Names((await desk.watches.latest(("message-topics", with_system), 10_000, look))[:_MOST_TOPICS])


@reads("/api/message-queues")
async def _queues(desk: Desk, ask: Ask) -> QueuesAnswer:
    route = await desk.admin.topic_route(ask.wanted("topic"))
    return QueuesAnswer([f"{each.broker}:{each.queue_id}" for each in route.readable()])


@reads("/api/messages")
async def _find(desk: Desk, ask: Ask) -> FoundAnswer:
    by = ask.text("by", "newest")
    if by == "id":
        return await _by_id(desk, ask)
    topic = ask.wanted("topic")
    if by == "key":
        return await _by_key(desk, ask, topic)
    if by not in ("newest", "offset", "time"):
        raise ConfigurationError(
            f"messages are not found by {by[:40] if by else by!r}",
            next_step="newest, offset, time, key and id are known",
        )
    return await _by_place(desk, ask, topic, by)


async def _by_id(desk: Desk, ask: Ask) -> FoundAnswer:
    wanted, topic = ask.wanted("id").strip(), ask.text("topic")
    try:
        message = await desk.admin.message(wanted.upper(), topic, opened=False)
    except MalformedRecord:
        raise ConfigurationError(
            f"{wanted[:60]!r} is no message id",
            next_step="it has 32, 34 or 56 hexadecimal digits; or look for it as a key",
        ) from None
    command = desk.command("message", "show", message.offset_id or wanted, "--topic", topic)
    return FoundAnswer([row_of(message.topic, message)], None, 0, None, command, [])


async def _by_key(desk: Desk, ask: Ask, topic: str) -> FoundAnswer:
    key, count = ask.wanted("key"), min(ask.whole("count", _MOST_BY_KEY, least=1, most=_MOST_ROWS), _MOST_BY_KEY)
    start, end = _moment(ask, "from"), _moment(ask, "until")
    found = await desk.admin.messages_by_key(topic, key, start=start, end=end, most=count, opened=False)
    times = ("--since", _words(start), "--until", _words(end))
    line = ("message", "find", *times, "--count", count)
    # Two dashes end the options, for a key that looks like one.
    command = desk.command(*line, "--", topic, key) if key.startswith("-") else desk.command(*line, topic, key)
    notes = []
    if len(found) == count:
        notes.append(f"These are the newest {count} with this key; a broker tells no more at a time.")
    if ask.text("tag") or ask.text("text"):
        notes.append("Tag and text are not looked at where messages are found by key.")
    return FoundAnswer([row_of(topic, each) for each in found], None, 0, None, command, notes)


async def _by_place(desk: Desk, ask: Ask, topic: str, by: str) -> FoundAnswer:
    count = ask.whole("count", 100, least=1, most=_MOST_ROWS)
    depth = ask.whole("depth", _LOOKED_AT, least=1, most=_MOST_LOOKED_AT)
    tags, text, listed = ask.text("tag"), ask.text("text"), ask.text("queue")
    queue = None
    if listed is not None:
        route = await desk.admin.topic_route(topic)
        chosen = queues_of(topic, listed, route.readable())
        if len(chosen) > 1:
            raise ConfigurationError("messages are found in one queue or in all", next_step="name one, or none")
        queue = chosen[0]._replace(topic=topic)
    start: int | datetime | None = None
    end = None
    if by == "offset":
        start = ask.whole("offset", 0, most=(1 << 63) - 1)
    elif by == "time":
        start, end = _moment(ask, "from") or datetime.fromtimestamp(0, UTC), _moment(ask, "until")
    limits = Limits(messages=depth, seconds=_QUICK_S if depth <= _LOOKED_AT else _PATIENT_S)
    found = await look_through(desk.connect, Search(topic, queue, start, end, tags, text, count, limits))
    begin = start if start is None or isinstance(start, int) else (_words(start) if ask.text("from") else "first")
    span = ("--queue", listed, "--from", begin, "--until", _words(end))
    command = desk.command("message", "ls", topic, *span, "--tags", tags, "--count", count)
    return _answer(found, command, text)


def _answer(found: Found, command: str, text: str | None) -> FoundAnswer:
    notes = []
    if text:
        notes.append("The command line does not look into bodies: this lists what the text was looked for in.")
    return FoundAnswer(found.rows, found.looked, found.left, found.ended_by, command, notes)


def _moment(ask: Ask, name: str) -> datetime | None:
    text = ask.text(name)
    return None if text is None else moment(text, datetime.now(UTC))


def _words(when: datetime | None) -> str | None:
    return None if when is None else when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@reads("/api/messages/{topic}/{broker}/{queue}/{offset}")
async def _message(desk: Desk, ask: Ask) -> MessageAnswer:
    message = await placed(desk, ask)
    first = end = None
    try:
        for each in (await desk.admin.topic(message.topic)).queues:
            if each.queue == message.queue:
                first, end = each.start, each.end
    except SteelyardError:
        # It is a service to who goes on to the next message; without it he asks and sees.
        pass
    return MessageAnswer(
        row_of(message.topic, message),
        message.offset_id,
        message.born_ms,
        message.born_host,
        message.store_host,
        message.position,
        message.size,
        message.flag,
        message.sys_flag,
        story_of(message),
        properties_of(message),
        body_of(message.body),
        first,
        end,
        show_command(desk, message),
    )


@reads("/api/messages/{topic}/{broker}/{queue}/{offset}/readers")
async def _readers(desk: Desk, ask: Ask) -> ReadersAnswer:
    message = await placed(desk, ask)
    found = await desk.admin.readers(message)
    rows = [ReaderRow(each.group, each.is_past, each.committed) for each in found[:_MOST_READERS]]
    return ReadersAnswer(rows, desk.command("message", "readers", message.offset_id, "--topic", message.topic))


@reads("/api/messages/{topic}/{broker}/{queue}/{offset}/trace")
async def _trace(desk: Desk, ask: Ask) -> TraceAnswer:
    message = await placed(desk, ask)
    command = desk.command("message", "trace", message.message_id)
    try:
        found = await desk.admin.traces(message.message_id)
        return TraceAnswer([convert(each, TraceRow, from_attributes=True) for each in found], command, [])
    except (NoMessage, TopicNotFound) as error:
        return TraceAnswer([], command, [str(error)])


async def _download(request: Request) -> Response:
    """Answer with all of a body, to be kept and never to be shown."""
    desk: Desk = request.app.state.desk
    try:
        message = await placed(desk, Ask(request))
    except SteelyardError as error:
        return refusal(error)
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
    *again.ROUTES,
)
