"""Reading ranges of queues as fast as brokers give them: raw records, for whoever decodes many at once.

Since a range has an end, many pulls of it are under way side by side (stretches.py), over all brokers that have queues
of it (brokers.py), by one thread and without an event loop. No pull is ever held by a broker: what is to be read is
there, or lost. What is read ahead is limited by number and by size.

Ranges come in the order in which they were given, and each in the order of offsets: what was found of a later one is
held until then, so two reads of the same ranges give the same. Tags are compared by brokers by their hashes only:
whoever decodes compares the tags themselves.
"""

import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence

from steelyard.client.bulk.brokers import BrokerReading, Terms
from steelyard.client.bulk.lines import LineShelf, shared_lines
from steelyard.client.bulk.stretches import Lost, Piece, RangeReading
from steelyard.client.connect import Connect
from steelyard.client.names import Names
from steelyard.errors import MessagesLost
from steelyard.model import FilterKind, OffsetRange, Queue, Subscription
from steelyard.net.clock import steady_ms
from steelyard.net.pipelined import first_ready
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.headers.pull import Pull
from steelyard.wire.signing import signed

__all__ = ["DEFAULT_GROUP", "Piece", "fail_on_loss", "is_filter", "read_ranges"]

DEFAULT_GROUP = "steelyard-bulk"
"""Who pulls where nobody says so."""

_MIB = 1 << 20
_MOST_ANSWER_BYTES = 4 * _MIB
_LEAST_ANSWER_BYTES = 256 * 1024
_BRINGS_FILTER = 4


def fail_on_loss(lost: OffsetRange, why: str) -> None:
    """Raise MessagesLost."""
    raise MessagesLost(str(lost.queue), lost.start, lost.end, why=why)


def read_ranges(
    ranges: Sequence[OffsetRange],
    connect: Connect,
    addresses: Mapping[str, str],
    *,
    group: str = DEFAULT_GROUP,
    wanted: tuple[str, str] | None = None,
    depth: int = 16,
    most: int = 1_000,
    ahead_bytes: int = 16 * _MIB,
    patience_ms: int = 30_000,
    silence_ms: int = 10_000,
    settle_ms: int = 3_000,
    on_lost: Lost = fail_on_loss,
    lines: LineShelf | None = None,
) -> Generator[Piece, None, None]:
    """Yield the records of some ranges, one range after the other, each in the order of offsets.

    ``addresses`` are those of the brokers by name, as far as they are known. ``wanted`` is a filter's language and
    text. ``depth`` pulls of ``most`` messages are under way, about ``ahead_bytes`` read ahead. A line that says nothing
    for ``silence_ms`` is given up for another one; a broker that gives nothing for ``patience_ms`` ends the read with
    TimedOut. What is not there any more is told to ``on_lost``, which may return: then the rest is read. Offsets beyond
    the end of a queue count as lost after ``settle_ms``.
    """
    terms = Terms(
        connect,
        shared_lines() if lines is None else lines,
        _requests(connect, group, wanted, max(_LEAST_ANSWER_BYTES, min(_MOST_ANSWER_BYTES, ahead_bytes // depth))),
        most,
        is_filter(wanted),
        patience_ms,
        silence_ms,
        settle_ms,
    )
    readings = deque(RangeReading(each, on_lost) for each in ranges if each)
    by_broker: dict[str, list[RangeReading]] = {}
    for reading in readings:
        by_broker.setdefault(reading.queue.broker, []).append(reading)
    brokers = [BrokerReading(name, addresses.get(name), each, terms) for name, each in by_broker.items()]
    try:
        _ask(brokers, readings, depth, ahead_bytes)
        while working := [broker for broker in brokers if broker.has_work]:
            _hear(working)
            pieces = _next_pieces(readings)
            # What follows is asked for before these are worked on, so that it comes meanwhile.
            _ask(working, readings, depth, ahead_bytes)
            if pieces:
                began_ms = steady_ms()
                yield from pieces
                for broker in brokers:
                    broker.excuse(steady_ms() - began_ms)
    finally:
        for broker in brokers:
            broker.close()


def _next_pieces(readings: deque[RangeReading]) -> list[Piece]:
    """Return what can leave: all that was found in order. Ranges that are over are removed."""
    pieces: list[Piece] = []
    while readings:
        pieces += readings[0].ready()
        if not readings[0].is_over:
            break
        readings.popleft()
    return pieces


def _ask(brokers: list[BrokerReading], readings: deque[RangeReading], depth: int, ahead_bytes: int) -> None:
    """Have more pulls under way, as many as may be."""
    if readings:
        readings[0].is_next = True
    room = ahead_bytes - sum([reading.held_bytes for reading in readings])
    room -= sum([len(broker.asked) * broker.answer_bytes for broker in brokers])
    share = max(1, depth // max(1, len(brokers)))
    for broker in brokers:
        # Half of the room is for the range that comes next: else those behind it would fill it, and wait.
        kept = 0 if readings and readings[0].queue.broker == broker.name else ahead_bytes // 2
        room -= broker.ask(share, room - kept) * broker.answer_bytes


def _hear(brokers: list[BrokerReading]) -> None:
    """Wait for the first broker that says something, or that can be asked again."""
    now_ms = steady_ms()
    asked = {broker.line: broker for broker in brokers if broker.line is not None and broker.asked}
    if len(brokers) == len(asked) == 1 and not brokers[0].is_waiting(now_ms):
        brokers[0].hear()
        return
    due_ms = min([broker.next_due_ms(now_ms) for broker in brokers])
    if not asked:
        time.sleep(max(0, due_ms - now_ms) / 1000)
        return
    for line in first_ready(list(asked), due_ms - now_ms):
        asked[line].hear()
    for broker in asked.values():
        broker.check_silence()


def is_filter(wanted: tuple[str, str] | None) -> bool:
    """Say whether a filter leaves anything out.

    >>> is_filter(None), is_filter(("TAG", "*")), is_filter(("TAG", "paid"))
    (False, False, True)
    """
    if wanted is None:
        return False
    kind, expression = wanted
    return FilterKind(kind) is FilterKind.SQL92 or bool(Subscription("any", expression).tags)


def _requests(
    connect: Connect, group: str, wanted: tuple[str, str] | None, most_bytes: int
) -> Callable[[Queue, int, int], Command]:
    """Return what makes the pull of so many messages of a queue from an offset on."""
    names, credentials = Names(connect.namespace), connect.credentials
    full_group = names.full(group)
    kind, expression = wanted or ("TAG", "*")

    def request(queue: Queue, offset: int, most: int) -> Command:
        topic = names.full(queue.topic)
        header = Pull(
            full_group, topic, queue.queue_id, offset, most, _BRINGS_FILTER, 0, 0, 0, expression, kind, most_bytes
        )
        command = Command(RequestCode.PULL_MESSAGE, header)
        return command if credentials is None else signed(command, credentials)

    return request
