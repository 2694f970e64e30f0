"""What a member does, told as facts: its rounds, its plans, and how each of its queues moves from state to state.

Only what changed is told, by comparing with what was told last.
"""

from collections.abc import Callable

from steelyard.balance.life import State
from steelyard.balance.member import Member
from steelyard.balance.member_options import MemberOptions
from steelyard.model import Queue
from steelyard.sim.facts import Fact, Moved, Planned, RoundBegan

__all__ = ["ABSENT", "MemberWatch"]

ABSENT = "absent"
"""The state of a queue that a member does not have."""


class MemberWatch:
    """Looks at a member after each of its steps."""

    def __init__(
        self, member: Member, options: MemberOptions, tell: Callable[[Fact], None], now_ms: Callable[[], int]
    ) -> None:
        self._member, self._tell, self._now_ms = member, tell, now_ms
        self._id, self._group = options.id, options.group
        self._rounds = 0
        self._plan: tuple[Queue, ...] | None = None
        self._states: dict[Queue, State] = {}

    def look(self) -> None:
        """Tell what is different from the last time."""
        member = self._member
        if member.rounds != self._rounds:
            self._rounds = member.rounds
            self._tell(RoundBegan(at_ms=self._now_ms(), member=self._id, group=self._group))
        plan = member.plan
        if plan is not self._plan:
            if plan is not None and plan != self._plan:
                self._tell_plan(plan)
            self._plan = plan
        self._tell_moves()

    def _tell_plan(self, plan: tuple[Queue, ...]) -> None:
        self._tell(
            Planned(
                at_ms=self._now_ms(),
                member=self._id,
                group=self._group,
                queues=plan,
                strategy=self._member.strategy_name,
                members=self._member.members,
            )
        )

    def _tell_moves(self) -> None:
        before, after = self._states, self._member.states()
        if after == before:
            return
        self._states = after
        for queue in sorted(before.keys() | after.keys()):
            old, new = before.get(queue, State.ABSENT), after.get(queue, State.ABSENT)
            if old is not new:
                self._tell_move(queue, old, new)

    def _tell_move(self, queue: Queue, before: State, after: State) -> None:
        self._tell(
            Moved(
                at_ms=self._now_ms(),
                member=self._id,
                group=self._group,
                queue=queue,
                before=_name(before),
                after=_name(after),
            )
        )


def _name(state: State) -> str:
    return ABSENT if state is State.ABSENT else state.name
