"""What looks wrong in a group, in plain words: for lists that people read, and once for whoever runs the broker.

Nothing here refuses anything. A group with one of these works, but not as its owner thinks: messages that are handled
twice, queues that nobody reads, messages that nobody wants of a queue that he has.

An id on several lines is listed once here (members.py). So whoever has it reads the same queues, and none stays unread
as on Apache's brokers, which list it once a line: to handle a message twice does less harm than not to handle it.

Left out: members that are all ours and subscribe to different topics. They share each topic among its subscribers, and
tell by themselves what is left to say of that (balance/watching.py).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeVar

from steelyard.broker.members import MemberGroup
from steelyard.broker.wants import Shape
from steelyard.model import FilterKind

__all__ = ["Hazard", "hazards_of"]

_NAMED = 5
T = TypeVar("T")


class Hazard(NamedTuple):
    """One thing that looks wrong; ``kind`` tells whether it was there before."""

    kind: str
    sentence: str


def hazards_of(group: MemberGroup) -> list[Hazard]:
    """List what looks wrong in a group now."""
    if len(group.members) == 1 and all(len(member.lines) < 2 for member in group.members.values()):
        return [*_stopped(group)]  # most groups of a broker that has many
    return [*_twice(group), *_unequal(group), *_mixed(group), *_stopped(group)]


def _twice(group: MemberGroup) -> Iterator[Hazard]:
    for client_id in group.ids:
        member = group.members[client_id]
        if member.is_twice:
            places = " and ".join(line.peer.address for line in member.lines.values())
            yield Hazard(
                f"twice {client_id}",
                f"group {group.name} has the client id {client_id} on several lines, {places}: if these are different "
                "processes they read the same queues, and each handles all messages of them; "
                "give each an id of its own",
            )


def _unequal(group: MemberGroup) -> Iterator[Hazard]:
    if group.wants.agree:
        return
    # Whoever is broadcasting takes nothing from anybody.
    sharing = [group.members[each] for each in group.ids if not group.members[each].is_broadcasting]
    shapes = {member.id: member.shape for member in sharing if member.shape is not None}
    topics = {each: frozenset(topic for topic, _, _ in shape) for each, shape in shapes.items()}
    odd, usual = _odd_ones(topics, frozenset())
    if odd and not all(member.ours for member in sharing):
        unlike = sorted({topic for each in odd for topic in topics[each] ^ usual})
        yield Hazard(
            "unequal topics",
            f"members of group {group.name} subscribe to other topics than most ({_cut(odd)}, in {_cut(unlike)}): all "
            "topics are shared among all members, since some are not Steelyard's, so queues of a topic that go to a "
            "member without it stay unread; give all members the same topics",
        )
    for topic in sorted({topic for mine in topics.values() for topic in mine}):
        yield from _unequal_filters(group.name, topic, shapes)


def _unequal_filters(group: str, topic: str, shapes: Mapping[str, Shape]) -> Iterator[Hazard]:
    wanted = {
        each: expression if kind == FilterKind.TAG.value else f"{kind} {expression}"
        for each, shape in shapes.items()
        for name, kind, expression in shape
        if name == topic
    }
    odd, usual = _odd_ones(wanted, "*")
    if odd:
        theirs = sorted({wanted[each] for each in odd})
        yield Hazard(
            f"unequal filters {topic}",
            f"members of group {group} filter {topic} differently ({_cut(odd)} by {_cut(theirs)}, most by {usual}): "
            "what the owner of a queue does not want of it is passed over and handled by nobody; "
            "give all the same filter",
        )


def _odd_ones(by_member: Mapping[str, T], nothing: T) -> tuple[list[str], T]:
    """Return who differs from most, and what most have; of two equally usual, the one seen first."""
    usual = max(by_member.values(), key=Counter(by_member.values()).__getitem__, default=nothing)
    return [member for member, mine in by_member.items() if mine != usual], usual


def _mixed(group: MemberGroup) -> Iterator[Hazard]:
    broadcasting = [group.members[each] for each in group.ids if group.members[each].is_broadcasting]
    if broadcasting and len(broadcasting) < len(group.members):
        yield Hazard(
            "mixed",
            f"group {group.name} has members that share its messages and members that each want all of them: "
            f"{_cut([member.id for member in broadcasting])} are broadcasting; use two groups",
        )


def _stopped(group: MemberGroup) -> Iterator[Hazard]:
    for client_id in group.ids:
        for sentence in group.members[client_id].stopped:
            yield Hazard(f"stopped {sentence}", f"group {group.name}: {sentence}")


def _cut(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
