"""Plans made by the broker, for Java 5.x clients that ask for theirs: 400, 401.

400 QUERY_ASSIGNMENT           the queues of a member: those of the whole route, sorted and shared out as Java does, by
                               AVG or AVG_BY_CIRCLE. An empty list means: drop everything (the id is not in the group).
                               A missing list means: keep what you have. That is the answer for an unknown strategy or
                               topic, and while the route is not known: our own queues alone would be a wrong plan, and
                               a member that followed it would drop the queues of every other broker.
401 SET_MESSAGE_REQUEST_MODE   PULL is taken, and is what everybody has. POP is refused, since this broker does not
                               serve it and its members would get nothing.

Left out: plans that move least, and queues withheld until their last owner has let go.
"""

from collections.abc import Mapping

from steelyard.balance.allocate import Average, Circle
from steelyard.broker.handlers import Handler
from steelyard.broker.names import check_group, check_topic
from steelyard.broker.refusals import refusal
from steelyard.broker.state import State
from steelyard.errors import AllocationError, ConfigurationError
from steelyard.model import Queue, names_in_order
from steelyard.model.names import RETRY
from steelyard.wire.bodies import decode_request, encode_body
from steelyard.wire.bodies.assignment import (
    AssignedQueue,
    AssignmentAnswer,
    AssignmentRequest,
    RequestMode,
    RequestModeSetting,
)
from steelyard.wire.bodies.heartbeat import MessageModel
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, answer_to
from steelyard.wire.maps import QueueRef
from steelyard.wire.peers import Peer

__all__ = ["HANDLERS"]

_STRATEGIES = {strategy.name: strategy for strategy in (Average(), Circle())}


def _assignment(state: State, request: Command, _peer: Peer, _now_ms: int) -> Command:
    body = decode_request(AssignmentRequest, request.body)
    check_topic(body.topic)
    check_group(body.group)
    shared = _share(state, body)
    queues = None if shared is None else tuple(map(_assigned, shared))
    return answer_to(request, body=encode_body(AssignmentAnswer(queues=queues)))


def _assigned(queue: Queue) -> AssignedQueue:
    return AssignedQueue(queue=QueueRef.of(queue), mode=RequestMode.PULL)


def _share(state: State, body: AssignmentRequest) -> list[Queue] | None:
    queues = _readable(state, body)
    if queues is None or body.model is MessageModel.BROADCASTING:
        return queues
    group = state.members.group(body.group)
    strategy = _STRATEGIES.get(body.strategy or "")
    if group is None or strategy is None:
        return None
    members = names_in_order(each.id for each in group.members.values() if not each.leaving)
    try:
        return list(strategy(body.group, body.client_id, queues, members))
    except AllocationError:
        return None


def _readable(state: State, body: AssignmentRequest) -> list[Queue] | None:
    """Return the queues of a topic on all brokers, or None; an unknown route is looked up for the next time."""
    route = state.routes.get(body.topic)
    if route is not None:
        try:
            return list(route.readable())
        except ConfigurationError:
            return None
    group = state.members.group(body.group)
    is_real = state.topics.get(body.topic) is not None or (group is not None and body.topic in group.subscriptions)
    if is_real and len(state.wanted_routes) < state.options.max_topics:
        state.wanted_routes.add(body.topic)
    return None


def _set_mode(state: State, request: Command, _peer: Peer, now_ms: int) -> Command:
    body = decode_request(RequestModeSetting, request.body)
    topic, group = body.topic or "", body.group or ""
    if topic.startswith(RETRY):
        raise refusal(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
    check_topic(topic)
    if state.topics.get(topic) is None:
        raise refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
    state.groups.known(group, now_ms)
    if body.mode is not RequestMode.PULL:
        raise refusal(
            ResponseCode.INVALID_PARAMETER, f"this broker does not serve POP: leave group {group} in the mode PULL"
        )
    return answer_to(request)


HANDLERS: Mapping[int, Handler] = {Code.QUERY_ASSIGNMENT: _assignment, Code.SET_MESSAGE_REQUEST_MODE: _set_mode}
