"""Fetch: checks whether a group may read a queue, chooses the filter, and reads messages for a pull.

`resolve_target` and `choose_filter` make the checks, in Apache's order, and `read_messages` reads and answers. All run
for a new pull (requests/pull.py) and again for a held one (long_polling.py): a topic may be gone by then. A forbidden
pull (16) is answered with the reason as a field; all other refusals are raised. Better than Apache: an expression that
cannot be parsed is refused, and not taken for none; a client that requests many messages *and* many bytes gets them; a
smaller number of bytes is honoured as well.

A filter on properties has to see each message in the log. No record is decoded: its properties are its end, and are
found by three numbers of its head. One scan covers a limited number of messages and bytes. A message on which the
evaluation raises does not match: those behind it must not wait until a bug is fixed.
"""

from collections.abc import Callable, Iterator
from struct import Struct as Layout

from msgspec import Struct

from steelyard.broker.filters import MessageFilter, compile_filter
from steelyard.broker.held_pulls import PullSpec
from steelyard.broker.request_errors import invalid_parameter, request_error, system_error
from steelyard.broker.state import BrokerCoreState
from steelyard.broker.topics import BrokerTopic
from steelyard.errors import SubscriptionUnreadable
from steelyard.model.reserved_names import REBALANCE_HISTORY_TOPIC
from steelyard.store.queue_reader import ReadResult
from steelyard.store.store import Store
from steelyard.wire.bodies.groups import SavedSubscription, SubscriptionGroupConfig
from steelyard.wire.bodies.heartbeat import MessageModel, SubscriptionBody
from steelyard.wire.codes import SERVER_VERSION, ResponseCode
from steelyard.wire.command import RESPONSE_FLAG, Command, Peer, response_to
from steelyard.wire.headers.pull import PullMessageResponse
from steelyard.wire.record import HEAD_LAYOUTS, IPV6_BITS, V2_MAGIC

_FIRST_RECORDS = 64
_MAX_RECORDS = 800
"""As many as a read by tags considers. Where many match, the first few are enough."""
_MAX_SCANNED_BYTES = 8 * 1024 * 1024

_RECORD_COST = 150
_MAX_WORK = 16_000_000
"""Comparisons times bytes of properties, some forty milliseconds. The event loop waits while a filter is evaluated, and
clients choose its length."""

# Size, magic, offset in the queue, system flag.
_read_start = Layout(">ii12xq8xi").unpack_from
_read_body_bytes = Layout(">i").unpack_from
_read_topic_bytes = Layout(">h").unpack_from


def _scan_with_filter(
    store: Store,
    topic: bytes,
    queue_id: int,
    offset: int,
    *,
    max_messages: int,
    max_bytes: int,
    matches: Callable[[bytes], bool],
    on_error: Callable[[int, Exception], None],
    cost: int = 1,
) -> ReadResult:
    """Read messages from an offset on whose properties match. The first one always fits.

    ``on_error`` receives the offset of each message on which the evaluation raised, and the error. ``cost`` is that of
    one evaluation: long filters see few messages at a time.
    """
    scan = _FilterScan(max_messages, max_bytes, matches, on_error, cost)
    at, step, scanned, scanned_bytes = offset, max(_FIRST_RECORDS, max_messages), 0, 0
    while True:
        found = store.read(topic, queue_id, at, max_messages=step, max_bytes=_MAX_SCANNED_BYTES)
        for view in found.parts:
            stopped = scan.add_matching(view)
            if stopped is not None:
                return ReadResult(scan.parts, scan.count, scan.size, stopped, found.min_offset, found.max_offset)
        scanned += found.next_offset - max(at, found.min_offset)
        scanned_bytes += found.size
        at = found.next_offset
        if (
            at >= found.max_offset
            or scanned >= _MAX_RECORDS
            or scanned_bytes >= _MAX_SCANNED_BYTES
            or scan.count >= max_messages
        ):
            return ReadResult(scan.parts, scan.count, scan.size, at, found.min_offset, found.max_offset)
        step = min(4 * step, _MAX_RECORDS - scanned)


class _FilterScan:
    """The matching records so far, as runs of adjacent records."""

    def __init__(
        self,
        max_messages: int,
        max_bytes: int,
        matches: Callable[[bytes], bool],
        on_error: Callable[[int, Exception], None],
        cost: int,
    ) -> None:
        self._max_messages, self._max_bytes, self._cost = max_messages, max_bytes, cost
        self._matches, self._on_error = matches, on_error
        self._work = 0
        self.parts: list[memoryview] = []
        self.count = self.size = 0

    def add_matching(self, view: memoryview) -> int | None:
        """Add the matching records of a view; return the offset of the first that was not reached, or None."""
        run_start = run_end = 0
        stopped = None
        for offset, start, end, properties in _iter_records(view):
            if self._work > _MAX_WORK:
                stopped = offset
                break
            self._work += self._cost * (_RECORD_COST + len(properties))
            try:
                if not self._matches(properties):
                    continue
            except Exception as error:
                self._on_error(offset, error)
                continue
            if self.count == self._max_messages or (self.count and self.size + end - start > self._max_bytes):
                stopped = offset
                break
            if start != run_end:
                self._add(view, run_start, run_end)
                run_start = start
            run_end = end
            self.count += 1
            self.size += end - start
        self._add(view, run_start, run_end)
        return stopped

    def _add(self, view: memoryview, start: int, end: int) -> None:
        if end > start:
            self.parts.append(view[start:end])


def _iter_records(view: memoryview) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield the offset of each record in its queue, where it starts and ends in the view, and its properties."""
    at, limit = 0, len(view)
    while at < limit:
        size, magic, offset, sys_flag = _read_start(view, at)
        body_at = at + HEAD_LAYOUTS[sys_flag & IPV6_BITS].size
        topic_at = body_at + _read_body_bytes(view, body_at - 4)[0]
        if magic == V2_MAGIC:
            properties_at = topic_at + 4 + _read_topic_bytes(view, topic_at)[0]
        else:
            properties_at = topic_at + 3 + view[topic_at]
        end = at + size
        yield offset, at, end, bytes(view[properties_at:end])
        at = end


_FOUND, _NOT_FOUND, _RETRY_IMMEDIATELY, _OFFSET_MOVED = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)
_GROUP, _TOPIC, _BROADCAST = 2, 3, 4
"""Why a pull is forbidden, as Java numbers the reasons."""

_MAX_UNJOINED_PARTS = 8
"""More views than this are joined: a copy is then cheaper than a longer list for the socket."""

_MAX_REPORTED_FILTERS = 1_000
"""Failing filters that are reported: clients choose them."""


class PullTarget(Struct, frozen=True, gc=False):
    """A group, and the topic that it may read."""

    group: SubscriptionGroupConfig
    topic: BrokerTopic


def resolve_target(
    state: BrokerCoreState, group: str, topic: str, queue_id: int, request: Command, now_ms: int
) -> PullTarget | Command:
    """Return the target of a pull, or the response that it is forbidden."""
    settings = state.groups.get(group) or state.groups.get_or_create(group, now_ms)
    if not settings.consume_enabled:
        return _forbidden_response(request, _GROUP, f"subscription group no permission, {group}")
    found = state.topics.get(topic) or state.topics[topic]  # which refuses the request
    if not found.is_readable:
        return _forbidden_response(request, _TOPIC, f"the topic[{topic}] pulling message is forbidden")
    if not 0 <= queue_id < found.read_queues:
        raise invalid_parameter(
            f"queueId[{queue_id}] is illegal, topic:[{topic}] topicConfig.readQueueNums:[{found.read_queues}]"
        )
    return PullTarget(settings, found)


def choose_filter(
    state: BrokerCoreState, spec: PullSpec, group: SubscriptionGroupConfig, request: Command, peer: Peer
) -> MessageFilter | Command:
    """Return the filter of a pull: its own, its member's or its group's; or the response that it is forbidden.

    The member on this connection comes first, so that members that disagree do not lose their filters to each other.
    """
    if spec.own_filter is not None:
        return spec.own_filter
    members = state.consumers.group(spec.group)
    subscription: SubscriptionBody | SavedSubscription | None = None
    if members is not None:
        if members.model is MessageModel.BROADCASTING and not group.broadcast_enabled:
            return _forbidden_response(
                request, _BROADCAST, f"the consumer group[{spec.group}] can not consume by broadcast way"
            )
        member = state.consumers.on_connection(peer, spec.group)
        own = None if member is None or member.subscriptions is None else member.subscriptions.get(spec.topic)
        # A member that pulls with a newer subscription than that of its last heartbeat is served like its group.
        newest = members.subscriptions.get(spec.topic)
        subscription = own if own is not None and own.version >= spec.subscription_version else newest or own
    if subscription is None or subscription.version < spec.subscription_version:
        subscription = _saved_subscription(state, spec, group) or subscription
    if subscription is None and members is None:
        raise request_error(
            ResponseCode.SUBSCRIPTION_NOT_EXIST,
            f"the consumer's group info not exist: no member of {spec.group} has sent a heartbeat here yet",
        )
    if subscription is None:
        raise request_error(
            ResponseCode.SUBSCRIPTION_NOT_EXIST,
            f"the consumer's subscription not exist: no member of {spec.group} subscribes to {spec.topic}",
        )
    if subscription.version < spec.subscription_version:
        raise request_error(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
    try:
        return compile_subscription(state, subscription.kind, subscription.expression)
    except SubscriptionUnreadable as error:
        raise request_error(
            ResponseCode.FILTER_DATA_NOT_EXIST, f"the group's expression cannot be read: {error.remark}"
        ) from None


def _saved_subscription(
    state: BrokerCoreState, spec: PullSpec, group: SubscriptionGroupConfig
) -> SavedSubscription | None:
    """Return the group's subscription from before the start, if it is new enough; it may have been broadcasting."""
    saved = state.saved_subscriptions.get(spec.group, spec.topic)
    return (
        saved if saved is not None and saved.version >= spec.subscription_version and group.broadcast_enabled else None
    )


def compile_subscription(state: BrokerCoreState, kind: str | None, expression: str | None) -> MessageFilter:
    """Return the filter of an expression; refuse one that cannot be parsed, and SQL92 if it is switched off."""
    message_filter = compile_filter(kind, expression)
    if message_filter.matches is not None and not state.options.property_filter:
        raise system_error(f"The broker does not support consumer to filter message by {str(kind)[:80]}")
    return message_filter


def _forbidden_response(request: Command, kind: int, remark: str) -> Command:
    return response_to(request, ResponseCode.NO_PERMISSION, {"forbiddenType": str(kind)}, remark=remark)


def read_messages(
    state: BrokerCoreState,
    spec: PullSpec,
    target: PullTarget,
    message_filter: MessageFilter,
    request: Command,
    peer: Peer,
    start: int,
) -> Command:
    """Read and answer; ``start`` is the requested offset, or a later one if those before do not match."""
    store, key, queue_id = state.store, target.topic.name_bytes, spec.queue_id
    body = b""
    parts: tuple[memoryview, ...] = ()
    reset = state.offsets.pop_reset(spec.group, spec.topic, queue_id, peer.connection_id)
    if reset is not None:
        low, high = store.bounds(key, queue_id)
        code, status, next_offset = _OFFSET_MOVED, "OFFSET_RESET", reset
    else:
        found = (
            store.reader.read(key, queue_id, start, spec.max_messages, spec.max_bytes, message_filter.tags_codes)
            if message_filter.matches is None
            else _scan_with_filter(
                store,
                key,
                queue_id,
                start,
                max_messages=spec.max_messages,
                max_bytes=spec.max_bytes,
                matches=message_filter.matches,
                on_error=lambda offset, error: _report_failed_filter(state, spec, message_filter, offset, error),
                cost=message_filter.cost,
            )
        )
        low, high = found.min_offset, found.max_offset
        if found.count and start >= low:
            code, status, next_offset = _FOUND, "FOUND", found.next_offset
            if spec.topic != REBALANCE_HISTORY_TOPIC:  # the broker's own messages do not count as traffic
                state.traffic.record_pulled(spec.group, spec.topic, found.count, found.size)
            if len(found.parts) > _MAX_UNJOINED_PARTS:
                body = b"".join(found.parts)
            else:
                parts = tuple(found.parts)
        else:
            if spec.topic != REBALANCE_HISTORY_TOPIC:
                state.traffic.record_empty_pull()
            code, status, next_offset = _empty_result(spec, message_filter, found, start)
    state.offsets.record_pull(spec.group, spec.topic, queue_id, next_offset)
    flags = target.topic.settings.sys_flag, target.group.sys_flag or 0
    fields = PullMessageResponse(0, next_offset, low, high, None, *flags)
    return Command(
        code,
        fields,
        body,
        request.opaque,
        RESPONSE_FLAG,
        status,
        SERVER_VERSION,
        header_type=request.header_type,
        parts=parts,
    )


def _report_failed_filter(
    state: BrokerCoreState, spec: PullSpec, message_filter: MessageFilter, offset: int, error: Exception
) -> None:
    """Warn the operator, once per filter of a group, that its evaluation failed on a message."""
    reported = state.failed_filters
    if (spec.group, spec.topic, message_filter) not in reported and len(reported) < _MAX_REPORTED_FILTERS:
        reported.add((spec.group, spec.topic, message_filter))
        state.warnings.append(
            f"the filter of group {spec.group} on {spec.topic} cannot be evaluated for the message at queue "
            f"{spec.queue_id}, offset {offset}: {error!r:.200}; it and all like it do not match"
        )


def _empty_result(
    spec: PullSpec, message_filter: MessageFilter, found: ReadResult, start: int
) -> tuple[ResponseCode, str, int]:
    """Return code, Java's status and next offset of a pull that found nothing."""
    low, high = found.min_offset, found.max_offset
    if high == 0:
        return _OFFSET_MOVED if start else _NOT_FOUND, "NO_MESSAGE_IN_QUEUE", 0
    if start < low:
        return _OFFSET_MOVED, "OFFSET_TOO_SMALL", low
    if start > high:
        return _OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", high
    if start == high == spec.offset:
        return _NOT_FOUND, "OFFSET_OVERFLOW_ONE", start
    is_filtered = message_filter.tags_codes is not None or message_filter.matches is not None
    return _RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE" if is_filtered else "MESSAGE_WAS_REMOVING", found.next_offset
