"""A look into running brokers that no line and no fault of a line can disturb: what they have, frozen for the looker.

All functions are called on the servers' loop. A broker that does not run has nothing to show, and is left out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from steelyard.broker.schedule import LEVELS
from steelyard.broker.storing import real_place
from steelyard.model import Queue, StoredMessage
from steelyard.model.names import TIMER_TOPIC
from steelyard.serve.broker import RunningBroker
from steelyard.store.marks import DELAY_LEVELS_MS, SCHEDULE_TOPIC
from steelyard.wire.stored import messages as read_messages

__all__ = ["Progress", "Waiting", "members", "messages", "producers", "progress", "topics", "waiting"]

_AT_ONCE = 256
_AT_ONCE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a group is in a queue."""

    queue: Queue
    start: int
    end: int
    committed: int | None
    """None: it committed nothing."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message that waits for its time."""

    message: StoredMessage
    topic: str
    """Where it goes then."""
    due_ms: int
    """When, by the cluster's clock."""


def topics(brokers: Iterable[RunningBroker]) -> list[str]:
    """List the topics, the servers' own too."""
    return sorted({topic.name for each in brokers for topic in each.broker.state.topics})


def messages(brokers: Iterable[RunningBroker], topic: str) -> list[StoredMessage]:
    """Return all messages of a topic, in the order in which they were stored; of one millisecond, broker by broker."""
    found = [
        message
        for each in brokers
        for queue_id in _queue_ids(each, topic)
        for message in _messages_in(each, topic, queue_id, 0)
    ]
    return sorted(found, key=lambda message: (message.stored_ms, message.queue.broker, message.position))


def progress(brokers: Iterable[RunningBroker], topic: str, group: str) -> list[Progress]:
    """Return how far a group is in each queue of a topic."""
    found = []
    for each in brokers:
        state = each.broker.state
        for queue_id in _queue_ids(each, topic):
            start, end = state.store.bounds(topic.encode(), queue_id)
            committed = state.offsets.get(group, topic, queue_id)
            found.append(Progress(Queue(topic, each.name, queue_id), start, end, committed))
    return found


def waiting(brokers: Iterable[RunningBroker]) -> list[Waiting]:
    """Return the messages that wait for their time, by delay level or by a time of their own, the next one first."""
    found = [waits for each in brokers for waits in (*_by_level(each), *_by_time(each))]
    return sorted(found, key=lambda waits: waits.due_ms)


def _by_level(running: RunningBroker) -> Iterator[Waiting]:
    schedule = running.broker.state.schedule
    for queue_id in range(LEVELS):
        for message in _messages_in(running, SCHEDULE_TOPIC.decode(), queue_id, schedule.reached[queue_id]):
            place = real_place(dict(message.properties))
            if place is not None:
                yield Waiting(message, place.topic, message.stored_ms + DELAY_LEVELS_MS[queue_id])


def _by_time(running: RunningBroker) -> Iterator[Waiting]:
    timers = running.broker.state.timers
    due = {offset: due_ms for due_ms, offset in timers.waiting()}
    for message in _messages_in(running, TIMER_TOPIC, 0, min(due, default=max(0, timers.fed))):
        place = real_place(dict(message.properties))
        is_new = message.offset >= timers.fed
        if place is not None and (message.offset in due or is_new):
            yield Waiting(message, place.topic, due.get(message.offset, message.stored_ms))


def members(brokers: Iterable[RunningBroker]) -> dict[tuple[str, str], list[str]]:
    """Return the members that have a line, by group and id, with the brokers that they have one to."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in brokers:
        for member in each.broker.state.members:
            if member.lines:
                found.setdefault((member.group, member.id), []).append(each.name)
    return found


def producers(brokers: Iterable[RunningBroker]) -> dict[tuple[str, str], list[str]]:
    """Return the producers, by group and id, with the brokers that they have a line to."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in brokers:
        known = each.broker.state.producers
        for group in known.groups():
            for producer in known.of(group):
                found.setdefault((group, producer.id), []).append(each.name)
    return found


def _queue_ids(running: RunningBroker, topic: str) -> range:
    known = running.broker.state.topics.get(topic)
    return range(0 if known is None else known.queues)


def _messages_in(running: RunningBroker, topic: str, queue_id: int, offset: int) -> Iterator[StoredMessage]:
    store, key = running.broker.state.store, topic.encode()
    start, end = store.bounds(key, queue_id)
    offset = max(start, offset)
    while offset < end:
        found = store.read(key, queue_id, offset, most=min(_AT_ONCE, end - offset), most_bytes=_AT_ONCE_BYTES)
        yield from read_messages(bytes(found.joined()), running.name)
        offset = found.next_offset
