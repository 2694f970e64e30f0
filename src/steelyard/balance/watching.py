"""What looks wrong in the group to one member, looked for after each round and told once while it lasts.

The sentences are those of hazards.py, and of brokers, which see more than a member does. A broker of ours knows what
each member subscribes to, and tells of it where queues stay unread: a member only adds that topics are not shared by
all. On Apache's brokers members compare what they tell each other when they are asked what they hold. A member
without a queue speaks for itself alone: it knows its own plan and nobody else's. That nobody owns a queue is told only
after a hand-over has had its time, and that an entry of a strategy's settings is about no member after that member
has had time to start.

Left out: what is wrong with the member's own queues (stalls.py).
"""

from collections.abc import Iterable, Mapping
from itertools import chain

from steelyard.balance.actions import Action, Report
from steelyard.balance.allocate.member_tables import tables_of, unmatched
from steelyard.balance.allocate.strategy import Owned
from steelyard.balance.hazards import (
    Hazard,
    nothing_to_do,
    unequal_filters,
    unequal_strategies,
    unequal_subscriptions,
    unmatched_entries,
    unowned_queues,
)
from steelyard.balance.lists import Sight
from steelyard.balance.member_options import MemberOptions
from steelyard.model import Queue, in_order

__all__ = ["Once", "Watching"]

_UNOWNED_MS = 60_000
"""How long a queue may have no owner before that is told: twice what a drain takes."""
_UNMATCHED_MS = 60_000
"""How long an entry may be about nobody before that is told: a member that is started again is back by then."""


class Once:
    """What was told and still lasts.

    >>> once = Once()
    >>> [[hazard.kind for hazard in once.new(now)] for now in ([Hazard("a", "")], [Hazard("a", "")], [])]
    [['a'], [], []]
    """

    def __init__(self) -> None:
        self.lasting: tuple[Hazard, ...] = ()
        """What was there the last time, by kind."""
        self._kinds: frozenset[str] = frozenset()

    def new(self, hazards: Iterable[Hazard]) -> list[Hazard]:
        """Return those that were not there the last time, by kind; whatever is not among them now has ended."""
        found = {hazard.kind: hazard for hazard in hazards}
        new = [found[kind] for kind in sorted(found.keys() - self._kinds)]
        self._kinds = frozenset(found)
        self.lasting = tuple(found[kind] for kind in sorted(found))
        return new


class Watching:
    """The eyes of one member for its group."""

    def __init__(self, options: MemberOptions) -> None:
        self._options = options
        self._once = Once()
        self._unowned: dict[Queue, int] = {}
        """Queues that nobody owns, and since when."""
        self._tables = tables_of(options.strategy, options.java_strategy)
        self._unmatched: dict[tuple[str, str], int] = {}
        """Settings and the entries in them that are about no member, and since when."""
        self._filters: dict[str, Mapping[str, str]] = {}
        """What members said that they want of each topic."""

    @property
    def hazards(self) -> tuple[Hazard, ...]:
        """What was found wrong at the end of the last round."""
        return self._once.lasting

    def told(self, member: str, filters: Mapping[str, str]) -> None:
        """Take note of what a member said that it wants of each topic."""
        self._filters[member] = filters

    def look(
        self,
        sight: Sight,
        plan: Iterable[Queue],
        readable: frozenset[Queue],
        owned: Owned | None,
        said: Iterable[str],
        now_ms: int,
    ) -> list[Action]:
        """Tell what is newly wrong; ``said`` is what others found, ``owned`` None where owners cannot be known."""
        group = self._options.group
        found = [Hazard(sentence, sentence) for sentence in said]
        if sight.topics is None:
            found += self._unequal(sight)
        elif not sight.has_foreign:
            found += unequal_subscriptions(group, sight.topics, by_subscribers=True)
        found += unequal_strategies(group, sight.strategies)
        found += self._idle(sight, plan, readable)
        found += self._long_unmatched(sight.members, now_ms)
        if owned is not None:
            found += unowned_queues(group, self._long_unowned(readable, owned, now_ms), ())
        return [Report("hazard", hazard.sentence) for hazard in self._once.new(found)]

    def _unequal(self, sight: Sight) -> list[Hazard]:
        """Compare what we and those who told want of each topic."""
        self._filters = {member: told for member, told in self._filters.items() if member in sight.raw}
        told = {member: self._filters[member] for member in sight.members if member in self._filters}
        told[self._options.id] = {topic: wanted.expression for topic, wanted in self._options.topics.items()}
        group = self._options.group
        return unequal_subscriptions(group, told) + unequal_filters(group, told)

    def _idle(self, sight: Sight, plan: Iterable[Queue], readable: frozenset[Queue]) -> list[Hazard]:
        """Find out whether there is no queue for us: that of retries is no work of its own."""
        retries = self._options.retry_topic
        if any(queue.topic != retries for queue in plan):
            return []
        queues = sum(queue.topic != retries for queue in readable)
        if not 0 < queues < len(sight.members):
            return []
        return [nothing_to_do(self._options.group, self._options.id, members=len(sight.members), queues=queues)]

    def _long_unmatched(self, members: Iterable[str], now_ms: int) -> list[Hazard]:
        """Find entries of settings that have been about no member for long."""
        now = [(table.setting, key) for table in self._tables for key in unmatched(table.keys, members)]
        self._unmatched = {each: self._unmatched.get(each, now_ms) for each in now}
        long = [each for each, since_ms in self._unmatched.items() if now_ms - since_ms >= _UNMATCHED_MS]
        return [
            hazard
            for table in self._tables
            for hazard in unmatched_entries(
                self._options.group, table.setting, [key for setting, key in long if setting == table.setting]
            )
        ]

    def _long_unowned(self, readable: frozenset[Queue], owned: Owned, now_ms: int) -> list[Queue]:
        """Return the queues that have had no owner for long."""
        nobodys = in_order(readable.difference(chain.from_iterable(owned.values())))
        self._unowned = {queue: self._unowned.get(queue, now_ms) for queue in nobodys}
        return [queue for queue, since_ms in self._unowned.items() if now_ms - since_ms >= _UNOWNED_MS]
