"""What can be seen in the brokers of a world, whichever kind they are, without asking them a thing on the wire."""

from collections.abc import Collection
from typing import TypeAlias

from steelyard.model import Queue
from steelyard.sim.apache.broker import ApacheBrokerProcess
from steelyard.sim.servers import BrokerProcess

__all__ = ["AnyBroker", "committed_in", "end_of", "open_halves", "queues_of"]

AnyBroker: TypeAlias = BrokerProcess | ApacheBrokerProcess


def queues_of(brokers: Collection[AnyBroker], topic: str) -> list[Queue]:
    """List the readable queues of a topic, in order."""
    found: list[Queue] = []
    for broker in brokers:
        if isinstance(broker, ApacheBrokerProcess):
            found += broker.queues(topic)
        elif broker.broker is not None:
            known = broker.broker.state.topics.get(topic)
            count = 0 if known is None else known.settings.read_queues
            found += [Queue(topic, broker.name, number) for number in range(count)]
    return sorted(found)


def end_of(broker: AnyBroker, queue: Queue) -> int:
    """Return the offset that the next message of a queue gets."""
    if isinstance(broker, ApacheBrokerProcess):
        return broker.state.log.end(queue.topic, queue.queue_id)
    return 0 if broker.broker is None else broker.broker.state.store.bounds(queue.topic.encode(), queue.queue_id)[1]


def committed_in(broker: AnyBroker, group: str, queue: Queue) -> int:
    """Return what a group has committed in a queue; 0 if nothing."""
    offset: int | None = None
    if isinstance(broker, ApacheBrokerProcess):
        offset = broker.state.offsets.get(group, queue)
    elif broker.broker is not None:
        offset = broker.broker.state.offsets.get(group, queue.topic, queue.queue_id)
    return 0 if offset is None else offset


def open_halves(broker: AnyBroker) -> int:
    """Count the transactions of a broker that are neither committed nor rolled back."""
    if isinstance(broker, ApacheBrokerProcess):
        return broker.state.kept.halves.open
    return 0 if broker.broker is None else len(broker.broker.state.halves.open)
