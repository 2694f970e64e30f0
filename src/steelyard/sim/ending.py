"""What is left when a world stands still, put together for the checkers."""

from typing import TYPE_CHECKING

from steelyard.sim.checkers.checker import End
from steelyard.sim.looking import queues_of
from steelyard.sim.members import MemberProcess
from steelyard.sim.resting import Rest
from steelyard.sim.staging import Stage

if TYPE_CHECKING:
    from steelyard.model import Queue

__all__ = ["look_back"]


def look_back(stage: Stage, rest: Rest, healed_ms: int) -> End:
    """Return the end of a history."""
    brokers = list(stage.brokers.values())
    topics = [topic.name for topic in stage.plan.topics] + [f"%RETRY%{group}" for group in stage.groups]
    alive: dict[str, tuple[str, ...]] = {}
    states: dict[str, dict[Queue, str]] = {}
    plans: dict[str, tuple[Queue, ...]] = {}
    for group in stage.groups:
        members = stage.alive(group)
        alive[group] = tuple(member.name for member in members)
        for member in members:
            if isinstance(member, MemberProcess):
                states[member.name] = {queue: state.name for queue, state in member.member.states().items()}
                plans[member.name] = member.member.plan or ()
            else:
                plans[member.name] = member.plan
    return End(
        at_ms=stage.world.now_ms(),
        healed_ms=healed_ms,
        logged=[logged for broker in brokers for logged in broker.logged()],
        committed={key: offset for broker in brokers for key, offset in broker.committed().items()},
        states=states,
        plans=plans,
        alive=alive,
        locks=[lock for broker in brokers for lock in broker.locks()],
        queues={topic: queues_of(brokers, topic) for topic in topics},
        drained=rest.is_sent() and rest.is_drained(),
        settled=rest.is_settled(),
        added=stage.added,
    )
