"""Monitors of one member: what looks wrong in its group after each rebalance, and which of its own queues stall.

A finding is reported once while it lasts. Brokers report findings too, and see more than a member does: a Steelyard
broker knows all subscriptions and reports where queues stay unread, so a member adds only that a topic is not shared by
all. On Apache brokers members compare the subscriptions that they report when they are probed. A member knows only its
own plan, so an idle member reports itself. An unowned queue is reported only after a handover had its time, and a
setting that matches no member after that member had time to start.
"""

from collections.abc import Iterable, Mapping
from itertools import chain

from steelyard.balance.assignors.strategy import OwnedQueues, member_tables_of, unmatched_keys
from steelyard.balance.group.actions import Action, MemberReport
from steelyard.balance.group.context import MemberContext
from steelyard.balance.group.diagnostics import (
    ActiveFindings,
    ProgressSample,
    idle_members_finding,
    stalled_queues,
    unequal_filters,
    unequal_strategies,
    unequal_subscriptions,
    unmatched_entries,
    unowned_queues,
)
from steelyard.balance.group.events import OwnershipReported
from steelyard.balance.group.member_lists import GroupSnapshot
from steelyard.balance.group.options import MemberOptions
from steelyard.balance.group.queue_states import QueueState
from steelyard.model import Queue, sort_queues
from steelyard.model.finding import Finding

__all__ = ["GroupMonitor", "StallMonitor"]

_UNOWNED_AFTER_MS = 60_000
"""How long a queue may be unowned before that is reported: twice a drain."""
_UNMATCHED_AFTER_MS = 60_000
"""How long a setting may match no member before that is reported: a restarted member is back by then."""
_STALLED_AFTER_MS = 60_000
_STALL_CHECK_INTERVAL_MS = 15_000


class GroupMonitor:
    """Watches the group of one member."""

    def __init__(self, options: MemberOptions) -> None:
        self._options = options
        self._active = ActiveFindings()
        self._unowned_since_ms: dict[Queue, int] = {}
        """Queues without an owner, and since when."""
        self._tables = member_tables_of(options.strategy, options.mixed_group_strategy)
        self._unmatched_since_ms: dict[tuple[str, str], int] = {}
        """Settings and their entries that match no member, and since when."""
        self._filters: dict[str, Mapping[str, str]] = {}
        """The subscriptions that members reported."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found wrong at the end of the last rebalance."""
        return self._active.active

    def record_filters(self, report: OwnershipReported) -> None:
        """Record the subscriptions that a peer reported."""
        if report.filters:
            self._filters[report.member] = report.filters

    def check(
        self,
        snapshot: GroupSnapshot,
        plan: Iterable[Queue],
        readable: frozenset[Queue],
        owned: OwnedQueues | None,
        reported: Iterable[str],
        now_ms: int,
    ) -> list[Action]:
        """Return reports of what is newly wrong; ``owned`` is None if owners cannot be known."""
        group = self._options.group
        found = [Finding(sentence, sentence) for sentence in reported]
        if snapshot.topics_by_member is None:
            found += self._unequal_subscriptions(snapshot)
        elif not snapshot.has_foreign:
            found += unequal_subscriptions(group, snapshot.topics_by_member, by_subscribers=True)
        found += unequal_strategies(group, snapshot.strategies_by_member)
        found += self._idle_member(snapshot, plan, readable)
        found += self._long_unmatched(snapshot.members, now_ms)
        if owned is not None:
            found += unowned_queues(group, self._long_unowned(readable, owned, now_ms), ())
        return [MemberReport("hazard", finding.message) for finding in self._active.update(found)]

    def _unequal_subscriptions(self, snapshot: GroupSnapshot) -> list[Finding]:
        """Compare our subscriptions with those that members reported."""
        self._filters = {member: each for member, each in self._filters.items() if member in snapshot.listed_ids}
        filters = {member: self._filters[member] for member in snapshot.members if member in self._filters}
        filters[self._options.id] = {topic: wanted.expression for topic, wanted in self._options.subscriptions.items()}
        group = self._options.group
        return unequal_subscriptions(group, filters) + unequal_filters(group, filters)

    def _idle_member(self, snapshot: GroupSnapshot, plan: Iterable[Queue], readable: frozenset[Queue]) -> list[Finding]:
        """Find out whether there is no queue for us; the retry topic does not count."""
        retries = self._options.retry_topic
        if any(queue.topic != retries for queue in plan):
            return []
        queues = sum(queue.topic != retries for queue in readable)
        if not 0 < queues < len(snapshot.members):
            return []
        return [
            idle_members_finding(self._options.group, self._options.id, members=len(snapshot.members), queues=queues)
        ]

    def _long_unmatched(self, members: Iterable[str], now_ms: int) -> list[Finding]:
        """Find entries of settings that have matched no member for long."""
        now = [(table.setting, key) for table in self._tables for key in unmatched_keys(table.keys, members)]
        self._unmatched_since_ms = {each: self._unmatched_since_ms.get(each, now_ms) for each in now}
        long = [each for each, since_ms in self._unmatched_since_ms.items() if now_ms - since_ms >= _UNMATCHED_AFTER_MS]
        return [
            finding
            for table in self._tables
            for finding in unmatched_entries(
                self._options.group, table.setting, [key for setting, key in long if setting == table.setting]
            )
        ]

    def _long_unowned(self, readable: frozenset[Queue], owned: OwnedQueues, now_ms: int) -> list[Queue]:
        """Return the queues that have been unowned for long."""
        unowned = sort_queues(readable.difference(chain.from_iterable(owned.values())))
        self._unowned_since_ms = {queue: self._unowned_since_ms.get(queue, now_ms) for queue in unowned}
        return [queue for queue, since_ms in self._unowned_since_ms.items() if now_ms - since_ms >= _UNOWNED_AFTER_MS]


class StallMonitor:
    """Watches the queues of one member.

    Only owned queues with messages count; one that was unsure counts from when it is owned again.
    """

    def __init__(self, context: MemberContext) -> None:
        self._context = context
        self._active = ActiveFindings()
        self._since: dict[Queue, ProgressSample] = {}
        """Queues with unfinished messages, and when each was first seen at its present offset."""
        self._is_scheduled = False

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The queues that stalled at the last check."""
        return self._active.active

    def schedule(self) -> None:
        """Check from now on, as long as there are queues."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._context.timers.call_at(self._context.now_ms + _STALL_CHECK_INTERVAL_MS, self._check)

    def _check(self) -> None:
        self._is_scheduled = False
        before, self._since = self._since, {}
        if not self._context.process_queues:
            return
        self.schedule()
        still: dict[Queue, tuple[ProgressSample, ProgressSample]] = {}
        for queue, process_queue in self._context.process_queues.items():
            window = process_queue.window
            if process_queue.state is not QueueState.OWNED or window.low >= window.next_offset:
                continue
            now = ProgressSample(self._context.now_ms, window.low, window.next_offset)
            first = before.get(queue, now)
            self._since[queue] = first if first.committed == now.committed else now
            still[queue] = self._since[queue], now
        options = self._context.options
        found = stalled_queues(options.group, still, dict.fromkeys(still, options.id), after_ms=_STALLED_AFTER_MS)
        for finding in self._active.update(found):
            self._context.emit(MemberReport("hazard", finding.message))
