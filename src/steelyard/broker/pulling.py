"""Pulling: may this group read this queue, with which filter, and what is there.

`permit` makes the checks, in the order that Apache makes them, and `look` reads and answers. Both are done for a pull
that comes in (requests/pull.py) and again for one that waited (waking.py): a topic may be gone by then.

What is better than with Apache: an expression that cannot be read is refused, and not taken for none at all; a client
that asks for many messages *and* for many bytes gets them; a smaller number of bytes is kept to as well.
"""

from msgspec import Struct

from steelyard.broker.filters.compiled import Filter, compile_filter
from steelyard.broker.parking import Ask
from steelyard.broker.refusals import refusal
from steelyard.broker.sifting import sift
from steelyard.broker.state import State
from steelyard.broker.topics import Topic
from steelyard.errors import SubscriptionUnreadable
from steelyard.store.slices import Slice
from steelyard.wire.bodies.groups import GroupSettings
from steelyard.wire.bodies.heartbeat import MessageModel
from steelyard.wire.codes import SERVER_VERSION, ResponseCode
from steelyard.wire.command import RESPONSE, Command, answer_to
from steelyard.wire.headers.pull import PullAnswer

__all__ = ["Permit", "check_kind", "look", "permit"]

_FOUND, _NOT_FOUND, _AGAIN, _MOVED = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)
_GROUP, _TOPIC, _BROADCAST = 2, 3, 4
"""Why a pull is forbidden, as Java counts the reasons."""

_FEW_PARTS = 8
"""More views than this are joined: a copy is then cheaper than a longer list for the socket."""

_TAG_KINDS = (None, "", "TAG")


class Permit(Struct, frozen=True, gc=False):
    """What a pull may read, and how."""

    topic: Topic
    group: GroupSettings
    filter: Filter


def permit(state: State, ask: Ask, request: Command, now_ms: int) -> Permit | Command:
    """Return what the pull may read, or the answer that it is forbidden; other refusals are raised."""
    group = state.groups.known(ask.group, now_ms)
    if not group.consume_enabled:
        return _forbidden(request, _GROUP, f"subscription group no permission, {ask.group}")
    topic = state.topics[ask.topic]
    if not topic.is_readable:
        return _forbidden(request, _TOPIC, f"the topic[{ask.topic}] pulling message is forbidden")
    if not 0 <= ask.queue_id < topic.read_queues:
        raise refusal(
            ResponseCode.INVALID_PARAMETER,
            f"queueId[{ask.queue_id}] is illegal, topic:[{ask.topic}] topicConfig.readQueueNums:[{topic.read_queues}]",
        )
    if ask.wanted is not None:
        return Permit(topic, group, ask.wanted)
    return _as_subscribed(state, ask, request, topic, group)


def _as_subscribed(state: State, ask: Ask, request: Command, topic: Topic, group: GroupSettings) -> Permit | Command:
    """Permit a pull that brought no filter of its own: its group's members told what they want."""
    members = state.members.group(ask.group)
    if members is None:
        raise refusal(
            ResponseCode.SUBSCRIPTION_NOT_EXIST,
            f"the consumer's group info not exist: no member of {ask.group} sent a heartbeat here yet",
        )
    if members.model is MessageModel.BROADCASTING and not group.broadcast_enabled:
        return _forbidden(request, _BROADCAST, f"the consumer group[{ask.group}] can not consume by broadcast way")
    subscription = members.subscriptions.get(ask.topic)
    if subscription is None:
        raise refusal(
            ResponseCode.SUBSCRIPTION_NOT_EXIST,
            f"the consumer's subscription not exist: the members of {ask.group} do not all subscribe to {ask.topic}",
        )
    if subscription.version < ask.version:
        raise refusal(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
    try:
        wanted = compile_filter(subscription.kind, subscription.expression)
    except SubscriptionUnreadable as error:
        raise refusal(
            ResponseCode.FILTER_DATA_NOT_EXIST, f"the group's expression cannot be read: {error.remark}"
        ) from None
    check_kind(state, subscription.kind)
    return Permit(topic, group, wanted)


def check_kind(state: State, kind: str | None) -> None:
    """Refuse a kind of filter that this broker was told not to have."""
    if kind not in _TAG_KINDS and not state.options.property_filter:
        raise refusal(
            ResponseCode.SYSTEM_ERROR, f"The broker does not support consumer to filter message by {str(kind)[:80]}"
        )


def _forbidden(request: Command, kind: int, remark: str) -> Command:
    return answer_to(request, ResponseCode.NO_PERMISSION, {"forbiddenType": str(kind)}, remark=remark)


def look(state: State, ask: Ask, permit: Permit, request: Command, start: int) -> Command:
    """Read from an offset on and answer; ``start`` is the asked one, or a later one if those before do not match."""
    store, key, queue_id, wanted = state.store, permit.topic.key, ask.queue_id, permit.filter
    body = b""
    parts: tuple[memoryview, ...] = ()
    reset = state.offsets.take_reset(ask.group, ask.topic, queue_id)
    if reset is not None:
        low, high = store.bounds(key, queue_id)
        code, status, following = _MOVED, "OFFSET_RESET", reset
    else:
        found = (
            store.read(key, queue_id, start, most=ask.most, most_bytes=ask.most_bytes, marks=wanted.marks)
            if wanted.matches is None
            else sift(store, key, queue_id, start, most=ask.most, most_bytes=ask.most_bytes, matches=wanted.matches)
        )
        low, high = found.low, found.high
        if found.count and start >= low:
            code, status, following = _FOUND, "FOUND", found.next_offset
            state.rates.pulled(ask.group, ask.topic, found.count, found.size)
            if len(found.parts) > _FEW_PARTS:
                body = b"".join(found.parts)
            else:
                parts = tuple(found.parts)
        else:
            code, status, following = _nothing(ask, wanted, found, start)
    state.offsets.note_pull(ask.group, ask.topic, queue_id, following)
    flags = permit.topic.settings.sys_flag, permit.group.sys_flag or 0
    fields = PullAnswer(0, following, low, high, None, *flags)
    return Command(
        code,
        fields,
        body,
        request.opaque,
        RESPONSE,
        status,
        SERVER_VERSION,
        header_type=request.header_type,
        parts=parts,
    )


def _nothing(ask: Ask, wanted: Filter, found: Slice, start: int) -> tuple[ResponseCode, str, int]:
    """Say why a read gave nothing, and where the asker goes on: code, Java's word for it, offset."""
    low, high = found.low, found.high
    if high == 0:
        return _MOVED if start else _NOT_FOUND, "NO_MESSAGE_IN_QUEUE", 0
    if start < low:
        return _MOVED, "OFFSET_TOO_SMALL", low
    if start > high:
        return _MOVED, "OFFSET_OVERFLOW_BADLY", high
    if start == high == ask.offset:
        return _NOT_FOUND, "OFFSET_OVERFLOW_ONE", start
    is_filtered = wanted.marks is not None or wanted.matches is not None
    return _AGAIN, "NO_MATCHED_MESSAGE" if is_filtered else "MESSAGE_WAS_REMOVING", found.next_offset
