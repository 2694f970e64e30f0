"""Reading topics without being in a group: every queue, from wherever it is asked, and no trace is left."""

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from steelyard.cli.consume.printing import Printer
from steelyard.cli.frame.ending import Ending, until_told
from steelyard.cli.frame.logs import log_on_stderr

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.cli.message.formats import Format
    from steelyard.client.connect import Connect
    from steelyard.client.pulling.puller import Puller
    from steelyard.model import Queue

__all__ = ["read_alone"]

_POLL_S = 0.5
_MOST = 1_000
_PULLED = 256
"""A topic is read quicker so; brokers of Apache's give fewer at a time, whatever is asked for."""


def read_alone(
    where: "Connect",
    topics: "Sequence[str]",
    start: str | int | datetime,
    *,
    tags: str | None,
    sql: str | None,
    write: "Format",
    count: int | None,
    exit_at_end: bool,
    work_ms: int,
) -> None:
    """Print all messages of topics from a place on, until told to end."""
    with log_on_stderr(), until_told() as ending:
        printer = Printer(ending, write, count=count, work_ms=work_ms)
        # One thread: reading and printing by turns is quicker than two threads that hand over to each other.
        asyncio.run(_read(where, topics, start, _Filter(tags, sql), printer, ending, exit_at_end=exit_at_end))
        if ending.error is not None:
            raise ending.error


class _Filter(NamedTuple):
    """Which messages are wanted."""

    tags: str | None
    sql: str | None


async def _read(
    where: "Connect",
    topics: "Sequence[str]",
    start: str | int | datetime,
    wanted: _Filter,
    printer: Printer,
    ending: Ending,
    *,
    exit_at_end: bool,
) -> None:
    from steelyard.client.admin.asking import TOOLS_GROUP
    from steelyard.client.pulling.puller import Puller

    # The group of tools is there on every broker; without commits nothing of us is kept.
    # What cannot be read is told of and passed over: a tool sends nobody letters.
    async with Puller(where, TOOLS_GROUP, auto_commit=False, pull_batch=_PULLED, on_unreadable="skip") as puller:
        queues = [queue for topic in topics for queue in await puller.queues(topic)]
        puller.assign(queues, tags=wanted.tags, sql=wanted.sql)
        ends = await puller.ends(queues) if exit_at_end else {}
        for queue, place in (await _places(puller, queues, start)).items():
            await puller.seek(queue, place)
        unread = set(ends)
        while not ending:
            unread = {queue for queue in unread if await puller.position(queue) < ends[queue]}
            if exit_at_end and not unread:
                break
            found = await puller.poll(timeout_s=_POLL_S, most=printer.at_once(_MOST))
            if exit_at_end:
                # Its own queue has the namespace in its name.
                found = [each for each in found if each.offset < ends[each.queue._replace(topic=each.topic)]]
            if found:
                printer.take(found)
            else:
                printer.look_for_reader()
            puller.forget()


async def _places(
    puller: "Puller", queues: "Sequence[Queue]", start: str | int | datetime
) -> "Mapping[Queue, str | int | datetime]":
    """Return where to begin in each queue; a number counts back from the end."""
    if not isinstance(start, int):
        return dict.fromkeys(queues, start)
    begins, ends = await puller.begins(queues), await puller.ends(queues)
    return {queue: max(begins[queue], ends[queue] + start) for queue in queues}
