"""Reading topics without being in a group: every queue, from wherever it is asked, and no trace is left."""

from datetime import datetime
from typing import TYPE_CHECKING

from steelyard.cli.consume.printing import Printer
from steelyard.cli.frame.ending import until_told
from steelyard.cli.frame.logs import log_on_stderr

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.client.blocking.puller import Puller
    from steelyard.client.connect import Connect
    from steelyard.model import Queue

__all__ = ["read_alone"]

_POLL_S = 0.5
_MOST = 1_000


def read_alone(
    where: "Connect",
    topics: "Sequence[str]",
    start: str | int | datetime,
    *,
    tags: str | None,
    sql: str | None,
    as_json: bool,
    count: int | None,
    exit_at_end: bool,
    work_ms: int,
) -> None:
    """Print all messages of topics from a place on, until told to end."""
    from steelyard.client.admin.asking import TOOLS_GROUP
    from steelyard.client.blocking.puller import Puller

    # The group of tools is there on every broker; without commits nothing of us is kept.
    with log_on_stderr(), until_told() as ending, Puller(where, TOOLS_GROUP, auto_commit=False) as puller:
        printer = Printer(ending, as_json=as_json, count=count, work_ms=work_ms)
        queues = [queue for topic in topics for queue in puller.queues(topic)]
        puller.assign(queues, tags=tags, sql=sql)
        ends = puller.ends(queues) if exit_at_end else {}
        for queue, place in _places(puller, queues, start).items():
            puller.seek(queue, place)
        unread = set(ends)
        while not ending:
            unread = {queue for queue in unread if puller.position(queue) < ends[queue]}
            if exit_at_end and not unread:
                break
            for message in puller.poll(timeout_s=_POLL_S, most=min(_MOST, printer.left or _MOST)):
                # Its own queue has the namespace in its name.
                is_news = exit_at_end and message.offset >= ends[message.queue._replace(topic=message.topic)]
                if not is_news and not printer.take(message):
                    break
        if ending.error is not None:
            raise ending.error


def _places(
    puller: "Puller", queues: "Sequence[Queue]", start: str | int | datetime
) -> "Mapping[Queue, str | int | datetime]":
    """Return where to begin in each queue; a number counts back from the end."""
    if not isinstance(start, int):
        return dict.fromkeys(queues, start)
    begins, ends = puller.begins(queues), puller.ends(queues)
    return {queue: max(begins[queue], ends[queue] + start) for queue in queues}
