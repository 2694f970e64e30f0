"""Mistakes in what a broker does with messages: those that wait, those in two steps, those that come back, pulls."""

from steelyard.broker import checks, deliveries, transactions, waking
from steelyard.broker.copies import Copies
from steelyard.broker.flushing import flush
from steelyard.broker.requests import send, send_back
from steelyard.broker.requests import transactions as endings
from steelyard.broker.state import State
from steelyard.broker.storing import Place, put_copy
from steelyard.sim.planted.bug import Bug, swap
from steelyard.store.marks import DELAY_LEVELS_MS
from steelyard.store.store import Appended, Flushed
from steelyard.wire.record import Record

__all__ = ["MESSAGE_BUGS"]

_END_OF_TIME = 1 << 62


# -- messages that wait -----------------------------------------------------------------------------------------------


def _never_delivered(*_asked: object) -> bool:
    return False


def _flush_blindly(state: State, now_ms: int) -> Flushed:
    flush(state, now_ms)
    return Flushed(_END_OF_TIME)


# -- messages in two steps --------------------------------------------------------------------------------------------


def _show_half(_properties: dict[str, str], place: Place) -> Place:
    return place


def _ask_nobody(_state: State, _question: object) -> None:
    """Write the half anew, and forget to ask."""


def _is_new(record: Record) -> int:
    return record.offset


# -- messages that come back ------------------------------------------------------------------------------------------


def _put_twice(
    state: State, record: Record, place: Place, properties: bytes, now_ms: int, *, reconsume_times: int
) -> Appended:
    put_copy(state, record, place, properties, now_ms, reconsume_times=reconsume_times)
    return put_copy(state, record, place, properties, now_ms, reconsume_times=reconsume_times)


def _put_uncounted(
    state: State, record: Record, place: Place, properties: bytes, now_ms: int, *, reconsume_times: int
) -> Appended:
    del reconsume_times
    return put_copy(state, record, place, properties, now_ms)


# -- pulls ------------------------------------------------------------------------------------------------------------


def _let_sleep(_state: State, _now_ms: int) -> None:
    """Wake nobody: who waits is answered when its time is over."""


MESSAGE_BUGS = (
    Bug(
        "delay-level-off-by-one",
        "A message of a delay level waits as long as the level below.",
        ("churn", "retry"),
        (swap(deliveries, "DELAY_LEVELS_MS", (0, *DELAY_LEVELS_MS[:-1])),),
    ),
    Bug(
        "delivered-again-after-crash",
        "After a crash messages that waited are delivered a second time.",
        ("restart",),
        (swap(Copies, "has", _never_delivered),),
    ),
    Bug(
        "delivery-lost-by-disk",
        "A message that waited counts as delivered though its copy could not be written.",
        ("disk",),
        (swap(deliveries, "flush", _flush_blindly),),
    ),
    Bug(
        "half-visible",
        "Half of a transaction is stored where members see it.",
        ("transaction",),
        (swap(send, "half_place", _show_half),),
    ),
    Bug(
        "check-never-sent",
        "Producers are not asked about transactions that they left open.",
        ("transaction",),
        (swap(checks, "_send", _ask_nobody),),
    ),
    Bug(
        "check-makes-new-half",
        "The half that is written anew for a question counts as one more transaction.",
        ("transaction",),
        (swap(transactions, "origin_of", _is_new), swap(endings, "origin_of", _is_new)),
    ),
    Bug(
        "retry-stored-twice",
        "A message that a member gives back is stored twice.",
        ("retry",),
        (swap(send_back, "put_copy", _put_twice),),
    ),
    Bug(
        "retry-not-counted",
        "A message that a member gives back forgets how often it was tried.",
        ("retry",),
        (swap(send_back, "put_copy", _put_uncounted),),
    ),
    Bug(
        "pull-never-woken",
        "A pull that waits is not answered when a message comes.",
        ("churn",),
        (swap(waking, "wake", _let_sleep),),
    ),
)
"""What can be wrong with messages."""
