"""When a healed world is at rest: all is handled and committed, and every queue is with its one owner.

It is asked often, so the cheap questions come first. What it says only decides when to stop waiting; whether the world
is as it should be is for the checkers to say.
"""

from steelyard.model import Queue
from steelyard.sim.backlog import Backlog
from steelyard.sim.looking import committed_in, end_of, open_halves, queues_of
from steelyard.sim.members import MemberProcess
from steelyard.sim.plan import FaultKind
from steelyard.sim.staging import Stage

__all__ = ["Rest"]


class Rest:
    """Looks whether a world is at rest."""

    def __init__(self, stage: Stage, backlog: Backlog) -> None:
        self._stage, self._backlog = stage, backlog
        self._loses_power = any(fault.kind is FaultKind.POWER for fault in stage.plan.faults)

    def __call__(self) -> bool:
        """Say whether there is nothing more to wait for."""
        return self.is_sent() and self.is_settled() and self.is_drained()

    def is_sent(self) -> bool:
        """Whether every producer is done, every topic made and every transaction ended."""
        stage = self._stage
        if not stage.operator.is_done or not all(each.is_done for each in stage.producers.values()):
            return False
        return not any(open_halves(broker) for broker in stage.brokers.values())

    def is_settled(self) -> bool:
        """Whether every queue of every group has exactly one owner, and nobody does anything else."""
        return all(self._is_shared(group) for group in self._stage.groups)

    def _is_shared(self, group: str) -> bool:
        mode = self._stage.groups[group].mode
        wanted = self._queues(group)
        held: list[Queue] = []
        for member in self._stage.alive(group):
            if isinstance(member, MemberProcess):
                states, plan = member.member.states(), member.member.plan
                if plan is None or sorted(states) != sorted(plan):
                    return False
                if any(state.name != "OWNED" for state in states.values()):
                    return False
                mine = list(states)
            else:
                mine = list(member.held())
            if mode == "broadcast" and sorted(mine) != wanted:
                return False
            held += mine
        return mode == "broadcast" or sorted(held) == wanted

    def _queues(self, group: str) -> list[Queue]:
        """List the queues that members of a group have to share."""
        plan = self._stage.groups[group]
        topics = [*plan.topics] if plan.mode == "broadcast" else [*plan.topics, f"%RETRY%{group}"]
        return sorted(queue for topic in topics for queue in queues_of(self._stage.brokers.values(), topic))

    def is_drained(self) -> bool:
        """Whether all that is stored was handled and committed."""
        names = frozenset(member.name for group in self._stage.groups for member in self._stage.alive(group))
        waiting = self._backlog.left(names)
        if waiting and not waiting.isdisjoint(self._stored() if self._loses_power else waiting):
            return False
        return all(self._is_committed(group.name) for group in self._stage.groups.values() if group.mode != "broadcast")

    def _stored(self) -> set[str]:
        """Return what brokers have, where power was lost: what went with it is not waited for.

        Nor is what a group has passed over on a broker that answers before a message is safe: who was ahead of what is
        left there does not see what is stored next.
        """
        stage = self._stage
        there: set[str] = set()
        passed: set[str] = set()
        for broker in stage.brokers.values():
            for logged in broker.logged():
                groups = [group.name for group in stage.groups.values() if logged.queue.topic in group.topics]
                is_behind = any(logged.offset < committed_in(broker, group, logged.queue) for group in groups)
                (passed if is_behind and not stage.is_safe[broker.name] else there).add(logged.uid)
        return there - passed

    def _is_committed(self, group: str) -> bool:
        brokers = self._stage.brokers
        return all(
            committed_in(brokers[queue.broker], group, queue) >= end_of(brokers[queue.broker], queue)
            for queue in self._queues(group)
        )
