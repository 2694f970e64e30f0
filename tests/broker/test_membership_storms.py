"""Any order of joins, goodbyes, cut lines, silences, locks and restarts keeps what members rely on.

At every moment a queue has one owner at most, epochs only grow, and no lease outlives its member. Whenever it has been
quiet for a moment, every member on a line has been told since the last change.
"""

from collections.abc import Callable
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from steelyard.broker.options import BrokerOptions
from tests.broker.broker_harness import BrokerHarness
from tests.broker.fake_consumer import GROUP, FakeConsumer, ids

QUEUES = 3
NAMES = ("ours-1", "ours-2", "order-3", "java-4")
OPTIONS = BrokerOptions()


class Player(FakeConsumer):
    """A client with a memory: what it was granted, and who it believes is in the group."""

    def __init__(self, harness: BrokerHarness, name: str) -> None:
        super().__init__(harness, name, ours=not name.startswith("java"))
        self.is_lease = name.startswith("ours")
        self.is_up = self.is_hung = False
        self.gone_ms = 0
        """When the broker must have noticed that it is not there."""
        self.held: dict[int, int] = {}
        self.known: list[str] = []


class Storm:
    """Some members of one group at one broker, and what may happen to them."""

    def __init__(self) -> None:
        self.harness = BrokerHarness()
        seed = self.harness.state.topics.get_or_create("seed", 1, self.harness.now_ms).settings
        self.harness.state.topics.put(structs.replace(seed, name="orders", read_queues=QUEUES), self.harness.now_ms)
        self.players = {name: Player(self.harness, name) for name in NAMES}
        self.highest = 0
        self.settled_ms = 0
        self.before: dict[int, str] = {}
        """Who held which queue when the broker was restarted."""

    @property
    def is_settling(self) -> bool:
        return self.harness.now_ms < self.settled_ms

    @property
    def speaking(self) -> list[Player]:
        return [player for player in self.players.values() if player.is_up and not player.is_hung]

    # -- what happens --------------------------------------------------------------------------------------------------

    def join(self, player: Player, _: int) -> None:
        if not player.is_up:
            claims = {"orders": list(player.held.items())} if player.ours and player.held else None
            assert player.reconnect(held=claims).code == 0
            if player.is_hung:
                player.known = ids(self.harness)  # what it was told while it hung went down with its line
            player.is_up, player.is_hung = True, False
            if player.ours:
                player.held = player.renew(player.held, lease=player.is_lease) if player.held else {}
            if self.is_settling:
                assert {queue_id for queue_id, name in self.before.items() if name == player.id} <= set(player.held)

    def leave(self, player: Player, _: int) -> None:
        if player in self.speaking:
            player.unregister()
            player.is_up, player.held = False, {}
            player.gone_ms = self.harness.now_ms
            self._forget(player)

    def cut(self, player: Player, _: int) -> None:
        if player.is_up:
            player.close()
            player.is_up = False
            player.gone_ms = self.harness.now_ms + OPTIONS.connection_grace_ms
            self._forget(player)

    def hang(self, player: Player, _: int) -> None:
        if player in self.speaking:
            player.is_hung = True
            player.gone_ms = self.harness.now_ms + (12_500 if player.ours else OPTIONS.client_silence_ms + 500)
            self._forget(player)

    def _forget(self, player: Player) -> None:
        """Expect nothing any more of what it held before the restart, now that it is gone again."""
        self.before = {queue_id: name for queue_id, name in self.before.items() if name != player.id}

    def lock(self, player: Player, queue_id: int) -> None:
        if player in self.speaking:
            for granted, epoch in player.lock(queue_id, lease=player.is_lease).items():
                assert not self.is_settling or self.before.get(granted, player.id) == player.id
                if player.ours and player.held.get(granted) != epoch:
                    assert epoch > self.highest
                    self.highest = epoch
                player.held[granted] = epoch

    def unlock(self, player: Player, queue_id: int) -> None:
        if player in self.speaking and queue_id in player.held:
            epochs = (player.held.pop(queue_id),) if player.ours else None
            player.unlock(queue_id, lease=player.is_lease, epochs=epochs)
            self.before.pop(queue_id, None)

    def wait_a_little(self, _: Player, number: int) -> None:
        self.harness.advance((20, 150, 400)[number], step_ms=20)

    def wait(self, _: Player, number: int) -> None:
        for _beat in range((1, 2, 7)[number]):
            self.harness.advance(2_000, step_ms=500)
            for player in self.speaking:
                assert player.heartbeat().code == 0

    def restart(self, _: Player, number: int) -> None:
        if number:
            return
        self.harness.save(everything=True)
        self.before = {
            queue_id: player.id
            for player in self.speaking
            for queue_id in range(QUEUES)
            if player.ours and self._proves(player, queue_id)
        }
        self.harness.now_ms += 1_000
        self.settled_ms = self.harness.now_ms + OPTIONS.settle_ms
        self.harness.crash()
        for player in self.players.values():
            player.is_up, player.gone_ms = False, self.harness.now_ms
            if not player.ours:
                player.held.clear()

    # -- what always holds ---------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Check what holds at every moment."""
        self._listen()
        members = ids(self.harness)
        for (topic, _), lock in self.harness.state.queue_locks.held_queues(GROUP, self.harness.now_ms):
            assert topic == "orders"
            if lock.until_ms is None:
                assert lock.owner in members
                assert not lock.owner.startswith("java")
            else:
                assert not lock.is_lease
        for queue_id in range(QUEUES):
            provers = [player.id for player in self.speaking if player.ours and self._proves(player, queue_id)]
            assert len(provers) <= 1
            if provers:
                lock_now = self.harness.state.queue_locks.holder(GROUP, "orders", queue_id, self.harness.now_ms)
                assert lock_now is not None
                assert lock_now.owner == provers[0]

    def _proves(self, player: Player, queue_id: int) -> bool:
        epoch = player.held.get(queue_id)
        return epoch is not None and bool(player.renew({queue_id: epoch}, lease=player.is_lease))

    def check_quiet(self) -> None:
        """Check what holds a moment after the last change: everybody on a connection knows of it."""
        self.harness.advance(2 * OPTIONS.notification_gap_ms)
        self._listen()
        now = ids(self.harness)
        for player in self.speaking:
            assert player.id in now
            assert player.known == now
        there = [
            each.id for each in self.players.values() if each in self.speaking or each.gone_ms > self.harness.now_ms
        ]
        assert set(now) <= set(there)

    def _listen(self) -> None:
        """Let members that were told look who is there, as members do."""
        for player in self.speaking:
            if player.pop_notifications():
                player.known = ids(self.harness)


class Event(NamedTuple):
    """Something that happens to a member, or to all of them."""

    do: Callable[[Storm, Player, int], None]
    name: str
    number: int


_KINDS = [
    Storm.join,
    Storm.join,
    Storm.lock,
    Storm.lock,
    Storm.lock,
    Storm.wait_a_little,
    Storm.wait_a_little,
    Storm.wait,
    Storm.cut,
    Storm.leave,
    Storm.hang,
    Storm.unlock,
    Storm.restart,
]
events = st.builds(Event, st.sampled_from(_KINDS), st.sampled_from(NAMES), st.integers(0, QUEUES - 1))


@given(st.lists(events, min_size=20, max_size=60))
def test_any_order_of_events_keeps_what_members_rely_on(history: list[Event]) -> None:
    storm = Storm()
    for player in storm.players.values():
        storm.join(player, 0)
    for place, event in enumerate(history):
        event.do(storm, storm.players[event.name], event.number)
        storm.check()
        if place % 5 == 4:
            storm.check_quiet()
            storm.check()
