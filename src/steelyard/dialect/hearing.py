"""Answers as events: each question has exactly one outcome, whatever comes back.

An answer that refuses, or that cannot be read, becomes the failure of its kind. What Apache's broker does not say is
None: no epochs, no holders, no owners; an answer of ours is known by the word ``steelyard`` in it.

38  A group without members is an error there (1, "no consumer for this group"), and an empty list here.
41  Apache grants what it lists; every other queue that was asked for is denied, by whom is not told.
14  22 means that nothing is stored, and a second question follows (starting.py). 4.9 does not know the field that asks
    for this, and says 0 for a young queue: which is looked into.
15  16 means that somebody else holds the queue: only our broker says so.
307 A member that is not ours holds what its table of queues shows and has not dropped. Apache says 1, "invoke consumer
    … Exception", if the line on which it knows the member is closed. Release 5 says the same after ten seconds in which
    it was too busy to ask, but nobody waits for that here.
"""

import re
from collections.abc import Mapping

from steelyard.balance import events
from steelyard.balance.actions import (
    AskGroup,
    AskHolders,
    AskOffset,
    AskRoute,
    AskUptime,
    Commit,
    Heartbeat,
    Lock,
    Pull,
    Renew,
    SendBack,
    Unlock,
)
from steelyard.balance.events import Event
from steelyard.dialect.asking import Question
from steelyard.dialect.starting import AskStored, FindStart, find_start, is_doubtful, stored_in
from steelyard.errors import MalformedBody
from steelyard.model import Queue, Route
from steelyard.model.names import RETRY
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.locks import LockAnswer
from steelyard.wire.bodies.members import ConsumerIds, MemberView
from steelyard.wire.bodies.routes import RouteBody
from steelyard.wire.bodies.running import RunningState
from steelyard.wire.bodies.shared import TextTable
from steelyard.wire.codes import STORED
from steelyard.wire.codes import ResponseCode as Answer
from steelyard.wire.command import Command
from steelyard.wire.headers.common import OffsetAnswer
from steelyard.wire.headers.group import HeartbeatAnswer

__all__ = ["failure", "outcome", "read_route", "uptime_ms"]

_NOBODY = "no consumer for this group"
_NOT_ONLINE = "not online"
_LINE_CLOSED = "invoke consumer "
_ACL_4_9 = "AclException"

_RUNTIME = re.compile(r"(\d[\d,. \u00a0\u202f]{0,20}) (day|hour|minute|second)s")
_UNIT_MS = {"day": 86_400_000, "hour": 3_600_000, "minute": 60_000, "second": 1_000}


def outcome(question: Question, answer: Command, group: str) -> Event | FindStart | AskStored | None:
    """Return what an answer means, or the question that follows from it; routes and pulls are read elsewhere.

    Raises only errors of the house's tree, for an answer that cannot be read: then `failure` is the outcome.
    """
    code = answer.code
    if isinstance(question, AskOffset | FindStart | AskStored):
        return _start(question, answer, group)
    if code == Answer.SUCCESS:
        return _good(question, answer)
    match question:
        case Commit() if code == Answer.NO_PERMISSION:
            return events.CommitRefused(question.queue, question.offset)
        case AskGroup() if code == Answer.SYSTEM_ERROR and (answer.remark or "").startswith(_NOBODY):
            return events.GroupSeen(question.broker, (), ticket=question.ticket)
        case AskHolders() if code == Answer.SYSTEM_ERROR and (answer.remark or "").endswith(_NOT_ONLINE):
            return events.HoldersFailed(question.broker, question.member, gone=True, ticket=question.ticket)
        case AskHolders() if code == Answer.SYSTEM_ERROR and (answer.remark or "").startswith(_LINE_CLOSED):
            return events.HoldersFailed(question.broker, question.member, closed=True, ticket=question.ticket)
        case Lock() | Renew() if _is_forbidden(answer):
            return events.LockFailed(question.broker, question.queues, forbidden=True)
        case SendBack() if question.unreadable and code in STORED:
            return events.SentBack(question.queue, question.generation, question.offset)
        case Heartbeat():
            return events.BeatFailed(question.broker, answer.remark or f"answered with {code}")
        case _:
            return failure(question)


def _good(question: Question, answer: Command) -> Event | None:
    match question:
        case Commit():
            return events.CommitConfirmed(question.queue, question.offset)
        case Heartbeat():
            return _beat(question, answer)
        case AskGroup():
            return _group(question, answer)
        case AskHolders():
            return _holders(question, answer)
        case Lock() | Renew():
            return _locks(question, answer)
        case Unlock():
            return events.Unlocked(question.broker, question.queues)
        case SendBack():
            return events.SentBack(question.queue, question.generation, question.offset)
        case AskUptime():
            table = decode_body(TextTable, answer.body).table
            return events.UptimeSeen(question.broker, uptime_ms(table.get("runtime", "")))
        case _:
            return None


def _start(
    question: AskOffset | FindStart | AskStored, answer: Command, group: str
) -> Event | FindStart | AskStored | None:
    """Return where a queue starts, or what has to be asked for that; None: a broker does not say what is stored."""
    queue = question.queue
    if isinstance(question, AskStored):
        if answer.code != Answer.SUCCESS:
            return None
        stored = stored_in(answer.body, group, queue)
        return events.OffsetSeen(queue, question.found if stored is None else stored, stored=stored is not None)
    if isinstance(question, AskOffset) and answer.code == Answer.QUERY_NOT_FOUND:
        return find_start(question)
    if answer.code != Answer.SUCCESS:
        return failure(question)
    offset = _offset(answer)
    if isinstance(question, AskOffset):
        if is_doubtful(queue, question.start, offset, answer.version):
            return FindStart(queue, question.start, in_doubt=True)
        return events.OffsetSeen(queue, offset, stored=True)
    if question.in_doubt and offset > 0:
        return AskStored(queue, offset)
    return events.OffsetSeen(queue, offset, stored=False)


def failure(question: Question) -> Event | None:
    """Return the event of a question that had no good answer; None for those that nobody waits for."""
    match question:
        case Pull():
            return events.PullFailed(question.queue, question.generation)
        case Commit():
            return events.CommitFailed(question.queue, question.offset)
        case Heartbeat():
            return events.BeatFailed(question.broker)
        case AskGroup():
            return events.GroupFailed(question.broker, question.ticket)
        case AskHolders():
            return events.HoldersFailed(question.broker, question.member, ticket=question.ticket)
        case AskOffset() | FindStart() | AskStored():
            return events.OffsetFailed(question.queue)
        case Lock() | Renew():
            return events.LockFailed(question.broker, question.queues)
        case Unlock():
            return events.UnlockFailed(question.broker, question.queues)
        case SendBack():
            return events.SendBackFailed(question.queue, question.generation, question.offset)
        case AskUptime():
            return events.UptimeSeen(question.broker, None)
        case AskRoute():
            return events.RouteFailed(question.topic)
        case _:
            return None


def read_route(question: AskRoute, answer: Command) -> Route | None:
    """Return the route in the answer of a name server, or None if it could not tell: an unknown topic is nowhere."""
    if answer.code == Answer.TOPIC_NOT_EXIST:
        return Route(question.topic, (), ())
    if answer.code != Answer.SUCCESS:
        return None
    return decode_body(RouteBody, answer.body).route(question.topic)


def _is_forbidden(answer: Command) -> bool:
    """Say whether a lock was refused for lack of permission: 16, or 4.9's exception."""
    return answer.code == Answer.NO_PERMISSION or _ACL_4_9 in (answer.remark or "")


def _beat(question: Heartbeat, answer: Command) -> Event:
    header = answer.header(HeartbeatAnswer)
    ours = header.steelyard is not None
    return events.BeatAnswered(question.broker, ours, header.heartbeat_ms if ours else None)


def _group(question: AskGroup, answer: Command) -> Event:
    body = decode_body(ConsumerIds, answer.body)
    word = body.steelyard
    if word is None:
        return events.GroupSeen(question.broker, body.ids, ticket=question.ticket)
    return events.GroupSeen(
        question.broker,
        body.ids,
        epoch=word.epoch,
        settled=word.settled,
        members=None if word.members is None else tuple(map(_member, word.members)),
        owners=None if word.owners is None else _owners(question.broker, word.owners, body.ids),
        queues=word.queues,
        hazards=word.hazards or (),
        ticket=question.ticket,
    )


def _member(view: MemberView) -> events.MemberFacts:
    return events.MemberFacts(view.id, bool(view.ours), bool(view.leaving), view.strategy, view.topics)


def _owners(broker: str, places: Mapping[str, tuple[int, ...]], ids: tuple[str, ...]) -> dict[Queue, str]:
    """Return the owner of each queue that has one; the wire has its place in the list of ids."""
    return {
        Queue(topic, broker, queue_id): ids[place]
        for topic, row in places.items()
        for queue_id, place in enumerate(row)
        if 0 <= place < len(ids)
    }


def _holders(question: AskHolders, answer: Command) -> Event:
    body = decode_body(RunningState, answer.body)
    word = body.steelyard
    filters = {each.topic: each.expression for each in body.subscriptions if not each.topic.startswith(RETRY)}
    if word is None:
        held = frozenset(queue for queue, state in body.queues.items() if not state.dropped)
        return events.HoldersSeen(
            question.broker, question.member, held, ticket=question.ticket, asked_ms=question.asked_ms, filters=filters
        )
    return events.HoldersSeen(
        question.broker,
        question.member,
        frozenset(word.held or ()) | frozenset(word.draining or ()),
        frozenset(word.wanted or ()),
        word.departed or {},
        question.ticket,
        word.unheard or {},
        word.may_hold or {},
        question.asked_ms,
        filters,
    )


def _offset(answer: Command) -> int:
    offset = answer.header(OffsetAnswer).offset
    if offset < 0:
        raise MalformedBody(f"the offset {offset} is below zero", where="answer about an offset")
    return offset


def _locks(question: Lock | Renew, answer: Command) -> Event:
    body = decode_body(LockAnswer, answer.body)
    word = body.steelyard
    epochs = None if word is None else word.epochs
    if epochs is not None and len(epochs) != len(body.granted):
        raise MalformedBody(f"{len(epochs)} epochs for {len(body.granted)} locks", where="answer to a lock")
    asked = set(question.queues)
    granted: dict[Queue, int | None] = {}
    for place, ref in enumerate(body.granted):
        queue = ref.queue
        if queue in asked:
            granted[queue] = None if epochs is None else epochs[place]
    holders = {(each.topic, each.queue_id): each.holder for each in (word.denied or ())} if word is not None else {}
    denied = {
        queue: holders.get((queue.topic, queue.queue_id)) or None for queue in question.queues if queue not in granted
    }
    return events.LocksAnswered(question.broker, granted, denied)


def uptime_ms(runtime: str) -> int | None:
    """Return how long a broker is up by its own words, to the second; its clock and ours need not agree.

    >>> uptime_ms("[ 0 days, 0 hours, 1 minutes, 36 seconds ]"), uptime_ms("since yesterday")
    (96000, None)
    """
    parts = _RUNTIME.findall(runtime[:200])
    if not parts:
        return None
    # Java prints a thousand with whatever its country puts between the digits.
    return sum(int("".join(filter(str.isdecimal, number))) * _UNIT_MS[unit] for number, unit in parts)
