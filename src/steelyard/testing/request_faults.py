"""Faults of single requests: lost acks, duplicates, refused sends, lost commits.

A fault strikes requests of one kind, all of them or a share, until its count is spent or it is removed. Chance plays no
part: a share of a half is every second one. Faults belong to a cluster and outlive its brokers.

- ``drop ack``: the send is stored and never answered. The sender times out, and usually sends again.
- ``duplicate``: the send is stored twice under one message id and answered once, as after a retry whose first response
  was lost. Consumers get the message twice.
- ``refuse send``: the send is not stored, and the response is code 2, broker busy. Most clients try another broker.
- ``drop commit``: a group's commit, also one within a pull, is confirmed and forgotten. The next owner of the queue
  gets all messages since then again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from msgspec import structs

from steelyard.errors import ConfigurationError, SteelyardError
from steelyard.net.server import CommandHandler, Replies
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import ONEWAY_FLAG, Command, Peer, Reply, response_to
from steelyard.wire.headers.group import CommitOffset
from steelyard.wire.headers.pull import PullMessage
from steelyard.wire.headers.send import SendMessage, SendMessageV2

_SENDS = frozenset({RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE})
_PULLS = frozenset({RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE})
_COMMIT_OFFSET_FLAG = 1  # the bit of a pull that carries a commit
_ROUNDING_ERROR = 1e-9  # thirds do not add up to exactly one


class RequestFaultKind(Enum):
    """What happens to a request."""

    DROP_ACK = "drop ack"
    DUPLICATE = "duplicate"
    REFUSE_SEND = "refuse send"
    DROP_COMMIT = "drop commit"


@dataclass(slots=True, eq=False)
class RequestFault:
    """One fault, and how often it struck.

    >>> third = RequestFault(RequestFaultKind.DROP_ACK, share=1 / 3)
    >>> [third.applies() for _ in range(6)], third.hits
    ([False, False, True, False, False, True], 2)
    """

    kind: RequestFaultKind
    broker: str | None = None  # None: at all brokers
    target: str | None = None  # the topic of sends, or the group of commits; None: all
    share: float = 1.0
    remaining: int | None = None  # how often it may still strike; None: without end
    hits: int = 0
    _accumulated_share: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ConfigurationError(
                f"a share of {self.share} is not possible", next_step="give more than 0, and at most 1"
            )
        if self.remaining is not None and self.remaining < 1:
            raise ConfigurationError(
                f"a count of {self.remaining} is not possible", next_step="give 1 or more, or None for all"
            )

    def applies(self) -> bool:
        """Whether it strikes the next matching request, which is counted."""
        if self.remaining == 0:
            return False
        self._accumulated_share += self.share
        if self._accumulated_share < 1 - _ROUNDING_ERROR:
            return False
        self._accumulated_share -= 1
        self.hits += 1
        if self.remaining is not None:
            self.remaining -= 1
        return True


class RequestFaults:
    """All request faults of a cluster. Used on the servers' loop only."""

    def __init__(self) -> None:
        self._active: list[RequestFault] = []

    def add(self, fault: RequestFault) -> None:
        """Begin a fault."""
        self._active.append(fault)

    def remove(self, fault: RequestFault) -> None:
        """End a fault; no error if it has ended."""
        self._active = [each for each in self._active if each is not fault]

    def clear(self) -> None:
        """End all faults."""
        self._active.clear()

    def handle(self, broker: str, core: CommandHandler, command: Command, peer: Peer, now_ms: int) -> Replies:
        """Give a command to the core of a broker, with the faults that apply to it."""
        if not self._active or command.is_response:
            return core(command, peer, now_ms)
        if command.code in _SENDS:
            kinds, name = self._matching_kinds(
                broker, _topic_of, command, _ONEWAY_SEND_FAULTS if command.is_oneway else _SEND_FAULTS
            )
        elif command.code == RequestCode.UPDATE_CONSUMER_OFFSET or _carries_commit(command):
            kinds, name = self._matching_kinds(broker, _group_of, command, _COMMIT_FAULTS)
        else:
            return core(command, peer, now_ms)
        return _apply_faults(kinds, name, core, command, peer, now_ms)

    def _matching_kinds(
        self, broker: str, name_of: Callable[[Command], str], command: Command, kinds: frozenset[RequestFaultKind]
    ) -> tuple[frozenset[RequestFaultKind], str]:
        """Return the kinds of fault that strike a request, each at most once, and its topic or group."""
        try:
            name = name_of(command)
        except SteelyardError:
            return frozenset(), ""  # the core refuses it anyway
        met = [
            each
            for each in self._active
            if each.kind in kinds and each.broker in (None, broker) and each.target in (None, name)
        ]
        return frozenset(each.kind for each in met if each.applies()), name


_SEND_FAULTS = frozenset({RequestFaultKind.DROP_ACK, RequestFaultKind.DUPLICATE, RequestFaultKind.REFUSE_SEND})
_ONEWAY_SEND_FAULTS = _SEND_FAULTS - {RequestFaultKind.DROP_ACK}
_COMMIT_FAULTS = frozenset({RequestFaultKind.DROP_COMMIT})


def _apply_faults(
    kinds: frozenset[RequestFaultKind], name: str, core: CommandHandler, command: Command, peer: Peer, now_ms: int
) -> Replies:
    if RequestFaultKind.REFUSE_SEND in kinds:
        remark = f"[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while: a test refuses sends to {name}"
        return _reply(command, peer, response_to(command, ResponseCode.SYSTEM_BUSY, remark=remark))
    if RequestFaultKind.DROP_COMMIT in kinds:
        if command.code in _PULLS:
            pull = command.header(PullMessage)
            pull = structs.replace(pull, sys_flag=pull.sys_flag & ~_COMMIT_OFFSET_FLAG)
            return core(structs.replace(command, fields=pull), peer, now_ms)
        return _reply(command, peer, response_to(command))
    unanswered = structs.replace(command, flag=command.flag | ONEWAY_FLAG)
    replies = core(unanswered if RequestFaultKind.DROP_ACK in kinds else command, peer, now_ms)
    if RequestFaultKind.DUPLICATE in kinds:
        return [*replies, *core(unanswered, peer, now_ms)]
    return replies


def _reply(command: Command, peer: Peer, answer: Command) -> Replies:
    return () if command.is_oneway else (Reply(peer, answer),)


def _topic_of(command: Command) -> str:
    if command.code == RequestCode.SEND_MESSAGE:
        return command.header(SendMessage).topic
    return command.header(SendMessageV2).topic


def _group_of(command: Command) -> str:
    if command.code in _PULLS:
        return command.header(PullMessage).consumer_group
    return command.header(CommitOffset).consumer_group


def _carries_commit(command: Command) -> bool:
    try:
        return command.code in _PULLS and bool(command.header(PullMessage).sys_flag & _COMMIT_OFFSET_FLAG)
    except SteelyardError:
        return False
