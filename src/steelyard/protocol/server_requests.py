"""Requests of brokers to a client, on the client's own connection, and the responses.

40  NOTIFY_CONSUMER_IDS_CHANGED       the members of the group changed; oneway
307 GET_CONSUMER_RUNNING_INFO         the queues of this member: for a peer, which may name queues it waits for (then
                                      this member rebalances), or for an administrator's tool
220 RESET_CONSUMER_CLIENT_OFFSET      reset offsets; a table, or a list if the sender takes us for a C++ client
309 CONSUME_MESSAGE_DIRECTLY          handle this message now: one record in the body; the response has the outcome
221 GET_CONSUMER_STATUS_FROM_CLIENT   the offsets of this member in a topic

`serve_request` serves the first three, which need no user code, and refuses all others (3), so that the sender need not
wait. Left out: 39 (send.py) and 326 (request_reply.py). Responses carry the version of our client, not of a server.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

from msgspec import structs

from steelyard.balance.group.claimed_queues import ClaimedQueues
from steelyard.balance.group.events import Event, HandoverRequested, MembersChanged, OffsetReset
from steelyard.balance.group.options import ConsumeMode, MemberOptions
from steelyard.errors import MalformedBody, MalformedHeader, MalformedRecord, SteelyardError
from steelyard.model import Queue, StoredMessage, Subscription
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.heartbeat import SubscriptionBody
from steelyard.wire.bodies.members import (
    ConsumeDirectlyOutcome,
    ConsumeDirectlyResult,
    ConsumerRunningState,
    ProcessQueueState,
    RunningStateExtension,
)
from steelyard.wire.bodies.offsets import MemberOffsets, ResetOffsets, ResetOffsetsList
from steelyard.wire.codes import CLIENT_VERSION, ResponseCode
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command, response_to
from steelyard.wire.headers.common import GroupRequest
from steelyard.wire.headers.group import ConsumeMessageDirectly, GetConsumerRunningState, GroupTopicRequest, ResetOffset
from steelyard.wire.json_body import ByQueue
from steelyard.wire.stored_messages import decode_messages_as

_HELD, _DROPPED = ProcessQueueState(), ProcessQueueState(dropped=True)
_MAX_REMARK = 500

RunningStateExtender = Callable[[ConsumerRunningState, bool], ConsumerRunningState]
"""Adds what only a client knows to the running state; the flag requests the stacks of threads."""

ServedRequest = tuple[list[Event], Command | None]
"""The events of a request, and its response if it is not oneway."""


def serve_request(
    options: MemberOptions,
    subscriptions: Iterable[Subscription],
    broker: str,
    request: Command,
    claimed_queues: Callable[[Sequence[Queue]], ClaimedQueues],
    extend: RunningStateExtender | None = None,
) -> ServedRequest:
    """Serve a request of a broker; an unreadable one is refused."""
    events: list[Event] = []
    try:
        match request.code:
            case Code.NOTIFY_CONSUMER_IDS_CHANGED:
                is_own_group = request.header(GroupRequest).consumer_group == options.group
                return [MembersChanged(broker)] if is_own_group else [], None
            case Code.GET_CONSUMER_RUNNING_INFO:
                events, response = _serve_running_state(options, subscriptions, request, claimed_queues, extend)
            case Code.RESET_CONSUMER_CLIENT_OFFSET:
                events, response = _read_offset_resets(options, request), success_response(request)
            case _:
                response = refusal_response(request, "not known here", ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    except SteelyardError as error:
        events, response = [], refusal_response(request, str(error))
    return events, None if request.is_oneway else response


def _serve_running_state(
    options: MemberOptions,
    subscriptions: Iterable[Subscription],
    request: Command,
    claimed_queues: Callable[[Sequence[Queue]], ClaimedQueues],
    extend: RunningStateExtender | None,
) -> tuple[list[Event], Command]:
    header = request.header(GetConsumerRunningState)
    if header.consumer_group != options.group or header.client_id != options.id:
        who = f"{header.client_id[:80]} of group {header.consumer_group[:80]}"
        here = f"{options.id} of group {options.group}"
        return [], refusal_response(request, f"it is for {who}, and this is {here}")
    events: list[Event] = []
    waiting_for: tuple[Queue, ...] = ()
    if header.steelyard_wants:
        waiting_for = decode_body(tuple[Queue, ...], header.steelyard_wants.encode())
    if waiting_for or header.steelyard_asker:
        events.append(HandoverRequested(header.steelyard_asker, waiting_for))
    state = running_state(subscriptions, claimed_queues(waiting_for))
    if extend is not None:
        state = extend(state, header.jstack_enable or False)
    return events, success_response(request, encode_body(state))


def running_state(subscriptions: Iterable[Subscription], claimed_queues: ClaimedQueues) -> ConsumerRunningState:
    """Return the running state of a member: in Java's fields, with an extension for Steelyard members."""
    draining = set(claimed_queues.draining)
    return ConsumerRunningState(
        queues=ByQueue({queue: _DROPPED if queue in draining else _HELD for queue in claimed_queues.held}),
        steelyard=RunningStateExtension(
            held=claimed_queues.held,
            draining=claimed_queues.draining,
            wanted=claimed_queues.acquiring,
            departed=claimed_queues.departed,
            unresponsive=claimed_queues.unresponsive or None,
            may_hold=claimed_queues.may_hold or None,
            stopped=claimed_queues.stopped_queues or None,
        ),
        subscriptions=tuple(map(SubscriptionBody.of, subscriptions)),
    )


def _read_offset_resets(options: MemberOptions, request: Command) -> list[Event]:
    if request.header(ResetOffset).group != options.group:
        return []
    try:
        table = decode_body(ResetOffsets, request.body)
    except MalformedBody:
        table = decode_body(ResetOffsetsList, request.body).to_table()
    return [OffsetReset(queue, offset) for queue, offset in sorted(table.offsets.items()) if offset >= 0]


M = TypeVar("M", bound=StoredMessage)


def success_response(request: Command, body: bytes = b"") -> Command:
    """Return the response to a request that succeeded."""
    return structs.replace(response_to(request, body=body), version=CLIENT_VERSION)


def refusal_response(request: Command, why: str, code: int = ResponseCode.SYSTEM_ERROR) -> Command:
    """Return the response to a request that failed.

    >>> refusal_response(Command(309, opaque=7), "no handler is for that topic").remark
    'request 309 was not served: no handler is for that topic'
    """
    remark = f"request {request.code} was not served: {why[:_MAX_REMARK]}"
    return structs.replace(response_to(request, code, remark=remark), version=CLIENT_VERSION)


def single_message(make: type[M], request: Command, broker: str) -> M:
    """Return the one message in a request's body, of the type wanted; ``broker`` is its broker's name."""
    found = list(islice(decode_messages_as(make, request.body, broker), 2))
    if len(found) != 1:
        how_many = "no message is" if not found else "several messages are"
        raise MalformedRecord(f"{how_many} in its body, one was announced", where=f"request {request.code}")
    return found[0]


class DirectConsumeRequest(NamedTuple, Generic[M]):
    """A message that a member has to handle; ``client_id`` is the member, if the broker names it."""

    group: str
    client_id: str | None
    message: M


def read_direct_consume(make: type[M], request: Command, broker: str) -> DirectConsumeRequest[M]:
    """Decode the message to handle directly (309), as the type wanted."""
    header = request.header(ConsumeMessageDirectly)
    message = single_message(make, request, header.broker_name or broker)
    return DirectConsumeRequest(header.consumer_group, header.client_id, message)


def direct_consume_response(
    request: Command,
    outcome: ConsumeDirectlyOutcome,
    *,
    spent_ms: int,
    remark: str | None = None,
    is_orderly: bool = False,
) -> Command:
    """Return the outcome of a message that was handled directly (309); ``remark`` is what the handler raised.

    >>> direct_consume_response(Command(309), ConsumeDirectlyOutcome.SUCCESS, spent_ms=2).body
    b'{"autoCommit":true,"consumeResult":"CR_SUCCESS","order":false,"spentTimeMills":2}'
    """
    said = None if remark is None else remark[:_MAX_REMARK]
    result = ConsumeDirectlyResult(outcome=outcome, order=is_orderly, remark=said, spent_ms=spent_ms)
    return success_response(request, encode_body(result))


def read_offsets_request(request: Command) -> tuple[str, str]:
    """Return the group and the topic whose offsets are queried (221)."""
    header = request.header(GroupTopicRequest)
    if header.topic is None:
        raise MalformedHeader("the field topic is missing", where="question about offsets")
    return header.group, header.topic


def offsets_response(request: Command, offsets: Mapping[Queue, int]) -> Command:
    """Return the offset of a member in each of its queues (221).

    >>> offsets_response(Command(221), {Queue("orders", "a", 3): 41}).body
    b'{"consumerTable":{},"messageQueueTable":{{"brokerName":"a","queueId":3,"topic":"orders"}:41}}'
    """
    return success_response(request, encode_body(MemberOffsets(queues=ByQueue(offsets))))


_UNLIMITED = -1


def running_properties(
    options: MemberOptions, *, name_servers: str, started_ms: int, release: str, strategy: str
) -> dict[str, str]:
    """Return the options of a member, under the names by which Java's tools print them (307).

    >>> from steelyard.model import Subscription
    >>> options = MemberOptions("billing", "c1@sy1", {"orders": Subscription("orders")})
    >>> found = running_properties(options, name_servers="mq:9876", started_ms=0, release="1", strategy="STICKY")
    >>> found["PROP_CONSUMEORDERLY"], found["PROP_THREADPOOL_CORE_SIZE"]
    ('false', '20')
    """
    return {
        "PROP_NAMESERVER_ADDR": name_servers,
        "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
        "PROP_CONSUMEORDERLY": str(options.mode is ConsumeMode.ORDERLY).lower(),
        "PROP_THREADPOOL_CORE_SIZE": str(options.handler_limit),
        "PROP_CONSUMER_START_TIMESTAMP": str(started_ms),
        "PROP_CLIENT_VERSION": f"steelyard {release}",
        "allocateMessageQueueStrategy": strategy,
        "consumerGroup": options.group,
        "messageModel": "BROADCASTING" if options.mode is ConsumeMode.BROADCAST else "CLUSTERING",
        "pullBatchSize": str(options.pull_batch),
        "pullThresholdForQueue": str(options.queue_messages),
        "pullThresholdForTopic": str(options.topic_messages or _UNLIMITED),
    }
