"""Our broker beside Apache's: Java's own benchmark programs against both, in turns, in one run.

What is timed is what a broker has stored, or what a group has handled, by its own answer to us: equal counts on both
sides, from where the JVM is warm to shortly before the end. A run counts only if everything arrived: no send failed,
and no message is there twice. Beside each rate stands what the broker's process took of a processor for a message.
Takes some fifteen minutes and 6 GiB of the folder for temporary files; `--quick` shows in two that it works.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bench.broker_alone import flat_in_queues, ready_time
from bench.brokers import APACHE, OURS, Broker, running, stored
from bench.java_load import BINARY, JSON, NotReady, batch_producer, check_java, consumer, producer
from bench.noisy_neighbours import beside_neighbours
from bench.table import Row
from bench.throughput import BrokerCounts, Measurement, Stalled, measure_throughput
from tests.interop.wire_client import commit, create_group

_QUEUES, _BATCH, _THREADS = 8, 32, 64
_ROUNDS = 2
# Threads do not end at the same moment, and a group says how far it is only now and then: the last of it is not timed.
_TIMED_UNTIL = 0.95


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many messages each of the runs has."""

    many_threads: int = 600_000
    one_thread: int = 60_000
    batches: int = 1_800_000
    drained: int = 1_500_000
    synced: int = 150_000


_QUICK = Sizes(many_threads=30_000, one_thread=4_000, batches=150_000, drained=100_000, synced=10_000)


Results = dict[tuple[str, str], list[Measurement]]
"""What was measured, by the name of the run and of the broker."""


def run(*, is_quick: bool = False) -> Iterator[Row]:
    """Measure everything; what needs Java is left out, and said, where there is none."""
    yield from ready_time()
    yield from flat_in_queues()
    yield from beside_neighbours(seconds=1 if is_quick else 5)
    try:
        check_java()
    except NotReady as problem:
        print(f"broker beside Apache's: left out, {problem}")
        return
    yield from _beside_apache(_QUICK if is_quick else Sizes(), 1 if is_quick else _ROUNDS)


def _beside_apache(sizes: Sizes, rounds: int) -> Iterator[Row]:
    results: Results = defaultdict(list)
    for _ in range(rounds):
        for is_sync, runs in ((False, _asynchronous(sizes)), (True, _synchronous(sizes))):
            for name in (APACHE, OURS):
                with running(name, is_sync=is_sync) as broker:
                    for what, measure in runs.items():
                        results[what, name].append(_measure_once(measure, broker))
    for what in dict.fromkeys(what for what, _ in results):
        yield _row(what, _best(results[what, OURS]), _best(results[what, APACHE]))


Measure = Callable[[Broker], Measurement]


def _asynchronous(sizes: Sizes) -> dict[str, Measure]:
    """Name the runs with page cache alone, in their order: the first warms the broker, batches fill what is drained."""
    return {
        f"send 1 KiB, {_THREADS} threads, binary": lambda broker: _sent(
            broker, "many", _THREADS, sizes.many_threads, BINARY
        ),
        f"send 1 KiB, {_THREADS} threads, JSON": lambda broker: _sent(
            broker, "json", _THREADS, sizes.many_threads, JSON
        ),
        "send 1 KiB, one thread": lambda broker: _sent(broker, "one", 1, sizes.one_thread, BINARY),
        f"send 1 KiB in batches of {_BATCH}": lambda broker: _sent_in_batches(broker, "batches", sizes.batches),
        "drain, binary": lambda broker: _drained(broker, "batches", "drain", sizes.drained, BINARY),
        "drain, JSON": lambda broker: _drained(broker, "batches", "drain-json", sizes.drained, JSON),
    }


def _synchronous(sizes: Sizes) -> dict[str, Measure]:
    """Name the runs in which every message is on the disk before it is answered."""
    return {
        f"send 1 KiB, {_THREADS} threads, synced": lambda broker: _sent(
            broker, "synced", _THREADS, sizes.synced, BINARY
        ),
    }


# -- the runs ---------------------------------------------------------------------------------------------------------


def _sent(broker: Broker, topic: str, threads: int, messages: int, headers: str) -> Measurement:
    broker.make_topic(topic, _QUEUES)
    with broker.connection() as connection:
        ask = BrokerCounts(connection, topic, _QUEUES)
        with producer(broker, topic, threads=threads, messages=messages, headers=headers) as load:
            rate, cpu_us = measure_throughput(
                ask.stored, broker.cpu_s, load, range(messages * 2 // 5, int(messages * _TIMED_UNTIL))
            )
            load.wait()
            faults = [f"{load.failed} failed"] if load.failed else []
            if (found := ask.stored()) != messages:
                faults.append(f"{found:,} of {messages:,} stored")
    return Measurement(rate, cpu_us, ", ".join(faults))


def _sent_in_batches(broker: Broker, topic: str, messages: int) -> Measurement:
    broker.make_topic(topic, _QUEUES)
    with broker.connection() as connection:
        ask = BrokerCounts(connection, topic, _QUEUES)
        with batch_producer(broker, topic, threads=_THREADS, batch=_BATCH, headers=BINARY) as load:
            rate, cpu_us = measure_throughput(ask.stored, broker.cpu_s, load, range(messages * 2 // 5, messages))
            # It tells once a second, and nothing before the tenth.
            fault = f"{load.failed} failed" if load.failed else ""
    return Measurement(rate, cpu_us, fault)


def _drained(broker: Broker, topic: str, group: str, messages: int, headers: str) -> Measurement:
    with broker.connection() as connection:
        # The same count for both brokers: the last so many of each queue.
        ends = stored(connection, topic, _QUEUES)
        starts = [end - messages // _QUEUES for end in ends]
        if min(starts) < 0:
            raise Stalled(f"the topic has too few messages: {ends}")
        create_group(connection, group)
        for queue, start in enumerate(starts):
            commit(connection, group, topic, queue, start)
        ask = BrokerCounts(connection, topic, _QUEUES, group=group, start=sum(starts))
        with consumer(broker, topic, group, headers=headers) as load:
            rate, cpu_us = measure_throughput(
                ask.handled, broker.cpu_s, load, range(messages // 5, int(messages * _TIMED_UNTIL))
            )
            measure_throughput(ask.handled, broker.cpu_s, load, range(messages, messages))
    return Measurement(rate, cpu_us)


def _measure_once(measure: Measure, broker: Broker) -> Measurement:
    try:
        return measure(broker)
    except (Stalled, RuntimeError, AssertionError, OSError) as problem:
        print(f"{broker.name}: {problem}")
        return Measurement(0, 0, "did not finish")


# -- the table --------------------------------------------------------------------------------------------------------


def _best(runs: Sequence[Measurement]) -> Measurement:
    """Return the fastest run; a fault of any of them counts."""
    fastest = max(runs, key=lambda each: each.rate)
    return Measurement(fastest.rate, fastest.cpu_us, "; ".join(filter(None, (each.fault for each in runs))))


def _row(what: str, ours: Measurement, beside: Measurement) -> Row:
    ratio = ours.rate / beside.rate if beside.rate else 0.0
    return Row(
        what,
        _format_run(ours),
        f"{APACHE}: {_format_run(beside)}",
        f"{ratio:.2f}x",
        "≥ 1x",
        ratio >= 1 and not ours.fault,
    )


def _format_run(run: Measurement) -> str:
    fault = f" ({run.fault})" if run.fault else ""
    return f"{run.rate / 1000:,.1f} k/s, {run.cpu_us:.1f} µs of CPU{fault}"
