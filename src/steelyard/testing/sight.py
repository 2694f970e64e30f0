"""Who looks at a cluster for a test. Ours is looked into, so that no fault of a line is in the way of a look.

Left out: a cluster that is not ours, which can only be asked: testing/external.py.
"""

from typing import Protocol

from steelyard.model.names import DEAD, RETRY, is_system_topic
from steelyard.serve import looking
from steelyard.serve.attendant import Attendant
from steelyard.serve.cluster import RunningCluster
from steelyard.serve.embedded import Cluster
from steelyard.testing.look import GroupLook, Look

__all__ = ["InsideSight", "Sight", "is_users_own"]


class Sight(Protocol):
    """Looks at a cluster."""

    def look(self, topic: str, group: str | None = None) -> Look:
        """Take a look at a topic, and at a group."""

    def topics(self) -> list[str]:
        """List the users' own topics."""


def is_users_own(topic: str) -> bool:
    """Say whether a topic is neither the servers' own nor one that a group brings along."""
    return not is_system_topic(topic) and not topic.startswith((RETRY, DEAD))


class InsideSight:
    """Looks into a cluster of this process."""

    def __init__(self, cluster: Cluster, attendant: Attendant) -> None:
        self._cluster, self._attendant = cluster, attendant

    def look(self, topic: str, group: str | None = None) -> Look:
        """Take a look, all of it in one moment of the cluster."""
        return self._cluster.call(lambda running: self._look(running, topic, group))

    def topics(self) -> list[str]:
        """List the users' own topics."""
        return self._cluster.call(self._own_topics)

    @staticmethod
    def _own_topics(running: RunningCluster) -> list[str]:
        theirs = {running.plan.cluster, f"{running.plan.cluster}_REPLY_TOPIC", *running.broker_addresses}
        return [each for each in looking.topics(running.running_brokers) if is_users_own(each) and each not in theirs]

    def _look(self, running: RunningCluster, topic: str, group: str | None) -> Look:
        brokers, witness = running.running_brokers, self._attendant.witness
        there = {broker.name for broker in brokers}
        return Look(
            topic,
            tuple(looking.messages(brokers, topic)),
            tuple(looking.waiting(brokers)),
            None if group is None else self._group(running, topic, group),
            self._attendant.clock(),
            tuple(self._own_topics(running)),
            tuple(sorted(witness.groups)),
            tuple(witness.refusals),
            tuple(name for name in running.broker_addresses if name not in there),
        )

    def _group(self, running: RunningCluster, topic: str, group: str) -> GroupLook:
        brokers, seen = running.running_brokers, self._attendant.witness.groups.get(group)
        online = tuple(sorted(each for name, each in looking.members(brokers) if name == group))
        again = looking.progress(brokers, f"{RETRY}{group}", group)
        reached = {each.queue: each.committed or 0 for each in again}
        return GroupLook(
            group,
            tuple(looking.progress(brokers, topic, group)),
            tuple(
                copy
                for copy in looking.messages(brokers, f"{RETRY}{group}")
                if copy.offset >= reached.get(copy.queue, 0)
            ),
            tuple(looking.messages(brokers, f"{DEAD}{group}")),
            online,
            tuple(sorted(set(seen.members) - set(online))) if seen else (),
            seen.wanted.get(topic) if seen else None,
            {(broker, queue_id): offset for (name, broker, queue_id), offset in seen.began.items() if name == topic}
            if seen
            else {},
            seen is not None and seen.is_broadcast,
        )
