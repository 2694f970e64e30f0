"""What became of a message, and what to do about it."""

from typing import Annotated

import typer

from steelyard.cli.frame.arguments import InTopic, OfGroup, TopicName
from steelyard.cli.frame.confirming import DryRun, Yes, confirm
from steelyard.cli.frame.exits import Exit
from steelyard.cli.frame.output import Column, Out
from steelyard.cli.frame.screen import note
from steelyard.cli.frame.where import Where, at_cluster
from steelyard.cli.message.looking import MessageId
from steelyard.cli.message.places import checked_id, queue_of
from steelyard.model.names import TRACE_TOPIC

__all__ = ["export_pop_records", "redeliver_message", "resend_message", "show_index", "show_readers", "trace_message"]

_MOST_ENTRIES = 1_024


@at_cluster
def trace_message(
    where: Where,
    out: Out,
    message_id: MessageId,
    trace_topic: Annotated[str, typer.Option(help="Where clients write what they did.")] = TRACE_TOPIC,
) -> None:
    """Tell what clients wrote down about a message: who sent it, who got it, what came of it.

    Clients do so only if they are told to: ours by message_trace=True, Java's by enableMsgTrace.
    """
    from dataclasses import asdict

    from steelyard.client.admin.times import moment
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        found = admin.traces(checked_id(message_id), trace_topic)
    columns = [
        Column("what"),
        Column("at"),
        Column("group"),
        Column("client_host", "client"),
        Column("took_ms", right=True),
        Column("went_well"),
        Column("outcome"),
        Column("attempt", right=True),
    ]
    out.rows(columns, ({**asdict(each), "at": moment(each.at_ms or 0)} for each in found))


@at_cluster
def show_readers(where: Where, out: Out, message_id: MessageId, topic: InTopic = None) -> None:
    """Tell which groups are past a message, and which are not there yet."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        message = admin.message(checked_id(message_id), topic)
        readers = admin.readers(message)
    columns = [
        Column("group"),
        Column("is_past", "past it"),
        Column("committed", right=True),
        Column("offset", right=True),
    ]
    out.rows(
        columns,
        (
            {"group": each.group, "is_past": each.is_past, "committed": each.committed, "offset": message.offset}
            for each in readers
        ),
    )
    if not readers and out.is_table:
        note(f"no group reads {message.topic}")


@at_cluster
def redeliver_message(
    where: Where,
    out: Out,
    message_id: MessageId,
    group: OfGroup,
    member: Annotated[
        str | None,
        typer.Option(help="Which member of it: its id, or its short name.", show_default="any that is online"),
    ] = None,
    topic: InTopic = None,
) -> None:
    """Have a member of a group handle a message now, wherever its group is; no offset moves.

    The exit code is 0 if the member says that it is done with it, and 1 if not.
    """
    from dataclasses import asdict

    from steelyard.cli.frame.short_names import find_member, short_names
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        message = admin.message(checked_id(message_id), topic)
        ids = [each.id for each in admin.members(group)]
        result = admin.redeliver(message, group, None if member is None else find_member(member, ids))
    name = short_names(ids).get(result.member, result.member)
    why = f": {result.remark}" if result.remark else ""
    out.done(f"{name} of {group} had it for {result.took_ms} ms: {result.outcome}{why}", **asdict(result))
    if not result.is_done:
        raise typer.Exit(Exit.FAILED)


@at_cluster
def resend_message(
    where: Where,
    out: Out,
    message_id: MessageId,
    topic: InTopic = None,
    to: Annotated[str | None, typer.Option(help="The topic to send it to.", show_default="its own")] = None,
) -> None:
    """Send a copy of a message, to its own topic or to another: every group gets it."""
    from steelyard.client.blocking.admin import Admin
    from steelyard.client.blocking.producer import Producer
    from steelyard.model import Message
    from steelyard.model.message import RESERVED_PROPERTIES

    with Admin(where.connect()) as admin:
        message = admin.message(checked_id(message_id), topic)
    own = {name: text for name, text in message.properties.items() if name not in RESERVED_PROPERTIES}
    copy = Message(to or message.topic, message.body, message.tags, message.keys, own, message.flag)
    with Producer(where.connect()) as producer:
        sent = producer.send(copy)
    out.done(
        f"sent to {sent.queue} at offset {sent.offset}, id {sent.message_id}",
        topic=sent.queue.topic,
        broker=sent.queue.broker,
        queue_id=sent.queue.queue_id,
        offset=sent.offset,
        message_id=sent.message_id,
    )


@at_cluster
def show_index(
    where: Where,
    out: Out,
    topic: TopicName,
    queue: Annotated[str, typer.Option(metavar="BROKER:ID", help="The queue.", show_default=False)],
    start: Annotated[int, typer.Option("--from", min=0, help="The first offset.")] = 0,
    count: Annotated[int, typer.Option(min=1, max=_MOST_ENTRIES, help="No more than so many.")] = 20,
    group: Annotated[str | None, typer.Option(help="Whether this group would get them.", show_default=False)] = None,
) -> None:
    """Show a queue's index: where each message lies in its broker's log, its size and the hash of its tag."""
    from dataclasses import asdict

    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        part = admin.queue_index(queue_of(topic, queue), start, count, group)
    columns = [
        Column("offset", right=True),
        Column("position", right=True),
        Column("size", right=True),
        Column("tag_hash", right=True),
        *([Column("matches", f"for {group}")] if group is not None else []),
    ]
    out.rows(columns, map(asdict, part.rows))
    if out.is_table:
        note(f"{part.queue} has offsets {part.start} to {part.end}")
        if part.remark:
            note(part.remark)


@at_cluster
def export_pop_records(
    where: Where,
    out: Out,
    broker: Annotated[
        list[str] | None, typer.Option(help="Only this broker; several by repeating it.", show_default="all")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Have brokers of 5.x write what POP consumers have in hand from their database into their files.

    That is what an older release reads: do it before going back to one.
    """
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        names = broker or [each.name for each in admin.cluster()]
        if dry_run:
            out.done(f"{', '.join(names)} would write their records of POP consumers to files", brokers=[])
            return
        confirm(f"{', '.join(names)} would write their records of POP consumers to files", yes)
        done = admin.export_pop_records(names)
    out.done(f"{', '.join(done)} wrote their records of POP consumers to files", brokers=done)
