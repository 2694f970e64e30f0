"""Questions that are one for each queue, thousands of them on a line at a time: times, a group's progress, samples.

Names go in and out as users write them.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TypeVar

from steelyard.client.session import Session
from steelyard.errors import GroupNotFound, NotFound, SteelyardError, TransportError, error_for
from steelyard.model import Queue
from steelyard.wire.codes import RequestCode, ResponseCode, Version
from steelyard.wire.command import Command
from steelyard.wire.headers.common import OffsetAnswer
from steelyard.wire.headers.group import CommitOffset, QueryOffset, SearchOffset
from steelyard.wire.headers.pull import Pull
from steelyard.wire.record import Record, read_records

__all__ = ["About", "Answers", "ask_committed", "ask_each", "ask_times", "offset_in", "sample", "tell_committed"]

Answers = dict[Queue, Command | SteelyardError]
About = Callable[[Queue, str], Command]
"""Makes the question about a queue; the second argument is its topic as servers know it."""

T = TypeVar("T")

_ASK_MS = 3_000
_COMMIT_MS = 1_000
"""How long a batch may be held up by a broker that does not take a group's progress."""
_AT_ONCE = 1_000
"""Questions under way: enough for a line never to be idle, and few enough for the last to be answered in time."""
_SUBSCRIPTION_INSIDE = 4
_LOOKED_AT = 32
"""As many messages as Apache's brokers give by default."""
_LONGEST_WALK = 64
"""How often a few messages are looked at; beyond that a read begins a little early, and never late."""


async def ask_each(session: Session, queues: Iterable[Queue], about: About, *, timeout_ms: int = _ASK_MS) -> Answers:
    """Ask the brokers of queues the same about each, and return all answers that are no refusals as they came."""
    answers: Answers = {}
    for some in _by(_AT_ONCE, queues):
        asked = [_ask(session, queue, about, timeout_ms) for queue in some]
        for queue, answer in zip(some, await asyncio.gather(*asked, return_exceptions=True), strict=True):
            if isinstance(answer, Command):
                is_good = answer.code in (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND)
                answers[queue] = answer if is_good else error_for(answer.code, answer.remark or "", server=queue.broker)
            elif isinstance(answer, SteelyardError):
                answers[queue] = answer
            else:
                raise answer
    return answers


def _ask(session: Session, queue: Queue, about: About, timeout_ms: int) -> "asyncio.Future[Command]":
    try:
        return session.broker(queue.broker).ask(about(queue, session.names.full(queue.topic)), timeout_ms)
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


async def ask_times(session: Session, group: str, times_ms: Mapping[Queue, int]) -> dict[Queue, int]:
    """Return the first message of each queue that was stored at a time or later; its end if there is none."""
    # A 4.9 broker gives the message that is nearest to a time, or any of its millisecond, or the last one of all. So it
    # is asked for the millisecond before, which is not too late, and messages are looked at from there on.
    unsure = {queue for queue in times_ms if not _finds_times(session, queue.broker)}

    def search(queue: Queue, topic: str) -> Command:
        time_ms = max(0, times_ms[queue] - (queue in unsure))
        return Command(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, SearchOffset(topic, queue.queue_id, time_ms))

    found = {queue: offset_in(answer) for queue, answer in (await ask_each(session, times_ms, search)).items()}
    for _ in range(_LONGEST_WALK):
        if not unsure:
            break
        looked = await _look(session, group, {queue: found[queue] for queue in unsure}, must_answer=True)
        for queue, records in looked.items():
            early = [record for record in records if record.stored_ms < times_ms[queue]]
            if early:
                found[queue] = early[-1].offset + 1
            if len(early) < len(records) or not records:
                unsure.discard(queue)
    return found


def _finds_times(session: Session, broker: str) -> bool:
    """Say whether a broker gives the first message of a time."""
    return session.broker(broker).version >= Version.V5_0_0


async def ask_committed(session: Session, group: str, queues: Iterable[Queue]) -> dict[Queue, int]:
    """Return how far a group is; queues where it never committed anything are left out."""
    full_group = session.names.full(group)

    def query(queue: Queue, topic: str) -> Command:
        header = QueryOffset(full_group, topic, queue.queue_id, set_zero_if_not_found=False)
        return Command(RequestCode.QUERY_CONSUMER_OFFSET, header)

    answers = await ask_each(session, queues, query)
    return {queue: offset_in(answer) for queue, answer in answers.items() if not isinstance(answer, NotFound)}


async def tell_committed(session: Session, group: str, offsets: Mapping[Queue, int]) -> dict[str, SteelyardError]:
    """Store how far a group is; return the brokers that did not take it, and why."""
    full_group = session.names.full(group)

    def commit(queue: Queue, topic: str) -> Command:
        header = CommitOffset(full_group, topic, queue.queue_id, offsets[queue])
        return Command(RequestCode.UPDATE_CONSUMER_OFFSET, header)

    answers = await ask_each(session, offsets, commit, timeout_ms=_COMMIT_MS)
    unknown = [queue for queue, answer in answers.items() if isinstance(answer, GroupNotFound)]
    if unknown:
        # A broker knows a group from its first pull on, and where nothing was to be read there was none.
        one_each = {queue.broker: queue for queue in unknown}
        await _look(session, group, {queue: offsets[queue] for queue in one_each.values()})
        answers |= await ask_each(session, unknown, commit, timeout_ms=_COMMIT_MS)
    return {queue.broker: answer for queue, answer in answers.items() if isinstance(answer, SteelyardError)}


async def sample(session: Session, group: str, places: Mapping[Queue, int]) -> tuple[int, int]:
    """Look at a few messages of each queue from a place on; return how many there were, and their bytes as stored."""
    records = [each for some in (await _look(session, group, places)).values() for each in some]
    return len(records), sum(record.size for record in records)


async def _look(
    session: Session, group: str, places: Mapping[Queue, int], *, must_answer: bool = False
) -> dict[Queue, list[Record]]:
    """Pull a few messages of queues; who has none, or does not answer unless it must, has an empty list."""
    full_group = session.names.full(group)

    def pull(queue: Queue, topic: str) -> Command:
        header = Pull(
            consumer_group=full_group,
            topic=topic,
            queue_id=queue.queue_id,
            queue_offset=places[queue],
            max_msg_nums=_LOOKED_AT,
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
        if must_answer and isinstance(answer, TransportError):
            raise answer
        try:
            looked[queue] = [] if isinstance(answer, SteelyardError) else list(read_records(answer.body))
        except SteelyardError:
            looked[queue] = []  # who reads it will meet it, and say what is wrong
    return looked
