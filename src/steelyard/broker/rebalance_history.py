"""Rebalance history: which queue moved from which member to which, after which gap, and why.

The lock table reports each change of a holder, the consumer registry each change of a member; here both are combined by
group. Members that hold no locks are not guessed at. Nothing is decided here: a broker without this would do the same.
A group's changes are collected until it is quiet for a moment, then written to the history topic
(rebalance_history_topic.py). What outlives a record: the last owner of a queue that is free now, and the rebalance in
progress. Totals count moves, reasons and gaps since the start. Clients choose groups and queues, so everything is
limited: what exceeds a limit is counted, but not remembered.
"""

from collections import Counter
from collections.abc import Iterator
from enum import Enum

from msgspec import Struct

from steelyard.broker.queue_locks import QueueKey, ReleaseReason
from steelyard.broker.timing import is_due
from steelyard.metrics.families import Histogram
from steelyard.wire.rebalance_history import MemberChangeEntry, QueueMoveEntry, RebalanceEntry

__all__ = [
    "OTHER_GROUPS",
    "QUIET_PERIOD_MS",
    "GroupRebalanceHistory",
    "GroupRebalanceTotals",
    "LastOwner",
    "MembershipEvent",
    "OngoingRebalance",
    "RebalanceRecorder",
    "RebalanceTotals",
]


_WRITE_QUIET_MS, _WRITE_MAX_MS = 100, 500
"""How long a group must be quiet before its changes are written, and how long that may take."""

QUIET_PERIOD_MS = 1_000
"""How long a group must be quiet before its rebalance may be over."""

_MAX_MOVES, _MAX_MEMBER_CHANGES = 2_000, 500
"""The limits of one record; the rest is only counted."""
_MAX_BACKLOG = 50_000
"""The limit of all unwritten records together: there may be many groups that rebalance at once."""

_MAX_DEPARTURES = 256
_MAX_REASONS, _SHOWN_REASONS = 16, 3
_REASON_TTL_MS = 60_000
"""An older change is not the reason for what happens to a group without a rebalance."""

_FIRST_ASSIGNMENT = "first"
"""The kind of a move of a queue without a previous owner."""


class LastOwner(Struct, frozen=True, gc=False):
    """The last owner of a free queue."""

    owner: str
    released_ms: int
    kind: str
    why: str


class _HistoryBacklog:
    """The number of unwritten moves and member changes of all groups."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def try_add(self) -> bool:
        """Count one more, if there is room for it."""
        has_room = self.count < _MAX_BACKLOG
        self.count += has_room
        return has_room


class OngoingRebalance:
    """A rebalance in progress: since when, how many queues moved, and the previous owners of those."""

    __slots__ = ("before", "began_ms", "check_ms", "ended_ms", "moved")

    def __init__(self, began_ms: int) -> None:
        self.began_ms = self.ended_ms = began_ms
        self.moved = 0
        self.before: dict[QueueKey, str | None] = {}
        self.check_ms = 0
        """When to check again whether it is over."""


class GroupRebalanceHistory:
    """What happened in one group since the last record, and its rebalance in progress."""

    def __init__(self, group: str, backlog: _HistoryBacklog) -> None:
        self.group = group
        self._backlog = backlog
        self.free_queues: dict[QueueKey, LastOwner] = {}
        self.rebalance: OngoingRebalance | None = None
        self.changed_ms = 0
        """The time of the last change."""
        self.moves: list[QueueMoveEntry] = []
        self.member_changes: list[MemberChangeEntry] = []
        self.omitted = 0
        self._began_ms: int | None = None
        self._released_in_record: dict[QueueKey, int] = {}
        self._reasons: list[str] = []
        self._reasoned_ms = 0
        self._departures: dict[str, str] = {}

    def is_due_for_write(self, now_ms: int) -> bool:
        """Return whether to write a record now; at once if the clock was set back."""
        began_ms = self._began_ms
        if began_ms is None:
            return False
        return not (began_ms <= now_ms < began_ms + _WRITE_MAX_MS and now_ms < self.changed_ms + _WRITE_QUIET_MS)

    @property
    def has_changes(self) -> bool:
        """Whether anything happened since the last record."""
        return self._began_ms is not None

    @property
    def is_finished(self) -> bool:
        """Whether there is nothing left to write or to wait for."""
        return self._began_ms is None and self.rebalance is None and not self.free_queues

    def reset_after_write(self) -> None:
        """Start over after a record."""
        self._backlog.count -= len(self.moves) + len(self.member_changes)
        self.moves, self.member_changes, self.omitted = [], [], 0
        self._began_ms = None
        self._released_in_record.clear()

    def mark_changed(self, now_ms: int) -> None:
        """Record that there is something to write."""
        self.changed_ms = now_ms
        if self._began_ms is None:
            self._began_ms = now_ms

    def add_member_change(self, change: MemberChangeEntry, sentence: str, now_ms: int, *, moves_queues: bool) -> None:
        """Record a member change, and the sentence that explains moves after it."""
        if len(self.member_changes) < _MAX_MEMBER_CHANGES and self._backlog.try_add():
            self.member_changes.append(change)
        if moves_queues:
            self.record_trigger(sentence, now_ms)
        else:
            self._add_reason(sentence, now_ms)
            self.mark_changed(now_ms)

    def remember_departure(self, member: str, sentence: str) -> None:
        """Remember why a member left, for the queues that it releases."""
        while len(self._departures) >= _MAX_DEPARTURES:
            del self._departures[next(iter(self._departures))]
        self._departures[member] = sentence

    def forget_departure(self, member: str) -> None:
        """Forget why a member left."""
        self._departures.pop(member, None)

    def record_trigger(self, sentence: str, now_ms: int) -> None:
        """Record a change that may move queues; it begins a rebalance if none is in progress."""
        if self.rebalance is None or (not self.rebalance.before and now_ms - self.changed_ms >= QUIET_PERIOD_MS):
            # The previous change moved no queue here, and is no part of this.
            self.rebalance = OngoingRebalance(now_ms)
        self._add_reason(sentence, now_ms)
        self.mark_changed(now_ms)

    def _add_reason(self, sentence: str, now_ms: int) -> None:
        """Add a reason: those that come together are reported together, else the last one counts."""
        if not self._reasoned_ms <= now_ms < self._reasoned_ms + _WRITE_QUIET_MS:
            self._reasons.clear()
        self._reasoned_ms = now_ms
        if sentence not in self._reasons and len(self._reasons) < _MAX_REASONS:
            self._reasons.append(sentence)

    def record_released(self, key: QueueKey, owner: str, how: ReleaseReason, at_ms: int) -> LastOwner:
        """Record a released queue; return its last owner."""
        last = self._last_owner(key, owner, how, at_ms)
        self.mark_changed(at_ms)
        topic, queue = key
        move = QueueMoveEntry(
            topic=topic, queue=queue, before=owner, after=None, gap_ms=None, kind=last.kind, why=last.why, at_ms=at_ms
        )
        if self._add_move(move):
            self._released_in_record[key] = len(self.moves) - 1
        return last

    def record_acquired(self, key: QueueKey, owner: str, last: LastOwner | None, now_ms: int) -> QueueMoveEntry:
        """Record an acquired queue; if it was released since the last record, both are one entry."""
        self.mark_changed(now_ms)
        before, gap_ms, kind = None, None, _FIRST_ASSIGNMENT
        why = self._current_reason(now_ms) or "nobody had it before"
        if last is not None:
            before, gap_ms, kind, why = last.owner, max(0, now_ms - last.released_ms), last.kind, last.why
        move = QueueMoveEntry(
            topic=key[0], queue=key[1], before=before, after=owner, gap_ms=gap_ms, kind=kind, why=why, at_ms=now_ms
        )
        index = self._released_in_record.pop(key, None)
        if index is None:
            self._add_move(move)
        else:
            self.moves[index] = move
        return move

    def _add_move(self, move: QueueMoveEntry) -> bool:
        if len(self.moves) >= _MAX_MOVES or not self._backlog.try_add():
            self.omitted += 1
            return False
        self.moves.append(move)
        return True

    def _last_owner(self, key: QueueKey, owner: str, how: ReleaseReason, at_ms: int) -> LastOwner:
        if how is ReleaseReason.TOPIC_GONE:
            return LastOwner(owner, at_ms, how.value, f"topic {key[0]} is gone")
        if how is ReleaseReason.EXPIRED:
            return LastOwner(owner, at_ms, how.value, f"{owner} did not renew its lock")
        departure = self._departures.get(owner)
        if how is ReleaseReason.GIVEN_UP:
            if departure is not None:  # a leaving member hands over its queues before it unregisters
                return LastOwner(owner, at_ms, ReleaseReason.LEFT.value, departure)
            return LastOwner(owner, at_ms, how.value, self._current_reason(at_ms) or f"{owner} gave it up")
        return LastOwner(
            owner, at_ms, how.value, departure or f"{owner} {'left' if how is ReleaseReason.LEFT else 'disconnected'}"
        )

    def _current_reason(self, now_ms: int) -> str:
        """Describe what changed in the group; empty if that is long ago."""
        if self.rebalance is None and now_ms - self._reasoned_ms > _REASON_TTL_MS:
            return ""
        more = len(self._reasons) - _SHOWN_REASONS
        shown = ", ".join(self._reasons[:_SHOWN_REASONS])
        return f"{shown} and {more} more changed" if more > 0 else shown


OTHER_GROUPS = "(others)"
"""Groups beyond the limit are counted under this name, which no group can have."""

_MAX_COUNTED_GROUPS = 2_000
_GAPS_MS = (1, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000)
_DURATIONS_MS = (10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000)


class GroupRebalanceTotals:
    """The totals of one group."""

    __slots__ = ("duration_ms", "gap_ms", "kept", "moves", "rebalances")

    def __init__(self) -> None:
        self.rebalances = 0
        """Finished rebalances."""
        self.moves = Counter[str]()
        """Queues that moved between members, by why they were released: ``given up``, ``left``, ``lost``, …"""
        self.kept = 0
        """Queues that their holders kept over a restart of the broker."""
        self.gap_ms = Histogram(_GAPS_MS)
        """How long moved queues had no owner."""
        self.duration_ms = Histogram(_DURATIONS_MS)
        """Time from the first change until the last queue had its owner."""


class RebalanceTotals(dict[str, GroupRebalanceTotals]):
    """Totals by group.

    >>> totals = RebalanceTotals()
    >>> totals.for_group("billing").moves["left"] += 1
    >>> totals["billing"].moves
    Counter({'left': 1})
    """

    def for_group(self, group: str) -> GroupRebalanceTotals:
        """Return the totals that a group is counted in."""
        found = self.get(group)
        if found is None:
            name = group if len(self) < _MAX_COUNTED_GROUPS else OTHER_GROUPS
            found = self.setdefault(name, GroupRebalanceTotals())
        return found


_MAX_TRACKED_GROUPS = 10_000
_MAX_REMEMBERED_OWNERS = 200_000
"""Queues whose last owner is remembered."""
_OWNER_TTL_MS = 600_000
"""How long the last owner of a free queue is remembered."""
_SWEEP_MS = 10_000


class MembershipEvent(Enum):
    """A change of a member."""

    JOINED = "joined"
    RETURNED = "back"
    """It was a member before the broker was restarted."""
    LEAVING = "leaving"
    LEFT = "left"
    GONE = "gone"
    RESUBSCRIBED = "wants"
    """It subscribes to other topics."""


class RebalanceRecorder:
    """Histories and totals of all groups. Fed by `QueueLockTable` (as its `LockObserver`) and client_expiry.py."""

    def __init__(self, now_ms: int) -> None:
        self.totals = RebalanceTotals()
        """Totals since the start."""
        self.unwritten_records = 0
        """Records that could not be stored."""
        self.is_failure_reported = False
        """Whether that was reported."""
        self._histories: dict[str, GroupRebalanceHistory] = {}
        self._backlog = _HistoryBacklog()
        self._remembered_owners = 0
        self._sweep_ms = now_ms + _SWEEP_MS

    def record_member_event(
        self, group: str, member: str, event: MembershipEvent, now_ms: int, *, because: str = ""
    ) -> None:
        """Record a change of a member; ``because`` explains why one is gone."""
        history = self._history_of(group)
        if history is None:
            return
        sentence = _EVENT_TEXTS[event].format(member=member, because=because)
        if event in (MembershipEvent.LEAVING, MembershipEvent.LEFT, MembershipEvent.GONE):
            history.remember_departure(member, sentence)
        else:
            history.forget_departure(member)
        # A returned member keeps its queues.
        history.add_member_change(
            MemberChangeEntry(member, event.value, now_ms),
            sentence,
            now_ms,
            moves_queues=event is not MembershipEvent.RETURNED,
        )

    def record_queue_change(self, group: str, sentence: str, now_ms: int) -> None:
        """Record that the queues of a subscribed topic changed."""
        history = self._history_of(group)
        if history is not None:
            history.record_trigger(sentence, now_ms)

    def lock_acquired(self, group: str, key: QueueKey, owner: str, now_ms: int, *, is_kept: bool) -> None:
        """Record that a free queue was acquired."""
        totals, history = self.totals.for_group(group), self._history_of(group)
        totals.kept += is_kept
        if history is None:
            return
        if is_kept:
            history.mark_changed(now_ms)
            return
        last = history.free_queues.pop(key, None)
        self._remembered_owners -= last is not None
        rebalance = self._ongoing(history, key, None if last is None else last.owner, now_ms)
        move = history.record_acquired(key, owner, last, now_ms)
        if move.before is not None and move.before != move.after:
            totals.moves[move.kind] += 1
            totals.gap_ms.add(move.gap_ms or 0)
            rebalance.moved += 1

    def lock_released(self, group: str, key: QueueKey, owner: str, how: ReleaseReason, at_ms: int) -> None:
        """Record that a queue was released."""
        history = self._history_of(group)
        if history is None:
            return
        if how is ReleaseReason.SUPERSEDED:
            history.mark_changed(at_ms)
            return
        self._ongoing(history, key, owner, at_ms)
        last = history.record_released(key, owner, how, at_ms)
        if self._has_room():
            self._remembered_owners += key not in history.free_queues
            history.free_queues[key] = last

    def _ongoing(
        self, history: GroupRebalanceHistory, key: QueueKey, owner: str | None, now_ms: int
    ) -> OngoingRebalance:
        """Return the rebalance in progress, and remember the owner of a queue before it."""
        found = history.rebalance
        if found is None:
            found = history.rebalance = OngoingRebalance(now_ms)
        found.ended_ms = max(found.ended_ms, now_ms)
        if key not in found.before and self._has_room():
            found.before[key] = owner
            self._remembered_owners += 1
        return found

    def _has_room(self) -> bool:
        return self._remembered_owners < _MAX_REMEMBERED_OWNERS

    def _history_of(self, group: str) -> GroupRebalanceHistory | None:
        found = self._histories.get(group)
        if found is None and len(self._histories) < _MAX_TRACKED_GROUPS:
            found = self._histories[group] = GroupRebalanceHistory(group, self._backlog)
        return found

    def due_histories(self, now_ms: int, *, everything: bool = False) -> Iterator[GroupRebalanceHistory]:
        """Iterate over the histories that are due to be written."""
        return (
            history
            for history in self._histories.values()
            if history.is_due_for_write(now_ms) or (everything and history.has_changes)
        )

    def mark_written(self, history: GroupRebalanceHistory) -> None:
        """Start a history over after its record; it comes last then, so that no group starves."""
        history.reset_after_write()
        if self._histories.pop(history.group, None) is not None:
            self._histories[history.group] = history

    def ongoing_rebalances(self, now_ms: int) -> Iterator[tuple[GroupRebalanceHistory, OngoingRebalance]]:
        """Iterate over the rebalances in progress that are due for a check."""
        for history in self._histories.values():
            if history.rebalance is not None and is_due(history.rebalance.check_ms, QUIET_PERIOD_MS, now_ms):
                yield history, history.rebalance

    def finish_rebalance(self, history: GroupRebalanceHistory, summary: RebalanceEntry | None) -> None:
        """End a rebalance; without a ``summary`` it is unknown whether it was completed."""
        if history.rebalance is not None:
            self._remembered_owners -= len(history.rebalance.before)
            history.rebalance = None
        if summary is not None:
            totals = self.totals.for_group(history.group)
            totals.rebalances += 1
            totals.duration_ms.add(summary.ended_ms - summary.began_ms)

    def forget_old(self, now_ms: int) -> None:
        """Drop old histories now and then."""
        if not is_due(self._sweep_ms, _SWEEP_MS, now_ms):
            return
        self._sweep_ms = now_ms + _SWEEP_MS
        for group, history in list(self._histories.items()):
            old = [key for key, last in history.free_queues.items() if now_ms - last.released_ms > _OWNER_TTL_MS]
            self._remembered_owners -= len(old)
            for key in old:
                del history.free_queues[key]
            if history.is_finished and now_ms - history.changed_ms > _SWEEP_MS:
                del self._histories[group]


_EVENT_TEXTS = {
    MembershipEvent.JOINED: "{member} joined",
    MembershipEvent.RETURNED: "the broker was restarted",
    MembershipEvent.LEAVING: "{member} left",
    MembershipEvent.LEFT: "{member} left",
    MembershipEvent.GONE: "{member} disconnected ({because})",
    MembershipEvent.RESUBSCRIBED: "{member} subscribes to other topics",
}
