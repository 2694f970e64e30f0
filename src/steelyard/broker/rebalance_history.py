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
from dataclasses import dataclass, field
from enum import Enum

from steelyard.broker.queue_locks import QueueKey, ReleaseReason
from steelyard.broker.timing import is_due
from steelyard.metrics.families import Histogram
from steelyard.wire.rebalance_history import MemberChangeEntry, QueueMoveEntry, RebalanceEntry

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

_MAX_TRACKED_GROUPS = 10_000
_MAX_REMEMBERED_OWNERS = 200_000
"""Queues whose last owner is remembered."""
_OWNER_TTL_MS = 600_000
"""How long the last owner of a free queue is remembered."""
_SWEEP_MS = 10_000

OTHER_GROUPS = "(others)"
"""Groups beyond the limit are counted under this name, which no group can have."""
_MAX_COUNTED_GROUPS = 2_000
_GAP_BOUNDS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_DURATION_BOUNDS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


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


_EVENT_TEXTS = {
    MembershipEvent.JOINED: "{member} joined",
    MembershipEvent.RETURNED: "the broker was restarted",
    MembershipEvent.LEAVING: "{member} left",
    MembershipEvent.LEFT: "{member} left",
    MembershipEvent.GONE: "{member} disconnected ({because})",
    MembershipEvent.RESUBSCRIBED: "{member} subscribes to other topics",
}


@dataclass(slots=True)
class OngoingRebalance:
    """A rebalance in progress: since when, how many queues moved, and the previous owners of those."""

    began_ms: int
    ended_ms: int
    moved: int = 0
    before: dict[QueueKey, str | None] = field(default_factory=dict)
    check_ms: int = 0
    """When to check again whether it is over."""


@dataclass(slots=True)
class GroupRebalanceHistory:
    """What happened in one group since the last record, and its rebalance in progress."""

    group: str
    moves: list[QueueMoveEntry] = field(default_factory=list)
    member_changes: list[MemberChangeEntry] = field(default_factory=list)
    omitted: int = 0
    released: dict[QueueKey, int] = field(default_factory=dict)
    """Queues that were released since the last record: the indexes of their moves."""
    unwritten_ms: int | None = None
    """The time of the first change since the last record."""
    changed_ms: int = 0
    """The time of the last change."""
    free_queues: dict[QueueKey, QueueMoveEntry] = field(default_factory=dict)
    """How each free queue was released."""
    rebalance: OngoingRebalance | None = None
    departures: dict[str, str] = field(default_factory=dict)
    """Why members left, for the queues that they release."""
    _reasons: list[str] = field(default_factory=list)
    _reasoned_ms: int = 0

    def is_due_for_write(self, now_ms: int) -> bool:
        """Return whether to write a record now; at once if the clock was set back."""
        began_ms = self.unwritten_ms
        if began_ms is None:
            return False
        return not (began_ms <= now_ms < began_ms + _WRITE_MAX_MS and now_ms < self.changed_ms + _WRITE_QUIET_MS)

    def mark_changed(self, now_ms: int) -> None:
        """Record that there is something to write."""
        self.changed_ms = now_ms
        if self.unwritten_ms is None:
            self.unwritten_ms = now_ms

    def record_trigger(self, sentence: str, now_ms: int) -> None:
        """Record a change that may move queues; it begins a rebalance if none is in progress."""
        if self.rebalance is None or (not self.rebalance.before and now_ms - self.changed_ms >= QUIET_PERIOD_MS):
            # The previous change moved no queue here, and is no part of this.
            self.rebalance = OngoingRebalance(now_ms, now_ms)
        self.add_reason(sentence, now_ms)

    def add_reason(self, sentence: str, now_ms: int) -> None:
        """Add a reason for moves: those that come together are reported together, else the last one counts."""
        self.mark_changed(now_ms)
        if not self._reasoned_ms <= now_ms < self._reasoned_ms + _WRITE_QUIET_MS:
            self._reasons.clear()
        self._reasoned_ms = now_ms
        if sentence not in self._reasons and len(self._reasons) < _MAX_REASONS:
            self._reasons.append(sentence)

    @property
    def reason(self) -> str:
        """What changed in the group; empty if nothing did."""
        more = len(self._reasons) - _SHOWN_REASONS
        shown = ", ".join(self._reasons[:_SHOWN_REASONS])
        return f"{shown} and {more} more changed" if more > 0 else shown

    def explain_release(self, topic: str, owner: str, how: ReleaseReason) -> tuple[ReleaseReason, str]:
        """Return how a queue was released in the end, and why."""
        departure = self.departures.get(owner)
        match how:
            case ReleaseReason.TOPIC_GONE:
                return how, f"topic {topic} is gone"
            case ReleaseReason.EXPIRED:
                return how, f"{owner} did not renew its lock"
            case ReleaseReason.GIVEN_UP if departure is not None:
                return ReleaseReason.LEFT, departure  # a leaving member hands over its queues before it unregisters
            case ReleaseReason.GIVEN_UP:
                return how, self.reason or f"{owner} gave it up"
        return how, departure or f"{owner} {'left' if how is ReleaseReason.LEFT else 'disconnected'}"


@dataclass(slots=True)
class GroupRebalanceTotals:
    """The totals of one group."""

    rebalances: int = 0
    """Finished rebalances."""
    moves: Counter[str] = field(default_factory=Counter)
    """Queues that moved between members, by why they were released: ``given up``, ``left``, ``lost``, …"""
    kept: int = 0
    """Queues that their holders kept over a restart of the broker."""
    gap_s: Histogram = field(default_factory=lambda: Histogram(_GAP_BOUNDS_S))
    """How long moved queues had no owner."""
    duration_s: Histogram = field(default_factory=lambda: Histogram(_DURATION_BOUNDS_S))
    """Time from the first change until the last queue had its owner."""


class RebalanceRecorder:
    """Histories and totals of all groups. Fed by `QueueLockTable` (as its `LockObserver`) and client_expiry.py."""

    def __init__(self, now_ms: int) -> None:
        self.totals: dict[str, GroupRebalanceTotals] = {}
        """Totals since the start, by group."""
        self.unwritten_records = 0
        """Records that could not be stored."""
        self.is_failure_reported = False
        """Whether that was reported."""
        self._histories: dict[str, GroupRebalanceHistory] = {}
        self._backlog = 0
        """The number of unwritten moves and member changes of all groups."""
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
            while len(history.departures) >= _MAX_DEPARTURES:
                del history.departures[next(iter(history.departures))]
            history.departures[member] = sentence
        else:
            history.departures.pop(member, None)
        if len(history.member_changes) < _MAX_MEMBER_CHANGES and self._backlog < _MAX_BACKLOG:
            self._backlog += 1
            history.member_changes.append(MemberChangeEntry(member, event.value, now_ms))
        if event is MembershipEvent.RETURNED:  # it keeps its queues
            history.add_reason(sentence, now_ms)
        else:
            history.record_trigger(sentence, now_ms)

    def record_queue_change(self, group: str, sentence: str, now_ms: int) -> None:
        """Record that the queues of a subscribed topic changed."""
        history = self._history_of(group)
        if history is not None:
            history.record_trigger(sentence, now_ms)

    def lock_acquired(self, group: str, key: QueueKey, owner: str, now_ms: int, *, is_kept: bool) -> None:
        """Record that a free queue was acquired; if it was released since the last record, both are one entry."""
        totals, history = self._totals_of(group), self._history_of(group)
        totals.kept += is_kept
        if history is None:
            return
        history.mark_changed(now_ms)
        if is_kept:
            return
        released = history.free_queues.pop(key, None)
        self._remembered_owners -= released is not None
        before, gap_ms, kind, why = None, None, "first", history.reason or "it had no owner"
        if released is not None:
            before, gap_ms, kind, why = released.before, max(0, now_ms - released.at_ms), released.kind, released.why
        rebalance = self._ongoing(history, key, before, now_ms)
        move = QueueMoveEntry(
            topic=key[0], queue=key[1], before=before, after=owner, gap_ms=gap_ms, kind=kind, why=why, at_ms=now_ms
        )
        index = history.released.pop(key, None)
        if index is None:
            self._add_move(history, move)
        else:
            history.moves[index] = move
        if before is not None and before != owner:
            totals.moves[kind] += 1
            totals.gap_s.add((gap_ms or 0) / 1_000)
            rebalance.moved += 1

    def lock_released(self, group: str, key: QueueKey, owner: str, how: ReleaseReason, at_ms: int) -> None:
        """Record that a queue was released."""
        history = self._history_of(group)
        if history is None:
            return
        history.mark_changed(at_ms)
        if how is ReleaseReason.SUPERSEDED:
            return
        self._ongoing(history, key, owner, at_ms)
        kind, why = history.explain_release(key[0], owner, how)
        move = QueueMoveEntry(
            topic=key[0], queue=key[1], before=owner, after=None, gap_ms=None, kind=kind.value, why=why, at_ms=at_ms
        )
        if self._add_move(history, move):
            history.released[key] = len(history.moves) - 1
        if self._remembered_owners < _MAX_REMEMBERED_OWNERS:
            self._remembered_owners += key not in history.free_queues
            history.free_queues[key] = move

    def _add_move(self, history: GroupRebalanceHistory, move: QueueMoveEntry) -> bool:
        if len(history.moves) >= _MAX_MOVES or self._backlog >= _MAX_BACKLOG:
            history.omitted += 1
            return False
        self._backlog += 1
        history.moves.append(move)
        return True

    def _ongoing(
        self, history: GroupRebalanceHistory, key: QueueKey, owner: str | None, now_ms: int
    ) -> OngoingRebalance:
        """Return the rebalance in progress, and remember the owner of a queue before it."""
        found = history.rebalance
        if found is None:
            found = history.rebalance = OngoingRebalance(now_ms, now_ms)
        found.ended_ms = max(found.ended_ms, now_ms)
        if key not in found.before and self._remembered_owners < _MAX_REMEMBERED_OWNERS:
            found.before[key] = owner
            self._remembered_owners += 1
        return found

    def _history_of(self, group: str) -> GroupRebalanceHistory | None:
        found = self._histories.get(group)
        if found is None and len(self._histories) < _MAX_TRACKED_GROUPS:
            found = self._histories[group] = GroupRebalanceHistory(group)
        return found

    def _totals_of(self, group: str) -> GroupRebalanceTotals:
        found = self.totals.get(group)
        if found is None:
            name = group if len(self.totals) < _MAX_COUNTED_GROUPS else OTHER_GROUPS
            found = self.totals.setdefault(name, GroupRebalanceTotals())
        return found

    def due_histories(self, now_ms: int, *, everything: bool = False) -> Iterator[GroupRebalanceHistory]:
        """Iterate over the histories that are due to be written."""
        return (
            history
            for history in self._histories.values()
            if history.is_due_for_write(now_ms) or (everything and history.unwritten_ms is not None)
        )

    def mark_written(self, history: GroupRebalanceHistory) -> None:
        """Start a history over after its record; it comes last then, so that no group starves."""
        self._backlog -= len(history.moves) + len(history.member_changes)
        history.moves, history.member_changes, history.omitted, history.unwritten_ms = [], [], 0, None
        history.released.clear()
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
            totals = self._totals_of(history.group)
            totals.rebalances += 1
            totals.duration_s.add((summary.ended_ms - summary.began_ms) / 1_000)

    def forget_old(self, now_ms: int) -> None:
        """Drop old histories now and then."""
        if not is_due(self._sweep_ms, _SWEEP_MS, now_ms):
            return
        self._sweep_ms = now_ms + _SWEEP_MS
        for group, history in list(self._histories.items()):
            old = [key for key, released in history.free_queues.items() if now_ms - released.at_ms > _OWNER_TTL_MS]
            self._remembered_owners -= len(old)
            for key in old:
                del history.free_queues[key]
            is_finished = history.unwritten_ms is None and history.rebalance is None and not history.free_queues
            if is_finished and now_ms - history.changed_ms > _SWEEP_MS:
                del self._histories[group]
