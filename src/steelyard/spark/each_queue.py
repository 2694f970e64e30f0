"""Questions that are one for each queue, thousands of them on a line at a time: times, a group's progress, samples.

Names go in and out as users write them.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TypeVar

from steelyard.client.session import Session
from steelyard.errors import NotFound, SteelyardError, error_for
from steelyard.model import Queue
from steelyard.wire.codes import RequestCode, ResponseCode, Version
from steelyard.wire.command import Command
from steelyard.wire.headers.common import OffsetAnswer
from steelyard.wire.headers.group import CommitOffset, QueryOffset, SearchOffset
from steelyard.wire.headers.pull import Pull
from steelyard.wire.record import Record, read_records

__all__ = ["Answers", "ask_committed", "ask_each", "ask_times", "offset_in", "sample", "tell_committed"]

Answers = dict[Queue, Command | SteelyardError]

T = TypeVar("T")

ASK_MS = 3_000
_COMMIT_MS = 1_000
"""How long a batch may be held up by a broker that does not take a group's progress."""
_AT_ONCE = 1_000
"""Questions under way: enough for a line never to be idle, and few enough for the last to be answered in time."""
_SUBSCRIPTION_INSIDE = 4
_SAMPLED = 32
"""As many as Apache's brokers give by default."""


async def ask_each(
    session: Session, queues: Iterable[Queue], command: Callable[[Queue], Command], *, timeout_ms: int = ASK_MS
) -> Answers:
    """Ask the brokers of queues the same about each; the command is made of a queue's full name."""
    answers: Answers = {}
    for some in _by(_AT_ONCE, queues):
        asked = [_ask(session, session.names.full_queue(queue), command, timeout_ms) for queue in some]
        for queue, answer in zip(some, await asyncio.gather(*asked, return_exceptions=True), strict=True):
            if isinstance(answer, Command):
                if answer.code in (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND):
                    answers[queue] = answer
                else:
                    answers[queue] = error_for(answer.code, answer.remark or "", server=queue.broker)
            elif isinstance(answer, SteelyardError):
                answers[queue] = answer
            else:
                raise answer
    return answers


def _ask(
    session: Session, full: Queue, command: Callable[[Queue], Command], timeout_ms: int
) -> "asyncio.Future[Command]":
    try:
        return session.broker(full.broker).ask(command(full), timeout_ms)
    except SteelyardError as error:
        failed: asyncio.Future[Command] = session.loop.create_future()
        failed.set_exception(error)
        return failed


def _by(size: int, things: Iterable[T]) -> Iterator[list[T]]:
    left = iter(things)
    while some := list(islice(left, size)):
        yield some


def offset_in(answer: Command | SteelyardError) -> int:
    """Return the offset that an answer holds; an error is raised."""
    if isinstance(answer, SteelyardError):
        raise answer
    return answer.header(OffsetAnswer).offset


async def ask_times(session: Session, times_ms: Mapping[Queue, int]) -> dict[Queue, int]:
    """Return the first message of each queue that was stored at a time or later; its end if there is none."""

    def search(full: Queue) -> Command:
        header = SearchOffset(full.topic, full.queue_id, times_ms[session.names.bare_queue(full)])
        return Command(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)

    found = {queue: offset_in(answer) for queue, answer in (await ask_each(session, times_ms, search)).items()}
    # A 4.9 broker gives the message that is nearest to the time, or the last one: it may be older.
    unsure = {queue: at for queue, at in found.items() if session.broker(queue.broker).version < Version.V5_0_0}
    for queue, records in (await _look(session, unsure, group="", most=1)).items():
        if records and records[0].stored_ms < times_ms[queue]:
            found[queue] = records[0].offset + 1
    return found


async def ask_committed(session: Session, group: str, queues: Iterable[Queue]) -> dict[Queue, int]:
    """Return how far a group is; queues where it never committed anything are left out."""
    full_group = session.names.full(group)

    def query(full: Queue) -> Command:
        header = QueryOffset(full_group, full.topic, full.queue_id, set_zero_if_not_found=False)
        return Command(RequestCode.QUERY_CONSUMER_OFFSET, header)

    answers = await ask_each(session, queues, query)
    return {queue: offset_in(answer) for queue, answer in answers.items() if not isinstance(answer, NotFound)}


async def tell_committed(session: Session, group: str, offsets: Mapping[Queue, int]) -> dict[str, SteelyardError]:
    """Store how far a group is; return the brokers that did not take it, and why."""
    full_group = session.names.full(group)

    def commit(full: Queue) -> Command:
        header = CommitOffset(full_group, full.topic, full.queue_id, offsets[session.names.bare_queue(full)])
        return Command(RequestCode.UPDATE_CONSUMER_OFFSET, header)

    answers = await ask_each(session, offsets, commit, timeout_ms=_COMMIT_MS)
    return {queue.broker: answer for queue, answer in answers.items() if isinstance(answer, SteelyardError)}


async def sample(session: Session, group: str, places: Mapping[Queue, int]) -> tuple[int, int]:
    """Look at a few messages of each queue from a place on; return how many there were, and their bytes as stored."""
    records = [each for some in (await _look(session, places, group=group, most=_SAMPLED)).values() for each in some]
    return len(records), sum(record.size for record in records)


async def _look(session: Session, places: Mapping[Queue, int], *, group: str, most: int) -> dict[Queue, list[Record]]:
    """Pull a few messages of queues; who has none, or does not answer, has an empty list."""
    full_group = session.names.full(group or "steelyard-spark")

    def pull(full: Queue) -> Command:
        header = Pull(
            consumer_group=full_group,
            topic=full.topic,
            queue_id=full.queue_id,
            queue_offset=places[session.names.bare_queue(full)],
            max_msg_nums=most,
            sys_flag=_SUBSCRIPTION_INSIDE,
            commit_offset=0,
            suspend_timeout_millis=0,
            sub_version=0,
            subscription="*",
            expression_type="TAG",
        )
        return Command(RequestCode.PULL_MESSAGE, header)

    looked: dict[Queue, list[Record]] = {}
    for queue, answer in (await ask_each(session, places, pull)).items():
        try:
            looked[queue] = [] if isinstance(answer, SteelyardError) else list(read_records(answer.body))
        except SteelyardError:
            looked[queue] = []  # who reads it will meet it, and say what is wrong
    return looked
