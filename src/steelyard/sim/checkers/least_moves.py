"""R8: when members come or go, no more queues move than must.

Judged for sticky groups on our brokers, between two moments at which everything was settled (each queue owned by one
member and in no other state anywhere) with one change of members between them: the queues that have another owner
then are at most as many as the least plan moves. With one topic no queue may go there by a detour either.

Excused: any trouble between the two moments; queues that came or went; members that subscribe to different topics; a
second change before the first was settled, which starts the judgement anew.
"""

from collections.abc import Iterable, Iterator

from steelyard.balance.allocate.sticky import cut_by_topic, sticky
from steelyard.model import Queue, in_order, names_in_order
from steelyard.sim.checkers.checker import Checker, End, Finding, Terms
from steelyard.sim.checkers.lives import Lives
from steelyard.sim.checkers.scene import LASTING_MS, SCENE, Scene
from steelyard.sim.facts import Fact, Gone, Healed, Joined, Moved

__all__ = ["LeastMoves"]

_SETTLED_MS = 1_000
"""A group counts as settled that stayed as it was for so long."""


class _Settled:
    """A group at a moment at which it was settled, and what happened since."""

    __slots__ = ("at_ms", "changes", "members", "owners", "taken")

    def __init__(self, at_ms: int, members: list[str], owners: dict[Queue, str]) -> None:
        self.at_ms, self.members, self.owners = at_ms, members, owners
        self.changes: list[Fact] = []
        self.taken = 0


class LeastMoves(Checker):
    """A change of members moves only what it must."""

    name = "least moves"
    wants = (*SCENE, Moved, Healed)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._lives = Lives(self._scene)
        self._settled: dict[str, _Settled] = {}
        self._moved_ms: dict[str, int] = {}

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Follow changes; a group that is settled again when the next one comes is judged."""
        if isinstance(fact, Moved):
            return self._moved(fact)
        found: list[Finding] = []
        group = self._group_of(fact)
        if group is not None:
            found += self._judge(group, fact.at_ms)
            if group in self._settled:
                self._settled[group].changes.append(fact)
        elif isinstance(fact, Gone | Joined):
            self._settled.clear()
        self._scene.note(fact)
        if isinstance(fact, Gone | Joined):
            self._lives.note(fact)
        if group is not None:
            self._moved_ms[group] = fact.at_ms
        return found

    def finish(self, end: End) -> Iterator[Finding]:
        """Judge the last change."""
        for group in sorted(self._settled):
            yield from self._judge(group, end.at_ms)

    def _group_of(self, fact: Fact) -> str | None:
        if isinstance(fact, Gone):
            joined = self._scene.members.get(fact.name)
            return joined.group if joined is not None else None
        if isinstance(fact, Joined) and fact.kind in ("ours", "java"):
            return fact.group
        return None

    def _moved(self, fact: Moved) -> Iterable[Finding]:
        # What stood still for a while until now was settled: that is the moment to compare with.
        found = [*self._judge(fact.group, fact.at_ms)]
        self._lives.note(fact)
        self._moved_ms[fact.group] = fact.at_ms
        settled = self._settled.get(fact.group)
        if settled is not None and fact.after == "STARTING":
            settled.taken += 1
        return found

    def _judge(self, group: str, now_ms: int) -> Iterator[Finding]:
        if now_ms - self._moved_ms.get(group, now_ms) < _SETTLED_MS:
            return
        owners = self._owners(group)
        if owners is None:
            return
        before, members = self._settled.get(group), self._scene.alive(group)
        self._settled[group] = _Settled(now_ms, members, owners)
        if before is None or len(before.changes) != 1 or before.owners.keys() != owners.keys():
            return
        if not self._is_judged(group, before, owners):
            return
        moved = [queue for queue in owners if before.owners[queue] != owners[queue]]
        most = _least(before.owners, members)
        is_one_topic = len({queue.topic for queue in owners}) == 1
        if len(moved) > most or (is_one_topic and before.taken > most):
            sentence = (
                f"of {len(owners)} queues of {group} {len(moved)} moved, with {before.taken} takings, after the one "
                f"change at {before.changes[0].at_ms} ms, and {most} would have done"
            )
            yield self.finding("safety", "balance", now_ms, sentence, *before.changes)

    def _is_judged(self, group: str, before: _Settled, owners: dict[Queue, str]) -> bool:
        scene = self._scene
        change = before.changes[0]
        calm_from_ms = before.at_ms - LASTING_MS
        crash = isinstance(change, Gone) and change.how != "left"
        is_calm = scene.last_ms < calm_from_ms or (crash and scene.last_ms == change.at_ms)
        members = [scene.members[id_] for id_ in {*before.members, *scene.alive(group)} if id_ in scene.members]
        return (
            is_calm
            and self.terms.group(group).sticky
            and scene.is_all_ours(group)
            and scene.mode(group) != "broadcast"
            and all(self.terms.is_ours(queue.broker) for queue in owners)
            # Whoever owns nothing though there is enough may be about to leave.
            and len(set(owners.values())) == min(len(owners), len(scene.alive(group)))
            and len({tuple(sorted(joined.topics)) for joined in members}) == 1
            and all(joined.strategy.upper() in ("", "STICKY") for joined in members)
        )

    def _owners(self, group: str) -> dict[Queue, str] | None:
        """Return the owner of each queue, or None if a queue has none, or is in any other state at anybody."""
        owners: dict[Queue, str] = {}
        for queue, states in self._lives.of_group(group):
            if len(states) != 1:
                return None
            ((member, state),) = states.items()
            if state != "OWNED":
                return None
            owners[queue] = member
        return owners or None


def _least(owners: dict[Queue, str], members: list[str]) -> int:
    """Return how many queues the least plan moves."""
    queues, ids = in_order(owners), names_in_order(members)
    places = {id_: place for place, id_ in enumerate(ids)}
    before = [places.get(owners[queue], -1) for queue in queues]
    after = sticky(cut_by_topic(queues)[1], len(ids), before)
    return sum(was != now for was, now in zip(before, after, strict=True))
