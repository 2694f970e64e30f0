"""MemberRunner: runs the pure `MemberStateMachine` of one group member on a session.

What a server sends goes to `MemberProtocol`, its events to the state machine, and its actions back to the protocol and
out on a connection. Every message of a consumer passes here: one step for each answer, and what follows is sent at
once, in order. Route queries that a name server did not answer go to the next one. Everything runs on the session's
loop.

`ReplicaReads`: while a reader is far behind, its master sends it to a replica. A replica gets a heartbeat before the
first pull and every 30 s, or it would not know the subscription. One that fails is avoided for a while.

`PullRefusals` decides which refusals of pulls are permanent. A queue is at one broker, so no other can be asked. The
caller's faults stay; a broker's fault counts as permanent only after many refusals in a row.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, MutableMapping, Sequence

from msgspec import structs

from steelyard.balance.group.actions import (
    Action,
    Commit,
    HandleMessages,
    MemberLeft,
    MemberReport,
    QueryRoute,
    QueryStartOffset,
)
from steelyard.balance.group.claimed_queues import ClaimedQueues
from steelyard.balance.group.events import (
    CommitConfirmed,
    ConnectionOpened,
    Event,
    LeaveRequested,
    Pulled,
    PullFailed,
    RouteFailed,
    StartOffsetReceived,
    Tick,
)
from steelyard.balance.group.member import MemberStateMachine
from steelyard.balance.group.options import ConsumeMode, MemberOptions
from steelyard.balance.group.timers import NEVER_MS
from steelyard.client.broker_connection import BrokerConnection
from steelyard.client.consumer.received_message import ReceivedMessage
from steelyard.client.session import Session
from steelyard.errors import (
    Fault,
    ImpossibleEvent,
    MalformedRecord,
    Retry,
    ServerError,
    SteelyardError,
    error_for,
)
from steelyard.model import Queue, StoredMessage
from steelyard.net.clock import steady_ms
from steelyard.protocol.member_protocol import MemberProtocol, OutgoingCommand
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command

_HEARTBEAT_INTERVAL_MS = 30_000
_AVOID_MS = 30_000
"""How long to avoid a replica that failed."""
_ANSWER_MS = 3_000
_PULL_MS = 30_000


class ReplicaReads:
    """The replicas that one member pulls from; ``on_answer`` gets each answer, None if there was none."""

    def __init__(
        self, session: Session, protocol: MemberProtocol, on_answer: Callable[[OutgoingCommand, Command | None], None]
    ) -> None:
        self._session, self._protocol, self._on_answer = session, protocol, on_answer
        self._heartbeat_ms: dict[str, int] = {}
        """By address: when it got the last heartbeat."""
        self._avoided_until_ms: dict[str, int] = {}
        self._pulls: set[asyncio.Task[None]] = set()

    def try_pull(self, request: OutgoingCommand) -> bool:
        """Pull from a replica; False: pull from the master."""
        if request.server is None:
            return False
        address = self._session.broker_place(request.server).addresses.get(request.broker_id)
        if address is None or self._avoided_until_ms.get(address, 0) > steady_ms():
            return False
        pull = asyncio.get_running_loop().create_task(self._pull(request, request.server, address))
        self._pulls.add(pull)
        pull.add_done_callback(self._pulls.discard)
        return True

    def close(self) -> None:
        """Cancel all pulls."""
        for pull in self._pulls:
            pull.cancel()

    async def _pull(self, request: OutgoingCommand, broker: str, address: str) -> None:
        answer: Command | None = None
        try:
            await self._send_heartbeat(broker, address)
            answer = await self._session.connection_at(address).request(request.command, _PULL_MS)
        except SteelyardError:
            self._avoid(address)
        else:
            if answer.code not in _PULL_ANSWERS:
                self._avoid(address)
        if answer is not None:
            answer = structs.replace(answer, opaque=request.command.opaque)
        self._on_answer(request, answer)

    def _avoid(self, address: str) -> None:
        self._heartbeat_ms.pop(address, None)
        self._avoided_until_ms[address] = steady_ms() + _AVOID_MS

    async def _send_heartbeat(self, broker: str, address: str) -> None:
        now_ms = steady_ms()
        connection = self._session.connection_at(address)
        if (
            connection.is_open
            and now_ms - self._heartbeat_ms.get(address, -_HEARTBEAT_INTERVAL_MS) < _HEARTBEAT_INTERVAL_MS
        ):
            return
        await connection.request(self._protocol.slave_heartbeat(broker), _ANSWER_MS)
        self._heartbeat_ms[address] = now_ms


_PULL_ANSWERS = frozenset(
    {
        int(ResponseCode.SUCCESS),
        int(ResponseCode.PULL_NOT_FOUND),
        int(ResponseCode.PULL_RETRY_IMMEDIATELY),
        int(ResponseCode.PULL_OFFSET_MOVED),
    }
)


_PERMANENT_AFTER = 10


def pull_refusal(queue: Queue, answer: Command, server: str, why: str = "") -> SteelyardError:
    """Return the error in the answer to a pull; ``why`` is for a message that cannot be read."""
    if answer.code == ResponseCode.SUCCESS:
        what = f"the next message of {queue} is damaged{f': {why}' if why else ''}"
        return MalformedRecord(what, where="record", next_step="seek behind it, or reset the group's offset, to go on")
    return error_for(answer.code, answer.remark or "", server=server)


class PullRefusals:
    """The refusals of each queue since its last successful pull.

    >>> from steelyard.errors import error_for
    >>> refusals, queue = PullRefusals(), Queue("orders", "broker-a", 0)
    >>> [refusals.record(queue, error_for(code)) for code in (16, 25, 1)]
    [True, False, False]
    >>> [refusals.record(queue, error_for(1)) for _ in range(10)][-2:]
    [True, True]
    """

    def __init__(self) -> None:
        self._by_queue: dict[Queue, tuple[SteelyardError, int]] = {}

    def record(self, queue: Queue, error: SteelyardError) -> bool:
        """Record a refusal, and say whether it is permanent."""
        last, before = self._by_queue.get(queue, (error, 0))
        count = before + 1 if type(last) is type(error) else 1
        self._by_queue[queue] = error, count
        return _is_permanent(error, count)

    def clear(self, queue: Queue) -> SteelyardError | None:
        """Record a successful pull, and return the last refusal."""
        return self._by_queue.pop(queue, (None, 0))[0] if self._by_queue else None

    def permanent(self) -> dict[Queue, SteelyardError]:
        """Return the queues whose refusals are permanent."""
        return {queue: error for queue, (error, count) in self._by_queue.items() if _is_permanent(error, count)}


def _is_permanent(error: SteelyardError, count: int) -> bool:
    if not isinstance(error, ServerError) or error.fault is Fault.CALLER or error.retry is Retry.NEVER:
        return True
    return error.retry is Retry.ELSEWHERE and count >= _PERMANENT_AFTER


_log = logging.getLogger("steelyard.client")


class MemberRunner:
    """One member. It is the listener of its session."""

    def __init__(
        self,
        session: Session,
        options: MemberOptions,
        *,
        on_handle: Callable[[HandleMessages], None],
        on_report: Callable[[MemberReport], None],
        on_left: Callable[[], None],
        after_step: Callable[[], None] | None = None,
        offsets: MutableMapping[Queue, int] | None = None,
        message_type: type[StoredMessage] = ReceivedMessage,
        on_pulled: Callable[[Pulled], None] | None = None,
    ) -> None:
        self.options = options
        self.member = MemberStateMachine(options, steady_ms())
        self.protocol = MemberProtocol(options, session.instance, message_type)
        self._session = session
        self._on_handle, self._on_report, self._on_left = on_handle, on_report, on_left
        self._after_step = after_step
        """Called after the state machine has taken events."""
        self._on_pulled = on_pulled
        """Called with messages as they arrive."""
        self._is_broadcast = options.mode is ConsumeMode.BROADCAST
        self._offsets: MutableMapping[Queue, int] = {} if offsets is None else offsets
        self._replica_reads = ReplicaReads(session, self.protocol, self._replica_answered)
        self._pending_route_requests: list[QueryRoute] = []
        """Queries that a name server did not answer before its connection was lost."""
        self.refusals = PullRefusals()
        """The refusals of pulls."""
        self._name_server_failures = 0
        """Connections to name servers that were lost, or failed to open, since one answered."""
        self._events: deque[Event] = deque()
        self._is_stepping = False
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._has_sent = False
        """Whether a request was sent since the timer was armed: only then it may have to expire earlier."""
        self._has_ended = False

    def start(self) -> None:
        """Join the group."""
        session = self._session
        session.listener = self
        for name, connection in session.broker_connections().items():
            if connection.is_open:
                self._events.append(ConnectionOpened(name))
        self.feed_all([Tick()])

    def leave(self, drain_ms: int | None) -> None:
        """Finish handlers, release queues and leave the group; ``on_left`` is called at the end."""
        self.feed(LeaveRequested(drain_ms))

    def feed(self, event: Event) -> None:
        """Feed an event to the state machine, such as the result of a handler."""
        self.feed_all((event,))

    def close(self) -> None:
        """Stop at once, whatever is not done."""
        self._has_ended = True
        if self._session.listener is self:
            self._session.listener = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._replica_reads.close()

    def connection_opened(self, server: str | None) -> None:
        """Handle a new connection."""
        if server is not None:
            self.feed_all((ConnectionOpened(server),))
            return
        routes, self._pending_route_requests = self._pending_route_requests, []
        for action in routes:
            self._perform(action, steady_ms())
        self.feed_all(())

    def connection_lost(self, server: str | None) -> None:
        """Handle a lost connection, and with it lost answers."""
        lost = self.protocol.connection_lost(server)
        self.feed_all(self._retry_routes(lost) if server is None else lost)

    def command_received(self, server: str | None, command: Command) -> None:
        """Handle a command of a server."""
        if server is None:
            self._name_server_failures = 0
        decoded = self.protocol.decode(server, command, steady_ms(), self._claimed_queues)
        for note in decoded.notes:
            _log.warning("%s", note)
        for route in decoded.routes:
            self._session.update_brokers(route)
        for reply in decoded.replies:
            connection = self._connection(server)
            if connection is not None:
                connection.send(reply)
        for outgoing in decoded.requests:
            self._send(outgoing)
        for event in decoded.events:
            if isinstance(event, Pulled):
                self.refusals.clear(event.queue)
                if self._on_pulled is not None:
                    self._on_pulled(event)
            elif isinstance(event, PullFailed) and not event.is_busy:
                why = pull_refusal(event.queue, command, event.queue.broker, event.why)
                self.refusals.record(event.queue, why)
                if event.why:
                    self._on_report(MemberReport("unreadable", f"{event.queue} stands still: {why}", (event.queue,)))
        self.feed_all(decoded.events)

    def _retry_routes(self, lost: Sequence[Event]) -> list[Event]:
        """Keep unanswered queries for the next name server; give up once each was tried."""
        self._name_server_failures += 1
        self._pending_route_requests += [QueryRoute(event.topic) for event in lost if isinstance(event, RouteFailed)]
        if self._name_server_failures < len(self._session.config.name_servers):
            return []
        given_up, self._pending_route_requests = self._pending_route_requests, []
        return [RouteFailed(action.topic) for action in given_up]

    def _replica_answered(self, request: OutgoingCommand, answer: Command | None) -> None:
        if answer is None:
            self._events.extend(self.protocol.undelivered(request))
            self.feed_all(())
        else:
            self.command_received(request.server, answer)

    def _claimed_queues(self, about: Sequence[Queue]) -> ClaimedQueues:
        return self.member.claimed_queues(steady_ms(), about)

    def feed_all(self, events: Sequence[Event]) -> None:
        """Feed events to the state machine, perform its actions, and then what they caused."""
        waiting = self._events
        waiting.extend(events)
        if self._is_stepping:
            return
        self._is_stepping = True
        try:
            while waiting:
                now_ms = steady_ms()
                try:
                    actions = self.member.step(waiting.popleft(), now_ms)
                except ImpossibleEvent:
                    # A bug of ours with one queue: the other queues and events go on.
                    _log.exception("member %s: a bug of Steelyard, please report it", self.options.id)
                    continue
                for action in actions:
                    self._perform(action, now_ms)
        finally:
            self._is_stepping = False
        self._arm()
        if self._after_step is not None:
            self._after_step()

    def _perform(self, action: Action, now_ms: int) -> None:
        if isinstance(action, HandleMessages):
            self._on_handle(action)
        elif isinstance(action, MemberReport):
            self._on_report(action)
        elif isinstance(action, MemberLeft):
            self._on_left()
        elif isinstance(action, QueryRoute) and not self._session.name_server_connection.is_open:
            self._pending_route_requests.append(action)
        elif self._is_broadcast and isinstance(action, QueryStartOffset | Commit) and self._is_stored_locally(action):
            self._events.append(self._local_offset_event(action))
        else:
            outgoing = self.protocol.encode(action, now_ms)
            if outgoing is not None:
                self._send(outgoing)

    def _send(self, outgoing: OutgoingCommand) -> None:
        self._has_sent = True
        if outgoing.broker_id and self._replica_reads.try_pull(outgoing):
            return
        connection = self._connection(outgoing.server)
        if connection is None or not connection.send(outgoing.command):
            self._events.extend(self.protocol.undelivered(outgoing))

    def _connection(self, server: str | None) -> BrokerConnection | None:
        if server is None:
            return self._session.name_server_connection
        return self._session.find_broker_connection(server)

    def _is_stored_locally(self, action: QueryStartOffset | Commit) -> bool:
        return isinstance(action, Commit) or action.queue in self._offsets

    def _local_offset_event(self, action: QueryStartOffset | Commit) -> Event:
        queue = action.queue
        if isinstance(action, Commit):
            self._offsets[queue] = action.offset
            return CommitConfirmed(queue, action.offset)
        return StartOffsetReceived(queue, self._offsets[queue], stored=True)

    def _arm(self) -> None:
        due_ms = self.member.due_ms()
        if self._has_sent or self._timer is None:
            self._has_sent = False
            due_ms = min(due_ms, self.protocol.due_ms())
        if self._timer is not None:
            if self._timer_ms <= due_ms:
                return
            self._timer.cancel()
            self._timer = None
        if due_ms < NEVER_MS and not self._has_ended:
            wait_s = max(1, due_ms - steady_ms()) / 1000
            self._timer, self._timer_ms = self._loop.call_later(wait_s, self._timer_fired), due_ms

    def _timer_fired(self) -> None:
        self._timer = None
        now_ms = steady_ms()
        if self.protocol.due_ms() <= now_ms:
            overdue = self.protocol.expire(now_ms)
            self.feed_all(overdue.events)
            for server in overdue.silent_servers:
                connection = self._connection(server)
                if connection is not None:
                    connection.drop("it did not answer in time")
        self.feed_all((Tick(),) if self.member.due_ms() <= now_ms else ())
