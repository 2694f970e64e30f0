"""Finding messages: one by its id or place, those of a key, those of a topic."""

import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.frame.arguments import InTopic, TopicName
from steelyard.cli.frame.moments import moment, on_the_clock
from steelyard.cli.frame.output import Column, Out
from steelyard.cli.frame.print_message import preview, values_of
from steelyard.cli.frame.screen import note
from steelyard.cli.frame.where import Where, at_cluster
from steelyard.cli.message.places import checked_id, place_of, queue_of
from steelyard.errors import ConfigurationError
from steelyard.model import StoredMessage

if TYPE_CHECKING:
    from steelyard.client.blocking.admin import Admin

__all__ = ["MessageId", "find_messages", "list_messages", "show_message"]

_MOST = 10_000
_LONGEST_BODY = 60

MessageId = Annotated[
    str,
    typer.Argument(metavar="ID", help="The message's id, that of its producer or of its place.", show_default=False),
]
_Count = Annotated[int, typer.Option(min=1, max=_MOST, help="No more than so many.")]
_Until = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Only what was stored before it.", show_default=False)
]


@at_cluster
def show_message(
    where: Where,
    out: Out,
    message_id: Annotated[
        str | None,
        typer.Argument(
            metavar="[ID]", help="The message's id, that of its producer or of its place.", show_default=False
        ),
    ] = None,
    topic: InTopic = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="BROKER:QUEUE:OFFSET", help="With --topic: its place instead of its id.", show_default=False
        ),
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Write its body alone, byte by byte.")] = False,
) -> None:
    """Show a message: by its id, or by its place."""
    if (message_id is None) == (at is None):
        raise ConfigurationError(
            "a message is shown by its id or by its place",
            next_step="give ID, or --topic TOPIC --at BROKER:QUEUE:OFFSET",
        )
    if at is not None and topic is None:
        raise ConfigurationError(f"--at {at} is a place in a topic", next_step="give --topic too")
    # Here and not above, so that other verbs do not wait for what they do not need.
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        if message_id is not None:
            message = admin.message(checked_id(message_id), topic)
        else:
            message = _at(admin, topic or "", at or "")
    if raw:
        sys.stdout.flush()
        sys.stdout.buffer.write(message.body)
        sys.stdout.buffer.flush()
    elif out.is_table:
        out.one(_for_people(message))
    else:
        out.one({**values_of(message), "offset_id": message.offset_id})


def _at(admin: "Admin", topic: str, place: str) -> StoredMessage:
    from steelyard.client.admin.messages import no_message

    queue, offset = place_of(topic, place)
    message = admin.message_at(queue, offset)
    if message is None:
        raise no_message(
            f"{queue} has no message at offset {offset}",
            server=queue.broker,
            next_step=f"see what it has: steelyard message index {topic} --queue {queue.broker}:{queue.queue_id}",
        )
    return message


def _for_people(message: StoredMessage) -> dict[str, object]:
    queue = message.queue
    return {
        "topic": message.topic,
        "place": f"{queue.broker}:{queue.queue_id}:{message.offset}",
        "id": message.message_id,
        "id of its place": message.offset_id,
        "tag": message.tags,
        "keys": list(message.keys),
        "born": message.born_at,
        "born at": message.born_host,
        "stored": message.stored_at,
        "stored at": message.store_host,
        "came back": f"{message.reconsume_times} times",
        "properties": dict(message.properties),
        "bytes": len(message.body),
        "body": _text(message.body),
    }


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return preview(body)


@at_cluster
def find_messages(
    where: Where,
    out: Out,
    topic: TopicName,
    key: Annotated[str, typer.Argument(metavar="KEY", help="One of its keys.", show_default=False)],
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only what was stored since then.", show_default=False)
    ] = None,
    until: _Until = None,
    count: Annotated[int, typer.Option(min=1, max=64, help="No more than so many, the newest.")] = 64,
) -> None:
    """Find the messages of a topic that have a key, oldest first."""
    from steelyard.client.admin.messages import no_message

    now = datetime.now(UTC)
    start = None if since is None else moment(since, now)
    end = None if until is None else moment(until, now)
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        found = admin.messages_by_key(topic, key, start=start, end=end, most=count)
    if not found:
        raise no_message(
            f"topic {topic!r} has no message with the key {key!r}",
            server=str(where.connect()),
            next_step="keys are words, and large and small letters count",
        )
    _print_messages(out, found)


@at_cluster
def list_messages(
    where: Where,
    out: Out,
    topic: TopicName,
    queue: Annotated[str | None, typer.Option(metavar="BROKER:ID", help="Only this queue.", show_default=False)] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="first, a time, '2 hours ago', an offset, or -100: the last hundred of each queue.",
            show_default="the newest",
        ),
    ] = None,
    until: _Until = None,
    tags: Annotated[str | None, typer.Option(help="Only these: 'paid || refunded'.", show_default=False)] = None,
    count: _Count = 20,
) -> None:
    """List messages of a topic: the newest, or from a place on, in the order of time."""
    now = datetime.now(UTC)
    begin = _start(start, now)
    before = None if until is None else moment(until, now)
    if start is None and until is not None:
        raise ConfigurationError("--until ends what --from begins", next_step="give --from too, such as --from first")
    one = None if queue is None else queue_of(topic, queue)
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        found = admin.messages(
            topic, start=begin, end=before, most=count + 1, newest=start is None, queue=one, tags=tags
        )
    has_more = len(found) > count
    _print_messages(out, found[-count:] if start is None else found[:count])
    if has_more and out.is_table:
        note("there are more: see --from and --count, or steelyard consume")


def _start(text: str | None, now: datetime) -> datetime | int | None:
    if text is None or text == "first":
        return None
    if text.removeprefix("-").isdecimal() and len(text) < 20:
        return int(text)
    return moment(text, now)


def _print_messages(out: Out, messages: Iterable[StoredMessage]) -> None:
    """Print messages as a list; programs get all of each, as `steelyard consume --json` prints it."""
    columns = [
        Column("broker"),
        Column("queue_id", "queue", right=True),
        Column("offset", right=True),
        Column("stored_ms", "stored", show=_time),
        Column("message_id", "id"),
        Column("keys"),
        Column("tags"),
        Column("body", show=lambda text: text if len(text) <= _LONGEST_BODY else f"{text[:_LONGEST_BODY]}..."),
    ]
    out.rows(columns, map(values_of, messages))


def _time(stored_ms: int) -> str:
    return on_the_clock(datetime.fromtimestamp(stored_ms / 1000, UTC))
