"""Actions: everything that `MemberStateMachine.step` can return, in the order in which it is to be done.

An action says nothing about sockets. Actions for one broker are sent on one connection in the order given. Each request
ends with an event (events.py).
"""

from collections.abc import Mapping, Sequence
from enum import Enum

from msgspec import Struct

from steelyard.model import Queue
from steelyard.model.finding import Finding


class StartAt(Enum):
    """Where to start in a queue without a committed offset (ConsumeFromWhere)."""

    LAST = "last"
    FIRST = "first"
    """At the first message that is still stored."""
    TIME = "time"


class StartPosition(Struct, frozen=True):
    """Where to start; ``time_ms`` with TIME: at the first message stored then or later."""

    at: StartAt = StartAt.LAST
    time_ms: int = 0


class Action(Struct, frozen=True, tag=True, gc=False):
    """Any action."""


class BrokerAction(Action, frozen=True):
    """A request to one broker."""

    broker: str


class QueryRoute(Action, frozen=True):
    """Query a name server for the route of a topic: `RouteReceived` or `RouteFailed`."""

    topic: str


class SendHeartbeat(BrokerAction, frozen=True):
    """Send a heartbeat to a broker: `HeartbeatAcknowledged` or `HeartbeatFailed`."""

    held: Mapping[Queue, int] | None = None
    """The leases that we hold there, with epochs; only in the first heartbeat of a connection."""
    is_leaving: bool = False
    strategy: str | None = None
    subscription_version: int = 0
    """Grows with each change of the owned queues."""
    duplicates_avoided: int = 0
    """Messages of that broker that were finished and committed while their queue was given up."""
    stopped_queues: tuple[str, ...] = ()
    """Queues of that broker that stopped at an unreadable message, and why, in sentences."""


class QueryUptime(BrokerAction, frozen=True):
    """Query a broker's uptime (28): `UptimeReceived`."""


class QueryMemberList(BrokerAction, frozen=True):
    """Query a broker for the members of the group (38): `MemberListReceived` or `MemberListFailed`."""

    request_id: int = 0
    """Distinguishes a list that was requested after something happened from one that was in flight."""


MAX_QUEUES_NAMED = 200
"""Queues named in a probe: they have to fit into a header."""


class ProbeOwnership(BrokerAction, frozen=True):
    """Probe another member through a broker (307): `OwnershipReported` or `OwnershipProbeFailed`."""

    member: str
    waiting_for: tuple[Queue, ...] = ()
    """What we wait for: the other member rebalances."""
    request_id: int = 0
    is_background: bool = False
    """Whether a late answer is as good, since nothing waits for it."""
    asked_ms: int = 0
    """When it is sent: the answer is later."""


class LockQueues(BrokerAction, frozen=True):
    """Lock queues at their broker (41): `LocksAnswered` or `LockFailed`."""

    queues: tuple[Queue, ...]
    lock_group: str
    """The group's own name for orderly members, else the name of its leases."""


class RenewLocks(BrokerAction, frozen=True):
    """Renew locks that we hold (41): `LocksAnswered` or `LockFailed`. It never acquires one."""

    queues: tuple[Queue, ...]
    lock_group: str
    epochs: tuple[int | None, ...] = ()


class UnlockQueues(BrokerAction, frozen=True):
    """Release locks (42): `Unlocked` or `UnlockFailed`."""

    queues: tuple[Queue, ...]
    lock_group: str
    epochs: tuple[int | None, ...] = ()
    owner: str | None = None
    """In whose name, if not ours: a member that died while it acquired the queue."""


class QueryStartOffset(Action, frozen=True):
    """Query the committed offset of a queue, else the start position: `StartOffsetReceived` or `StartOffsetFailed`."""

    queue: Queue
    start: StartPosition


class PullMessages(Action, frozen=True):
    """Pull messages of a queue: `Pulled` or `PullFailed`."""

    queue: Queue
    generation: int
    offset: int
    max_messages: int = 32
    is_long_poll: bool = True
    """Whether the broker may hold the pull until there is something."""


class HandleMessages(Action, frozen=True):
    """Pass messages to a handler, one after the other: `Handled`, once or in parts."""

    queue: Queue
    generation: int
    offsets: Sequence[int]
    messages: Sequence[object]
    fence: int | None
    """The epoch of the lock, for a sink that can compare it (fencing token)."""
    attempt: int = 0
    """How often this member tried these messages before, in order."""


class Commit(Action, frozen=True):
    """Commit an offset (15): `CommitConfirmed`, `CommitRefused` or `CommitFailed`."""

    queue: Queue
    offset: int
    epoch: int | None = None


class SendBackMessage(Action, frozen=True):
    """Send a failed message back to its broker (36): `SentBack` or `SendBackFailed`."""

    queue: Queue
    generation: int
    offset: int
    message: object
    delay_level: int = 0
    """0 lets the broker choose by the number of attempts; -1 sends it to the dead letters."""
    error: str = ""
    """Why it failed, which the retry or the dead letter has as a property."""
    as_copy: bool = False
    """Whether to send a copy to the dead letters instead, since 36 brings no error to Apache's brokers."""
    is_unreadable: bool = False
    """Whether its body cannot be read: the copy is not marked as compressed."""


class UnregisterMember(BrokerAction, frozen=True):
    """Unregister from a broker (35). No event follows."""

    duplicates_avoided: int = 0
    """As in a `SendHeartbeat`: most of them are counted while a member leaves, after its last heartbeat."""


class MemberReport(Action, frozen=True):
    """Report to the user: acquired or lost queues, a finding, a limit that was hit."""

    kind: str
    """``taken``, ``released``, ``lost``, ``drain-timeout``, ``late-result``, ``warning``, ``degraded`` …"""
    sentence: str
    queues: tuple[Queue, ...] = ()
    facts: Mapping[str, object] = {}
    finding: Finding | None = None
    """The finding whose sentence it is."""


def finding_report(finding: Finding) -> MemberReport:
    """Make the report of a finding."""
    return MemberReport("warning", str(finding), finding=finding)


class MemberLeft(Action, frozen=True):
    """The member has left: its connections may be closed."""
