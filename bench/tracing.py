"""What it costs to be watched by nobody: clients with the observer of OpenTelemetry while no SDK is set up.

The same work is done by a client without it and by one with it, in turns of some hundredths of a second, the first turn
going now to the one and now to the other. What is compared is what each turn took of this process' processor; a figure
is the median over all pairs of turns, so that what else the machine does falls out. The broker is a process of its own.
"""

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from bench.brokers import Broker, running_ours
from bench.table import Row
from steelyard import Consumer, Message, Observer, Producer, aio
from steelyard.errors import MissingExtra
from steelyard.net.loops import new_loop

__all__ = ["run"]

_GOAL = 0.02
_BODY = b"x" * 1024
_IN_FLIGHT = 64
_TOPIC = "traced"
_WAIT_S = 60


@dataclass(frozen=True, slots=True)
class _Sizes:
    """How many pairs of turns there are, and how many messages a turn has."""

    pairs: int = 300
    sends: int = 100
    many: int = 640
    rounds: int = 40
    handled: int = 20_000


_QUICK = _Sizes(20, 50, 320, 4, 5_000)


def run(*, is_quick: bool = False) -> Iterator[Row]:
    """Measure senders and a handler; without the API there is nothing to measure."""
    try:
        from steelyard.otel import OpenTelemetry
    except MissingExtra as problem:
        print(f"tracing: left out, {problem}")
        return
    sizes = _QUICK if is_quick else _Sizes()
    watched: Sequence[Sequence[Observer]] = ((), (OpenTelemetry(),))
    with running_ours() as broker:
        broker.make_topic(_TOPIC, 8)
        yield _row("a send, one after the other", _blocking(broker, watched, sizes))
        yield _row(f"a send of {_IN_FLIGHT} tasks", _tasks(broker, watched, sizes))
        yield _row("a message into a callback", _handled(broker, watched, sizes))


_Pair = tuple[float, float]
"""What a message took without the observer and with it, in microseconds of the processor."""


def _row(what: str, pairs: Sequence[_Pair]) -> Row:
    plain_us, watched_us = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
    more = median(pair[1] / pair[0] for pair in pairs) - 1
    return Row(
        f"{what}, watched by OpenTelemetry without an SDK",
        f"{watched_us:.2f} µs of CPU",
        f"not watched: {plain_us:.2f} µs",
        f"{more:+.2%}",
        f"< {_GOAL:.0%} more",
        more < _GOAL,
    )


def _in_turns(turns: Sequence[Callable[[], float]], pairs: int) -> list[_Pair]:
    """Take turns, each first as often as the other; what was made before is put out of the collector's sight."""
    gc.collect()
    gc.freeze()
    found = []
    for number in range(pairs + 1):
        if number % 2:
            watched, plain = turns[1](), turns[0]()
        else:
            plain, watched = turns[0](), turns[1]()
        found.append((plain, watched))
    gc.unfreeze()
    return found[1:]


@contextmanager
def _timed(messages: int, took: list[float]) -> Iterator[None]:
    began_s = time.process_time()
    yield
    took.append((time.process_time() - began_s) / messages * 1e6)


# -- senders ----------------------------------------------------------------------------------------------------------


def _blocking(broker: Broker, watched: Sequence[Sequence[Observer]], sizes: _Sizes) -> list[_Pair]:
    def turn(producer: Producer) -> float:
        took: list[float] = []
        with _timed(sizes.sends, took):
            for _ in range(sizes.sends):
                producer.send(Message(_TOPIC, _BODY))
        return took[0]

    plain, other = (Producer(broker.name_server, observers=observers) for observers in watched)
    with plain, other:
        return _in_turns([lambda: turn(plain), lambda: turn(other)], sizes.pairs)


def _tasks(broker: Broker, watched: Sequence[Sequence[Observer]], sizes: _Sizes) -> list[_Pair]:
    async def send(producer: aio.Producer, left: Iterator[int]) -> None:
        for _ in left:
            await producer.send(Message(_TOPIC, _BODY))

    async def turn(producer: aio.Producer) -> float:
        took: list[float] = []
        with _timed(sizes.many, took):
            left = iter(range(sizes.many))
            await asyncio.gather(*(send(producer, left) for _ in range(_IN_FLIGHT)))
        return took[0]

    with asyncio.Runner(loop_factory=new_loop) as runner:
        plain, other = (aio.Producer(broker.name_server, observers=observers) for observers in watched)
        for producer in (plain, other):
            runner.run(producer.open())
        found = _in_turns([lambda: runner.run(turn(plain)), lambda: runner.run(turn(other))], sizes.pairs)
        for producer in (plain, other):
            runner.run(producer.close())
    return found


# -- a handler --------------------------------------------------------------------------------------------------------


def _handled(broker: Broker, watched: Sequence[Sequence[Observer]], sizes: _Sizes) -> list[_Pair]:
    with Producer(broker.name_server) as producer:
        broker.make_topic(f"{_TOPIC}-filled", 8)
        for _ in range(0, sizes.handled, 500):
            producer.send_many([Message(f"{_TOPIC}-filled", _BODY) for _ in range(500)])
    groups = iter(range(4 * sizes.rounds))
    turns = [lambda each=each: _drain(broker, each, f"drain-{next(groups)}", sizes.handled) for each in watched]
    return _in_turns(turns, sizes.rounds)


def _drain(broker: Broker, observers: Sequence[Observer], group: str, messages: int) -> float:
    """Handle what is there; the first messages are not counted, since before them there is a round of a group."""
    counter = _Counter(messages)
    consumer = Consumer(broker.name_server, group, start_from="first", observers=observers, workers=4)
    consumer.handles(f"{_TOPIC}-filled")(counter.handle)
    with consumer:
        if not counter.done.wait(_WAIT_S):
            raise RuntimeError(f"only {counter.count} of {messages} messages were handled")
    return (counter.end_s - counter.began_s) / (messages - counter.head) * 1e6


class _Counter:
    """A handler that counts, and looks at the clock near the beginning and at the end."""

    def __init__(self, messages: int) -> None:
        self.head, self._messages = messages // 5, messages
        self.count = 0
        self.began_s = self.end_s = 0.0
        self.done = threading.Event()
        self._lock = threading.Lock()

    def handle(self, _message: object) -> None:
        """Count a message."""
        with self._lock:
            self.count += 1
            if self.count == self.head:
                self.began_s = time.process_time()
            elif self.count == self._messages:
                self.end_s = time.process_time()
                self.done.set()
