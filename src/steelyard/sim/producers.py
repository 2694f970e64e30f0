"""A producer as a program in the world: the real rules of choosing, avoiding and trying again, on lines that break.

It looks up the route of its topic, keeps a line to every broker of it, and sends as its plan says: plain, by key, after
a delay, or in two steps. Messages of one key wait for each other, and a key keeps the queue it had first: only so can a
checker ask for their order. Every attempt, wait and retry is decided by balance/attempts.py.

A body is the message's uid, ``p1-17``, and so is its unique key. What is unanswered when the process dies is told by
nobody: a checker knows that such a message may be stored or not.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from steelyard.balance.attempts import Attempt, GaveUp, Sending, SendOptions, Step
from steelyard.balance.ledger import Ledger
from steelyard.balance.pick import Picker
from steelyard.balance.selectors import select, selector
from steelyard.dialect.sending import Receipt, read_receipt, send_request
from steelyard.errors import CannotConnect, LineClosed, SteelyardError, TimedOut
from steelyard.model import Message, PublishList, Queue
from steelyard.model.names import DEFAULT_TOPIC
from steelyard.sim.calling import Caller
from steelyard.sim.facts import Acked, SendFailed, Sent
from steelyard.sim.line import Line
from steelyard.sim.plan import ProducerPlan
from steelyard.sim.process import Process
from steelyard.sim.transactions import Transactions
from steelyard.store.marks import DELAY_LEVELS_MS
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.heartbeat import Heartbeat, ProducerBeat
from steelyard.wire.bodies.routes import RouteBody
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command, answer_to
from steelyard.wire.headers.nameserver import GetRoute

if TYPE_CHECKING:
    from steelyard.sim.timer import Timer
    from steelyard.sim.world import World

__all__ = ["ProducerProcess"]

_ROUTE_MS = 30_000
_ROUTE_SOON_MS = 1_000
"""Between questions for a route while there is none, or while sends fail."""
_BEAT_MS = 30_000

_BY_KEY = selector("hash")


class _Send:
    """One message on its way."""

    __slots__ = ("attempt", "delay_level", "is_half", "key", "message", "opaque", "sending", "timer", "uid")

    def __init__(self, message: Message, key: str | None, plan: ProducerPlan) -> None:
        self.message, self.key, self.uid = message, key, message.body.decode()
        self.is_half = plan.style == "transactional"
        self.delay_level = plan.level if plan.style == "delayed" else 0
        self.sending: Sending | None = None
        self.attempt: Attempt | None = None
        self.timer: Timer | None = None
        self.opaque = 0


class ProducerProcess(Process):
    """One producer. It sends from `begin` on, until its plan is done or `stop` is called."""

    def __init__(
        self,
        world: "World",
        plan: ProducerPlan,
        host: str,
        name_servers: Sequence[str],
        *,
        promises: Callable[[str, int], bool] | None = None,
        decisions: dict[str, bool] | None = None,
    ) -> None:
        super().__init__(world, plan.name, host)
        self.plan, self.group = plan, f"{plan.name}-group"
        self.transactions = Transactions(self, {} if decisions is None else decisions)
        """Its decisions may be handed in: a program keeps them where they outlive it."""
        self._promises = promises or _is_plainly_stored
        self._name_server = Caller(self, None, name_servers)
        self.numbers: dict[str | None, int] = {}
        self.sent = self.ended = 0
        """How many messages were begun, and of how many the end is known."""
        self._is_stopped = False
        self._pinned: dict[str, Queue] = {}
        self._forget()

    def _forget(self) -> None:
        """Begin with what a program knows when it starts."""
        self._callers: dict[str, Caller] = {}
        self._picker: Picker | None = None
        self._ledger = Ledger() if self.plan.avoids_slow else None
        self._opaque = 0
        self._unanswered: dict[int, _Send] = {}
        self._waiting: dict[str, list[_Send]] = {}
        """By broker: what is sent as soon as its line is open."""
        self._routeless: list[_Send] = []
        self._lanes: dict[str, deque[_Send]] = {}
        """By key: what waits for the one before it, which is the first."""
        self._route_asked: dict[int, str] = {}
        self._route_timer: Timer | None = None
        self._is_soon = False
        self.transactions.forget()

    # -- its life -----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Look for the route, and send the first message when its time has come."""
        self._name_server.call()
        self.after(max(0, self.plan.begins_ms - self.world.now_ms()), self._send_next)
        if self.plan.style == "transactional":
            self.after(_BEAT_MS, self._beat_all)

    def restart(self) -> None:
        """Go on after it was killed; what was on its way then is forgotten."""
        if not self.is_alive:
            self.revive()
            self._name_server = Caller(self, None, self._name_server.addresses)
            self._forget()
            self.ended = self.sent
            self.begin()

    def stop(self) -> None:
        """Begin no more messages; those under way go on."""
        self._is_stopped = True

    @property
    def is_done(self) -> bool:
        """Whether it has no more to send, and nothing under way; a transaction may still be open at its broker."""
        has_more = not self._is_stopped and self.sent < self.plan.messages
        return not self.is_alive or (not has_more and self.ended >= self.sent)

    # -- messages -----------------------------------------------------------------------------------------------------

    def _send_next(self) -> None:
        if self._is_stopped or self.sent >= self.plan.messages:
            return
        self.sent += 1
        gap_ms = self.plan.gap_ms
        self.after(self.world.random.randint(gap_ms // 2, gap_ms + gap_ms // 2) or 1, self._send_next)
        key = f"{self.name}-k{self.world.random.randrange(self.plan.keys)}" if self.plan.style == "keyed" else None
        message = Message(self.plan.topic, f"{self.name}-{self.sent}".encode(), keys=(key,) if key else ())
        send = _Send(message, key, self.plan)
        if key is not None:
            lane = self._lanes.setdefault(key, deque())
            lane.append(send)
            if len(lane) > 1:
                return
        self._begin(send)

    def _begin(self, send: _Send) -> None:
        now_ms = self.world.now_ms()
        number = self.numbers[send.key] = self.numbers.get(send.key, 0) + 1
        due_ms = now_ms + DELAY_LEVELS_MS[send.delay_level - 1] if send.delay_level else None
        self.world.tell(
            Sent(
                at_ms=now_ms,
                producer=self.name,
                uid=send.uid,
                topic=self.plan.topic,
                key=send.key,
                number=number,
                due_ms=due_ms,
                transactional=send.is_half,
            )
        )
        if self._picker is not None:
            self._start(send, self._picker)
        else:
            self._routeless.append(send)
            send.timer = self.after(SendOptions().timeout_ms, partial(self._no_route, send))

    def _no_route(self, send: _Send) -> None:
        self._routeless.remove(send)
        self._fail(send)

    def _start(self, send: _Send, picker: Picker) -> None:
        chosen = None
        if send.key is not None:
            chosen = self._pinned.get(send.key)
            if chosen is None:
                chosen = self._pinned[send.key] = select(_BY_KEY, picker.queues, send.message)
        send.sending = Sending(picker, SendOptions(again_on_the_same=True), chosen=chosen)
        self._take(send, send.sending.begin(self.clock.steady_ms()))

    def _take(self, send: _Send, step: Step) -> None:
        """Do what the rules say comes next."""
        if isinstance(step, Attempt):
            send.attempt = step
            if step.pause_ms:
                send.timer = self.after(step.pause_ms, partial(self._try, send))
            else:
                self._try(send)
        elif isinstance(step, GaveUp):
            self._fail(send)

    def _try(self, send: _Send) -> None:
        attempt = send.attempt
        assert attempt is not None
        self._opaque += 1
        send.opaque = self._opaque
        self._unanswered[send.opaque] = send
        send.timer = self.after(attempt.timeout_ms, partial(self._timed_out, send))
        caller = self._callers.get(attempt.queue.broker)
        if caller is not None and caller.is_open:
            self._say(send, caller)
        else:
            self._waiting.setdefault(attempt.queue.broker, []).append(send)

    def _say(self, send: _Send, caller: Caller) -> None:
        assert send.attempt is not None
        caller.say(
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

    def _timed_out(self, send: _Send) -> None:
        assert send.attempt is not None
        broker = send.attempt.queue.broker
        if send in self._waiting.get(broker, ()):
            self._waiting[broker].remove(send)
        self._attempt_failed(send, TimedOut(f"{broker} did not answer in {send.attempt.timeout_ms} ms"))

    def _attempt_failed(self, send: _Send, error: SteelyardError) -> None:
        self._unanswered.pop(send.opaque, None)
        if send.timer is not None:
            send.timer.cancel()
        self._look_soon()
        assert send.sending is not None
        self._take(send, send.sending.failed(error, self.clock.steady_ms()))

    def _answered(self, send: _Send, answer: Command) -> None:
        attempt, sending = send.attempt, send.sending
        assert attempt is not None
        assert sending is not None
        try:
            receipt = read_receipt(answer, attempt.queue, unique_key=send.uid, is_half=send.is_half)
        except SteelyardError as error:
            self._attempt_failed(send, error)
            return
        if send.timer is not None:
            send.timer.cancel()
        sending.succeeded(self.clock.steady_ms(), late=receipt.late)
        if receipt.half is not None:
            self.ended += 1
            self.transactions.stored(send.uid, receipt.queue.broker, receipt.half)
        else:
            self._stored(send, receipt, answer.code)

    def _stored(self, send: _Send, receipt: Receipt, code: int) -> None:
        queue, offset = (None, None) if send.delay_level else (receipt.queue, receipt.offset)
        durable = self._promises(receipt.queue.broker, code)
        self.ended += 1
        self.world.tell(Acked(at_ms=self.world.now_ms(), uid=send.uid, queue=queue, offset=offset, durable=durable))
        self._leave_lane(send)

    def acked(self, uid: str, broker: str) -> None:
        """Tell that a transaction's message is there to be seen."""
        self.world.tell(Acked(at_ms=self.world.now_ms(), uid=uid, durable=self._promises(broker, 0)))

    def _fail(self, send: _Send) -> None:
        self.ended += 1
        if send.is_half:
            self.transactions.roll_back(send.uid)
        else:
            self.world.tell(SendFailed(at_ms=self.world.now_ms(), uid=send.uid))
        self._leave_lane(send)

    def _leave_lane(self, send: _Send) -> None:
        lane = self._lanes.get(send.key) if send.key is not None else None
        if lane is None or send.key is None:
            return
        lane.popleft()
        if lane:
            self._begin(lane[0])
        else:
            del self._lanes[send.key]

    # -- lines --------------------------------------------------------------------------------------------------------

    def _caller_of(self, line: Line) -> Caller | None:
        callers = (self._name_server, *self._callers.values())
        return next((caller for caller in callers if caller.line is line), None)

    def opened(self, line: Line) -> None:
        """Say what waited for the line."""
        caller = self._caller_of(line)
        if caller is None:
            return
        if caller.server is None:
            self._ask_route(self.plan.topic)
            return
        if self.plan.style == "transactional":
            self._beat(caller)
        for send in self._waiting.pop(caller.server, ()):
            self._say(send, caller)

    def closed(self, line: Line) -> None:
        """Fail what was to be answered on it, and call again."""
        caller = self._caller_of(line)
        if caller is None:
            return
        caller.lost()
        broker = caller.server
        if broker is None:
            self._route_asked.clear()
            return
        unsaid = self._waiting.pop(broker, [])
        said = [
            send
            for send in self._unanswered.values()
            if send.attempt is not None and send.attempt.queue.broker == broker and send not in unsaid
        ]
        self.transactions.line_lost(broker)
        for send in unsaid:
            self._attempt_failed(send, CannotConnect(f"no line to {broker}"))
        for send in said:
            self._attempt_failed(send, LineClosed(f"the line to {broker} was closed"))

    def heard(self, line: Line, command: Command) -> None:
        """Take an answer, or the question of a broker."""
        caller = self._caller_of(line)
        if caller is None:
            return
        caller.heard()
        if not command.is_answer:
            self._asked(caller, command)
        elif command.opaque in self._route_asked:
            self._routed(self._route_asked.pop(command.opaque), command)
        elif command.opaque in self._unanswered:
            self._answered(self._unanswered.pop(command.opaque), command)
        else:
            self.transactions.answered(command)

    def _asked(self, caller: Caller, command: Command) -> None:
        if command.code == RequestCode.CHECK_TRANSACTION_STATE and caller.server is not None:
            self.transactions.asked(caller.server, command)
        elif not command.is_oneway:
            caller.say(answer_to(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark="not known here"))

    def ask(self, broker: str, make: Callable[[int], Command]) -> int | None:
        """Send a request of one's own to a broker; return its number, or None where there is no line."""
        self._opaque += 1
        caller = self._callers.get(broker)
        return self._opaque if caller is not None and caller.say(make(self._opaque)) else None

    def _beat_all(self) -> None:
        for caller in self._callers.values():
            self._beat(caller)
        self.after(_BEAT_MS, self._beat_all)

    def _beat(self, caller: Caller) -> None:
        self._opaque += 1
        beat = Heartbeat(client_id=f"{self.host}@{self.name}", producers=(ProducerBeat(group=self.group),))
        caller.say(Command(RequestCode.HEART_BEAT, body=encode_body(beat), opaque=self._opaque))

    # -- the route ----------------------------------------------------------------------------------------------------

    def _ask_route(self, topic: str) -> None:
        self._opaque += 1
        if self._name_server.say(
            Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute(topic=topic), opaque=self._opaque)
        ):
            self._route_asked[self._opaque] = topic
        self._look_in(_ROUTE_MS if self._picker is not None else _ROUTE_SOON_MS)

    def _look_in(self, delay_ms: int) -> None:
        if self._route_timer is not None:
            self._route_timer.cancel()
        self._route_timer = self.after(delay_ms, partial(self._ask_route, self.plan.topic))
        self._is_soon = delay_ms == _ROUTE_SOON_MS

    def _look_soon(self) -> None:
        """Look at the route again before long: something failed."""
        if not self._is_soon:
            self._look_in(_ROUTE_SOON_MS)

    def _routed(self, topic: str, answer: Command) -> None:
        if answer.code == ResponseCode.TOPIC_NOT_EXIST and topic != DEFAULT_TOPIC:
            self._ask_route(DEFAULT_TOPIC)
        if answer.code != ResponseCode.SUCCESS:
            return
        route = decode_body(RouteBody, answer.body).route(topic)
        listed = route.publish_list() if topic == self.plan.topic else route.borrowed_list(self.plan.topic)
        for place in route.brokers:
            if place.master is not None:
                self._call(place.name, place.master)
        if listed:
            self._use(listed)

    def _call(self, broker: str, address: str) -> None:
        caller = self._callers.get(broker)
        if caller is None:
            caller = self._callers[broker] = Caller(self, broker, (address,))
            caller.call()
        caller.addresses = (address,)

    def _use(self, listed: PublishList) -> None:
        if self._picker is None:
            self._picker = Picker(listed, self.world.random.getrandbits(31), self._ledger)
            self._look_in(_ROUTE_MS)
        else:
            self._picker.use(listed)
        routeless, self._routeless = self._routeless, []
        for send in routeless:
            if send.timer is not None:
                send.timer.cancel()
            self._start(send, self._picker)


def _is_plainly_stored(_broker: str, code: int) -> bool:
    return code == 0
