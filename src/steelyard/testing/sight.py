"""Who looks at a cluster for a test. Ours is looked into, so that no fault of a line is in the way of a look.

Left out: a cluster that is not ours, which can only be asked: testing/elsewhere.py.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from steelyard.model import Queue
from steelyard.model.names import DEAD, RETRY, is_system_topic
from steelyard.serve import looking
from steelyard.serve.attendant import Attendant
from steelyard.serve.cluster import RunningCluster
from steelyard.serve.embedded import Cluster
from steelyard.testing.look import GroupLook, Look

__all__ = ["InsideSight", "Sight", "is_users_own"]

_ANSWER_S = 0.05
"""How long members may take to say how far they are; of one that takes longer its commits count."""
_PAUSE_S = 0.0005


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
        """Take a look, all of it in one moment of the cluster; members are asked before how far they are."""

        async def looking_on(running: RunningCluster) -> Look:
            if group is not None:
                await self._ask_members(running, topic, group)
            return self._look(running, topic, group)

        return self._cluster.run(looking_on)

    async def _ask_members(self, running: RunningCluster, topic: str, group: str) -> None:
        words, loop = self._attendant.words, asyncio.get_running_loop()
        words.ask(running.running_brokers, group, (topic, f"{RETRY}{group}"))
        end_s = loop.time() + _ANSWER_S
        while words.is_waiting and loop.time() < end_s:
            await asyncio.sleep(_PAUSE_S)

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
        words = self._attendant.words.reached(group, online)
        again = [_with_word(each, words) for each in looking.progress(brokers, f"{RETRY}{group}", group)]
        reached = {each.queue: each.committed or 0 for each in again}
        return GroupLook(
            group,
            tuple(_with_word(each, words) for each in looking.progress(brokers, topic, group)),
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


def _with_word(progress: looking.Progress, words: Mapping[Queue, int]) -> looking.Progress:
    """Return how far a group is, by its commits or by the account of who has the queue."""
    word = words.get(progress.queue)
    return progress if word is None else replace(progress, committed=max(word, progress.committed or 0))
