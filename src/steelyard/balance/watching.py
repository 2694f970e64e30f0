"""What looks wrong in the group to one member, looked for after each round and told once while it lasts.

The sentences are those of hazards.py, and of brokers, which see more than a member does. A broker that tells what each
member subscribes to compares that itself, so a member tells of it only where no broker found anything wrong. A member
without a queue speaks for itself alone: it knows its own plan and nobody else's. That nobody owns a queue is told only
after a hand-over has had its time.

Left out: what is wrong with the member's own queues (stalls.py).
"""

from collections.abc import Iterable
from itertools import chain

from steelyard.balance.actions import Action, Report
from steelyard.balance.allocate.strategy import Owned
from steelyard.balance.hazards import (
    Hazard,
    nothing_to_do,
    unequal_strategies,
    unequal_subscriptions,
    unowned_queues,
)
from steelyard.balance.lists import Sight
from steelyard.balance.member_options import MemberOptions
from steelyard.model import Queue, in_order

__all__ = ["Once", "Watching"]

_UNOWNED_MS = 60_000
"""How long a queue may have no owner before that is told: twice what a drain takes."""


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

    @property
    def hazards(self) -> tuple[Hazard, ...]:
        """What was found wrong at the end of the last round."""
        return self._once.lasting

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
        if sight.topics is not None and not found:
            found += unequal_subscriptions(group, sight.topics)
        found += unequal_strategies(group, sight.strategies)
        found += self._idle(sight, plan, readable)
        if owned is not None:
            found += unowned_queues(group, self._long_unowned(readable, owned, now_ms), ())
        return [Report("hazard", hazard.sentence) for hazard in self._once.new(found)]

    def _idle(self, sight: Sight, plan: Iterable[Queue], readable: frozenset[Queue]) -> list[Hazard]:
        """Find out whether there is no queue for us: that of retries is no work of its own."""
        retries = self._options.retry_topic
        if any(queue.topic != retries for queue in plan):
            return []
        queues = sum(queue.topic != retries for queue in readable)
        if not 0 < queues < len(sight.members):
            return []
        return [nothing_to_do(self._options.group, self._options.id, members=len(sight.members), queues=queues)]

    def _long_unowned(self, readable: frozenset[Queue], owned: Owned, now_ms: int) -> list[Queue]:
        """Return the queues that have had no owner for long."""
        nobodys = in_order(readable.difference(chain.from_iterable(owned.values())))
        self._unowned = {queue: self._unowned.get(queue, now_ms) for queue in nobodys}
        return [queue for queue, since_ms in self._unowned.items() if now_ms - since_ms >= _UNOWNED_MS]
