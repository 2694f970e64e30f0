"""Any order of joins, goodbyes, cut lines, silences, locks and restarts keeps what members rely on.

At every moment a queue has one owner at most, epochs only grow, and no lease outlives its member. Whenever it has been
quiet for a moment, every member on a line has been told since the last change.
"""

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import structs
from tests.broker.client import GROUP, Client, ids
from tests.broker.desk import Desk

from steelyard.broker.options import BrokerOptions

QUEUES = 3
NAMES = ("ours-1", "ours-2", "order-3", "java-4")
OPTIONS = BrokerOptions()

who = st.sampled_from(NAMES)
queues = st.integers(0, QUEUES - 1)


class Player(Client):
    """A client with a memory: what it was granted, and who it believes is in the group."""

    def __init__(self, desk: Desk, name: str) -> None:
        super().__init__(desk, name, ours=not name.startswith("java"))
        self.is_lease = name.startswith("ours")
        self.is_up = self.is_hung = False
        self.held: dict[int, int] = {}
        self.known: list[str] = []


class Storm(RuleBasedStateMachine):
    """Some members of one group at one broker."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk()
        settings = structs.replace(self.desk.state.topics.own("seed", self.desk.now_ms).settings, name="orders")
        self.desk.state.topics.put(structs.replace(settings, read_queues=QUEUES), self.desk.now_ms)
        self.players = {name: Player(self.desk, name) for name in NAMES}
        self.highest = 0

    @property
    def speaking(self) -> list[Player]:
        return [player for player in self.players.values() if player.is_up and not player.is_hung]

    # -- what happens --------------------------------------------------------------------------------------------------

    @rule(name=who)
    def joins(self, name: str) -> None:
        player = self.players[name]
        if not player.is_up:
            claims = {"orders": list(player.held.items())} if player.ours and player.held else None
            assert player.reconnect(held=claims).code == 0
            player.is_up, player.is_hung = True, False
            if player.ours:
                player.held = player.renew(player.held, lease=player.is_lease) if player.held else {}

    @rule(name=who)
    def leaves(self, name: str) -> None:
        player = self.players[name]
        if player in self.speaking:
            player.leave()
            player.is_up, player.held = False, {}

    @rule(name=who)
    def is_cut(self, name: str) -> None:
        player = self.players[name]
        if player.is_up:
            player.close()
            player.is_up = False

    @rule(name=who)
    def hangs(self, name: str) -> None:
        if self.players[name].is_up:
            self.players[name].is_hung = True

    @rule(name=who, queue_id=queues)
    def locks(self, name: str, queue_id: int) -> None:
        player = self.players[name]
        if player in self.speaking:
            for granted, epoch in player.lock(queue_id, lease=player.is_lease).items():
                if player.ours and player.held.get(granted) != epoch:
                    assert epoch > self.highest
                    self.highest = epoch
                player.held[granted] = epoch

    @rule(name=who, queue_id=queues)
    def unlocks(self, name: str, queue_id: int) -> None:
        player = self.players[name]
        if player in self.speaking and queue_id in player.held:
            epochs = (player.held.pop(queue_id),) if player.ours else None
            player.unlock(queue_id, lease=player.is_lease, epochs=epochs)

    @rule(passed_ms=st.sampled_from([50, 200, 400, 3_000, 13_000]))
    def time_passes(self, passed_ms: int) -> None:
        while passed_ms > 0:
            self.desk.advance(min(passed_ms, 2_000))
            passed_ms -= 2_000
            self._all_beat()

    def _all_beat(self) -> None:
        for player in self.speaking:
            assert player.beat().code == 0

    @rule()
    def the_broker_restarts(self) -> None:
        self.desk.save(everything=True)
        self.desk.now_ms += 1_000
        self.desk.crash()
        for player in self.players.values():
            player.is_up = False
            if not player.ours:
                player.held.clear()

    @precondition(lambda self: self.speaking)
    @rule()
    def it_is_quiet(self) -> None:
        self.desk.advance(2 * OPTIONS.notice_gap_ms)
        self._listen()
        now = ids(self.desk)
        for player in self.speaking:
            assert player.id in now
            assert player.known == now

    # -- what always holds ----------------------------------------------------------------------------------------------

    @invariant()
    def members_that_were_told_look(self) -> None:
        self._listen()

    def _listen(self) -> None:
        now = None
        for player in self.speaking:
            if player.notices():
                now = ids(self.desk) if now is None else now
                player.known = now

    @invariant()
    def a_queue_has_one_owner_that_is_there(self) -> None:
        members = ids(self.desk)
        for (topic, _), lock in self.desk.state.locks.of(GROUP, self.desk.now_ms):
            assert topic == "orders"
            if lock.until_ms is None:
                assert lock.owner in members
                assert not lock.owner.startswith("java")
            else:
                assert not lock.is_lease

    @invariant()
    def what_a_member_of_ours_can_prove_nobody_else_can(self) -> None:
        for queue_id in range(QUEUES):
            provers = [
                player.id
                for player in self.speaking
                if player.ours
                and queue_id in player.held
                and player.renew({queue_id: player.held[queue_id]}, lease=player.is_lease)
            ]
            assert len(provers) <= 1
            lock = self.desk.state.locks.holder(GROUP, "orders", queue_id, self.desk.now_ms)
            if provers:
                assert lock is not None
                assert lock.owner == provers[0]


Storm.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestStorms = Storm.TestCase
