"""BulkSender: sends encoded batches as fast as brokers accept them; blocking, with many in flight.

    with BulkSender(config, "a-group") as sender:
        for batch in batches:
            sender.send(batch)          # blocks while too many are in flight
        sender.finish()                 # waits for the last answers; raises SendFailed

The rules are those of `balance.producer`. A batch for a certain queue is tried there alone, and the next one for that
queue is sent after it is stored: so messages of one key keep their order. After the first batch that could not be
stored nothing new is sent; the pending answers are read, so that it is known what is stored.
"""

import logging
import random
import time
from collections import Counter, deque
from typing import NamedTuple, Self

from steelyard.balance.producer.broker_latency import LatencyTracker
from steelyard.balance.producer.queue_selection import QueueRotation
from steelyard.balance.producer.send_attempts import SendAttempt, SendAttempts, SendGaveUp, SendOptions, SendStep
from steelyard.client.bulk.connection_pool import ConnectionPool, shared_pool
from steelyard.client.config import ClientConfig
from steelyard.client.namespace import ClientNamespace
from steelyard.client.producer.send_result import failed_attempts
from steelyard.client.suggestions import topic_unknown
from steelyard.client.topic_routes import find_route, list_topics
from steelyard.errors import (
    BrokerNotInRoute,
    ConnectionClosed,
    NoRoute,
    SendFailed,
    SteelyardError,
    TimedOut,
    TopicNotFound,
    TransportError,
    error_for,
)
from steelyard.model import PublishList, Queue
from steelyard.model.formatting import pluralize
from steelyard.model.reserved_names import DEFAULT_TOPIC, RETRY_PREFIX
from steelyard.net.blocking_connection import PipelinedConnection, wait_readable
from steelyard.net.clock import now_ms, steady_ms
from steelyard.protocol.batch_send import MAX_BATCH_MESSAGES, encoded_batch_request
from steelyard.protocol.send import batch_item_request, resolve_delay, supports_timers
from steelyard.wire.batch import decode_batch
from steelyard.wire.codes import STORED_CODES, RequestCode
from steelyard.wire.command import Command
from steelyard.wire.headers.group import GetMaxOffset
from steelyard.wire.limits import TOPIC_BYTES_V1
from steelyard.wire.signing import sign_command

__all__ = ["MAX_BATCH_MESSAGES", "BulkSender", "EncodedBatch", "can_batch"]


_LOOKUP_GAP_MS = 1_000
"""The least time between look-ups of one topic: many batches fail at once when a broker does."""


class _BulkRoutes:
    """Rotations and broker addresses of one sender's topics. Topics are users' names, queues have full ones."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._namespace = ClientNamespace(config.namespace)
        # Batches in flight wait for each other on a connection: a slow broker shows only beside the others.
        self._latency = LatencyTracker(relative_to_median=True)
        self._rotations: dict[str, QueueRotation] = {}
        self._queues: dict[str, tuple[Queue, ...]] = {}
        self._lists: dict[str, PublishList] = {}
        self._addresses: dict[str, str] = {}
        self._looked_up_ms: dict[str, int] = {}

    def queues(self, topic: str) -> tuple[Queue, ...]:
        """Return the queues that keys are hashed to: always the first list, so that a key keeps its queue."""
        self.rotation(topic)
        return self._queues[topic]

    def rotation(self, topic: str) -> QueueRotation:
        """Return the rotation of a topic; raises TopicNotFound, NoRoute and NoNameServer."""
        known = self._rotations.get(topic)
        if known is None:
            listed = self._look_up(topic)
            self._queues[topic] = listed.queues
            known = self._rotations[topic] = QueueRotation(listed, random.getrandbits(31), self._latency)
        return known

    def route_changed(self, topic: str) -> bool:
        """Look a topic up again, at most once a second, and say whether its route changed."""
        if steady_ms() - self._looked_up_ms.get(topic, 0) < _LOOKUP_GAP_MS:
            return False
        before = self._lists.get(topic), dict(self._addresses)
        try:
            listed = self._look_up(topic)
        except SteelyardError:
            return False  # it keeps its route: brokers may be restarting
        self._rotations[topic].replace_queues(listed)
        return before != (self._lists[topic], self._addresses)

    def broker_address(self, broker: str) -> str:
        """Return the address of a broker's master."""
        address = self._addresses.get(broker)
        if address is None:
            raise BrokerNotInRoute(f"no route of {', '.join(self._rotations)} says where {broker} is")
        return address

    def _look_up(self, topic: str) -> PublishList:
        self._looked_up_ms[topic] = steady_ms()
        try:
            listed = find_route(topic, self._config).publish_list()
        except TopicNotFound:
            # A broker creates a topic with its first message, like the default topic.
            try:
                default = find_route(DEFAULT_TOPIC, self._config)
            except TopicNotFound:
                raise self._not_found(topic) from None
            listed = default.publish_list_for_new_topic(self._namespace.wrap(topic))
        if not listed:
            raise NoRoute(
                f"topic {topic!r} has no queue that takes messages",
                next_step="check its permission, and that a master of it is up",
            )
        for place in () if listed.route is None else listed.route.brokers:
            if place.master is not None:
                self._addresses[place.name] = place.master
        self._lists[topic] = listed
        return listed

    def _not_found(self, topic: str) -> TopicNotFound:
        try:
            known = list_topics(self._config)
        except SteelyardError:
            known = None
        return topic_unknown(topic, known, namesrv=str(self._config))


_MAX_RETRIES = 1_000
"""The deadline alone limits the attempts."""
_PAUSE_MS = 200
_LISTED_ATTEMPTS = 3
"""How many attempts an error lists: the last ones."""
_READ_TIMEOUT_MS = 1_000
_NAMESPACE_BYTES = 65
"""How much a namespace may add to a topic's name."""
_SECOND_MS = 1_000

_log = logging.getLogger("steelyard.client")


class EncodedBatch(NamedTuple):
    """Messages of one topic, encoded as items of a batch: all of them are stored side by side, or none."""

    topic: str
    items: bytes
    messages: int
    queue: Queue | None = None
    """Where they have to go; None leaves it to the rotation."""
    is_single: bool = False
    """Whether it is one message that is not sent as a batch: it is large, or has a delay."""
    delay_ms: int = 0


def can_batch(topic: str) -> bool:
    """Say whether batches can be sent to a topic: not to a retry topic, nor to one with a very long name.

    >>> can_batch("orders"), can_batch("%RETRY%billing")
    (True, False)
    """
    return not topic.startswith(RETRY_PREFIX) and len(topic.encode()) <= TOPIC_BYTES_V1 - _NAMESPACE_BYTES


class _PendingBatch:
    """A batch in flight."""

    __slots__ = ("attempt", "batch", "deadline_ms", "sending")

    def __init__(self, batch: EncodedBatch, sending: SendAttempts) -> None:
        self.batch, self.sending = batch, sending
        self.attempt = sending.begin(steady_ms())
        self.deadline_ms = 0
        """When the attempt times out, or starts after a pause."""


class BulkSender:
    """Sends encoded batches; for one thread."""

    def __init__(
        self,
        config: ClientConfig,
        group: str,
        *,
        depth: int = 16,
        timeout_ms: int = 10_000,
        pool: ConnectionPool | None = None,
    ) -> None:
        self._config, self._namespace = config, ClientNamespace(config.namespace)
        self._group = self._namespace.wrap(group)
        self._depth = depth
        self._options = SendOptions(
            timeout_ms=timeout_ms, retries=_MAX_RETRIES, retry_same_queue=True, retry_pause_ms=_PAUSE_MS
        )
        self._routes = _BulkRoutes(config)
        self._pool = shared_pool() if pool is None else pool
        self._connections: dict[str, PipelinedConnection] = {}
        self._in_flight: dict[PipelinedConnection, dict[int, _PendingBatch]] = {}
        """By connection and request number; a connection that is only in here is read to its end and not used again."""
        self._backing_off: list[_PendingBatch] = []
        self._queue_backlogs: dict[Queue, deque[EncodedBatch]] = {}
        """Batches that wait for the one in flight to their queue."""
        self._open_count = 0
        self._versions: dict[str, int] = {}
        self._warned: set[str] = set()
        self._failure: tuple[EncodedBatch, SendGaveUp] | None = None
        """The first batch that was given up."""
        self.stored: Counter[str] = Counter()
        """The number of stored messages, by topic."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def queues(self, topic: str) -> tuple[Queue, ...]:
        """Return the queues that keys are hashed to; raises TopicNotFound, NoRoute and NoNameServer."""
        return self._routes.queues(topic)

    def send(self, batch: EncodedBatch) -> None:
        """Send a batch, as soon as there is room in flight; raises SendFailed if an earlier one was not stored."""
        while self._open_count >= self._depth and self._failure is None:
            self._poll()
        if self._failure is not None:
            self.finish()
        self._open_count += 1
        if batch.queue is not None:
            waiting = self._queue_backlogs.get(batch.queue)
            if waiting is not None:
                waiting.append(batch)
                self._poll(wait=False)
                return
            self._queue_backlogs[batch.queue] = deque()
        self._start(batch)

    def finish(self) -> None:
        """Wait until everything is stored; raises SendFailed if something is not."""
        while self._backing_off or any(self._in_flight.values()):
            self._poll()
        if self._failure is not None:
            raise _not_stored(*self._failure, sum(self.stored.values()))

    def close(self) -> None:
        """Return the connections to the pool; what is in flight is not waited for."""
        for connection in self._connections.values():
            if self._in_flight.pop(connection, None):
                connection.close()
            else:
                self._pool.release(connection, self._config)
        for connection in self._in_flight:
            connection.close()
        self._connections, self._in_flight = {}, {}

    def _start(self, batch: EncodedBatch) -> None:
        rotation = self._routes.rotation(batch.topic)
        self._send_attempt(_PendingBatch(batch, SendAttempts(rotation, self._options, chosen=batch.queue)))

    def _follow(self, pending: _PendingBatch, step: SendStep) -> None:
        """Perform the next step."""
        if isinstance(step, SendAttempt) and self._failure is None:
            pending.attempt = step
            if step.pause_ms:
                pending.deadline_ms = steady_ms() + step.pause_ms
                self._backing_off.append(pending)
            else:
                self._send_attempt(pending)
        elif isinstance(step, SendGaveUp) and self._failure is None:
            self._failure = pending.batch, step

    def _send_attempt(self, pending: _PendingBatch) -> None:
        attempt = pending.attempt
        try:
            connection = self._connection_to(attempt.queue.broker, attempt.timeout_ms)
            request = self._request(pending.batch, attempt, connection)
            number = connection.enqueue(self._signed(request))
        except SteelyardError as error:
            self._attempt_failed(pending, error)
            return
        pending.deadline_ms = steady_ms() + attempt.timeout_ms
        self._in_flight.setdefault(connection, {})[number] = pending
        try:
            connection.flush(attempt.timeout_ms)
        except TransportError as error:
            self._connection_lost(connection, error)

    def _request(self, batch: EncodedBatch, attempt: SendAttempt, connection: PipelinedConnection) -> Command:
        queue, at_ms = attempt.queue, now_ms()
        if not batch.is_single:
            return encoded_batch_request(self._group, batch.items, queue, now_ms=at_ms)
        (item,) = decode_batch(batch.items)
        extra: dict[str, str] = {}
        if batch.delay_ms:
            timers = supports_timers(self._version_of(queue, connection, attempt.timeout_ms))
            delay = resolve_delay(batch.delay_ms / _SECOND_MS, None, now_ms=at_ms, has_timers=timers)
            extra = dict(delay.properties) if delay is not None else {}
            if delay is not None and delay.note and delay.note not in self._warned:
                self._warned.add(delay.note)
                _log.warning("%s", delay.note)
        return batch_item_request(self._group, item, queue, now_ms=at_ms, extra_properties=extra)

    def _attempt_failed(self, pending: _PendingBatch, error: SteelyardError) -> None:
        at_ms = steady_ms()
        step = pending.sending.failed(error, at_ms)
        is_lost = self._failure is None and pending.sending.route_lookup_ms(error, at_ms) > 0
        if is_lost and self._routes.route_changed(pending.batch.topic):
            step = pending.sending.route_renewed(steady_ms())
        self._follow(pending, step)

    def _batch_stored(self, pending: _PendingBatch, *, late: bool) -> None:
        pending.sending.succeeded(steady_ms(), is_late=late)
        batch = pending.batch
        self.stored[batch.topic] += batch.messages
        self._open_count -= 1
        if batch.queue is not None:
            waiting = self._queue_backlogs[batch.queue]
            if waiting and self._failure is None:
                self._start(waiting.popleft())
            elif not waiting:
                del self._queue_backlogs[batch.queue]

    def _connection_to(self, broker: str, timeout_ms: int) -> PipelinedConnection:
        address = self._routes.broker_address(broker)
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connections[address] = self._pool.acquire(address, self._config, timeout_ms=timeout_ms)
        return connection

    def _signed(self, request: Command) -> Command:
        credentials = self._config.credentials
        return request if credentials is None else sign_command(request, credentials)

    def _version_of(self, queue: Queue, connection: PipelinedConnection, timeout_ms: int) -> int:
        """Return a broker's version, requested if it has not answered yet."""
        if connection.address not in self._versions:
            request = Command(RequestCode.GET_MAX_OFFSET, GetMaxOffset(queue.topic, queue.queue_id))
            number = connection.enqueue(self._signed(request))
            try:
                connection.flush(timeout_ms)
            except TransportError as error:
                self._connection_lost(connection, error)
            # Until this very answer: a connection that returns to the pool must have none pending.
            while self._connections.get(connection.address) is connection:
                if number in self._receive(connection, timeout_ms):
                    break
        if connection.address not in self._versions:
            raise ConnectionClosed(f"{connection.address} was lost before its version was known")
        return self._versions[connection.address]

    def _poll(self, *, wait: bool = True) -> None:
        """Read answers, or wait until something is due; resume what has paused."""
        at_ms = steady_ms()
        busy = [connection for connection, sends in self._in_flight.items() if sends]
        pending = [*self._backing_off, *(send for sends in self._in_flight.values() for send in sends.values())]
        until_ms = min((each.deadline_ms for each in pending), default=at_ms)
        wait_ms = max(0, until_ms - at_ms) if wait else 0
        if busy:
            for connection in wait_readable(busy, wait_ms):
                self._receive(connection)
        elif wait_ms:
            time.sleep(wait_ms / _SECOND_MS)
        self._check_deadlines()

    def _receive(self, connection: PipelinedConnection, timeout_ms: int = _READ_TIMEOUT_MS) -> list[int]:
        """Handle the answers on a connection, and return their numbers."""
        try:
            answers = connection.receive(timeout_ms)
        except TransportError as error:
            self._connection_lost(connection, error)
            return []
        sends = self._in_flight.get(connection, {})
        ready = [(sends.pop(answer.opaque, None), answer) for answer in answers]
        for send, answer in ready:
            self._versions[connection.address] = answer.version
            if send is None:
                continue  # it was late, and its batch was sent again
            if answer.code in STORED_CODES:
                self._batch_stored(send, late=answer.code != 0)
            else:
                server = send.attempt.queue.broker
                self._attempt_failed(send, error_for(answer.code, answer.remark or "", server=server))
        return [answer.opaque for answer in answers]

    def _connection_lost(self, connection: PipelinedConnection, error: TransportError) -> None:
        """Close a connection; its batches in flight are not known to be stored."""
        sends = self._in_flight.pop(connection, {})
        self._retire_connection(connection)
        connection.close()
        for send in sends.values():
            self._attempt_failed(send, error)

    def _retire_connection(self, connection: PipelinedConnection) -> None:
        if self._connections.get(connection.address) is connection:
            del self._connections[connection.address]

    def _check_deadlines(self) -> None:
        """Fail what timed out, and resume what has paused for long enough."""
        at_ms = steady_ms()
        pausing, self._backing_off = self._backing_off, []
        for send in pausing:
            if send.deadline_ms > at_ms:
                self._backing_off.append(send)
            elif self._failure is None:
                self._send_attempt(send)
        for connection, sends in list(self._in_flight.items()):
            late = [number for number, send in sends.items() if send.deadline_ms <= at_ms]
            if not late:
                continue
            self._retire_connection(connection)  # a late answer must not arrive on a connection that others use
            for number in late:
                send = sends.pop(number)
                took_ms = send.attempt.timeout_ms
                self._attempt_failed(send, TimedOut(f"{connection.address} did not answer a batch in {took_ms} ms"))


def _not_stored(batch: EncodedBatch, gave_up: SendGaveUp, stored: int) -> SendFailed:
    """Return the error for a batch that was given up."""
    tried = gave_up.failed_attempts[-_LISTED_ATTEMPTS:]
    count, tries = pluralize(batch.messages, "message"), pluralize(len(gave_up.failed_attempts), "attempt")
    what = f"{count} to {batch.topic!r} {'was' if batch.messages == 1 else 'were'} not stored in {tries}"
    return SendFailed(
        f"{what}, and {stored} others were",
        attempts=failed_attempts(tried),
        limit=gave_up.limit.value,
        last=gave_up.error,
    )
