"""Responses as events: each request has exactly one outcome, whatever the response is.

A response with an error, or one that cannot be read, becomes the failure of its kind. What Apache brokers do not report
is None: epochs, holders, owners. A Steelyard broker is recognized by the field ``steelyard``.

38  A group without members is an error there (1, "no consumer for this group"), and an empty list here.
41  Apache lists what it grants; every other requested queue is denied, and the holder is not reported.
14  22 means that no offset is stored, and a second query follows (offset_lookup.py). Release 4.9 does not know the
    field that requests this, and returns 0 for a young queue: that is checked.
15  16 means that another member holds the queue: only Steelyard brokers return it.
307 A foreign member holds the queues of its table that are not dropped. Apache returns 1, "invoke consumer …
    Exception", if the member's connection is closed. Release 5 returns the same after ten seconds in which it was too
    busy to ask, but that is past our timeout.
"""

import re
from collections.abc import Mapping

from steelyard.balance.group import events
from steelyard.balance.group.actions import (
    Commit,
    LockQueues,
    ProbeOwnership,
    PullMessages,
    QueryMemberList,
    QueryRoute,
    QueryStartOffset,
    QueryUptime,
    RenewLocks,
    SendBackMessage,
    SendHeartbeat,
    UnlockQueues,
)
from steelyard.balance.group.events import Event
from steelyard.errors import MalformedBody
from steelyard.model import Queue, TopicRoute
from steelyard.model.reserved_names import RETRY_PREFIX
from steelyard.protocol.member_requests import RequestAction
from steelyard.protocol.offset_lookup import (
    FindStartOffset,
    QueryStoredOffset,
    find_start_offset,
    is_offset_doubtful,
    stored_offset,
)
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.common import KVTable
from steelyard.wire.bodies.members import ConsumerIdList, ConsumerRunningState, MemberEntry
from steelyard.wire.bodies.queue_assignment import LockResponse
from steelyard.wire.bodies.topics import RouteBody
from steelyard.wire.codes import STORED_CODES
from steelyard.wire.codes import ResponseCode as Code
from steelyard.wire.command import Command
from steelyard.wire.headers.common import OffsetResponse
from steelyard.wire.headers.group import HeartbeatResponse

_NO_CONSUMER_REMARK = "no consumer for this group"
_NOT_ONLINE_REMARK = "not online"
_CONNECTION_CLOSED_REMARK = "invoke consumer "
_ACL_REMARK_4_9 = "AclException"

_RUNTIME = re.compile(r"(\d[\d,. \u00a0\u202f]{0,20}) (day|hour|minute|second)s")
_UNIT_MS = {"day": 86_400_000, "hour": 3_600_000, "minute": 60_000, "second": 1_000}


def decode_response(
    action: RequestAction, response: Command, group: str
) -> Event | FindStartOffset | QueryStoredOffset | None:
    """Return the event of a response, or the query that follows from it; routes and pulls are decoded elsewhere.

    A response that cannot be read raises a `SteelyardError`: then `failure_event` is the outcome.
    """
    code, remark = response.code, response.remark or ""
    if isinstance(action, QueryStartOffset | FindStartOffset | QueryStoredOffset):
        return _decode_start_offset(action, response, group)
    if code == Code.SUCCESS:
        return _decode_success(action, response)
    match action:
        case Commit() if code == Code.NO_PERMISSION:
            return events.CommitRefused(action.queue, action.offset)
        case QueryMemberList() if code == Code.SYSTEM_ERROR and remark.startswith(_NO_CONSUMER_REMARK):
            return events.MemberListReceived(action.broker, (), request_id=action.request_id)
        case ProbeOwnership() if code == Code.SYSTEM_ERROR:
            return events.OwnershipProbeFailed(
                action.broker,
                action.member,
                is_unknown=remark.endswith(_NOT_ONLINE_REMARK),
                request_id=action.request_id,
                is_connection_closed=remark.startswith(_CONNECTION_CLOSED_REMARK)
                and not remark.endswith(_NOT_ONLINE_REMARK),
            )
        case LockQueues() | RenewLocks() if _is_forbidden(response):
            return events.LockFailed(action.broker, action.queues, is_forbidden=True)
        case SendBackMessage() if action.as_copy and code in STORED_CODES:
            return events.SentBack(action.queue, action.generation, action.offset)
        case SendHeartbeat():
            return events.HeartbeatFailed(action.broker, response.remark or f"answered with {code}")
        case _:
            return failure_event(action)


def _decode_success(action: RequestAction, response: Command) -> Event | None:
    match action:
        case Commit():
            return events.CommitConfirmed(action.queue, action.offset)
        case SendHeartbeat():
            return _decode_heartbeat(action, response)
        case QueryMemberList():
            return _decode_member_list(action, response)
        case ProbeOwnership():
            return _decode_ownership(action, response)
        case LockQueues() | RenewLocks():
            return _decode_locks(action, response)
        case UnlockQueues():
            return events.Unlocked(action.broker, action.queues)
        case SendBackMessage():
            return events.SentBack(action.queue, action.generation, action.offset)
        case QueryUptime():
            table = decode_body(KVTable, response.body).table
            return events.UptimeReceived(action.broker, parse_uptime_ms(table.get("runtime", "")))
        case _:
            return None


def _decode_start_offset(
    action: QueryStartOffset | FindStartOffset | QueryStoredOffset, response: Command, group: str
) -> Event | FindStartOffset | QueryStoredOffset | None:
    """Return the start offset, or the query that it needs; None if a broker does not return its table of offsets."""
    queue = action.queue
    if isinstance(action, QueryStoredOffset):
        if response.code != Code.SUCCESS:
            return None
        stored = stored_offset(response.body, group, queue)
        return events.StartOffsetReceived(
            queue, action.found_offset if stored is None else stored, stored=stored is not None
        )
    if isinstance(action, QueryStartOffset) and response.code == Code.QUERY_NOT_FOUND:
        return find_start_offset(action)
    if response.code != Code.SUCCESS:
        return failure_event(action)
    offset = _decode_offset(response)
    if isinstance(action, QueryStartOffset):
        if is_offset_doubtful(queue, action.start, offset, response.version):
            return FindStartOffset(queue, action.start, is_zero_doubtful=True)
        return events.StartOffsetReceived(queue, offset, stored=True)
    if action.is_zero_doubtful and offset > 0:
        return QueryStoredOffset(queue, offset)
    return events.StartOffsetReceived(queue, offset, stored=False)


def failure_event(action: RequestAction) -> Event | None:
    """Return the event of a request that failed; None if it has none."""
    match action:
        case PullMessages():
            return events.PullFailed(action.queue, action.generation)
        case Commit():
            return events.CommitFailed(action.queue, action.offset)
        case SendHeartbeat():
            return events.HeartbeatFailed(action.broker)
        case QueryMemberList():
            return events.MemberListFailed(action.broker, action.request_id)
        case ProbeOwnership():
            return events.OwnershipProbeFailed(action.broker, action.member, request_id=action.request_id)
        case QueryStartOffset() | FindStartOffset() | QueryStoredOffset():
            return events.StartOffsetFailed(action.queue)
        case LockQueues() | RenewLocks():
            return events.LockFailed(action.broker, action.queues)
        case UnlockQueues():
            return events.UnlockFailed(action.broker, action.queues)
        case SendBackMessage():
            return events.SendBackFailed(action.queue, action.generation, action.offset)
        case QueryUptime():
            return events.UptimeReceived(action.broker, None)
        case QueryRoute():
            return events.RouteFailed(action.topic)
        case _:
            return None


def decode_route(action: QueryRoute, response: Command) -> TopicRoute | None:
    """Return the route of a name server's response, None if it failed; an unknown topic has an empty route."""
    if response.code == Code.TOPIC_NOT_EXIST:
        return TopicRoute(action.topic, (), ())
    if response.code != Code.SUCCESS:
        return None
    return decode_body(RouteBody, response.body).route(action.topic)


def _is_forbidden(response: Command) -> bool:
    """Say whether a lock was refused for lack of permission: 16, or 4.9's exception."""
    return response.code == Code.NO_PERMISSION or _ACL_REMARK_4_9 in (response.remark or "")


def _decode_heartbeat(action: SendHeartbeat, response: Command) -> Event:
    header = response.header(HeartbeatResponse)
    is_steelyard = header.steelyard is not None
    return events.HeartbeatAcknowledged(action.broker, is_steelyard, header.heartbeat_ms if is_steelyard else None)


def _decode_member_list(action: QueryMemberList, response: Command) -> Event:
    body = decode_body(ConsumerIdList, response.body)
    extension = body.steelyard
    if extension is None:
        return events.MemberListReceived(action.broker, body.ids, request_id=action.request_id)
    return events.MemberListReceived(
        action.broker,
        body.ids,
        epoch=extension.epoch,
        is_settled=extension.settled,
        members=None if extension.members is None else tuple(map(_member_facts, extension.members)),
        owners=None if extension.owners is None else _owners_by_queue(action.broker, extension.owners, body.ids),
        queue_counts=extension.queues,
        warnings=tuple(str(each.finding) for each in extension.findings or ()),
        request_id=action.request_id,
    )


def _member_facts(view: MemberEntry) -> events.MemberFacts:
    return events.MemberFacts(view.id, bool(view.ours), bool(view.leaving), view.strategy, view.topics)


def _owners_by_queue(broker: str, places: Mapping[str, tuple[int, ...]], ids: tuple[str, ...]) -> dict[Queue, str]:
    """Return the owner of each queue that has one; the wire has its index in the list of ids."""
    return {
        Queue(topic, broker, queue_id): ids[place]
        for topic, row in places.items()
        for queue_id, place in enumerate(row)
        if 0 <= place < len(ids)
    }


def _decode_ownership(action: ProbeOwnership, response: Command) -> Event:
    body = decode_body(ConsumerRunningState, response.body)
    extension = body.steelyard
    filters = {each.topic: each.expression for each in body.subscriptions if not each.topic.startswith(RETRY_PREFIX)}
    if extension is None:
        held = frozenset(queue for queue, state in body.queues.items() if not state.dropped)
        return events.OwnershipReported(
            action.broker, action.member, held, request_id=action.request_id, asked_ms=action.asked_ms, filters=filters
        )
    return events.OwnershipReported(
        action.broker,
        action.member,
        frozenset(extension.held or ()) | frozenset(extension.draining or ()),
        frozenset(extension.wanted or ()),
        extension.departed or {},
        action.request_id,
        extension.unresponsive or {},
        extension.may_hold or {},
        action.asked_ms,
        filters,
    )


def _decode_offset(response: Command) -> int:
    offset = response.header(OffsetResponse).offset
    if offset < 0:
        raise MalformedBody(f"the offset {offset} is below zero", where="answer about an offset")
    return offset


def _decode_locks(action: LockQueues | RenewLocks, response: Command) -> Event:
    body = decode_body(LockResponse, response.body)
    extension = body.steelyard
    epochs = None if extension is None else extension.epochs
    if epochs is not None and len(epochs) != len(body.granted):
        raise MalformedBody(f"{len(epochs)} epochs for {len(body.granted)} locks", where="answer to a lock")
    requested = set(action.queues)
    granted: dict[Queue, int | None] = {}
    for place, ref in enumerate(body.granted):
        queue = ref.queue
        if queue in requested:
            granted[queue] = None if epochs is None else epochs[place]
    holders = (
        {(each.topic, each.queue_id): each.holder for each in (extension.denied or ())} if extension is not None else {}
    )
    denied = {
        queue: holders.get((queue.topic, queue.queue_id)) or None for queue in action.queues if queue not in granted
    }
    return events.LocksAnswered(action.broker, granted, denied)


def parse_uptime_ms(runtime: str) -> int | None:
    """Return a broker's uptime, to the second; its clock and ours need not agree.

    >>> parse_uptime_ms("[ 0 days, 0 hours, 1 minutes, 36 seconds ]"), parse_uptime_ms("since yesterday")
    (96000, None)
    """
    parts = _RUNTIME.findall(runtime[:200])
    if not parts:
        return None
    # Java prints thousands with the separator of its locale.
    return sum(int("".join(filter(str.isdecimal, number))) * _UNIT_MS[unit] for number, unit in parts)
