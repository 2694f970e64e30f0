"""An assignment counts every member on the list of any broker, and the planning member itself.

A member that has been registered at a broker for some seconds is in every assignment of our members that can reach the
broker. On Apache's broker, which removes a member with its connection, one whose connection closed a moment ago still
counts: it may be back at once. Excused: a recent fault of the planning member, of the broker or of their connection; a
member that leaves; assignments without queues, which may be those of a leaving member; on Apache's broker a member with
a fault that is listed by a closed connection.
"""

from collections.abc import Iterable, Iterator

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions
from simulator.checkers.trackers import FAULT_EFFECT_MS, TRACKED_FACTS, FaultTracker
from simulator.facts import (
    AssignmentPlanned,
    Fact,
    MemberRegistered,
    MemberUnregistered,
    ProcessGone,
    ProcessStarted,
    Situation,
)

_KNOWN_MS = 5_000
"""A rebalance that began before a member registered is over after this time, silent peers included."""

_BLIP_MS = 250
"""A member counts for this time after its connection closed: it gets 300 ms from when it is first missed."""

_SEEN_MS = 1_000
"""The planning member must have been listed for this time before that: a later one never saw the missing member."""


class NobodyOverlooked(Checker):
    """Assignments count all listed members."""

    name = "no member overlooked"
    fact_types = (*TRACKED_FACTS, MemberRegistered, MemberUnregistered, AssignmentPlanned)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._tracker = FaultTracker(conditions)
        self._listed: dict[tuple[str, str], dict[str, int]] = {}
        """By broker and group: members, and since when they are registered."""
        self._closed: dict[tuple[str, str], dict[str, tuple[int, int]]] = {}
        """The same for members whose connection closed: since when they were registered, and until when."""
        self._leaving: set[str] = set()

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Follow who is on which list, and judge each plan."""
        if isinstance(fact, MemberRegistered):
            place = (fact.broker, fact.group)
            self._listed.setdefault(place, {}).setdefault(fact.member, fact.at_ms)
            self._closed.get(place, {}).pop(fact.member, None)
        elif isinstance(fact, MemberUnregistered):
            place = (fact.broker, fact.group)
            since_ms = self._listed.get(place, {}).pop(fact.member, None)
            if since_ms is not None and fact.how == "closed" and not self.conditions.is_steelyard(fact.broker):
                self._closed.setdefault(place, {})[fact.member] = (since_ms, fact.at_ms)
        elif isinstance(fact, AssignmentPlanned):
            return list(self._planned(fact))
        else:
            self._tracker.observe(fact)
            if isinstance(fact, Situation) and fact.name == "a member is asked to leave":
                self._leaving.add(fact.about["process"])
            if isinstance(fact, ProcessGone | ProcessStarted):
                name = fact.name if isinstance(fact, ProcessGone) else fact.member
                for known in (self._listed, self._closed):
                    for place in [place for place in known if place[0] == name]:
                        del known[place]
        return ()

    def _planned(self, fact: AssignmentPlanned) -> Iterator[CheckerFinding]:
        started = self._tracker.members.get(fact.member)
        if started is None or started.kind != "ours" or started.mode == "broadcast":
            return
        if fact.members and fact.member not in fact.members:
            sentence = f"{fact.member} of {fact.group} planned without itself at {fact.at_ms} ms"
            yield self.finding("safety", "balance", fact.at_ms, sentence, fact)
        if not fact.queues:
            return
        for (broker, group), listed in self._listed.items():
            if group == fact.group and self._reaches(fact, broker):
                for member, since_ms in listed.items():
                    if not self._may_be_stale(member, broker, fact.at_ms):
                        yield from self._compare(fact, member, f"{broker} lists since {since_ms} ms", since_ms)
        for (broker, group), closed in self._closed.items():
            if group == fact.group and self._reaches(fact, broker):
                mine_ms = self._listed.get((broker, group), {}).get(fact.member, fact.at_ms)
                for member, (since_ms, closed_ms) in closed.items():
                    if mine_ms + _SEEN_MS < closed_ms and fact.at_ms - closed_ms <= _BLIP_MS:
                        yield from self._compare(fact, member, f"{broker} listed until {closed_ms} ms", since_ms)

    def _may_be_stale(self, member: str, broker: str, now_ms: int) -> bool:
        fault_ms = self._tracker.pair_fault_ms(member, broker, now_ms)
        return not self.conditions.is_steelyard(broker) and fault_ms > now_ms - self._tracker.fault_effect_ms(broker)

    def _reaches(self, fact: AssignmentPlanned, broker: str) -> bool:
        return self._tracker.pair_fault_ms(fact.member, broker, fact.at_ms) < fact.at_ms - FAULT_EFFECT_MS

    def _compare(self, fact: AssignmentPlanned, member: str, why: str, since_ms: int) -> Iterator[CheckerFinding]:
        if member in (*fact.members, fact.member) or member in self._leaving or fact.at_ms - since_ms < _KNOWN_MS:
            return
        sentence = f"{fact.member} of {fact.group} planned at {fact.at_ms} ms without {member}, which {why}"
        yield self.finding("safety", "balance", fact.at_ms, sentence, fact)
