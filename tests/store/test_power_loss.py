"""Power loss takes any part of what was not synced: nothing durable is lost, and what is left is true."""

from dataclasses import dataclass, field

import pytest

from simulator.disk import SimulatedDisk
from steelyard.store.store import Store
from tests.fuzzing import Dice
from tests.store.sample_messages import PAGE, MessageWriter, Queue, everything, opened, rounds, sync

_DRAWS = rounds(200, 5_000)
_TURNS = 8
_LIVES = 3

Place = tuple[Queue, int]


@dataclass
class History:
    """All that was ever appended, and what must not be lost any more."""

    dice: Dice
    appended: dict[Place, set[bytes]] = field(default_factory=dict)
    durable: dict[Place, bytes] = field(default_factory=dict)
    now_ms: int = 1_000

    def live(self, store: Store) -> None:
        """Append, flush and sync, as it comes."""
        teller = MessageWriter(self.dice, now_ms=self.now_ms, most_bytes=self.dice.choice((40, 300, 1_500)))
        there: dict[Place, tuple[bytes, int]] = {}
        for _ in range(self.dice.randrange(40)):
            queue, done, record = teller.append(store)
            assert (queue, done.offset) not in self.durable, "an offset was given twice"
            self.appended.setdefault((queue, done.offset), set()).add(record)
            there[queue, done.offset] = record, done.end
            chance = self.dice.random()
            if chance < 0.5:
                assert store.flush().error is None
            if chance < 0.1:
                assert sync(store)
                self.durable |= {place: each for place, (each, end) in there.items() if end <= store.durable}
            if 0.1 < chance < 0.15:
                store.save_consume_queues()
        self.now_ms = teller.now_ms

    def check(self, store: Store) -> None:
        """Expect all that is durable, nothing that was not appended, and offsets that are dense but for holes."""
        found = {
            (queue, offset): record for queue, book in everything(store).items() for offset, record in book.items()
        }
        for place, record in self.durable.items():
            assert found.get(place) == record, ("lost", place)
        for place, record in found.items():
            assert record in self.appended.get(place, ()), ("never appended", place)
        # The store says that all it has found is safe, so it must stay.
        self.durable |= found


@pytest.mark.parametrize("turn", range(_TURNS))
def test_nothing_durable_is_lost_and_what_is_left_was_appended(turn: int) -> None:
    for draw in range(_DRAWS // _TURNS):
        dice = Dice(1_000_000 * turn + draw)
        disk = SimulatedDisk(dice, page=dice.choice((512, 1024, 4096)))
        history = History(dice)
        for _ in range(_LIVES):
            store = opened(disk)
            history.check(store)
            history.live(store)
            if dice.random() < 0.2:
                store.close(history.now_ms)
                history.check(opened(disk.lose_power()))
            disk = disk.crash() if dice.random() < 0.2 else disk.lose_power(unit=dice.choice((None, 512)))
        history.check(opened(disk))


def test_what_a_new_process_finds_in_memory_it_makes_safe_before_it_calls_it_safe() -> None:
    disk = SimulatedDisk(page=PAGE)
    store, teller = opened(disk), MessageWriter(Dice(1))
    for _ in range(60):
        teller.append(store)
    assert store.flush().error is None
    assert store.durable == 0
    after_crash = disk.crash()
    heir = opened(after_crash)
    book = everything(heir)
    assert heir.durable == store.flush().end
    assert everything(opened(after_crash.lose_power())) == book
