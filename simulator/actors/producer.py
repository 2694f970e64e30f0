"""A producer in a simulated world: the real queue selection, latency tracking and send attempts.

It looks up the route of its topic, connects to each of its brokers, and sends as its scenario says: plain, keyed,
delayed or transactional. Messages of one key wait for each other, and a key keeps its first queue: only so can a
checker expect an order. A body is the message's uid, ``p1-17``, and so is its unique key. For what is pending when the
process dies there is no fact: a checker knows that such a message may be stored or not.

A transaction is decided before its end is sent, in a table that may outlive the process. A half whose send failed is
rolled back, in case it is stored after all. Some ends are never sent unless the broker checks. An unconfirmed end is
not repeated, because Apache's broker would store a second copy: the broker checks again.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING
from zlib import crc32

from simulator.facts import MessageAcked, MessageSent, SendGivenUp, Situation
from simulator.network import SimulatedConnection
from simulator.process import PersistentConnection, Process
from simulator.scenario import ScenarioProducer
from steelyard.balance.producer.broker_latency import LatencyTracker
from steelyard.balance.producer.queue_selection import QueueRotation, make_selector, select_queue
from steelyard.balance.producer.send_attempts import SendAttempt, SendAttempts, SendGaveUp, SendOptions, SendStep
from steelyard.errors import CannotConnect, ConnectionClosed, SteelyardError, TimedOut
from steelyard.model import Message, PublishList, Queue
from steelyard.model.reserved_names import DEFAULT_TOPIC
from steelyard.protocol.send import (
    HalfMessageRef,
    SendReceipt,
    checked_half,
    end_transaction_request,
    read_receipt,
    send_request,
)
from steelyard.store.tags_code import DELAY_LEVELS_MS
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.heartbeat import HeartbeatBody, ProducerHeartbeat
from steelyard.wire.bodies.topics import RouteBody
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command, response_to
from steelyard.wire.headers.nameserver import GetRoute

if TYPE_CHECKING:
    from simulator.world import Timer, World

_SILENT_PERCENT = 15
"""Percentage of halves that wait for the broker's check."""


class _SimulatedTransactions:
    """The transactions of one producer."""

    def __init__(self, producer: "ProducerProcess", decisions: dict[str, bool]) -> None:
        self._producer = producer
        self.decisions = decisions
        """By uid: whether it is committed."""
        self._salt = f"{producer.world.random.getrandbits(32)}/"
        self._confirmed: set[str] = set()
        self._pending_ends: dict[int, tuple[str, str]] = {}
        """By opaque: the uid of a commit that is not confirmed yet, and its broker."""

    def restart(self) -> None:
        """Forget everything but the decisions."""
        self._pending_ends.clear()

    @property
    def unconfirmed_commits(self) -> int:
        """The number of commits that no broker has confirmed yet."""
        return sum(commits and uid not in self._confirmed for uid, commits in self.decisions.items())

    def half_stored(self, uid: str, broker: str, half: HalfMessageRef) -> None:
        """Decide about a stored half, unless a check decided it before, and mostly send the end."""
        drawn = crc32((self._salt + uid).encode())
        if drawn % 100 < self._producer.spec.rollback_percent:
            self.roll_back(uid)
        self._commit(uid)
        if drawn // 100 % 100 >= _SILENT_PERCENT:
            self._send_end(uid, broker, half, was_asked=False)

    def _commit(self, uid: str) -> None:
        """Decide to commit, unless it is decided; the confirmation may never arrive."""
        if uid not in self.decisions:
            self.decisions[uid] = True
            self._record_situation("a half message was committed", uid)

    def roll_back(self, uid: str) -> None:
        """Decide to roll back, unless it is decided."""
        if uid not in self.decisions:
            self.decisions[uid] = False
            producer = self._producer
            producer.world.record(SendGivenUp(at_ms=producer.world.now_ms(), uid=uid, rolled_back=True))
            self._record_situation("a half message was rolled back", uid)

    def _record_situation(self, name: str, uid: str) -> None:
        world = self._producer.world
        world.record(Situation(at_ms=world.now_ms(), name=name, about={"uid": uid}))

    def check_received(self, broker: str, request: Command) -> None:
        """Answer a broker's check; an undecided half is rolled back, because its send never completed."""
        half = checked_half(request)
        uid = half.unique_key
        self._record_situation("a half message was asked about", uid)
        if uid not in self.decisions:
            self.roll_back(uid)
        self._send_end(uid, broker, half, was_asked=True)

    def _send_end(self, uid: str, broker: str, half: HalfMessageRef, *, was_asked: bool) -> None:
        producer, commits = self._producer, self.decisions[uid]
        opaque = producer.request(
            broker,
            lambda opaque: end_transaction_request(
                producer.group, producer.spec.topic, half, is_commit=commits, is_check_response=was_asked, opaque=opaque
            ),
        )
        if opaque is not None and commits:
            self._pending_ends[opaque] = uid, broker

    def end_confirmed(self, response: Command) -> None:
        """Take the response to an end."""
        uid, broker = self._pending_ends.pop(response.opaque, ("", ""))
        if uid and response.code == 0 and uid not in self._confirmed:
            self._confirmed.add(uid)
            self._producer.record_acked(uid, broker)

    def connection_lost(self, broker: str) -> None:
        """Forget the pending ends of a broker."""
        self._pending_ends = {opaque: end for opaque, end in self._pending_ends.items() if end[1] != broker}


_ROUTE_REFRESH_MS = 30_000
_ROUTE_RETRY_MS = 1_000
"""Between route queries while there is no route, or while sends fail."""
_HEARTBEAT_MS = 30_000

_BY_KEY = make_selector("hash")


class _PendingSend:
    """One message that is being sent."""

    __slots__ = ("attempt", "delay_level", "is_half", "key", "message", "opaque", "sending", "timer", "uid")

    def __init__(self, message: Message, key: str | None, spec: ScenarioProducer) -> None:
        self.message, self.key, self.uid = message, key, message.body.decode()
        self.is_half = spec.style == "transactional"
        self.delay_level = spec.delay_level if spec.style == "delayed" else 0
        self.sending: SendAttempts | None = None
        self.attempt: SendAttempt | None = None
        self.timer: Timer | None = None
        self.opaque = 0


class ProducerProcess(Process):
    """One producer. It sends from `start` on, until all its messages are sent or `stop` is called."""

    def __init__(
        self,
        world: "World",
        spec: ScenarioProducer,
        host: str,
        name_servers: Sequence[str],
        *,
        is_durable: Callable[[str, int], bool] | None = None,
        decisions: dict[str, bool] | None = None,
    ) -> None:
        super().__init__(world, spec.name, host)
        self.spec, self.group = spec, f"{spec.name}-group"
        self.transactions = _SimulatedTransactions(self, {} if decisions is None else decisions)
        """Its decisions are an argument: a real program keeps them where they outlive it."""
        self._is_durable = is_durable or _is_success
        self._name_server = PersistentConnection(self, None, name_servers)
        self.sequence_numbers: dict[str | None, int] = {}
        self.sent = self.ended = 0
        """The number of messages that were begun, and that ended."""
        self._is_stopped = False
        self._queue_of_key: dict[str, Queue] = {}
        self._reset()

    def _reset(self) -> None:
        """Reset what a new process does not know."""
        self._connections: dict[str, PersistentConnection] = {}
        self._queue_selector: QueueRotation | None = None
        self._latency = LatencyTracker() if self.spec.avoids_slow_brokers else None
        self._opaque = 0
        self._pending: dict[int, _PendingSend] = {}
        self._awaiting_connection: dict[str, list[_PendingSend]] = {}
        """By broker: sends that wait for its connection."""
        self._awaiting_route: list[_PendingSend] = []
        self._sends_by_key: dict[str, deque[_PendingSend]] = {}
        """By key: the current send, then those that wait for it."""
        self._route_requests: dict[int, str] = {}
        self._route_timer: Timer | None = None
        self._is_route_due_soon = False
        self.transactions.restart()

    # -- start and end ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Look up the route, and send the first message when it is due."""
        self._name_server.connect()
        self.call_later(max(0, self.spec.starts_ms - self.world.now_ms()), self._send_next)
        if self.spec.style == "transactional":
            self.call_later(_HEARTBEAT_MS, self._send_heartbeats)

    def restart(self) -> None:
        """Go on after it was killed, without what was pending then."""
        if not self.is_alive:
            self.revive()
            self._name_server = PersistentConnection(self, None, self._name_server.addresses)
            self._reset()
            self.ended = self.sent
            self.start()

    def stop(self) -> None:
        """Begin no more messages; those in flight go on."""
        self._is_stopped = True

    @property
    def is_done(self) -> bool:
        """Whether all messages were sent and ended; a transaction may still be open at its broker."""
        has_more = not self._is_stopped and self.sent < self.spec.messages
        return not self.is_alive or (not has_more and self.ended >= self.sent)

    # -- messages -----------------------------------------------------------------------------------------------------

    def _send_next(self) -> None:
        if self._is_stopped or self.sent >= self.spec.messages:
            return
        self.sent += 1
        gap_ms = self.spec.interval_ms
        self.call_later(self.world.random.randint(gap_ms // 2, gap_ms + gap_ms // 2) or 1, self._send_next)
        key = f"{self.name}-k{self.world.random.randrange(self.spec.keys)}" if self.spec.style == "keyed" else None
        message = Message(self.spec.topic, f"{self.name}-{self.sent}".encode(), keys=(key,) if key else ())
        send = _PendingSend(message, key, self.spec)
        if key is not None:
            waiting = self._sends_by_key.setdefault(key, deque())
            waiting.append(send)
            if len(waiting) > 1:
                return
        self._begin(send)

    def _begin(self, send: _PendingSend) -> None:
        now_ms = self.world.now_ms()
        number = self.sequence_numbers[send.key] = self.sequence_numbers.get(send.key, 0) + 1
        due_ms = now_ms + DELAY_LEVELS_MS[send.delay_level - 1] if send.delay_level else None
        self.world.record(
            MessageSent(
                at_ms=now_ms,
                producer=self.name,
                uid=send.uid,
                topic=self.spec.topic,
                key=send.key,
                number=number,
                due_ms=due_ms,
                transactional=send.is_half,
            )
        )
        if self._queue_selector is not None:
            self._start_attempts(send, self._queue_selector)
        else:
            self._awaiting_route.append(send)
            send.timer = self.call_later(SendOptions().timeout_ms, partial(self._no_route, send))

    def _no_route(self, send: _PendingSend) -> None:
        self._awaiting_route.remove(send)
        self._fail(send)

    def _start_attempts(self, send: _PendingSend, rotation: QueueRotation) -> None:
        chosen = None
        if send.key is not None:
            chosen = self._queue_of_key.get(send.key)
            if chosen is None:
                chosen = self._queue_of_key[send.key] = select_queue(_BY_KEY, rotation.queues, send.message)
        send.sending = SendAttempts(rotation, SendOptions(retry_same_queue=True), chosen=chosen)
        self._follow_step(send, send.sending.begin(self.clock.steady_ms()))

    def _follow_step(self, send: _PendingSend, step: SendStep) -> None:
        """Do what the send rules say comes next."""
        if isinstance(step, SendAttempt):
            send.attempt = step
            if step.pause_ms:
                send.timer = self.call_later(step.pause_ms, partial(self._send_attempt, send))
            else:
                self._send_attempt(send)
        elif isinstance(step, SendGaveUp):
            self._fail(send)

    def _send_attempt(self, send: _PendingSend) -> None:
        attempt = send.attempt
        assert attempt is not None
        self._opaque += 1
        send.opaque = self._opaque
        self._pending[send.opaque] = send
        send.timer = self.call_later(attempt.timeout_ms, partial(self._timed_out, send))
        persistent = self._connections.get(attempt.queue.broker)
        if persistent is not None and persistent.is_open:
            self._transmit(send, persistent)
        else:
            self._awaiting_connection.setdefault(attempt.queue.broker, []).append(send)

    def _transmit(self, send: _PendingSend, connection: PersistentConnection) -> None:
        assert send.attempt is not None
        connection.send(
            send_request(
                self.group,
                send.message,
                send.attempt.queue,
                unique_key=send.uid,
                now_ms=self.clock.wall_ms(),
                delay_level=send.delay_level,
                is_half=send.is_half,
                opaque=send.opaque,
            )
        )

    def _timed_out(self, send: _PendingSend) -> None:
        assert send.attempt is not None
        broker = send.attempt.queue.broker
        if send in self._awaiting_connection.get(broker, ()):
            self._awaiting_connection[broker].remove(send)
        self._attempt_failed(send, TimedOut(f"{broker} did not answer in {send.attempt.timeout_ms} ms"))

    def _attempt_failed(self, send: _PendingSend, error: SteelyardError) -> None:
        self._pending.pop(send.opaque, None)
        if send.timer is not None:
            send.timer.cancel()
        self._refresh_route_soon()
        assert send.sending is not None
        self._follow_step(send, send.sending.failed(error, self.clock.steady_ms()))

    def _response_received(self, send: _PendingSend, response: Command) -> None:
        attempt, attempts = send.attempt, send.sending
        assert attempt is not None
        assert attempts is not None
        try:
            receipt = read_receipt(response, attempt.queue, unique_key=send.uid, is_half=send.is_half)
        except SteelyardError as error:
            self._attempt_failed(send, error)
            return
        if send.timer is not None:
            send.timer.cancel()
        attempts.succeeded(self.clock.steady_ms(), is_late=receipt.is_late)
        if receipt.half is not None:
            self.ended += 1
            self.transactions.half_stored(send.uid, receipt.queue.broker, receipt.half)
        else:
            self._stored(send, receipt, response.code)

    def _stored(self, send: _PendingSend, receipt: SendReceipt, code: int) -> None:
        queue, offset = (None, None) if send.delay_level else (receipt.queue, receipt.offset)
        durable = self._is_durable(receipt.queue.broker, code)
        self.ended += 1
        self.world.record(
            MessageAcked(at_ms=self.world.now_ms(), uid=send.uid, queue=queue, offset=offset, durable=durable)
        )
        self._next_of_key(send)

    def record_acked(self, uid: str, broker: str) -> None:
        """Record that the message of a transaction is visible."""
        self.world.record(MessageAcked(at_ms=self.world.now_ms(), uid=uid, durable=self._is_durable(broker, 0)))

    def _fail(self, send: _PendingSend) -> None:
        self.ended += 1
        if send.is_half:
            self.transactions.roll_back(send.uid)
        else:
            self.world.record(SendGivenUp(at_ms=self.world.now_ms(), uid=send.uid))
        self._next_of_key(send)

    def _next_of_key(self, send: _PendingSend) -> None:
        waiting = self._sends_by_key.get(send.key) if send.key is not None else None
        if waiting is None or send.key is None:
            return
        waiting.popleft()
        if waiting:
            self._begin(waiting[0])
        else:
            del self._sends_by_key[send.key]

    # -- connections --------------------------------------------------------------------------------------------------

    def _connection_of(self, connection: SimulatedConnection) -> PersistentConnection | None:
        connections = (self._name_server, *self._connections.values())
        return next((persistent for persistent in connections if persistent.connection is connection), None)

    def connection_opened(self, connection: SimulatedConnection) -> None:
        """Send what waited for the connection."""
        persistent = self._connection_of(connection)
        if persistent is None:
            return
        if persistent.server is None:
            self._request_route(self.spec.topic)
            return
        if self.spec.style == "transactional":
            self._send_heartbeat(persistent)
        for send in self._awaiting_connection.pop(persistent.server, ()):
            self._transmit(send, persistent)

    def connection_closed(self, connection: SimulatedConnection) -> None:
        """Fail what was pending on it, and reconnect."""
        persistent = self._connection_of(connection)
        if persistent is None:
            return
        persistent.reconnect_later()
        broker = persistent.server
        if broker is None:
            self._route_requests.clear()
            return
        unsent = self._awaiting_connection.pop(broker, [])
        sent = [
            send
            for send in self._pending.values()
            if send.attempt is not None and send.attempt.queue.broker == broker and send not in unsent
        ]
        self.transactions.connection_lost(broker)
        for send in unsent:
            self._attempt_failed(send, CannotConnect(f"no connection to {broker}"))
        for send in sent:
            self._attempt_failed(send, ConnectionClosed(f"the connection to {broker} was closed"))

    def command_received(self, connection: SimulatedConnection, command: Command) -> None:
        """Take a response, or a broker's check."""
        persistent = self._connection_of(connection)
        if persistent is None:
            return
        persistent.mark_alive()
        if not command.is_response:
            self._request_received(persistent, command)
        elif command.opaque in self._route_requests:
            self._route_received(self._route_requests.pop(command.opaque), command)
        elif command.opaque in self._pending:
            self._response_received(self._pending.pop(command.opaque), command)
        else:
            self.transactions.end_confirmed(command)

    def _request_received(self, connection: PersistentConnection, command: Command) -> None:
        if command.code == RequestCode.CHECK_TRANSACTION_STATE and connection.server is not None:
            self.transactions.check_received(connection.server, command)
        elif not command.is_oneway:
            connection.send(response_to(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark="not known here"))

    def request(self, broker: str, make: Callable[[int], Command]) -> int | None:
        """Send a request to a broker; return its opaque, or None without a connection."""
        self._opaque += 1
        persistent = self._connections.get(broker)
        return self._opaque if persistent is not None and persistent.send(make(self._opaque)) else None

    def _send_heartbeats(self) -> None:
        for persistent in self._connections.values():
            self._send_heartbeat(persistent)
        self.call_later(_HEARTBEAT_MS, self._send_heartbeats)

    def _send_heartbeat(self, connection: PersistentConnection) -> None:
        self._opaque += 1
        heartbeat = HeartbeatBody(
            client_id=f"{self.host}@{self.name}", producers=(ProducerHeartbeat(group=self.group),)
        )
        connection.send(Command(RequestCode.HEART_BEAT, body=encode_body(heartbeat), opaque=self._opaque))

    # -- the route ----------------------------------------------------------------------------------------------------

    def _request_route(self, topic: str) -> None:
        self._opaque += 1
        if self._name_server.send(
            Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute(topic=topic), opaque=self._opaque)
        ):
            self._route_requests[self._opaque] = topic
        self._refresh_route_in(_ROUTE_REFRESH_MS if self._queue_selector is not None else _ROUTE_RETRY_MS)

    def _refresh_route_in(self, delay_ms: int) -> None:
        if self._route_timer is not None:
            self._route_timer.cancel()
        self._route_timer = self.call_later(delay_ms, partial(self._request_route, self.spec.topic))
        self._is_route_due_soon = delay_ms == _ROUTE_RETRY_MS

    def _refresh_route_soon(self) -> None:
        """Query the route again soon, because something failed."""
        if not self._is_route_due_soon:
            self._refresh_route_in(_ROUTE_RETRY_MS)

    def _route_received(self, topic: str, response: Command) -> None:
        if response.code == ResponseCode.TOPIC_NOT_EXIST and topic != DEFAULT_TOPIC:
            self._request_route(DEFAULT_TOPIC)
        if response.code != ResponseCode.SUCCESS:
            return
        route = decode_body(RouteBody, response.body).route(topic)
        listed = route.publish_list() if topic == self.spec.topic else route.publish_list_for_new_topic(self.spec.topic)
        for broker in route.brokers:
            if broker.master is not None:
                self._connect_broker(broker.name, broker.master)
        if listed:
            self._use_queues(listed)

    def _connect_broker(self, broker: str, address: str) -> None:
        persistent = self._connections.get(broker)
        if persistent is None:
            persistent = self._connections[broker] = PersistentConnection(self, broker, (address,))
            persistent.connect()
        persistent.addresses = (address,)

    def _use_queues(self, listed: PublishList) -> None:
        if self._queue_selector is None:
            self._queue_selector = QueueRotation(listed, self.world.random.getrandbits(31), self._latency)
            self._refresh_route_in(_ROUTE_REFRESH_MS)
        else:
            self._queue_selector.replace_queues(listed)
        waiting, self._awaiting_route = self._awaiting_route, []
        for send in waiting:
            if send.timer is not None:
                send.timer.cancel()
            self._start_attempts(send, self._queue_selector)


def _is_success(_broker: str, code: int) -> bool:
    return code == 0
