"""Mistakes that more than one scenario is about."""

from collections.abc import Sequence
from dataclasses import replace

from tests.sim.scene import mistake, rule

from steelyard.balance import board
from steelyard.balance.desk import Grant
from steelyard.balance.life import LIFE, Row, Seen, State
from steelyard.balance.lists import Lists, Sight
from steelyard.balance.lives import Lives
from steelyard.balance.record import Record
from steelyard.balance.taking import Taking
from steelyard.broker import state as broker_state
from steelyard.broker.members import Member
from steelyard.broker.requests import locks as lock_requests
from steelyard.sim.planted.bug import Swap, swap
from steelyard.wire.bodies.locks import LockRequest
from steelyard.wire.peers import Peer

__all__ = ["NOBODY_ASKED", "REPLACED_LINE_LOCKS", "UNKNOWN_LOCK_FORGOTTEN", "UNLISTED_DROPS", "other_life"]

_hold_or_ask, _cut, _sight = Lives.hold_or_ask, Taking.cut, Lists.sight


def other_life(state: State, seen: Seen, does: str, *leads_to: State) -> Swap:
    """Put another row into the table of a queue's life; it may lead anywhere if nothing is said."""
    return swap(board, "LIFE", {**LIFE, (state, seen): Row(does, leads_to or tuple(State))})


def _start_at_once(lives: Lives, record: Record, about: Grant) -> None:
    """Take a granted lock for a free queue."""
    _hold_or_ask(lives, record, about)
    if record.state is State.ASKING:
        lives.take_from_nobody(record, keeps_lock=False)


NOBODY_ASKED = mistake(
    "a granted lock counts as a free queue, on a broker where owners keep no lock",
    rule(Lives, "hold_or_ask", _start_at_once),
    other_life(State.WANTED, Seen.LOCK_GRANTED, "hold_or_ask"),
)


def _believe(state: broker_state.State, _body: LockRequest, group: str, peer: Peer) -> Member | None:
    return state.members.on_line(peer, group)


REPLACED_LINE_LOCKS = mistake(
    "a lock that was asked for on a line that was replaced since is given", swap(lock_requests, "_checked", _believe)
)


def _forget_unknown_lock(taking: Taking, broker: str) -> None:
    """Take a lock that was asked for on a line that is gone for one that was not given."""
    records = list(taking._board.at_broker.get(broker, {}).values())
    before = [record.maybe_held for record in records]
    _cut(taking, broker)
    for record, maybe_held in zip(records, before, strict=True):
        record.maybe_held = maybe_held


def _stay_locked(_lives: Lives, _record: Record, _about: object) -> None:
    """Hear a poke for a queue that we know nothing of, and do nothing."""


UNKNOWN_LOCK_FORGOTTEN = mistake(
    "a lock that was asked for on a line that broke counts as not given",
    swap(Taking, "cut", _forget_unknown_lock),
    swap(Lives, "unlock_all_the_same", _stay_locked),
)


def _see_only_the_listed(known: Lists, brokers: Sequence[str], now_ms: int) -> Sight:
    """Leave ourselves out where a broker does not list us."""
    sight = _sight(known, brokers, now_ms)
    if not sight.missing_us:
        return sight
    return replace(sight, members=tuple(member for member in sight.members if member != known._id))


UNLISTED_DROPS = mistake(
    "a member that a broker does not list gives all its queues up", swap(Lists, "sight", _see_only_the_listed)
)
