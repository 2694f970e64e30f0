"""Actions of a member as requests: what is said to a broker or a name server, and how long its answer may take.

34 HEART_BEAT          the member, its subscriptions, and the word that only our broker reads: which process this is,
                       how often it beats, whether it is leaving, how it plans, and (first on a line) what it holds
35 UNREGISTER_CLIENT   goodbye
28, 38, 105            how long are you up, who is in the group, where is the topic
307                    asked of another member through a broker; ``steelyardWants`` makes it look at the group again
41, 42                 locks, with the epochs of those that are held; a renewal says that it is one
14, 15                 what is stored, and store this: with the epoch of the lock where the broker gave one
11                     a pull may be held for 15 s. It never carries a commit: two requests on one line may be executed
                       in the other order. Nor does it carry the subscription: the heartbeat before it did
36                     a failed message, named by its place in the log
310                    one that cannot be read, as a dead letter (dead_letters.py)

A pull tells the version of the subscription it was made for, which no heartbeat of ours goes below: else a broker that
has not seen the newest heartbeat yet would refuse the pull (25).
"""

from typing import NamedTuple

from steelyard.balance.actions import (
    MOST_WANTED,
    Action,
    AskGroup,
    AskHolders,
    AskOffset,
    AskRoute,
    AskUptime,
    Commit,
    Heartbeat,
    Lock,
    Pull,
    Renew,
    SendBack,
    StartAt,
    Unlock,
    Unregister,
)
from steelyard.balance.member_options import MemberOptions, Mode
from steelyard.dialect.dead_letters import unreadable_letter
from steelyard.dialect.starting import AskStored, FindStart, request_of
from steelyard.errors import ConfigurationError
from steelyard.model import StoredMessage, Subscription
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies import heartbeat as beats
from steelyard.wire.bodies.locks import LockRequest, LockWord
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Fields
from steelyard.wire.headers import group as about_groups
from steelyard.wire.headers import pull as about_pulls
from steelyard.wire.headers import send as about_sends
from steelyard.wire.headers.common import Group
from steelyard.wire.headers.nameserver import GetRoute
from steelyard.wire.maps import QueueRef

__all__ = ["Asking", "Question", "Request", "all_subscriptions"]

Question = Action | FindStart | AskStored
"""What can be asked: what a member wants, and the questions that may follow from an answer."""

_ANSWER_MS = 3_000
_TABLE_MS = 10_000
_PULL_MS = 30_000
_HOLD_MS = 15_000
_MAY_BE_HELD = 2

_NOT_KNOWN = -1
"""An epoch that no answer told."""

_MOST_STOPS = 8
_LONGEST_STOP = 500
"""Of queues that stand still a few are told of: people look at them one by one."""

_NO_FIELDS: Fields = {}

_START_FROM = {
    StartAt.LAST: beats.StartFrom.LAST_OFFSET,
    StartAt.FIRST: beats.StartFrom.FIRST_OFFSET,
    StartAt.TIME: beats.StartFrom.TIMESTAMP,
}


class Request(NamedTuple):
    """A request before it has a number. ``to`` is a broker's name, None for a name server."""

    to: str | None
    code: int
    fields: Fields = _NO_FIELDS
    body: bytes = b""
    answer_ms: int = _ANSWER_MS


def all_subscriptions(options: MemberOptions) -> dict[str, Subscription]:
    """Return what a member wants of each topic, that of retries too, where it has one."""
    wanted = dict(sorted(options.topics.items()))
    if options.reads_retries:
        newest = max(each.version for each in wanted.values())
        wanted[options.retry_topic] = Subscription(options.retry_topic, version=newest)
    return wanted


class Asking:
    """Makes the requests of one member; each kind of action has its own method."""

    def __init__(self, options: MemberOptions, instance: str) -> None:
        self._options, self._instance = options, instance
        self._wanted = all_subscriptions(options)
        self._versions = {topic: each.version for topic, each in self._wanted.items()}

    def request(self, question: Question) -> Request | None:
        """Return what to say; None for what is nobody's business but ours: handling, reporting, having left."""
        match question:
            case Pull():
                return self.pull(question)
            case Commit():
                return self.commit(question)
            case AskOffset():
                return self.offset(question)
            case FindStart():
                return Request(question.queue.broker, *request_of(question))
            case AskStored():
                return Request(question.queue.broker, Code.GET_ALL_CONSUMER_OFFSET, answer_ms=_TABLE_MS)
            case Lock() | Renew():
                return self.lock(question)
            case Unlock():
                return self.unlock(question)
            case SendBack():
                return self.send_back(question)
            case _:
                return self._about_members(question)

    def _about_members(self, question: Question) -> Request | None:
        match question:
            case AskGroup():
                return self.group(question)
            case AskHolders():
                return self.holders(question)
            case Heartbeat():
                return self.heartbeat(question)
            case AskRoute():
                return Request(None, Code.GET_ROUTEINFO_BY_TOPIC, GetRoute(question.topic))
            case AskUptime():
                return Request(question.broker, Code.GET_BROKER_RUNTIME_INFO)
            case Unregister():
                return self.unregister(question)
            case _:
                return None

    # -- membership ---------------------------------------------------------------------------------------------------

    def heartbeat(self, action: Heartbeat) -> Request:
        """34: we are here, and this is what we want."""
        options = self._options
        consumer = beats.ConsumerBeat(
            start_from=_START_FROM[options.start.at],
            kind=beats.ConsumeKind.PUSH if options.has_retries else beats.ConsumeKind.PULL,
            group=options.group,
            model=(
                beats.MessageModel.BROADCASTING if options.mode is Mode.BROADCAST else beats.MessageModel.CLUSTERING
            ),
            subscriptions=tuple(self._subscription(each, action.version) for each in self._wanted.values()),
        )
        body = beats.Heartbeat(client_id=options.id, consumers=(consumer,), steelyard=self._word(action))
        return Request(action.broker, Code.HEART_BEAT, body=encode_body(body))

    def _subscription(self, wanted: Subscription, version: int) -> beats.SubscriptionBody:
        return beats.SubscriptionBody(
            hashes=wanted.hashes,
            kind=wanted.kind.value,
            expression=wanted.expression,
            version=wanted.version + version,
            tags=wanted.tags,
            topic=wanted.topic,
        )

    def _word(self, action: Heartbeat) -> beats.HeartbeatWord:
        about = beats.GroupWord(
            strategy=action.strategy,
            held=_held(action),
            avoided=action.avoided or None,
            stopped=tuple(sentence[:_LONGEST_STOP] for sentence in action.stopped[:_MOST_STOPS]) or None,
        )
        return beats.HeartbeatWord(
            groups={self._options.group: about},
            heartbeat_ms=self._options.times.heartbeat_ms,
            instance=self._instance,
            leaving=action.leaving,
        )

    def unregister(self, action: Unregister) -> Request:
        """35: we are gone."""
        header = about_groups.Unregister(
            self._options.id, consumer_group=self._options.group, steelyard_avoided=action.avoided or None
        )
        return Request(action.broker, Code.UNREGISTER_CLIENT, header)

    def group(self, action: AskGroup) -> Request:
        """38: who is there."""
        return Request(action.broker, Code.GET_CONSUMER_LIST_BY_GROUP, Group(self._options.group))

    def holders(self, action: AskHolders) -> Request:
        """307: what another member holds."""
        wanted = encode_body(action.wanted[:MOST_WANTED]).decode() if action.wanted else None
        header = about_groups.AskRunningState(
            self._options.group,
            action.member,
            jstack_enable=False,
            steelyard_wants=wanted,
            steelyard_asker=self._options.id,
        )
        times = self._options.times
        wait_ms = times.holders_patient_ms if action.is_patient else times.holders_ms
        return Request(action.broker, Code.GET_CONSUMER_RUNNING_INFO, header, answer_ms=wait_ms)

    # -- locks and offsets --------------------------------------------------------------------------------------------

    def lock(self, action: Lock | Renew) -> Request:
        """41: take queues, or keep them."""
        is_renewal = isinstance(action, Renew)
        word = LockWord(renew=is_renewal, epochs=_known(action.epochs) if isinstance(action, Renew) else None)
        return Request(action.broker, Code.LOCK_BATCH_MQ, body=self._locked(action, self._options.id, word))

    def unlock(self, action: Unlock) -> Request:
        """42: let queues go."""
        word = LockWord(epochs=_known(action.epochs))
        owner = action.owner or self._options.id
        return Request(action.broker, Code.UNLOCK_BATCH_MQ, body=self._locked(action, owner, word))

    def _locked(self, action: Lock | Renew | Unlock, owner: str, word: LockWord) -> bytes:
        return encode_body(
            LockRequest(
                client_id=owner,
                group=action.lock_group,
                queues=tuple(map(QueueRef.of, action.queues)),
                only_this_broker=False,
                steelyard=word,
            )
        )

    def offset(self, action: AskOffset) -> Request:
        """14: what is stored."""
        topic, broker, queue_id = action.queue
        header = about_groups.QueryOffset(self._options.group, topic, queue_id, set_zero_if_not_found=False)
        return Request(broker, Code.QUERY_CONSUMER_OFFSET, header)

    def commit(self, action: Commit) -> Request:
        """15: store this, as the holder of this epoch."""
        topic, broker, queue_id = action.queue
        header = about_groups.CommitOffset(self._options.group, topic, queue_id, action.offset, action.epoch)
        return Request(broker, Code.UPDATE_CONSUMER_OFFSET, header)

    # -- messages -----------------------------------------------------------------------------------------------------

    def pull(self, action: Pull) -> Request:
        """11: more of a queue."""
        topic, broker, queue_id = action.queue
        version = self._versions.get(topic, 0)
        flags = _MAY_BE_HELD if action.may_wait else 0
        header = about_pulls.Pull(
            self._options.group, topic, queue_id, action.offset, action.most, flags, 0, _HOLD_MS, version
        )
        return Request(broker, Code.PULL_MESSAGE, header, b"", _PULL_MS)

    def send_back(self, action: SendBack) -> Request:
        """36: take this message back. How often it may come again is the group's own setting at the broker."""
        message = action.message
        if not isinstance(message, StoredMessage):
            raise ConfigurationError(
                f"a {type(message).__name__} cannot be given back to a broker", next_step="give the message pulled"
            )
        if action.unreadable:
            letter = unreadable_letter(self._options.group, message, action.unreadable)
            return Request(action.queue.broker, Code.SEND_MESSAGE_V2, letter, message.body)
        header = about_sends.SendBack(
            message.position,
            self._options.group,
            action.delay_level,
            origin_msg_id=message.message_id,
            origin_topic=message.topic,
            unit_mode=False,
        )
        return Request(action.queue.broker, Code.CONSUMER_SEND_MSG_BACK, header)


def _held(action: Heartbeat) -> dict[str, tuple[beats.Held, ...]] | None:
    if action.held is None:
        return None
    by_topic: dict[str, list[beats.Held]] = {}
    for queue in sorted(action.held):
        by_topic.setdefault(queue.topic, []).append(beats.Held(queue.queue_id, action.held[queue]))
    return {topic: tuple(held) for topic, held in by_topic.items()}


def _known(epochs: tuple[int | None, ...]) -> tuple[int, ...] | None:
    if all(epoch is None for epoch in epochs):
        return None
    return tuple(_NOT_KNOWN if epoch is None else epoch for epoch in epochs)
