"""What our broker is measured by without Apache's: how soon it is ready, and what many queues cost."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from statistics import median
from time import perf_counter

from bench.brokers import Broker, running_ours
from bench.flood import Flood
from bench.table import Row

_STARTS = 5
_READY_S = 0.7
_MANY = 10_000
_TURNS = 3
_DEARER = 1.25


def ready_time() -> Iterator[Row]:
    """Measure from the start of the process to the line that says that it can be used, on an empty directory."""
    ours_s = median(_ours_s() for _ in range(_STARTS))
    python_s = median(_python_s() for _ in range(_STARTS))
    yield Row(
        f"steelyard up until ready, median of {_STARTS}",
        f"{ours_s:.2f} s",
        f"Python alone: {python_s:.2f} s",
        "",
        f"≤ {_READY_S} s",
        ours_s <= _READY_S,
    )


def _ours_s() -> float:
    started = perf_counter()
    with running_ours():
        return perf_counter() - started


def _python_s() -> float:
    started = perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return perf_counter() - started


def flat_in_queues() -> Iterator[Row]:
    """Measure what a send costs the broker's processor with one queue and with ten thousand, in turns."""
    with running_ours() as broker:
        broker.make_topic("one", 1)
        broker.make_topic("many", _MANY)
        with (
            closing(Flood(broker.port, "one", [0] * _MANY)) as one,
            closing(Flood(broker.port, "many", range(_MANY))) as many,
        ):
            one.once()
            many.once()
            measured = [(_send_us(broker, one), _send_us(broker, many)) for _ in range(_TURNS)]
    one_us, many_us = (min(each) for each in zip(*measured, strict=True))
    yield Row(
        f"a send to one of {_MANY:,} queues",
        f"{many_us:.1f} µs of CPU",
        f"to the only one: {one_us:.1f} µs",
        f"{one_us / many_us:.2f}x",
        f"≤ {_DEARER:g} times that",
        many_us <= _DEARER * one_us,
    )


def _send_us(broker: Broker, flood: Flood) -> float:
    used_s = broker.cpu_s()
    sent = flood.once() + flood.once()
    return (broker.cpu_s() - used_s) / sent * 1e6
