"""`steelyard message`: find messages by id, key, time or place, trace them, and have them redelivered or sent again."""

import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from click.exceptions import Exit

from steelyard.cli.shared.commands import CommandGroup
from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.cli.shared.message_output import body_preview, message_fields, open_bodies
from steelyard.cli.shared.options import (
    ClientOptions,
    RequiredGroupOption,
    TopicArgument,
    TopicOption,
    parse_message_id,
    parse_place,
    parse_queue,
)
from steelyard.cli.shared.output import Output, TableColumn, columns, fields_of
from steelyard.cli.shared.parameters import argument, option
from steelyard.cli.shared.terminal import print_note
from steelyard.errors import ConfigurationError, NoMessage
from steelyard.model import Message, StoredMessage
from steelyard.model.formatting import format_time, pluralize, resolve_member, short_names
from steelyard.model.message import RESERVED_PROPERTIES
from steelyard.model.reserved_names import TRACE_TOPIC
from steelyard.model.time_text import parse_time

if TYPE_CHECKING:
    from steelyard.client.sync.admin import Admin

app = CommandGroup("message", "Find messages, trace them, and have them redelivered.")

_MAX_COUNT = 10_000
_MAX_INDEX_ROWS = 1_024

_MessageIdArgument = Annotated[str, argument(metavar="ID", help="The message id or the offset id.")]
_UntilOption = Annotated[str | None, option("--until", metavar="TIME", help="Only messages stored before it.")]


@app.subcommand(
    "show",
    "steelyard message show 7F0000010000AAAABBBB000000000001",
    "steelyard message show --topic orders --at broker-0:3:41",
    "steelyard message show 7F0000010000AAAABBBB000000000001 --raw > body.bin",
)
def _show_message(
    admin: "Admin",
    out: Output,
    message_id: Annotated[str | None, argument(metavar="[ID]", help="The message id or the offset id.")] = None,
    topic: TopicOption = None,
    at: Annotated[
        str | None, option(metavar="BROKER:QUEUE:OFFSET", help="With --topic: its place instead of its id.")
    ] = None,
    raw: Annotated[bool, option(help="Write only its body, byte by byte.")] = False,
) -> None:
    """Show a message, by its id or by its place."""
    if (message_id is None) == (at is None):
        raise ConfigurationError(
            "a message is shown by its id or by its place",
            next_step="give ID, or --topic TOPIC --at BROKER:QUEUE:OFFSET",
        )
    if at is not None and topic is None:
        raise ConfigurationError(f"--at {at} is a place in a topic", next_step="give --topic too")
    if message_id is not None:
        message = admin.messages.find(parse_message_id(message_id), topic)
    else:
        message = _message_at(admin, topic or "", at or "")
    if raw:
        sys.stdout.flush()
        sys.stdout.buffer.write(message.body)
        sys.stdout.buffer.flush()
    elif out.is_table:
        out.print_object(_message_texts(message))
    else:
        out.print_object({**message_fields(message), "offset_id": message.offset_id})


def _message_at(admin: "Admin", topic: str, place: str) -> StoredMessage:
    queue, offset = parse_place(topic, place)
    message = admin.messages.at(queue, offset)
    if message is None:
        raise NoMessage(
            server=queue.broker,
            what=f"{queue} has no message at offset {offset}",
            next_step=f"see what it has: steelyard message index {topic} --queue {queue.broker}:{queue.queue_id}",
        )
    return message


def _message_texts(message: StoredMessage) -> dict[str, object]:
    queue = message.queue
    return {
        "topic": message.topic,
        "place": f"{queue.broker}:{queue.queue_id}:{message.offset}",
        "id": message.message_id,
        "offset id": message.offset_id,
        "tag": message.tags,
        "keys": list(message.keys),
        "born": message.born_at,
        "born at": message.born_host,
        "stored": message.stored_at,
        "stored at": message.store_host,
        "redelivered": pluralize(message.reconsume_times, "time"),
        "properties": dict(message.properties),
        "bytes": len(message.body),
        "body": _body_text(message.body),
    }


def _body_text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body_preview(body)


@app.subcommand(
    "find", "steelyard message find orders order-1", "steelyard message find orders order-1 --since '1 day ago'"
)
def _find_messages(
    admin: "Admin",
    client: ClientOptions,
    out: Output,
    topic: TopicArgument,
    key: Annotated[str, argument(metavar="KEY", help="One of its keys.")],
    since: Annotated[str | None, option(metavar="TIME", help="Only messages stored since then.")] = None,
    until: _UntilOption = None,
    count: Annotated[int, option(min=1, max=64, help="The maximum number, the newest.")] = 64,
) -> None:
    """Find the messages of a topic that have a key, oldest first."""
    now = datetime.now(UTC)
    start = None if since is None else parse_time(since, now)
    end = None if until is None else parse_time(until, now)
    found = admin.messages.find_by_key(topic, key, start=start, end=end, most=count, opened=False)
    if not found:
        raise NoMessage(
            server=str(client.config()),
            what=f"topic {topic!r} has no message with the key {key!r}",
            next_step="keys are whole words, and case matters",
        )
    _print_messages(out, found)


@app.subcommand(
    "ls",
    "steelyard message ls orders",
    "steelyard message ls orders --from '2 hours ago' --count 100 --output csv",
    "steelyard message ls orders --queue broker-0:3 --from 41",
)
def _list_messages(
    admin: "Admin",
    out: Output,
    topic: TopicArgument,
    queue: Annotated[str | None, option(metavar="BROKER:ID", help="Only this queue.")] = None,
    start: Annotated[
        str | None,
        option(
            "--from",
            help="first, a time, '2 hours ago', an offset, or -100: the last hundred of each queue.",
            show_default="the newest",
        ),
    ] = None,
    until: _UntilOption = None,
    tags: Annotated[str | None, option(help="Only these: 'paid || refunded'.")] = None,
    count: Annotated[int, option(min=1, max=_MAX_COUNT, help="The maximum number.")] = 20,
) -> None:
    """List messages of a topic by time: the newest, or those from a place on."""
    now = datetime.now(UTC)
    begin = _parse_start(start, now)
    before = None if until is None else parse_time(until, now)
    if start is None and until is not None:
        raise ConfigurationError("--until needs --from", next_step="give --from too, such as --from first")
    found = admin.messages.list(
        topic,
        start=begin,
        end=before,
        most=count + 1,
        newest=start is None,
        queue=None if queue is None else parse_queue(topic, queue),
        tags=tags,
        opened=False,
    )
    _print_messages(out, found[-count:] if start is None else found[:count])
    if len(found) > count and out.is_table:
        print_note("there are more: see --from and --count, or steelyard consume")


def _parse_start(text: str | None, now: datetime) -> datetime | int | None:
    if text is None or text == "first":
        return None
    if text.removeprefix("-").isdecimal() and len(text) < 20:
        return int(text)
    return parse_time(text, now)


def _print_messages(out: Output, messages: Iterable[StoredMessage]) -> None:
    """Print messages as a list; programs get all fields, as `steelyard consume --json` prints them."""
    shown = columns(
        *("broker", "#queue_id:queue", "#offset", "stored_ms:stored", "message_id:id", "keys", "tags", "body"),
        stored_ms=lambda ms: format_time(datetime.fromtimestamp(ms / 1000, UTC)),
    )
    rows = ({**message_fields(each), "body": body_preview(each.body)} for each in open_bodies(messages, preview=True))
    out.print_rows(shown, rows if out.is_table else map(message_fields, open_bodies(messages)))


@app.subcommand("readers", "steelyard message readers 7F0000010000AAAABBBB000000000001 --topic orders")
def _show_readers(admin: "Admin", out: Output, message_id: _MessageIdArgument, topic: TopicOption = None) -> None:
    """Show which groups have consumed a message, and which have not yet."""
    message = admin.messages.find(parse_message_id(message_id), topic, opened=False)
    groups = admin.messages.group_progress(message)
    out.print_rows(
        columns("group", "is_past:consumed", "#committed", "#offset"),
        (fields_of(each, offset=message.offset) for each in groups),
    )
    if not groups and out.is_table:
        print_note(f"no group reads {message.topic}")


@app.subcommand("trace", "steelyard message trace 7F0000010000AAAABBBB000000000001")
def _trace_message(
    admin: "Admin",
    out: Output,
    message_id: _MessageIdArgument,
    trace_topic: Annotated[str, option(help="The topic that clients write traces to.")] = TRACE_TOPIC,
) -> None:
    """Show the traces of a message: who sent it, who received it, and the outcome.

    Clients write traces only if they are set up to: ours by message_trace=True, Java's by enableMsgTrace.
    """
    from steelyard.client.times import from_epoch_ms

    found = admin.messages.traces(parse_message_id(message_id), trace_topic)
    shown = columns("what", "at", "group", "client_host:client", "#took_ms", "went_well", "outcome", "#attempt")
    out.print_rows(shown, (fields_of(each, at=from_epoch_ms(each.at_ms or 0)) for each in found))


@app.subcommand(
    "redeliver",
    "steelyard message redeliver 7F0000010000AAAABBBB000000000001 --group billing",
    "steelyard message redeliver 7F0000010000AAAABBBB000000000001 --group billing --member till-1",
)
def _redeliver_message(
    admin: "Admin",
    out: Output,
    message_id: _MessageIdArgument,
    group: RequiredGroupOption,
    member: Annotated[
        str | None, option(help="Which member: its id, or its short name.", show_default="any that is online")
    ] = None,
    topic: TopicOption = None,
) -> None:
    """Have a member of a group handle a message now, also one that the group has consumed; no offset changes.

    The exit code is 0 if the member succeeds, and 1 if not.
    """
    message = admin.messages.find(parse_message_id(message_id), topic, opened=False)
    ids = [each.id for each in admin.groups.members(group)]
    result = admin.messages.redeliver(message, group, None if member is None else resolve_member(member, ids))
    name = short_names(ids).get(result.member, result.member)
    why = f": {result.remark}" if result.remark else ""
    out.print_result(f"{name} of {group} handled it in {result.took_ms} ms: {result.outcome}{why}", **fields_of(result))
    if not result.is_done:
        raise Exit(ExitCode.FAILED)


@app.subcommand("resend", "steelyard message resend 7F0000010000AAAABBBB000000000001 --to orders-again")
def _resend_message(
    admin: "Admin",
    client: ClientOptions,
    out: Output,
    message_id: _MessageIdArgument,
    topic: TopicOption = None,
    to: Annotated[str | None, option(help="The topic to send it to.", show_default="its own")] = None,
) -> None:
    """Send a copy of a message, to its own topic or to another: every group gets it."""
    from steelyard.client.sync.producer import Producer

    message = admin.messages.find(parse_message_id(message_id), topic)
    own = {name: text for name, text in message.properties.items() if name not in RESERVED_PROPERTIES}
    copy = Message(to or message.topic, message.body, message.tags, message.keys, own, message.flag)
    with Producer(client.config()) as producer:
        sent = producer.send(copy)
    out.print_result(
        f"sent to {sent.queue} at offset {sent.offset}, id {sent.message_id}",
        **fields_of(sent, "queue", "offset", "message_id"),
    )


@app.subcommand("id", "steelyard message id C0A8010200002A9F0000000000000400")
def _show_id(out: Output, message_id: _MessageIdArgument) -> None:
    """Show what a message id contains: the place of the message, or the producer and the time."""
    from steelyard.client.describe import describe_message_id

    out.print_object(describe_message_id(parse_message_id(message_id), datetime.now(UTC)))


@app.subcommand("index", "steelyard message index orders --queue broker-0:3 --from 41")
def _show_index(
    admin: "Admin",
    out: Output,
    topic: TopicArgument,
    queue: Annotated[str, option(metavar="BROKER:ID", help="The queue.")],
    start: Annotated[int, option("--from", min=0, help="The first offset.")] = 0,
    count: Annotated[int, option(min=1, max=_MAX_INDEX_ROWS, help="The maximum number.")] = 20,
    group: Annotated[str | None, option(help="Also whether this group's subscription matches.")] = None,
) -> None:
    """Show the consume queue of a queue: position and size of each message in the log, and the hash of its tag."""
    part = admin.messages.consume_queue(parse_queue(topic, queue), start, count, group)
    shown = columns("#offset", "#position", "#size", "#tag_hash")
    if group is not None:
        shown.append(TableColumn("matches", f"for {group}"))
    out.print_rows(shown, map(fields_of, part.rows))
    if out.is_table:
        print_note(f"{part.queue} has offsets {part.start} to {part.end}")
        if part.remark:
            print_note(part.remark)
