"""What came of a churn: which messages were handled, how often, in which order, and who was at a queue with whom.

Everything is worked out from what the members wrote down (member.py). A handling without an end was under way when its
process was killed.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class HandlerRun:
    """One message in the hands of one member."""

    uid: str
    queue: str
    member: str
    start_ns: int
    end_ns: int | None


def read_logs(logs: Iterable[Path]) -> list[HandlerRun]:
    """Return every handling, by when it began."""
    handlings: list[HandlerRun] = []
    for log in logs:
        begun: defaultdict[str, list[HandlerRun]] = defaultdict(list)
        for line in log.read_text().splitlines():
            mark, uid, broker, number, at_ns = line.split()
            if mark == "s":
                begun[uid].append(HandlerRun(uid, f"{broker}:{number}", log.stem, int(at_ns), None))
            else:
                handlings.append(replace(begun[uid].pop(0), end_ns=int(at_ns)))
        handlings += [handling for left in begun.values() for handling in left]
    return sorted(handlings, key=lambda each: each.start_ns)


def repeats(handlings: Sequence[HandlerRun]) -> dict[str, list[HandlerRun]]:
    """Return the messages that were begun more than once, each with its handlings in time's order."""
    by_uid: defaultdict[str, list[HandlerRun]] = defaultdict(list)
    for handling in handlings:
        by_uid[handling.uid].append(handling)
    return {uid: found for uid, found in by_uid.items() if len(found) > 1}


def out_of_order(handlings: Sequence[HandlerRun]) -> list[str]:
    """Return the messages that were begun for the first time after a later one of their key; a body is ``key:number``.

    >>> runs = [HandlerRun(uid, "a:0", "m", at, at + 1) for at, uid in enumerate(("k:0", "k:2", "k:1", "j:0"))]
    >>> out_of_order(runs)
    ['k:1']
    """
    last: dict[str, int] = {}
    wrong: list[str] = []
    seen: set[str] = set()
    for handling in handlings:
        if handling.uid in seen:
            continue
        seen.add(handling.uid)
        key, _, number = handling.uid.partition(":")
        if int(number) < last.get(key, -1):
            wrong.append(handling.uid)
        last[key] = max(int(number), last.get(key, -1))
    return wrong


def overlaps(handlings: Sequence[HandlerRun]) -> Iterator[tuple[HandlerRun, HandlerRun]]:
    """Yield pairs that were under way at once in one queue; those that a kill ended count up to their start alone.

    >>> a, b = HandlerRun("k:0", "a:0", "m", 10, 20), HandlerRun("k:1", "a:0", "n", 15, 30)
    >>> [(one.uid, other.uid) for one, other in overlaps([a, b])]
    [('k:0', 'k:1')]
    """
    latest: dict[str, HandlerRun] = {}
    for handling in handlings:
        before = latest.get(handling.queue)
        if before is not None and before.end_ns is not None and before.end_ns > handling.start_ns:
            yield before, handling
        if before is None or (handling.end_ns or 0) >= (before.end_ns or 0):
            latest[handling.queue] = handling
