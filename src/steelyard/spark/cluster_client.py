"""The driver's requests to a cluster, each call blocking: queues, bounds, timestamps, committed offsets, samples.

The connections are on the loop thread that the blocking clients of a process share. They are opened with the first
call, and `close` ends them. Topic and group names are without a namespace on this side.

Bounds take one request to each broker of a topic (202), however many queues it has. If a broker rejects that one, which
is for administrators, each queue is requested by itself; so are queues that a 4.9 broker omits because they are
read-only. Requests per queue are pipelined, a thousand at a time. Whether an unreachable broker or a missing topic is
an error is decided by the caller.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from steelyard.client.filter_check import check_sql_filter
from steelyard.client.loop_thread import LoopThread
from steelyard.client.process_guard import ProcessGuard
from steelyard.client.session import Session
from steelyard.errors import (
    GroupNotFound,
    NotFound,
    ServerError,
    SteelyardError,
    TopicNotFound,
    TransportError,
    error_for,
)
from steelyard.model import ExpressionType, Queue, Subscription, TopicRoute, sort_queues
from steelyard.model.reserved_names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from steelyard.spark.options import ReadOptions, TopicSelection
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.common import TopicNames
from steelyard.wire.bodies.stats import TopicStats
from steelyard.wire.bodies.topics import ClusterBody
from steelyard.wire.codes import RequestCode, ResponseCode, Version
from steelyard.wire.command import Command
from steelyard.wire.headers.common import OffsetResponse, QueueRequest, TopicNameRequest
from steelyard.wire.headers.group import CommitOffset, GetMaxOffset, QueryConsumerOffset, SearchOffset
from steelyard.wire.headers.pull import PullMessage
from steelyard.wire.record import MessageRecord, decode_records

_QueueResponses = dict[Queue, Command | SteelyardError]
_QueueRequestFactory = Callable[[Queue, str], Command]
"""Makes the request for a queue; the second argument is its topic with the namespace."""

T = TypeVar("T")

_REQUEST_TIMEOUT_MS = 3_000
_COMMIT_TIMEOUT_MS = 1_000  # how long a broker that does not answer a commit may delay a batch
_MAX_IN_FLIGHT = 1_000
"""Requests in flight: enough to keep connections busy, and few enough for the last to be answered in time."""
_SUBSCRIPTION_FLAG = 4
_SAMPLE_MESSAGES = 32  # the default limit of Apache's brokers
_MAX_SEARCH_STEPS = 64  # pulls per search; beyond that a read starts a little early, and never late


async def _request_each(
    session: Session,
    queues: Iterable[Queue],
    make_request: _QueueRequestFactory,
    *,
    timeout_ms: int = _REQUEST_TIMEOUT_MS,
) -> _QueueResponses:
    """Send one request per queue, and return the responses; an error response becomes a SteelyardError."""
    responses: _QueueResponses = {}
    for some in _chunks(_MAX_IN_FLIGHT, queues):
        pending = [_request(session, queue, make_request, timeout_ms) for queue in some]
        for queue, found in zip(some, await asyncio.gather(*pending, return_exceptions=True), strict=True):
            if isinstance(found, Command):
                is_ok = found.code in (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND)
                responses[queue] = found if is_ok else error_for(found.code, found.remark or "", server=queue.broker)
            elif isinstance(found, SteelyardError):
                responses[queue] = found
            else:
                raise found
    return responses


def _request(
    session: Session, queue: Queue, make_request: _QueueRequestFactory, timeout_ms: int
) -> "asyncio.Future[Command]":
    try:
        return session.broker_connection(queue.broker).request(
            make_request(queue, session.namespace.wrap(queue.topic)), timeout_ms
        )
    except SteelyardError as error:
        failed: asyncio.Future[Command] = session.loop.create_future()
        failed.set_exception(error)
        return failed


def _chunks(size: int, things: Iterable[T]) -> Iterator[list[T]]:
    left = iter(things)
    while some := list(islice(left, size)):
        yield some


def _decode_offset(response: Command | SteelyardError) -> int:
    """Return the offset in a response; raise an error."""
    if isinstance(response, SteelyardError):
        raise response
    return response.header(OffsetResponse).offset


async def _search_offsets(session: Session, group: str, times_ms: Mapping[Queue, int]) -> dict[Queue, int]:
    """Return the first message of each queue that was stored at a time or later; its end if there is none."""
    # A 4.9 broker returns the message nearest to a time, or any of its millisecond, or the last one of all. So the
    # search is for the millisecond before, which is not too late, and messages are pulled from there on.
    inexact = {queue for queue in times_ms if not _searches_exactly(session, queue.broker)}

    def search(queue: Queue, topic: str) -> Command:
        time_ms = max(0, times_ms[queue] - (queue in inexact))
        return Command(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, SearchOffset(topic, queue.queue_id, time_ms))

    found = {
        queue: _decode_offset(answer) for queue, answer in (await _request_each(session, times_ms, search)).items()
    }
    for _ in range(_MAX_SEARCH_STEPS):
        if not inexact:
            break
        pulled = await _pull_few(session, group, {queue: found[queue] for queue in inexact}, must_answer=True)
        for queue, records in pulled.items():
            early = [record for record in records if record.stored_ms < times_ms[queue]]
            if early:
                found[queue] = early[-1].offset + 1
            if len(early) < len(records) or not records:
                inexact.discard(queue)
    return found


def _searches_exactly(session: Session, broker: str) -> bool:
    """Say whether a broker returns the first message of a timestamp."""
    return session.broker_connection(broker).version >= Version.V5_0_0


async def _fetch_committed(session: Session, group: str, queues: Iterable[Queue]) -> dict[Queue, int]:
    """Return the committed offsets of a group; queues without one are left out."""
    full_group = session.namespace.wrap(group)

    def query(queue: Queue, topic: str) -> Command:
        header = QueryConsumerOffset(full_group, topic, queue.queue_id, set_zero_if_not_found=False)
        return Command(RequestCode.QUERY_CONSUMER_OFFSET, header)

    answers = await _request_each(session, queues, query)
    return {queue: _decode_offset(answer) for queue, answer in answers.items() if not isinstance(answer, NotFound)}


async def _commit_offsets(session: Session, group: str, offsets: Mapping[Queue, int]) -> dict[str, SteelyardError]:
    """Commit the offsets of a group; return the brokers that did not store them, and why."""
    full_group = session.namespace.wrap(group)

    def commit(queue: Queue, topic: str) -> Command:
        header = CommitOffset(full_group, topic, queue.queue_id, offsets[queue])
        return Command(RequestCode.UPDATE_CONSUMER_OFFSET, header)

    answers = await _request_each(session, offsets, commit, timeout_ms=_COMMIT_TIMEOUT_MS)
    unknown = [queue for queue, answer in answers.items() if isinstance(answer, GroupNotFound)]
    if unknown:
        # A broker knows a group from its first pull on, and an empty queue was never pulled.
        one_each = {queue.broker: queue for queue in unknown}
        await _pull_few(session, group, {queue: offsets[queue] for queue in one_each.values()})
        answers |= await _request_each(session, unknown, commit, timeout_ms=_COMMIT_TIMEOUT_MS)
    return {queue.broker: answer for queue, answer in answers.items() if isinstance(answer, SteelyardError)}


async def _sample_messages(session: Session, group: str, positions: Mapping[Queue, int]) -> tuple[int, int]:
    """Pull a few messages of each queue; return their number, and their stored bytes."""
    records = [each for some in (await _pull_few(session, group, positions)).values() for each in some]
    return len(records), sum(record.size for record in records)


async def _pull_few(
    session: Session, group: str, positions: Mapping[Queue, int], *, must_answer: bool = False
) -> dict[Queue, list[MessageRecord]]:
    """Pull a few messages of each queue; none, or no response unless ``must_answer``, is an empty list."""
    full_group = session.namespace.wrap(group)

    def pull(queue: Queue, topic: str) -> Command:
        header = PullMessage(
            consumer_group=full_group,
            topic=topic,
            queue_id=queue.queue_id,
            queue_offset=positions[queue],
            max_msg_nums=_SAMPLE_MESSAGES,
            sys_flag=_SUBSCRIPTION_FLAG,
            commit_offset=0,
            suspend_timeout_millis=0,
            sub_version=0,
            subscription="*",
            expression_type="TAG",
        )
        return Command(RequestCode.PULL_MESSAGE, header)

    pulled: dict[Queue, list[MessageRecord]] = {}
    for queue, answer in (await _request_each(session, positions, pull)).items():
        if must_answer and isinstance(answer, TransportError):
            raise answer
        try:
            pulled[queue] = [] if isinstance(answer, SteelyardError) else list(decode_records(answer.body))
        except SteelyardError:
            pulled[queue] = []  # the reader will meet it, and raise the error
    return pulled


@dataclass(frozen=True, slots=True)
class QueueLayout:
    """The queues of the topics."""

    queues: tuple[Queue, ...]  # in order
    brokers: Mapping[str, frozenset[str]]  # the brokers of each topic that is there
    missing: Mapping[str, TopicNotFound]  # named topics that no name server knows, with the error of each


async def _fetch_layout(session: Session, topics: TopicSelection) -> QueueLayout:
    """Look up the routes; raises NoNameServer."""
    names = topics.names if topics.pattern is None else await _matching_topics(session, topics)
    routes = dict(zip(names, await asyncio.gather(*(_look_up_route(session, name) for name in names)), strict=True))
    found = {topic: each for topic, each in routes.items() if isinstance(each, TopicRoute)}
    chosen = topics.queues
    queues = [session.namespace.unwrap_queue(queue) for route in found.values() for queue in route.readable_queues()]
    return QueueLayout(
        tuple(sort_queues(queue for queue in queues if chosen is None or queue in chosen)),
        {topic: frozenset(place.name for place in route.brokers) for topic, route in found.items()},
        {topic: each for topic, each in routes.items() if isinstance(each, TopicNotFound)},
    )


async def _look_up_route(session: Session, topic: str) -> TopicRoute | TopicNotFound:
    try:
        return await session.routes.look_up(session.namespace.wrap(topic))
    except TopicNotFound as error:
        return error


async def _matching_topics(session: Session, topics: TopicSelection) -> tuple[str, ...]:
    """Return the user topics that match the pattern."""
    answer = await session.request_ok(None, Command(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))
    names, listed = session.namespace, decode_body(TopicNames, answer.body).topics
    here = [names.unwrap(full) for full in sorted(listed) if names.wrap(names.unwrap(full)) == full]
    matching = [name for name in here if topics.matches(name) and not name.startswith((RETRY_PREFIX, DLQ_PREFIX))]
    if not matching:
        return ()
    own = await _broker_topics(session)
    return tuple(name for name in matching if name not in own and not is_system_topic(name))


async def _broker_topics(session: Session) -> set[str]:
    """Return the names of brokers and clusters: Apache's brokers create a topic of each name for themselves."""
    answer = await session.request_ok(None, Command(RequestCode.GET_BROKER_CLUSTER_INFO))
    brokers = decode_body(ClusterBody, answer.body).brokers
    return {*brokers, *(entry.cluster for entry in brokers.values() if entry.cluster)}


OffsetBounds = tuple[int, int]  # the min and max offset of a queue; the max is that of its next message


@dataclass(frozen=True, slots=True)
class QueueBounds:
    """Offset bounds of queues, as brokers answered."""

    known: dict[Queue, OffsetBounds] = field(default_factory=dict)
    missing: set[Queue] = field(default_factory=set)  # queues whose topic their broker does not have
    unreachable: dict[str, SteelyardError] = field(default_factory=dict)  # brokers that did not answer, and why
    replicas: set[str] = field(default_factory=set)  # brokers without their master: a replica answered, and may be late


async def _fetch_bounds(session: Session, queues: Iterable[Queue]) -> QueueBounds:
    """Fetch the bounds of queues whose routes are known."""
    parts: dict[tuple[str, str], list[Queue]] = {}
    for queue in queues:
        parts.setdefault((queue.topic, queue.broker), []).append(queue)
    bounds = QueueBounds()
    await asyncio.gather(
        *(_fetch_from_broker(session, topic, broker, some, bounds) for (topic, broker), some in parts.items())
    )
    return bounds


async def _fetch_from_broker(
    session: Session, topic: str, broker: str, queues: list[Queue], bounds: QueueBounds
) -> None:
    """Fetch the bounds of the queues of one topic on one broker."""
    stats: dict[int, OffsetBounds] = {}
    try:
        is_replica = session.broker_place(broker).master is None
        command = Command(RequestCode.GET_TOPIC_STATS_INFO, TopicNameRequest(session.namespace.wrap(topic)))
        answer = await session.request_ok(broker, command)
        for queue, ends in decode_body(TopicStats, answer.body).queues.items():
            stats[queue.queue_id] = ends.min_offset, ends.max_offset
    except TopicNotFound:
        bounds.missing.update(queues)
        return
    except ServerError:
        stats = {}
    except SteelyardError as error:
        bounds.unreachable[broker] = error
        return
    # The role may have changed during the request.
    if is_replica or session.broker_place(broker).master is None:
        bounds.replicas.add(broker)
    omitted = [queue for queue in queues if queue.queue_id not in stats]
    bounds.known.update((queue, _normalized(*stats[queue.queue_id])) for queue in queues if queue.queue_id in stats)
    if omitted:
        await _fetch_per_queue(session, omitted, bounds)


async def _fetch_per_queue(session: Session, queues: list[Queue], bounds: QueueBounds) -> None:
    def first(queue: Queue, topic: str) -> Command:
        return Command(RequestCode.GET_MIN_OFFSET, QueueRequest(topic, queue.queue_id))

    def last(queue: Queue, topic: str) -> Command:
        return Command(RequestCode.GET_MAX_OFFSET, GetMaxOffset(topic, queue.queue_id))

    begins, ends = await asyncio.gather(_request_each(session, queues, first), _request_each(session, queues, last))
    for queue in queues:
        try:
            bounds.known[queue] = _normalized(_decode_offset(begins[queue]), _decode_offset(ends[queue]))
        except SteelyardError as error:
            bounds.unreachable[queue.broker] = error


def _normalized(begin: int, end: int) -> OffsetBounds:
    """Return valid bounds: a queue that never had a message may report -1."""
    begin, end = max(0, begin), max(0, end)
    return min(begin, end), end


class ClusterClient(ProcessGuard):
    """A blocking client for the driver."""

    def __init__(self, options: ReadOptions) -> None:
        super().__init__()
        self._options = options
        self._loop_thread: LoopThread | None = None
        self._session: Session | None = None
        self._checked_topics: set[str] = set()  # topics whose brokers have checked the SQL filter

    def layout(self) -> QueueLayout:
        """Return the queues of the topics; raises NoNameServer.

        A SQL92 filter is checked by the brokers of each topic once, and an error is raised: some brokers would return
        every message instead, without an error.
        """
        return self._run_on_loop(self._layout)

    def bounds(self, queues: Iterable[Queue]) -> QueueBounds:
        """Return the bounds of queues of the last layout."""
        return self._run_on_loop(lambda session: _fetch_bounds(session, queues))

    def offsets_at(self, times_ms: Mapping[Queue, int]) -> dict[Queue, int]:
        """Return the first offset of each queue stored at a timestamp or later; its end if there is none."""
        return self._run_on_loop(lambda session: _search_offsets(session, self._options.pull_group, times_ms))

    def committed_offsets(self, queues: Iterable[Queue]) -> dict[Queue, int]:
        """Return the committed offsets of the group; queues without one are left out."""
        return self._run_on_loop(lambda session: _fetch_committed(session, self._options.pull_group, queues))

    def commit(self, offsets: Mapping[Queue, int]) -> dict[str, SteelyardError]:
        """Commit offsets for the group; return the brokers that did not store them, and why."""
        return self._run_on_loop(lambda session: _commit_offsets(session, self._options.pull_group, offsets))

    def sample_messages(self, positions: Mapping[Queue, int]) -> tuple[int, int]:
        """Pull a few messages of each queue; return their number and bytes."""
        return self._run_on_loop(lambda session: _sample_messages(session, self._options.pull_group, positions))

    def broker_addresses(self) -> dict[str, str]:
        """Return the addresses of the brokers of all layouts."""
        session = self._session
        return {} if session is None else {name: session.broker_address(name) for name in session.broker_connections()}

    def close(self) -> None:
        """Close the connections; idempotent, and another call would connect again."""
        loop_thread, self._loop_thread = self._loop_thread, None
        session, self._session = self._session, None
        if loop_thread is None or self.is_forked:
            return
        try:
            if session is not None:
                loop_thread.run(session.close())
        finally:
            loop_thread.release()

    async def _layout(self, session: Session) -> QueueLayout:
        layout = await _fetch_layout(session, self._options.topics)
        if self._options.message_filter is not None:
            kind, expression = self._options.message_filter
            group = session.namespace.wrap(self._options.pull_group)
            for topic in layout.brokers.keys() - self._checked_topics:
                wanted = Subscription(session.namespace.wrap(topic), expression, ExpressionType(kind))
                await check_sql_filter(session, group, wanted)
                self._checked_topics.add(topic)
        return layout

    def _run_on_loop(self, work: Callable[[Session], Coroutine[Any, Any, T]]) -> T:
        self.check_process()
        if self._loop_thread is None:
            self._loop_thread = LoopThread.acquire()

        async def connected() -> T:
            if self._session is None:
                session = Session(self._options.client_config)
                await session.start()
                self._session = session
            return await work(self._session)

        return self._loop_thread.run(connected())
