"""The seeded world: one heap of events, one source of randomness, one clock, one journal.

Events run in the order of their time; events of the same microsecond run in the order in which they were scheduled. All
randomness is drawn from one seed while events are handled, so a history is its seed: run again, in any process, it is
the same to the last byte. The journal proves it: its digest covers every fact, and the time, connection and bytes of
every delivery.

Left out: programs (process.py), what is between them (network.py), what goes wrong (faults.py).
"""

from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING

from msgspec import msgpack, structs

from simulator.facts import Fact
from simulator.network import Network
from steelyard.errors import SteelyardError
from steelyard.model import Queue
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command

if TYPE_CHECKING:
    from simulator.process import Process


class Timer:
    """An event on the heap. A cancelled one stays there and does nothing."""

    __slots__ = ("callback", "incarnation", "process")

    def __init__(self, callback: Callable[[], None], process: "Process | None" = None, incarnation: int = 0) -> None:
        self.callback: Callable[[], None] | None = callback
        """What to run; None once it is cancelled."""
        self.process = process
        """Its owner: the timer waits while that process is paused, and is void once it is dead."""
        self.incarnation = incarnation
        """Which incarnation of the process set it."""

    def cancel(self) -> None:
        """Cancel it."""
        self.callback = None


class SeededRandom(Random):
    """Random numbers that depend on the seed alone.

    Python digests a text seed itself, so the hash seed of the process does not matter.

    >>> SeededRandom("churn-7").randrange(1000) == SeededRandom("churn-7").randrange(1000)
    True
    """

    def __init__(self, seed: str | int) -> None:
        super().__init__(seed)

    def chance(self, percent: int) -> bool:
        """Return True with this probability."""
        return self.randrange(100) < percent


_TOPIC, _BROKER, _QUEUE_ID = ("topic", "b"), ("bname", "brokerName", "n"), ("queueId", "e")
_SHOWN_FIELDS = (
    "queueOffset",
    "commitOffset",
    "offset",
    "msgId",
    "nextBeginOffset",
    "consumerGroup",
    "clientId",
    "lockEpoch",
    "delayLevel",
)
"""Fields that distinguish commands of the same code, in the order in which a trace shows them."""

_MAX_VALUE_LENGTH = 60
_REQUESTS = {int(code): code.name for code in RequestCode}
_RESPONSES = {int(code): code.name for code in ResponseCode}


def _format_command(command: Command) -> str:
    """Format a command for a trace: code, queue, and the fields that matter.

    >>> _format_command(Command(11, {"topic": "orders", "queueId": "0", "queueOffset": "41"}, opaque=7))
    '#7 PULL_MESSAGE orders:0 queueOffset=41'
    >>> _format_command(Command(0, {"nextBeginOffset": "42"}, b"abc", opaque=7, flag=1))
    '#7 answer SUCCESS nextBeginOffset=42 +3 bytes'
    """
    names, kind = (_RESPONSES, "answer ") if command.is_response else (_REQUESTS, "")
    words = [f"#{command.opaque}", kind + names.get(command.code, str(command.code))]
    try:
        fields = command.texts()
    except SteelyardError as error:
        return " ".join((*words, f"unreadable: {error}"))
    topic = _first_present(fields, _TOPIC)
    if topic:
        broker, queue_id = _first_present(fields, _BROKER), _first_present(fields, _QUEUE_ID)
        words.append(topic + (f"@{broker}" if broker else "") + (f":{queue_id}" if queue_id else ""))
    words += [f"{name}={fields[name][:_MAX_VALUE_LENGTH]}" for name in _SHOWN_FIELDS if name in fields]
    if command.body or command.parts:
        words.append(f"+{len(command.body) + sum(map(len, command.parts))} bytes")
    if command.remark:
        words.append(f"({command.remark[:_MAX_VALUE_LENGTH]})")
    return " ".join(words)


def _first_present(fields: dict[str, str], names: tuple[str, ...]) -> str:
    return next((fields[name] for name in names if name in fields), "")


def _format_fact(fact: Fact) -> str:
    """Format a fact for a trace, without its time.

    >>> from simulator.facts import MemberRegistered
    >>> _format_fact(MemberRegistered(at_ms=12, broker="broker-a", group="billing", member="m1"))
    '· Registered broker=broker-a group=billing member=m1'
    """
    named = ((name, getattr(fact, name)) for name in structs.asdict(fact) if name != "at_ms")
    return " ".join(("·", fact.label, *(f"{name}={_format_value(value)}" for name, value in named)))


def _format_value(value: object) -> str:
    if isinstance(value, Queue):
        return str(value)
    if isinstance(value, tuple):
        return "[" + " ".join(map(_format_value, value)) + "]"
    return str(value)


_DIGEST_BYTES = 16


class Journal:
    """Facts of one history, a digest of everything, and a trace for people if they want one."""

    def __init__(self, now_ms: Callable[[], int], *, trace: bool = False) -> None:
        self.facts: list[Fact] = []
        self.listeners: list[Callable[[Fact], object]] = []
        """Called with each fact as it is recorded, in this order."""
        self.trace_lines: list[str] | None = [] if trace else None
        """One line per event, for people; None without tracing."""
        self.deliveries = 0
        self._now_ms = now_ms
        self._digest = blake2b(digest_size=_DIGEST_BYTES)

    def record(self, fact: Fact) -> None:
        """Record a fact and pass it to the listeners."""
        self.facts.append(fact)
        self._digest.update(fact.label.encode() + msgpack.encode(fact))
        if self.trace_lines is not None:
            self.trace_lines.append(f"{self._timestamp()} {_format_fact(fact)}")
        for listener in self.listeners:
            listener(fact)

    def record_delivery(self, now_us: int, connection_id: int, data: bytes) -> None:
        """Add delivered bytes to the digest."""
        self.deliveries += 1
        self._digest.update(b"%d:%d:" % (now_us, connection_id) + data)

    def trace_command(self, source: str, target: str, command: Command) -> None:
        """Add a received command to the trace, if there is one."""
        if self.trace_lines is not None:
            self.trace_lines.append(f"{self._timestamp()} {source} → {target} {_format_command(command)}")

    def trace_remark(self, remark: str) -> None:
        """Add a remark to the trace, if there is one. It is not a fact."""
        if self.trace_lines is not None:
            self.trace_lines.append(f"{self._timestamp()} {remark}")

    def digest(self) -> str:
        """Return the digest of everything so far."""
        return self._digest.hexdigest()

    def _timestamp(self) -> str:
        now_ms = self._now_ms()
        return f"{now_ms // 1000}.{now_ms % 1000:03}"


_STOP_CHECK_US = 50_000
"""How often `run` calls ``should_stop``: after each event it would cost as much as the events."""


class World:
    """Time, randomness, a network, and the processes on it.

    >>> world = World(7)
    >>> seen = []
    >>> _ = world.schedule(2_000, lambda: seen.append("second"))
    >>> _ = world.schedule(1_000, lambda: seen.append("first"))
    >>> world.schedule(3_000, lambda: seen.append("never")).cancel()
    >>> world.run(until_ms=10)
    >>> seen, world.now_ms()
    (['first', 'second'], 10)
    """

    def __init__(self, seed: int | str = 0, *, trace: bool = False) -> None:
        self.now_us = 0
        self.random = SeededRandom(seed)
        self.journal = Journal(self.now_ms, trace=trace)
        self.processes: dict[str, Process] = {}
        """All processes that ever ran, by name."""
        self.events_handled = 0
        self._heap: list[tuple[int, int, Timer]] = []
        self._sequence = 0
        self.network = Network(self)

    def now_ms(self) -> int:
        """Return the milliseconds since the history began."""
        return self.now_us // 1000

    def schedule(self, delay_us: int, callback: Callable[[], None]) -> Timer:
        """Run a callback after a delay, unless the timer is cancelled before."""
        timer = Timer(callback)
        self.push_timer(delay_us, timer)
        return timer

    def push_timer(self, delay_us: int, timer: Timer) -> None:
        """Put a timer on the heap."""
        self._sequence = sequence = self._sequence + 1
        heappush(self._heap, (self.now_us + delay_us, sequence, timer))

    def run(self, until_ms: int, should_stop: Callable[[], bool] | None = None) -> None:
        """Handle events until this time, or until ``should_stop``, which is called every 50 ms, returns True."""
        heap, until_us = self._heap, until_ms * 1000
        check_us = self.now_us + _STOP_CHECK_US
        while heap and heap[0][0] <= until_us:
            at_us, _, timer = heappop(heap)
            callback = timer.callback
            if callback is None:
                continue
            if should_stop is not None and at_us >= check_us:
                check_us = at_us + _STOP_CHECK_US
                if should_stop():
                    heappush(heap, (at_us, 0, timer))
                    return
            self.now_us = at_us
            self.events_handled += 1
            if timer.process is None:
                callback()
            else:
                timer.process.run_timer(timer)
        self.now_us = max(self.now_us, until_us)

    def record(self, fact: Fact) -> None:
        """Record a fact in the journal."""
        self.journal.record(fact)
