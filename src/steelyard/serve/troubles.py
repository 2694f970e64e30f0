"""Requests that are treated badly on purpose, for tests: what a broker does wrong now and then, done when asked.

A trouble strikes requests of one kind, all of them or every so many, until it is spent or taken away. Which ones is not
left to chance: with a share of a half it is every second one. Troubles belong to a cluster and outlive its brokers.

What each kind does, exactly:

- ``drop ack``: the send is stored, and its answer never leaves. The sender times out, and most send again.
- ``duplicate``: the send is stored twice under one message id and answered once: what a sender leaves behind that sent
  again after it had lost the first answer. Consumers get the message twice.
- ``refuse send``: the send is not stored, and the answer is code 2, the broker is busy. Most send to another broker.
- ``drop commit``: the commit of a group is answered as always and forgotten, those that pulls bring along too. Whoever
  takes the queue next gets everything since again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from msgspec import structs

from steelyard.errors import ConfigurationError, SteelyardError
from steelyard.net.core import Replies
from steelyard.net.switchboard import Handle
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import ONEWAY, Command, answer_to
from steelyard.wire.headers.group import CommitOffset
from steelyard.wire.headers.pull import Pull
from steelyard.wire.headers.send import Send, SendShort
from steelyard.wire.peers import Peer, Reply

__all__ = ["Trouble", "TroubleKind", "Troubles"]

_SENDS = frozenset({RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE})
_PULLS = frozenset({RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE})
_COMMITS = 1
"""The bit of a pull that brings a commit along."""
_ALMOST = 1e-9
"""Shares such as a third add up to a whole only nearly."""


class TroubleKind(Enum):
    """What is done to a request."""

    DROP_ACK = "drop ack"
    DUPLICATE = "duplicate"
    REFUSE_SEND = "refuse send"
    DROP_COMMIT = "drop commit"


@dataclass(slots=True, eq=False)
class Trouble:
    """One trouble, and how often it struck.

    >>> third = Trouble(TroubleKind.DROP_ACK, share=1 / 3)
    >>> [third.strikes() for _ in range(6)], third.struck
    ([False, False, True, False, False, True], 2)
    """

    kind: TroubleKind
    broker: str | None = None
    """None: at all brokers."""
    name: str | None = None
    """The topic that sends are to, or the group that commits are of; None: all."""
    share: float = 1.0
    left: int | None = None
    """How often it may still strike; None: always."""
    struck: int = 0
    _owed: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ConfigurationError(f"a share of {self.share} cannot be", next_step="give more than 0, and at most 1")
        if self.left is not None and self.left < 1:
            raise ConfigurationError(f"a count of {self.left} cannot be", next_step="give 1 or more, or None for all")

    def strikes(self) -> bool:
        """Say whether it strikes a request that it could strike, and count it."""
        if self.left == 0:
            return False
        self._owed += self.share
        if self._owed < 1 - _ALMOST:
            return False
        self._owed -= 1
        self.struck += 1
        if self.left is not None:
            self.left -= 1
        return True


class Troubles:
    """All troubles of a cluster. Touched on the servers' loop alone."""

    def __init__(self) -> None:
        self._all: list[Trouble] = []

    def add(self, trouble: Trouble) -> None:
        """Begin to make trouble."""
        self._all.append(trouble)

    def remove(self, trouble: Trouble) -> None:
        """End a trouble; no error if it has ended."""
        self._all = [each for each in self._all if each is not trouble]

    def clear(self) -> None:
        """End all troubles."""
        self._all.clear()

    def handle(self, broker: str, core: Handle, command: Command, peer: Peer, now_ms: int) -> Replies:
        """Give a command to the core of a broker, or do to it what the troubles want."""
        if not self._all or command.is_answer:
            return core(command, peer, now_ms)
        if command.code in _SENDS:
            kinds, name = self._striking(broker, _topic_of, command, _OF_POSTS if command.is_oneway else _OF_SENDS)
        elif command.code == RequestCode.UPDATE_CONSUMER_OFFSET or _brings_commit(command):
            kinds, name = self._striking(broker, _group_of, command, _OF_COMMITS)
        else:
            return core(command, peer, now_ms)
        return _treat(kinds, name, core, command, peer, now_ms)

    def _striking(
        self, broker: str, name_of: Callable[[Command], str], command: Command, kinds: frozenset[TroubleKind]
    ) -> tuple[frozenset[TroubleKind], str]:
        """Return the kinds of trouble that strike a request, each at most once, and what it is about."""
        try:
            name = name_of(command)
        except SteelyardError:
            return frozenset(), ""  # it is refused anyway
        met = [
            each
            for each in self._all
            if each.kind in kinds and each.broker in (None, broker) and each.name in (None, name)
        ]
        return frozenset(each.kind for each in met if each.strikes()), name


_OF_SENDS = frozenset({TroubleKind.DROP_ACK, TroubleKind.DUPLICATE, TroubleKind.REFUSE_SEND})
_OF_POSTS = _OF_SENDS - {TroubleKind.DROP_ACK}
_OF_COMMITS = frozenset({TroubleKind.DROP_COMMIT})


def _treat(
    kinds: frozenset[TroubleKind], name: str, core: Handle, command: Command, peer: Peer, now_ms: int
) -> Replies:
    if TroubleKind.REFUSE_SEND in kinds:
        remark = f"[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while: a test refuses sends to {name}"
        return _answered(command, peer, answer_to(command, ResponseCode.SYSTEM_BUSY, remark=remark))
    if TroubleKind.DROP_COMMIT in kinds:
        if command.code in _PULLS:
            pull = command.header(Pull)
            pull = structs.replace(pull, sys_flag=pull.sys_flag & ~_COMMITS)
            return core(structs.replace(command, fields=pull), peer, now_ms)
        return _answered(command, peer, answer_to(command))
    unheard = structs.replace(command, flag=command.flag | ONEWAY)
    replies = core(unheard if TroubleKind.DROP_ACK in kinds else command, peer, now_ms)
    if TroubleKind.DUPLICATE in kinds:
        return [*replies, *core(unheard, peer, now_ms)]
    return replies


def _answered(command: Command, peer: Peer, answer: Command) -> Replies:
    return () if command.is_oneway else (Reply(peer, answer),)


def _topic_of(command: Command) -> str:
    if command.code == RequestCode.SEND_MESSAGE:
        return command.header(Send).topic
    return command.header(SendShort).topic


def _group_of(command: Command) -> str:
    if command.code in _PULLS:
        return command.header(Pull).consumer_group
    return command.header(CommitOffset).consumer_group


def _brings_commit(command: Command) -> bool:
    try:
        return command.code in _PULLS and bool(command.header(Pull).sys_flag & _COMMITS)
    except SteelyardError:
        return False
