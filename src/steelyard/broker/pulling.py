"""Pulling: may this group read this queue, with which filter, and what is there.

`reach` and `choose` make the checks, in the order that Apache makes them, and `look` reads and answers. All are done
for a pull that comes in (requests/pull.py) and again for one that waited (waking.py): a topic may be gone by then. What
is forbidden (16) is answered with the reason as a field; all other refusals are raised.

What is better than with Apache: an expression that cannot be read is refused, and not taken for none at all; a client
that asks for many messages *and* for many bytes gets them; a smaller number of bytes is kept to as well.
"""

from msgspec import Struct

from steelyard.broker.filters.compiled import Filter, compile_filter
from steelyard.broker.members import MemberGroup
from steelyard.broker.parking import Ask
from steelyard.broker.refusals import refusal
from steelyard.broker.sifting import sift
from steelyard.broker.state import State
from steelyard.broker.topics import Topic
from steelyard.errors import SubscriptionUnreadable
from steelyard.model.names import MOVES_TOPIC
from steelyard.store.slices import Slice
from steelyard.wire.bodies.groups import GroupSettings, KeptSubscription
from steelyard.wire.bodies.heartbeat import MessageModel, SubscriptionBody
from steelyard.wire.codes import SERVER_VERSION, ResponseCode
from steelyard.wire.command import RESPONSE, Command, answer_to
from steelyard.wire.headers.pull import PullAnswer
from steelyard.wire.peers import Peer

__all__ = ["Reached", "choose", "compile_wanted", "look", "reach"]

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

_MOST_TOLD = 1_000
"""Of so many conditions that fail it is told: askers choose them."""


class Reached(Struct, frozen=True, gc=False):
    """A group that may read, and the topic that it may read from."""

    group: GroupSettings
    topic: Topic


def reach(state: State, group: str, topic: str, queue_id: int, request: Command, now_ms: int) -> Reached | Command:
    """Return what a pull is about, or the answer that it is forbidden."""
    settings = state.groups.known(group, now_ms)
    if not settings.consume_enabled:
        return _forbidden(request, _GROUP, f"subscription group no permission, {group}")
    found = state.topics[topic]
    if not found.is_readable:
        return _forbidden(request, _TOPIC, f"the topic[{topic}] pulling message is forbidden")
    if not 0 <= queue_id < found.read_queues:
        raise refusal(
            ResponseCode.INVALID_PARAMETER,
            f"queueId[{queue_id}] is illegal, topic:[{topic}] topicConfig.readQueueNums:[{found.read_queues}]",
        )
    return Reached(settings, found)


def choose(state: State, ask: Ask, group: GroupSettings, request: Command, peer: Peer) -> Filter | Command:
    """Return the filter of a pull: its own, or what its member wants, or its group; or the answer that it is forbidden.

    What the member on this line wants goes first, so that members that disagree do not take each other's filters away.
    """
    if ask.wanted is not None:
        return ask.wanted
    members = state.members.group(ask.group)
    if members is not None and members.model is MessageModel.BROADCASTING and not group.broadcast_enabled:
        return _forbidden(request, _BROADCAST, f"the consumer group[{ask.group}] can not consume by broadcast way")
    subscription: SubscriptionBody | KeptSubscription | None = _wanted_now(state, ask, members, peer)
    if subscription is None or subscription.version < ask.version:
        subscription = _wanted_before(state, ask, group) or subscription
    if subscription is None and members is None:
        raise refusal(
            ResponseCode.SUBSCRIPTION_NOT_EXIST,
            f"the consumer's group info not exist: no member of {ask.group} sent a heartbeat here yet",
        )
    if subscription is None:
        raise refusal(
            ResponseCode.SUBSCRIPTION_NOT_EXIST,
            f"the consumer's subscription not exist: no member of {ask.group} subscribes to {ask.topic}",
        )
    if subscription.version < ask.version:
        raise refusal(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
    try:
        return compile_wanted(state, subscription.kind, subscription.expression)
    except SubscriptionUnreadable as error:
        raise refusal(
            ResponseCode.FILTER_DATA_NOT_EXIST, f"the group's expression cannot be read: {error.remark}"
        ) from None


def _wanted_now(state: State, ask: Ask, members: MemberGroup | None, peer: Peer) -> SubscriptionBody | None:
    if members is None:
        return None
    member = state.members.on_line(peer, ask.group)
    own = None if member is None or member.subscriptions is None else member.subscriptions.get(ask.topic)
    # A member that pulls with a newer subscription than its last heartbeat told is served as its group is.
    newest = members.subscriptions.get(ask.topic)
    return own if own is not None and own.version >= ask.version else newest or own


def _wanted_before(state: State, ask: Ask, group: GroupSettings) -> KeptSubscription | None:
    """Return what the group wanted before the start, if that is new enough; whether it broadcast nobody knows."""
    kept = state.kept_subscriptions.get(ask.group, ask.topic)
    return kept if kept is not None and kept.version >= ask.version and group.broadcast_enabled else None


def compile_wanted(state: State, kind: str | None, expression: str | None) -> Filter:
    """Return the filter of an expression; refuse one that cannot be read, and conditions if they are switched off."""
    wanted = compile_filter(kind, expression)
    if wanted.matches is not None and not state.options.property_filter:
        raise refusal(
            ResponseCode.SYSTEM_ERROR, f"The broker does not support consumer to filter message by {str(kind)[:80]}"
        )
    return wanted


def _forbidden(request: Command, kind: int, remark: str) -> Command:
    return answer_to(request, ResponseCode.NO_PERMISSION, {"forbiddenType": str(kind)}, remark=remark)


def look(state: State, ask: Ask, reached: Reached, wanted: Filter, request: Command, peer: Peer, start: int) -> Command:
    """Read from an offset on and answer; ``start`` is the asked one, or a later one if those before do not match."""
    store, key, queue_id = state.store, reached.topic.key, ask.queue_id
    body = b""
    parts: tuple[memoryview, ...] = ()
    reset = state.offsets.take_reset(ask.group, ask.topic, queue_id, peer.number)
    if reset is not None:
        low, high = store.bounds(key, queue_id)
        code, status, following = _MOVED, "OFFSET_RESET", reset
    else:
        found = (
            store.read(key, queue_id, start, most=ask.most, most_bytes=ask.most_bytes, marks=wanted.marks)
            if wanted.matches is None
            else sift(
                store,
                key,
                queue_id,
                start,
                most=ask.most,
                most_bytes=ask.most_bytes,
                matches=wanted.matches,
                failed=lambda offset, error: _note_failed(state, ask, wanted, offset, error),
                weight=wanted.weight,
            )
        )
        low, high = found.low, found.high
        if found.count and start >= low:
            code, status, following = _FOUND, "FOUND", found.next_offset
            if ask.topic != MOVES_TOPIC:  # nobody sent these, and whoever looks on is not counted either
                state.rates.pulled(ask.group, ask.topic, found.count, found.size)
            if len(found.parts) > _FEW_PARTS:
                body = b"".join(found.parts)
            else:
                parts = tuple(found.parts)
        else:
            if ask.topic != MOVES_TOPIC:
                state.rates.missed()
            code, status, following = _nothing(ask, wanted, found, start)
    state.offsets.note_pull(ask.group, ask.topic, queue_id, following)
    flags = reached.topic.settings.sys_flag, reached.group.sys_flag or 0
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


def _note_failed(state: State, ask: Ask, wanted: Filter, offset: int, error: Exception) -> None:
    """Tell whoever runs the broker, once for each condition of a group, that its judging failed on a message."""
    told = state.failed_filters
    if (ask.group, ask.topic, wanted) not in told and len(told) < _MOST_TOLD:
        told.add((ask.group, ask.topic, wanted))
        state.notes.append(
            f"the condition of group {ask.group} on {ask.topic} cannot be judged for the message at queue "
            f"{ask.queue_id}, offset {offset}: {error!r:.200}; it and all like it do not match"
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
