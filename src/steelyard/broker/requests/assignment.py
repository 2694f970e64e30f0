"""Assignments made by the broker, for Java 5.x clients: 400, 401.

400 QUERY_ASSIGNMENT           the queues of a member, from the whole route, sorted and assigned as in Java, by AVG or
                               AVG_BY_CIRCLE. An empty list means: drop everything (the id is not in the group). No
                               list means: keep what you have. That is the response for an unknown strategy or topic,
                               and while the route is unknown: an assignment of our own queues alone would make members
                               drop the queues of every other broker.
401 SET_MESSAGE_REQUEST_MODE   PULL is accepted, and is the default. POP is refused: this broker does not serve it.

Left out: assignments with minimum moves, and queues withheld until their last owner has released them.
"""

from collections.abc import Mapping

from steelyard.balance.assignors import Average, AverageByCircle
from steelyard.broker.request_errors import invalid_parameter, request_error
from steelyard.broker.state import BrokerCoreState, RequestHandler
from steelyard.broker.validation import check_group, check_topic
from steelyard.errors import AllocationError, ConfigurationError
from steelyard.model import Queue, sort_names
from steelyard.model.reserved_names import RETRY_PREFIX
from steelyard.wire.bodies import decode_request_body, encode_body
from steelyard.wire.bodies.heartbeat import MessageModel
from steelyard.wire.bodies.queue_assignment import (
    AssignedQueue,
    AssignmentRequest,
    AssignmentResponse,
    MessageRequestMode,
    MessageRequestModeSetting,
)
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, Peer, response_to
from steelyard.wire.json_body import QueueRef

_STRATEGIES = {strategy.name: strategy for strategy in (Average(), AverageByCircle())}


def _assignment(state: BrokerCoreState, request: Command, _peer: Peer, _now_ms: int) -> Command:
    body = decode_request_body(AssignmentRequest, request.body)
    check_topic(body.topic)
    check_group(body.group)
    assigned = _assign(state, body)
    queues = None
    if assigned is not None:
        queues = tuple(AssignedQueue(queue=QueueRef.of(each), mode=MessageRequestMode.PULL) for each in assigned)
    return response_to(request, body=encode_body(AssignmentResponse(queues=queues)))


def _assign(state: BrokerCoreState, body: AssignmentRequest) -> list[Queue] | None:
    queues = _readable_queues(state, body)
    if queues is None or body.model is MessageModel.BROADCASTING:
        return queues
    group = state.consumers.group(body.group)
    strategy = _STRATEGIES.get(body.strategy or "")
    if group is None or strategy is None:
        return None
    members = sort_names(each.id for each in group.members.values() if not each.leaving)
    try:
        return list(strategy(body.group, body.client_id, queues, members))
    except AllocationError:
        return None


def _readable_queues(state: BrokerCoreState, body: AssignmentRequest) -> list[Queue] | None:
    """Return the queues of a topic on all brokers, or None; an unknown route is requested for the next time."""
    route = state.routes.get(body.topic)
    if route is not None:
        try:
            return list(route.readable_queues())
        except ConfigurationError:
            return None
    group = state.consumers.group(body.group)
    is_known = state.topics.get(body.topic) is not None or (group is not None and body.topic in group.subscriptions)
    if is_known and len(state.wanted_routes) < state.options.max_topics:
        state.wanted_routes.add(body.topic)
    return None


def _set_mode(state: BrokerCoreState, request: Command, _peer: Peer, now_ms: int) -> Command:
    body = decode_request_body(MessageRequestModeSetting, request.body)
    topic, group = body.topic or "", body.group or ""
    if topic.startswith(RETRY_PREFIX):
        raise request_error(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
    check_topic(topic)
    if state.topics.get(topic) is None:
        raise request_error(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
    state.groups.get_or_create(group, now_ms)
    if body.mode is not MessageRequestMode.PULL:
        raise invalid_parameter(f"this broker does not serve POP: leave group {group} in the mode PULL")
    return response_to(request)


HANDLERS: Mapping[int, RequestHandler] = {Code.QUERY_ASSIGNMENT: _assignment, Code.SET_MESSAGE_REQUEST_MODE: _set_mode}
