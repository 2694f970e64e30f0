"""What each broker last said of the group, and what follows for who is in it.

The rules:

- a member is in the group if any broker lists it: joins count at once;
- one that is missing from a list still counts there for a moment, where the broker itself does not wait: its line may
  have blipped. With a foreign member in the group it does not: foreign members share its queues at once, and who does
  not do so with them reads what they read. It counts longer where our own line to the broker was restored just now,
  since a restarted broker knows nobody. A broker of ours waits by itself, and says while it is not settled that its
  list may be short;
- the last list of a broker that does not answer counts for half a minute. What it said of owners counts for as long as
  nobody says otherwise: owners are a hint to keep queues where they are, and not a reason to do anything;
- a client id tells whether the member behind it is ours;
- a phantom (phantoms.py) is on the list and not in the group.

Whoever takes a queue reads these lists too (`listed`), so a list is taken from any broker that tells one.

Left out: when to ask (rounds.py, views.py), and what to do with the answer (planning.py).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from steelyard.balance.events import GroupSeen, MemberFacts
from steelyard.balance.hazards import duplicate_ids
from steelyard.balance.lines import Lines
from steelyard.balance.member_options import MemberOptions, is_ours
from steelyard.balance.phantoms import Phantoms
from steelyard.balance.rounds import NEVER_MS
from steelyard.model import Queue, names_in_order

__all__ = ["Lists", "Sight"]


@dataclass(frozen=True, slots=True)
class Sight:
    """The group as all lists together show it."""

    raw: frozenset[str]
    """Every id on any list as it was last said, without those that only count for a while longer."""
    members: tuple[str, ...]
    """Those to share queues with, in order: us, and whoever counts and is not about to leave."""
    has_foreign: bool
    topics: Mapping[str, frozenset[str]] | None
    """What each member subscribes to; None if that is not known of all."""
    owners: Mapping[Queue, str]
    """Who holds a queue, at brokers that tell."""
    missing_us: tuple[str, ...]
    """The brokers that answered and did not list us."""
    is_agreed: bool
    """Whether all lists are the same and no broker is still waiting for its members."""
    again_ms: int
    """When time alone will change this."""
    strategies: Mapping[str, str] = field(default_factory=dict)
    """How each member shares queues, of those of whom a broker tells."""


@dataclass(slots=True)
class _List:
    """The list of one broker."""

    said: Sequence[str]
    """As the broker said it: who has two lines is in it twice."""
    ids: frozenset[str]
    """Without phantoms."""
    missing: dict[str, int]
    """Ids that were listed, and since when they are not."""
    phantoms: frozenset[str] = frozenset()
    is_settled: bool = True
    facts: Mapping[str, MemberFacts] = field(default_factory=dict)
    owners: Mapping[Queue, str] = field(default_factory=dict)
    hazards: tuple[str, ...] = ()
    silent_ms: int | None = None
    """Since when the broker does not answer."""


class Lists:
    """The lists of all brokers that were asked."""

    def __init__(self, options: MemberOptions, lines: Lines) -> None:
        self.has_foreign = False
        """Whether a foreign member was in the last sight."""
        self._group = options.group
        self._id = options.id
        self._times = options.times
        self._lines = lines
        self._lists: dict[str, _List] = {}
        self._phantoms: dict[str, Phantoms] = {}
        """By broker, where anybody was ever suspected."""

    # -- noting --------------------------------------------------------------------------------------------------------

    def note(self, seen: GroupSeen, now_ms: int) -> bool:
        """Take a broker's list; say whether other members are on it, or others leave, than on the last one."""
        before = self._lists.get(seen.broker)
        listed = self._listed(seen, now_ms)
        if seen.members is not None:
            listed.is_settled = seen.settled is not False
            listed.facts = {facts.id: facts for facts in seen.members}
            listed.owners = seen.owners or {}
            if before is not None and not listed.is_settled:
                # A restarted broker hears only by and by who owns what: until then what it said before still holds.
                listed.owners = {**before.owners, **listed.owners}
        listed.hazards = (*seen.hazards, *(each.sentence for each in duplicate_ids(self._group, seen.ids)))
        self._lists[seen.broker] = listed
        if before is None:
            return True
        if seen.members is None or not listed.is_settled:
            # One after the other, so that what is kept is in an order that every run repeats.
            for member in sorted((before.ids | before.missing.keys()) - listed.ids - listed.phantoms):
                since_ms = before.missing.get(member, now_ms)
                if now_ms < max(self._departs_ms(seen.broker, since_ms), since_ms + self._times.departed_ms):
                    listed.missing[member] = since_ms
        changed = before.ids != listed.ids or before.is_settled != listed.is_settled
        return changed or _leaving(before) != _leaving(listed)

    def _listed(self, seen: GroupSeen, now_ms: int) -> _List:
        suspects, ids = self._phantoms.get(seen.broker), frozenset(seen.ids)
        if suspects is None:
            return _List(seen.ids, ids, {})
        phantoms = suspects.after(seen.ids, now_ms, self._times.departed_ms)
        return _List(seen.ids, ids - phantoms, {}, phantoms)

    def found_closed(self, broker: str, member: str, now_ms: int) -> bool:
        """Take note that a broker knows a member by a closed line; say whether that is news."""
        listed = self._lists.get(broker)
        if listed is None:
            return False
        return self._phantoms.setdefault(broker, Phantoms()).found_closed(member, listed.said, now_ms)

    def spoke(self, broker: str, member: str) -> bool:
        """Take note that a member is there after all, or may be; say whether it was taken for a phantom."""
        suspects = self._phantoms.get(broker)
        return suspects is not None and suspects.spoke(member)

    def no_answer(self, broker: str, now_ms: int) -> None:
        """Take note that a broker does not answer."""
        listed = self._lists.get(broker)
        if listed is not None and listed.silent_ms is None:
            listed.silent_ms = now_ms

    def keep_only(self, brokers: Collection[str]) -> None:
        """Forget brokers that have no queues of the group any more, if there is no line to them either."""
        self._lists = {
            broker: listed for broker, listed in self._lists.items() if broker in brokers or self._lines.is_open(broker)
        }

    # -- looking -------------------------------------------------------------------------------------------------------

    def knows(self, broker: str) -> bool:
        """Say whether a broker ever told its list."""
        return broker in self._lists

    def listed(self, broker: str, now_ms: int) -> tuple[str, ...]:
        """Return the ids of a broker's last list, and those of ours that have been missing there for a moment only."""
        listed = self._lists.get(broker)
        if listed is None:
            return ()
        since_ms = now_ms - self._times.departed_ms
        lately = (each for each, at_ms in listed.missing.items() if at_ms > since_ms and is_ours(each))
        # A phantom is asked as well: who takes a queue wants to be sure.
        return tuple(sorted([*listed.ids, *listed.phantoms, *lately]))

    def phantoms(self, broker: str) -> list[str]:
        """Return the phantoms on a broker's last list, in order."""
        listed = self._lists.get(broker)
        return [] if listed is None else sorted(listed.phantoms)

    def answers(self, broker: str) -> bool:
        """Say whether a broker told its list when it was last asked."""
        listed = self._lists.get(broker)
        return listed is not None and listed.silent_ms is None

    def lists(self, broker: str, member: str) -> bool:
        """Say whether a member is on the last list of a broker that answers."""
        return self.answers(broker) and member in self._lists[broker].ids

    def lists_twice(self, broker: str, member: str) -> bool:
        """Say whether a broker's last list shows a member on more than one line: one of them may be dead."""
        listed = self._lists.get(broker)
        # Most lists show nobody twice, which is the quick question.
        return listed is not None and len(listed.said) > len(listed.ids) and listed.said.count(member) > 1

    def has_departed(self, member: str, brokers: Iterable[str], now_ms: int) -> bool:
        """Say whether a member is surely gone: on no list of these brokers that counts, and not just since a moment."""
        counting = [broker for broker in brokers if self._counts(broker, now_ms)]
        return bool(counting) and not any(
            member in self._present(broker, now_ms) or member in self.listed(broker, now_ms) for broker in counting
        )

    def hazards(self, brokers: Iterable[str]) -> set[str]:
        """Return what is wrong in the group by what these brokers say, in sentences."""
        return {sentence for broker in brokers if self.answers(broker) for sentence in self._lists[broker].hazards}

    def sight(self, brokers: Sequence[str], now_ms: int) -> Sight:
        """Put the lists of these brokers together."""
        counting = [self._lists[broker] for broker in brokers if self._counts(broker, now_ms)]
        present = {self._id}.union(*(self._present(broker, now_ms) for broker in brokers))
        answering = [listed for listed in counting if listed.silent_ms is None]
        leaving = frozenset().union(*map(_leaving, counting)) - {self._id}
        members = tuple(names_in_order(present - leaving))
        self.has_foreign = not all(map(is_ours, members))
        owners: dict[Queue, str] = {}
        for broker in brokers:
            if (listed := self._lists.get(broker)) is not None:
                owners.update(listed.owners)
        return Sight(
            raw=frozenset().union(*(listed.ids for listed in counting)),
            members=members,
            has_foreign=self.has_foreign,
            topics=_topics(members, counting),
            owners=owners,
            missing_us=tuple(each for each in brokers if self.answers(each) and not self.lists(each, self._id)),
            is_agreed=all(each.is_settled and each.ids == answering[0].ids for each in answering),
            again_ms=min((at_ms for broker in brokers for at_ms in self._ends_ms(broker, now_ms)), default=NEVER_MS),
            strategies=_strategies(members, counting),
        )

    def _counts(self, broker: str, now_ms: int) -> bool:
        listed = self._lists.get(broker)
        return listed is not None and (
            listed.silent_ms is None or now_ms - listed.silent_ms < self._times.group_silence_ms
        )

    def _present(self, broker: str, now_ms: int) -> Iterable[str]:
        if not self._counts(broker, now_ms):
            return ()
        listed = self._lists[broker]
        if not listed.missing:
            return listed.ids
        lately = (each for each, at_ms in listed.missing.items() if now_ms < self._departs_ms(broker, at_ms))
        return listed.ids.union(lately)

    def _departs_ms(self, broker: str, missing_ms: int) -> int:
        """Return when an id counts as gone from a broker that has not listed it since a time."""
        listed = self._lists[broker]
        if not listed.is_settled:
            return NEVER_MS
        blip_ms = missing_ms if self.has_foreign else missing_ms + self._times.departed_ms
        restored_ms = self._lines.restored_ms(broker)
        if restored_ms is None:
            return blip_ms
        return max(blip_ms, restored_ms + self._lines.settle_ms(self.has_foreign))

    def _ends_ms(self, broker: str, now_ms: int) -> Iterator[int]:
        """Go through the times from now on at which something of a broker's list no longer counts."""
        listed = self._lists.get(broker)
        if listed is None:
            return
        times = [self._departs_ms(broker, at_ms) for at_ms in set(listed.missing.values())]
        if listed.silent_ms is not None:
            times.append(listed.silent_ms + self._times.group_silence_ms)
        yield from (at_ms for at_ms in times if at_ms > now_ms)


def _leaving(listed: _List) -> frozenset[str]:
    return frozenset(facts.id for facts in listed.facts.values() if facts.leaving)


def _topics(members: Sequence[str], lists: Sequence[_List]) -> Mapping[str, frozenset[str]] | None:
    """Return what each member subscribes to, by whoever tells; None if nobody tells of one."""
    same: dict[tuple[str, ...], frozenset[str]] = {}
    found: dict[str, frozenset[str]] = {}
    for member in members:
        for listed in lists:
            facts = listed.facts.get(member)
            if facts is not None and facts.topics is not None:
                found[member] = same.setdefault(facts.topics, frozenset(facts.topics))
                break
        else:
            return None
    return found


def _strategies(members: Sequence[str], lists: Sequence[_List]) -> Mapping[str, str]:
    """Return how each member shares, by whoever tells."""
    return {
        member: facts.strategy
        for listed in lists
        for member in members
        if (facts := listed.facts.get(member)) is not None and facts.strategy is not None
    }
