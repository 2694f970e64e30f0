"""R2: whatever is below a committed offset was handled.

While the history runs: at each commit, every offset below it and from the group's start on has been handed to user code
that returned. In order, a failure counts only once the tries are used up. In the end, by the log: what rests below the
committed offset was handled by this group at just that place.

Excused: offsets moved by hand; offsets below the group's first commit, unless the group starts at the first message;
while it runs, queues of a broker that lost power (other messages may have got the offsets: the end decides).
Broadcasting commits nothing.
"""

from collections.abc import Iterable, Iterator

from steelyard.model import Queue
from steelyard.sim.checkers.checker import Checker, End, Finding, Terms
from steelyard.sim.checkers.scene import SCENE, Scene
from steelyard.sim.facts import Committed, Ended, Fact

__all__ = ["HandledBelowCommit"]

_MOST_NAMED = 5


class _Progress:
    """How far a group is in a queue."""

    __slots__ = ("done", "failures", "low", "start")

    def __init__(self, start: int | None) -> None:
        self.start = self.low = start
        self.done: dict[int, set[str]] = {}
        self.failures: dict[int, int] = {}


class HandledBelowCommit(Checker):
    """No commit passes over what was not handled."""

    name = "handled below commit"
    wants = (*SCENE, Ended, Committed)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._progress: dict[tuple[str, Queue], _Progress] = {}

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Follow what ends, and hold every commit against it."""
        if isinstance(fact, Ended):
            self._ended(fact)
        elif isinstance(fact, Committed):
            return self._committed(fact)
        else:
            self._scene.note(fact)
        return ()

    def finish(self, end: End) -> Iterator[Finding]:
        """Hold the log against what is committed in the end."""
        if self.terms.resets:
            return
        for logged in end.logged:
            for group in sorted(self._scene.terms.groups or {group for group, _ in self._progress}):
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

    def _of(self, group: str, queue: Queue) -> _Progress:
        progress = self._progress.get((group, queue))
        if progress is None:
            start = 0 if self.terms.group(group).from_first else None
            progress = self._progress[group, queue] = _Progress(start)
        return progress

    def _ended(self, fact: Ended) -> None:
        progress = self._of(fact.group, fact.queue)
        if not fact.ok and self._scene.mode(fact.group) == "orderly" and self._scene.is_all_ours(fact.group):
            # Each member counts its own tries, and the last one of a dead member may have ended unseen.
            tries = progress.failures[fact.offset] = progress.failures.get(fact.offset, 0) + 1
            most = self.terms.group(fact.group).most_tries
            if most < 0 or tries + 1 < most:
                return
        progress.done.setdefault(fact.offset, set()).add(fact.uid)

    def _committed(self, fact: Committed) -> Iterable[Finding]:
        progress = self._of(fact.group, fact.queue)
        if progress.low is None:
            progress.start = progress.low = fact.offset
            return ()
        if fact.offset <= progress.low:
            return ()
        low, progress.low = progress.low, fact.offset
        if self.terms.resets or fact.queue.broker in self._scene.power_ms:
            return ()
        missing = [offset for offset in range(low, fact.offset) if offset not in progress.done]
        if not missing:
            return ()
        named = ", ".join(map(str, missing[:_MOST_NAMED])) + (" …" if len(missing) > _MOST_NAMED else "")
        sentence = (
            f"{fact.member} committed {fact.offset} in {fact.queue} for {fact.group} at {fact.at_ms} ms, and nobody "
            f"had finished with offset {named}"
        )
        return (self.finding("safety", "commit", fact.at_ms, sentence, fact),)
