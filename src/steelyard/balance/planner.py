"""The plan of one member as it stands, and how it is replaced at the end of a look around.

The rules: a queue that its holder alone can give up stays in the plan; a change of strategy is told once, and what is
wrong in the group too, while it lasts (watching.py).

Left out: how a plan is made (planning.py), and when (views.py).
"""

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, TypeAlias

from steelyard.balance.actions import Action, Report
from steelyard.balance.events import HoldersSeen
from steelyard.balance.hazards import Hazard, unanswering_members
from steelyard.balance.lines import Lines
from steelyard.balance.lists import Sight
from steelyard.balance.member_options import MemberOptions
from steelyard.balance.owners import OwnersSeen
from steelyard.balance.planning import Group, plan_for
from steelyard.balance.rounds import NEVER_MS
from steelyard.balance.routes import Routes
from steelyard.balance.watching import Watching
from steelyard.model import Queue, in_order

if TYPE_CHECKING:
    from steelyard.balance.allocate.strategy import Owned

__all__ = ["Held", "Planner"]

Held: TypeAlias = Callable[[], Collection[Queue]]
"""What the member holds at this moment."""


class Planner:
    """Keeps the plan."""

    def __init__(self, options: MemberOptions, lines: Lines, routes: Routes) -> None:
        self.held_by_me: Held = tuple
        self.plan: tuple[Queue, ...] | None = None
        """The queues of this member, in order; None: none was made yet."""
        self.members: tuple[str, ...] = ()
        """Whom it was made for, in order."""
        self.strategy_name = options.strategy.name
        self.changed_ms = 0
        """When the plan, its members or its routes last changed."""
        self.again_ms = NEVER_MS
        """When time alone changes it."""
        self.owned: Owned | None = None
        """What each member had when the plan was made; None: that is not known."""
        self._options = options
        self._lines = lines
        self._routes = routes
        self._watching = Watching(options)

    def share(self, sight: Sight, owners: OwnersSeen, hazards: Iterable[str], now_ms: int) -> list[Action]:
        """Plan anew from a sight of the group and of its owners, and tell what is worth telling."""
        owned = owners.owned
        queues = self._routes.by_topic()
        group = Group(sight.members, queues, owned, sight.topics, sight.has_foreign, owners.unheard)
        self.owned = owned
        outcome = plan_for(self._options, group, self.plan or ())
        if sight.members != self.members:
            self.members = sight.members
            self.changed_ms = now_ms
        self._replace(outcome.queues, now_ms)
        failures = (
            f"the strategy {outcome.strategy_name} failed for {topic}, where nothing changes hands now: {why}"
            for topic, why in outcome.skipped.items()
        )
        told = self._tell_of_strategy(outcome.strategy_name, sight)
        silent = (hazard.sentence for hazard in unanswering_members(self._options.group, owners.unanswering))
        said = [*hazards, *silent, *failures]
        return told + self._watching.look(sight, outcome.queues, self._routes.readable, owned, said, now_ms)

    def told(self, event: HoldersSeen) -> None:
        """Take note of what a member said of its subscriptions."""
        if event.filters:
            self._watching.told(event.member, event.filters)

    @property
    def hazards(self) -> tuple[Hazard, ...]:
        """What looked wrong in the group."""
        return self._watching.hazards

    def read_all(self, now_ms: int) -> None:
        """Plan as a broadcasting member does: every queue there is."""
        self.members = (self._options.id,)
        self._replace(tuple(in_order(self._routes.readable)), now_ms)

    def _replace(self, queues: tuple[Queue, ...], now_ms: int) -> None:
        stranded = self._stranded(now_ms)
        if stranded:
            queues = tuple(in_order({*queues, *stranded}))
        if queues != self.plan:
            self.plan = queues
            self.changed_ms = now_ms

    def _stranded(self, now_ms: int) -> list[Queue]:
        """Return what we hold at brokers that can neither be reached nor found in a route, for a while."""
        self.again_ms = NEVER_MS
        stranded = []
        for queue in self.held_by_me():
            gone_ms = self._routes.gone_ms(queue)
            if gone_ms is None or self._lines.is_open(queue.broker):
                continue
            lost_ms = gone_ms + self._options.times.broker_gone_ms
            if now_ms < lost_ms:
                stranded.append(queue)
                self.again_ms = min(self.again_ms, lost_ms)
        return stranded

    def _tell_of_strategy(self, name: str, sight: Sight) -> list[Action]:
        if name == self.strategy_name:
            return []
        before, self.strategy_name = self.strategy_name, name
        wanted = self._options.strategy.name
        if name == wanted:
            kind, why = "restored", "all members are ours, and few enough to be asked what they hold"
        elif sight.has_foreign:
            kind, why = "degraded", "some members are not ours, and all must share alike"
        else:
            kind, why = "degraded", f"{wanted} needs to know who owns what, and there are too many members to ask"
        return [Report(kind, f"group {self._options.group} shares queues by {name} now, not by {before}: {why}")]
