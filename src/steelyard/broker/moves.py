"""The history of moves: which queue went from whom to whom, after which gap, and why.

The table of locks tells each change of a holder, the registry of members who came and went; here both are put together
by group. Members that hold no locks are not guessed at: of them it is only known that they came and went. Nothing is
decided here, and nobody is told anything but the log (moves_writing.py): a broker without this would do the same.

Clients choose groups and queues, so everything has an end: what comes beyond is counted, and not remembered.
"""

from collections.abc import Iterator
from enum import Enum

from steelyard.broker.locks import HowFreed, QueueKey
from steelyard.broker.moves_story import CALM_MS, GroupStory, Rebalance, Waiting
from steelyard.broker.moves_totals import Totals
from steelyard.broker.timing import has_come
from steelyard.wire.moves import MemberChange, MoveLine, RebalanceLine

__all__ = ["Moves", "What"]

_MOST_GROUPS = 10_000
_MOST_REMEMBERED = 200_000
"""Queues whose last holder is remembered."""
_REMEMBERED_MS = 600_000
"""For how long it is remembered who had a queue that nobody takes."""
_SWEEP_MS = 10_000


class What(Enum):
    """How a member changed."""

    JOINED = "joined"
    BACK = "back"
    """It was there before the broker was started again."""
    LEAVING = "leaving"
    LEFT = "left"
    GONE = "gone"
    WANTS = "wants"
    """It wants other topics."""


class Moves:
    """What is known of who held what, by group. It is told by `Locks` (as its `Watch`) and by membership.py."""

    def __init__(self, now_ms: int) -> None:
        self.totals = Totals()
        """What was counted since the start, by group."""
        self.unwritten = 0
        """Records that the log did not take."""
        self.was_told = False
        """Whether somebody was told that the log does not take them."""
        self._stories: dict[str, GroupStory] = {}
        self._waiting = Waiting()
        self._remembered = 0
        self._sweep_ms = now_ms + _SWEEP_MS

    # -- told by the registry of members ------------------------------------------------------------------------------

    def member(self, group: str, member: str, what: What, now_ms: int, *, because: str = "") -> None:
        """Take note of a member that came, went, or wants something else; ``because`` is for one that is gone."""
        story = self._story(group)
        if story is None:
            return
        sentence = _SENTENCES[what].format(member=member, because=because)
        if what in (What.LEAVING, What.LEFT, What.GONE):
            story.last_words(member, sentence)
        else:
            story.is_there(member)
        # Who is back has not joined, and goes on with what it had.
        story.member(MemberChange(member, what.value, now_ms), sentence, now_ms, moves_queues=what is not What.BACK)

    def queues_changed(self, group: str, sentence: str, now_ms: int) -> None:
        """Take note that there are other queues to share than before."""
        story = self._story(group)
        if story is not None:
            story.changed(sentence, now_ms)

    # -- told by the table of locks -----------------------------------------------------------------------------------

    def taken(self, group: str, key: QueueKey, owner: str, now_ms: int, *, is_kept: bool) -> None:
        """Take note that somebody holds a queue that was free."""
        totals, story = self.totals.of(group), self._story(group)
        totals.kept += is_kept
        if story is None:
            return
        if is_kept:
            story.happened(now_ms)
            return
        last = story.free.pop(key, None)
        self._remembered -= last is not None
        rebalance = self._begun(story, key, None if last is None else last.owner, now_ms)
        line = story.taken(key, owner, last, now_ms)
        if _is_move(line):
            totals.moves[line.kind] += 1
            totals.gap_ms.add(line.gap_ms or 0)
            rebalance.moved += 1

    def freed(self, group: str, key: QueueKey, owner: str, how: HowFreed, at_ms: int) -> None:
        """Take note that a queue is free."""
        story = self._story(group)
        if story is None:
            return
        if how is HowFreed.OUTDONE:
            story.happened(at_ms)
            return
        self._begun(story, key, owner, at_ms)
        last = story.freed(key, owner, how, at_ms)
        if self._has_room():
            self._remembered += key not in story.free
            story.free[key] = last

    def _begun(self, story: GroupStory, key: QueueKey, owner: str | None, now_ms: int) -> Rebalance:
        """Take note of who had a queue when the change began that it is part of."""
        found = story.rebalance
        if found is None:
            found = story.rebalance = Rebalance(now_ms)
        found.ended_ms = max(found.ended_ms, now_ms)
        if key not in found.before and self._has_room():
            found.before[key] = owner
            self._remembered += 1
        return found

    def _has_room(self) -> bool:
        return self._remembered < _MOST_REMEMBERED

    def _story(self, group: str) -> GroupStory | None:
        found = self._stories.get(group)
        if found is None and len(self._stories) < _MOST_GROUPS:
            found = self._stories[group] = GroupStory(group, self._waiting)
        return found

    # -- for the writer -----------------------------------------------------------------------------------------------

    def ripe(self, now_ms: int, *, everything: bool = False) -> Iterator[GroupStory]:
        """Go through the stories that are to be written down now."""
        return (story for story in self._stories.values() if story.is_ripe(now_ms) or (everything and story.has_news))

    def written(self, story: GroupStory) -> None:
        """Begin a story anew after its record; it comes last then, so that no group waits for ever for its turn."""
        story.wrote()
        if self._stories.pop(story.group, None) is not None:
            self._stories[story.group] = story

    def restless(self, now_ms: int) -> Iterator[tuple[GroupStory, Rebalance]]:
        """Go through the groups with a change under way that are to be looked at now."""
        for story in self._stories.values():
            if story.rebalance is not None and has_come(story.rebalance.check_ms, CALM_MS, now_ms):
                yield story, story.rebalance

    def ended(self, story: GroupStory, line: RebalanceLine | None) -> None:
        """Take note that a group is at rest; without a line nobody knows whether it is, and nobody asks any more."""
        if story.rebalance is not None:
            self._remembered -= len(story.rebalance.before)
            story.rebalance = None
        if line is not None:
            totals = self.totals.of(story.group)
            totals.rebalances += 1
            totals.duration_ms.add(line.ended_ms - line.began_ms)

    def sweep(self, now_ms: int) -> None:
        """Forget now and then what is long ago."""
        if not has_come(self._sweep_ms, _SWEEP_MS, now_ms):
            return
        self._sweep_ms = now_ms + _SWEEP_MS
        for group, story in list(self._stories.items()):
            old = [key for key, last in story.free.items() if now_ms - last.freed_ms > _REMEMBERED_MS]
            self._remembered -= len(old)
            for key in old:
                del story.free[key]
            if story.is_over and now_ms - story.changed_ms > _SWEEP_MS:
                del self._stories[group]


def _is_move(line: MoveLine) -> bool:
    return line.before is not None and line.after is not None and line.before != line.after


_SENTENCES = {
    What.JOINED: "{member} joined",
    What.BACK: "the broker was restarted",
    What.LEAVING: "{member} left",
    What.LEFT: "{member} left",
    What.GONE: "{member} is gone: {because}",
    What.WANTS: "{member} wants other topics",
}
