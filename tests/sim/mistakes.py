"""Mistakes that more than one scenario is about."""

from tests.sim.scene import mistake, rule

from steelyard.balance import board
from steelyard.balance.desk import Grant
from steelyard.balance.life import LIFE, Row, Seen, State
from steelyard.balance.lives import Lives
from steelyard.balance.record import Record
from steelyard.sim.planted.bug import Swap, swap

__all__ = ["NOBODY_ASKED", "other_life"]

_hold_or_ask = Lives.hold_or_ask


def other_life(state: State, seen: Seen, does: str, *leads_to: State) -> Swap:
    """Put another row into the table of a queue's life; it may lead anywhere if nothing is said."""
    return swap(board, "LIFE", {**LIFE, (state, seen): Row(does, leads_to or tuple(State))})


def _start_at_once(lives: Lives, record: Record, about: Grant) -> None:
    """Take a granted lock for a free queue."""
    _hold_or_ask(lives, record, about)
    if record.state is State.ASKING:
        lives.take_from_nobody(record, None)


NOBODY_ASKED = mistake(
    "a granted lock counts as a free queue, on a broker where owners keep no lock",
    rule(Lives, "hold_or_ask", _start_at_once),
    other_life(State.WANTED, Seen.LOCK_GRANTED, "hold_or_ask"),
)
