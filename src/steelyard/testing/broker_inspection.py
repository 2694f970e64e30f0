"""Reads the state of running brokers directly, so that no fault can hide anything. Brokers that are down are left out.

`MemberOffsetProbe` asks members for their own offsets (221 GET_CONSUMER_STATUS_FROM_CLIENT): they commit every one to
five seconds, and a test would wait that long. Everything here is used on the servers' loop only.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from steelyard.broker.append import real_place
from steelyard.broker.delayed_messages import DELAY_LEVEL_COUNT
from steelyard.errors import SteelyardError
from steelyard.model import Queue, StoredMessage
from steelyard.model.reserved_names import TIMER_TOPIC
from steelyard.serve.broker import RunningBroker
from steelyard.store.tags_code import DELAY_LEVELS_MS, SCHEDULE_TOPIC
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.offsets import MemberOffsets
from steelyard.wire.codes import SERVER_VERSION, RequestCode, ResponseCode
from steelyard.wire.command import Command, Peer, Reply
from steelyard.wire.headers.group import GroupTopicRequest
from steelyard.wire.stored_messages import decode_messages

_BATCH_MESSAGES = 256
_BATCH_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class ConsumeProgress:
    """The offsets of a group in a queue."""

    queue: Queue
    start: int
    end: int
    committed: int | None  # None: nothing is committed


@dataclass(frozen=True, slots=True)
class DelayedMessage:
    """A message that is delivered later."""

    message: StoredMessage
    topic: str  # the topic to which it is delivered
    due_ms: int  # when it is delivered, by the cluster's clock


def topic_names(brokers: Iterable[RunningBroker]) -> list[str]:
    """Return the names of all topics, system topics too."""
    return sorted({topic.name for each in brokers for topic in each.broker.state.topics})


def stored_messages(brokers: Iterable[RunningBroker], topic: str) -> list[StoredMessage]:
    """Return all messages of a topic, in the order in which they were stored; of one millisecond, broker by broker."""
    found = [
        message
        for each in brokers
        for queue_id in _queue_ids(each, topic)
        for message in _messages_in_queue(each, topic, queue_id, 0)
    ]
    return sorted(found, key=lambda message: (message.stored_ms, message.queue.broker, message.position))


def consume_progress(brokers: Iterable[RunningBroker], topic: str, group: str) -> list[ConsumeProgress]:
    """Return the offsets of a group in each queue of a topic."""
    found = []
    for each in brokers:
        state = each.broker.state
        for queue_id in _queue_ids(each, topic):
            start, end = state.store.bounds(topic.encode(), queue_id)
            committed = state.offsets.get(group, topic, queue_id)
            found.append(ConsumeProgress(Queue(topic, each.name, queue_id), start, end, committed))
    return found


def delayed_messages(brokers: Iterable[RunningBroker]) -> list[DelayedMessage]:
    """Return the delayed messages, by delay level or delivery time, the next one first."""
    found = [delayed for each in brokers for delayed in (*_delayed_by_level(each), *_delayed_by_timer(each))]
    return sorted(found, key=lambda delayed: delayed.due_ms)


def _delayed_by_level(running: RunningBroker) -> Iterator[DelayedMessage]:
    schedule = running.broker.state.delay_offsets
    for queue_id in range(DELAY_LEVEL_COUNT):
        for message in _messages_in_queue(running, SCHEDULE_TOPIC.decode(), queue_id, schedule.next_offsets[queue_id]):
            place = real_place(dict(message.properties))
            if place is not None:
                yield DelayedMessage(message, place.topic, message.stored_ms + DELAY_LEVELS_MS[queue_id])


def _delayed_by_timer(running: RunningBroker) -> Iterator[DelayedMessage]:
    timers = running.broker.state.timers
    due = {offset: due_ms for due_ms, offset in timers.waiting()}
    for message in _messages_in_queue(running, TIMER_TOPIC, 0, min(due, default=max(0, timers.loaded_to))):
        place = real_place(dict(message.properties))
        is_new = message.offset >= timers.loaded_to
        if place is not None and (message.offset in due or is_new):
            yield DelayedMessage(message, place.topic, due.get(message.offset, message.stored_ms))


def connected_members(brokers: Iterable[RunningBroker]) -> dict[tuple[str, str], list[str]]:
    """Return the connected members by group and id, with the names of their brokers."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in brokers:
        for member in each.broker.state.consumers:
            if member.connections:
                found.setdefault((member.group, member.id), []).append(each.name)
    return found


def connected_producers(brokers: Iterable[RunningBroker]) -> dict[tuple[str, str], list[str]]:
    """Return the connected producers by group and id, with the names of their brokers."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in brokers:
        known = each.broker.state.producers
        for group in known.group_names():
            for producer in known.in_group(group):
                found.setdefault((group, producer.id), []).append(each.name)
    return found


def _queue_ids(running: RunningBroker, topic: str) -> range:
    known = running.broker.state.topics.get(topic)
    return range(0 if known is None else known.queues)


def _messages_in_queue(running: RunningBroker, topic: str, queue_id: int, offset: int) -> Iterator[StoredMessage]:
    store, key = running.broker.state.store, topic.encode()
    start, end = store.bounds(key, queue_id)
    offset = max(start, offset)
    while offset < end:
        found = store.read(
            key, queue_id, offset, max_messages=min(_BATCH_MESSAGES, end - offset), max_bytes=_BATCH_BYTES
        )
        yield from decode_messages(bytes(found.joined()), running.name)
        offset = found.next_offset


_ProbedMember = tuple[str, str]  # group and member id


class MemberOffsetProbe:
    """The offsets of all members of a cluster, as they report them."""

    def __init__(self) -> None:
        self._pending: dict[tuple[int, int], _ProbedMember] = {}
        self._offsets: dict[_ProbedMember, dict[Queue, int]] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether a response is missing."""
        return bool(self._pending)

    def request_offsets(self, brokers: Iterable[RunningBroker], group: str, topics: Sequence[str]) -> None:
        """Ask each member of a group once; earlier requests without a response are dropped."""
        self._pending.clear()
        asked: set[str] = set()
        for running in brokers:
            state = running.broker.state
            found = state.consumers.group(group)
            for member in found.members.values() if found is not None else ():
                if not member.connections or member.id in asked or member.is_broadcasting:
                    continue
                asked.add(member.id)
                for topic in topics:
                    opaque = state.next_opaque()
                    self._pending[member.peer.connection_id, opaque] = group, member.id
                    request = Command(
                        RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
                        GroupTopicRequest(group, topic),
                        opaque=opaque,
                        version=SERVER_VERSION,
                    )
                    running.server.send_replies((Reply(member.peer, request),))

    def handle_response(self, peer: Peer, command: Command) -> bool:
        """Whether a command is the response to one of these requests; keep its offsets if so."""
        asked = self._pending.pop((peer.connection_id, command.opaque), None)
        if asked is None:
            return False
        if command.code == ResponseCode.SUCCESS:
            try:
                offsets = decode_body(MemberOffsets, command.body).queues
            except SteelyardError:
                return True  # a client with another body: its commits are known
            self._offsets.setdefault(asked, {}).update(offsets)
        return True

    def offsets_of(self, group: str, members: Iterable[str]) -> dict[Queue, int]:
        """Return the offsets that these members of a group reported."""
        found: dict[Queue, int] = {}
        for member in members:
            for queue, offset in self._offsets.get((group, member), {}).items():
                found[queue] = max(offset, found.get(queue, 0))
        return found
