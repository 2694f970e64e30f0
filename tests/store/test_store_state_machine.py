"""The store against a plain dictionary, through every order of appends, crashes, losses of power and retention."""

from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from simulator.disk import SimulatedDisk
from steelyard.store.options import StoreOptions
from steelyard.store.store import Store
from steelyard.store.tags_code import compute_tags_code
from steelyard.wire.record import decode_record
from tests.store.sample_messages import IPV4, IPV6, QUEUES, Message, Queue, append, everything, opened, rounds, sync

_SEGMENT = 4096
_HOUR_MS = 3_600_000
_TAGS = (b"", b"TAGS\x01red\x02", b"TAGS\x01blue\x02KEYS\x01k1\x02")

Place = tuple[Queue, int]


class Machine(RuleBasedStateMachine):
    """What is there, what waits, and what is safe, by queue and offset."""

    store: Store

    @initialize(random=st.randoms(use_true_random=False), keep_bytes=st.sampled_from((None, 3 * _SEGMENT)))
    def begin(self, random: Random, keep_bytes: int | None) -> None:
        self.options = StoreOptions(segment_bytes=_SEGMENT, keep_ms=_HOUR_MS, keep_bytes=keep_bytes)
        self.disk = SimulatedDisk(random, page=1024)
        self.there: dict[Place, bytes] = {}
        self.waiting: dict[Place, bytes] = {}
        self.durable: dict[Place, bytes] = {}
        self.now_ms = 1_000
        self.store = opened(self.disk, self.options)

    @rule(
        queue=st.sampled_from(QUEUES),
        size=st.one_of(st.integers(0, 200), st.sampled_from((1_900, 2_300, 3_700))),
        tag=st.sampled_from(_TAGS),
        host=st.sampled_from((IPV4, IPV6)),
        passed_ms=st.integers(0, 1_000),
        count=st.integers(1, 4),
    )
    def append(self, queue: Queue, size: int, tag: bytes, host: bytes, passed_ms: int, count: int) -> None:
        self.now_ms += passed_ms
        for number in range(count):
            body = bytes((number + len(self.there)) % 251 for _ in range(size))
            done, record = append(self.store, Message(queue, body, tag, host, self.now_ms))
            place = queue, done.offset
            assert place not in self.there
            assert place not in self.waiting
            self.waiting[place] = record

    @rule()
    def flush(self) -> None:
        assert self.store.flush().error is None
        self.there |= self.waiting
        self.waiting.clear()

    @rule()
    def sync(self) -> None:
        assert sync(self.store)
        self.durable = {**self.there}

    @rule()
    def save_indexes(self) -> None:
        self.store.save_consume_queues()

    @rule(hours=st.integers(0, 2))
    def tick(self, hours: int) -> None:
        self.now_ms += hours * _HOUR_MS
        removed = {int(path.rpartition("/")[2]) for path in self.store.delete_expired_segments(self.now_ms)}
        gone = {
            place
            for place, record in self.there.items()
            if decode_record(record).position // _SEGMENT * _SEGMENT in removed
        }
        for place in gone:
            assert decode_record(self.there[place]).stored_ms <= self.now_ms
            del self.there[place]
            self.durable.pop(place, None)

    @rule()
    def close(self) -> None:
        self.store.close(self.now_ms)
        self.there |= self.waiting
        self.durable = {**self.there}
        self.waiting.clear()
        self.reopen(self.disk)

    @rule()
    def crash(self) -> None:
        self.reopen(self.disk.crash())

    @rule(unit=st.sampled_from((None, 512)))
    def lose_power(self, unit: int | None) -> None:
        self.disk = self.disk.lose_power(unit=unit)
        store = opened(self.disk, self.options)
        found = flat(store)
        for place, record in self.durable.items():
            assert found.get(place) == record
        for place, record in found.items():
            assert (self.there | self.waiting).get(place) == record
        self.store, self.there, self.durable = store, found, {**found}
        self.waiting.clear()

    def reopen(self, disk: SimulatedDisk) -> None:
        self.disk, self.store = disk, opened(disk, self.options)
        self.waiting.clear()

    @invariant()
    def all_that_is_there_is_served_and_nothing_else(self) -> None:
        assert flat(self.store) == self.there

    @precondition(lambda self: self.there)
    @rule(tag=st.sampled_from(_TAGS[1:]))
    def read_by_tags_code(self, tag: bytes) -> None:
        mark = compute_tags_code(b"orders", tag, 0)
        for queue in {queue for queue, _ in self.there} - {QUEUES[-1]}:
            expected = [
                record
                for place, record in sorted(self.there.items())
                if place[0] == queue and decode_record(record).properties.startswith(tag)
            ]
            read = self.store.read(*queue, 0, max_messages=10_000, max_bytes=1 << 30, tags_codes=frozenset({mark}))
            assert read.joined() == b"".join(expected)


def flat(store: Store) -> dict[Place, bytes]:
    """Return all messages by their place."""
    return {(queue, offset): record for queue, book in everything(store).items() for offset, record in book.items()}


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=rounds(60, 3_000), stateful_step_count=30)
