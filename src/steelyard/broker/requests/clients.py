"""Heartbeats and leaving: 34, 35, 46.

34 HEART_BEAT           a client and all its groups. Makes groups and their topics of retries where that is allowed,
                        registers members and producers, and keeps what our producers know of brokers. A group that may
                        not be made is passed over, as Apache does, so that one wrong group does not take the others off
                        the air; one of ours is told (26).
                        Java's second version has a fingerprint, and may leave its subscriptions out. The fingerprint is
                        kept by client and not by group, so that two clients that differ are not asked again for ever.
35 UNREGISTER_CLIENT    a client leaves a group, at once: on the line it is registered on, or if that is closed.
46 CHECK_CLIENT_CONFIG  a subscription by SQL92 is looked at before it is used.

Two live processes under one client id: one of ours that comes second is refused, since it can choose another id; others
are let in as on Apache's broker, are listed once, so that no share of the queues goes to an entry that nobody reads,
and are told of as a hazard (unless the options refuse them).
"""

from collections.abc import Mapping

from steelyard.broker import membership
from steelyard.broker.filters.compiled import compile_filter
from steelyard.broker.handlers import Handler
from steelyard.broker.members import Beat, Member
from steelyard.broker.names import check_topic
from steelyard.broker.producers import Producer
from steelyard.broker.refusals import refusal
from steelyard.broker.state import State
from steelyard.broker.wants import by_topic, shape_of
from steelyard.errors import GroupNotFound, ServerError
from steelyard.model import FilterKind
from steelyard.wire.bodies import decode_request
from steelyard.wire.bodies.heartbeat import ClientCheck, ConsumerBeat, GroupWord, Heartbeat, HeartbeatWord
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, answer_to
from steelyard.wire.headers.group import HeartbeatAnswer, Unregister
from steelyard.wire.limits import HEARTBEAT_BYTES
from steelyard.wire.peers import Peer

__all__ = ["HANDLERS"]

_LONGEST_ID = _LONGEST_GROUP = 255
_LONGEST_INSTANCE = 64
_LONGEST_STRATEGY = 64
_MOST_STOPS, _LONGEST_STOP = 8, 500
_LONGEST_LANGUAGE = 32
_MOST_GROUPS = 1_024
_MOST_TOPICS = 4_096

_OUR_BEAT_MS = 3_000
_SHORTEST_BEAT_MS, _LONGEST_BEAT_MS = 1_000, 30_000
_BEATS_OF_SILENCE = 4


def _heartbeat(state: State, request: Command, peer: Peer, now_ms: int) -> Command:
    body = decode_request(Heartbeat, request.body, most_bytes=HEARTBEAT_BYTES)
    _check(body)
    word = body.steelyard
    refused: ServerError | None = None
    ask_again = False
    state.producers.speaks(body.client_id, peer)
    for told in body.consumers:
        try:
            ask_again |= _consumer(state, request, body, told, peer, now_ms)
        except GroupNotFound as error:
            if word is not None:
                refused = error
        except ServerError as error:
            refused = error
    for each in body.producers:
        language = request.language[:_LONGEST_LANGUAGE]
        state.producers.heard(each.group, Producer(body.client_id, peer, language, request.version, now_ms))
    if body.producers:
        state.producers.told(peer, None if word is None else word.ledger, now_ms)
    if refused is not None:
        raise refused
    return answer_to(
        request,
        fields=HeartbeatAnswer(
            supports_v2=True,
            subscription_changed=ask_again if body.fingerprint else True,
            steelyard=None if word is None else "1",
            heartbeat_ms=None if word is None else _agreed_ms(word),
        ),
    )


def _consumer(state: State, request: Command, body: Heartbeat, told: ConsumerBeat, peer: Peer, now_ms: int) -> bool:
    """Register one group of a heartbeat; say whether the client has to send its subscriptions again."""
    settings = state.groups.known(told.group, now_ms)
    _check_topics(told)
    beat = _beat(state, request, body, told, peer)
    _refuse_a_rival(state, beat, now_ms)
    if state.options.refuse_unequal:
        _refuse_if_unequal(state, beat)
    state.topics.retry_topic(told.group, settings.retry_queues, now_ms)
    found = membership.heard(state, beat, now_ms)
    if beat.ours:
        word = _group_word(body, told.group)
        _take_claims(state, beat, word, now_ms)
        member = state.members.on_line(beat.peer, beat.group)
        if member is not None:
            _count_avoided(state, member, 0 if word is None or word.avoided is None else word.avoided)
    return found.ask_again


def _count_avoided(state: State, member: Member, told: int) -> None:
    """Count what a member avoided since it was heard last; what it did before it came here was counted then."""
    if member.avoided is not None and told > member.avoided:
        state.tallies.avoided.add(member.group, count=told - member.avoided)
    member.avoided = told


def _check(body: Heartbeat) -> None:
    if not 0 < len(body.client_id) <= _LONGEST_ID or not body.client_id.isprintable():
        raise refusal(
            ResponseCode.INVALID_PARAMETER,
            f"a client id has 1 to {_LONGEST_ID} printable letters, this one has {len(body.client_id)}",
        )
    if len(body.consumers) + len(body.producers) > _MOST_GROUPS:
        raise refusal(ResponseCode.INVALID_PARAMETER, f"a client may be in {_MOST_GROUPS} groups, not in more")
    if any(len(each.group) > _LONGEST_GROUP for each in body.producers):
        raise refusal(ResponseCode.INVALID_PARAMETER, f"a producer group has at most {_LONGEST_GROUP} letters")


def _check_topics(told: ConsumerBeat) -> None:
    if len(told.subscriptions) > _MOST_TOPICS:
        raise refusal(
            ResponseCode.INVALID_PARAMETER,
            f"group {told.group} wants {len(told.subscriptions)} topics, at most {_MOST_TOPICS} are allowed",
        )
    for each in told.subscriptions:
        check_topic(each.topic)


def _agreed_ms(word: HeartbeatWord) -> int:
    return max(_SHORTEST_BEAT_MS, min(word.heartbeat_ms or _OUR_BEAT_MS, _LONGEST_BEAT_MS))


def _group_word(body: Heartbeat, group: str) -> GroupWord | None:
    return None if body.steelyard is None or body.steelyard.groups is None else body.steelyard.groups.get(group)


def _beat(state: State, request: Command, body: Heartbeat, told: ConsumerBeat, peer: Peer) -> Beat:
    word, about = body.steelyard, _group_word(body, told.group)
    instance = None if word is None or word.instance is None else word.instance[:_LONGEST_INSTANCE]
    strategy = None if about is None or about.strategy is None else about.strategy[:_LONGEST_STRATEGY]
    return Beat(
        group=told.group,
        id=body.client_id,
        peer=peer,
        language=request.language[:_LONGEST_LANGUAGE],
        version=request.version,
        silence_ms=state.options.client_silence_ms if word is None else _BEATS_OF_SILENCE * _agreed_ms(word),
        kind=told.kind,
        model=told.model,
        start_from=told.start_from,
        subscriptions=None if body.fingerprint and body.without_subscriptions else by_topic(told.subscriptions),
        fingerprint=body.fingerprint or 0,
        ours=word is not None,
        instance=instance,
        leaving=word is not None and bool(word.leaving),
        strategy=strategy,
        stopped=() if about is None else tuple(each[:_LONGEST_STOP] for each in (about.stopped or ())[:_MOST_STOPS]),
    )


def _refuse_a_rival(state: State, beat: Beat, now_ms: int) -> None:
    if state.members.is_stale(beat):
        raise refusal(
            ResponseCode.SYSTEM_ERROR, f"{beat.id} has a newer line to this broker than {beat.peer.address}: use that"
        )
    if not beat.ours and not state.options.refuse_duplicates:
        return
    rival = state.members.rival(beat, now_ms)
    if rival is not None:
        raise refusal(
            ResponseCode.SYSTEM_ERROR,
            f"the client id {beat.id} is already in group {beat.group}, in another process at {rival.address}: "
            "give every member an id of its own",
        )


def _refuse_if_unequal(state: State, beat: Beat) -> None:
    group = state.members.group(beat.group)
    if group is None or beat.subscriptions is None:
        return
    shape = shape_of(beat.subscriptions)
    for other in group.members.values():
        if other.id != beat.id and other.shape is not None and other.shape != shape:
            topics = ", ".join(sorted({topic for topic, _, _ in other.shape ^ shape})[:5])
            raise refusal(
                ResponseCode.SYSTEM_ERROR,
                f"{beat.id} does not want the same as {other.id} of group {beat.group}, they differ in {topics}: "
                "give all members of a group equal subscriptions",
            )


def _take_claims(state: State, beat: Beat, about: GroupWord | None, now_ms: int) -> None:
    """Let a member go on with what it held before this broker was started again."""
    if about is None or about.held is None or state.locks.is_settled(beat.group, now_ms):
        return
    for name, queues in about.held.items():
        topic = state.topics.get(name)
        for held in queues if topic is not None else ():
            if topic is not None and 0 <= held.queue_id < topic.queues:
                state.locks.claim(beat.group, (name, held.queue_id), beat.id, held.epoch, now_ms)


def _unregister(state: State, request: Command, peer: Peer, now_ms: int) -> Command:
    header = request.header(Unregister)
    if header.producer_group:
        state.producers.leave(header.producer_group, peer)
    group = state.members.group(header.consumer_group or "")
    member = None if group is None else group.members.get(header.client_id)
    # A goodbye that comes late, from a line that was replaced, is not for the line that is there now.
    if member is not None and (peer.number in member.lines or not member.lines):
        _count_avoided(state, member, header.steelyard_avoided or 0)
        membership.left(state, member, peer, now_ms)
    return answer_to(request)


def _check_client(state: State, request: Command, _peer: Peer, _now_ms: int) -> Command:
    wanted = decode_request(ClientCheck, request.body).subscription
    if wanted is None or wanted.kind in ("", FilterKind.TAG.value):
        return answer_to(request)
    if not state.options.property_filter:
        raise refusal(
            ResponseCode.SYSTEM_ERROR,
            f"The broker does not support consumer to filter message by {wanted.kind[:80]}: it is switched off here",
        )
    compile_filter(wanted.kind, wanted.expression)
    return answer_to(request)


HANDLERS: Mapping[int, Handler] = {
    Code.HEART_BEAT: _heartbeat,
    Code.UNREGISTER_CLIENT: _unregister,
    Code.CHECK_CLIENT_CONFIG: _check_client,
}
