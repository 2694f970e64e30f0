"""What looks wrong in a group, in plain words: for lists that people read, and once for whoever runs the broker.

Nothing here refuses anything. A group with one of these works, but not as its owner thinks: queues that nobody reads,
messages that are filtered by somebody else's wish.
"""

from collections.abc import Iterator
from typing import NamedTuple

from steelyard.broker.members import Member, MemberGroup

__all__ = ["Hazard", "hazards_of"]

_NAMED = 5


class Hazard(NamedTuple):
    """One thing that looks wrong; ``kind`` tells whether it was there before."""

    kind: str
    sentence: str


def hazards_of(group: MemberGroup) -> list[Hazard]:
    """List what looks wrong in a group now."""
    return [*_twice(group), *_unequal(group), *_mixed(group)]


def _twice(group: MemberGroup) -> Iterator[Hazard]:
    for client_id in group.ids:
        member = group.members[client_id]
        if member.is_twice:
            places = " and ".join(line.peer.address for line in member.lines.values())
            yield Hazard(
                f"twice {client_id}",
                f"group {group.name} has the client id {client_id} on several lines, {places}: if these are different "
                "processes they take the same queues and leave the others unread; give each an id of its own",
            )


def _unequal(group: MemberGroup) -> Iterator[Hazard]:
    if group.wants.agree:
        return
    usual = group.wants.usual or frozenset()
    others = [group.members[each] for each in group.ids if group.members[each].shape not in (None, usual)]
    first = others[0].shape or frozenset()
    topics = sorted({topic for topic, _, _ in first ^ usual})
    yield Hazard(
        "unequal",
        f"the members of group {group.name} do not want the same: {_names(others)} differ from most in "
        f"{_cut(topics)}; members of a group must have equal subscriptions, or messages stay unread",
    )


def _mixed(group: MemberGroup) -> Iterator[Hazard]:
    broadcasting = [group.members[each] for each in group.ids if group.members[each].is_broadcasting]
    if broadcasting and len(broadcasting) < len(group.members):
        yield Hazard(
            "mixed",
            f"group {group.name} has members that share its messages and members that each want all of them: "
            f"{_names(broadcasting)} are broadcasting; use two groups",
        )


def _names(members: list[Member]) -> str:
    return _cut([member.id for member in members])


def _cut(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
