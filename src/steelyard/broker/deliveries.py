"""Messages that wait go to the queues they were meant for once their time has come: never early, never lost.

A tick delivers what is due, at most so much, writes it, and only then counts it as delivered; what could not be written
stays due. How far it came is saved once the copies are safe on the disk (progress.py). So after a crash some messages
are due again that were delivered: they are found by looking (copies.py), and passed over. A copy keeps all properties,
as Apache's does, gets the time of its delivery as its store time, and the position of the one that waited as its
prepared offset.

Left out: carrying a message on that waits longer than its log file is kept.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from steelyard.broker.copies import likeness_of, trace_of
from steelyard.broker.flushing import flush
from steelyard.broker.schedule import LEVELS
from steelyard.broker.state import State
from steelyard.broker.storing import Place, make_topic, put_copy, real_place, timer_due_ms, whole_number
from steelyard.broker.timers import Delivered
from steelyard.errors import ConfigurationError, ServerError, SteelyardError, StoreError
from steelyard.model.names import TIMER_GROUP, TIMER_TOPIC
from steelyard.store.marks import DELAY_LEVELS_MS, SCHEDULE_TOPIC
from steelyard.store.timer_files import read_timer_check
from steelyard.wire.properties import parse_properties
from steelyard.wire.property_names import TIMER_OUT_MS, TIMER_ROLL_TIMES
from steelyard.wire.record import Record, read_records

__all__ = ["feed_timers", "settle", "tick"]


_MESSAGES_A_TICK = 2_000
_BYTES_A_TICK = 8 << 20
"""A tick delivers no more than this: everybody else waits while it does."""

_FED_A_TICK = 20_000
"""How many new timers a tick looks at; more are only there after a start."""

_AT_ONCE = 64
_AT_ONCE_BYTES = 1 << 20
_SECOND_MS = 1_000
_TIMERS = -1
_TIMER_KEY = TIMER_TOPIC.encode()


class _Done(NamedTuple):
    """A message that was delivered, or passed over, if the log gets as far as ``end``."""

    end: int
    queue_id: int
    """Of its level, or `_TIMERS`."""
    offset: int
    due_ms: int


class _Run:
    """What one tick does."""

    def __init__(self, state: State, now_ms: int) -> None:
        self.state, self.now_ms = state, now_ms
        self.done: list[_Done] = []
        self._messages, self._bytes = _MESSAGES_A_TICK, _BYTES_A_TICK
        self._end = 0

    @property
    def is_full(self) -> bool:
        """Whether this tick has done enough."""
        return self._messages <= 0 or self._bytes <= 0

    def deliver(self, record: Record, queue_id: int, due_ms: int) -> None:
        """Deliver a message, unless an earlier process did.

        Each one that was due then is looked for: of what was written before a loss of power some may be there and some
        not, in any order.
        """
        place, state = real_place(parse_properties(record.properties)), self.state
        is_unsure = due_ms <= state.started_ms
        # Apache counts a delay from when the message came, which is a little before it was stored.
        since_ms, likeness = due_ms - _SECOND_MS, likeness_of(record) if queue_id == _TIMERS else None
        if place is None or not is_unsure or not state.copies.has(*place, record.position, since_ms, likeness):
            self._copy(record, place)
        self.pass_over(queue_id, record.offset, due_ms)

    def _copy(self, record: Record, place: Place | None) -> None:
        self._messages -= 1
        self._bytes -= record.size
        try:
            if place is None:
                raise ConfigurationError("it does not say what it waits for")
            with suppress(ServerError):  # with too many topics already, it is stored all the same
                make_topic(self.state, place, self.now_ms)
            copy = put_copy(
                self.state, record, place, record.properties, self.now_ms, prepared_offset=trace_of(record.position)
            )
        except StoreError:
            raise
        except SteelyardError as error:
            # Nothing that a client can send: somebody else wrote the directory.
            self.state.notes.append(f"the message at {record.position} of the log cannot be delivered: {error}")
        else:
            self._end = copy.end

    def pass_over(self, queue_id: int, offset: int, due_ms: int) -> None:
        """Count a message as done, if all that was delivered before it is."""
        self.done.append(_Done(self._end, queue_id, offset, due_ms))


def tick(state: State, now_ms: int) -> None:
    """Deliver what is due: by delay level, and by a time of its own."""
    run = _Run(state, now_ms)
    settle(state)
    with suppress(StoreError):  # the store takes no writes just now, and tells so to all who send
        for turn in range(LEVELS):
            # A level with very much to deliver must not keep the others waiting: each is the first in its turn.
            _deliver_level(run, (now_ms // 100 + turn) % LEVELS)
        _deliver_timers(run)
    if run.done:
        _finish(run)
    else:
        state.copies.forget()


def settle(state: State) -> None:
    """Count as delivered for good what is safe on the disk by now."""
    durable = state.store.durable
    state.schedule.settle(durable)
    delivered = state.timers.progress.safe(durable)
    if delivered is not None:
        state.timers.safe = delivered
        with suppress(ServerError):  # with too many offsets already, the next start has more to look at
            for queue_id, number in enumerate(delivered):
                state.offsets.put(TIMER_GROUP, TIMER_TOPIC, queue_id, number)


def _deliver_level(run: _Run, queue_id: int) -> None:
    state, now_ms = run.state, run.now_ms
    schedule, delay_ms = state.schedule, DELAY_LEVELS_MS[queue_id]
    if now_ms < schedule.next_ms[queue_id] <= now_ms + delay_ms:
        return
    low, high = state.store.bounds(SCHEDULE_TOPIC, queue_id)
    offset = schedule.reached[queue_id] = min(max(low, schedule.reached[queue_id]), high)
    for record in _records(state, SCHEDULE_TOPIC, queue_id, offset, high):
        if run.is_full:
            return
        due_ms = record.stored_ms + delay_ms
        # A message from the future was stored before the clock was set back: it has waited long enough.
        if now_ms < due_ms <= now_ms + delay_ms:
            schedule.next_ms[queue_id] = due_ms
            return
        run.deliver(record, queue_id, due_ms)
    schedule.next_ms[queue_id] = 0


def _deliver_timers(run: _Run) -> None:
    state, timers, now_ms = run.state, run.state.timers, run.now_ms
    if not feed_timers(state):
        return
    while not run.is_full:
        due_ms = timers.next_due()
        if due_ms is None or due_ms > now_ms:
            return
        offset = timers.take()
        record = next(_records(state, _TIMER_KEY, 0, offset, offset + 1), None)
        if record is None:
            run.pass_over(_TIMERS, offset, due_ms)
            continue
        try:
            run.deliver(record, _TIMERS, due_ms)
        except StoreError:
            timers.put_back(offset, due_ms=due_ms)
            raise


def feed_timers(state: State) -> bool:
    """Look at timers that are new; say whether all are known."""
    timers, carried_on = state.timers, state.carried_on
    low, high = state.store.bounds(_TIMER_KEY, 0)
    if timers.fed < 0:
        saved = state.offsets.of(TIMER_GROUP, TIMER_TOPIC)
        own = Delivered(min(max(low, saved.get(0, 0)), high), saved.get(1, 0), saved.get(2, 0))
        timers.start(own, read_timer_check(state.disk))
    end = min(high, timers.fed + _FED_A_TICK)
    if timers.fed < end:
        for record in _records(state, _TIMER_KEY, 0, timers.fed, end):
            properties = parse_properties(record.properties)
            out_ms = whole_number(properties.get(TIMER_OUT_MS, ""))
            waits = timers.add(record.offset, due_ms=_timer_due_ms(record, properties, out_ms), out_ms=out_ms)
            if waits and carried_on is not None:
                carried_on.see(record.offset, properties)
        timers.pass_to(end)
    if end == high and carried_on is not None:
        timers.withdraw(carried_on.gone)
        state.carried_on = None
    return end == high


def _timer_due_ms(record: Record, properties: dict[str, str], out_ms: int | None) -> int:
    due_ms = None
    if TIMER_ROLL_TIMES not in properties:
        try:
            due_ms = timer_due_ms(properties, record.stored_ms)
        except SteelyardError:
            due_ms = None
    if due_ms is None:
        # Apache carried it on, so its delay does not count from here; this is the end of the second it is due in.
        due_ms = record.stored_ms if out_ms is None else out_ms + 1_000
    return max(0, due_ms)


def _finish(run: _Run) -> None:
    """Write the copies, and count as delivered what was written."""
    state, now_ms = run.state, run.now_ms
    schedule, timers = state.schedule, state.timers
    flushed = flush(state, now_ms)
    written = 0
    for end, queue_id, offset, due_ms in run.done:
        if end > flushed.end and queue_id == _TIMERS:
            timers.put_back(offset, due_ms=due_ms)
        elif end > flushed.end:
            schedule.next_ms[queue_id] = 0
        elif queue_id == _TIMERS:
            timers.done(offset)
            written |= 2
        else:
            schedule.reached[queue_id] = offset + 1
            written |= 1
    if written & 1:
        schedule.note(flushed.end)
    if written & 2:
        timers.progress.note(flushed.end, timers.delivered(now_ms))


def _records(state: State, topic: bytes, queue_id: int, offset: int, end: int) -> Iterator[Record]:
    """Go through the messages of a queue between two offsets."""
    while offset < end:
        found = state.store.read(topic, queue_id, offset, most=min(_AT_ONCE, end - offset), most_bytes=_AT_ONCE_BYTES)
        yield from read_records(found.joined())
        offset = found.next_offset
