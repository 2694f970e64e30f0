"""Moves that the page saw itself: two looks at a group, compared. For clusters that keep no history of their own.

Less is known than where brokers keep it: a queue that moved twice between two looks moved once, nobody tells for how
long it had no owner, and what changed among the members just before is named as what it is: what was seen before.
A queue whose owner is still there but did not answer counts as its owner's until somebody else has it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from steelyard.client.admin.group_view import GroupView
from steelyard.dashboard.group.records import ChangedMember, HistoryRecord, MovedQueue, owner_rows
from steelyard.model import Queue, in_order, names_in_order

__all__ = ["SeenMoves"]

_LATELY_MS = 60_000
"""What changed among members longer ago is not named beside a move: Java's members look every 20 s."""
_NAMED = 3


@dataclass(slots=True)
class SeenMoves:
    """What was seen of one group."""

    since_ms: int | None = None
    """When the page looked for the first time."""
    _looked_ms: int = 0
    _members: tuple[str, ...] = ()
    _owners: dict[Queue, tuple[str, ...]] = field(default_factory=dict)
    _lately: str = ""
    _changed_ms: int = 0

    def look(self, view: GroupView) -> HistoryRecord | None:
        """Take another look; return what changed since the one before, if anything did."""
        if view.at_ms < self._looked_ms:  # two looks under way at a time: the older one came later
            return None
        self._looked_ms = view.at_ms
        is_first = self.since_ms is None
        before, members = self._owners, tuple(member.id for member in view.members)
        owners = {each.queue: self._owners_of(each.queue, each.owners, members) for each in view.queues}
        changed = () if is_first else tuple(_changed(self._members, members))
        if changed:
            self._lately, self._changed_ms = _in_words(changed), view.at_ms
        moves = () if is_first else tuple(self._moves(before, owners, view.at_ms))
        if is_first:
            self.since_ms = view.at_ms
        self._members, self._owners = members, owners
        if not (is_first or changed or moves):
            return None
        names, rows = owner_rows(owners, members)
        return HistoryRecord(
            key=f"seen@{view.at_ms}",
            at_ms=view.at_ms,
            broker=None,
            members=members,
            names=names,
            changed=changed,
            owners=rows,
            moves=moves,
            moved=len(moves),
        )

    def _owners_of(self, queue: Queue, told: tuple[str, ...], members: tuple[str, ...]) -> tuple[str, ...]:
        return told or tuple(owner for owner in self._owners.get(queue, ()) if owner in members)

    def _moves(
        self, before: Mapping[Queue, tuple[str, ...]], owners: Mapping[Queue, tuple[str, ...]], at_ms: int
    ) -> Iterator[MovedQueue]:
        is_lately = self._lately and at_ms - self._changed_ms <= _LATELY_MS
        why = f"seen after {self._lately}" if is_lately else "not told"
        for queue in in_order(owners):
            had, has = before.get(queue, ()), owners[queue]
            if set(had) != set(has):
                yield MovedQueue(
                    topic=queue.topic,
                    broker=queue.broker,
                    queue=queue.queue_id,
                    before=" and ".join(had) or None,
                    after=" and ".join(has) or None,
                    gap_ms=None,
                    why=why,
                    at_ms=at_ms,
                )


def _changed(before: tuple[str, ...], now: tuple[str, ...]) -> Iterator[ChangedMember]:
    yield from (ChangedMember(name, "gone") for name in names_in_order(set(before) - set(now)))
    yield from (ChangedMember(name, "joined") for name in names_in_order(set(now) - set(before)))


def _in_words(changed: tuple[ChangedMember, ...]) -> str:
    """Say who came and went.

    >>> _in_words((ChangedMember("c1", "gone"), ChangedMember("c3", "joined")))
    'c1 was gone, c3 joined'
    """
    told = [f"{each.member} {'was gone' if each.what == 'gone' else 'joined'}" for each in changed[:_NAMED]]
    more = len(changed) - _NAMED
    return ", ".join(told) + (f" and {more} more changed" if more > 0 else "")
