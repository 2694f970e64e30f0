"""Sending batches that are encoded already, as fast as brokers take them: blocking, many under way, all answers heard.

    with BulkSender(connect, "a-group") as sender:
        for bundle in bundles:
            sender.send(bundle)         # waits once as many as allowed are under way
        sender.finish()                 # waits for the last answers; raises SendFailed

The rules are those of `balance`: turns over queues, around brokers that fail; a bundle that failed somewhere is tried
elsewhere until its time is over. A bundle for a certain queue is tried there alone, and the next for that queue leaves
after it is stored: so what goes to one queue by its keys keeps its order whatever fails.

After the first bundle that could not be stored nothing new is begun; the answers that are still to come are heard, so
that what is stored is known, and then the error is raised. Lines come from the shelf of the process (lines.py) and go
back to it. There are no heartbeats: brokers take messages of groups that they do not know.
"""

import logging
import time
from collections import Counter, deque
from typing import NamedTuple, Self

from steelyard.balance.attempts import Attempt, GaveUp, Sending, SendOptions, Step
from steelyard.client.bulk.lines import LineShelf, shared_lines
from steelyard.client.bulk.publishing import Publishing
from steelyard.client.connect import Connect
from steelyard.client.names import Names
from steelyard.client.producing.sends import look_up_ms
from steelyard.dialect.batching import BATCH_MESSAGES, items_request
from steelyard.dialect.delays import delay_of, has_timers
from steelyard.dialect.sending import item_request
from steelyard.errors import LineClosed, SendFailed, SteelyardError, TimedOut, TransportError, error_for
from steelyard.model import Queue
from steelyard.model.names import RETRY
from steelyard.net.clock import now_ms, steady_ms
from steelyard.net.pipelined import PipelinedLine, first_ready
from steelyard.wire.batch import read_batch
from steelyard.wire.codes import STORED, RequestCode
from steelyard.wire.command import Command
from steelyard.wire.headers.group import GetMaxOffset
from steelyard.wire.limits import TOPIC_BYTES_V1
from steelyard.wire.signing import signed

__all__ = ["BATCH_MESSAGES", "BulkSender", "Bundle", "is_for_batches"]

_RETRIES = 1_000
"""The time alone decides how often a bundle is tried."""
_PAUSE_MS = 200
_LISTED = 3
"""How many attempts an error lists: the last ones."""
_READ_MS = 1_000
_NAMESPACE_BYTES = 65
"""What a namespace may add to a topic's name."""
_SECOND_MS = 1_000

_log = logging.getLogger("steelyard")


class Bundle(NamedTuple):
    """Messages of one topic as items of a batch, back to back: all of them are stored side by side, or none is."""

    topic: str
    items: bytes
    messages: int
    queue: Queue | None = None
    """Where they have to go; None leaves it to the turns."""
    is_alone: bool = False
    """Whether it is one message that travels as such: it is large, or has a delay."""
    delay_ms: int = 0


def is_for_batches(topic: str) -> bool:
    """Say whether batches can be sent to a topic: not to one of retries, nor to one with a very long name.

    >>> is_for_batches("orders"), is_for_batches("%RETRY%billing")
    (True, False)
    """
    return not topic.startswith(RETRY) and len(topic.encode()) <= TOPIC_BYTES_V1 - _NAMESPACE_BYTES


class _Flight:
    """A bundle on its way."""

    __slots__ = ("attempt", "bundle", "deadline_ms", "end_ms", "sending")

    def __init__(self, bundle: Bundle, sending: Sending, end_ms: int) -> None:
        self.bundle, self.sending, self.end_ms = bundle, sending, end_ms
        self.attempt = sending.begin(steady_ms())
        self.deadline_ms = 0
        """When the attempt is over, or begins if it has to pause."""


class BulkSender:
    """Sends bundles; for one thread."""

    def __init__(
        self,
        connect: Connect,
        group: str,
        *,
        depth: int = 16,
        timeout_ms: int = 10_000,
        lines: LineShelf | None = None,
    ) -> None:
        self._connect, self._names = connect, Names(connect.namespace)
        self._group = self._names.full(group)
        self._depth = depth
        self._options = SendOptions(timeout_ms=timeout_ms, retries=_RETRIES, again_on_the_same=True, pause_ms=_PAUSE_MS)
        self._publishing = Publishing(connect)
        self._shelf = shared_lines() if lines is None else lines
        self._lines: dict[str, PipelinedLine] = {}
        self._under_way: dict[PipelinedLine, dict[int, _Flight]] = {}
        """By line and number; a line that is in here alone is heard to its end and not used again."""
        self._pausing: list[_Flight] = []
        self._lanes: dict[Queue, deque[Bundle]] = {}
        """What waits for a queue that one bundle is under way to."""
        self._open = 0
        self._versions: dict[str, int] = {}
        self._told: set[str] = set()
        self._failure: tuple[Bundle, GaveUp] | None = None
        """The first bundle that was given up."""
        self.stored: Counter[str] = Counter()
        """How many messages are stored, by topic."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def queues(self, topic: str) -> tuple[Queue, ...]:
        """Return the queues that keys are counted on; raises TopicNotFound, NoRoute and NoNameServer."""
        return self._publishing.queues(topic)

    def send(self, bundle: Bundle) -> None:
        """Let a bundle leave, as soon as there is room for it; raises SendFailed if one before it was not stored."""
        while self._open >= self._depth and self._failure is None:
            self._pump()
        if self._failure is not None:
            self.finish()
        self._open += 1
        if bundle.queue is not None:
            waiting = self._lanes.get(bundle.queue)
            if waiting is not None:
                waiting.append(bundle)
                self._pump(wait=False)
                return
            self._lanes[bundle.queue] = deque()
        self._begin(bundle)

    def finish(self) -> None:
        """Wait until everything that was sent is stored; raises SendFailed if something is not."""
        while self._pausing or any(self._under_way.values()):
            self._pump()
        if self._failure is not None:
            raise _not_stored(*self._failure, sum(self.stored.values()))

    def close(self) -> None:
        """Give the lines back; what is still under way is not waited for."""
        for line in self._lines.values():
            if self._under_way.pop(line, None):
                line.close()
            else:
                self._shelf.put_back(line, self._connect)
        for line in self._under_way:
            line.close()
        self._lines, self._under_way = {}, {}

    # -- one bundle ---------------------------------------------------------------------------------------------------

    def _begin(self, bundle: Bundle) -> None:
        picker = self._publishing.picker(bundle.topic)
        end_ms = steady_ms() + self._options.timeout_ms
        self._try(_Flight(bundle, Sending(picker, self._options, chosen=bundle.queue), end_ms))

    def _take(self, flight: _Flight, step: Step) -> None:
        """Do what the rules say comes next."""
        if isinstance(step, Attempt) and self._failure is None:
            flight.attempt = step
            if step.pause_ms:
                flight.deadline_ms = steady_ms() + step.pause_ms
                self._pausing.append(flight)
            else:
                self._try(flight)
        elif isinstance(step, GaveUp) and self._failure is None:
            self._failure = flight.bundle, step

    def _try(self, flight: _Flight) -> None:
        attempt = flight.attempt
        try:
            line = self._line_to(attempt.queue.broker, attempt.timeout_ms)
            request = self._request(flight.bundle, attempt, line)
            number = line.say(self._signed(request))
        except SteelyardError as error:
            self._failed(flight, error)
            return
        flight.deadline_ms = steady_ms() + attempt.timeout_ms
        self._under_way.setdefault(line, {})[number] = flight
        try:
            line.flush(attempt.timeout_ms)
        except TransportError as error:
            self._lost(line, error)

    def _request(self, bundle: Bundle, attempt: Attempt, line: PipelinedLine) -> Command:
        queue, at_ms = attempt.queue, now_ms()
        if not bundle.is_alone:
            return items_request(self._group, bundle.items, queue, now_ms=at_ms)
        (item,) = read_batch(bundle.items)
        more = {}
        if bundle.delay_ms:
            timers = has_timers(self._version_of(queue, line, attempt.timeout_ms))
            delay = delay_of(bundle.delay_ms / _SECOND_MS, None, now_ms=at_ms, timers=timers)
            more = dict(delay.properties) if delay is not None else {}
            if delay is not None and delay.note and delay.note not in self._told:
                self._told.add(delay.note)
                _log.warning("%s", delay.note)
        return item_request(self._group, item, queue, now_ms=at_ms, more=more)

    def _failed(self, flight: _Flight, error: SteelyardError) -> None:
        at_ms = steady_ms()
        step = flight.sending.failed(error, at_ms)
        is_lost = self._failure is None and look_up_ms(flight.sending, error, flight.end_ms, at_ms) > 0
        if is_lost and self._publishing.is_elsewhere(flight.bundle.topic):
            step = flight.sending.renewed(steady_ms())
        self._take(flight, step)

    def _stored(self, flight: _Flight, *, late: bool) -> None:
        flight.sending.succeeded(steady_ms(), late=late)
        bundle = flight.bundle
        self.stored[bundle.topic] += bundle.messages
        self._open -= 1
        if bundle.queue is not None:
            waiting = self._lanes[bundle.queue]
            if waiting and self._failure is None:
                self._begin(waiting.popleft())
            elif not waiting:
                del self._lanes[bundle.queue]

    # -- lines --------------------------------------------------------------------------------------------------------

    def _line_to(self, broker: str, timeout_ms: int) -> PipelinedLine:
        address = self._publishing.address_of(broker)
        line = self._lines.get(address)
        if line is None:
            line = self._lines[address] = self._shelf.take(address, self._connect, timeout_ms=timeout_ms)
        return line

    def _signed(self, request: Command) -> Command:
        credentials = self._connect.credentials
        return request if credentials is None else signed(request, credentials)

    def _version_of(self, queue: Queue, line: PipelinedLine, timeout_ms: int) -> int:
        """Return a broker's release, asked for if it has not said anything yet."""
        if line.address not in self._versions:
            asked = Command(RequestCode.GET_MAX_OFFSET, GetMaxOffset(queue.topic, queue.queue_id))
            number = line.say(self._signed(asked))
            try:
                line.flush(timeout_ms)
            except TransportError as error:
                self._lost(line, error)
            # To the very answer: a line that goes back to the shelf has none to come.
            while self._lines.get(line.address) is line and number not in self._hear(line, timeout_ms):
                pass
        if line.address not in self._versions:
            raise LineClosed(f"{line.address} was lost before it said which release it is")
        return self._versions[line.address]

    def _pump(self, *, wait: bool = True) -> None:
        """Hear what brokers say, or wait until something is due; begin again what has paused."""
        at_ms = steady_ms()
        busy = [line for line, flights in self._under_way.items() if flights]
        until_ms = min((each.deadline_ms for each in self._flights()), default=at_ms)
        wait_ms = max(0, until_ms - at_ms) if wait else 0
        if busy:
            for line in first_ready(busy, wait_ms):
                self._hear(line)
        elif wait_ms:
            time.sleep(wait_ms / _SECOND_MS)
        self._look_at_the_clock()

    def _flights(self) -> list[_Flight]:
        return [*self._pausing, *(flight for flights in self._under_way.values() for flight in flights.values())]

    def _hear(self, line: PipelinedLine, timeout_ms: int = _READ_MS) -> list[int]:
        """Take the answers that have come on a line, and return their numbers."""
        try:
            answers = line.hear(timeout_ms)
        except TransportError as error:
            self._lost(line, error)
            return []
        flights = self._under_way.get(line, {})
        heard = [(flights.pop(answer.opaque, None), answer) for answer in answers]
        for flight, answer in heard:
            self._versions[line.address] = answer.version
            if flight is None:
                continue  # it came too late, and was sent again
            if answer.code in STORED:
                self._stored(flight, late=answer.code != 0)
            else:
                server = flight.attempt.queue.broker
                self._failed(flight, error_for(answer.code, answer.remark or "", server=server))
        return [answer.opaque for answer in answers]

    def _lost(self, line: PipelinedLine, error: TransportError) -> None:
        """Let go of a line: nothing is known of what was under way on it."""
        flights = self._under_way.pop(line, {})
        self._retire(line)
        line.close()
        for flight in flights.values():
            self._failed(flight, error)

    def _retire(self, line: PipelinedLine) -> None:
        if self._lines.get(line.address) is line:
            del self._lines[line.address]

    def _look_at_the_clock(self) -> None:
        """Fail what was not answered in time, and go on with what has paused for long enough."""
        at_ms = steady_ms()
        pausing, self._pausing = self._pausing, []
        for flight in pausing:
            if flight.deadline_ms > at_ms:
                self._pausing.append(flight)
            elif self._failure is None:
                self._try(flight)
        for line, flights in list(self._under_way.items()):
            late = [number for number, flight in flights.items() if flight.deadline_ms <= at_ms]
            if not late:
                continue
            self._retire(line)  # an answer that may still come would be on a line that others use
            for number in late:
                flight = flights.pop(number)
                took_ms = flight.attempt.timeout_ms
                self._failed(flight, TimedOut(f"{line.address} did not answer a batch in {took_ms} ms"))


def _not_stored(bundle: Bundle, gave_up: GaveUp, stored: int) -> SendFailed:
    """Say that a bundle was given up, and how many other messages are stored."""
    tried = gave_up.tried[-_LISTED:]
    what = f"{bundle.messages} messages to {bundle.topic!r} were not stored in {len(gave_up.tried)} attempts"
    return SendFailed(
        f"{what}, and {stored} others were",
        attempts=tuple((each.queue.broker, each.took_ms, each.why) for each in tried),
        limit=gave_up.limit.value,
        last=gave_up.error,
    )
