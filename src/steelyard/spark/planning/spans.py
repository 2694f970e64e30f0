"""Where queues begin and end: one question to each broker of a topic (202), however many queues it has.

Where a broker does not answer that one, being an administrator's, each queue is asked about by itself; so it is with
queues that a 4.9 broker leaves out because they are only read. Whether it matters that a broker is silent, or that it
has no such topic, is for who asks.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from steelyard.client.session import Session
from steelyard.errors import ServerError, SteelyardError, TopicNotFound
from steelyard.model import Queue
from steelyard.spark.planning.each_queue import ask_each, offset_in
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.stats import TopicStats
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.headers.common import QueueRequest, TopicName
from steelyard.wire.headers.group import GetMaxOffset

__all__ = ["Span", "Spans", "ask_spans"]

Span = tuple[int, int]
"""A queue's first offset, and the one that its next message will have."""


@dataclass(frozen=True, slots=True)
class Spans:
    """What brokers said about queues."""

    found: dict[Queue, Span] = field(default_factory=dict)
    gone: set[Queue] = field(default_factory=set)
    """Queues of topics that their broker does not have."""
    silent: dict[str, SteelyardError] = field(default_factory=dict)
    """Brokers that did not answer, and why."""
    replicas: set[str] = field(default_factory=set)
    """Brokers that are without their master: what a replica says may be late."""


async def ask_spans(session: Session, queues: Iterable[Queue]) -> Spans:
    """Ask the brokers of queues, whose routes are known."""
    parts: dict[tuple[str, str], list[Queue]] = {}
    for queue in queues:
        parts.setdefault((queue.topic, queue.broker), []).append(queue)
    spans = Spans()
    await asyncio.gather(*(_ask_one(session, topic, broker, some, spans) for (topic, broker), some in parts.items()))
    return spans


async def _ask_one(session: Session, topic: str, broker: str, queues: list[Queue], spans: Spans) -> None:
    """Ask one broker about the queues that it has of one topic."""
    told: dict[int, Span] = {}
    try:
        is_replica = session.place(broker).master is None
        command = Command(RequestCode.GET_TOPIC_STATS_INFO, TopicName(session.names.full(topic)))
        answer = await session.ask_well(broker, command)
        for queue, ends in decode_body(TopicStats, answer.body).queues.items():
            told[queue.queue_id] = ends.min_offset, ends.max_offset
    except TopicNotFound:
        spans.gone.update(queues)
        return
    except ServerError:
        told = {}
    except SteelyardError as error:
        spans.silent[broker] = error
        return
    # It may have become one, or have been one, while it was asked.
    if is_replica or session.place(broker).master is None:
        spans.replicas.add(broker)
    untold = [queue for queue in queues if queue.queue_id not in told]
    spans.found.update((queue, _sound(*told[queue.queue_id])) for queue in queues if queue.queue_id in told)
    if untold:
        await _ask_by_itself(session, untold, spans)


async def _ask_by_itself(session: Session, queues: list[Queue], spans: Spans) -> None:
    def first(queue: Queue, topic: str) -> Command:
        return Command(RequestCode.GET_MIN_OFFSET, QueueRequest(topic, queue.queue_id))

    def last(queue: Queue, topic: str) -> Command:
        return Command(RequestCode.GET_MAX_OFFSET, GetMaxOffset(topic, queue.queue_id))

    begins, ends = await asyncio.gather(ask_each(session, queues, first), ask_each(session, queues, last))
    for queue in queues:
        try:
            spans.found[queue] = _sound(offset_in(begins[queue]), offset_in(ends[queue]))
        except SteelyardError as error:
            spans.silent[queue.broker] = error


def _sound(begin: int, end: int) -> Span:
    """Return a span that is one: a queue that never had a message says -1 here and there."""
    begin, end = max(0, begin), max(0, end)
    return min(begin, end), end
