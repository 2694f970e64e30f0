"""MemberProtocol: actions become commands, commands become events. It tracks unanswered requests, not connections.

The program that runs a member (a client on sockets, the simulator) passes each action to `encode` and sends the result,
passes each command of a server to `decode`, calls `connection_lost` when a connection is lost, and `expire` when due.
So every request has exactly one outcome: its response, its timeout, or the end of its connection. A later response is
dropped, and so is one on another connection, if `connection_lost` was called in between.

Time never goes backwards. Nothing that a server sends raises an error.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import Struct

from steelyard.balance.group.actions import (
    PullMessages,
    QueryRoute,
    QueryStartOffset,
    SendHeartbeat,
    UnregisterMember,
)
from steelyard.balance.group.claimed_queues import ClaimedQueues
from steelyard.balance.group.events import ConnectionLost, Event, RouteFailed, RouteReceived, StartOffsetReceived
from steelyard.balance.group.options import ConsumeMode, MemberOptions
from steelyard.balance.group.timers import NEVER_MS
from steelyard.errors import SteelyardError
from steelyard.model import Queue, StoredMessage, TopicRoute
from steelyard.protocol.member_requests import EncodedRequest, MemberRequests, RequestAction, all_subscriptions
from steelyard.protocol.member_responses import decode_response, decode_route, failure_event
from steelyard.protocol.offset_lookup import FindStartOffset, QueryStoredOffset, find_start_offset
from steelyard.protocol.pull import decode_pull
from steelyard.protocol.server_requests import RunningStateExtender, serve_request
from steelyard.wire.command import RESPONSE_FLAG, Command

_SILENT_AFTER_MS = 3_000
"""A broker that let a request time out, and another one this much later, and sent nothing in between, counts as dead.
One timeout is not enough: it may be slow, and to reconnect costs more than to wait. A name server has no grace."""

_MAX_OPAQUE = (1 << 30) - 1
"""Higher opaques are left to other requests on the same connections."""


class OutgoingCommand(Struct, frozen=True, gc=False):
    """A command to send. ``server`` is a broker's name, None for a name server."""

    server: str | None
    command: Command
    broker_id: int = 0
    """Which broker of that name: the master, or the slave that it suggested for this pull. If that one cannot be
    reached, the command goes to the master."""


class DecodedCommand(Struct, frozen=True):
    """What a command means: events for the member, commands to send, and routes with the addresses of brokers."""

    events: Sequence[Event] = ()
    requests: Sequence[OutgoingCommand] = ()
    """Requests that follow from a response."""
    replies: Sequence[Command] = ()
    """Responses to the server, on the connection of its request."""
    routes: Sequence[TopicRoute] = ()
    notes: Sequence[str] = ()
    """Messages for the log."""


class OverdueRequests(NamedTuple):
    """Requests that timed out, and servers that seem dead: process the events, then close and report those as lost."""

    events: list[Event]
    silent_servers: list[str | None]


class _PendingRequest(NamedTuple):
    server: str | None
    action: RequestAction
    due_ms: int


_NOTHING = DecodedCommand()


class MemberProtocol:
    """The protocol of one member with every broker and one name server."""

    def __init__(
        self, options: MemberOptions, instance: str, message_type: type[StoredMessage] = StoredMessage
    ) -> None:
        self._options = options
        self._message_type = message_type
        self.extend_running_state: RunningStateExtender | None = None
        """Extends the response to a query for the running state (307)."""
        self._requests = MemberRequests(options, instance)
        self._subscriptions = all_subscriptions(options)
        self._opaque = 0
        # By timeout, so that the first of each is the one due next.
        self._pending: dict[int, dict[int, _PendingRequest]] = {}
        # Queues whose master suggested a slave.
        self._suggested_broker_ids: dict[Queue, int] = {}
        # Brokers that did not return the table of all offsets: it may be too large.
        self._without_offset_table = set[str | None]()
        self._noted_topics = set[tuple[str, str]]()
        # By server: when the first request timed out since its last command.
        self._late_since_ms: dict[str | None, int] = {}

    def encode(self, action: RequestAction, now_ms: int) -> OutgoingCommand | None:
        """Return the command of an action; None for actions that need no server.

        The offsets of a broadcasting member are local: its client answers `QueryStartOffset` and `Commit` itself, and
        passes a `QueryStartOffset` here only if it has none: then the start position is looked up at once.
        """
        request: EncodedRequest | None
        if type(action) is PullMessages:
            request = self._requests.pull(action)
        else:
            if type(action) is QueryStartOffset and self._options.mode is ConsumeMode.BROADCAST:
                action = find_start_offset(action)
            request = self._requests.encode(action)
        if request is None:
            return None
        server, code, fields, body, timeout_ms = request
        self._opaque = opaque = self._opaque + 1 if self._opaque < _MAX_OPAQUE else 1
        if type(action) is not UnregisterMember:
            waiting = self._pending.get(timeout_ms)
            if waiting is None:
                waiting = self._pending[timeout_ms] = {}
            waiting[opaque] = _PendingRequest(server, action, now_ms + timeout_ms)
        command = Command(code, fields, body, opaque)
        if self._suggested_broker_ids and type(action) is PullMessages:
            return OutgoingCommand(server, command, self._suggested_broker_ids.get(action.queue, 0))
        return OutgoingCommand(server, command)

    def slave_heartbeat(self, broker: str) -> Command:
        """Return the heartbeat that a slave needs before the first pull, and again while it is pulled."""
        request = self._requests.heartbeat(SendHeartbeat(broker))
        return Command(request.code, request.fields, request.body)

    def undelivered(self, outgoing: OutgoingCommand) -> list[Event]:
        """Return the outcome of a command that could not be sent, because there is no connection."""
        found = self._pop_pending(outgoing.server, outgoing.command.opaque)
        return [] if found is None else self._failures([found])

    def _failures(self, lost: list[_PendingRequest]) -> list[Event]:
        self._record_missing_offset_table(lost)
        if self._suggested_broker_ids:
            # What a slave did not answer goes to the master next.
            for each in lost:
                if isinstance(each.action, PullMessages):
                    self._suggested_broker_ids.pop(each.action.queue, None)
        return [event for each in lost if (event := failure_event(each.action)) is not None]

    def _record_missing_offset_table(self, lost: list[_PendingRequest]) -> None:
        self._without_offset_table.update(each.server for each in lost if type(each.action) is QueryStoredOffset)

    def decode(
        self,
        broker: str | None,
        command: Command,
        now_ms: int,
        claimed_queues: Callable[[Sequence[Queue]], ClaimedQueues],
    ) -> DecodedCommand:
        """Return what a command of a server means; ``claimed_queues`` is called if another member probes this one."""
        if self._late_since_ms:
            self._late_since_ms.pop(broker, None)
        if not command.flag & RESPONSE_FLAG:
            if broker is None:
                return _NOTHING
            events, reply = serve_request(
                self._options, self._subscriptions.values(), broker, command, claimed_queues, self.extend_running_state
            )
            return DecodedCommand(events, replies=() if reply is None else (reply,))
        found = self._pop_pending(broker, command.opaque)
        if found is None:
            return _NOTHING
        action = found.action
        try:
            if type(action) is PullMessages:
                return DecodedCommand((self._decode_pull(action, command),))
            if type(action) is QueryRoute:
                return _decode_route(action, command)
            outcome = decode_response(action, command, self._options.group)
        except SteelyardError:
            outcome = None if type(action) is QueryStoredOffset else failure_event(action)
        if type(action) is QueryStoredOffset and outcome is None:
            return self._assume_stored(action)
        if isinstance(outcome, QueryStoredOffset) and broker in self._without_offset_table:
            return self._assume_stored(outcome)
        if isinstance(outcome, FindStartOffset | QueryStoredOffset):
            outgoing = self.encode(outcome, now_ms)
            return _NOTHING if outgoing is None else DecodedCommand(requests=(outgoing,))
        return _NOTHING if outcome is None else DecodedCommand((outcome,))

    def _assume_stored(self, action: QueryStoredOffset) -> DecodedCommand:
        """Take the 0 of an old broker for the committed offset, so that no message is skipped, and log it once."""
        topic, broker, _ = action.queue
        note = (
            f"{broker} does not report whether group {self._options.group} has offsets: it reads queues of {topic} "
            "from their first message, and not from its start position"
        )
        notes = () if (broker, topic) in self._noted_topics else (note,)
        self._noted_topics.add((broker, topic))
        return DecodedCommand((StartOffsetReceived(action.queue, 0, stored=True),), notes=notes)

    def _decode_pull(self, action: PullMessages, response: Command) -> Event:
        event, broker_id = decode_pull(action, response, self._subscriptions, self._message_type)
        if broker_id > 0:
            self._suggested_broker_ids[action.queue] = broker_id
        elif self._suggested_broker_ids:
            self._suggested_broker_ids.pop(action.queue, None)
        return event

    def _pop_pending(self, server: str | None, opaque: int) -> _PendingRequest | None:
        """Remove and return a request, if it was sent to this server."""
        for waiting in self._pending.values():
            found = waiting.get(opaque)
            if found is not None:
                if found.server != server:
                    return None
                del waiting[opaque]
                return found
        return None

    def connection_lost(self, broker: str | None) -> list[Event]:
        """Drop the unanswered requests of a lost connection; return what that means for the member.

        `ConnectionLost` is the outcome of all requests to a broker. The member knows no connections to name servers, so
        each request to one has failed.
        """
        lost: list[_PendingRequest] = []
        for waiting in self._pending.values():
            there = [opaque for opaque, each in waiting.items() if each.server == broker]
            lost += [waiting.pop(opaque) for opaque in there]
        self._late_since_ms.pop(broker, None)
        self._record_missing_offset_table(lost)
        return [ConnectionLost(broker)] if broker is not None else self._failures(lost)

    def expire(self, now_ms: int) -> OverdueRequests:
        """Drop requests that timed out."""
        late: list[_PendingRequest] = []
        for waiting in self._pending.values():
            while waiting:
                opaque = next(iter(waiting))
                if waiting[opaque].due_ms > now_ms:
                    break
                late.append(waiting.pop(opaque))
        silent = [server for server in dict.fromkeys(each.server for each in late) if self._is_silent(server, now_ms)]
        return OverdueRequests(self._failures(late), silent)

    def _is_silent(self, server: str | None, now_ms: int) -> bool:
        first_ms = self._late_since_ms.setdefault(server, now_ms)
        return server is None or now_ms - first_ms >= _SILENT_AFTER_MS

    def due_ms(self) -> int:
        """Return when `expire` is due."""
        due_ms = NEVER_MS
        for waiting in self._pending.values():
            for first in waiting.values():
                due_ms = min(due_ms, first.due_ms)
                break
        return due_ms


def _decode_route(action: QueryRoute, response: Command) -> DecodedCommand:
    route = decode_route(action, response)
    if route is None:
        return DecodedCommand((RouteFailed(action.topic),))
    return DecodedCommand((RouteReceived(action.topic, route.readable_queues()),), routes=(route,))
