"""Range reader: reads offset ranges of queues as fast as brokers deliver, as raw records, in one thread without a loop.

A range is split into sub-ranges that are pulled in parallel, over all brokers that have queues of it; within one, a
pull starts where the last ended. No pull is held by a broker: what is to be read is there, or lost. Ranges are returned
in the given order; what is read ahead is held until its turn, within limits. Brokers compare tags by hash only: the
decoder has to compare the tags themselves.

When a connection fails, everything pending on it is pulled again; from the second failure on the name servers are asked
for the broker's address. It ends when the broker delivered nothing for the idle timeout. Only a master may say that a
queue ends before a range does: a replica may be late, and is waited for.
"""

import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from steelyard.client.bulk.connection_pool import ConnectionPool, shared_pool
from steelyard.client.config import ClientConfig
from steelyard.client.namespace import ClientNamespace
from steelyard.client.topic_routes import find_route
from steelyard.errors import (
    CannotConnect,
    ConnectionClosed,
    MessagesLost,
    ProtocolError,
    SteelyardError,
    TimedOut,
    TopicNotFound,
    TransportError,
    error_for,
)
from steelyard.model import ExpressionType, OffsetRange, Queue, Subscription
from steelyard.net.blocking_connection import PipelinedConnection, wait_readable
from steelyard.net.clock import steady_ms
from steelyard.wire.codes import RequestCode
from steelyard.wire.codes import ResponseCode as Answer
from steelyard.wire.command import Command
from steelyard.wire.headers.pull import PullMessage, PullMessageResponse
from steelyard.wire.signing import sign_command

_OnLost = Callable[[OffsetRange, str], None]
"""Called with offsets that do not exist any more, and why; it may raise."""


class RecordChunk(NamedTuple):
    """Records of a queue as a broker returned them; those outside ``start`` to ``end`` are not wanted.

    Batches that were stored as one record, and filtered answers, may begin before and end after.
    """

    queue: Queue
    start: int
    end: int
    records: bytes


class _Segment(NamedTuple):
    """A part of a sub-range: records, or the reason why there are none."""

    start: int
    end: int
    records: bytes
    why: str


@dataclass(slots=True, eq=False)
class _SubRange:
    """A part of a range: read up to ``at``, wanted up to ``end``."""

    reader: "_RangeReader"
    at: int
    end: int
    requested: int = 0
    """How many messages the pending pull asked for."""
    found: list[_Segment] = field(default_factory=list)
    stuck_ms: int | None = None
    """Since when the broker has returned nothing at this offset."""
    tries: int = 0
    """How often it was pulled since then."""
    due_ms: int = 0

    @property
    def is_done(self) -> bool:
        """Whether all of it was read."""
        return self.at >= self.end

    @property
    def is_head(self) -> bool:
        """Whether its records can be returned at once."""
        return self.reader.is_next and self.reader.sub_ranges[0] is self

    def add_records(self, following: int, records: bytes) -> None:
        """Add the records of a pull, and continue at its next offset; without records nothing matched."""
        end = min(following, self.end)
        if records:
            self.found.append(_Segment(self.at, end, records, ""))
            self.reader.held_bytes += len(records)
        self._advance(end)

    def mark_lost(self, end: int, why: str) -> None:
        """Record that everything up to an offset is lost."""
        end = min(end, self.end)
        self.found.append(_Segment(self.at, end, b"", why))
        self._advance(end)

    def _advance(self, offset: int) -> None:
        self.at, self.stuck_ms, self.tries, self.due_ms = offset, None, 0, 0


class _RangeReader:
    """One range that is being read."""

    __slots__ = ("_lost", "_lost_why", "_on_lost", "end", "frontier", "held_bytes", "is_next", "queue", "sub_ranges")

    def __init__(self, wanted: OffsetRange, on_lost: _OnLost) -> None:
        self.queue = wanted.queue
        self.frontier = wanted.start
        """Up to here it is split into sub-ranges."""
        self.end = wanted.end
        self.sub_ranges: deque[_SubRange] = deque()
        """Those that are not done, or wait for their turn."""
        self.held_bytes = 0
        self.is_next = False
        """Whether all ranges before it are finished: then the records of its first sub-range are returned at once."""
        self._on_lost = on_lost
        self._lost: OffsetRange | None = None
        self._lost_why = ""

    @property
    def is_fully_split(self) -> bool:
        """Whether all of it is split."""
        return self.frontier >= self.end

    @property
    def is_finished(self) -> bool:
        """Whether all of it was read and returned."""
        return self.is_fully_split and not self.sub_ranges

    def split_next(self, stride: int) -> _SubRange:
        """Split off the next sub-range."""
        start, self.frontier = self.frontier, min(self.frontier + stride, self.end)
        sub_range = _SubRange(self, start, self.frontier)
        self.sub_ranges.append(sub_range)
        return sub_range

    def unsplit(self, sub_range: _SubRange) -> bool:
        """Return the rest of the last sub-range to be split again; False if it is not the last."""
        if self.sub_ranges[-1] is not sub_range:
            return False
        self.frontier = sub_range.end = sub_range.at
        return True

    def skip_to(self, offset: int, why: str) -> None:
        """Record that everything up to an offset is lost, as far as it is not split yet."""
        if min(offset, self.end) > self.frontier:
            self.split_next(offset - self.frontier).mark_lost(offset, why)

    def take_ready(self) -> list[RecordChunk]:
        """Return the records that are next in order, and report losses on the way."""
        chunks: list[RecordChunk] = []
        sub_ranges = self.sub_ranges
        while sub_ranges:
            head = sub_ranges[0]
            for start, end, records, why in head.found:
                if why:
                    self._record_lost(start, end, why)
                else:
                    self._report_lost()
                    self.held_bytes -= len(records)
                    chunks.append(RecordChunk(self.queue, start, end, records))
            head.found.clear()
            if not head.is_done:
                break
            sub_ranges.popleft()
        if not sub_ranges and self.is_fully_split:
            self._report_lost()
        return chunks

    def _record_lost(self, start: int, end: int, why: str) -> None:
        lost = self._lost
        if lost is not None and lost.end == start:
            self._lost = OffsetRange(self.queue, lost.start, end)
            return
        self._report_lost()
        self._lost, self._lost_why = OffsetRange(self.queue, start, end), why

    def _report_lost(self) -> None:
        lost, self._lost = self._lost, None
        if lost:
            self._on_lost(lost, self._lost_why)


class _Outcome(Enum):
    """What an answer means for its reader."""

    ADVANCE = "it has records, possibly none that match"
    SKIP = "everything up to the offset is lost"
    BEYOND_END = "there is nothing from here on, unless the broker is just starting"
    RETRY_SOON = "pull again soon"
    BUSY = "the broker is overloaded or stopping: back off"


class _Verdict(NamedTuple):
    """What an answer means, why, and where to continue."""

    outcome: _Outcome
    why: str = ""
    offset: int = 0


_EMPTY_CODES = frozenset({Answer.PULL_NOT_FOUND, Answer.PULL_RETRY_IMMEDIATELY, Answer.PULL_OFFSET_MOVED})
_BUSY_CODES = frozenset({Answer.SYSTEM_BUSY, Answer.SERVICE_NOT_AVAILABLE, Answer.FLOW_CONTROL, Answer.GO_AWAY})
_NO_QUEUE_CODES = frozenset({Answer.TOPIC_NOT_EXIST, Answer.INVALID_PARAMETER})
_REMOVED = "MESSAGE_WAS_REMOVING"
_CLOSING = "store getMessage return null"
"""The remark of an Apache broker that shuts down."""


def _classify_answer(answer: Command, at: int, *, is_filtered: bool, server: str) -> _Verdict:
    """Return what an answer means for a reader at an offset; raises ServerError if a retry is of no use."""
    code, remark = answer.code, answer.remark or ""
    if code == Answer.SUCCESS:
        following = answer.header(PullMessageResponse).next_begin_offset
        if not (answer.body or is_filtered):
            return _Verdict(_Outcome.RETRY_SOON, f"it claims to have messages up to {following} and sends none")
        if following <= at:
            return _Verdict(_Outcome.RETRY_SOON, f"its next offset {following} is not after {at}")
        return _Verdict(_Outcome.ADVANCE, offset=following)
    if code in _EMPTY_CODES:
        return _classify_empty(code, answer.header(PullMessageResponse), at, is_filtered and remark != _REMOVED)
    if code in _BUSY_CODES or (code == Answer.SYSTEM_ERROR and _CLOSING in remark):
        return _Verdict(_Outcome.BUSY, error_for(code, remark, server=server).what)
    # 4.9 has no code of its own for a queue that a topic does not have.
    if code in _NO_QUEUE_CODES or (code == Answer.SYSTEM_ERROR and "queueId" in remark and "illegal" in remark):
        return _Verdict(_Outcome.BEYOND_END, error_for(code, remark, server=server).what)
    raise error_for(code, remark, server=server)


def _classify_empty(code: int, header: PullMessageResponse, at: int, is_filtered: bool) -> _Verdict:
    following, low, high = header.next_begin_offset, header.min_offset, header.max_offset
    if code == Answer.PULL_RETRY_IMMEDIATELY and following > at:
        if is_filtered:
            return _Verdict(_Outcome.ADVANCE, offset=following)
        return _Verdict(_Outcome.SKIP, "the broker has removed or damaged their records", following)
    if code == Answer.PULL_OFFSET_MOVED and low > at:
        return _Verdict(_Outcome.SKIP, f"the broker keeps messages from offset {low} on", low)
    if high <= at:
        why = f"the queue ends at {high}; the topic was made anew, or the broker lost its last messages"
        return _Verdict(_Outcome.BEYOND_END, why)
    if code == Answer.PULL_NOT_FOUND and following > at:
        return _Verdict(_Outcome.SKIP, "the broker has lost a part of the queue's index", following)
    return _Verdict(_Outcome.RETRY_SOON, f"it has messages up to offset {high} and gives none")


_CONNECT_TIMEOUT_MS = 3_000
_ROUTE_TIMEOUT_MS = 1_000
_RETRY_DELAYS_MS = (0, 50, 100, 200, 400, 800, 1_000)
"""The delays before each attempt since the broker last delivered; the last one repeats."""
_ANSWER_TIMEOUT_FACTOR = 4
"""One slow answer may take 4 times the idle timeout."""
_INITIAL_PULLS = 4
_MAX_PULLS = 1 << 10
_FULL_ANSWERS_TO_GROW = 4
"""After so many full answers in a row the stride grows."""
_FILTERED_STRIDE = 1_000
"""The length of filtered sub-ranges: about as many messages as a broker examines for one pull."""
_EXPECTED_ANSWER_BYTES = 256 * 1024


class _ReadSettings(NamedTuple):
    """Settings of a read: the same for all brokers."""

    config: ClientConfig
    pool: ConnectionPool
    make_request: Callable[[Queue, int, int], Command]
    """Returns the pull of so many messages from an offset on."""
    max_messages: int
    is_filtered: bool
    idle_timeout_ms: int
    read_timeout_ms: int
    """How long a connection with pending pulls may be silent."""
    settle_ms: int
    """How long offsets may be beyond the end of their queue, or the topic missing, until they count as lost."""


class _BrokerReader:
    """A broker, the ranges of its queues, and its pending pulls."""

    def __init__(self, name: str, address: str | None, ranges: Sequence[_RangeReader], settings: _ReadSettings) -> None:
        self.name, self._address, self._settings = name, address, settings
        self.connection: PipelinedConnection | None = None
        self.pending: dict[int, _SubRange] = {}
        """Sub-ranges by the number of their pending request."""
        self.answer_bytes = _EXPECTED_ANSWER_BYTES
        self._progress_ms = self._received_ms = steady_ms()
        """When it last delivered something, and when it last sent anything."""
        self._due_ms = 0
        self._ranges = deque(ranges)
        self._retry: deque[_SubRange] = deque()
        """To be pulled (again): the rest of sub-ranges, and what was pending on a connection that failed."""
        self._waiting: list[_SubRange] = []
        """To be pulled again when they are due."""
        self._has_answered = False
        self._pull_limit = _INITIAL_PULLS
        self._stride = max(settings.max_messages, _FILTERED_STRIDE) if settings.is_filtered else settings.max_messages
        self._full_answers = 0
        self._failures = 0

    @property
    def has_work(self) -> bool:
        """Whether something is to be pulled or to be received."""
        return bool(self.pending or self._retry or self._waiting or self._ranges)

    def is_waiting(self, now_ms: int) -> bool:
        """Say whether a pull is due at a time of its own, whatever is received until then."""
        return bool(self._waiting) or self._due_ms > now_ms

    def next_due_ms(self, now_ms: int) -> int:
        """Return until when there is nothing to do but to receive."""
        if self.connection is None or self._due_ms > now_ms:
            return self._due_ms
        silent_ms = self._received_ms if self.pending else now_ms
        return min([silent_ms + self._settings.read_timeout_ms, *[sub_range.due_ms for sub_range in self._waiting]])

    def shift_deadlines(self, idle_ms: int) -> None:
        """Move deadlines by a time in which nothing was received from it because the caller was busy."""
        self._progress_ms += idle_ms
        self._received_ms += idle_ms

    def send_pulls(self, depth: int, room_bytes: int) -> int:
        """Send pulls up to the limits, without room only those that others wait for; return how many were sent."""
        now_ms = steady_ms()
        if now_ms < self._due_ms or not self.has_work:
            return 0
        connection = self.connection or self._connect()
        if connection is None:
            return 0
        if not (before := len(self.pending)):
            self._received_ms = now_ms
        depth = min(depth, self._pull_limit)
        while len(self.pending) < depth:
            sub_range = self._next_sub_range(now_ms, only_heads=room_bytes < self.answer_bytes)
            if sub_range is None:
                break
            room_bytes -= self.answer_bytes
            sub_range.requested = min(self._settings.max_messages, sub_range.end - sub_range.at)
            request = self._settings.make_request(sub_range.reader.queue, sub_range.at, sub_range.requested)
            self.pending[connection.enqueue(request)] = sub_range
        try:
            connection.flush(self._settings.read_timeout_ms)
        except TransportError as error:
            self.connection_failed(error)
            return 0
        return len(self.pending) - before

    def _next_sub_range(self, now_ms: int, *, only_heads: bool) -> _SubRange | None:
        """Return what to pull next: first what has to be repeated, then something new."""
        if self._waiting:
            due = [sub_range for sub_range in self._waiting if sub_range.due_ms <= now_ms]
            self._waiting = [sub_range for sub_range in self._waiting if sub_range.due_ms > now_ms]
            self._retry.extend(due)
        for sub_range in self._retry:
            if sub_range.is_head or not only_heads:
                self._retry.remove(sub_range)
                return sub_range
        while self._ranges and self._ranges[0].is_fully_split:
            self._ranges.popleft()
        for reader in self._ranges:
            # Before the first answer the right stride is not known: one sub-range of each range.
            may = (
                not reader.sub_ranges and reader.is_next if only_heads else self._has_answered or not reader.sub_ranges
            )
            if may and not reader.is_fully_split:
                return reader.split_next(self._stride)
        return None

    def receive(self) -> None:
        """Handle its answers: records go to the ranges."""
        if self.connection is None:
            return
        try:
            answers = self.connection.receive(self._settings.read_timeout_ms)
        except TransportError as error:
            self.connection_failed(error)
            return
        self._received_ms = steady_ms()
        if (
            not answers
            and self._received_ms - self._progress_ms > _ANSWER_TIMEOUT_FACTOR * self._settings.idle_timeout_ms
        ):
            self.connection_failed(TimedOut(f"{self.connection.address} took too long for one answer"))
        for answer in answers:
            sub_range = self.pending.pop(answer.opaque, None)
            if sub_range is not None:
                try:
                    self._handle_answer(sub_range, answer)
                except ProtocolError as error:
                    self._retry.append(sub_range)
                    self.connection_failed(error)
                    break
        if self.connection is not None and self._address not in (None, self.connection.address):
            self.connection_failed(ConnectionClosed(f"{self.name} is at {self._address} now"))

    def check_read_timeout(self) -> None:
        """Close the connection if it was silent for too long with pending pulls."""
        limit_ms = self._settings.read_timeout_ms
        if self.connection is not None and self.pending and steady_ms() - self._received_ms >= limit_ms:
            self.connection_failed(TimedOut(f"{self.connection.address} sent nothing for {limit_ms} ms"))

    def _handle_answer(self, sub_range: _SubRange, answer: Command) -> None:
        reader, at = sub_range.reader, sub_range.at
        verdict = _classify_answer(answer, at, is_filtered=self._settings.is_filtered, server=self.name)
        if verdict.outcome is _Outcome.ADVANCE:
            sub_range.add_records(verdict.offset, answer.body)
            if not self._settings.is_filtered:
                self._adapt_stride(sub_range, sub_range.at - at)
                if not sub_range.is_done and reader.unsplit(sub_range) and reader not in self._ranges:
                    self._ranges.appendleft(reader)
            self._record_progress(len(answer.body))
        elif verdict.outcome is _Outcome.SKIP:
            sub_range.mark_lost(verdict.offset, verdict.why)
            reader.skip_to(verdict.offset, verdict.why)
            self._record_progress(0)
        elif verdict.outcome is _Outcome.BUSY:
            self._pull_limit, self._failures = 1, max(1, self._failures)
            self._retry.append(sub_range)
            self._back_off(verdict.why)
            return
        else:
            self._retry_later(sub_range, verdict)
            return
        if not sub_range.is_done:
            self._retry.append(sub_range)

    def _record_progress(self, size: int) -> None:
        self._progress_ms, self._failures = steady_ms(), 0
        self.answer_bytes = max(size, self.answer_bytes - self.answer_bytes // 8)
        self._pull_limit = min(2 * self._pull_limit, _MAX_PULLS)
        self._has_answered = True

    def _adapt_stride(self, sub_range: _SubRange, got: int) -> None:
        """Adapt the stride to what the broker returned."""
        if got < sub_range.requested:
            # One large message among small ones makes one short answer: only the first answer sets the stride at once.
            self._stride = max(got, self._stride // 4 if self._has_answered else 1)
            self._full_answers = 0
        elif sub_range.requested >= self._stride:
            self._full_answers += 1
            if self._full_answers >= _FULL_ANSWERS_TO_GROW:
                self._stride, self._full_answers = min(2 * self._stride, self._settings.max_messages), 0

    def _retry_later(self, sub_range: _SubRange, verdict: _Verdict) -> None:
        """Pull again a little later; after a while it is a loss, or an error."""
        now_ms = steady_ms()
        if sub_range.stuck_ms is None:
            sub_range.stuck_ms = now_ms
        stuck_ms = now_ms - sub_range.stuck_ms
        is_settled = verdict.outcome is _Outcome.BEYOND_END and stuck_ms >= self._settings.settle_ms
        if is_settled and self._is_master(sub_range.reader):
            sub_range.mark_lost(sub_range.end, verdict.why)
            sub_range.reader.skip_to(sub_range.reader.end, verdict.why)
            return
        if stuck_ms >= self._settings.idle_timeout_ms:
            raise TimedOut(
                f"{self.name} gave nothing of {sub_range.reader.queue} at offset {sub_range.at} in {stuck_ms} ms "
                f"({verdict.why})",
                next_step="check the broker's log",
            )
        self._progress_ms = now_ms  # it answers
        sub_range.tries += 1
        sub_range.due_ms = now_ms + _RETRY_DELAYS_MS[min(sub_range.tries, len(_RETRY_DELAYS_MS) - 1)]
        self._waiting.append(sub_range)

    def connection_failed(self, error: SteelyardError) -> None:
        """Close the connection; pending pulls are repeated on the next one."""
        if self.connection is not None:
            self.connection.close()
            self._settings.pool.discard(self.connection.address, self._settings.config)
            self.connection = None
        self._retry.extendleft(reversed(self.pending.values()))
        self.pending.clear()
        self._pull_limit = min(self._pull_limit, _INITIAL_PULLS)
        self._back_off(error.what)

    def _back_off(self, why: str) -> None:
        now_ms = steady_ms()
        if now_ms < self._due_ms:
            return  # several pulls had the same answer
        silent_ms = now_ms - self._progress_ms
        if silent_ms >= self._settings.idle_timeout_ms:
            where = f" at {self._address}" if self._address else ""
            raise TimedOut(
                f"{self.name}{where} gave nothing for {silent_ms / 1000:.0f} s: {why}",
                next_step="check that it runs, and that the name servers know where",
            )
        self._due_ms = now_ms + _RETRY_DELAYS_MS[min(self._failures, len(_RETRY_DELAYS_MS) - 1)]
        self._failures += 1

    def _connect(self) -> PipelinedConnection | None:
        """Return a connection from the pool or a new one; None if that fails."""
        settings = self._settings
        try:
            if self._failures > 1 or self._address is None:
                self._update_address()
            if self._address is None:
                raise CannotConnect(f"the address of {self.name} is not known")
            self.connection = settings.pool.acquire(self._address, settings.config, timeout_ms=_CONNECT_TIMEOUT_MS)
        except TransportError as error:
            self.connection_failed(error)
        return self.connection

    def _is_master(self, reader: _RangeReader) -> bool:
        """Ask the name servers whether this address is the master's; if not, use the master's."""
        try:
            route = find_route(reader.queue.topic, self._settings.config, timeout_ms=_ROUTE_TIMEOUT_MS)
        except TopicNotFound:
            return True  # no route says otherwise
        except SteelyardError:
            return False
        masters = [place.master for place in route.brokers if place.name == self.name]
        if not masters or masters[0] == self._address:
            return True
        self._address = masters[0] or self._address
        return False

    def _update_address(self) -> None:
        """Ask the name servers for the broker's address; if they do not know it, the old one stays."""
        reader = self._ranges[0] if self._ranges else (*self._retry, *self._waiting)[0].reader
        try:
            route = find_route(reader.queue.topic, self._settings.config, timeout_ms=_ROUTE_TIMEOUT_MS)
        except SteelyardError:
            return
        for place in route.brokers:
            if place.name == self.name and place.addresses:
                self._address = place.addresses[min(place.addresses)]

    def close(self) -> None:
        """Return the connection to the pool, if nothing is pending on it."""
        connection, self.connection = self.connection, None
        if connection is not None:
            if self.pending:
                connection.close()
            else:
                self._settings.pool.release(connection, self._settings.config)


_BULK_GROUP = "steelyard-bulk"

_MIB = 1 << 20
_MAX_ANSWER_BYTES = 4 * _MIB
_MIN_ANSWER_BYTES = 256 * 1024
_HAS_SUBSCRIPTION_FLAG = 4


def fail_on_loss(lost: OffsetRange, why: str) -> None:
    """Raise MessagesLost."""
    raise MessagesLost(str(lost.queue), lost.start, lost.end, why=why)


def read_ranges(
    ranges: Sequence[OffsetRange],
    config: ClientConfig,
    addresses: Mapping[str, str],
    *,
    group: str = _BULK_GROUP,
    wanted: tuple[str, str] | None = None,
    depth: int = 16,
    max_messages: int = 1_000,
    ahead_bytes: int = 16 * _MIB,
    idle_timeout_ms: int = 30_000,
    read_timeout_ms: int = 10_000,
    settle_ms: int = 3_000,
    on_lost: _OnLost = fail_on_loss,
    pool: ConnectionPool | None = None,
) -> Generator[RecordChunk, None, None]:
    """Yield the records of ranges, one range after the other, each in the order of offsets.

    ``addresses`` are those of the brokers by name, as far as they are known. ``wanted`` is the language and text of
    a filter. ``depth`` pulls of ``max_messages`` are pending, about ``ahead_bytes`` are read ahead. A connection that
    is silent for ``read_timeout_ms`` is replaced; a broker that delivers nothing for ``idle_timeout_ms`` ends the read
    with TimedOut. ``on_lost`` gets what does not exist any more; if it returns, the rest is read. Offsets beyond
    the end of a queue count as lost after ``settle_ms``.
    """
    settings = _ReadSettings(
        config,
        shared_pool() if pool is None else pool,
        _request_factory(config, group, wanted, max(_MIN_ANSWER_BYTES, min(_MAX_ANSWER_BYTES, ahead_bytes // depth))),
        max_messages,
        filters_messages(wanted),
        idle_timeout_ms,
        read_timeout_ms,
        settle_ms,
    )
    readers = deque(_RangeReader(each, on_lost) for each in ranges if each)
    by_broker: dict[str, list[_RangeReader]] = {}
    for reader in readers:
        by_broker.setdefault(reader.queue.broker, []).append(reader)
    brokers = [_BrokerReader(name, addresses.get(name), each, settings) for name, each in by_broker.items()]
    try:
        _send_pulls(brokers, readers, depth, ahead_bytes)
        while working := [broker for broker in brokers if broker.has_work]:
            _receive(working)
            chunks = _take_chunks(readers)
            # The next pulls are sent before these are processed, so that their answers arrive meanwhile.
            _send_pulls(working, readers, depth, ahead_bytes)
            if chunks:
                began_ms = steady_ms()
                yield from chunks
                for broker in brokers:
                    broker.shift_deadlines(steady_ms() - began_ms)
    finally:
        for broker in brokers:
            broker.close()


def _take_chunks(readers: deque[_RangeReader]) -> list[RecordChunk]:
    """Return the records that are next in order, and remove finished ranges."""
    chunks: list[RecordChunk] = []
    while readers:
        chunks += readers[0].take_ready()
        if not readers[0].is_finished:
            break
        readers.popleft()
    return chunks


def _send_pulls(brokers: list[_BrokerReader], readers: deque[_RangeReader], depth: int, ahead_bytes: int) -> None:
    """Send more pulls, up to the limits."""
    if readers:
        readers[0].is_next = True
    room = ahead_bytes - sum([reader.held_bytes for reader in readers])
    room -= sum([len(broker.pending) * broker.answer_bytes for broker in brokers])
    share = max(1, depth // max(1, len(brokers)))
    for broker in brokers:
        # Half of the room is for the range that is next: otherwise those behind it would fill it, and wait.
        kept = 0 if readers and readers[0].queue.broker == broker.name else ahead_bytes // 2
        room -= broker.send_pulls(share, room - kept) * broker.answer_bytes


def _receive(brokers: list[_BrokerReader]) -> None:
    """Wait for an answer, or until a broker can be asked again."""
    now_ms = steady_ms()
    pending = {broker.connection: broker for broker in brokers if broker.connection is not None and broker.pending}
    if len(brokers) == len(pending) == 1 and not brokers[0].is_waiting(now_ms):
        brokers[0].receive()
        return
    due_ms = min([broker.next_due_ms(now_ms) for broker in brokers])
    if not pending:
        time.sleep(max(0, due_ms - now_ms) / 1000)
        return
    for connection in wait_readable(list(pending), due_ms - now_ms):
        pending[connection].receive()
    for broker in pending.values():
        broker.check_read_timeout()


def filters_messages(wanted: tuple[str, str] | None) -> bool:
    """Say whether a filter leaves anything out.

    >>> filters_messages(None), filters_messages(("TAG", "*")), filters_messages(("TAG", "paid"))
    (False, False, True)
    """
    if wanted is None:
        return False
    kind, expression = wanted
    return ExpressionType(kind) is ExpressionType.SQL92 or bool(Subscription("any", expression).tags)


def _request_factory(
    config: ClientConfig, group: str, wanted: tuple[str, str] | None, max_bytes: int
) -> Callable[[Queue, int, int], Command]:
    """Return the function that makes pulls of a queue."""
    namespace, credentials = ClientNamespace(config.namespace), config.credentials
    full_group = namespace.wrap(group)
    kind, expression = wanted or ("TAG", "*")

    def request(queue: Queue, offset: int, most: int) -> Command:
        topic, flag = namespace.wrap(queue.topic), _HAS_SUBSCRIPTION_FLAG
        header = PullMessage(
            full_group, topic, queue.queue_id, offset, most, flag, 0, 0, 0, expression, kind, max_bytes
        )
        command = Command(RequestCode.PULL_MESSAGE, header)
        return command if credentials is None else sign_command(command, credentials)

    return request
