"""What clients requested of a cluster, kept to explain failed tests.

A broker forgets members that left and their subscriptions, and keeps no refusals. This keeps who was in which group,
the subscriptions and first offsets of each group, the client of each connection, and the last refusals. It sees
commands and replies, and changes nothing.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from steelyard.errors import SteelyardError
from steelyard.model import Subscription
from steelyard.net.server import Replies
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.heartbeat import HeartbeatBody, MessageModel
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command, Peer, Reply
from steelyard.wire.headers.pull import PullMessage

__all__ = ["LoggedConnection", "LoggedGroup", "RequestLog"]

_MAX_REFUSALS = 50
_MAX_CONNECTIONS = 10_000
_RESULT_CODES = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
        ResponseCode.QUERY_NOT_FOUND,
    }
)
"""Response codes that are not refusals."""
_EXISTENCE_CHECKS = frozenset({RequestCode.GET_TOPIC_CONFIG, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG})
"""Here "not found" is a result: a client that creates a topic checks first."""
_PULLS = frozenset({RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE})


@dataclass(slots=True)
class LoggedGroup:
    """What a group did."""

    members: dict[str, str] = field(default_factory=dict)
    """The ids of all members so far, with their last addresses."""
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    """By topic, as of the last heartbeat."""
    first_offsets: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """The lowest offset that was pulled, by topic, broker and queue."""
    is_broadcast: bool = False


@dataclass(slots=True)
class LoggedConnection:
    """What a connection did."""

    address: str
    client_id: str | None = None
    last_request: str = ""
    """The name of the last request."""


class RequestLog:
    """The requests to all brokers of a cluster. Used on the servers' loop only."""

    def __init__(self) -> None:
        self.groups: dict[str, LoggedGroup] = {}
        self.connections: dict[int, LoggedConnection] = {}
        """By connection id; the oldest are dropped when there are very many."""
        self.refusals: deque[str] = deque(maxlen=_MAX_REFUSALS)

    def record(self, broker: str, command: Command, peer: Peer, replies: Replies) -> None:
        """Record a request and the broker's immediate replies."""
        if command.is_response:
            return
        connection = self.connections.get(peer.connection_id)
        if connection is None:
            if len(self.connections) >= _MAX_CONNECTIONS:
                del self.connections[next(iter(self.connections))]
            connection = self.connections[peer.connection_id] = LoggedConnection(peer.address)
        connection.last_request = _request_name(command.code)
        try:
            if command.code == RequestCode.HEART_BEAT:
                connection.client_id = self._record_heartbeat(decode_body(HeartbeatBody, command.body), peer)
            elif command.code in _PULLS:
                self._record_pull(broker, command.header(PullMessage))
        except SteelyardError:
            pass  # the broker refuses what cannot be decoded: recorded below
        if command.code not in _EXISTENCE_CHECKS:
            self._record_refusals(broker, connection, replies)

    def _record_heartbeat(self, heartbeat: HeartbeatBody, peer: Peer) -> str:
        for consumer in heartbeat.consumers:
            group = self.groups.setdefault(consumer.group, LoggedGroup())
            group.members[heartbeat.client_id] = peer.address
            group.is_broadcast = consumer.model is MessageModel.BROADCASTING
            for each in consumer.subscriptions:
                group.subscriptions[each.topic] = each.subscription()
        return heartbeat.client_id

    def _record_pull(self, broker: str, pull: PullMessage) -> None:
        group = self.groups.setdefault(pull.consumer_group, LoggedGroup())
        queue = pull.topic, broker, pull.queue_id
        group.first_offsets[queue] = min(pull.queue_offset, group.first_offsets.get(queue, pull.queue_offset))

    def _record_refusals(self, broker: str, connection: LoggedConnection, replies: Replies) -> None:
        for response in _responses(replies):
            if response.code not in _RESULT_CODES:
                who = connection.client_id or connection.address
                self.refusals.append(
                    f"{broker} refused {connection.last_request} of {who}: {response.remark or response.code}"
                )


def _responses(replies: Replies) -> Iterable[Command]:
    return (reply.command for reply in replies if isinstance(reply, Reply) and reply.command.is_response)


def _request_name(code: int) -> str:
    try:
        return RequestCode(code).name
    except ValueError:
        return f"request {code}"
