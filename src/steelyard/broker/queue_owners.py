"""Queue owners: which member holds which of this broker's queues, in the compact form of member lists and history."""

from steelyard.broker.client_expiry import queue_counts
from steelyard.broker.consumer_registry import ConsumerGroup
from steelyard.broker.state import BrokerCoreState

__all__ = ["owners_by_topic"]


def owners_by_topic(state: BrokerCoreState, group: ConsumerGroup, now_ms: int) -> dict[str, tuple[int, ...]]:
    """Return, for each subscribed topic and queue, the index of its owner among the ids; -1 if no member owns it."""
    indexes = {client_id: index for index, client_id in enumerate(group.ids)}
    owners = {topic: [-1] * count for topic, count in queue_counts(state, group).items()}
    for (topic, queue_id), lock in state.queue_locks.held_queues(group.name, now_ms):
        row = owners.get(topic, ())
        if queue_id < len(row):
            owners[topic][queue_id] = indexes.get(lock.owner, -1)
    return {topic: tuple(row) for topic, row in owners.items()}
