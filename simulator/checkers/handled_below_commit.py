"""R2: every message below a committed offset was handled.

While the history runs: at each commit, the handler of every offset below it, from the group's start on, has returned.
In an orderly group a failure counts only after the last attempt. At the end, by the log: what is below the committed
offset was handled by this group at exactly that offset.

Excused: offset resets; offsets below the group's first commit, unless the group starts at the first message; while it
runs, queues of a broker that lost power (other messages may have got the offsets: the end decides). Broadcast groups
commit nothing.
"""

from collections.abc import Iterable, Iterator

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions, HistoryEnd
from simulator.checkers.trackers import TRACKED_FACTS, FaultTracker
from simulator.facts import Fact, HandlerEnded, OffsetCommitted
from steelyard.model import Queue

_MAX_NAMED = 5


class _GroupProgress:
    """The progress of a group in a queue."""

    __slots__ = ("done", "failures", "low", "start")

    def __init__(self, start: int | None) -> None:
        self.start = self.low = start
        self.done: dict[int, set[str]] = {}
        self.failures: dict[int, int] = {}


class HandledBelowCommit(Checker):
    """No commit skips what was not handled."""

    name = "handled below commit"
    fact_types = (*TRACKED_FACTS, HandlerEnded, OffsetCommitted)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._tracker = FaultTracker(conditions)
        self._progress: dict[tuple[str, Queue], _GroupProgress] = {}

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Track what was handled, and check each commit."""
        if isinstance(fact, HandlerEnded):
            self._ended(fact)
        elif isinstance(fact, OffsetCommitted):
            return self._committed(fact)
        else:
            self._tracker.observe(fact)
        return ()

    def check_end(self, end: HistoryEnd) -> Iterator[CheckerFinding]:
        """Compare the log with what is committed at the end."""
        if self.conditions.offset_resets:
            return
        for logged in end.logged:
            for group in sorted(self._tracker.conditions.groups or {group for group, _ in self._progress}):
                progress = self._progress.get((group, logged.queue))
                if progress is None or progress.start is None or logged.offset < progress.start:
                    continue
                committed = end.committed.get((group, logged.queue), 0)
                if logged.offset < committed and logged.uid not in progress.done.get(logged.offset, ()):
                    sentence = (
                        f"group {group} committed {committed} in {logged.queue}, and never handled {logged.uid} "
                        f"at offset {logged.offset}"
                    )
                    yield self.finding("safety", "commit", end.at_ms, sentence, logged)

    def _of(self, group: str, queue: Queue) -> _GroupProgress:
        progress = self._progress.get((group, queue))
        if progress is None:
            start = 0 if self.conditions.group(group).from_first else None
            progress = self._progress[group, queue] = _GroupProgress(start)
        return progress

    def _ended(self, fact: HandlerEnded) -> None:
        progress = self._of(fact.group, fact.queue)
        if not fact.ok and self._tracker.mode(fact.group) == "orderly" and self._tracker.is_steelyard_only(fact.group):
            # Each member counts its own attempts, and there may be no fact for the last one of a dead member.
            attempts = progress.failures[fact.offset] = progress.failures.get(fact.offset, 0) + 1
            max_attempts = self.conditions.group(fact.group).max_attempts
            if max_attempts < 0 or attempts + 1 < max_attempts:
                return
        progress.done.setdefault(fact.offset, set()).add(fact.uid)

    def _committed(self, fact: OffsetCommitted) -> Iterable[CheckerFinding]:
        progress = self._of(fact.group, fact.queue)
        if progress.low is None:
            progress.start = progress.low = fact.offset
            return ()
        if fact.offset <= progress.low:
            return ()
        low, progress.low = progress.low, fact.offset
        if self.conditions.offset_resets or fact.queue.broker in self._tracker.power_loss_ms:
            return ()
        missing = [offset for offset in range(low, fact.offset) if offset not in progress.done]
        if not missing:
            return ()
        named = ", ".join(map(str, missing[:_MAX_NAMED])) + (" …" if len(missing) > _MAX_NAMED else "")
        sentence = (
            f"{fact.member} committed {fact.offset} in {fact.queue} for {fact.group} at {fact.at_ms} ms, and no "
            f"handler had returned for offset {named}"
        )
        return (self.finding("safety", "commit", fact.at_ms, sentence, fact),)
