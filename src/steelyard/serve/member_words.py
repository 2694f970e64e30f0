"""How far members are by their own account, asked of them on their own lines.

A member commits about once a second, others every five, and a test would wait that long for each handler. So members
are asked (221 GET_CONSUMER_STATUS_FROM_CLIENT), as a broker asks them for an administrator. An account counts as long
as its member is there; one that is gone has committed, or lost it.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from steelyard.errors import SteelyardError
from steelyard.model import Queue
from steelyard.serve.broker import RunningBroker
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.offsets import MemberOffsets
from steelyard.wire.codes import SERVER_VERSION, RequestCode, ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.headers.group import GroupAndTopic
from steelyard.wire.peers import Peer, Reply

__all__ = ["MemberWords"]


class _Asked(NamedTuple):
    group: str
    member: str


class MemberWords:
    """The accounts of all members of a cluster. Touched on the servers' loop alone."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, int], _Asked] = {}
        self._reached: dict[_Asked, dict[Queue, int]] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether somebody has not answered yet."""
        return bool(self._open)

    def ask(self, brokers: Iterable[RunningBroker], group: str, topics: Sequence[str]) -> None:
        """Ask each member of a group once; what was asked before and not answered is given up."""
        self._open.clear()
        asked: set[str] = set()
        for running in brokers:
            state = running.broker.state
            found = state.members.group(group)
            for member in found.members.values() if found is not None else ():
                if not member.lines or member.id in asked or member.is_broadcasting:
                    continue
                asked.add(member.id)
                for topic in topics:
                    opaque = state.next_opaque()
                    self._open[member.peer.number, opaque] = _Asked(group, member.id)
                    question = Command(
                        RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
                        GroupAndTopic(group, topic),
                        opaque=opaque,
                        version=SERVER_VERSION,
                    )
                    running.board.post((Reply(member.peer, question),))

    def heard(self, peer: Peer, command: Command) -> bool:
        """Take an answer, if it is one to a question from here; say whether it is."""
        asked = self._open.pop((peer.number, command.opaque), None)
        if asked is None:
            return False
        if command.code == ResponseCode.SUCCESS:
            try:
                told = decode_body(MemberOffsets, command.body).queues
            except SteelyardError:
                return True  # of one that answers in another way its commits are known
            self._reached.setdefault(asked, {}).update(told)
        return True

    def reached(self, group: str, members: Iterable[str]) -> dict[Queue, int]:
        """Return how far these members of a group said they are."""
        found: dict[Queue, int] = {}
        for member in members:
            for queue, offset in self._reached.get(_Asked(group, member), {}).items():
                found[queue] = max(offset, found.get(queue, 0))
        return found
