"""Who said what to a cluster, remembered for whoever has to say later what happened: tests that fail.

A broker forgets members that left and what they wanted, and never knew what they were refused. The witness keeps that:
who was in which group, what each group wanted of each topic and from where on it read, who spoke on which line, and the
last refusals. It sees commands and answers, and changes nothing.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from steelyard.errors import SteelyardError
from steelyard.model import Subscription
from steelyard.net.core import Replies
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.heartbeat import Heartbeat, MessageModel
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.headers.pull import Pull
from steelyard.wire.peers import Peer, Reply

__all__ = ["GroupSeen", "LineSeen", "Witness"]

_MOST_REFUSALS = 50
_MOST_LINES = 10_000
_RESULTS = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
        ResponseCode.QUERY_NOT_FOUND,
    }
)
"""What is no refusal."""
_QUESTIONS = frozenset({RequestCode.GET_TOPIC_CONFIG, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG})
"""Whether something is there: a no is an answer. Whoever makes a topic asks so before."""
_PULLS = frozenset({RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE})


@dataclass(slots=True)
class GroupSeen:
    """What was seen of a group."""

    members: dict[str, str] = field(default_factory=dict)
    """The ids of all who were in it, with where they came from last."""
    wanted: dict[str, Subscription] = field(default_factory=dict)
    """By topic, as the last heartbeat said."""
    began: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """The lowest offset that was asked for, by topic, broker and queue."""
    is_broadcast: bool = False


@dataclass(slots=True)
class LineSeen:
    """What was seen of a line."""

    address: str
    client_id: str | None = None
    last: str = ""
    """The name of the last request."""


class Witness:
    """What was said to all brokers of a cluster. Touched on the servers' loop alone."""

    def __init__(self) -> None:
        self.groups: dict[str, GroupSeen] = {}
        self.lines: dict[int, LineSeen] = {}
        """By the number of the peer; the oldest are forgotten when there are very many."""
        self.refusals: deque[str] = deque(maxlen=_MOST_REFUSALS)

    def note(self, broker: str, command: Command, peer: Peer, replies: Replies) -> None:
        """Take note of a request and of what the broker said to it at once."""
        if command.is_answer:
            return
        line = self.lines.get(peer.number)
        if line is None:
            if len(self.lines) >= _MOST_LINES:
                del self.lines[next(iter(self.lines))]
            line = self.lines[peer.number] = LineSeen(peer.address)
        line.last = _name_of(command.code)
        try:
            if command.code == RequestCode.HEART_BEAT:
                line.client_id = self._note_heartbeat(decode_body(Heartbeat, command.body), peer)
            elif command.code in _PULLS:
                self._note_pull(broker, command.header(Pull))
        except SteelyardError:
            pass  # what cannot be read is refused by the broker, and seen below
        if command.code not in _QUESTIONS:
            self._note_refusals(broker, line, replies)

    def _note_heartbeat(self, beat: Heartbeat, peer: Peer) -> str:
        for told in beat.consumers:
            seen = self.groups.setdefault(told.group, GroupSeen())
            seen.members[beat.client_id] = peer.address
            seen.is_broadcast = told.model is MessageModel.BROADCASTING
            for each in told.subscriptions:
                seen.wanted[each.topic] = each.subscription()
        return beat.client_id

    def _note_pull(self, broker: str, pull: Pull) -> None:
        seen = self.groups.setdefault(pull.consumer_group, GroupSeen())
        queue = pull.topic, broker, pull.queue_id
        seen.began[queue] = min(pull.queue_offset, seen.began.get(queue, pull.queue_offset))

    def _note_refusals(self, broker: str, line: LineSeen, replies: Replies) -> None:
        for answer in _answers(replies):
            if answer.code not in _RESULTS:
                who = line.client_id or line.address
                self.refusals.append(f"{broker} refused {line.last} of {who}: {answer.remark or answer.code}")


def _answers(replies: Replies) -> Iterable[Command]:
    return (reply.command for reply in replies if isinstance(reply, Reply) and reply.command.is_answer)


def _name_of(code: int) -> str:
    try:
        return RequestCode(code).name
    except ValueError:
        return f"request {code}"
