"""The model of Java's push consumer, with its weaknesses.

A rebalance asks one broker at random who is in the group (without a list nothing is done, and it counts as balanced),
and applies the strategy to both sorted lists. A member that is not on the list drops everything. Queues that are not
its own any more are dropped at once, whatever is being handled; new ones are added at once, whoever may still handle
them. In an orderly group a lock comes first, and a queue is dropped only once its handler has returned, or later.

It commits without a response, every 5 seconds and with each pull. It sends heartbeats every 30 seconds; release 4.9
sends none on a new connection, so that a restarted broker does not know it for a while. It answers 307 as Java does,
without our extensions. Left out: several groups in a process, POP, lite pull, and the 15 minute limit of a handler.
"""

from collections.abc import MutableMapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from simulator.apache.java_client import (
    JavaOptions,
    JavaProcessQueue,
    JavaRemotingClient,
    JavaRequest,
    JavaSleep,
    JavaState,
    JavaThread,
    fetch_start_offset,
    heartbeat_command,
    lock_all_queues,
    lock_queue,
    send_heartbeats,
    subscription_bodies,
    unlock_all_queues,
    unlock_queue,
    unregister_client,
    update_route,
    update_routes,
)
from simulator.apache.java_consume import JavaConcurrentPool, JavaHandlerPool, JavaOrderlyPool, JavaPullLoop
from simulator.apache.release import ApacheRelease
from simulator.facts import AssignmentPlanned, ProcessStarted, RebalanceBegan
from simulator.network import SimulatedConnection
from simulator.process import Process
from simulator.scenario import UserHandler
from steelyard.balance.group.options import ConsumeMode
from steelyard.errors import AllocationError
from steelyard.model import Queue, sort_names
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.members import ConsumerIdList, ConsumerRunningState, ProcessQueueState
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import RESPONSE_FLAG, Command
from steelyard.wire.headers.common import GroupRequest
from steelyard.wire.json_body import ByQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.world import Timer, World

_LISTENER_STEP_MS = 50
_LISTENER_MS = {ApacheRelease.V4: 1_000, ApacheRelease.V5: 500}
"""How long a thread waits for the handler of a queue to return."""

_LATE_UNLOCK_MS = 20_000
"""When 4.9 unlocks a queue with messages left, and the age of a lock that release 5 gives up by force."""


class _JavaRebalance:
    """One rebalance of all topics. ``new_queues`` have to be pulled; the other attributes are its result."""

    def __init__(self, state: JavaState) -> None:
        self._state = state
        self.new_queues: list[JavaProcessQueue] = []
        self.assigned: dict[str, tuple[Queue, ...]] = {}
        """The assigned queues of each topic that could be rebalanced."""
        self.members: tuple[str, ...] = ()
        self.is_balanced = True
        self.is_lock_missing = False

    def run(self) -> JavaThread[None]:
        """Rebalance all topics."""
        for topic in self._state.options.all_topics:
            yield from self._rebalance_topic(topic)

    def _rebalance_topic(self, topic: str) -> JavaThread[None]:
        state = self._state
        route = state.routes.get(topic)
        if route is None:
            yield from update_route(state, topic)  # for the next rebalance: Java uses the route before it updates it
            return
        queues = route.readable_queues()
        if state.is_broadcasting:
            assigned: Sequence[Queue] = queues
        else:
            ids = yield from self._fetch_consumer_ids(topic)
            if ids is None:
                return
            self.members = tuple(ids)
            try:
                assigned = state.options.strategy(state.options.group, state.options.id, queues, ids)
            except AllocationError:
                self.is_balanced = False
                return
        self.assigned[topic] = tuple(assigned)
        if (yield from self._drop_queues(topic, assigned)) | (yield from self._add_queues(assigned)):
            state.subscription_versions[topic] = state.now_ms()
            yield from send_heartbeats(state)
        if {queue for queue in state.queues if queue.topic == topic} != set(assigned):
            self.is_balanced = False

    def _fetch_consumer_ids(self, topic: str) -> JavaThread[list[str] | None]:
        """Ask one broker, at random, who is in the group."""
        state = self._state
        addresses = [broker.master for broker in state.routes[topic].brokers if broker.master is not None]
        if not addresses:
            return None
        address = state.process.world.random.choice(addresses)
        command = state.request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, GroupRequest(state.options.group))
        response = yield JavaRequest(address, command)
        if response is None or response.code != ResponseCode.SUCCESS:
            return None
        return sort_names(decode_body(ConsumerIdList, response.body).ids)

    def _drop_queues(self, topic: str, assigned: Sequence[Queue]) -> JavaThread[bool]:
        state, changed = self._state, False
        for queue, process_queue in [each for each in state.queues.items() if each[0].topic == topic]:
            if queue not in assigned or process_queue.is_pull_expired(state.now_ms()):
                process_queue.is_dropped = True
                if (yield from self._remove_queue(process_queue)):
                    state.queues.pop(queue, None)
                    changed = True
        return changed

    def _remove_queue(self, process_queue: JavaProcessQueue) -> JavaThread[bool]:
        """Commit and remove a queue; return whether that was possible now."""
        state, queue = self._state, process_queue.queue
        is_v4 = state.release is ApacheRelease.V4
        state.persist(queue)
        if is_v4 or not state.is_orderly:
            state.offsets.pop(queue, None)
        if not state.is_orderly:
            return True
        is_forced = not is_v4 and state.now_ms() > process_queue.locked_ms + _LATE_UNLOCK_MS
        if not is_forced and not (yield from self._wait_for_listener(process_queue)):
            process_queue.unlock_tries += 1
            return False
        if is_v4 and process_queue.message_count:
            state.process.call_later(_LATE_UNLOCK_MS, lambda: unlock_queue(state, queue))
            return True
        state.persist(queue)
        state.offsets.pop(queue, None)
        process_queue.is_locked = is_v4 and process_queue.is_locked
        unlock_queue(state, queue)
        return True

    def _wait_for_listener(self, process_queue: JavaProcessQueue) -> JavaThread[bool]:
        """Wait a short time for the handler of a queue to return."""
        waited_ms, max_ms = 0, _LISTENER_MS[self._state.release]
        while process_queue.is_in_listener and waited_ms < max_ms:
            yield JavaSleep(_LISTENER_STEP_MS)
            waited_ms += _LISTENER_STEP_MS
        return not process_queue.is_in_listener

    def _add_queues(self, assigned: Sequence[Queue]) -> JavaThread[bool]:
        state, changed = self._state, False
        for queue in assigned:
            if queue in state.queues:
                continue
            if state.is_orderly and not (yield from lock_queue(state, queue)):
                self.is_lock_missing = True
                continue
            state.offsets.pop(queue, None)
            start = yield from fetch_start_offset(state, queue)
            if start is None:
                continue
            process_queue = state.queues[queue] = JavaProcessQueue(queue, start, state.now_ms())
            if state.is_orderly:
                process_queue.is_locked, process_queue.locked_ms = True, state.now_ms()
            self.new_queues.append(process_queue)
            changed = True
        return changed


_REBALANCE_MS = 20_000
_REBALANCE_SOON_MS = 1_000
"""Release 5: the minimum between two rebalances, and the wait after an unbalanced one."""
_LOCK_MISSING_MS = 500
_HEARTBEAT_MS, _ROUTE_MS, _PERSIST_MS, _LOCK_MS = 30_000, 30_000, 5_000, 20_000
_FIRST_PERSIST_MS, _FIRST_LOCK_MS, _FIRST_HEARTBEAT_MS = 10_000, 1_000, 1_000
_FIRST_PULL_MS = {ApacheRelease.V4: 0, ApacheRelease.V5: 500}


class JavaMemberProcess(Process):
    """One Java member of one group. The name of its process is its client id."""

    def __init__(
        self,
        world: "World",
        options: JavaOptions,
        host: str,
        name_servers: Sequence[str],
        handler: UserHandler,
        offsets: MutableMapping[Queue, int] | None = None,
    ) -> None:
        super().__init__(world, options.id, host)
        self.options, self.group = options, options.group
        self._client = JavaRemotingClient(
            self, self._new_connection, fails_fast=ApacheRelease(options.version) is ApacheRelease.V5
        )
        file = {} if offsets is None else offsets
        self._state = JavaState(self, self._client, options, name_servers, file, self._rebalance_immediately)
        self._handler_pool: JavaHandlerPool = (
            JavaOrderlyPool if options.mode is ConsumeMode.ORDERLY else JavaConcurrentPool
        )(self._state, handler)
        self._pull_loop = JavaPullLoop(self._state, self._handler_pool.submit)
        self._is_rebalancing = self._is_woken = False
        self._rebalanced_ms = -_REBALANCE_MS
        self._timer: Timer | None = None
        self._assignment: tuple[Queue, ...] | None = None
        self._assignment_by_topic: dict[str, tuple[Queue, ...]] = {}

    def start(self) -> None:
        """Start it."""
        options = self.options
        self.world.record(
            ProcessStarted(
                at_ms=self.world.now_ms(),
                member=options.id,
                group=options.group,
                kind="java",
                mode=options.mode.value,
                strategy=options.strategy.name,
                topics=tuple(sorted(options.topics)),
            )
        )
        self._client.run_thread(self._start_thread(), self._started)

    def leave(self, drain_ms: int | None = None) -> None:
        """Let it unlock, commit and unregister; Java does not wait for handlers, whatever ``drain_ms`` says."""
        del drain_ms
        self.call_later(0, self._leave)

    def held_queues(self) -> list[Queue]:
        """Return the queues that it has and did not drop."""
        return sorted(queue for queue, process_queue in self._state.queues.items() if not process_queue.is_dropped)

    @property
    def assignment(self) -> tuple[Queue, ...]:
        """Its last assignment."""
        return self._assignment or ()

    # -- start, end and periodic tasks --------------------------------------------------------------------------------

    def _start_thread(self) -> JavaThread[None]:
        yield from update_routes(self._state)
        yield from send_heartbeats(self._state)

    def _started(self, _: None) -> None:
        self._repeat(_HEARTBEAT_MS, self._send_heartbeats, _FIRST_HEARTBEAT_MS)
        self._repeat(_ROUTE_MS, self._update_routes, _ROUTE_MS)
        if self.options.mode is ConsumeMode.ORDERLY:
            self._repeat(_LOCK_MS, self._lock_all, _FIRST_LOCK_MS)
        self._repeat(_PERSIST_MS, self._state.persist_all, _FIRST_PERSIST_MS)
        self._rebalance_immediately()

    def _repeat(self, period_ms: int, task: "Callable[[], None]", first_ms: int) -> None:
        def again() -> None:
            if not self._state.is_stopped:
                task()
                self.call_later(period_ms, again)

        self.call_later(first_ms, again)

    def _send_heartbeats(self) -> None:
        self._client.run_thread(send_heartbeats(self._state), _nothing)

    def _update_routes(self) -> None:
        self._client.run_thread(update_routes(self._state), _nothing)

    def _lock_all(self) -> None:
        self._client.run_thread(lock_all_queues(self._state), _nothing)

    def _leave(self) -> None:
        if not self._state.is_stopped:
            self._state.is_stopped = True
            self._client.run_thread(self._leave_thread(), self._left)

    def _leave_thread(self) -> JavaThread[None]:
        state = self._state
        if state.is_orderly:
            yield from unlock_all_queues(state)
        state.persist_all()
        yield from unregister_client(state)

    def _left(self, _: None) -> None:
        for connection in list(self.connections.values()):
            connection.close()
        self.kill("left")

    # -- rebalancing --------------------------------------------------------------------------------------------------

    def _rebalance_immediately(self) -> None:
        """Rebalance now, or once more after the current one."""
        if self._is_rebalancing:
            self._is_woken = True
        else:
            self._rebalance_in(0)

    def _rebalance_in(self, delay_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.call_later(delay_ms, self._rebalance)

    def _rebalance(self) -> None:
        if self._state.is_stopped or self._is_rebalancing:
            return
        passed_ms = self.clock.steady_ms() - self._rebalanced_ms
        if self._state.release is ApacheRelease.V5 and passed_ms < _REBALANCE_SOON_MS:
            self._rebalance_in(_REBALANCE_SOON_MS - passed_ms)
            return
        self._is_rebalancing = True
        self.world.record(RebalanceBegan(at_ms=self.world.now_ms(), member=self.options.id, group=self.group))
        rebalance = _JavaRebalance(self._state)
        self._client.run_thread(rebalance.run(), lambda _: self._rebalanced(rebalance))

    def _rebalanced(self, rebalance: _JavaRebalance) -> None:
        self._is_rebalancing = False
        self._rebalanced_ms = self.clock.steady_ms()
        self._record_assignment(rebalance)
        for process_queue in rebalance.new_queues:
            self.call_later(_FIRST_PULL_MS[self._state.release], partial(self._pull_loop.pull, process_queue))
        is_v5 = self._state.release is ApacheRelease.V5
        wait_ms = _REBALANCE_SOON_MS if is_v5 and not rebalance.is_balanced else _REBALANCE_MS
        if is_v5 and rebalance.is_lock_missing:
            wait_ms = _LOCK_MISSING_MS
        if self._is_woken:
            self._is_woken, wait_ms = False, 0
        self._rebalance_in(wait_ms)

    def _record_assignment(self, rebalance: _JavaRebalance) -> None:
        self._assignment_by_topic |= rebalance.assigned
        assignment = tuple(
            queue for topic in sorted(self._assignment_by_topic) for queue in self._assignment_by_topic[topic]
        )
        if rebalance.assigned and assignment != self._assignment:
            self._assignment = assignment
            self.world.record(
                AssignmentPlanned(
                    at_ms=self.world.now_ms(),
                    member=self.options.id,
                    group=self.group,
                    queues=assignment,
                    strategy=self.options.strategy.name,
                    members=rebalance.members,
                )
            )

    # -- connections --------------------------------------------------------------------------------------------------

    def connection_opened(self, connection: SimulatedConnection) -> None:
        """Pass an open connection to the client."""
        self._client.connection_opened(connection)

    def connection_closed(self, connection: SimulatedConnection) -> None:
        """Pass a closed connection to the client."""
        self._client.connection_lost(connection)

    def command_received(self, connection: SimulatedConnection, command: Command) -> None:
        """Take a response, or a request of a broker."""
        if command.is_response:
            self._client.response_received(connection, command)
        elif command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self._rebalance_immediately()
        elif command.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            connection.send(self._answer(command, ResponseCode.SUCCESS, encode_body(self._running_state())))
        elif not command.is_oneway:
            connection.send(self._answer(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED))

    def _new_connection(self, address: str) -> None:
        """Send a heartbeat on a new connection to a broker, as release 5 does."""
        if self._state.release is ApacheRelease.V5 and address in self._state.addresses.values():
            self._client.request(address, heartbeat_command(self._state), 3_000, self._heartbeat_answered)

    def _heartbeat_answered(self, response: Command | None) -> None:
        if response is not None and response.code == ResponseCode.SUCCESS:
            self._rebalance_immediately()

    def _answer(self, request: Command, code: int, body: bytes = b"") -> Command:
        version = self._state.release.client_version
        return Command(code, {}, body, request.opaque, RESPONSE_FLAG, None, version, "JAVA", request.header_type)

    def _running_state(self) -> ConsumerRunningState:
        """Return its queues, also dropped ones that it could not remove yet."""
        state = self._state
        queues = {
            queue: ProcessQueueState(
                cached_messages=process_queue.message_count,
                commit_offset=state.offsets.get(queue, 0),
                dropped=process_queue.is_dropped,
                consumed_ms=process_queue.last_consume_ms,
                locked=process_queue.is_locked,
                locked_ms=process_queue.locked_ms,
                pulled_ms=process_queue.last_pull_ms,
                unlock_tries=process_queue.unlock_tries,
            )
            for queue, process_queue in sorted(state.queues.items())
        }
        return ConsumerRunningState(queues=ByQueue(queues), subscriptions=subscription_bodies(state))


def _nothing(_: None) -> None:
    """Ignore the result of a thread."""
