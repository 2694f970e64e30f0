"""Who is there, as Apache counts: 34, 35, 38, and 40 to members.

A heartbeat makes the group and its topic of retries, and is believed on whatever line it came, also one that is closed
by now. The answer of release 4.9 has no fields. Notices go to every line of the group, a joiner's own too: when a line
joins or the group's topics change, when somebody says goodbye, when a line closes; never when one is found silent.
Release 5 sends none to groups that broadcast. A group that nobody is in is error 1, not an empty list.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from steelyard.model.names import RETRY
from steelyard.sim.apache.registry import Group
from steelyard.sim.apache.release import Release
from steelyard.sim.apache.state import Handler, State
from steelyard.sim.facts import Registered, Unregistered
from steelyard.sim.line import Line
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.heartbeat import Heartbeat, MessageModel
from steelyard.wire.bodies.members import ConsumerIds
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import ONEWAY, Command
from steelyard.wire.headers.common import Group as GroupHeader
from steelyard.wire.headers.group import HeartbeatAnswer, Unregister

__all__ = ["HANDLERS", "line_closed", "notify", "take_out"]


def _beat(state: State, request: Command, line: Line, now_ms: int) -> Command:
    beat = decode_body(Heartbeat, request.body)
    for producer in beat.producers:
        state.producers.setdefault(producer.group, {})[line.number] = beat.client_id
    for consumer in beat.consumers:
        state.groups.add(consumer.group)
        retries = f"{RETRY}{consumer.group}"
        if state.topics.get(retries) is None:
            state.topics.own(retries)
            state.hands.changed()
        known = state.registry.get(consumer.group)
        if known is not None and beat.without_subscriptions and state.release is Release.V5:
            consumer = replace(consumer, subscriptions=tuple(known.subscriptions.values()))
        is_new = known is None or known.line_of(beat.client_id) is None
        is_back = line.number in state.lines and not (known and _is_reachable(state, known, beat.client_id))
        group, changed = state.registry.beat(line.number, beat.client_id, consumer, now_ms)
        if is_new or is_back:
            fact = Registered(at_ms=state.hands.at_ms(), broker=state.name, group=consumer.group, member=beat.client_id)
            state.hands.tell(fact)
        if changed:
            notify(state, group)
    if state.release is Release.V4:
        return state.answer(request)
    return state.answer(request, fields=HeartbeatAnswer(supports_v2=True, subscription_changed=True))


def _leave(state: State, request: Command, line: Line, _now_ms: int) -> Command:
    header = request.header(Unregister)
    if header.producer_group:
        state.producers.get(header.producer_group, {}).pop(line.number, None)
    if header.consumer_group:
        group, client = state.registry.leave(line.number, header.consumer_group)
        if group is not None:
            take_out(state, group, client, "goodbye")
            notify(state, group)
    return state.answer(request)


def _list(state: State, request: Command, _line: Line, _now_ms: int) -> Command:
    name = request.header(GroupHeader).consumer_group
    group = state.registry.get(name)
    if group is None:
        return state.answer(request, ResponseCode.SYSTEM_ERROR, remark=f"no consumer for this group, {name}")
    return state.answer(request, body=encode_body(ConsumerIds(ids=tuple(group.lines.values()))))


def line_closed(state: State, line: int) -> None:
    """Take everybody out who was on a line, and tell the others."""
    for producers in state.producers.values():
        producers.pop(line, None)
    for group, client in state.registry.drop(line):
        take_out(state, group, client, "closed")
        notify(state, group)


def take_out(state: State, group: Group, client: str | None, how: str) -> None:
    """Tell that a member is not counted any more, unless it has another line.

    One that is closed already is none: a late heartbeat left it on the list, and nobody can be asked there.
    """
    if client is not None and not _is_reachable(state, group, client):
        at_ms = state.hands.at_ms()
        state.hands.tell(Unregistered(at_ms=at_ms, broker=state.name, group=group.name, member=client, how=how))


def _is_reachable(state: State, group: Group, client: str) -> bool:
    return any(name == client and number in state.lines for number, name in group.lines.items())


def notify(state: State, group: Group) -> None:
    """Give notice to every line of a group."""
    if group.model is MessageModel.BROADCASTING and state.release is Release.V5:
        return
    notice = state.request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, GroupHeader(group.name), flag=ONEWAY)
    for number in group.lines:
        line = state.lines.get(number)
        if line is not None:
            line.say(notice)


HANDLERS: Mapping[int, Handler] = {
    RequestCode.HEART_BEAT: _beat,
    RequestCode.UNREGISTER_CLIENT: _leave,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: _list,
}
