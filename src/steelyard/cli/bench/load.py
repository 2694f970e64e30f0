"""Putting load on a topic: several sends under way at a time, at a steady rate if one is wanted."""

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.cli.bench.figures import Figures, Teller
from steelyard.cli.bench.scratch import topic_for
from steelyard.errors import ConfigurationError, PartlySent, SteelyardError
from steelyard.model import Message

if TYPE_CHECKING:
    from steelyard.cli.frame.ending import Ending
    from steelyard.client.connect import Connect
    from steelyard.client.producing.producer import Producer

__all__ = ["PRODUCERS", "Load", "run_load", "send_load", "tell_until"]

PRODUCERS = "STEELYARD_BENCH"
"""The group that sends."""

_TELL_S = 0.2


@dataclass(frozen=True, slots=True)
class Load:
    """What to send: bodies of so many bytes, until so many messages are sent or so much time is over."""

    size: int
    count: int | None
    duration_s: float | None
    in_flight: int
    batch: int
    rate: float | None

    def __post_init__(self) -> None:
        if self.rate is not None and self.batch > 1:
            raise ConfigurationError("--rate is for single messages", next_step="leave out --batch")


class _Turns:
    """Whose turn it is: numbers of messages, handed out in time."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._given = 0
        self._start_s = time.perf_counter()

    def left(self) -> int:
        """Return how many messages may be sent next, together; 0 if it is over."""
        load = self._load
        if load.duration_s is not None:
            # At a steady rate turns are given ahead of their time.
            at_s = time.perf_counter() - self._start_s if load.rate is None else self._given / load.rate
            if at_s >= load.duration_s:
                return 0
        left = load.batch if load.count is None else min(load.batch, load.count - self._given)
        self._given += left
        return left

    async def wait(self) -> None:
        """Wait until the turn that was given last has come."""
        if self._load.rate is not None:
            at_s = self._start_s + (self._given - 1) / self._load.rate
            wait_s = at_s - time.perf_counter()
            if wait_s > 0:
                await asyncio.sleep(wait_s)


async def send_load(producer: "Producer", topic: str, load: Load, figures: Figures, ending: "Ending") -> None:
    """Send until it is over, or somebody says so."""
    # Random bytes: nothing on the way can make them smaller.
    message = Message(topic, os.urandom(load.size))
    turns = _Turns(load)
    figures.begin()

    async def send_in_turn() -> None:
        while not ending and (together := turns.left()):
            await turns.wait()
            if ending:
                return
            begin_s = time.perf_counter()
            try:
                if together == 1:
                    await producer.send(message)
                else:
                    await producer.send_many([message] * together)
            except PartlySent as error:
                figures.fail(together - len(error.stored), error)
                figures.add(len(error.stored), len(error.stored) * load.size)
            except SteelyardError as error:
                figures.fail(together, error)
            else:
                figures.latencies.note(round((time.perf_counter() - begin_s) * 1e6))
                figures.add(together, together * load.size)

    await asyncio.gather(*(send_in_turn() for _ in range(load.in_flight)))


async def run_load(
    where: "Connect", named: str | None, queues: int, load: Load, figures: Figures, ending: "Ending"
) -> None:
    """Send to a topic that is there, or to one of the run's own, and tell how far it is."""
    from steelyard.client.producing.producer import Producer

    async with topic_for(where, named, queues) as topic, Producer(where, PRODUCERS) as producer:
        sending = asyncio.ensure_future(send_load(producer, topic, load, figures, ending))
        await asyncio.gather(sending, tell_until(figures, sending.done))


async def tell_until(figures: Figures, is_over: Callable[[], bool]) -> None:
    """Tell how far it is until it is over."""
    teller = Teller(figures)
    try:
        while not is_over():
            await asyncio.sleep(_TELL_S)
            teller.tell()
    finally:
        teller.clear()
