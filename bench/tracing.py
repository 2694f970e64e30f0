"""What it costs to be watched by nobody: clients with the observer of OpenTelemetry while no SDK is set up.

The same work is done by a client without it and by one with it, in turns of some hundredths of a second, the first turn
going now to the one and now to the other. What is compared is what each turn took of this process' processor; a figure
is the median over all pairs of turns, so that what else the machine does falls out. The broker is a process of its own.
"""

import asyncio
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from bench.brokers import Broker, running_ours
from bench.table import Row
from steelyard import Message, Observer, Producer, Queue, ReceivedMessage, aio
from steelyard.balance.group.actions import HandleMessages
from steelyard.balance.group.events import Handled
from steelyard.client.consumer.handler_pool import HandlerPool
from steelyard.client.consumer.handlers import Handler
from steelyard.client.observers.observers import Observers
from steelyard.errors import MissingExtra
from steelyard.net.event_loop import new_event_loop

_GOAL = 0.02
_BODY = b"x" * 1024
_IN_FLIGHT = 64
_TOPIC = "traced"
_CHUNK = 32


@dataclass(frozen=True, slots=True)
class _Sizes:
    """How many pairs of turns there are, and how many messages a turn has."""

    pairs: int = 300
    sends: int = 100
    many: int = 640
    handled: int = 32_000


_QUICK = _Sizes(20, 50, 320, 3_200)


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
    yield _row("a message into a callback", _handled(watched, sizes))


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

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        plain, other = (aio.Producer(broker.name_server, observers=observers) for observers in watched)
        for producer in (plain, other):
            runner.run(producer.open())
        found = _in_turns([lambda: runner.run(turn(plain)), lambda: runner.run(turn(other))], sizes.pairs)
        for producer in (plain, other):
            runner.run(producer.close())
    return found


# -- a handler --------------------------------------------------------------------------------------------------------


def _handled(watched: Sequence[Sequence[Observer]], sizes: _Sizes) -> list[_Pair]:
    """Give chunks of messages to a worker of a consumer; how they come from a broker would only add its noise."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:

        async def handler_pool_run(observers: Sequence[Observer]) -> _Worked:
            return _Worked(observers)

        plain, other = (runner.run(handler_pool_run(observers)) for observers in watched)

        async def turn(worked: _Worked) -> float:
            took: list[float] = []
            with _timed(sizes.handled, took):
                await worked.work(sizes.handled // _CHUNK)
            return took[0]

        found = _in_turns([lambda: runner.run(turn(plain)), lambda: runner.run(turn(other))], sizes.pairs)
        for worked in (plain, other):
            runner.run(worked.pool.close(1.0))
    return found


class _Worked:
    """A handler pool with one worker, and the chunk that it is given again and again."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        queue = Queue(_TOPIC, "broker-a", 0)
        messages = [ReceivedMessage(queue, offset, _BODY) for offset in range(_CHUNK)]
        self._handle = HandleMessages(queue, 1, range(_CHUNK), messages, None)
        self._left = 0
        self._done = asyncio.Event()
        self.pool = HandlerPool(
            {_TOPIC: Handler(_TOPIC, _nothing)},
            workers=1,
            may_start=lambda *_: True,
            on_handled=self._reported,
            set_chunk=lambda *_: None,
            observers=Observers("consumer", "billing", observers),
        )

    async def work(self, chunks: int) -> None:
        """Have so many chunks handled."""
        self._left = chunks * _CHUNK
        self._done.clear()
        for _ in range(chunks):
            self.pool.submit(self._handle)
        await self._done.wait()

    def _reported(self, results: Sequence[Handled]) -> None:
        self._left -= sum(len(each.done) for each in results)
        if not self._left:
            self._done.set()


def _nothing(_message: ReceivedMessage) -> None:
    """Do nothing."""
