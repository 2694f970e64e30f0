"""One turn of one client: it sends so many messages, or is handed so many, and is timed once it is warm.

A turn says what went wrong: a send that failed, a message that the broker does not have, or one that came twice.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from bench.brokers import Broker, stored
from bench.java_load import JavaLoad
from bench.load import Load
from bench.throughput import BrokerCounts, Measurement, Stalled, measure_throughput
from tests.interop.wire_client import commit, create_group

QUEUES = 8
# Whoever has many messages on their way does not end all at once, and Java tells how far it is only now and then.
_TAIL = 0.05
# A handler's start is quick, but before its first pulls there is a round of a group.
_HEAD = 0.2

Start = Callable[[Broker, str, int], AbstractContextManager[Load]]
"""Starts a client on a broker: with the topic, or the group, and how many messages it has to do with."""


@dataclass(frozen=True, slots=True)
class Client:
    """Who is measured, how it is started, and how many messages it sends before it is timed."""

    name: str
    start: Start
    warm: int = 0
    is_endless: bool = False
    """Whether it sends until it is stopped, and so more than it is told to."""


@dataclass(frozen=True, slots=True)
class ClientRun:
    """What was measured, and what the process held over the first tenth of its messages and over the last."""

    measured: Measurement
    early_bytes: int = 0
    late_bytes: int = 0


def send(client: Client, broker: Broker, topic: str, timed: int) -> ClientRun:
    """Let it send, and ask the broker how much is there."""
    tail = int(timed * _TAIL)
    messages = client.warm + timed + tail
    with broker.connection() as connection:
        ask = BrokerCounts(connection, topic, QUEUES, start=sum(stored(connection, topic, QUEUES)))
        with client.start(broker, topic, messages) as load:
            memory = _Memory(load, ask.stored, messages)
            rate, cpu_us = measure_throughput(memory.ask, load.cpu_s, load, range(client.warm, client.warm + timed))
            if not client.is_endless:
                measure_throughput(memory.ask, load.cpu_s, load, range(messages, messages))
                load.wait()
            faults = [f"{load.failed} failed"] if load.failed else []
            if not client.is_endless and (found := ask.stored()) != messages:
                faults.append(f"{found:,} of {messages:,} stored")
    return ClientRun(Measurement(rate, cpu_us, ", ".join(faults)), memory.early_bytes, memory.late_bytes)


def consume(client: Client, broker: Broker, topic: str, group: str, messages: int) -> ClientRun:
    """Let it drain the last messages of the topic, as many for everybody."""
    with broker.connection() as connection:
        ends = stored(connection, topic, QUEUES)
        starts = [end - messages // QUEUES for end in ends]
        if min(starts) < 0:
            raise Stalled(f"the topic has too few messages: {ends}")
        create_group(connection, group)
        for queue, start in enumerate(starts):
            commit(connection, group, topic, queue, start)
        committed = BrokerCounts(connection, topic, QUEUES, group=group, start=sum(starts)).handled
        with client.start(broker, group, messages) as load:
            memory = _Memory(load, committed if isinstance(load, JavaLoad) else _reported_count(load), messages)
            timed = range(int(messages * _HEAD), int(messages * (1 - _TAIL)))
            rate, cpu_us = measure_throughput(memory.ask, load.cpu_s, load, timed)
            measure_throughput(memory.ask, load.cpu_s, load, range(messages, messages))
            if isinstance(load, JavaLoad):
                return ClientRun(Measurement(rate, cpu_us))
            load.wait()
            counts = load.reported()
        faults = [f"{counts['wrong']} were not what was sent"] if counts["wrong"] else []
        if counts["handled"] != messages:
            faults.append(f"{counts['handled']:,} handled of {messages:,}")
        if (reported := committed()) != messages:
            faults.append(f"{reported:,} committed of {messages:,}")
    return ClientRun(Measurement(rate, cpu_us, ", ".join(faults)), memory.early_bytes, memory.late_bytes)


def _reported_count(load: Load) -> Callable[[], int]:
    return lambda: load.reported().get("handled", 0)


class _Memory:
    """Looks at what a process holds whenever it is asked how far it is."""

    def __init__(self, load: Load, ask: Callable[[], int], messages: int) -> None:
        self._load, self._ask, self._messages = load, ask, messages
        self.early_bytes, self.late_bytes = 0, 0

    def ask(self) -> int:
        """Return how far it is."""
        done, held = self._ask(), self._load.resident_bytes()
        if done <= self._messages // 10 or not self.early_bytes:
            self.early_bytes = max(self.early_bytes, held)
        elif done >= self._messages * 9 // 10:
            self.late_bytes = max(self.late_bytes, held)
        return done
