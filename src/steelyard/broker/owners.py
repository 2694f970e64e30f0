"""Who holds which of this broker's queues, in the short form that lists and the history of moves have."""

from steelyard.broker.members import MemberGroup
from steelyard.broker.membership import queue_counts
from steelyard.broker.state import State

__all__ = ["owners_of"]


def owners_of(state: State, group: MemberGroup, now_ms: int) -> dict[str, tuple[int, ...]]:
    """Return for each topic that the group wants, and each of its queues, the place of its holder among the ids.

    -1 stands for nobody, and for somebody who is no member.
    """
    places = {client_id: place for place, client_id in enumerate(group.ids)}
    owners = {topic: [-1] * count for topic, count in queue_counts(state, group).items()}
    for (topic, queue_id), lock in state.locks.of(group.name, now_ms):
        row = owners.get(topic, ())
        if queue_id < len(row):
            owners[topic][queue_id] = places.get(lock.owner, -1)
    return {topic: tuple(row) for topic, row in owners.items()}
