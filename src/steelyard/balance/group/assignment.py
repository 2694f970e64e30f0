"""Assignment: from a snapshot of the group to the queues of one member, by a strategy; and what looks wrong in it.

Members that see the same must make plans that fit together. So

- with a foreign member in the group, all share as Java does: each topic by itself, among all listed ids;
- otherwise by the configured strategy. If it needs to know owners and there are too many members to probe, by the Java
  strategy too, chosen from the ids alone, so that all members change together;
- a member that does not answer may hang, be slow or cut off, and no queue can be taken from it. What it last reported
  stays with it, and what others hold stays with them, because the next owner could not be sure of a queue that is given
  up now. Only queues without an owner are assigned, to members that answer;
- where subscriptions are known, a topic is shared among its subscribers only, and no queue stays unread. An owner-aware
  strategy gets all topics at once that have the same subscribers, so these members plan from the same input;
- if a strategy raises, the last plan of its topics stays.

A held queue whose broker is unreachable stays in the plan, because only its holder can give it up.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from steelyard.balance.assignors.strategy import (
    OwnedQueues,
    OwnerAwareStrategy,
    Strategy,
    member_tables_of,
    unmatched_keys,
    uses_owners,
)
from steelyard.balance.group.actions import Action, MemberReport, finding_report
from steelyard.balance.group.claimed_queues import KnownOwners
from steelyard.balance.group.events import OwnershipReported
from steelyard.balance.group.heartbeats import BrokerSessions
from steelyard.balance.group.member_lists import GroupSnapshot
from steelyard.balance.group.options import MemberOptions
from steelyard.balance.group.timers import NEVER_MS
from steelyard.balance.group.topic_routes import SubscribedRoutes
from steelyard.diagnostics import group as rules
from steelyard.diagnostics import thresholds
from steelyard.model import Queue, sort_names, sort_queues
from steelyard.model.finding import Finding


@dataclass(frozen=True, slots=True)
class AssignmentInput:
    """What a plan is made from."""

    members: Sequence[str]
    """In the agreed order, without leaving members."""
    queues: Mapping[str, Sequence[Queue]]
    """By topic, in the agreed order."""
    owners: OwnedQueues | None = None
    """What each member holds, or last reported; None if that cannot be known."""
    topics_by_member: Mapping[str, frozenset[str]] | None = None
    """The subscriptions of each member; None if they are not known of all."""
    has_foreign: bool = False
    unresponsive: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _AssignmentResult:
    """The plan of one member."""

    queues: tuple[Queue, ...]
    strategy_name: str
    skipped: Mapping[str, str]


def choose_strategy(options: MemberOptions, group: AssignmentInput) -> Strategy:
    """Return the strategy that all members use at this moment."""
    if group.has_foreign or (uses_owners(options.strategy) and group.owners is None):
        return options.mixed_group_strategy
    return options.strategy


def plan_member_queues(options: MemberOptions, group: AssignmentInput, previous: Sequence[Queue]) -> _AssignmentResult:
    """Plan the queues of this member; ``previous`` is its last plan, which stays where the strategy fails.

    >>> from steelyard.balance.assignors import Average
    >>> from steelyard.model import Subscription
    >>> options = MemberOptions("billing", "c2@sy1", {"t": Subscription("t")}, strategy=Average())
    >>> queues = {"t": [Queue("t", "broker-a", number) for number in range(4)]}
    >>> outcome = plan_member_queues(options, AssignmentInput(["c1@sy1", "c2@sy1"], queues), previous=())
    >>> print(*outcome.queues, outcome.strategy_name)
    t@broker-a:2 t@broker-a:3 AVG
    """
    strategy = choose_strategy(options, group)
    if group.owners is not None and isinstance(strategy, OwnerAwareStrategy):
        strategy = strategy.with_owners(group.owners)
    if uses_owners(strategy) and not group.has_foreign:
        parts = _topics_by_subscribers(options, group)
    else:
        parts = ((members, [topic]) for members, topics in _topics_by_subscribers(options, group) for topic in topics)
    stays = _fixed_owners(options, group)
    mine: list[Queue] = []
    skipped: dict[str, str] = {}
    for members, topics in parts:
        queues = [queue for topic in topics for queue in group.queues[topic]]
        if stays:
            members = [member for member in members if member not in group.unresponsive]
            mine += [queue for queue in queues if stays.get(queue) == options.id]
            queues = [queue for queue in queues if stays.get(queue) not in group.unresponsive]
        try:
            chosen = _only_offered(queues, strategy(options.group, options.id, queues, members)) if queues else ()
        # A strategy may be the user's own, and fail in any way: then its topics keep their assignment.
        except Exception as error:
            skipped.update(dict.fromkeys(topics, str(error) or repr(error)))
            there = frozenset(queues)
            chosen = [queue for queue in previous if queue in there]
        mine += [queue for queue in chosen if queue not in stays]
    return _AssignmentResult(tuple(sort_queues(mine)), strategy.name, skipped)


def queues_by_owner(owners: Mapping[Queue, str]) -> dict[str, list[Queue]]:
    """Turn the owner of each queue into the queues of each owner.

    >>> queues_by_owner({Queue("t", "a", 0): "c1"})
    {'c1': [Queue(topic='t', broker='a', queue_id=0)]}
    """
    owned: dict[str, list[Queue]] = {}
    for queue, member in owners.items():
        owned.setdefault(member, []).append(queue)
    return owned


def _fixed_owners(options: MemberOptions, group: AssignmentInput) -> Mapping[Queue, str]:
    """Return the owner of each held queue, if all of them have to stay because a member does not answer."""
    if not group.unresponsive or group.owners is None or not uses_owners(options.strategy):
        return {}
    there = frozenset(group.members)
    return {queue: member for member, queues in group.owners.items() if member in there for queue in queues}


def _only_offered(queues: Sequence[Queue], chosen: Sequence[Queue]) -> Sequence[Queue]:
    """Drop queues that were not offered: fixed lists name the queues of every topic."""
    there = frozenset(queues)
    return [queue for queue in dict.fromkeys(chosen) if queue in there]


def _topics_by_subscribers(options: MemberOptions, group: AssignmentInput) -> Iterator[tuple[Sequence[str], list[str]]]:
    """Iterate over the topics, those with the same subscribers together, with the members that share them."""
    names = sort_names(group.queues)
    if group.topics_by_member is None or group.has_foreign:
        if names:
            yield group.members, names
        return
    together: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        together.setdefault(_subscribers(options, group.members, group.topics_by_member, name), []).append(name)
    yield from together.items()


def _subscribers(
    options: MemberOptions, members: Sequence[str], topics: Mapping[str, frozenset[str]], name: str
) -> tuple[str, ...]:
    if name == options.retry_topic:
        return tuple(members)
    # Our own subscription is certain, whatever a broker lists.
    return tuple(member for member in members if member == options.id or name in topics.get(member, ()))


HeldQueues: TypeAlias = Callable[[], Collection[Queue]]
"""What the member holds at this moment."""


class GroupMonitor:
    """Finds what looks wrong in the group of one member after each rebalance, and reports it once while it lasts.

    A Steelyard broker knows all subscriptions and reports where queues stay unread, so a member adds only that a topic
    is not shared by all. On Apache brokers members compare the subscriptions that they report when they are probed. A
    member knows only its own plan, so an idle member reports itself.
    """

    def __init__(self, options: MemberOptions) -> None:
        self._options = options
        self._active = rules.ActiveFindings()
        self._unowned_since_ms: dict[Queue, int] = {}
        self._tables = member_tables_of(options.strategy, options.mixed_group_strategy)
        self._unmatched_since_ms: dict[tuple[str, str], int] = {}
        """Settings and their entries that match no member, and since when."""
        self._filters: dict[str, Mapping[str, str]] = {}

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
            found += rules.unequal_subscriptions(group, snapshot.topics_by_member, by_subscribers=True)
        found += rules.unequal_strategies(group, snapshot.strategies_by_member)
        found += self._idle_member(snapshot, plan, readable)
        found += self._long_unmatched(snapshot.members, now_ms)
        if owned is not None:
            found += rules.unowned_queues(group, self._long_unowned(readable, owned, now_ms), ())
        return [finding_report(finding) for finding in self._active.update(found)]

    def _unequal_subscriptions(self, snapshot: GroupSnapshot) -> list[Finding]:
        """Compare our subscriptions with those that members reported."""
        self._filters = {member: each for member, each in self._filters.items() if member in snapshot.listed_ids}
        filters = {member: self._filters[member] for member in snapshot.members if member in self._filters}
        filters[self._options.id] = {topic: wanted.expression for topic, wanted in self._options.subscriptions.items()}
        group = self._options.group
        return rules.unequal_subscriptions(group, filters) + rules.unequal_filters(group, filters)

    def _idle_member(self, snapshot: GroupSnapshot, plan: Iterable[Queue], readable: frozenset[Queue]) -> list[Finding]:
        """Find out whether there is no queue for us; the retry topic does not count."""
        retries = self._options.retry_topic
        if any(queue.topic != retries for queue in plan):
            return []
        queues = sum(queue.topic != retries for queue in readable)
        if not 0 < queues < len(snapshot.members):
            return []
        return [
            rules.idle_members_finding(
                self._options.group, self._options.id, members=len(snapshot.members), queues=queues
            )
        ]

    def _long_unmatched(self, members: Iterable[str], now_ms: int) -> list[Finding]:
        """Find entries of settings that have matched no member for long."""
        now = [(table.setting, key) for table in self._tables for key in unmatched_keys(table.keys, members)]
        self._unmatched_since_ms = {each: self._unmatched_since_ms.get(each, now_ms) for each in now}
        until_ms = now_ms - thresholds.UNMATCHED_MS
        long = [each for each, since_ms in self._unmatched_since_ms.items() if since_ms <= until_ms]
        return [
            finding
            for table in self._tables
            for finding in rules.unmatched_entries(
                self._options.group, table.setting, [key for setting, key in long if setting == table.setting]
            )
        ]

    def _long_unowned(self, readable: frozenset[Queue], owned: OwnedQueues, now_ms: int) -> list[Queue]:
        """Return the queues that have been unowned for long."""
        unowned = sort_queues(readable.difference(chain.from_iterable(owned.values())))
        self._unowned_since_ms = {queue: self._unowned_since_ms.get(queue, now_ms) for queue in unowned}
        until_ms = now_ms - thresholds.UNOWNED_MS
        return [queue for queue, since_ms in self._unowned_since_ms.items() if since_ms <= until_ms]


class GroupAssignment:
    """The current plan of one member."""

    def __init__(self, options: MemberOptions, sessions: BrokerSessions, routes: SubscribedRoutes) -> None:
        self.held_queues: HeldQueues = tuple
        self.plan: tuple[Queue, ...] | None = None
        """The queues of this member, in order; None before the first plan."""
        self.members: tuple[str, ...] = ()
        """The members that it was made for, in order."""
        self.strategy_name = options.strategy.name
        self.changed_ms = 0
        """When the plan, its members or its routes last changed."""
        self.expires_ms = NEVER_MS
        """When it has to be made again, though nothing else changed."""
        self.owned_by_member: OwnedQueues | None = None
        """What each member had when the plan was made; None: not known."""
        self._options = options
        self._sessions = sessions
        self._routes = routes
        self.monitor = GroupMonitor(options)

    def assign(
        self, snapshot: GroupSnapshot, owners: KnownOwners, warnings: Iterable[str], now_ms: int
    ) -> list[Action]:
        """Make a new plan from a snapshot of the group and its owners; report what changed or looks wrong."""
        owned = owners.owned_by_member
        queues = self._routes.queues_by_topic()
        group = AssignmentInput(
            snapshot.members, queues, owned, snapshot.topics_by_member, snapshot.has_foreign, owners.unresponsive
        )
        self.owned_by_member = owned
        outcome = plan_member_queues(self._options, group, self.plan or ())
        if snapshot.members != self.members:
            self.members = snapshot.members
            self.changed_ms = now_ms
        self._replace_plan(outcome.queues, now_ms)
        failures = (
            f"strategy {outcome.strategy_name} failed for {topic}, whose assignment stays as it is: {why}"
            for topic, why in outcome.skipped.items()
        )
        reports = self._report_strategy_change(outcome.strategy_name, snapshot)
        unresponsive = rules.unresponsive_members(self._options.group, owners.repeatedly_unresponsive)
        reported = [*warnings, *map(str, unresponsive), *failures]
        return reports + self.monitor.check(
            snapshot, outcome.queues, self._routes.readable_queues, owned, reported, now_ms
        )

    def assign_all(self, now_ms: int) -> None:
        """Assign every queue, as a broadcasting member does."""
        self.members = (self._options.id,)
        self._replace_plan(tuple(sort_queues(self._routes.readable_queues)), now_ms)

    def _replace_plan(self, queues: tuple[Queue, ...], now_ms: int) -> None:
        unreachable = self._unreachable_held_queues(now_ms)
        if unreachable:
            queues = tuple(sort_queues({*queues, *unreachable}))
        if queues != self.plan:
            self.plan = queues
            self.changed_ms = now_ms

    def _unreachable_held_queues(self, now_ms: int) -> list[Queue]:
        """Return the held queues whose broker is unreachable and in no route, for a while."""
        self.expires_ms = NEVER_MS
        unreachable = []
        for queue in self.held_queues():
            gone_ms = self._routes.removed_ms(queue)
            if gone_ms is None or self._sessions.is_connected(queue.broker):
                continue
            lost_ms = gone_ms + self._options.times.broker_gone_ms
            if now_ms < lost_ms:
                unreachable.append(queue)
                self.expires_ms = min(self.expires_ms, lost_ms)
        return unreachable

    def _report_strategy_change(self, name: str, snapshot: GroupSnapshot) -> list[Action]:
        if name == self.strategy_name:
            return []
        before, self.strategy_name = self.strategy_name, name
        wanted = self._options.strategy.name
        if name == wanted:
            kind, why = "restored", "all members run Steelyard, and are few enough to be probed"
        elif snapshot.has_foreign:
            kind, why = "degraded", "some members run another client, and all need one strategy"
        else:
            kind, why = "degraded", f"{wanted} needs the owners, and there are too many members to probe"
        return [MemberReport(kind, f"group {self._options.group} uses strategy {name} now, not {before}: {why}")]
