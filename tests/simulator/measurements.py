"""Measurements of a history: owners over time, how long a change took, how many queues moved."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from simulator.facts import Fact, HandlerStarted, QueueStateChanged
from steelyard.balance.assignors.minimum_moves import minimum_moves
from steelyard.model import Queue

Owners = dict[Queue, str]


def owners_at(facts: Iterable[Fact], at_ms: int) -> Owners:
    """Return who owns each queue at a time."""
    owners: Owners = {}
    for fact in facts:
        if fact.at_ms > at_ms:
            break
        if isinstance(fact, QueueStateChanged):
            if fact.after == "OWNED":
                owners[fact.queue] = fact.member
            elif owners.get(fact.queue) == fact.member and fact.after in ("absent", "WANTED"):
                del owners[fact.queue]
    return owners


class MeasuredChange:
    """One join or leave: how many queues it moved, and how long that took."""

    def __init__(self, facts: Sequence[Fact], begins_ms: int, ends_ms: int) -> None:
        self.before, self.after = owners_at(facts, begins_ms), owners_at(facts, ends_ms - 1)
        taken = [
            fact.at_ms
            for fact in facts
            if isinstance(fact, QueueStateChanged) and begins_ms <= fact.at_ms < ends_ms and fact.after == "OWNED"
        ]
        self.took_ms = max(taken, default=begins_ms) - begins_ms
        self.moved = sum(self.after.get(queue) != owner for queue, owner in self.before.items())

    def least(self, members: Iterable[str]) -> int:
        """Return the minimum of moves after which these members share the queues evenly."""
        places = {member: place for place, member in enumerate(sorted(members))}
        queues = sorted(self.before)
        owners = [places.get(self.before[queue], len(places)) for queue in queues]
        cut = [0, *(at for at, (one, other) in enumerate(pairwise(queues), 1) if one.topic != other.topic), len(queues)]
        return minimum_moves(cut, len(places), owners)


def settled_after_ms(facts: Iterable[Fact], begins_ms: int) -> int:
    """Return how long after a time the last queue got an owner."""
    taken = [fact.at_ms for fact in facts if isinstance(fact, QueueStateChanged) and fact.after == "OWNED"]
    return max(0, max(taken, default=begins_ms) - begins_ms)


def handled_twice(facts: Iterable[Fact]) -> int:
    """Count repeated starts of messages."""
    starts = [(fact.group, fact.uid) for fact in facts if isinstance(fact, HandlerStarted) and not fact.reconsume_times]
    return len(starts) - len(set(starts))


def percentile(values: Iterable[int], percent: int) -> int:
    """Return a percentile."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]
