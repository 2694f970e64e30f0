"""A plan counts everybody whom a broker lists: the group is whoever is on any list, and the planner itself.

Whoever has been registered at a broker for some seconds is in every plan that one of our members makes, as long as that
member hears the broker. On Apache's broker, which lets go of a member with its line, one whose line closed a moment ago
is still counted: it may be back at once. Excused: a planner or a broker in trouble lately, or a line between them; a
member that leaves, which others plan without; plans without any queue, which may be those of a leaver; on Apache's
broker a member that was in trouble and is listed by a line that is closed.
"""

from collections.abc import Iterable, Iterator

from steelyard.sim.checkers.checker import Checker, Finding, Terms
from steelyard.sim.checkers.scene import LASTING_MS, SCENE, Scene
from steelyard.sim.facts import Fact, Gone, Joined, Planned, Registered, Situation, Unregistered

__all__ = ["NobodyOverlooked"]

_KNOWN_MS = 5_000
"""So long after a member is registered a look around that began before is over, silent peers included."""

_BLIP_MS = 250
"""So long after its line closed nobody plans without a member: it is given 300 ms from when it is first missed."""

_SEEN_MS = 1_000
"""So long before that the planner must have been there: who came later never saw the one that is missing."""


class NobodyOverlooked(Checker):
    """Nobody plans without those who are there."""

    name = "nobody overlooked"
    wants = (*SCENE, Registered, Unregistered, Planned)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._listed: dict[tuple[str, str], dict[str, int]] = {}
        """By broker and group: members, and since when they are registered."""
        self._closed: dict[tuple[str, str], dict[str, tuple[int, int]]] = {}
        """The same for those whose line closed: since when they were registered, and when that ended."""
        self._leaving: set[str] = set()

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Follow who is on which list, and judge each plan."""
        if isinstance(fact, Registered):
            place = (fact.broker, fact.group)
            self._listed.setdefault(place, {}).setdefault(fact.member, fact.at_ms)
            self._closed.get(place, {}).pop(fact.member, None)
        elif isinstance(fact, Unregistered):
            place = (fact.broker, fact.group)
            since_ms = self._listed.get(place, {}).pop(fact.member, None)
            if since_ms is not None and fact.how == "closed" and not self.terms.is_ours(fact.broker):
                self._closed.setdefault(place, {})[fact.member] = (since_ms, fact.at_ms)
        elif isinstance(fact, Planned):
            return list(self._planned(fact))
        else:
            self._scene.note(fact)
            if isinstance(fact, Situation) and fact.name == "a member is asked to leave":
                self._leaving.add(fact.about["process"])
            if isinstance(fact, Gone | Joined):
                name = fact.name if isinstance(fact, Gone) else fact.member
                for known in (self._listed, self._closed):
                    for place in [place for place in known if place[0] == name]:
                        del known[place]
        return ()

    def _planned(self, fact: Planned) -> Iterator[Finding]:
        joined = self._scene.members.get(fact.member)
        if joined is None or joined.kind != "ours" or joined.mode == "broadcast":
            return
        if fact.members and fact.member not in fact.members:
            sentence = f"{fact.member} of {fact.group} planned without itself at {fact.at_ms} ms"
            yield self.finding("safety", "balance", fact.at_ms, sentence, fact)
        if not fact.queues:
            return
        for (broker, group), listed in self._listed.items():
            if group == fact.group and self._hears(fact, broker):
                for member, since_ms in listed.items():
                    if not self._is_phantom(member, broker, fact.at_ms):
                        yield from self._compare(fact, member, f"{broker} lists since {since_ms} ms", since_ms)
        for (broker, group), closed in self._closed.items():
            if group == fact.group and self._hears(fact, broker):
                mine_ms = self._listed.get((broker, group), {}).get(fact.member, fact.at_ms)
                for member, (since_ms, closed_ms) in closed.items():
                    if mine_ms + _SEEN_MS < closed_ms and fact.at_ms - closed_ms <= _BLIP_MS:
                        yield from self._compare(fact, member, f"{broker} listed until {closed_ms} ms", since_ms)

    def _is_phantom(self, member: str, broker: str, now_ms: int) -> bool:
        troubled_ms = self._scene.troubled_ms(member, broker, now_ms)
        return not self.terms.is_ours(broker) and troubled_ms > now_ms - self._scene.lasting_ms(broker)

    def _hears(self, fact: Planned, broker: str) -> bool:
        return self._scene.troubled_ms(fact.member, broker, fact.at_ms) < fact.at_ms - LASTING_MS

    def _compare(self, fact: Planned, member: str, why: str, since_ms: int) -> Iterator[Finding]:
        if member in (*fact.members, fact.member) or member in self._leaving or fact.at_ms - since_ms < _KNOWN_MS:
            return
        sentence = f"{fact.member} of {fact.group} planned at {fact.at_ms} ms without {member}, which {why}"
        yield self.finding("safety", "balance", fact.at_ms, sentence, fact)
