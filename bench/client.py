"""Our client beside Java's, Node's and the one in C++: all against one and the same broker of Apache's, in turns.

What is timed is what the broker has stored, by its own answer, or what a handler was handed: the same count for all,
once each is warm. A turn counts only if everything arrived, nothing failed and nothing came twice. A figure is the
median of the rounds; behind it the best, and what the client's own process took of a processor for a message. All
messages have 1 KiB. With ``linger_ms=0`` those that are handed over in one turn of the loop share a request; all others
have one each.

Takes less than six minutes and 6 GiB of the folder for temporary files; `--quick` shows in two that it works.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from statistics import median

from bench.brokers import APACHE, Broker, running
from bench.client_load import BATCH, IN_FLIGHT
from bench.client_runs import QUEUES, Client, ClientRun, consume, send
from bench.java_load import BINARY, NotReady, batch_producer, check_java, consumer, producer
from bench.load import Load, running_python
from bench.other_clients import CPP, NODE, cpp_consumer, node_producer, prepare_other_clients
from bench.table import Row
from bench.throughput import Measurement, Stalled

# The ways of ours are words of bench/client_load.py.
_SEND, _TASKS, _SUBMIT, _BATCHES, _CONSUME = "send", "tasks", "submit", "batches", "consume"
_TASKS_TOGETHER, _SUBMIT_TOGETHER = "tasks-together", "submit-together"
_JAVA_ONE, _JAVA_MANY = "Java, 1 thread", f"Java, {IN_FLIGHT} threads"
_JAVA_BATCHES, _JAVA_CONSUMER = "Java, batches", "Java, consumer"
_ROUNDS = 2
_MIB = 1 << 20
_FLAT = 1.1
# How many are sent before the timing by a client that is warm at once.
_START = 0.05


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many messages are timed, and how many a JVM, which needs some seconds, sends before that."""

    one: int = 25_000
    one_warm: int = 20_000
    many: int = 200_000
    many_warm: int = 200_000
    batches: int = 960_000
    batches_warm: int = 300_000
    drained: int = 1_000_000


_QUICK = Sizes(2_000, 2_000, 20_000, 10_000, 200_000, 50_000, 200_000)


def run(*, is_quick: bool = False) -> Iterator[Row]:
    """Measure everything; who is not installed is left out, and said."""
    try:
        check_java()
    except NotReady as problem:
        print(f"client: left out, {problem}")
        return
    prepare_other_clients()
    sizes, rounds = (_QUICK, 1) if is_quick else (Sizes(), _ROUNDS)
    turns: _Turns = defaultdict(list)
    with running(APACHE, is_sync=False) as broker:
        for topic, timed, clients in _senders(sizes):
            broker.make_topic(topic, QUEUES)
            for _ in range(rounds):
                for client in clients:
                    _add(turns, client.name, partial(send, client, broker, topic, timed))
        for number in range(rounds):
            for place, client in enumerate(_handlers(is_first=number == 0)):
                group = f"drain-{number}-{place}"
                _add(turns, client.name, partial(consume, client, broker, _FILLED, group, sizes.drained))
    yield from _rates(turns)
    yield from _memory(turns)


# -- who takes turns --------------------------------------------------------------------------------------------------

# The topic that batches are sent to is the one that is drained.
_FILLED = "filled"


def _senders(sizes: Sizes) -> Iterator[tuple[str, int, Sequence[Client]]]:
    """Name the topics, how many messages are timed in each, and who sends there in turns."""
    yield "one", sizes.one, [_ours(_SEND, sizes.one), Client(_JAVA_ONE, partial(_java, 1), sizes.one_warm)]
    yield (
        "many",
        sizes.many,
        [
            _ours(_TASKS, sizes.many),
            Client(_JAVA_MANY, partial(_java, IN_FLIGHT), sizes.many_warm),
            _ours(_SUBMIT, sizes.many),
            _ours(_TASKS_TOGETHER, sizes.many),
            Client(NODE, _node, int(sizes.many * _START)),
            _ours(_SUBMIT_TOGETHER, sizes.many),
        ],
    )
    in_batches = Client(_JAVA_BATCHES, _java_batches, sizes.batches_warm, is_endless=True)
    yield _FILLED, sizes.batches, [_ours(_BATCHES, sizes.batches), in_batches]


def _handlers(*, is_first: bool) -> Iterator[Client]:
    """Name who drains the filled topic in turns; the slow one has no second turn, nobody should wait for it twice."""
    yield Client(_CONSUME, _our_consumer)
    if is_first:
        yield Client(CPP, _cpp)
    yield Client(_JAVA_CONSUMER, _java_consumer)


def _ours(way: str, timed: int) -> Client:
    def start(broker: Broker, topic: str, messages: int) -> AbstractContextManager[Load]:
        return running_python("bench.client_load", [way, broker.name_server, topic, str(messages), "bench"])

    return Client(way, start, int(timed * _START))


def _our_consumer(broker: Broker, group: str, messages: int) -> AbstractContextManager[Load]:
    return running_python("bench.client_load", [_CONSUME, broker.name_server, _FILLED, str(messages), group])


def _java(threads: int, broker: Broker, topic: str, messages: int) -> AbstractContextManager[Load]:
    return producer(broker, topic, threads=threads, messages=messages, headers=BINARY)


def _java_batches(broker: Broker, topic: str, _messages: int) -> AbstractContextManager[Load]:
    return batch_producer(broker, topic, threads=1, batch=BATCH, headers=BINARY)


def _java_consumer(broker: Broker, group: str, _messages: int) -> AbstractContextManager[Load]:
    return consumer(broker, _FILLED, group, headers=BINARY)


def _node(broker: Broker, topic: str, messages: int) -> AbstractContextManager[Load]:
    return node_producer(broker, topic, messages, IN_FLIGHT)


def _cpp(broker: Broker, group: str, messages: int) -> AbstractContextManager[Load]:
    return cpp_consumer(broker, _FILLED, group, messages)


_Turns = dict[str, list[ClientRun]]


def _add(turns: _Turns, name: str, take: Callable[[], ClientRun]) -> None:
    try:
        turns[name].append(take())
    except NotReady as problem:
        print(f"{name}: left out, {problem}")
    except (Stalled, RuntimeError, AssertionError, OSError) as problem:
        print(f"{name}: {problem}")
        turns[name].append(ClientRun(Measurement(0, 0, "did not finish")))


# -- the table --------------------------------------------------------------------------------------------------------


def _rates(turns: _Turns) -> Iterator[Row]:
    yield _beside(turns, "one after the other", _SEND, _JAVA_ONE, 1)
    for way, what in ((_TASKS, f"{IN_FLIGHT} tasks"), (_SUBMIT, f"{IN_FLIGHT} submitted")):
        yield _beside(turns, what, way, _JAVA_MANY, 1)
        yield _beside(turns, what, way, NODE, 2)
    for way, what in ((_TASKS_TOGETHER, f"{IN_FLIGHT} tasks"), (_SUBMIT_TOGETHER, f"{IN_FLIGHT} submitted")):
        yield _beside(turns, f"{what}, linger_ms=0", way, NODE, 2)
    yield _at_least(turns, f"batches of {BATCH}", _BATCHES, _JAVA_BATCHES, 60_000)
    yield _at_least(turns, "into a callback", _CONSUME, _JAVA_CONSUMER, 100_000)
    yield _beside(turns, "into a callback", _CONSUME, CPP, 3)


def _memory(turns: _Turns) -> Iterator[Row]:
    for way, what in ((_TASKS, f"{IN_FLIGHT} tasks"), (_BATCHES, "batches"), (_CONSUME, "into a callback")):
        # A leak is there in every turn, messages that wait to be handled only in some: the one that grew least counts.
        turn = min(turns[way], key=_growth)
        growth = _growth(turn)
        yield Row(
            f"memory, {what}",
            f"last tenth: {turn.late_bytes / _MIB:.1f} MiB",
            f"first tenth: {turn.early_bytes / _MIB:.1f} MiB",
            f"{growth:.2f}x",
            f"≤ {_FLAT:g} times that",
            0 < growth <= _FLAT,
        )


def _growth(turn: ClientRun) -> float:
    return turn.late_bytes / max(turn.early_bytes, 1)


def _beside(turns: _Turns, what: str, ours: str, other: str, goal: float) -> Row:
    rate, beside = _median(turns[ours]), _median(turns[other])
    ratio = rate / beside if beside else 0.0
    is_met = ratio >= goal and not _faults(turns[ours])
    return Row(
        what, _reported(turns[ours]), f"{other}: {_reported(turns[other])}", f"{ratio:.2f}x", f"≥ {goal:g}x", is_met
    )


def _at_least(turns: _Turns, what: str, ours: str, other: str, goal: int) -> Row:
    row = _beside(turns, what, ours, other, 0)
    is_met = _median(turns[ours]) >= goal and not _faults(turns[ours])
    return row._replace(goal=f"≥ {goal // 1000} k/s", met=is_met)


def _median(turns: Sequence[ClientRun]) -> float:
    return median(turn.measured.rate for turn in turns) if turns else 0.0


def _faults(turns: Sequence[ClientRun]) -> str:
    return "; ".join(turn.measured.fault for turn in turns if turn.measured.fault)


def _reported(turns: Sequence[ClientRun]) -> str:
    if not turns:
        return "left out"
    best = max(turn.measured.rate for turn in turns)
    cpu_us = median(turn.measured.cpu_us for turn in turns)
    fault = f" ({faults})" if (faults := _faults(turns)) else ""
    return f"{_median(turns) / 1000:,.1f} k/s, best {best / 1000:,.1f}; {cpu_us:.1f} µs{fault}"
