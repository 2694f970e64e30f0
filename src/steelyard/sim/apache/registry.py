"""Apache's registry of members: by line, not by who they are.

A member with two lines counts twice. The subscriptions are the group's, and whoever speaks last rewrites them. A line
that closes takes its members out at once; a line that is silent for two minutes is taken out as well and closed, and
nobody is told of it. One time is kept for a line, so that a heartbeat of one group keeps the others of its line fresh.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from zlib import crc32

from steelyard.wire.bodies.heartbeat import ConsumerBeat, MessageModel, SubscriptionBody

__all__ = ["SCAN_MS", "SILENCE_MS", "Group", "Registry"]

SILENCE_MS = 120_000
SCAN_MS = 10_000


@dataclass(slots=True)
class Group:
    """Who is in a group, and what it wants."""

    name: str
    lines: dict[int, str] = field(default_factory=dict)
    """The client id of each line, in the order they came."""
    subscriptions: dict[str, SubscriptionBody] = field(default_factory=dict)
    model: MessageModel | None = None

    def line_of(self, client: str) -> int | None:
        """Return a line of a client; of several, any: an old one that is dead as well as a new one."""
        mine = [number for number, each in self.lines.items() if each == client]
        return min(mine, key=lambda number: crc32(b"%d" % number), default=None)

    def subscribe(self, wanted: Sequence[SubscriptionBody]) -> bool:
        """Take the subscriptions of one member for those of all; say whether a topic came or went."""
        changed = False
        for each in wanted:
            known = self.subscriptions.get(each.topic)
            changed = changed or known is None
            if known is None or each.version > known.version:
                self.subscriptions[each.topic] = each
        named = {each.topic for each in wanted}
        for topic in [topic for topic in self.subscriptions if topic not in named]:
            del self.subscriptions[topic]
            changed = True
        return changed


class Registry:
    """Every group that has somebody in it."""

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}
        self._heard_ms: dict[int, int] = {}

    def get(self, group: str) -> Group | None:
        """Return a group, or None if nobody is in it."""
        return self._groups.get(group)

    def groups(self) -> Iterable[Group]:
        """Return all groups."""
        return self._groups.values()

    def member_on(self, line: int, group: str) -> str | None:
        """Return who is registered in a group on a line."""
        known = self._groups.get(group)
        return None if known is None else known.lines.get(line)

    def beat(self, line: int, client: str, consumer: ConsumerBeat, now_ms: int) -> tuple[Group, bool]:
        """Count a line in; say whether the group has changed."""
        group = self._groups.get(consumer.group)
        if group is None:
            group = self._groups[consumer.group] = Group(consumer.group)
        is_new = line not in group.lines
        group.lines[line] = client
        group.model = consumer.model
        self._heard_ms[line] = now_ms
        has_other_topics = group.subscribe(consumer.subscriptions)
        return group, is_new or has_other_topics

    def leave(self, line: int, group: str) -> tuple[Group | None, str | None]:
        """Count a line out of a group; return the group if it existed, and who left."""
        known = self._groups.get(group)
        if known is None:
            return None, None
        client = known.lines.pop(line, None)
        if not known.lines:
            del self._groups[group]
        return known, client

    def drop(self, line: int) -> list[tuple[Group, str]]:
        """Count a line out of every group; return those and who it was there."""
        self._heard_ms.pop(line, None)
        left = [(group, group.lines.pop(line)) for group in list(self._groups.values()) if line in group.lines]
        for group, _ in left:
            if not group.lines:
                del self._groups[group.name]
        return left

    def silent(self, now_ms: int) -> Iterator[int]:
        """Go through the lines that said nothing for too long."""
        yield from [line for line, heard_ms in self._heard_ms.items() if now_ms - heard_ms > SILENCE_MS]
