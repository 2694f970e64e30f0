"""Builders of facts for tests of checkers: fields that a test does not care about have defaults."""

from collections.abc import Iterable

from simulator.checkers.checker import Checker, CheckerFinding, GroupConditions, HistoryConditions, HistoryEnd
from simulator.checkers.runner import CheckerRunner
from simulator.facts import (
    ConnectionDisturbed,
    Fact,
    HandlerEnded,
    HandlerStarted,
    LockFreed,
    LockGranted,
    MessageAcked,
    MessageLogged,
    MessageSent,
    OffsetCommitted,
    ProcessGone,
    ProcessStarted,
    QueueStateChanged,
)
from steelyard.model import Queue

Q0, Q1 = Queue("t", "b", 0), Queue("t", "b", 1)
"""Two queues of one topic on the broker ``b``; members are ``m1``, ``m2`` … of the group ``g``."""


def conditions(
    mode: str = "concurrent",
    *,
    from_first: bool = True,
    max_attempts: int = 16,
    apache_brokers: frozenset[str] = frozenset(),
    async_brokers: frozenset[str] = frozenset(),
    clock_faults: bool = False,
) -> HistoryConditions:
    """Make the conditions of one group of the topic ``t``."""
    group = GroupConditions(("t",), mode, from_first=from_first, max_attempts=max_attempts)
    return HistoryConditions({"g": group}, apache_brokers, async_brokers, clock_faults=clock_faults)


def run_checker(
    checker: type[Checker],
    history: Iterable[Fact],
    under: HistoryConditions | None = None,
    end: HistoryEnd | None = None,
) -> list[CheckerFinding]:
    """Pass facts, and the end if there is one, to a checker, and return its findings."""
    jury = CheckerRunner(under or conditions(), (checker,))
    for fact in history:
        jury.observe(fact)
    if end is not None:
        jury.check_end(end)
    return jury.findings


def joined(member: str, at_ms: int = 0, kind: str = "ours", topics: tuple[str, ...] = ("t",)) -> ProcessStarted:
    """Start a member, or a broker with kind ``broker``."""
    group = "" if kind == "broker" else "g"
    return ProcessStarted(
        at_ms=at_ms, member=member, group=group, kind=kind, mode="concurrent", strategy="STICKY", topics=topics
    )


def gone(name: str, at_ms: int, how: str = "killed") -> ProcessGone:
    """End a process."""
    return ProcessGone(at_ms=at_ms, name=name, how=how)


def cut(one: str, at_ms: int, how: str = "cut", other: str = "b") -> ConnectionDisturbed:
    """Cut the connection of a member to the broker."""
    return ConnectionDisturbed(at_ms=at_ms, one=one, other=other, how=how)


def moved(member: str, at_ms: int, before: str, after: str, queue: Queue = Q0) -> QueueStateChanged:
    """Change the state of a queue at a member."""
    return QueueStateChanged(at_ms=at_ms, member=member, group="g", queue=queue, before=before, after=after)


def owned(member: str, at_ms: int, queue: Queue = Q0) -> list[Fact]:
    """Let a member acquire a queue, in three steps at one moment."""
    return [
        moved(member, at_ms, "absent", "WANTED", queue),
        moved(member, at_ms, "WANTED", "STARTING", queue),
        moved(member, at_ms, "STARTING", "OWNED", queue),
    ]


def granted(
    member: str, at_ms: int, epoch: int | None = 1, queue: Queue = Q0, *, lock: str = "g%LEASE", again: bool = False
) -> LockGranted:
    """Grant a queue to a member."""
    return LockGranted(
        at_ms=at_ms, broker=queue.broker, lock_group=lock, queue=queue, member=member, epoch=epoch, again=again
    )


def freed(member: str, at_ms: int, how: str = "unlocked", queue: Queue = Q0, lock: str = "g%LEASE") -> LockFreed:
    """Free a queue."""
    return LockFreed(at_ms=at_ms, broker=queue.broker, lock_group=lock, queue=queue, member=member, how=how)


def sent(
    uid: str, at_ms: int = 0, key: str | None = None, number: int = 0, due_ms: int | None = None, *, half: bool = False
) -> MessageSent:
    """Send a message to ``t``."""
    return MessageSent(
        at_ms=at_ms, producer="p", uid=uid, topic="t", key=key, number=number, due_ms=due_ms, transactional=half
    )


def acked(uid: str, at_ms: int = 1, offset: int | None = None, queue: Queue = Q0) -> MessageAcked:
    """Acknowledge a message."""
    return MessageAcked(at_ms=at_ms, uid=uid, queue=None if offset is None else queue, offset=offset)


def started(
    member: str,
    at_ms: int,
    offset: int = 0,
    uid: str = "",
    queue: Queue = Q0,
    *,
    attempt: int = 0,
    generation: int = 1,
    times: int = 0,
) -> HandlerStarted:
    """Start a message at a member; its uid is ``u`` and the offset by default."""
    return HandlerStarted(
        at_ms=at_ms,
        member=member,
        group="g",
        queue=queue,
        offset=offset,
        uid=uid or f"u{offset}",
        attempt=attempt,
        generation=generation,
        reconsume_times=times,
    )


def ended(
    member: str, at_ms: int, offset: int = 0, uid: str = "", queue: Queue = Q0, *, ok: bool = True, generation: int = 1
) -> HandlerEnded:
    """End a message at a member."""
    return HandlerEnded(
        at_ms=at_ms,
        member=member,
        group="g",
        queue=queue,
        offset=offset,
        uid=uid or f"u{offset}",
        ok=ok,
        generation=generation,
    )


def handled(member: str, at_ms: int, *offsets: int) -> list[Fact]:
    """Start and end messages at a member."""
    return [fact for offset in offsets for fact in (started(member, at_ms, offset), ended(member, at_ms, offset))]


def committed(
    member: str | None, at_ms: int, offset: int, before: int | None = None, epoch: int | None = None
) -> OffsetCommitted:
    """Commit in the first queue."""
    return OffsetCommitted(at_ms=at_ms, group="g", queue=Q0, offset=offset, member=member, before=before, epoch=epoch)


def logged(uid: str, offset: int, queue: Queue = Q0, times: int = 0) -> MessageLogged:
    """Put a message into the log of the end."""
    return MessageLogged(at_ms=0, queue=queue, offset=offset, uid=uid, reconsume_times=times)
