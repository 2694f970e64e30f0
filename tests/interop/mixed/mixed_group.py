"""A group of reporting members on two brokers: what is done to it, and how long until their reports have settled.

Settled means that every member holds exactly what the group's strategy gives it, by its own report, and that nothing
changes any more for a while. A change is timed from the moment in which somebody was told or killed; each member's time
is that of its last report. A member that had nothing to change has none.
"""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from steelyard.balance.assignors.strategy import plan, uses_owners
from steelyard.model import Queue, sort_names, sort_queues
from tests.interop.mixed.broker_pairs import BrokerPair
from tests.interop.mixed.reporting_members import Held, MemberFleet, ReportingMember, kind_of
from tests.interop.mixed.strategies import Words, strategy_of

_LOOK_SECONDS = 0.01
_QUIET_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class SettledChange:
    """One change of a group, and how long each member that had to do something for it took."""

    what: str
    took_ms: dict[str, int]
    """By the member's name, which has its kind in it."""
    joined: str | None = None
    """Who joined: its time includes its own start."""

    def slowest_ms(self, kinds: Iterable[str], *, without_joined: bool = False) -> int | None:
        """Return when the last member of some kinds was done; None if none of them had anything to do."""
        kinds = set(kinds)
        times = [
            took
            for name, took in self.took_ms.items()
            if kind_of(name) in kinds and not (without_joined and name == self.joined)
        ]
        return max(times, default=None)

    @property
    def settled_ms(self) -> int:
        """When the last of all was done."""
        return max(self.took_ms.values(), default=0)


class MixedGroup:
    """A group, and who is in it."""

    def __init__(
        self,
        troupe: MemberFleet,
        pair: BrokerPair,
        group: str,
        allocate: Words,
        queues: Sequence[Queue],
        *,
        patience_s: float = 70,
        quiet_s: float = _QUIET_SECONDS,
        **words: object,
    ) -> None:
        self.members: list[ReportingMember] = []
        self.queues = list(queues)
        self.changes: list[SettledChange] = []
        self.pair = pair
        self._troupe, self._group = troupe, group
        self._allocate, self._words = allocate, words
        self._strategy = strategy_of(allocate)
        self._patience_s, self._quiet_s = patience_s, quiet_s

    def of(self, kind: str) -> ReportingMember:
        """Return the first member of a kind."""
        return next(member for member in self.members if member.kind == kind)

    def join(self, kind: str, *, machine_room: str = "east") -> SettledChange:
        """Let one more join."""
        member = self._troupe.member(kind, sorted({queue.topic for queue in self.queues}), machine_room=machine_room)
        member.join(self.pair.name_server, self._group, self._allocate, **self._words)
        self.members.append(member)
        return self.settle(f"{kind} joins", member.reported_ms, joined=member)

    def leave(self, member: ReportingMember) -> SettledChange:
        """Let one say good-bye."""
        self.members.remove(member)
        since_ms = time.time() * 1000
        member.leave()
        change = self.settle(f"{member.kind} leaves", since_ms)
        self._troupe.give_back(member)
        return change

    def kill(self, member: ReportingMember) -> SettledChange:
        """Let one crash."""
        self.members.remove(member)
        since_ms = time.time() * 1000
        member.kill()
        return self.settle(f"{member.kind} is killed", since_ms)

    def freeze(self, member: ReportingMember) -> SettledChange:
        """Let one hang; it is not thawed."""
        self.members.remove(member)
        since_ms = time.time() * 1000
        member.freeze()
        return self.settle(f"{member.kind} hangs", since_ms)

    def grow(self, topic: str, queues: int) -> SettledChange:
        """Give a topic more queues."""
        since_ms = time.time() * 1000
        grown = self.pair.make_topic(topic, queues)
        self.queues = [queue for queue in self.queues if queue.topic != topic] + grown
        return self.settle(f"{topic} grows to {queues}", since_ms)

    def end(self) -> None:
        """Let all of them leave, and do not look at what they make of it."""
        while self.members:
            member = self.members.pop()
            member.leave()
            self._troupe.give_back(member)

    def settle(self, what: str, since_ms: float, joined: ReportingMember | None = None) -> SettledChange:
        """Wait until the reports fit and stay so."""
        end = time.monotonic() + self._patience_s
        fits_since: float | None = None
        before: list[Held] = []
        while fits_since is None or time.monotonic() < fits_since + self._quiet_s:
            held = [member.held() for member in self.members]
            if held != before or fits_since is None:
                before = held
                fits_since = time.monotonic() if self._fits(held) else None
            assert time.monotonic() < end, f"{what}: not settled within {self._patience_s} s: {self._unsettled(held)}"
            time.sleep(_LOOK_SECONDS)
        took = {
            member.name: round(reports[-1][0] - since_ms)
            for member in self.members
            if (reports := member.reports(since_ms))
        }
        change = SettledChange(what, took, joined.name if joined else None)
        self.changes.append(change)
        return change

    def _fits(self, held: Sequence[Held]) -> bool:
        if sum(map(len, held)) != len(self.queues) or frozenset().union(*held) != frozenset(self.queues):
            return not self.members
        if uses_owners(self._strategy):
            return max(map(len, held)) - min(map(len, held)) <= 1
        return held == self._planned()

    def _planned(self) -> list[Held]:
        """Share each topic by itself, as Java does."""
        ids = {member.id: set[Queue]() for member in self.members}
        for topic in {queue.topic for queue in self.queues}:
            queues = sort_queues(queue for queue in self.queues if queue.topic == topic)
            for member, mine in plan(self._strategy, self._group, queues, sort_names(ids)).items():
                ids[member] |= set(mine)
        return [frozenset(ids[member.id]) for member in self.members]

    def _unsettled(self, held: Sequence[Held]) -> str:
        owners = Counter(queue for each in held for queue in each)
        wrong = [f"{queue} has {owners[queue]}" for queue in sort_queues(self.queues) if owners[queue] != 1]
        parts = [
            f"{member.kind} {member.id}: {', '.join(map(str, sort_queues(each))) or 'nothing'}"
            for member, each in zip(self.members, held, strict=True)
        ]
        listed = self.pair.listed(self._group)
        return f"owners: {'; '.join(wrong) or 'one each, but not as planned'}\n" + "\n".join([*parts, str(listed)])
