"""A cluster that is there already, ours or Apache's, as a test sees it.

It cannot be emptied and its clock cannot be moved, so a test is kept apart from all others by its names: each has a
namespace of its own, and `name` tells what a topic or group is called then. At the end what was made is deleted.

It can only be asked and not looked into. So a message that failed and waits for its next attempt counts as handled
until it comes again, and what was refused is not known.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import time_ns
from typing import TypeVar

from steelyard.client.blocking.admin import Admin
from steelyard.client.connect import Connect
from steelyard.errors import GroupNotFound, SteelyardError, TopicNotFound
from steelyard.model import Queue, StoredMessage
from steelyard.model.names import DEAD, RETRY, is_system_topic
from steelyard.serve.looking import Progress
from steelyard.testing.expecting import Expecting
from steelyard.testing.look import GroupLook, Look
from steelyard.testing.sight import is_users_own

__all__ = ["ExternalMq", "external"]

T = TypeVar("T")

_MOST_MESSAGES = 10_000


class _AskedSight:
    """Looks at a cluster by asking it."""

    def __init__(self, admin: Callable[[], Admin]) -> None:
        self._admin = admin

    def look(self, topic: str, group: str | None = None) -> Look:
        """Ask for everything that can be asked for."""
        return Look(
            topic,
            self._messages(topic) if topic else (),
            (),
            None if group is None else self._group(topic, group),
            time_ns() // 1_000_000,
            tuple(self.topics()),
        )

    def topics(self) -> list[str]:
        """List the topics of this test."""
        return [each.name for each in self._admin().topics() if is_users_own(each.name)]

    def _group(self, topic: str, group: str) -> GroupLook:
        reached = {each.queue: each.committed or 0 for each in self._progress(f"{RETRY}{group}", group)}
        return GroupLook(
            group,
            self._progress(topic, group) if topic else (),
            tuple(copy for copy in self._messages(f"{RETRY}{group}") if copy.offset >= reached.get(copy.queue, 0)),
            self._messages(f"{DEAD}{group}"),
            tuple(each.id for each in _if_there(lambda: self._admin().members(group))),
        )

    def _messages(self, topic: str) -> tuple[StoredMessage, ...]:
        return tuple(_if_there(lambda: self._admin().messages(topic, most=_MOST_MESSAGES)))

    def _progress(self, topic: str, group: str) -> tuple[Progress, ...]:
        rows = _if_there(lambda: self._admin().offsets(group, topic))
        return tuple(
            Progress(Queue(topic, row.queue.broker, row.queue.queue_id), 0, row.end, row.committed) for row in rows
        )


class ExternalMq(Expecting):
    """A cluster that is there, under names of this test alone. Make one with `external`."""

    def __init__(self, address: str, namespace: str) -> None:
        """Reach a cluster."""
        super().__init__(Connect(address, namespace=namespace, name="mq"), _AskedSight(lambda: self.admin))

    @property
    def namespace(self) -> str:
        """What is put before all names of this test."""
        return self._connect.namespace

    def clean(self) -> None:
        """Delete the groups and topics of this test; what cannot be deleted, such as a group that is online, stays."""
        for group in _if_there(self.admin.groups):
            with suppress(SteelyardError):
                self.admin.delete_group(group.name, dead_letters=True)
        # System topics are in no namespace: they are everybody's, and listed too.
        names = [each.name for each in _if_there(lambda: self.admin.topics(system=True))]
        for name in names:
            if not is_system_topic(name):
                with suppress(SteelyardError):
                    self.admin.delete_topic(name)


@contextmanager
def external(address: str) -> Iterator[ExternalMq]:
    """Use a cluster that is there under names of one's own, and delete them at the end.

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


def _if_there(ask: Callable[[], list[T]]) -> list[T]:
    try:
        return ask()
    except (TopicNotFound, GroupNotFound):
        return []
