"""Reading topics for `steelyard consume`: without a group from any place, or as a member of a group.

Without a group no trace is left. As a member, a message that was printed is consumed.
"""

import asyncio
import sys
import threading
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from steelyard.cli.shared.message_output import MessagePrinter
from steelyard.cli.shared.terminal import StopSignal, stderr_warnings, stop_on_signals
from steelyard.client.admin.admin_session import TOOLS_GROUP
from steelyard.client.consumer.received_message import ReceivedMessage, leave_unhandled
from steelyard.client.pull_consumer.pull_consumer import PullConsumer
from steelyard.client.sync.admin import Admin
from steelyard.client.sync.consumer import Consumer
from steelyard.model.reserved_names import RETRY_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.cli.shared.message_output import MessageFormat
    from steelyard.client.config import ClientConfig
    from steelyard.client.consumer.notifications import Rebalanced
    from steelyard.model import Queue

_POLL_S = 0.5
_POLL_MAX = 1_000
_PULL_BATCH = 256
"""Larger batches read a topic faster; Apache's brokers cap them."""


def read_without_group(
    config: "ClientConfig",
    topics: "Sequence[str]",
    start: str | int | datetime,
    *,
    tags: str | None,
    sql: str | None,
    format_message: "MessageFormat",
    count: int | None,
    exit_at_end: bool,
    work_ms: int,
) -> None:
    """Print all messages of topics from a place on, until stopped."""
    with stderr_warnings(), stop_on_signals() as stop:
        printer = MessagePrinter(stop, format_message, count=count, work_ms=work_ms)
        # One thread: reading and printing in turn is faster than handing over between two threads.
        asyncio.run(_read_queues(config, topics, start, (tags, sql), printer, stop, exit_at_end))
        if stop.error is not None:
            raise stop.error


def tools_consumer(config: "ClientConfig") -> PullConsumer:
    """Return a consumer that leaves no trace: every broker has the group of tools, and nothing is committed."""
    # A message that cannot be decompressed is logged and skipped: a tool must not create dead letters.
    return PullConsumer(config, TOOLS_GROUP, auto_commit=False, pull_batch=_PULL_BATCH, on_unreadable="skip")


async def _read_queues(
    config: "ClientConfig",
    topics: "Sequence[str]",
    start: str | int | datetime,
    tags_or_sql: tuple[str | None, str | None],
    printer: MessagePrinter,
    stop: StopSignal,
    exit_at_end: bool,
) -> None:
    async with tools_consumer(config) as puller:
        queues = [queue for topic in topics for queue in await puller.queues(topic)]
        tags, sql = tags_or_sql
        puller.assign(queues, tags=tags, sql=sql)
        ends = await puller.ends(queues) if exit_at_end else {}
        for queue, place in (await _start_offsets(puller, queues, start)).items():
            await puller.seek(queue, place)
        unread = set(ends)
        while not stop:
            unread = {queue for queue in unread if await puller.position(queue) < ends[queue]}
            if exit_at_end and not unread:
                break
            found = await puller.poll(timeout_s=_POLL_S, most=printer.batch_limit(_POLL_MAX))
            if exit_at_end:
                # A message's queue has the namespace in its topic.
                found = [each for each in found if each.offset < ends[each.queue._replace(topic=each.topic)]]
            if found:
                printer.print(found)
            else:
                printer.stop_if_reader_gone()
            puller.forget()


async def _start_offsets(
    puller: "PullConsumer", queues: "Sequence[Queue]", start: str | int | datetime
) -> "Mapping[Queue, str | int | datetime]":
    """Return the start offset of each queue; a number counts back from its end."""
    if not isinstance(start, int):
        return dict.fromkeys(queues, start)
    begins, ends = await puller.begins(queues), await puller.ends(queues)
    return {queue: max(begins[queue], ends[queue] + start) for queue in queues}


_POLL_EVERY_S = 0.5
_HANDLER_BATCH = 32
"""The messages of one pull are printed together."""
_REOFFER_S = 0.02
_FINAL_COMMIT_S = 0.5
"""How long stopping may take once nothing more is wanted: to commit what was printed last."""


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    """The options of a member."""

    topics: tuple[str, ...]
    group: str
    strategy: str
    start: str | datetime
    tags: str | None
    sql: str | None
    orderly: bool
    broadcast: bool
    workers: int
    drain_s: float
    name: str | None


def read_as_member(
    config: "ClientConfig",
    options: ConsumeOptions,
    *,
    format_message: "MessageFormat",
    write_events: bool,
    count: int | None,
    exit_at_end: bool,
    work_ms: int,
) -> None:
    """Join a group, print messages, and leave when stopped."""
    stopped = threading.Event()
    with stop_on_signals() as stop:
        printer = MessagePrinter(stop, format_message, count=count, work_ms=work_ms)

        # A batch succeeds or fails as a whole: where it may end in the middle, it has one message.
        batch = _HANDLER_BATCH if count is None and not work_ms else 1

        def handle(messages: "list[ReceivedMessage]") -> None:
            # A message that is not printed neither succeeds nor fails: the next owner of its queue gets it.
            if not printer.print(messages):
                if batch > 1:
                    stopped.wait()
                else:
                    # Leaving it unhandled lets the messages before it be committed; until the end it is redelivered.
                    stopped.wait(_REOFFER_S)
                    leave_unhandled(messages[0])

        consumer = Consumer(
            config,
            options.group,
            strategy=options.strategy,
            mode="broadcast" if options.broadcast else "clustering",
            start_from=options.start,
            # One worker stops exactly: nothing is printed after a message that is not.
            workers=options.workers if count is None else 1,
            drain_s=options.drain_s,
            name=options.name,
        )
        for topic in options.topics:
            subscribe = consumer.handles(
                topic, tags=options.tags, sql=options.sql, orderly=options.orderly, batch=batch
            )
            subscribe(handle if batch > 1 else lambda message: handle([message]))
        if write_events:
            consumer.on_rebalance(_OwnershipEvents(stop).write)
        with stderr_warnings(quiet=write_events) as quiet:
            try:
                consumer.start()
                if exit_at_end:
                    _wait_for_end_offsets(config, options, consumer, stop)
                else:
                    while not stop.wait(_POLL_EVERY_S):
                        printer.stop_if_reader_gone()
            finally:
                if printer.wants_more:
                    consumer.stop(options.drain_s)
                else:
                    # Messages abandoned now were not printed: no warning is needed.
                    quiet()
                    consumer.stop(min(options.drain_s, _FINAL_COMMIT_S))
                stopped.set()
        if stop.error is not None:
            raise stop.error


class _OwnershipEvents:
    """Writes the queues that the member owns to stderr, each time they change."""

    def __init__(self, stop: StopSignal) -> None:
        self._stop = stop
        self._last_queues: list[Queue] | None = None

    def write(self, event: "Rebalanced") -> None:
        queues = [queue for queue in event.queues if not queue.topic.startswith(RETRY_PREFIX)]
        if queues == self._last_queues or not (queues or self._last_queues):
            return  # only queues of the retry topic changed, or it owns nothing yet
        self._last_queues = queues
        why = "it leaves the group" if self._stop else event.why
        line = {"at_ms": event.at_ms, "id": event.id, "queues": queues, "why": why}
        # One write, so that other lines on stderr do not split it.
        sys.stderr.write(msgspec.json.encode(line).decode() + "\n")
        sys.stderr.flush()


def _wait_for_end_offsets(
    config: "ClientConfig", options: ConsumeOptions, consumer: "Consumer", stop: StopSignal
) -> None:
    """Wait until the group has consumed up to the ends that the queues had at the start.

    A queue that a broker refuses to let us read never gets there: its error ends the wait.
    """
    with Admin(config) as admin:
        ends = {each.queue: each for topic in options.topics for each in admin.topics.describe(topic).queues}
        ahead = {queue: each.end for queue, each in ends.items() if each.messages}
        while not stop.wait(_POLL_EVERY_S):
            done = {each.queue: each.committed for each in admin.groups.describe(options.group).queues}
            behind = [queue for queue, end in ahead.items() if (done.get(queue) or 0) < end]
            refused = consumer.refused
            if not behind:
                stop.set()
            for queue in behind:
                if queue in refused:
                    stop.set(refused[queue])
