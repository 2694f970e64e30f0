"""The ownership grid of a group as a browser gets it: queues by topic and broker, and the places of their owners.

It is written short, since it is sent twice a second: a member is named once, and a queue has its owner's place in the
list of members. Nothing is asked here, and nothing is decided that `GroupView` has not decided already.
"""

from collections.abc import Iterable

from msgspec import Struct

from steelyard.client.admin.group_view import GroupView, Member
from steelyard.model.names import RETRY

__all__ = ["GridPart", "GroupNow", "MemberHead", "grid_of"]


_BROADCAST = "every member of this group reads all queues and keeps its own offsets, so brokers cannot tell what waits"


class MemberHead(Struct, frozen=True):
    """A member, as it stands above its column."""

    id: str
    address: str
    language: str
    release: str
    ours: bool
    strategy: str | None
    leaving: bool
    idle: bool
    """Whether there is no queue for it, since there are more members than queues."""


class GridPart(Struct, frozen=True):
    """The queues of one topic on one broker. The lists have as many entries as there are queues."""

    topic: str
    broker: str
    retry: bool
    """Whether these are the group's own retries."""
    queues: tuple[int, ...]
    owners: tuple[tuple[int, ...], ...]
    """The places of those who have it: one, if all is well."""
    lags: tuple[int | None, ...]


class GroupNow(Struct, frozen=True):
    """A group as it is."""

    group: str
    at_ms: int
    broadcast: bool
    kind: str | None
    strategy: str | None
    state: str
    """``settled``, ``moving``, ``empty`` (nobody is there) or ``unknown`` (nobody tells who has what)."""
    lag: int | None
    """How many messages wait; None for a broadcast."""
    members: tuple[MemberHead, ...]
    parts: tuple[GridPart, ...]
    hazards: tuple[str, ...]
    notes: tuple[str, ...]


def grid_of(view: GroupView, *, is_moving: bool = False, notes: Iterable[str] = ()) -> GroupNow:
    """Return a view as a grid; ``is_moving`` says that queues changed hands just now."""
    places = {member.id: place for place, member in enumerate(view.members)}
    # Who has a queue and is no member any more is shown, too.
    strangers = dict.fromkeys(owner for each in view.queues for owner in each.owners if owner not in places)
    places |= {name: len(places) + place for place, name in enumerate(strangers)}
    busy = {owner for each in view.queues if not each.queue.topic.startswith(RETRY) for owner in each.owners}
    heads = [_head(member, idle=_is_idle(view, member, busy)) for member in view.members]
    heads += [_head(Member(name), idle=False) for name in strangers]
    return GroupNow(
        group=view.group,
        at_ms=view.at_ms,
        broadcast=view.broadcast,
        kind=view.kind,
        strategy=view.strategy,
        state=_state(view, is_moving=is_moving),
        lag=None if view.broadcast else view.lag,
        members=tuple(heads),
        parts=tuple(_parts(view, places)),
        hazards=tuple(hazard.sentence for hazard in view.hazards),
        notes=(*view.notes, *([_BROADCAST] if view.broadcast else ()), *notes),
    )


def _head(member: Member, *, idle: bool) -> MemberHead:
    return MemberHead(
        id=member.id,
        address=member.address,
        language=member.language,
        release=member.release,
        ours=member.ours,
        strategy=member.strategy,
        leaving=member.leaving,
        idle=idle,
    )


def _is_idle(view: GroupView, member: Member, busy: set[str]) -> bool:
    """Say whether a member has nothing to do because there are too many; one that has just come is not idle yet."""
    staying = sum(not each.leaving for each in view.members)
    users = sum(not each.queue.topic.startswith(RETRY) for each in view.queues)
    return not view.broadcast and member.id not in busy and not member.leaving and staying > users > 0


def _state(view: GroupView, *, is_moving: bool) -> str:
    if not view.members:
        return "empty"
    if view.broadcast:
        return "settled"
    if not any(each.owners for each in view.queues):
        return "moving" if is_moving else "unknown"
    is_whole = all(len(each.owners) == 1 for each in view.queues) and not any(each.leaving for each in view.members)
    return "settled" if is_whole and not is_moving else "moving"


def _parts(view: GroupView, places: dict[str, int]) -> Iterable[GridPart]:
    rows: dict[tuple[str, str], list[tuple[int, tuple[int, ...], int | None]]] = {}
    everybody = tuple(range(len(view.members)))
    for each in view.queues:
        part = rows.setdefault((each.queue.topic, each.queue.broker), [])
        mine = everybody if view.broadcast else tuple(places[owner] for owner in each.owners)
        part.append((each.queue.queue_id, mine, None if view.broadcast else each.lag))
    # Retries come last: they are folded away.
    for topic, broker in sorted(rows, key=lambda part: (part[0].startswith(RETRY), part)):
        queues, owners, lags = zip(*sorted(rows[topic, broker], key=lambda row: row[0]), strict=True)
        yield GridPart(topic, broker, topic.startswith(RETRY), queues, owners, lags)
