"""Dead letters: what groups gave up, one letter in full, and resending.

A dead letter is identified by its offset id, since one that was given up again has its message id twice. For a resend
of all, the preview returns where they end, so that later ones are not included.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta, Struct

from steelyard.client.admin.dead_letters import (
    DeadLetterResend,
    dead_letter_error,
    dead_letter_topic,
    origin_message_id,
)
from steelyard.client.namespace import ClientNamespace
from steelyard.dashboard.api_routing import ApiRequest, action_route, preview_route, query_route
from steelyard.dashboard.context import DashboardContext
from steelyard.dashboard.message_view import BodyView, MessageRow, body_view, message_row
from steelyard.errors import ConfigurationError, MalformedRecord, NoMessage, NoRoute, SteelyardError, TopicNotFound
from steelyard.model import Queue, StoredMessage
from steelyard.model.reserved_names import DLQ_PREFIX

_NonNegative = Annotated[int, Meta(ge=0)]


class _DeadLetterRow(Struct, frozen=True):
    """A dead letter in a list."""

    id: str  # its offset id
    message: MessageRow
    topic: str | None  # the topic that it was first sent to
    error: str | None  # why its last attempt failed
    attempts: int
    born_ms: int


class _DeadLetterOrigin(Struct, frozen=True):
    """Where the original message is stored."""

    topic: str
    broker: str
    queue_id: int
    offset: int


class _DeadLetterResponse(Struct, frozen=True):
    """One dead letter in full."""

    row: _DeadLetterRow
    body: BodyView
    properties: dict[str, str]
    born_host: str
    origin: _DeadLetterOrigin | None
    resent: DeadLetterResend | None  # when its message was last resent
    command: str
    notes: tuple[str, ...]


class _DeadLetterRange(Struct, frozen=True):
    """The dead letters of one queue."""

    broker: str
    queue_id: _NonNegative
    start: _NonNegative
    end: _NonNegative


class _DeadLetterResendRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Which dead letters to resend: some by their offset ids, or all."""

    ids: list[str] = []
    all: bool = False
    ranges: list[_DeadLetterRange] | None = None  # of all: these ranges, as the preview returned them


class _DeadLetterResendResponse(Struct, frozen=True):
    """What would be resent, or was."""

    messages: int
    rows: tuple[_DeadLetterRow, ...]  # the first of them
    ranges: tuple[_DeadLetterRange, ...]
    notes: tuple[str, ...] = ()


def _dead_letter_row(letter: StoredMessage, names: ClientNamespace) -> _DeadLetterRow:
    """Return a dead letter as a list shows it."""
    return _DeadLetterRow(
        letter.offset_id or letter.message_id,
        message_row(letter.topic, letter),
        names.unwrap(dead_letter_topic(letter)) or None,
        dead_letter_error(letter),
        letter.reconsume_times,
        letter.born_ms,
    )


_POLL_MS = 3_000
_DEFAULT_LISTED = 100
_MAX_LISTED = 500
_MAX_CHOSEN = 200
_MAX_SENT = 5_000  # resent by one request; for more there is the command line, which shows its progress
_READ_MESSAGES = 200
_PREVIEWED = 20
_NO_ERROR_NOTE = (
    "it does not say why its last attempt failed, as members in Java and Apache brokers do not: see the members' logs"
)
_PUT_BACK_NOTE = "Apache brokers from 5.1.3 on move it straight back while ordered members of the group hold locks"


@query_route("/api/dead-letters")
async def _groups(context: DashboardContext, _: ApiRequest) -> dict[str, object]:
    found = await context.polls.latest("dead letters", _POLL_MS, lambda _: context.admin.dead_letters.counts())
    messages = sum(each.messages for each in found)
    return {"groups": found, "messages": messages, "command": context.command("dead-letters", "ls")}


@query_route("/api/groups/{group}/dead-letters")
async def _list_of_group(context: DashboardContext, request: ApiRequest) -> dict[str, object]:
    group, most = request.path("group"), request.integer("most", _DEFAULT_LISTED, minimum=1, maximum=_MAX_LISTED)
    rules = await context.admin.groups.configs(group)
    found = await context.admin.dead_letters.list(group, most=most, newest=True, opened=False)
    total = (await context.admin.topics.describe(f"{DLQ_PREFIX}{group}")).messages if found else 0
    retries = {each.retries for each in rules.values()}
    names = ClientNamespace(context.client_config.namespace)
    return {
        "group": group,
        "rows": [_dead_letter_row(dead, names) for dead in reversed(found)],
        "total": max(total, len(found)),
        # Retries before the group gives a message up; null if its brokers do not agree.
        "max_retries": retries.pop() if len(retries) == 1 else None,
        "command": context.command("dead-letters", "ls", group, "--count", most),
    }


@query_route("/api/groups/{group}/dead-letters/{id}")
async def _letter(context: DashboardContext, request: ApiRequest) -> _DeadLetterResponse:
    group, id_ = request.path("group"), request.path("id")
    dead = await context.admin.dead_letters.find(group, id_, opened=False)
    origin = await _find_origin(context, dead)
    (resent,) = await context.admin.dead_letters.resends([dead])
    notes = [] if dead_letter_error(dead) else [_NO_ERROR_NOTE]
    if origin is None:
        notes.append("the original message is not stored any more")
    return _DeadLetterResponse(
        _dead_letter_row(dead, ClientNamespace(context.client_config.namespace)),
        body_view(dead),
        dict(dead.properties),
        dead.born_host,
        origin,
        resent,
        context.command("dead-letters", "show", group, id_),
        tuple(notes),
    )


async def _find_origin(context: DashboardContext, dead: StoredMessage) -> _DeadLetterOrigin | None:
    """Find the original message, in the topic that it was sent to."""
    topic = ClientNamespace(context.client_config.namespace).unwrap(dead_letter_topic(dead))
    for id_ in dict.fromkeys(filter(None, (origin_message_id(dead), dead.message_id))):
        try:
            found = await context.admin.messages.find(id_, topic or None, opened=False)
        except (NoMessage, NoRoute, TopicNotFound, MalformedRecord):
            continue
        if found.topic == topic:
            return _DeadLetterOrigin(topic, found.queue.broker, found.queue.queue_id, found.offset)
    return None


@preview_route("/api/groups/{group}/dead-letters/preview")
async def _preview(context: DashboardContext, request: ApiRequest) -> _DeadLetterResendResponse:
    chosen = await _select(context, request)
    return await _resend_response(context, chosen, chosen.messages)


@action_route("/api/groups/{group}/dead-letters/resend")
async def _resend(context: DashboardContext, request: ApiRequest) -> _DeadLetterResendResponse:
    chosen, sent = await _select(context, request), 0
    try:
        async for dead in chosen.each(context):
            await context.admin.dead_letters.resend(dead)
            sent += 1
    except SteelyardError as error:
        if not sent:
            raise
        raise SteelyardError(
            f"{sent} of {chosen.messages} dead letters were resent before this failed: {error.what}",
            next_step="fix that, then resend the others",
        ) from error
    return await _resend_response(context, chosen, sent)


async def _resend_response(context: DashboardContext, chosen: "_Selection", messages: int) -> _DeadLetterResendResponse:
    names, rows = ClientNamespace(context.client_config.namespace), []
    async for dead in chosen.each(context):
        rows.append(_dead_letter_row(dead, names))
        if len(rows) == _PREVIEWED:
            break
    # Only our brokers record a rebalance history: so these are Apache's.
    notes = () if await context.admin.groups.has_rebalance_history() else (_PUT_BACK_NOTE,)
    return _DeadLetterResendResponse(messages, tuple(rows), chosen.ranges, notes)


@dataclass(frozen=True, slots=True)
class _Selection:
    """The dead letters to resend: some that were read already, or ranges of offsets."""

    group: str
    named: list[StoredMessage]
    ranges: tuple[_DeadLetterRange, ...]
    messages: int

    async def each(self, context: DashboardContext) -> AsyncIterator[StoredMessage]:
        """Iterate over them; ranges are read part by part, since they may be long."""
        for dead in self.named:
            yield dead
        for each in self.ranges:
            queue, at = Queue(f"{DLQ_PREFIX}{self.group}", each.broker, each.queue_id), each.start
            while at < each.end:
                part = await context.admin.dead_letters.list(
                    self.group, start=at, queue=queue, most=min(_READ_MESSAGES, each.end - at), opened=False
                )
                if not part:
                    break
                for dead in part:
                    if dead.offset < each.end:
                        yield dead
                at = part[-1].offset + 1


async def _select(context: DashboardContext, request: ApiRequest) -> _Selection:
    """Find the dead letters to resend, and set the command line."""
    group, wanted = request.path("group"), await request.body(_DeadLetterResendRequest)
    ids = list(dict.fromkeys(wanted.ids))
    if bool(ids) == wanted.all:
        raise ConfigurationError("no dead letters are selected", next_step="select some, or all")
    if len(ids) > _MAX_CHOSEN:
        raise ConfigurationError(
            f"{len(ids)} dead letters are selected", next_step=f"select {_MAX_CHOSEN} at most, or all"
        )
    words = [word for id_ in ids for word in ("--id", id_)] or ["--all"]
    request.command = context.command("dead-letters", "resend", group, *words, "--yes")
    if ids:
        named = [await context.admin.dead_letters.find(group, id_, opened=False) for id_ in ids]
        return _Selection(group, named, (), len(named))
    ranges = await _queue_ranges(context, group) if wanted.ranges is None else tuple(wanted.ranges)
    messages = sum(max(0, each.end - each.start) for each in ranges)
    if messages > _MAX_SENT:
        raise ConfigurationError(
            f"group {group} has {messages} dead letters, and the dashboard resends {_MAX_SENT} at a time",
            next_step=f"use the command line: {request.command}",
        )
    return _Selection(group, [], ranges, messages)


async def _queue_ranges(context: DashboardContext, group: str) -> tuple[_DeadLetterRange, ...]:
    if not await context.admin.dead_letters.queues(group):
        await context.admin.groups.configs(group)
        return ()
    view = await context.admin.topics.describe(f"{DLQ_PREFIX}{group}")
    return tuple(
        _DeadLetterRange(each.queue.broker, each.queue.queue_id, each.start, each.end)
        for each in view.queues
        if each.messages
    )


ROUTES = (_groups, _preview, _resend, _list_of_group, _letter)
