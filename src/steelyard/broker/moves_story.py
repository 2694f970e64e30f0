"""What happened in one group lately: who came and went, which queues changed hands, and whether it is at rest again.

A story is gathered until it is quiet for a moment, then written down (moves_writing.py) and begun anew. What outlives
that: who had a queue last that is free now, and the rebalance that is under way, from its first change on.
"""

from msgspec import Struct

from steelyard.broker.locks import HowFreed, QueueKey
from steelyard.wire.moves import MemberChange, MoveLine

__all__ = ["CALM_MS", "GroupStory", "LastHeld", "Rebalance", "Waiting"]

_QUIET_MS, _LONGEST_MS = 100, 500
"""How long nothing must happen before a story is written down, and how long that may take."""

CALM_MS = 1_000
"""How long nothing must happen before a group may be at rest."""

_MOST_MOVES, _MOST_CHANGES = 2_000, 500
"""What one record has; more is only counted."""
_MOST_WAITING = 50_000
"""The same for all records together that are not written yet: there may be many groups, and all of them restless."""

_MOST_GONE = 256
_MOST_REASONS, _TOLD_REASONS = 16, 3
_STALE_MS = 60_000
"""What changed longer ago is no reason any more for what happens to a group at rest."""

FIRST = "first"
"""The kind of a move of a queue that nobody had before."""


class LastHeld(Struct, frozen=True, gc=False):
    """Who had a queue that is free."""

    owner: str
    freed_ms: int
    kind: str
    why: str


class Waiting:
    """How many moves and changes of all stories wait to be written down."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def takes_one(self) -> bool:
        """Take one more, if there is room for it."""
        has_room = self.count < _MOST_WAITING
        self.count += has_room
        return has_room


class Rebalance:
    """A change under way: since when, how many queues moved, and who had those before that changed hands since."""

    __slots__ = ("before", "began_ms", "check_ms", "ended_ms", "moved")

    def __init__(self, began_ms: int) -> None:
        self.began_ms = self.ended_ms = began_ms
        self.moved = 0
        self.before: dict[QueueKey, str | None] = {}
        self.check_ms = 0
        """When it is looked at again whether the group is at rest."""


class GroupStory:
    """What happened in one group since the last record, and what is still under way."""

    def __init__(self, group: str, waiting: Waiting) -> None:
        self.group = group
        self._waiting = waiting
        self.free: dict[QueueKey, LastHeld] = {}
        self.rebalance: Rebalance | None = None
        self.changed_ms = 0
        """When anything changed last."""
        self.moves: list[MoveLine] = []
        self.members: list[MemberChange] = []
        self.left_out = 0
        self._began_ms: int | None = None
        self._freed_here: dict[QueueKey, int] = {}
        self._reasons: list[str] = []
        self._reasoned_ms = 0
        self._gone: dict[str, str] = {}

    def is_ripe(self, now_ms: int) -> bool:
        """Whether it is time to write it down; at once if the clock was set back."""
        began_ms = self._began_ms
        if began_ms is None:
            return False
        return not (began_ms <= now_ms < began_ms + _LONGEST_MS and now_ms < self.changed_ms + _QUIET_MS)

    @property
    def has_news(self) -> bool:
        """Whether anything happened since the last record."""
        return self._began_ms is not None

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to tell or to wait for."""
        return self._began_ms is None and self.rebalance is None and not self.free

    def wrote(self) -> None:
        """Begin anew after a record."""
        self._waiting.count -= len(self.moves) + len(self.members)
        self.moves, self.members, self.left_out = [], [], 0
        self._began_ms = None
        self._freed_here.clear()

    def happened(self, now_ms: int) -> None:
        """Take note that there is something to write down."""
        self.changed_ms = now_ms
        if self._began_ms is None:
            self._began_ms = now_ms

    # -- members ------------------------------------------------------------------------------------------------------

    def member(self, change: MemberChange, sentence: str, now_ms: int, *, moves_queues: bool) -> None:
        """Take note of a member that changed, and of what to say if queues move after it."""
        if len(self.members) < _MOST_CHANGES and self._waiting.takes_one():
            self.members.append(change)
        if moves_queues:
            self.changed(sentence, now_ms)
        else:
            self._give_reason(sentence, now_ms)
            self.happened(now_ms)

    def last_words(self, member: str, sentence: str) -> None:
        """Remember why a member is gone, for the queues that get free because of it."""
        while len(self._gone) >= _MOST_GONE:
            del self._gone[next(iter(self._gone))]
        self._gone[member] = sentence

    def is_there(self, member: str) -> None:
        """Forget why a member was gone."""
        self._gone.pop(member, None)

    def changed(self, sentence: str, now_ms: int) -> None:
        """Take note of what may move queues; it begins a rebalance if none is under way."""
        if self.rebalance is None or (not self.rebalance.before and now_ms - self.changed_ms >= CALM_MS):
            # What changed before moved nothing here, and so is no part of this.
            self.rebalance = Rebalance(now_ms)
        self._give_reason(sentence, now_ms)
        self.happened(now_ms)

    def _give_reason(self, sentence: str, now_ms: int) -> None:
        """Take note of a reason: those that come together are told together, else the last one counts."""
        if not self._reasoned_ms <= now_ms < self._reasoned_ms + _QUIET_MS:
            self._reasons.clear()
        self._reasoned_ms = now_ms
        if sentence not in self._reasons and len(self._reasons) < _MOST_REASONS:
            self._reasons.append(sentence)

    # -- queues -------------------------------------------------------------------------------------------------------

    def freed(self, key: QueueKey, owner: str, how: HowFreed, at_ms: int) -> LastHeld:
        """Take note that a queue is free; return what is to be remembered of it."""
        last = self._last_held(key, owner, how, at_ms)
        self.happened(at_ms)
        line = MoveLine(
            topic=key[0],
            queue=key[1],
            before=owner,
            after=None,
            gap_ms=None,
            kind=last.kind,
            why=last.why,
            at_ms=at_ms,
        )
        if self._add(line):
            self._freed_here[key] = len(self.moves) - 1
        return last

    def taken(self, key: QueueKey, owner: str, last: LastHeld | None, now_ms: int) -> MoveLine:
        """Take note that a queue that was free is held; one that got free since the last record makes one line."""
        self.happened(now_ms)
        if last is not None:
            before, gap_ms, kind, why = last.owner, max(0, now_ms - last.freed_ms), last.kind, last.why
        else:
            before, gap_ms, kind, why = None, None, FIRST, self._because(now_ms) or "nobody had it before"
        line = MoveLine(
            topic=key[0], queue=key[1], before=before, after=owner, gap_ms=gap_ms, kind=kind, why=why, at_ms=now_ms
        )
        place = self._freed_here.pop(key, None)
        if place is None:
            self._add(line)
        else:
            self.moves[place] = line
        return line

    def _add(self, line: MoveLine) -> bool:
        if len(self.moves) >= _MOST_MOVES or not self._waiting.takes_one():
            self.left_out += 1
            return False
        self.moves.append(line)
        return True

    def _last_held(self, key: QueueKey, owner: str, how: HowFreed, at_ms: int) -> LastHeld:
        if how is HowFreed.TOPIC_GONE:
            return LastHeld(owner, at_ms, how.value, f"topic {key[0]} is gone")
        if how is HowFreed.EXPIRED:
            return LastHeld(owner, at_ms, how.value, f"{owner} did not renew its lock")
        words = self._gone.get(owner)
        if how is HowFreed.GIVEN_UP:
            if words is not None:  # it hands over what it has, and then says goodbye
                return LastHeld(owner, at_ms, HowFreed.LEFT.value, words)
            return LastHeld(owner, at_ms, how.value, self._because(at_ms) or f"{owner} gave it up")
        return LastHeld(owner, at_ms, how.value, words or f"{owner} {'left' if how is HowFreed.LEFT else 'is gone'}")

    def _because(self, now_ms: int) -> str:
        """Say what changed in the group; nothing if that is long ago."""
        if self.rebalance is None and now_ms - self._reasoned_ms > _STALE_MS:
            return ""
        more = len(self._reasons) - _TOLD_REASONS
        told = ", ".join(self._reasons[:_TOLD_REASONS])
        return f"{told} and {more} more changed" if more > 0 else told
