"""Short stories for checkers: facts with everything filled in that a test does not care about."""

from collections.abc import Iterable

from steelyard.model import Queue
from steelyard.sim.checkers.checker import Checker, End, Finding, GroupTerms, Terms
from steelyard.sim.checkers.table import Jury
from steelyard.sim.facts import (
    Acked,
    Committed,
    Ended,
    Fact,
    Freed,
    Gone,
    Granted,
    Joined,
    LineLost,
    Logged,
    Moved,
    Sent,
    Started,
)

__all__ = [
    "Q0",
    "Q1",
    "acked",
    "committed",
    "cut",
    "ended",
    "freed",
    "gone",
    "granted",
    "handled",
    "joined",
    "judge",
    "logged",
    "moved",
    "owned",
    "sent",
    "started",
    "terms",
]

Q0, Q1 = Queue("t", "b", 0), Queue("t", "b", 1)
"""Two queues of one topic on the broker ``b``; members are ``m1``, ``m2`` … of the group ``g``."""


def terms(
    mode: str = "concurrent",
    *,
    from_first: bool = True,
    most_tries: int = 16,
    apache_brokers: frozenset[str] = frozenset(),
    async_brokers: frozenset[str] = frozenset(),
    clock_faults: bool = False,
) -> Terms:
    """Make terms of one group of the topic ``t``."""
    group = GroupTerms(("t",), mode, from_first=from_first, most_tries=most_tries)
    return Terms({"g": group}, apache_brokers, async_brokers, clock_faults=clock_faults)


def judge(
    checker: type[Checker], story: Iterable[Fact], under: Terms | None = None, end: End | None = None
) -> list[Finding]:
    """Tell a checker a story, with an end if there is one, and return what it finds."""
    jury = Jury(under or terms(), (checker,))
    for fact in story:
        jury.note(fact)
    if end is not None:
        jury.finish(end)
    return jury.findings


def joined(member: str, at_ms: int = 0, kind: str = "ours", topics: tuple[str, ...] = ("t",)) -> Joined:
    """Let a member come; of kind ``broker``, let a broker start."""
    group = "" if kind == "broker" else "g"
    return Joined(
        at_ms=at_ms, member=member, group=group, kind=kind, mode="concurrent", strategy="STICKY", topics=topics
    )


def gone(name: str, at_ms: int, how: str = "killed") -> Gone:
    """Let a process end."""
    return Gone(at_ms=at_ms, name=name, how=how)


def cut(one: str, at_ms: int, how: str = "cut", other: str = "b") -> LineLost:
    """Let the line of a member to the broker be lost."""
    return LineLost(at_ms=at_ms, one=one, other=other, how=how)


def moved(member: str, at_ms: int, before: str, after: str, queue: Queue = Q0) -> Moved:
    """Let a queue change its state at a member."""
    return Moved(at_ms=at_ms, member=member, group="g", queue=queue, before=before, after=after)


def owned(member: str, at_ms: int, queue: Queue = Q0) -> list[Fact]:
    """Let a member take a queue, in three steps at one moment."""
    return [
        moved(member, at_ms, "absent", "WANTED", queue),
        moved(member, at_ms, "WANTED", "STARTING", queue),
        moved(member, at_ms, "STARTING", "OWNED", queue),
    ]


def granted(
    member: str, at_ms: int, epoch: int | None = 1, queue: Queue = Q0, *, lock: str = "g%LEASE", again: bool = False
) -> Granted:
    """Let the broker give a queue to a member."""
    return Granted(
        at_ms=at_ms, broker=queue.broker, lock_group=lock, queue=queue, member=member, epoch=epoch, again=again
    )


def freed(member: str, at_ms: int, how: str = "unlocked", queue: Queue = Q0, lock: str = "g%LEASE") -> Freed:
    """Let the broker free a queue."""
    return Freed(at_ms=at_ms, broker=queue.broker, lock_group=lock, queue=queue, member=member, how=how)


def sent(
    uid: str, at_ms: int = 0, key: str | None = None, number: int = 0, due_ms: int | None = None, *, half: bool = False
) -> Sent:
    """Let a producer send a message to ``t``."""
    return Sent(
        at_ms=at_ms, producer="p", uid=uid, topic="t", key=key, number=number, due_ms=due_ms, transactional=half
    )


def acked(uid: str, at_ms: int = 1, offset: int | None = None, queue: Queue = Q0) -> Acked:
    """Let the producer be told that it is stored."""
    return Acked(at_ms=at_ms, uid=uid, queue=None if offset is None else queue, offset=offset)


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
) -> Started:
    """Let a member start a message; its uid is ``u`` and the offset if none is given."""
    return Started(
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
) -> Ended:
    """Let a member finish a message."""
    return Ended(
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
    """Let a member start and finish messages."""
    return [fact for offset in offsets for fact in (started(member, at_ms, offset), ended(member, at_ms, offset))]


def committed(
    member: str | None, at_ms: int, offset: int, before: int | None = None, epoch: int | None = None
) -> Committed:
    """Let the broker take a commit in the first queue."""
    return Committed(at_ms=at_ms, group="g", queue=Q0, offset=offset, member=member, before=before, epoch=epoch)


def logged(uid: str, offset: int, queue: Queue = Q0, times: int = 0) -> Logged:
    """Let the log have a message in the end."""
    return Logged(at_ms=0, queue=queue, offset=offset, uid=uid, reconsume_times=times)
