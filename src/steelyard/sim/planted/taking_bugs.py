"""Mistakes in how a member takes queues, keeps them and gives them up: locks, questions to the others, doubt, pokes."""

from collections.abc import Sequence

from msgspec.structs import replace

from steelyard.balance import board, lives
from steelyard.balance.actions import Lock, Renew, Unlock
from steelyard.balance.asking import Asking
from steelyard.balance.committing import Committing
from steelyard.balance.desk import Denial, Desk, Grant
from steelyard.balance.events import HoldersFailed, HoldersSeen, OffsetSeen, Unlocked, UnlockFailed
from steelyard.balance.holdings import Holdings
from steelyard.balance.life import LIFE, Row, Seen, State
from steelyard.balance.lines import Lines
from steelyard.balance.lives import Lives
from steelyard.balance.member import Member
from steelyard.balance.record import Manner, Record
from steelyard.balance.taking import Taking, first_queues
from steelyard.dialect import asking as speech
from steelyard.model import Queue
from steelyard.sim.planted.bug import Bug, swap
from steelyard.wire.bodies.locks import LockWord
from steelyard.wire.codes import RequestCode

__all__ = ["TAKING_BUGS"]

# What is right, for the wrong ones that go on from there.
_ask_locks, _answered, _hold_or_ask = Taking._ask_locks, Asking.answered, Lives.hold_or_ask
_holdings, _doubt, _start = Member.holdings, Lives.doubt, Lives._start


# -- locks ------------------------------------------------------------------------------------------------------------


def _lock_nothing(taking: Taking, desk: Desk) -> None:
    """Take it for granted that a lock is free, and ask the others only."""
    if taking.manner(desk.broker) is not Manner.ASKED:
        _ask_locks(taking, desk)
        return
    for record in taking._asked(desk, desk.to_lock, first_queues(desk.to_lock)):
        grant = Grant(None, taking._board.now_ms, Manner.ASKED, is_real=False)
        taking._board.see(record, Seen.LOCK_GRANTED, grant)


def _never_settles(_lines: Lines, _broker: str, _now_ms: int, _foreign: bool) -> bool:
    return False


def _drop_unwanted_grant(lives: Lives, record: Record, about: Grant) -> None:
    if record.wanted:
        _hold_or_ask(lives, record, about)
    else:
        record.state = State.ABSENT


def _stay_locked(_lives: Lives, _record: Record, _about: object) -> None:
    """Hear a poke for a queue that we know nothing of, and do nothing."""


def _want_for_ever(lives: Lives, record: Record, about: Denial) -> None:
    lives.taking.try_later(record)
    lives.asking.poke(record, about.holder)


def _unlock_blindly(taking: Taking, queue: Queue, epoch: int | None) -> None:
    """Say that a lock goes back, whatever is unanswered, and do not wait for the answer."""
    desk, found = taking.desk(queue.broker), taking._board.records.get(queue)
    desk.to_lock.pop(queue, None)
    desk.to_renew.pop(queue, None)
    taking._board.say(Unlock(queue.broker, (queue,), taking._options.lock_group, (epoch,)))
    if found is not None and found.state is State.RELEASING:
        taking._board.see(found, Seen.UNLOCKED)


def _hear_no_unlock(_taking: Taking, _event: Unlocked | UnlockFailed) -> None:
    """Drop an answer that nobody waits for."""


def _renew_as_lock(said: speech.Asking, action: Lock | Renew) -> speech.Request:
    body = said._locked(action, said._options.id, LockWord(renew=False))
    return speech.Request(action.broker, RequestCode.LOCK_BATCH_MQ, body=body)


def _keep_short_lock(lives: Lives, record: Record, _about: object) -> None:
    _start(lives, record)


# -- asking the others ------------------------------------------------------------------------------------------------


def _take_silence_for_no(asking: Asking, event: HoldersSeen | HoldersFailed) -> None:
    if isinstance(event, HoldersFailed):
        event = HoldersSeen(event.broker, event.member, frozenset(), ticket=event.ticket)
    _answered(asking, event)


def _hold_what_is_owned(member: Member, now_ms: int, about: Sequence[Queue]) -> Holdings:
    return replace(_holdings(member, now_ms, about), held=member.assignment(), draining=())


# -- doubt ------------------------------------------------------------------------------------------------------------


def _window_always_survives(record: Record, _seen: OffsetSeen) -> bool:
    return record.reset_to is None


def _doubt_drained(lives: Lives, record: Record, is_cut: bool | None) -> None:
    """Forget that a queue was being given up."""
    _doubt(lives, record, is_cut)
    record.was_draining = False


_NEVER_GIVES_WAY = {
    **LIFE,
    (State.UNSURE, Seen.LOCK_DENIED): Row("prove_later", (State.UNSURE,)),
    (State.UNSURE, Seen.PEER_HOLDS): Row("prove_later", (State.UNSURE,)),
}


# -- giving up --------------------------------------------------------------------------------------------------------


def _undo_drain(_lives: Lives, record: Record, _about: object) -> None:
    record.wanted = True
    if record.state is State.DRAINING:
        record.state = State.OWNED
        record.was_draining = False


_DRAIN_UNDONE = {**LIFE, (State.DRAINING, Seen.PLANNED_IN): Row("note_planned_in", (State.OWNED,))}


def _say_once(_committing: Committing, _record: Record) -> None:
    """Say nothing again."""


TAKING_BUGS: tuple[Bug, ...] = (
    Bug(
        "taken-without-lock",
        "On Apache's broker a member asks the others without the lock, so that two takers pass each other.",
        ("churn", "storm"),
        (swap(Taking, "_ask_locks", _lock_nothing),),
    ),
    Bug(
        "silence-means-no",
        "A member that does not answer counts as one that does not hold the queue.",
        ("flips", "hung"),
        (swap(Asking, "answered", _take_silence_for_no),),
    ),
    Bug(
        "held-means-owned",
        "Asked what it holds, a member leaves out what it is starting with or giving up.",
        ("flips", "storm"),
        (swap(Member, "holdings", _hold_what_is_owned),),
    ),
    Bug(
        "restarted-broker-trusted",
        "Free locks of an Apache broker that has just started are taken for free queues.",
        ("restart", "wild"),
        (swap(Lines, "settles", _never_settles),),
    ),
    Bug(
        "short-lock-kept",
        "On Apache's broker a taker keeps its lock when it has the queue.",
        ("churn", "storm"),
        (swap(Lives, "take_from_nobody", _keep_short_lock),),
    ),
    Bug(
        "unwanted-grant-kept",
        "A lock that is granted when it is not wanted any more is forgotten.",
        ("churn", "storm"),
        (swap(Lives, "hold_or_ask", _drop_unwanted_grant), swap(Lives, "unlock_all_the_same", _stay_locked)),
    ),
    Bug(
        "unlock-not-awaited",
        "A member unlocks whatever is unanswered, and goes on as if that were done.",
        ("order", "patience"),
        (
            swap(Taking, "want_unlock", _unlock_blindly),
            swap(Taking, "unlocked", _hear_no_unlock),
            swap(Taking, "unlock_failed", _hear_no_unlock),
        ),
    ),
    Bug(
        "renewal-takes",
        "A member asks for its lease as if it were new, and gets it though it was out of it.",
        ("flips", "network"),
        (swap(speech.Asking, "lock", _renew_as_lock),),
    ),
    Bug(
        "denied-leaver-stays",
        "A member that leaves while a lock is denied goes on asking for it.",
        ("storm", "flips"),
        (swap(Lives, "want_later", _want_for_ever),),
    ),
    Bug(
        "doubt-never-gives-way",
        "Whoever is unsure of a queue waits for whoever asks for it, and the other way round.",
        ("network", "wild"),
        (swap(board, "LIFE", _NEVER_GIVES_WAY),),
    ),
    Bug(
        "overtaken-window-kept",
        "After a cut a member goes on where it was, though somebody else was further meanwhile.",
        ("flips", "network"),
        (swap(lives, "window_survives", _window_always_survives),),
    ),
    Bug(
        "doubt-undoes-drain",
        "A queue that was being given up when its line broke is owned again afterwards.",
        ("flips",),
        (swap(Lives, "doubt", _doubt_drained),),
    ),
    Bug(
        "drain-undone",
        "A queue that is planned again while it is given up is kept, without the messages that were forgotten.",
        ("flips", "storm"),
        (swap(Lives, "note_planned_in", _undo_drain), swap(board, "LIFE", _DRAIN_UNDONE)),
    ),
    Bug(
        "late-commit-stays",
        "On Apache's broker nobody says an offset again that a late commit of a dead line took back.",
        ("network", "flips"),
        (swap(Committing, "repeat", _say_once),),
    ),
)
"""What can be wrong with taking and giving up."""
