"""Our member in a simulated world: the real state machine and protocol, connections to servers, handlers as timers.

It is a client without sockets. Each server has a `PersistentConnection`; commands from an older connection are ignored.
Brokers are learnt from routes and never forgotten. What a name server did not answer before its connection broke is
asked of the next one. Rebalances, assignments and queue states are recorded as facts when they change.

A handler takes as long as a function says, one message of its batch after the other; it dies with the process, and does
not end while that is paused. A broadcast member keeps its offsets in a table that outlives it, as a client keeps them
in a file.
"""

from collections import deque
from collections.abc import Callable, MutableMapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from simulator.facts import (
    AssignmentPlanned,
    Fact,
    HandlerEnded,
    HandlerStarted,
    MemberReported,
    ProcessStarted,
    QueueStateChanged,
    RebalanceBegan,
    Situation,
)
from simulator.network import SimulatedConnection
from simulator.process import PersistentConnection, Process
from simulator.scenario import UserHandler
from simulator.world import World
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
    Handled,
    LeaveRequested,
    RouteFailed,
    StartOffsetReceived,
    Tick,
)
from steelyard.balance.group.member import MemberStateMachine
from steelyard.balance.group.options import ConsumeMode, MemberOptions
from steelyard.balance.group.queue_states import QueueState
from steelyard.errors import ConfigurationError
from steelyard.model import Queue, StoredMessage, TopicRoute
from steelyard.protocol.member_protocol import MemberProtocol, OutgoingCommand
from steelyard.wire.command import Command

if TYPE_CHECKING:
    from simulator.world import Timer

_ABSENT = "absent"
"""The state of a queue that a member does not have."""


class _MemberFactRecorder:
    """Records what changed in a member after each of its steps."""

    def __init__(
        self,
        member: MemberStateMachine,
        options: MemberOptions,
        record: Callable[[Fact], None],
        now_ms: Callable[[], int],
    ) -> None:
        self._member, self._record, self._now_ms = member, record, now_ms
        self._id, self._group = options.id, options.group
        self._rounds = 0
        self._plan: tuple[Queue, ...] | None = None
        self._states: dict[Queue, QueueState] = {}

    def record_changes(self) -> None:
        """Record what changed since the last call."""
        member = self._member
        if member.rebalancer.timer.count != self._rounds:
            self._rounds = member.rebalancer.timer.count
            self._record(RebalanceBegan(at_ms=self._now_ms(), member=self._id, group=self._group))
        plan = member.plan
        if plan is not self._plan:
            if plan is not None and plan != self._plan:
                self._record_assignment(plan)
            self._plan = plan
        self._record_state_changes()

    def _record_assignment(self, plan: tuple[Queue, ...]) -> None:
        self._record(
            AssignmentPlanned(
                at_ms=self._now_ms(),
                member=self._id,
                group=self._group,
                queues=plan,
                strategy=self._member.rebalancer.assignment.strategy_name,
                members=self._member.rebalancer.assignment.members,
            )
        )

    def _record_state_changes(self) -> None:
        before, after = self._states, self._member.states()
        if after == before:
            return
        self._states = after
        for queue in sorted(before.keys() | after.keys()):
            old, new = before.get(queue, QueueState.ABSENT), after.get(queue, QueueState.ABSENT)
            if old is not new:
                self._record_state_change(queue, old, new)

    def _record_state_change(self, queue: Queue, before: QueueState, after: QueueState) -> None:
        self._record(
            QueueStateChanged(
                at_ms=self._now_ms(),
                member=self._id,
                group=self._group,
                queue=queue,
                before=_state_name(before),
                after=_state_name(after),
            )
        )


def _state_name(state: QueueState) -> str:
    return _ABSENT if state is QueueState.ABSENT else state.name


class MemberProcess(Process):
    """One member of one group. The name of its process is its client id."""

    def __init__(
        self,
        world: World,
        options: MemberOptions,
        host: str,
        name_servers: Sequence[str],
        handler: UserHandler,
        offsets: MutableMapping[Queue, int] | None = None,
    ) -> None:
        super().__init__(world, options.id, host)
        self.options, self.handler = options, handler
        self.member = MemberStateMachine(options, self.clock.steady_ms())
        self.protocol = MemberProtocol(options, f"{world.random.getrandbits(128):032x}")
        self.offsets: MutableMapping[Queue, int] = {} if offsets is None else offsets
        """Of a broadcast member."""
        self._recorder = _MemberFactRecorder(self.member, options, world.record, world.now_ms)
        self._name_server = PersistentConnection(self, None, name_servers)
        self._connections: dict[str | None, PersistentConnection] = {None: self._name_server}
        self._pending_routes: list[QueryRoute] = []
        """Route queries that were pending when the connection to a name server broke."""
        self._events: deque[Event] = deque()
        self._is_stepping = False
        self._timer: Timer | None = None
        self._timer_ms = 0

    def start(self) -> None:
        """Start it."""
        options = self.options
        self.world.record(
            ProcessStarted(
                at_ms=self.world.now_ms(),
                member=options.id,
                group=options.group,
                kind="ours",
                mode=options.mode.value,
                strategy=options.strategy.name,
                topics=tuple(sorted(options.subscriptions)),
            )
        )
        self._name_server.connect()
        self._feed([Tick()])

    def leave(self, drain_ms: int | None = 30_000) -> None:
        """Let it drain, unregister and end: later if it is paused, never if it is dead."""
        self.call_later(0, lambda: self._leave(drain_ms))

    def _leave(self, drain_ms: int | None) -> None:
        about = {"process": self.name}
        self.world.record(Situation(at_ms=self.world.now_ms(), name="a member is asked to leave", about=about))
        self._feed([LeaveRequested(drain_ms)])

    def process_died(self, how: str) -> None:
        """Drop pending events."""
        del how
        self._events.clear()

    # -- connections --------------------------------------------------------------------------------------------------

    def connection_opened(self, connection: SimulatedConnection) -> None:
        """Pass an open connection to the state machine, or send the route queries that waited for a name server."""
        persistent = self._connection_of(connection)
        if persistent is None:
            connection.close()
            return
        persistent.mark_opened()
        if persistent.server is not None:
            self._feed([ConnectionOpened(persistent.server)])
        else:
            queries, self._pending_routes = self._pending_routes, []
            for action in queries:
                self._execute(action)
            self._feed(())

    def command_received(self, connection: SimulatedConnection, command: Command) -> None:
        """Decode a command and pass it to the state machine."""
        persistent = self._connection_of(connection)
        if persistent is None:
            return
        persistent.mark_alive()
        decoded = self.protocol.decode(persistent.server, command, self._now_ms(), self._holdings)
        for route in decoded.routes:
            self._learn_route(route)
        for reply in decoded.replies:
            connection.send(reply)
        for outgoing in decoded.requests:
            self._send(outgoing)
        self._feed(decoded.events)

    def connection_closed(self, connection: SimulatedConnection) -> None:
        """Reconnect, and fail what was pending."""
        persistent = self._connection_of(connection)
        if persistent is not None:
            self._connection_lost(persistent)

    def _connection_of(self, connection: SimulatedConnection) -> PersistentConnection | None:
        """Return whose connection this is; None for one that was given up."""
        return next(
            (persistent for persistent in self._connections.values() if persistent.connection is connection), None
        )

    def _connection_lost(self, connection: PersistentConnection) -> None:
        was_open = connection.reconnect_later()
        lost = self.protocol.connection_lost(connection.server)
        if connection.server is None:
            self._feed(self._retry_routes(lost))
        elif was_open:
            self._feed(lost)

    def _retry_routes(self, lost: Sequence[Event]) -> list[Event]:
        """Keep pending route queries for the next name server; give up once each was tried."""
        self._pending_routes += [QueryRoute(event.topic) for event in lost if isinstance(event, RouteFailed)]
        if self._name_server.failures < len(self._name_server.addresses):
            return []
        failed, self._pending_routes = self._pending_routes, []
        return [RouteFailed(action.topic) for action in failed]

    def _learn_route(self, route: TopicRoute) -> None:
        for broker in route.brokers:
            address = broker.master or next(iter(broker.addresses.values()), None)
            if address is None:
                continue
            known = self._connections.get(broker.name)
            if known is not None:
                known.addresses = (address,)
            else:
                persistent = self._connections[broker.name] = PersistentConnection(self, broker.name, (address,))
                persistent.connect()

    # -- the state machine --------------------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return self.clock.steady_ms()

    def _holdings(self, queues: Sequence[Queue]) -> ClaimedQueues:
        return self.member.claimed_queues(self._now_ms(), queues)

    def _feed(self, events: Sequence[Event]) -> None:
        """Step the state machine with events and execute its actions, until neither brings more."""
        pending = self._events
        pending.extend(events)
        if self._is_stepping:
            return
        self._is_stepping = True
        while pending:
            actions = self.member.step(pending.popleft(), self._now_ms())
            self._recorder.record_changes()
            for action in actions:
                self._execute(action)
        self._is_stepping = False
        if self.is_alive:
            self._arm_timer()

    def _execute(self, action: Action) -> None:
        match action:
            case HandleMessages():
                self._run_handler(action, 0)
            case MemberReport():
                self._record_report(action)
            case MemberLeft():
                self._finish()
            case QueryStartOffset() | Commit() if self._is_stored_locally(action):
                self._events.append(self._execute_locally(action))
            case QueryRoute() if not self._name_server.is_open:
                self._pending_routes.append(action)
            case _:
                outgoing = self.protocol.encode(action, self._now_ms())
                if outgoing is not None:
                    self._send(outgoing)

    def _send(self, outgoing: OutgoingCommand) -> None:
        persistent = self._connections.get(outgoing.server)
        if persistent is None or not persistent.send(outgoing.command):
            self._events.extend(self.protocol.undelivered(outgoing))

    def _record_report(self, action: MemberReport) -> None:
        self.world.record(
            MemberReported(
                at_ms=self.world.now_ms(),
                member=self.options.id,
                group=self.options.group,
                kind=action.kind,
                sentence=action.sentence,
                queues=action.queues,
            )
        )

    def _finish(self) -> None:
        """Close the connections, so that what was sent still arrives, and end."""
        for server in self._connections.values():
            server.close()
        self.kill("left")

    # -- time ---------------------------------------------------------------------------------------------------------

    def _arm_timer(self) -> None:
        due_ms = min(self.member.due_ms(), self.protocol.due_ms())
        if self._timer is not None:
            if self._timer_ms <= due_ms:
                return
            self._timer.cancel()
        self._timer, self._timer_ms = self.call_later(max(1, due_ms - self._now_ms()), self._timer_fired), due_ms

    def _timer_fired(self) -> None:
        self._timer = None
        now_ms = self._now_ms()
        if self.protocol.due_ms() <= now_ms:
            expired = self.protocol.expire(now_ms)
            self._feed(expired.events)
            for server in expired.silent_servers:
                self._disconnect(server)
        self._feed([Tick()] if self.member.due_ms() <= now_ms else ())

    def _disconnect(self, server: str | None) -> None:
        persistent = self._connections[server]
        if persistent.connection is not None:
            persistent.connection.close()
            self._connection_lost(persistent)

    # -- broadcasting -------------------------------------------------------------------------------------------------

    def _is_stored_locally(self, action: QueryStartOffset | Commit) -> bool:
        if self.options.mode is not ConsumeMode.BROADCAST:
            return False
        return isinstance(action, Commit) or action.queue in self.offsets

    def _execute_locally(self, action: QueryStartOffset | Commit) -> Event:
        queue = action.queue
        if isinstance(action, Commit):
            self.offsets[queue] = action.offset
            return CommitConfirmed(queue, action.offset)
        return StartOffsetReceived(queue, self.offsets[queue], stored=True)

    # -- handlers -----------------------------------------------------------------------------------------------------

    def _run_handler(self, action: HandleMessages, index: int) -> None:
        """Start the handler of one message; the next one follows when it returns."""
        message = action.messages[index]
        if not isinstance(message, StoredMessage):
            raise ConfigurationError(
                f"{action.queue} brought a {type(message).__name__}", next_step="hand out what was pulled"
            )
        self.world.record(
            HandlerStarted(
                at_ms=self.world.now_ms(),
                member=self.options.id,
                group=self.options.group,
                queue=action.queue,
                offset=action.offsets[index],
                uid=_message_uid(message),
                generation=action.generation,
                epoch=action.fence,
                attempt=action.attempt,
                reconsume_times=message.reconsume_times,
            )
        )
        took_ms, ok = self.handler(message, action.attempt)
        self.call_later(took_ms, partial(self._handler_returned, action, index, message, ok))

    def _handler_returned(self, action: HandleMessages, index: int, message: StoredMessage, ok: bool) -> None:
        queue, generation, offset = action.queue, action.generation, action.offsets[index]
        self.world.record(
            HandlerEnded(
                at_ms=self.world.now_ms(),
                member=self.options.id,
                group=self.options.group,
                queue=queue,
                offset=offset,
                uid=_message_uid(message),
                ok=ok,
                generation=generation,
            )
        )
        if ok:
            self._feed([Handled(queue, generation, (offset,))])
        else:
            self._feed([Handled(queue, generation, (), (offset,), errors={offset: "it failed"})])
        rest = action.offsets[index + 1 :]
        if not rest:
            return
        if self.member.may_start(queue, generation, self._now_ms()):
            self._run_handler(action, index + 1)
        else:
            self._feed([Handled(queue, generation, (), skipped=rest)])


def _message_uid(message: StoredMessage) -> str:
    """Return the uid of a message: its body."""
    return message.body.decode(errors="replace")
