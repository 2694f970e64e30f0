"""A snapshot of a topic and a group at one moment: the state of each message, and its description for a failing test.

A message is *handled* by a group if its offset is committed, or its member reports that it will be, and no copy of it
waits for a retry or is a dead letter. Messages that the group filters out by tags, or that are before its start offset,
are not handled. SQL filters, which only the broker can evaluate, match everything here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from steelyard.client.suggestions import closest_match
from steelyard.model import StoredMessage, Subscription
from steelyard.model.formatting import pluralize
from steelyard.model.reserved_names import RETRY_PREFIX
from steelyard.testing.broker_inspection import ConsumeProgress, DelayedMessage
from steelyard.wire.property_names import ERROR

_ORIGIN_ID = "ORIGIN_MESSAGE_ID"


class _MessageState(NamedTuple):
    """The state of a message in a group."""

    kind: str  # ``handled``, ``waits``, ``failed``, ``dead`` or ``skipped``
    description: str  # the same as text: how often it was tried, when it is due again, why it was skipped


@dataclass(frozen=True)
class ConsumerGroupSnapshot:
    """A consumer group."""

    name: str
    progress: tuple[ConsumeProgress, ...] = ()  # in the queues of the topic
    retries: tuple[StoredMessage, ...] = ()  # copies in its retry topic that were not handled yet
    dead_letters: tuple[StoredMessage, ...] = ()
    online_members: tuple[str, ...] = ()  # the ids of members online
    past_members: tuple[str, ...] = ()  # the ids of members that were online before
    subscription: Subscription | None = None  # its subscription to the topic; None if unknown
    start_offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    """The lowest offset that it pulled, by broker and queue."""
    is_broadcast: bool = False

    @property
    def is_involved(self) -> bool:
        """Whether the group reads the topic."""
        return (
            self.subscription is not None or bool(self.start_offsets) or any(each.committed for each in self.progress)
        )


@dataclass(frozen=True)
class TopicSnapshot:
    """A topic, and perhaps a group."""

    topic: str
    messages: tuple[StoredMessage, ...]
    delayed_anywhere: tuple[DelayedMessage, ...]  # delayed messages of any topic
    group: ConsumerGroupSnapshot | None
    now_ms: int
    topics: tuple[str, ...]  # the user topics
    groups: tuple[str, ...] = ()  # groups that had a member
    refusals: tuple[str, ...] = ()  # rejected requests, the newest last
    down_brokers: tuple[str, ...] = ()  # brokers that do not run: their messages are unknown

    @property
    def delayed(self) -> tuple[DelayedMessage, ...]:
        """Delayed messages of the topic."""
        return tuple(each for each in self.delayed_anywhere if each.topic == self.topic)

    @cached_property
    def states(self) -> tuple[_MessageState, ...]:
        """The state of each message in the group, in order."""
        group = self.group
        if group is None:
            return ()
        committed = {each.queue[1:]: each.committed or 0 for each in group.progress}
        # The states of messages that failed, by the ids of the originals; what is later here goes first.
        failed = {
            origin: _MessageState("failed", f"failed {_times(copy.reconsume_times)}, is redelivered")
            for origin, copy in _by_origin(group.retries)
        }
        for delayed in self.delayed_anywhere:
            if delayed.topic == f"{RETRY_PREFIX}{group.name}":
                in_s = max(0, delayed.due_ms - self.now_ms) / 1000
                times = _times(delayed.message.reconsume_times)
                origin = delayed.message.properties.get(_ORIGIN_ID, "")
                failed[origin] = _MessageState("failed", f"failed {times}, due again in {in_s:.0f} s")
        for origin, dead in _by_origin(group.dead_letters):
            error = dead.properties.get(ERROR)
            why = f": {error}" if error else ""
            failed[origin] = _MessageState("dead", f"given up, failed {_times(dead.reconsume_times)}{why}")
        return tuple(_state(group, message, committed, failed) for message in self.messages)

    @property
    def wanted_count(self) -> int:
        """How many messages the group has handled, or should handle."""
        return sum(state.kind != "skipped" for state in self.states)

    @property
    def handled_count(self) -> int:
        """How many messages the group has handled."""
        return sum(state.kind == "handled" for state in self.states)


def _state(
    group: ConsumerGroupSnapshot,
    message: StoredMessage,
    committed: Mapping[tuple[str, int], int],
    failed: Mapping[str, _MessageState],
) -> _MessageState:
    queue = message.queue[1:]
    if group.subscription is not None and not group.subscription.matches_tag(message.tags):
        return _MessageState("skipped", f"skipped: the group subscribes to {group.subscription.expression}")
    found = failed.get(message.offset_id) or failed.get(message.message_id)
    if found is not None:
        return found
    if message.offset >= committed.get(queue, 0):
        return _MessageState("waits", "waits")
    if message.offset < group.start_offsets.get(queue, 0):
        return _MessageState("skipped", 'skipped: the group started behind it, start_from="first" includes it')
    return _MessageState("handled", "handled")


def _by_origin(copies: Iterable[StoredMessage]) -> Iterator[tuple[str, StoredMessage]]:
    return ((message.properties.get(_ORIGIN_ID, message.message_id), message) for message in copies)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


_MAX_MESSAGES = 20
_MAX_BODY_BYTES = 80
_MAX_REFUSALS = 5


def describe_snapshot(snapshot: TopicSnapshot) -> list[str]:
    """Describe a snapshot, as lines."""
    return [*describe_messages(snapshot), *describe_cluster(snapshot)]


def describe_messages(snapshot: TopicSnapshot) -> list[str]:
    """Describe the messages of a topic."""
    lines = _group_lines(snapshot) if snapshot.group is not None else _topic_lines(snapshot)
    delayed = snapshot.delayed
    if delayed:
        lines.append(f"delayed messages to {snapshot.topic}: {len(delayed)}")
        for each in delayed[:_MAX_MESSAGES]:
            due_s = (each.due_ms - snapshot.now_ms) / 1000
            lines.append(f"  due in {max(0.0, due_s):.0f} s  {_describe_message(each.message)}")
    return lines


def describe_cluster(snapshot: TopicSnapshot) -> list[str]:
    """Describe what of the cluster may explain the rest."""
    lines = []
    if snapshot.down_brokers:
        lines.append(f"not counted, since they are down: {', '.join(snapshot.down_brokers)}")
    if snapshot.refusals:
        lines.append("rejected last:")
        lines += [f"  {refusal}" for refusal in snapshot.refusals[-_MAX_REFUSALS:]]
    return lines


def _topic_lines(snapshot: TopicSnapshot) -> list[str]:
    if snapshot.messages:
        return [
            f"{snapshot.topic} has {pluralize(len(snapshot.messages), 'message')}:",
            *_message_lines(snapshot.messages),
        ]
    if snapshot.topic in snapshot.topics:
        return [f"{snapshot.topic} has no messages"]
    others = ", ".join(snapshot.topics) or "none"
    return [f"there is no topic {snapshot.topic}; there are: {others}{_did_you_mean(snapshot.topic, snapshot.topics)}"]


def _group_lines(snapshot: TopicSnapshot) -> list[str]:
    group = snapshot.group
    assert group is not None
    if not snapshot.messages:
        lines = _topic_lines(snapshot)
    else:
        total = pluralize(len(snapshot.messages), "message")
        lines = [f"group {group.name} handled {snapshot.handled_count} of {total} of {snapshot.topic}:"]
        lines += _message_lines(snapshot.messages, [state.description for state in snapshot.states])
    if group.is_broadcast:
        lines.append(f"group {group.name} broadcasts: its members keep their offsets locally, so none are counted")
    lines.append(f"members of {group.name} online: {', '.join(group.online_members) or 'none'}")
    if group.past_members:
        lines.append(f"members of {group.name} before: {', '.join(group.past_members)}")
    elif not group.online_members:
        lines.append(f"no member of group {group.name} ever connected{_did_you_mean(group.name, snapshot.groups)}")
    return lines


def _message_lines(messages: Sequence[StoredMessage], states: Iterable[str] = ()) -> list[str]:
    """Return a line for each of the first messages, with its state in front if there are states."""
    prefixes = [f"{state}  " for state in states] or [""] * len(messages)
    width = max(map(len, prefixes[:_MAX_MESSAGES]), default=0)
    lines = [
        f"  {prefix:<{width}}{_describe_message(message)}"
        for prefix, message in zip(prefixes[:_MAX_MESSAGES], messages[:_MAX_MESSAGES], strict=True)
    ]
    more = len(messages) - _MAX_MESSAGES
    return [*lines, f"  and {more} more"] if more > 0 else lines


def _describe_message(message: StoredMessage) -> str:
    """Describe one message.

    >>> from steelyard.model import Queue
    >>> _describe_message(StoredMessage(Queue("orders", "broker-0", 3), 7, b"{}", {"TAGS": "paid", "KEYS": "a b"}))
    "broker-0 queue 3 offset 7  b'{}' tags=paid keys=a,b"
    """
    body = message.body if len(message.body) <= _MAX_BODY_BYTES else message.body[:_MAX_BODY_BYTES]
    cut = f"… ({len(message.body)} bytes)" if len(message.body) > _MAX_BODY_BYTES else ""
    queue = message.queue
    words = [f"{queue.broker} queue {queue.queue_id} offset {message.offset}  {body!r}{cut}"]
    if message.tags:
        words.append(f"tags={message.tags}")
    if message.keys:
        words.append(f"keys={','.join(message.keys)}")
    if message.reconsume_times:
        words.append(f"tries={message.reconsume_times}")
    return " ".join(words)


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    close = closest_match(name, known)
    return f"; did you mean {close}?" if close else ""
