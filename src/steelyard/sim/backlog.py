"""What is still to be handled, counted from facts: when it is empty, a history has nothing more to wait for.

A message counts once its sender was told that it is stored, and is done for a group when a handler of it went well; in
a broadcasting group each member has to. In an orderly group it is done, too, when its last try failed: it goes to the
dead letters. Checkers decide whether all that is right; this only says when to look.
"""

from steelyard.sim.facts import Acked, Ended, Fact, Joined, Sent, Started
from steelyard.sim.plan import Plan

__all__ = ["Backlog"]


class Backlog:
    """The uids that each group, or each member of a broadcasting one, has still to handle."""

    def __init__(self, plan: Plan) -> None:
        self.acked = 0
        self.handled = 0
        self._groups = {group.name: frozenset(group.topics) for group in plan.groups}
        self._is_broadcast = {group.name: group.mode == "broadcast" for group in plan.groups}
        self._tries = {group.name: group.most_tries for group in plan.groups if group.mode == "orderly"}
        self._tried: dict[tuple[str, str], int] = {}
        """How often a member of an orderly group has tried a message."""
        self._topics: dict[str, str] = {}
        self._stored: list[str] = []
        self._readers: dict[str, str] = {name: name for name, is_all in self._is_broadcast.items() if not is_all}
        """Who has to handle everything, groups and members of broadcasting ones, with the group."""
        self._left: dict[str, set[str]] = {name: set() for name in self._readers}
        self._done: dict[str, set[str]] = {name: set() for name in self._readers}

    def note(self, fact: Fact) -> None:
        """Take in a fact."""
        match fact:
            case Sent():
                self._topics[fact.uid] = fact.topic
            case Acked():
                self.acked += 1
                self._stored.append(fact.uid)
                for reader in self._readers:
                    self._owe(reader, fact.uid)
            case Ended(ok=True):
                self.handled += 1
                self._finished(fact.member if self._is_broadcast.get(fact.group) else fact.group, fact.uid)
            case Started() if fact.group in self._tries:
                self._tried[fact.member, fact.uid] = fact.attempt + 1
            case Ended() if self._tried.get((fact.member, fact.uid), 0) >= self._tries.get(fact.group, 1 << 31):
                self._finished(fact.group, fact.uid)
            case Joined() if self._is_broadcast.get(fact.group) and fact.member not in self._readers:
                self._readers[fact.member] = fact.group
                self._left[fact.member], self._done[fact.member] = set(), set()
                for uid in self._stored:
                    self._owe(fact.member, uid)
            case _:
                pass

    def _finished(self, reader: str, uid: str) -> None:
        if reader in self._left:
            self._left[reader].discard(uid)
            self._done[reader].add(uid)

    def _owe(self, reader: str, uid: str) -> None:
        if self._topics.get(uid) in self._groups[self._readers[reader]] and uid not in self._done[reader]:
            self._left[reader].add(uid)

    def left(self, readers: frozenset[str]) -> set[str]:
        """Return what groups have still to handle, and those members of broadcasting groups that are named."""
        wanted = (left for name, left in self._left.items() if name in self._groups or name in readers)
        return set().union(*wanted)
