"""The actions of a member as requests to a broker or a name server, each with a timeout.

34 HEART_BEAT          the member, its subscriptions, and an extension for Steelyard brokers: its process, interval and
                       strategy, whether it leaves, and (first on a connection) the leases that it holds
35 UNREGISTER_CLIENT   the member has left
28, 38, 105            queries for the uptime, the members of the group, the route of a topic
307                    probes another member through a broker; ``steelyardWants`` makes it rebalance
41, 42                 locks, with the epochs of those that are held; a renewal is marked as one
14, 15                 query and commit an offset, with the epoch of the lock if the broker gave one
11                     a pull may be held for 15 s. It never carries a commit, because two requests of a connection may
                       be executed in the other order; nor the subscription, which the heartbeat carried
36                     a failed message, named by its position in the log, and for Steelyard brokers why it failed
310                    the copy of a message as a dead letter (dead_letters.py)

A pull carries the version of its subscription, and no heartbeat has a lower one: otherwise a broker that has not
processed the newest heartbeat yet would refuse the pull (25).
"""

from typing import NamedTuple

from steelyard.balance.group.actions import (
    MAX_QUEUES_NAMED,
    Action,
    Commit,
    LockQueues,
    ProbeOwnership,
    PullMessages,
    QueryMemberList,
    QueryRoute,
    QueryStartOffset,
    QueryUptime,
    RenewLocks,
    SendBackMessage,
    SendHeartbeat,
    StartAt,
    UnlockQueues,
    UnregisterMember,
)
from steelyard.balance.group.options import ConsumeMode, MemberOptions
from steelyard.errors import ConfigurationError
from steelyard.model import StoredMessage, Subscription
from steelyard.protocol.dead_letters import dead_letter_header, unreadable_letter_header
from steelyard.protocol.offset_lookup import FindStartOffset, QueryStoredOffset, start_offset_request
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies import heartbeat as beats
from steelyard.wire.bodies.queue_assignment import LockExtension, LockRequest
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import CommandFields
from steelyard.wire.headers import group as about_groups
from steelyard.wire.headers import pull as about_pulls
from steelyard.wire.headers import send as about_sends
from steelyard.wire.headers.common import GroupRequest
from steelyard.wire.headers.nameserver import GetRoute
from steelyard.wire.json_body import QueueRef

RequestAction = Action | FindStartOffset | QueryStoredOffset
"""Whatever becomes a request: actions of a member, and the queries that may follow from a response."""

_REQUEST_TIMEOUT_MS = 3_000
_OFFSET_TABLE_TIMEOUT_MS = 10_000
_PULL_TIMEOUT_MS = 30_000
_LONG_POLL_MS = 15_000
_SUSPEND_FLAG = 2

_UNKNOWN_EPOCH = -1
"""For an epoch that is not known."""

_MAX_STOPPED_QUEUES = 8
_MAX_STOPPED_LENGTH = 500
"""Only a few stopped queues are sent: people look at them one by one."""

_NO_FIELDS: CommandFields = {}

_START_FROM = {
    StartAt.LAST: beats.ConsumeFromWhere.LAST_OFFSET,
    StartAt.FIRST: beats.ConsumeFromWhere.FIRST_OFFSET,
    StartAt.TIME: beats.ConsumeFromWhere.TIMESTAMP,
}


class EncodedRequest(NamedTuple):
    """A request without an opaque. ``server`` is a broker's name, None for a name server."""

    server: str | None
    code: int
    fields: CommandFields = _NO_FIELDS
    body: bytes = b""
    timeout_ms: int = _REQUEST_TIMEOUT_MS


def all_subscriptions(options: MemberOptions) -> dict[str, Subscription]:
    """Return the subscriptions of a member, with the retry topic if it has one."""
    wanted = dict(sorted(options.subscriptions.items()))
    if options.reads_retries:
        newest = max(each.version for each in wanted.values())
        wanted[options.retry_topic] = Subscription(options.retry_topic, version=newest)
    return wanted


class MemberRequests:
    """Makes the requests of one member; each kind of action has its own method."""

    def __init__(self, options: MemberOptions, instance: str) -> None:
        self._options, self._instance = options, instance
        self._subscriptions = all_subscriptions(options)
        self._versions = {topic: each.version for topic, each in self._subscriptions.items()}

    def encode(self, action: RequestAction) -> EncodedRequest | None:
        """Return the request of an action that is no pull; None for actions that need no server."""
        match action:
            case Commit():
                return self.commit(action)
            case QueryStartOffset():
                return self.query_offset(action)
            case FindStartOffset():
                return EncodedRequest(action.queue.broker, *start_offset_request(action))
            case QueryStoredOffset():
                return EncodedRequest(
                    action.queue.broker, Code.GET_ALL_CONSUMER_OFFSET, timeout_ms=_OFFSET_TABLE_TIMEOUT_MS
                )
            case LockQueues() | RenewLocks():
                return self.lock(action)
            case UnlockQueues():
                return self.unlock(action)
            case SendBackMessage():
                return self.send_back(action)
            case _:
                return self._encode_membership(action)

    def _encode_membership(self, action: RequestAction) -> EncodedRequest | None:
        match action:
            case QueryMemberList():
                return self.member_list(action)
            case ProbeOwnership():
                return self.ownership_probe(action)
            case SendHeartbeat():
                return self.heartbeat(action)
            case QueryRoute():
                return EncodedRequest(None, Code.GET_ROUTEINFO_BY_TOPIC, GetRoute(action.topic))
            case QueryUptime():
                return EncodedRequest(action.broker, Code.GET_BROKER_RUNTIME_INFO)
            case UnregisterMember():
                return self.unregister(action)
            case _:
                return None

    def heartbeat(self, action: SendHeartbeat) -> EncodedRequest:
        """34: the member and its subscriptions."""
        options = self._options
        consumer = beats.ConsumerHeartbeat(
            start_from=_START_FROM[options.start.at],
            kind=beats.ConsumeType.PUSH if options.has_retries else beats.ConsumeType.PULL,
            group=options.group,
            model=(
                beats.MessageModel.BROADCASTING
                if options.mode is ConsumeMode.BROADCAST
                else beats.MessageModel.CLUSTERING
            ),
            subscriptions=tuple(
                self._subscription(each, action.subscription_version) for each in self._subscriptions.values()
            ),
        )
        body = beats.HeartbeatBody(
            client_id=options.id, consumers=(consumer,), steelyard=self._heartbeat_extension(action)
        )
        return EncodedRequest(action.broker, Code.HEART_BEAT, body=encode_body(body))

    def _subscription(self, wanted: Subscription, version: int) -> beats.SubscriptionBody:
        return beats.SubscriptionBody(
            hashes=wanted.tag_hashes,
            kind=wanted.expression_type.value,
            expression=wanted.expression,
            version=wanted.version + version,
            tags=wanted.tags,
            topic=wanted.topic,
        )

    def _heartbeat_extension(self, action: SendHeartbeat) -> beats.HeartbeatExtension:
        about = beats.HeartbeatGroupExtension(
            strategy=action.strategy,
            held=_held_by_topic(action),
            avoided=action.duplicates_avoided or None,
            stopped=tuple(sentence[:_MAX_STOPPED_LENGTH] for sentence in action.stopped_queues[:_MAX_STOPPED_QUEUES])
            or None,
        )
        return beats.HeartbeatExtension(
            groups={self._options.group: about},
            heartbeat_ms=self._options.times.heartbeat_ms,
            instance=self._instance,
            leaving=action.is_leaving,
        )

    def unregister(self, action: UnregisterMember) -> EncodedRequest:
        """35: the member has left."""
        header = about_groups.UnregisterClient(
            self._options.id, consumer_group=self._options.group, steelyard_avoided=action.duplicates_avoided or None
        )
        return EncodedRequest(action.broker, Code.UNREGISTER_CLIENT, header)

    def member_list(self, action: QueryMemberList) -> EncodedRequest:
        """38: the members of the group."""
        return EncodedRequest(action.broker, Code.GET_CONSUMER_LIST_BY_GROUP, GroupRequest(self._options.group))

    def ownership_probe(self, action: ProbeOwnership) -> EncodedRequest:
        """307: what another member holds."""
        wanted = encode_body(action.waiting_for[:MAX_QUEUES_NAMED]).decode() if action.waiting_for else None
        header = about_groups.GetConsumerRunningState(
            self._options.group,
            action.member,
            jstack_enable=False,
            steelyard_wants=wanted,
            steelyard_asker=self._options.id,
        )
        times = self._options.times
        wait_ms = times.ownership_probe_background_ms if action.is_background else times.ownership_probe_ms
        return EncodedRequest(action.broker, Code.GET_CONSUMER_RUNNING_INFO, header, timeout_ms=wait_ms)

    def lock(self, action: LockQueues | RenewLocks) -> EncodedRequest:
        """41: acquire locks, or renew them."""
        is_renewal = isinstance(action, RenewLocks)
        word = LockExtension(
            renew=is_renewal, epochs=_known_epochs(action.epochs) if isinstance(action, RenewLocks) else None
        )
        return EncodedRequest(action.broker, Code.LOCK_BATCH_MQ, body=self._lock_body(action, self._options.id, word))

    def unlock(self, action: UnlockQueues) -> EncodedRequest:
        """42: release locks."""
        word = LockExtension(epochs=_known_epochs(action.epochs))
        owner = action.owner or self._options.id
        return EncodedRequest(action.broker, Code.UNLOCK_BATCH_MQ, body=self._lock_body(action, owner, word))

    def _lock_body(self, action: LockQueues | RenewLocks | UnlockQueues, owner: str, extension: LockExtension) -> bytes:
        return encode_body(
            LockRequest(
                client_id=owner,
                group=action.lock_group,
                queues=tuple(map(QueueRef.of, action.queues)),
                only_this_broker=False,
                steelyard=extension,
            )
        )

    def query_offset(self, action: QueryStartOffset) -> EncodedRequest:
        """14: the committed offset."""
        topic, broker, queue_id = action.queue
        header = about_groups.QueryConsumerOffset(self._options.group, topic, queue_id, set_zero_if_not_found=False)
        return EncodedRequest(broker, Code.QUERY_CONSUMER_OFFSET, header)

    def commit(self, action: Commit) -> EncodedRequest:
        """15: commit an offset, as the holder of this epoch."""
        topic, broker, queue_id = action.queue
        header = about_groups.CommitOffset(self._options.group, topic, queue_id, action.offset, action.epoch)
        return EncodedRequest(broker, Code.UPDATE_CONSUMER_OFFSET, header)

    def pull(self, action: PullMessages) -> EncodedRequest:
        """11: messages of a queue."""
        topic, broker, queue_id = action.queue
        version = self._versions.get(topic, 0)
        flags = _SUSPEND_FLAG if action.is_long_poll else 0
        header = about_pulls.PullMessage(
            self._options.group, topic, queue_id, action.offset, action.max_messages, flags, 0, _LONG_POLL_MS, version
        )
        return EncodedRequest(broker, Code.PULL_MESSAGE, header, b"", _PULL_TIMEOUT_MS)

    def send_back(self, action: SendBackMessage) -> EncodedRequest:
        """36: redeliver this message. How often is the group's own setting at the broker."""
        message = action.message
        if not isinstance(message, StoredMessage):
            raise ConfigurationError(
                f"a {type(message).__name__} cannot be sent back to a broker",
                next_step="give the message that was pulled",
            )
        letter: about_sends.SendMessageV2 | None = None
        if action.is_unreadable:
            letter = unreadable_letter_header(self._options.group, message, action.error)
        elif action.as_copy:
            letter = dead_letter_header(self._options.group, message, action.error)
        if letter is not None:
            return EncodedRequest(action.queue.broker, Code.SEND_MESSAGE_V2, letter, message.body)
        header = about_sends.SendMessageBack(
            message.position,
            self._options.group,
            action.delay_level,
            origin_msg_id=message.message_id,
            origin_topic=message.topic,
            unit_mode=False,
            steelyard_error=action.error or None,
        )
        return EncodedRequest(action.queue.broker, Code.CONSUMER_SEND_MSG_BACK, header)


def _held_by_topic(action: SendHeartbeat) -> dict[str, tuple[beats.HeldQueueEpoch, ...]] | None:
    if action.held is None:
        return None
    by_topic: dict[str, list[beats.HeldQueueEpoch]] = {}
    for queue in sorted(action.held):
        by_topic.setdefault(queue.topic, []).append(beats.HeldQueueEpoch(queue.queue_id, action.held[queue]))
    return {topic: tuple(held) for topic, held in by_topic.items()}


def _known_epochs(epochs: tuple[int | None, ...]) -> tuple[int, ...] | None:
    if all(epoch is None for epoch in epochs):
        return None
    return tuple(_UNKNOWN_EPOCH if epoch is None else epoch for epoch in epochs)
