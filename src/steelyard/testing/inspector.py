"""Inspects a cluster for a test. Ours is read in memory, so that no injected fault is in the way."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from steelyard.model import Queue
from steelyard.model.reserved_names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from steelyard.serve.cluster import RunningCluster
from steelyard.serve.embedded import Cluster
from steelyard.testing import broker_inspection
from steelyard.testing.broker_inspection import ConsumeProgress
from steelyard.testing.fault_host import FaultHost
from steelyard.testing.snapshots import ConsumerGroupSnapshot, TopicSnapshot

_MEMBER_TIMEOUT_S = 0.05
"""How long members may take to report their progress; of a slower one the committed offsets count."""
_PAUSE_S = 0.0005


class ClusterInspector(Protocol):
    """Takes snapshots of a cluster."""

    def inspect(self, topic: str, group: str | None = None) -> TopicSnapshot:
        """Take a snapshot of a topic, and of a group."""

    def topics(self) -> list[str]:
        """List the user topics."""


def is_user_topic(topic: str) -> bool:
    """Say whether a topic is neither a system topic nor one for retries or dead letters."""
    return not is_system_topic(topic) and not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


class EmbeddedInspector:
    """Reads a cluster of this process."""

    def __init__(self, cluster: Cluster, fault_host: FaultHost) -> None:
        self._cluster, self._fault_host = cluster, fault_host

    def inspect(self, topic: str, group: str | None = None) -> TopicSnapshot:
        """Take a snapshot at one moment of the cluster; members are asked for their progress before."""

        async def inspect(running: RunningCluster) -> TopicSnapshot:
            if group is not None:
                await self._poll_members(running, topic, group)
            return self._inspect(running, topic, group)

        return self._cluster.run(inspect)

    async def _poll_members(self, running: RunningCluster, topic: str, group: str) -> None:
        probe, loop = self._fault_host.member_probe, asyncio.get_running_loop()
        probe.request_offsets(running.running_brokers, group, (topic, f"{RETRY_PREFIX}{group}"))
        end_s = loop.time() + _MEMBER_TIMEOUT_S
        while probe.is_waiting and loop.time() < end_s:
            await asyncio.sleep(_PAUSE_S)

    def topics(self) -> list[str]:
        """List the user topics."""
        return self._cluster.call(self._user_topics)

    @staticmethod
    def _user_topics(running: RunningCluster) -> list[str]:
        own = {running.plan.cluster, f"{running.plan.cluster}_REPLY_TOPIC", *running.broker_addresses}
        return [
            each
            for each in broker_inspection.topic_names(running.running_brokers)
            if is_user_topic(each) and each not in own
        ]

    def _inspect(self, running: RunningCluster, topic: str, group: str | None) -> TopicSnapshot:
        brokers, log = running.running_brokers, self._fault_host.request_log
        up = {broker.name for broker in brokers}
        return TopicSnapshot(
            topic,
            tuple(broker_inspection.stored_messages(brokers, topic)),
            tuple(broker_inspection.delayed_messages(brokers)),
            None if group is None else self._inspect_group(running, topic, group),
            self._fault_host.clock(),
            tuple(self._user_topics(running)),
            tuple(sorted(log.groups)),
            tuple(log.refusals),
            tuple(name for name in running.broker_addresses if name not in up),
        )

    def _inspect_group(self, running: RunningCluster, topic: str, group: str) -> ConsumerGroupSnapshot:
        brokers, seen = running.running_brokers, self._fault_host.request_log.groups.get(group)
        online = tuple(sorted(each for name, each in broker_inspection.connected_members(brokers) if name == group))
        reported = self._fault_host.member_probe.offsets_of(group, online)

        def progress(topic: str) -> tuple[ConsumeProgress, ...]:
            found = broker_inspection.consume_progress(brokers, topic, group)
            return tuple(_with_member_progress(each, reported) for each in found)

        first = {} if seen is None else seen.first_offsets
        starts = {place[1:]: offset for place, offset in first.items() if place[0] == topic}
        reached = {each.queue: each.committed or 0 for each in progress(f"{RETRY_PREFIX}{group}")}
        return ConsumerGroupSnapshot(
            group,
            progress(topic),
            tuple(
                copy
                for copy in broker_inspection.stored_messages(brokers, f"{RETRY_PREFIX}{group}")
                if copy.offset >= reached.get(copy.queue, 0)
            ),
            tuple(broker_inspection.stored_messages(brokers, f"{DLQ_PREFIX}{group}")),
            online,
            tuple(sorted(set(seen.members) - set(online))) if seen else (),
            seen.subscriptions.get(topic) if seen else None,
            starts,
            seen is not None and seen.is_broadcast,
        )


def _with_member_progress(progress: ConsumeProgress, reached: Mapping[Queue, int]) -> ConsumeProgress:
    """Return the progress of a group by its commits, or by the report of the queue's owner."""
    offset = reached.get(progress.queue)
    return progress if offset is None else replace(progress, committed=max(offset, progress.committed or 0))
