"""An offset of a queue is one message: for whoever was told of it, for whoever handled it, and in the log; no gaps.

Excused: after a loss of power the offsets of messages that were not safe are given out again, so two messages may share
one if the older of them was sent before the power went; and of what was not synced a later page may have reached the
disk and an earlier one not, which leaves a gap. Nothing else may reuse an offset, no crash and no restart.
"""

import itertools
from collections.abc import Iterable, Iterator

from steelyard.model import Queue, in_order
from steelyard.sim.checkers.checker import Checker, End, Finding, Terms
from steelyard.sim.facts import Acked, Fact, Gone, Logged, Sent, Started

__all__ = ["OneMessagePerOffset"]

_Seen = Acked | Started | Logged


class OneMessagePerOffset(Checker):
    """Offsets are never given out twice, and none is left out."""

    name = "one message per offset"
    wants = (Sent, Acked, Started, Gone)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._seen: dict[tuple[Queue, int], _Seen] = {}
        self._sent_ms: dict[str, int] = {}
        self._later: set[str] = set()
        """What waits or is a half: the place it was told is not the one it is read from."""
        self._power_ms: dict[str, int] = {}

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Remember what was seen at each offset, and compare."""
        if isinstance(fact, Started):
            return self._compare(fact.queue, fact.offset, fact, fact.at_ms)
        if isinstance(fact, Sent):
            self._sent_ms[fact.uid] = fact.at_ms
            if fact.due_ms is not None or fact.transactional:
                self._later.add(fact.uid)
        elif isinstance(fact, Acked):
            if fact.queue is not None and fact.offset is not None and fact.uid not in self._later:
                return self._compare(fact.queue, fact.offset, fact, fact.at_ms)
        elif isinstance(fact, Gone) and fact.how == "power":
            self._power_ms[fact.name] = fact.at_ms
        return ()

    def finish(self, end: End) -> Iterator[Finding]:
        """Compare with the logs, and count them through."""
        offsets: dict[Queue, list[int]] = {}
        for logged in end.logged:
            offsets.setdefault(logged.queue, []).append(logged.offset)
            yield from self._compare(logged.queue, logged.offset, logged, end.at_ms)
        for queue in in_order(offsets):
            there = sorted(offsets[queue])
            for before, after in itertools.pairwise(there):
                is_torn = queue.broker in self._power_ms
                if after == before or (after > before + 1 and not is_torn):
                    what = "has it twice" if after == before else f"goes on with {after}"
                    sentence = f"the log of {queue} {what} after offset {before}"
                    yield self.finding("safety", "log", end.at_ms, sentence)

    def _compare(self, queue: Queue, offset: int, fact: _Seen, at_ms: int) -> Iterable[Finding]:
        seen = self._seen.setdefault((queue, offset), fact)
        if seen.uid == fact.uid:
            return ()
        self._seen[queue, offset] = fact
        power_ms = self._power_ms.get(queue.broker)
        if power_ms is not None and min(self._sent_ms.get(uid, 0) for uid in (seen.uid, fact.uid)) <= power_ms:
            return ()
        sentence = (
            f"offset {offset} of {queue} is {fact.uid} ({type(fact).__name__.lower()}, {at_ms} ms) and was {seen.uid} "
            f"({type(seen).__name__.lower()}, {seen.at_ms} ms)"
        )
        return (self.finding("safety", "log", at_ms, sentence, seen, fact),)
