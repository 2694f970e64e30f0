"""Delayed delivery: delayed messages go to their real queues once they are due, never early and never lost.

A tick delivers a limited number of due messages, writes them, and only then counts them as delivered; what could not be
written stays due. Progress is saved once the copies are durable (delivery_dedup.py). So after a crash some delivered
messages are due again: they are found in their queues, and skipped. A copy keeps all properties, as Apache's does, and
gets the time of its delivery as store time, and the position of the waiting message as prepared offset.

For a Java broker that opens the directory next (store/timer_files.py), each save writes the first open timer, and a
stop writes all waiting ones. Left out: moving a message on that waits longer than its log file is kept.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from steelyard.broker.append import (
    QueuePlace,
    append_copy,
    ensure_topic,
    flush,
    parse_whole_number,
    real_place,
    timer_due_ms,
)
from steelyard.broker.delayed_messages import DELAY_LEVEL_COUNT, TimerProgress
from steelyard.broker.delivery_dedup import copy_marker, fingerprint_of
from steelyard.broker.state import BrokerCoreState
from steelyard.errors import ConfigurationError, ServerError, SteelyardError, StoreError
from steelyard.model.reserved_names import TIMER_GROUP, TIMER_TOPIC
from steelyard.store.tags_code import DELAY_LEVELS_MS, SCHEDULE_TOPIC
from steelyard.store.timer_files import (
    WaitingTimer,
    floor_to_second,
    read_timer_checkpoint,
    write_open_timers,
    write_waiting_timers,
)
from steelyard.wire.properties import decode_properties
from steelyard.wire.property_names import TIMER_OUT_MS, TIMER_ROLL_TIMES
from steelyard.wire.record import MessageRecord, decode_records

_MESSAGES_PER_TICK = 2_000
_BYTES_PER_TICK = 8 << 20
"""The limit of one tick: the event loop waits meanwhile."""

_TIMERS_LOADED_PER_TICK = 20_000
"""New timers that a tick loads; there are more only after a start."""

_READ_MESSAGES = 64
_READ_BYTES = 1 << 20
_SECOND_MS = 1_000
_TIMER_QUEUE = -1
_TIMER_KEY = TIMER_TOPIC.encode()


class _Delivery(NamedTuple):
    """A message that is done once the log is written up to ``end``."""

    end: int
    queue_id: int
    """The queue of its level, or `_TIMER_QUEUE`."""
    offset: int
    due_ms: int


class _DeliveryRun:
    """The deliveries of one tick."""

    def __init__(self, state: BrokerCoreState, now_ms: int) -> None:
        self.state, self.now_ms = state, now_ms
        self.deliveries: list[_Delivery] = []
        self._messages, self._bytes = _MESSAGES_PER_TICK, _BYTES_PER_TICK
        self._end = 0

    @property
    def is_full(self) -> bool:
        """Whether the limit of one tick is reached."""
        return self._messages <= 0 or self._bytes <= 0

    def deliver(self, record: MessageRecord, queue_id: int, due_ms: int) -> None:
        """Deliver a message, unless an earlier process did.

        Each message that was due then is looked up: of what was written before a power loss, any part may be there.
        """
        place, state = real_place(decode_properties(record.properties)), self.state
        may_be_delivered = due_ms <= state.started_ms
        # Apache counts a delay from the arrival of the message, which is a little before it was stored.
        since_ms, fingerprint = due_ms - _SECOND_MS, fingerprint_of(record) if queue_id == _TIMER_QUEUE else None
        if (
            place is None
            or not may_be_delivered
            or not state.delivered_copies.has_copy(*place, record.position, since_ms, fingerprint)
        ):
            self._copy(record, place)
        self.mark_done(queue_id, record.offset, due_ms)

    def _copy(self, record: MessageRecord, place: QueuePlace | None) -> None:
        self._messages -= 1
        self._bytes -= record.size
        try:
            if place is None:
                raise ConfigurationError("it does not name its queue")
            with suppress(ServerError):  # if there are too many topics, it is stored all the same
                ensure_topic(self.state, place, self.now_ms)
            copy = append_copy(
                self.state, record, place, record.properties, self.now_ms, prepared_offset=copy_marker(record.position)
            )
        except StoreError:
            raise
        except SteelyardError as error:
            # No client can send this: another program wrote to the directory.
            self.state.warnings.append(f"the message at {record.position} of the log cannot be delivered: {error}")
        else:
            self._end = copy.end

    def mark_done(self, queue_id: int, offset: int, due_ms: int) -> None:
        """Count a message as done once everything delivered before it is written."""
        self.deliveries.append(_Delivery(self._end, queue_id, offset, due_ms))


def tick(state: BrokerCoreState, now_ms: int) -> None:
    """Deliver what is due, by delay level and by timer."""
    run = _DeliveryRun(state, now_ms)
    record_durable_progress(state)
    with suppress(StoreError):  # the store is read-only for now, and senders get that error
        for turn in range(DELAY_LEVEL_COUNT):
            # A level with very much to deliver must not starve the others: each is first in turn.
            _deliver_level(run, (now_ms // 100 + turn) % DELAY_LEVEL_COUNT)
        _deliver_timers(run)
    if run.deliveries:
        _complete(run)
    else:
        state.delivered_copies.clear()


def record_durable_progress(state: BrokerCoreState) -> None:
    """Save the progress that is durable by now."""
    durable = state.store.durable
    state.delay_offsets.apply_durable(durable)
    delivered = state.timers.progress.pop_durable(durable)
    if delivered is not None:
        state.timers.durable = delivered
        with suppress(ServerError):  # if there are too many offsets, the next start has more to check
            for queue_id, number in enumerate(delivered):
                state.offsets.put(TIMER_GROUP, TIMER_TOPIC, queue_id, number)


def _deliver_level(run: _DeliveryRun, queue_id: int) -> None:
    state, now_ms = run.state, run.now_ms
    schedule, delay_ms = state.delay_offsets, DELAY_LEVELS_MS[queue_id]
    if now_ms < schedule.next_due_ms[queue_id] <= now_ms + delay_ms:
        return
    low, high = state.store.bounds(SCHEDULE_TOPIC, queue_id)
    offset = schedule.next_offsets[queue_id] = min(max(low, schedule.next_offsets[queue_id]), high)
    for record in _read_queue(state, SCHEDULE_TOPIC, queue_id, offset, high):
        if run.is_full:
            return
        due_ms = record.stored_ms + delay_ms
        # A message from the future was stored before the clock was set back: it counts as due.
        if now_ms < due_ms <= now_ms + delay_ms:
            schedule.next_due_ms[queue_id] = due_ms
            return
        run.deliver(record, queue_id, due_ms)
    schedule.next_due_ms[queue_id] = 0


def _deliver_timers(run: _DeliveryRun) -> None:
    state, timers, now_ms = run.state, run.state.timers, run.now_ms
    if not _load_timers(state):
        return
    while not run.is_full:
        due_ms = timers.next_due()
        if due_ms is None or due_ms > now_ms:
            return
        offset = timers.pop_due()
        record = next(_read_queue(state, _TIMER_KEY, 0, offset, offset + 1), None)
        if record is None:
            run.mark_done(_TIMER_QUEUE, offset, due_ms)
            continue
        try:
            run.deliver(record, _TIMER_QUEUE, due_ms)
        except StoreError:
            timers.push_back(offset, due_ms=due_ms)
            raise


def _load_timers(state: BrokerCoreState) -> bool:
    """Load new timers; return whether all are loaded."""
    timers, rolled = state.timers, state.rolled_timers
    low, high = state.store.bounds(_TIMER_KEY, 0)
    if timers.loaded_to < 0:
        saved = state.offsets.committed_in(TIMER_GROUP, TIMER_TOPIC)
        own = TimerProgress(min(max(low, saved.get(0, 0)), high), saved.get(1, 0), saved.get(2, 0))
        timers.resume(own, read_timer_checkpoint(state.disk))
    end = min(high, timers.loaded_to + _TIMERS_LOADED_PER_TICK)
    if timers.loaded_to < end:
        for record in _read_queue(state, _TIMER_KEY, 0, timers.loaded_to, end):
            properties = decode_properties(record.properties)
            out_ms = parse_whole_number(properties.get(TIMER_OUT_MS, ""))
            waits = timers.add(record.offset, due_ms=_timer_due_ms(record, properties, out_ms), out_ms=out_ms)
            if waits and rolled is not None:
                rolled.inspect(record.offset, properties)
        timers.mark_loaded_to(end)
    if end == high and rolled is not None:
        timers.withdraw(rolled.withdrawn)
        state.rolled_timers = None
    return end == high


def _timer_due_ms(record: MessageRecord, properties: dict[str, str], out_ms: int | None) -> int:
    due_ms = None
    if TIMER_ROLL_TIMES not in properties:
        with suppress(SteelyardError):
            due_ms = timer_due_ms(properties, record.stored_ms)
    if due_ms is None:
        # Apache rolled it, so its delay does not count from here; this is the end of the second it is due in.
        due_ms = record.stored_ms if out_ms is None else out_ms + 1_000
    return max(0, due_ms)


def _complete(run: _DeliveryRun) -> None:
    """Write the copies, and count those as delivered that were written."""
    state, now_ms = run.state, run.now_ms
    schedule, timers = state.delay_offsets, state.timers
    flushed = flush(state, now_ms)
    written = 0
    for end, queue_id, offset, due_ms in run.deliveries:
        if end > flushed.end and queue_id == _TIMER_QUEUE:
            timers.push_back(offset, due_ms=due_ms)
        elif end > flushed.end:
            schedule.next_due_ms[queue_id] = 0
        elif queue_id == _TIMER_QUEUE:
            timers.mark_delivered(offset)
            written |= 2
        else:
            schedule.next_offsets[queue_id] = offset + 1
            written |= 1
    if written & 1:
        schedule.record_progress(flushed.end)
    if written & 2:
        timers.progress.record(flushed.end, timers.snapshot(now_ms))


def _read_queue(state: BrokerCoreState, topic: bytes, queue_id: int, offset: int, end: int) -> Iterator[MessageRecord]:
    """Iterate over the messages of a queue between two offsets."""
    while offset < end:
        found = state.store.read(
            topic, queue_id, offset, max_messages=min(_READ_MESSAGES, end - offset), max_bytes=_READ_BYTES
        )
        yield from decode_records(found.joined())
        offset = found.next_offset


def apache_progress_writer(state: BrokerCoreState) -> Callable[[], None] | None:
    """Return a function that writes the progress of timers, for a thread to run; None while it is unknown."""
    disk, durable = state.disk, state.timers.durable
    if durable is None:
        return None
    return lambda: write_open_timers(disk, floor_to_second(durable.due_ms), durable.first_open)


def write_apache_timers(state: BrokerCoreState, now_ms: int) -> None:
    """Write the waiting timers. All deliveries are durable, and none follows."""
    store, timers = state.store, state.timers
    _, end = store.bounds(_TIMER_KEY, 0)
    if not end or not _load_timers(state):
        return  # not all are loaded, so none was delivered: what the last broker wrote is still true
    waiting = [(due_ms, store.lookup.position_of(_TIMER_KEY, 0, offset)) for due_ms, offset in timers.waiting()]
    last = store.lookup.position_of(_TIMER_KEY, 0, end - 1)
    if last is not None:
        write_waiting_timers(
            state.disk,
            (WaitingTimer(due_ms, *place) for due_ms, place in waiting if place is not None),
            WaitingTimer(0, *last),
            now_ms=now_ms,
            first_open=timers.snapshot(now_ms).first_open,
            end=end,
        )
