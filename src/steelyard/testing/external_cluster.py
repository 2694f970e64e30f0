"""An existing cluster, ours or Apache's, in a test, isolated by a namespace of its own that is deleted at the end.

It only answers requests. So a message that failed and waits for its next attempt counts as handled until it is
redelivered, and rejected requests are unknown.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import time_ns
from typing import TypeVar

from steelyard.client.config import ClientConfig
from steelyard.client.sync.admin import Admin
from steelyard.errors import GroupNotFound, SteelyardError, TopicNotFound
from steelyard.model import Queue, StoredMessage
from steelyard.model.reserved_names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from steelyard.testing.broker_inspection import ConsumeProgress
from steelyard.testing.cluster_under_test import ClusterUnderTest
from steelyard.testing.inspector import is_user_topic
from steelyard.testing.snapshots import ConsumerGroupSnapshot, TopicSnapshot

T = TypeVar("T")

_MAX_MESSAGES = 10_000


class _AdminInspector:
    """Takes snapshots of a cluster by requests."""

    def __init__(self, admin: Callable[[], Admin]) -> None:
        self._admin = admin

    def inspect(self, topic: str, group: str | None = None) -> TopicSnapshot:
        """Request everything that an administrator may."""
        return TopicSnapshot(
            topic,
            self._messages(topic) if topic else (),
            (),
            None if group is None else self._inspect_group(topic, group),
            time_ns() // 1_000_000,
            tuple(self.topics()),
        )

    def topics(self) -> list[str]:
        """List the topics of this test."""
        return [each.name for each in self._admin().topics.list() if is_user_topic(each.name)]

    def _inspect_group(self, topic: str, group: str) -> ConsumerGroupSnapshot:
        reached = {each.queue: each.committed or 0 for each in self._progress(f"{RETRY_PREFIX}{group}", group)}
        return ConsumerGroupSnapshot(
            group,
            self._progress(topic, group) if topic else (),
            tuple(
                copy for copy in self._messages(f"{RETRY_PREFIX}{group}") if copy.offset >= reached.get(copy.queue, 0)
            ),
            self._messages(f"{DLQ_PREFIX}{group}"),
            tuple(each.id for each in _or_empty(lambda: self._admin().groups.members(group))),
        )

    def _messages(self, topic: str) -> tuple[StoredMessage, ...]:
        return tuple(_or_empty(lambda: self._admin().messages.list(topic, most=_MAX_MESSAGES)))

    def _progress(self, topic: str, group: str) -> tuple[ConsumeProgress, ...]:
        rows = _or_empty(lambda: self._admin().offsets.list(group, topic))
        return tuple(
            ConsumeProgress(Queue(topic, row.queue.broker, row.queue.queue_id), 0, row.end, row.committed)
            for row in rows
        )


class ExternalMq(ClusterUnderTest):
    """An existing cluster, in a namespace of this test. Make one with `external`."""

    def __init__(self, address: str, namespace: str) -> None:
        """Connect to a cluster."""
        super().__init__(ClientConfig(address, namespace=namespace, name="mq"), _AdminInspector(lambda: self.admin))

    @property
    def namespace(self) -> str:
        """The namespace of this test."""
        return self._config.namespace

    def clean(self) -> None:
        """Delete the groups and topics of this test; what cannot be deleted, such as a group that is online, stays."""
        for group in _or_empty(self.admin.groups.list):
            with suppress(SteelyardError):
                self.admin.groups.delete(group.name, dead_letters=True)
        # System topics are in no namespace, and listed too.
        names = [each.name for each in _or_empty(lambda: self.admin.topics.list(system=True))]
        for name in names:
            if not is_system_topic(name):
                with suppress(SteelyardError):
                    self.admin.topics.delete(name)


@contextmanager
def external(address: str) -> Iterator[ExternalMq]:
    """Use an existing cluster in a new namespace, and delete its contents at the end.

    >>> from steelyard.serve.embedded import Cluster
    >>> with Cluster() as there, external(there.namesrv) as mq:
    ...     sent = mq.send("orders", b"{}")
    ...     len(mq.sent("orders")), mq.name("orders") == f"{mq.namespace}%orders"
    (1, True)
    """
    mq = ExternalMq(address, f"test-{secrets.token_hex(6)}")
    try:
        yield mq
    finally:
        with suppress(SteelyardError):
            mq.clean()
        mq.close_clients()


def _or_empty(request: Callable[[], list[T]]) -> list[T]:
    try:
        return request()
    except (TopicNotFound, GroupNotFound):
        return []
