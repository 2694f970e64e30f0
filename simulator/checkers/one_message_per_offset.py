"""An offset of a queue is one message: for its sender, for every handler, and in the log; there are no gaps.

Excused: after a power loss the offsets of messages that were not durable are assigned again, so two messages may share
one if the older of them was sent before; and a later page may have reached the disk while an earlier one did not, which
leaves a gap. Nothing else may reuse an offset, no crash and no restart.
"""

import itertools
from collections.abc import Iterable, Iterator

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions, HistoryEnd
from simulator.facts import Fact, HandlerStarted, MessageAcked, MessageLogged, MessageSent, ProcessGone
from steelyard.model import Queue, sort_queues

_Seen = MessageAcked | HandlerStarted | MessageLogged


class OneMessagePerOffset(Checker):
    """Offsets are assigned once, without gaps."""

    name = "one message per offset"
    fact_types = (MessageSent, MessageAcked, HandlerStarted, ProcessGone)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._seen: dict[tuple[Queue, int], _Seen] = {}
        self._sent_ms: dict[str, int] = {}
        self._later: set[str] = set()
        """Delayed and half messages: they are not read from where they were acknowledged."""
        self._power_ms: dict[str, int] = {}

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Remember what is at each offset, and compare."""
        if isinstance(fact, HandlerStarted):
            return self._compare(fact.queue, fact.offset, fact, fact.at_ms)
        if isinstance(fact, MessageSent):
            self._sent_ms[fact.uid] = fact.at_ms
            if fact.due_ms is not None or fact.transactional:
                self._later.add(fact.uid)
        elif isinstance(fact, MessageAcked):
            if fact.queue is not None and fact.offset is not None and fact.uid not in self._later:
                return self._compare(fact.queue, fact.offset, fact, fact.at_ms)
        elif isinstance(fact, ProcessGone) and fact.how == "power":
            self._power_ms[fact.name] = fact.at_ms
        return ()

    def check_end(self, end: HistoryEnd) -> Iterator[CheckerFinding]:
        """Compare with the logs, and check for gaps."""
        offsets: dict[Queue, list[int]] = {}
        for logged in end.logged:
            offsets.setdefault(logged.queue, []).append(logged.offset)
            yield from self._compare(logged.queue, logged.offset, logged, end.at_ms)
        for queue in sort_queues(offsets):
            there = sorted(offsets[queue])
            for before, after in itertools.pairwise(there):
                is_torn = queue.broker in self._power_ms
                if after == before or (after > before + 1 and not is_torn):
                    what = "has it twice" if after == before else f"goes on with {after}"
                    sentence = f"the log of {queue} {what} after offset {before}"
                    yield self.finding("safety", "log", end.at_ms, sentence)

    def _compare(self, queue: Queue, offset: int, fact: _Seen, at_ms: int) -> Iterable[CheckerFinding]:
        seen = self._seen.setdefault((queue, offset), fact)
        if seen.uid == fact.uid:
            return ()
        self._seen[queue, offset] = fact
        power_ms = self._power_ms.get(queue.broker)
        if power_ms is not None and min(self._sent_ms.get(uid, 0) for uid in (seen.uid, fact.uid)) <= power_ms:
            return ()
        sentence = (
            f"offset {offset} of {queue} is {fact.uid} ({fact.label.lower()}, {at_ms} ms) and was {seen.uid} "
            f"({seen.label.lower()}, {seen.at_ms} ms)"
        )
        return (self.finding("safety", "log", at_ms, sentence, seen, fact),)
