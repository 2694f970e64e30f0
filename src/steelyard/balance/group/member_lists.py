"""Member lists: what each broker last said of the group, and the snapshot of it that follows.

- A member is in the group if any broker lists it: joins count at once.
- A member that is missing from a list still counts there for a moment, where the broker itself does not wait: its
  connection may be back soon. Not with a foreign member in the group: foreign members share its queues at once, and we
  would read what they read. It counts longer if we have just reconnected, since a restarted broker knows no members.
  A Steelyard broker waits by itself, and reports that its list is not settled.
- The last list of a broker that does not answer counts for half a minute. Its owners count until it reports others:
  they are a hint to keep queues where they are, and no reason to do anything.
- A stale member is listed and not in the group.

Left out: when to query (rebalance.py), and what to do with the answer (assignment.py).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from steelyard.balance.group.events import MemberFacts, MemberListReceived
from steelyard.balance.group.heartbeats import BrokerSessions
from steelyard.balance.group.options import MemberOptions, is_steelyard_id
from steelyard.balance.group.timers import NEVER_MS
from steelyard.diagnostics.group import duplicate_ids
from steelyard.model import Queue, sort_names


class StaleMembers:
    """Members that a broker lists although their connection is closed.

    An Apache broker keeps members by connection, executes a heartbeat whenever a thread gets to it, and removes a
    closed connection once. So a member that dies right after a heartbeat may be listed for two more minutes, and a
    probe of it fails because its connection is closed. That alone proves nothing: the member may be there on another
    connection, and the dead one was found first. What proves it is this order: a list shows the id once; a probe finds
    the connection closed; a later list, after a grace period, still shows the id once. Were the member alive on another
    connection, one of the lists would show two, since the dead one is listed for two minutes.

    >>> stale = StaleMembers()
    >>> stale.suspect("c1", ["c1", "c2"], now_ms=0), stale.suspect("c2", ["c2", "c2"], now_ms=0)
    (True, False)
    >>> [sorted(stale.confirm(ids, now_ms, grace_ms=300)) for ids, now_ms in ((["c1"], 100), (["c1"], 300), ([], 400))]
    [[], ['c1'], []]
    """

    def __init__(self) -> None:
        self._suspected_ms: dict[str, int] = {}

    def suspect(self, member: str, listed: Sequence[str], now_ms: int) -> bool:
        """Record that a member's connection is closed, if the last list shows it once; say whether that is new."""
        if member in self._suspected_ms or listed.count(member) != 1:
            return False
        self._suspected_ms[member] = now_ms
        return True

    def clear(self, member: str) -> bool:
        """Record that a member answered, or may be slow to; say whether it was suspected."""
        return self._suspected_ms.pop(member, None) is not None

    def confirm(self, listed: Sequence[str], now_ms: int, grace_ms: int) -> frozenset[str]:
        """Compare with the next list; return the members that are stale by it."""
        self._suspected_ms = {each: at_ms for each, at_ms in self._suspected_ms.items() if listed.count(each) == 1}
        return frozenset(member for member, at_ms in self._suspected_ms.items() if now_ms - at_ms >= grace_ms)


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """The group as all lists together show it."""

    listed_ids: frozenset[str]
    """Every id that is on a list now, without members that only still count."""
    members: tuple[str, ...]
    """The members to share queues with, in order: this one, and all that count and are not leaving."""
    has_foreign: bool
    topics_by_member: Mapping[str, frozenset[str]] | None
    """The subscriptions of each member; None if they are not known of all."""
    owners: Mapping[Queue, str]
    """The owners of queues, at brokers that know them."""
    unlisted_at: tuple[str, ...]
    """The brokers that answered and did not list us."""
    is_consistent: bool
    """Whether all lists are equal and settled."""
    expires_ms: int
    """When it has to be taken again, though no list changed."""
    strategies_by_member: Mapping[str, str] = field(default_factory=dict)
    """The strategies of members, where a broker knows them."""


@dataclass(slots=True)
class _MemberList:
    """The list of one broker."""

    raw_ids: Sequence[str]
    """As the broker sent it: a member with two connections is in it twice."""
    ids: frozenset[str]
    """Without stale members."""
    missing_since_ms: dict[str, int]
    """Ids that were listed, and since when they are not."""
    stale: frozenset[str] = frozenset()
    is_settled: bool = True
    facts: Mapping[str, MemberFacts] = field(default_factory=dict)
    owners: Mapping[Queue, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    silent_since_ms: int | None = None
    """Since when the broker does not answer."""


class MemberLists:
    """The lists of all brokers that were queried."""

    def __init__(self, options: MemberOptions, sessions: BrokerSessions) -> None:
        self.has_foreign = False
        """Whether a foreign member was in the last snapshot."""
        self._group = options.group
        self._id = options.id
        self._times = options.times
        self._sessions = sessions
        self._lists: dict[str, _MemberList] = {}
        self._stale_members: dict[str, StaleMembers] = {}
        """By broker, where a member was ever suspected."""

    def update(self, received: MemberListReceived, now_ms: int) -> bool:
        """Store a broker's list; say whether its members, or those that leave, changed."""
        before = self._lists.get(received.broker)
        member_list = self._make_list(received, now_ms)
        if received.members is not None:
            member_list.is_settled = received.is_settled is not False
            member_list.facts = {facts.id: facts for facts in received.members}
            member_list.owners = received.owners or {}
            if before is not None and not member_list.is_settled:
                # A restarted broker learns only by and by who owns what: until then its earlier owners count.
                member_list.owners = {**before.owners, **member_list.owners}
        duplicates = duplicate_ids(self._group, received.ids)
        member_list.warnings = (*received.warnings, *map(str, duplicates))
        self._lists[received.broker] = member_list
        if before is None:
            return True
        if received.members is None or not member_list.is_settled:
            # Sorted, so that every run keeps them in the same order.
            for member in sorted((before.ids | before.missing_since_ms.keys()) - member_list.ids - member_list.stale):
                since_ms = before.missing_since_ms.get(member, now_ms)
                if now_ms < max(self._departs_ms(received.broker, since_ms), since_ms + self._times.departed_ms):
                    member_list.missing_since_ms[member] = since_ms
        changed = before.ids != member_list.ids or before.is_settled != member_list.is_settled
        return changed or _leaving_members(before) != _leaving_members(member_list)

    def _make_list(self, received: MemberListReceived, now_ms: int) -> _MemberList:
        suspects, ids = self._stale_members.get(received.broker), frozenset(received.ids)
        if suspects is None:
            return _MemberList(received.ids, ids, {})
        phantoms = suspects.confirm(received.ids, now_ms, self._times.departed_ms)
        return _MemberList(received.ids, ids - phantoms, {}, phantoms)

    def suspect_stale(self, broker: str, member: str, now_ms: int) -> bool:
        """Record that a member's connection is closed at a broker; say whether that is new."""
        member_list = self._lists.get(broker)
        if member_list is None:
            return False
        return self._stale_members.setdefault(broker, StaleMembers()).suspect(member, member_list.raw_ids, now_ms)

    def clear_suspicion(self, broker: str, member: str) -> bool:
        """Record that a member is or may be alive; say whether it was suspected."""
        suspects = self._stale_members.get(broker)
        return suspects is not None and suspects.clear(member)

    def mark_silent(self, broker: str, now_ms: int) -> None:
        """Record that a broker does not answer."""
        member_list = self._lists.get(broker)
        if member_list is not None and member_list.silent_since_ms is None:
            member_list.silent_since_ms = now_ms

    def retain(self, brokers: Collection[str]) -> None:
        """Forget brokers that have no queues of the group any more and no connection."""
        self._lists = {
            broker: member_list
            for broker, member_list in self._lists.items()
            if broker in brokers or self._sessions.is_connected(broker)
        }

    def has_list(self, broker: str) -> bool:
        """Say whether a broker ever sent its list."""
        return broker in self._lists

    def listed_members(self, broker: str, now_ms: int) -> tuple[str, ...]:
        """Return the members to probe: those on a broker's last list, and ours that left it a moment ago."""
        member_list = self._lists.get(broker)
        if member_list is None:
            return ()
        missing, since_ms = member_list.missing_since_ms, now_ms - self._times.departed_ms
        lately = (each for each, at_ms in missing.items() if at_ms > since_ms and is_steelyard_id(each))
        # Stale members too: who acquires a queue must be sure.
        return tuple(sorted([*member_list.ids, *member_list.stale, *lately]))

    def stale_members(self, broker: str) -> list[str]:
        """Return the stale members on a broker's last list, in order."""
        member_list = self._lists.get(broker)
        return [] if member_list is None else sorted(member_list.stale)

    def is_answering(self, broker: str) -> bool:
        """Say whether a broker answered the last query."""
        member_list = self._lists.get(broker)
        return member_list is not None and member_list.silent_since_ms is None

    def lists_member(self, broker: str, member: str) -> bool:
        """Say whether a member is on the last list of a broker that answers."""
        return self.is_answering(broker) and member in self._lists[broker].ids

    def lists_member_twice(self, broker: str, member: str) -> bool:
        """Say whether a broker lists a member with more than one connection: one of them may be dead."""
        member_list = self._lists.get(broker)
        # Most lists show no member twice, which is quick to see.
        return (
            member_list is not None
            and len(member_list.raw_ids) > len(member_list.ids)
            and member_list.raw_ids.count(member) > 1
        )

    def has_departed(self, member: str, brokers: Iterable[str], now_ms: int) -> bool:
        """Say whether a member is certainly gone: on no valid list of these brokers, and for longer than a moment."""
        counting = [broker for broker in brokers if self._is_valid(broker, now_ms)]
        return bool(counting) and not any(
            member in self._present_members(broker, now_ms) or member in self.listed_members(broker, now_ms)
            for broker in counting
        )

    def warnings(self, brokers: Iterable[str]) -> set[str]:
        """Return the warnings of these brokers about the group."""
        answering = (self._lists[broker] for broker in brokers if self.is_answering(broker))
        return {warning for member_list in answering for warning in member_list.warnings}

    def snapshot(self, brokers: Sequence[str], now_ms: int) -> GroupSnapshot:
        """Combine the lists of these brokers."""
        counting = [self._lists[broker] for broker in brokers if self._is_valid(broker, now_ms)]
        present = {self._id}.union(*(self._present_members(broker, now_ms) for broker in brokers))
        answering = [member_list for member_list in counting if member_list.silent_since_ms is None]
        leaving = frozenset().union(*map(_leaving_members, counting)) - {self._id}
        members = tuple(sort_names(present - leaving))
        self.has_foreign = not all(map(is_steelyard_id, members))
        owners: dict[Queue, str] = {}
        for broker in brokers:
            if (member_list := self._lists.get(broker)) is not None:
                owners.update(member_list.owners)
        return GroupSnapshot(
            listed_ids=frozenset().union(*(member_list.ids for member_list in counting)),
            members=members,
            has_foreign=self.has_foreign,
            topics_by_member=_topics_by_member(members, counting),
            owners=owners,
            unlisted_at=tuple(
                each for each in brokers if self.is_answering(each) and not self.lists_member(each, self._id)
            ),
            is_consistent=all(each.is_settled and each.ids == answering[0].ids for each in answering),
            expires_ms=min(
                (at_ms for broker in brokers for at_ms in self._expiry_times_ms(broker, now_ms)), default=NEVER_MS
            ),
            strategies_by_member=_strategies_by_member(members, counting),
        )

    def _is_valid(self, broker: str, now_ms: int) -> bool:
        member_list = self._lists.get(broker)
        return member_list is not None and (
            member_list.silent_since_ms is None or now_ms - member_list.silent_since_ms < self._times.member_list_ttl_ms
        )

    def _present_members(self, broker: str, now_ms: int) -> Iterable[str]:
        if not self._is_valid(broker, now_ms):
            return ()
        member_list = self._lists[broker]
        missing = member_list.missing_since_ms.items()
        if not missing:
            return member_list.ids
        return member_list.ids.union(each for each, at_ms in missing if now_ms < self._departs_ms(broker, at_ms))

    def _departs_ms(self, broker: str, missing_ms: int) -> int:
        """Return when a member counts as gone from a broker that has not listed it since ``missing_ms``."""
        member_list = self._lists[broker]
        if not member_list.is_settled:
            return NEVER_MS
        blip_ms = missing_ms if self.has_foreign else missing_ms + self._times.departed_ms
        restored_ms = self._sessions.reconnected_ms(broker)
        if restored_ms is None:
            return blip_ms
        return max(blip_ms, restored_ms + self._sessions.settle_ms(self.has_foreign))

    def _expiry_times_ms(self, broker: str, now_ms: int) -> Iterator[int]:
        """Iterate over the times from now on at which something of a broker's list no longer counts."""
        member_list = self._lists.get(broker)
        if member_list is None:
            return
        times = [self._departs_ms(broker, at_ms) for at_ms in set(member_list.missing_since_ms.values())]
        if member_list.silent_since_ms is not None:
            times.append(member_list.silent_since_ms + self._times.member_list_ttl_ms)
        yield from (at_ms for at_ms in times if at_ms > now_ms)


def _leaving_members(member_list: _MemberList) -> frozenset[str]:
    return frozenset(facts.id for facts in member_list.facts.values() if facts.is_leaving)


def _topics_by_member(members: Sequence[str], lists: Sequence[_MemberList]) -> Mapping[str, frozenset[str]] | None:
    """Return the subscriptions of each member, from any broker that knows them; None if one has none."""
    same: dict[tuple[str, ...], frozenset[str]] = {}
    found: dict[str, frozenset[str]] = {}
    for member in members:
        for member_list in lists:
            facts = member_list.facts.get(member)
            if facts is not None and facts.topics is not None:
                found[member] = same.setdefault(facts.topics, frozenset(facts.topics))
                break
        else:
            return None
    return found


def _strategies_by_member(members: Sequence[str], lists: Sequence[_MemberList]) -> Mapping[str, str]:
    """Return the strategies of members, from any broker that knows them."""
    return {
        member: facts.strategy
        for member_list in lists
        for member in members
        if (facts := member_list.facts.get(member)) is not None and facts.strategy is not None
    }
