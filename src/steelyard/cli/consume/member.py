"""Reading topics as a member of a group: its queues are its own, and what it has printed is done."""

import sys
import threading
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from steelyard.cli.consume.printing import Printer
from steelyard.cli.frame.ending import Ending, until_told
from steelyard.cli.frame.logs import log_on_stderr
from steelyard.model.names import RETRY

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.cli.message.formats import Format
    from steelyard.client.blocking.consumer import Consumer
    from steelyard.client.connect import Connect
    from steelyard.client.consuming.news import Moved
    from steelyard.client.consuming.received import Received
    from steelyard.model import Queue

__all__ = ["Membership", "read_as_member"]

_LOOK_S = 0.5
_TOGETHER = 32
"""What one pull brings is printed together."""
_AGAIN_S = 0.02
_ENOUGH_S = 0.5
"""How long the end may take once nothing more is wanted: for what was printed last to be noted."""


@dataclass(frozen=True, slots=True)
class Membership:
    """As what to join a group."""

    topics: tuple[str, ...]
    group: str
    allocate: str
    start: str | datetime
    tags: str | None
    sql: str | None
    orderly: bool
    broadcast: bool
    workers: int
    drain_s: float
    name: str | None


def read_as_member(
    where: "Connect",
    wanted: Membership,
    *,
    write: "Format",
    tells_moves: bool,
    count: int | None,
    exit_at_end: bool,
    work_ms: int,
) -> None:
    """Join, print what comes, and leave when told to."""
    from steelyard.client.blocking.consumer import Consumer
    from steelyard.client.consuming.delivery import leave

    over = threading.Event()
    with until_told() as ending:
        printer = Printer(ending, write, count=count, work_ms=work_ms)

        # Of a batch all is done or nothing: where it may end in the middle, there is one message in it.
        batch = _TOGETHER if count is None and not work_ms else 1

        def handle(messages: "list[Received]") -> None:
            # What is not printed is not done and not failed: whoever has its queue next gets it.
            if not printer.take(messages):
                if batch > 1:
                    over.wait()
                else:
                    # So that what was printed before it counts; until the end it is offered again and again.
                    over.wait(_AGAIN_S)
                    leave(messages[0])

        consumer = Consumer(
            where,
            wanted.group,
            allocate=wanted.allocate,
            mode="broadcast" if wanted.broadcast else "clustering",
            start_from=wanted.start,
            # One at a time ends exactly: nothing is printed behind a message that is not.
            workers=wanted.workers if count is None else 1,
            drain_s=wanted.drain_s,
            name=wanted.name,
        )
        for topic in wanted.topics:
            wants = consumer.handles(topic, tags=wanted.tags, sql=wanted.sql, orderly=wanted.orderly, batch=batch)
            wants(handle if batch > 1 else _one_by_one(handle))
        if tells_moves:
            consumer.on_move(_Moves(ending).tell)
        with log_on_stderr(is_quiet=tells_moves) as quiet:
            try:
                consumer.start()
                if exit_at_end:
                    _wait_for_end(where, wanted, consumer, ending)
                else:
                    while not ending.wait(_LOOK_S):
                        printer.look_for_reader()
            finally:
                if printer.wants_more:
                    consumer.stop(wanted.drain_s)
                else:
                    # What is given up now was not printed: nobody needs to hear of it.
                    quiet()
                    consumer.stop(min(wanted.drain_s, _ENOUGH_S))
                over.set()
        if ending.error is not None:
            raise ending.error


def _one_by_one(handle: "Callable[[list[Received]], None]") -> "Callable[[Received], None]":
    return lambda message: handle([message])


class _Moves:
    """Tells what the member owns, each time that changed."""

    def __init__(self, ending: Ending) -> None:
        self._ending = ending
        self._told: list[Queue] | None = None

    def tell(self, moved: "Moved") -> None:
        queues = [queue for queue in moved.queues if not queue.topic.startswith(RETRY)]
        if queues == self._told or not (queues or self._told):
            return  # only queues of the retry topic came or went, or it owns nothing yet
        self._told = queues
        why = "it leaves the group" if self._ending else moved.why
        line = {"at_ms": moved.at_ms, "id": moved.id, "queues": queues, "why": why}
        # One write: lines of others on stderr come before or after it.
        sys.stderr.write(msgspec.json.encode(line).decode() + "\n")
        sys.stderr.flush()


def _wait_for_end(where: "Connect", wanted: Membership, consumer: "Consumer", ending: Ending) -> None:
    """Wait until the group is where the queues ended when it began, whoever of its members did it.

    A queue that is behind and that its broker does not let us read will not get there: that is the end, too.
    """
    from steelyard.client.blocking.admin import Admin

    with Admin(where) as admin:
        ends = {each.queue: each for topic in wanted.topics for each in admin.topic(topic).queues}
        ahead = {queue: each.end for queue, each in ends.items() if each.messages}
        while not ending.wait(_LOOK_S):
            done = {each.queue: each.committed for each in admin.group(wanted.group).queues}
            behind = [queue for queue, end in ahead.items() if (done.get(queue) or 0) < end]
            refused = consumer.refused
            if not behind:
                ending.now()
            for queue in behind:
                if queue in refused:
                    ending.now(refused[queue])
