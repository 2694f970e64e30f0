"""Who is in which consumer group, on which lines, and what each of them wants.

A member is a client id: whoever connects again, or has two lines, counts once, and its newest line speaks for it. Every
time is kept by member and group, so that a group that a client no longer speaks of grows old although the client lives.
A member whose last line closed stays for a short grace, in case it comes back. This table only keeps what it is told;
what follows from a change (notices, locks) is in membership.py.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec import Struct

from steelyard.broker.refusals import refusal
from steelyard.broker.timing import first_epoch, has_come
from steelyard.broker.wants import Shape, Subscriptions, Wants, shape_of, weight_of
from steelyard.model import names_in_order
from steelyard.wire.bodies.heartbeat import ConsumeKind, MessageModel, StartFrom
from steelyard.wire.codes import ResponseCode
from steelyard.wire.peers import Peer

__all__ = ["Beat", "Heard", "Line", "Member", "MemberGroup", "Members"]

_SCAN_MS = 500
_MOST_LINES = 8
_MOST_WEIGHT = 256 * 1024 * 1024


class Line(Struct, gc=False):
    """A line of a member, and when it was last heard on it."""

    peer: Peer
    seen_ms: int


@dataclass(frozen=True, slots=True)
class Beat:
    """What one heartbeat says of one group."""

    group: str
    id: str
    peer: Peer
    language: str
    version: int
    silence_ms: int
    """How long the member may be silent."""
    kind: ConsumeKind | None = None
    model: MessageModel | None = None
    start_from: StartFrom | None = None
    subscriptions: Subscriptions | None = None
    """None: as they were."""
    fingerprint: int = 0
    ours: bool = False
    instance: str | None = None
    leaving: bool = False
    strategy: str | None = None
    stopped: tuple[str, ...] = ()


@dataclass(slots=True)
class Member:
    """One member of a group: a client id on its newest line."""

    id: str
    group: str
    peer: Peer
    language: str
    version: int
    seen_ms: int
    silence_ms: int
    kind: ConsumeKind | None = None
    model: MessageModel | None = None
    start_from: StartFrom | None = None
    subscriptions: Subscriptions = field(default_factory=dict)
    """What this member itself wants, by topic."""
    shape: Shape | None = None
    """What of that is compared with other members; None while it has not told."""
    fingerprint: int | None = None
    ours: bool = False
    instance: str | None = None
    leaving: bool = False
    strategy: str | None = None
    lines: dict[int, Line] = field(default_factory=dict)
    """Open lines by number; more than one means that two processes may share the id."""
    closed_ms: int | None = None
    """When the last line closed."""
    avoided: int | None = None
    """How many duplicates it says that it avoided, in all; None before its first heartbeat."""
    stopped: tuple[str, ...] = ()
    """Which of its queues here stand still, in its own words."""

    @property
    def is_broadcasting(self) -> bool:
        """Whether this member gets all messages, so that nothing is shared."""
        return self.model is MessageModel.BROADCASTING

    @property
    def is_twice(self) -> bool:
        """Whether two lines speak under this id, where that takes queues from somebody."""
        return len(self.lines) > 1 and not self.is_broadcasting


@dataclass(slots=True)
class MemberGroup:
    """A group that has members."""

    name: str
    epoch: int
    """Grows with each change of members or of what they want; never seen twice in the life of a broker."""
    changed_ms: int
    kind: ConsumeKind | None = None
    model: MessageModel | None = None
    start_from: StartFrom | None = None
    members: dict[str, Member] = field(default_factory=dict)
    """By client id."""
    wants: Wants = field(default_factory=Wants)
    queues: dict[str, int] = field(default_factory=dict)
    """How many readable queues this broker has of each topic wanted, as the members were last told."""
    said: set[str] = field(default_factory=set)
    """What looks wrong and has been told to whoever runs the broker."""

    @property
    def subscriptions(self) -> Subscriptions:
        """What any member wants, by topic: the newest version of each."""
        return self.wants.newest

    @property
    def ids(self) -> list[str]:
        """The ids of the members, in the order that all clients agree on."""
        return names_in_order(self.members)


class Heard(Struct, frozen=True, gc=False):
    """What a heartbeat changed."""

    changed: bool
    """Somebody joined, or wants other topics, or began to leave."""
    away_ms: int | None = None
    """The member's line had closed at this time, and it is back."""
    ask_again: bool = True
    """The client is to send its subscriptions with the next heartbeat, too."""
    replaced: Member | None = None
    """Who spoke on this line before under another id, and is gone with it."""
    joined: bool = False
    wants_other: bool = False
    """It was there already, and wants other topics now."""


class Members:
    """The registry of consumers."""

    def __init__(self, most: int, started_ms: int) -> None:
        self._most = most
        self._groups: dict[str, MemberGroup] = {}
        self._on_line: dict[int, dict[str, Member]] = {}
        self._closed: dict[tuple[str, str], Member] = {}
        self._count = self._weight = 0
        self.wants_changes = 0
        """Grows with each change of what anybody wants."""
        self._epoch = first_epoch(started_ms)
        self._scan_ms = started_ms

    def group(self, name: str) -> MemberGroup | None:
        """Return a group that has members, or None."""
        return self._groups.get(name)

    def on_line(self, peer: Peer, group: str) -> Member | None:
        """Return the member of the group that speaks on this line, or None."""
        spoken = self._on_line.get(peer.number)
        return None if spoken is None else spoken.get(group)

    def ids_on(self, peer: Peer) -> frozenset[str]:
        """Return the ids under which members of any group speak on this line."""
        return frozenset(member.id for member in self._on_line.get(peer.number, {}).values())

    def groups(self) -> list[str]:
        """List the groups that have members."""
        return sorted(self._groups)

    def live_groups(self) -> list[MemberGroup]:
        """List the groups that have members, with all that is known of them."""
        return list(self._groups.values())

    def __iter__(self) -> Iterator[Member]:
        """Go through all members of all groups."""
        return iter([member for group in self._groups.values() for member in group.members.values()])

    def __len__(self) -> int:
        """Count the members of all groups."""
        return self._count

    # -- heartbeats ---------------------------------------------------------------------------------------------------

    def rival(self, beat: Beat, now_ms: int) -> Peer | None:
        """Return the line of another live process that speaks under this id in this group, or None."""
        group = self._groups.get(beat.group)
        member = None if group is None else group.members.get(beat.id)
        if member is None or beat.peer.number in member.lines or member.is_broadcasting:
            return None
        if beat.instance is not None and member.instance == beat.instance:
            return None
        live = [line for line in member.lines.values() if now_ms - line.seen_ms < member.silence_ms]
        return live[-1].peer if live else None

    def is_stale(self, beat: Beat) -> bool:
        """Whether this beat comes from a line that its process has since replaced."""
        group = self._groups.get(beat.group)
        member = None if group is None else group.members.get(beat.id)
        if member is None or beat.instance is None or member.instance != beat.instance:
            return False
        return any(number > beat.peer.number for number in member.lines)

    def heard(self, beat: Beat, now_ms: int) -> Heard:
        """Take in a heartbeat: register the member or refresh it, with what it wants."""
        weight = 0 if beat.subscriptions is None else weight_of(beat.subscriptions)
        if self._weight + weight > _MOST_WEIGHT and weight > self._weight_of(beat):
            raise refusal(
                ResponseCode.SYSTEM_ERROR, "the subscriptions of all members take too much memory: use fewer or shorter"
            )
        before = self.on_line(beat.peer, beat.group)
        replaced = before if before is not None and before.id != beat.id and self.leave(before, beat.peer) else None
        group = self._groups.get(beat.group)
        member = None if group is None else group.members.get(beat.id)
        joined = member is None
        if group is None or member is None:
            if self._count >= self._most:
                raise refusal(ResponseCode.SYSTEM_ERROR, f"this broker has {self._count} members and takes no more")
            group = self._groups.setdefault(beat.group, MemberGroup(beat.group, self._epoch, now_ms))
            member = Member(beat.id, beat.group, beat.peer, beat.language, beat.version, now_ms, beat.silence_ms)
            group.members[beat.id] = member
            self._count += 1
        away_ms, ask_again = member.closed_ms, _asks_again(member, beat)
        self._refresh(member, beat, now_ms)
        group.kind, group.model, group.start_from = beat.kind, beat.model, beat.start_from
        wants_other = beat.subscriptions is not None and self._rewant(group, member, beat.subscriptions)
        leaves = beat.leaving != member.leaving
        member.leaving = beat.leaving
        changed = joined or wants_other or leaves or replaced is not None
        return Heard(changed, away_ms, ask_again, replaced, joined, wants_other and not joined)

    def _weight_of(self, beat: Beat) -> int:
        """Return what the member takes already: who only says again what it wants makes nothing worse."""
        group = self._groups.get(beat.group)
        member = None if group is None else group.members.get(beat.id)
        return 0 if member is None else weight_of(member.subscriptions)

    def _refresh(self, member: Member, beat: Beat, now_ms: int) -> None:
        number = beat.peer.number
        # Ours say which process they are, so an older line of theirs is a line that was given up.
        given_up = [] if beat.instance is None else [other for other in member.lines if other != number]
        if number not in member.lines and not given_up:
            given_up = list(member.lines)[: max(0, len(member.lines) - _MOST_LINES + 1)]
        for other in given_up:
            self._unplug(member, other)
        member.lines[number] = Line(beat.peer, now_ms)
        self._on_line.setdefault(number, {})[member.group] = member
        member.peer = member.lines[max(member.lines)].peer
        member.closed_ms = None
        self._closed.pop((member.group, member.id), None)
        member.language, member.version = beat.language, beat.version
        member.seen_ms, member.silence_ms, member.fingerprint = now_ms, beat.silence_ms, beat.fingerprint
        member.kind, member.model, member.start_from = beat.kind, beat.model, beat.start_from
        member.ours, member.instance, member.strategy = beat.ours, beat.instance, beat.strategy
        member.stopped = beat.stopped

    def _rewant(self, group: MemberGroup, member: Member, wanted: Subscriptions) -> bool:
        before, known = member.subscriptions, member.shape
        if known is not None and before == wanted:
            return False
        shape = shape_of(wanted)
        self.wants_changes += 1
        group.wants.add(wanted, shape)
        member.subscriptions, member.shape = wanted, shape
        self._weight += weight_of(wanted) - weight_of(before)
        if known is not None:
            group.wants.remove(before, known)
        return before.keys() != wanted.keys()

    # -- going away ---------------------------------------------------------------------------------------------------

    def closed(self, peer: Peer, now_ms: int) -> None:
        """Take note that a line closed; members that have no other one are `overdue` after a while."""
        for member in list(self._on_line.get(peer.number, {}).values()):
            self._unplug(member, peer.number)
            if not member.lines:
                member.closed_ms = now_ms
                self._closed[member.group, member.id] = member

    def overdue(self, closed_before_ms: int) -> list[Member]:
        """List the members whose last line closed before this time, or just then."""
        return [each for each in self._closed.values() if (each.closed_ms or 0) <= closed_before_ms]

    def scan_is_due(self, now_ms: int) -> bool:
        """Whether it is time to look for `silent` members again."""
        if not has_come(self._scan_ms, _SCAN_MS, now_ms):
            return False
        self._scan_ms = now_ms + _SCAN_MS
        return True

    def excuse(self, missed_ms: int, now_ms: int) -> None:
        """Count a time as not passed for all members, since nobody listened to them."""
        for member in self:
            member.seen_ms = max(member.seen_ms, min(member.seen_ms + missed_ms, now_ms))
            for line in member.lines.values():
                line.seen_ms = max(line.seen_ms, min(line.seen_ms + missed_ms, now_ms))

    def silent(self, now_ms: int) -> list[Member]:
        """List the members that were silent for too long; a second line of a live one is just forgotten."""
        found = []
        for member in self:
            if now_ms - member.seen_ms >= member.silence_ms:
                found.append(member)
            elif len(member.lines) > 1:
                for number, line in list(member.lines.items()):
                    if now_ms - line.seen_ms >= member.silence_ms:
                        self._unplug(member, number)
        return found

    def leave(self, member: Member, peer: Peer) -> bool:
        """Take a line from a member that says goodbye on it; say whether that was the last and the member is gone."""
        self._unplug(member, peer.number)
        if member.lines:
            return False
        self.remove(member)
        return True

    def remove(self, member: Member) -> None:
        """Take a member out of its group."""
        group = self._groups[member.group]
        for number in list(member.lines):
            self._unplug(member, number)
        del group.members[member.id]
        self._closed.pop((member.group, member.id), None)
        self._count -= 1
        if member.shape is not None:
            self.wants_changes += 1
            self._weight -= weight_of(member.subscriptions)
            group.wants.remove(member.subscriptions, member.shape)
        if not group.members:
            del self._groups[group.name]

    def _unplug(self, member: Member, number: int) -> None:
        if member.lines.pop(number, None) is None:
            return
        spoken = self._on_line[number]
        del spoken[member.group]
        if not spoken:
            del self._on_line[number]
        if member.lines:
            member.peer = member.lines[max(member.lines)].peer

    def touch(self, group: MemberGroup, now_ms: int) -> None:
        """Give a group that changed its next epoch."""
        self._epoch += 1
        group.epoch, group.changed_ms = self._epoch, now_ms


def _asks_again(member: Member, beat: Beat) -> bool:
    if not beat.fingerprint:
        return True
    if beat.subscriptions is None and member.shape is None:
        return True
    return member.fingerprint is not None and member.fingerprint != beat.fingerprint
