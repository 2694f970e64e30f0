"""Consumer registry: which members each group has, on which connections, with which subscriptions (ConsumerManager).

A member is a client id: a client that reconnects, or has two connections, counts once, and its newest connection
represents it. Times are kept by member and group, so that a group which a client no longer reports expires although the
client lives. A member whose last connection closed stays for a short grace. What follows from a change (notifications,
locks) is in client_expiry.py.

Subscriptions of live groups are saved, so that pulls are served at once after a restart: Java's members up to 5.x send
a heartbeat only every 30 s, and till then Apache refuses their pulls (24). They count until each member has had time to
return, and only for pulls whose version is no newer; nothing is saved of a group whose members disagree, and nobody is
registered by it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from steelyard.broker.request_errors import system_error
from steelyard.broker.subscriptions import (
    GroupSubscriptions,
    SubscriptionsByTopic,
    SubscriptionSignature,
    estimate_bytes,
    signature_of,
)
from steelyard.broker.timing import first_epoch, is_due
from steelyard.model import sort_names
from steelyard.wire.bodies.groups import SavedSubscription, SavedSubscriptionTable
from steelyard.wire.bodies.heartbeat import ConsumeFromWhere, ConsumeType, MessageModel
from steelyard.wire.command import Peer

_SCAN_MS = 500
_MAX_CONNECTIONS = 8
_MAX_SUBSCRIPTION_BYTES = 256 * 1024 * 1024


class _MemberConnection(Struct, gc=False):
    """A connection of a member, and when a heartbeat last came on it."""

    peer: Peer
    last_seen_ms: int


@dataclass(frozen=True, slots=True)
class MemberHeartbeat:
    """One group of one heartbeat."""

    group: str
    id: str
    peer: Peer
    language: str
    version: int
    timeout_ms: int
    """How long the member may be silent."""
    kind: ConsumeType | None = None
    model: MessageModel | None = None
    start_from: ConsumeFromWhere | None = None
    subscriptions: SubscriptionsByTopic | None = None
    """None: unchanged."""
    fingerprint: int = 0
    is_steelyard: bool = False
    instance: str | None = None
    leaving: bool = False
    strategy: str | None = None
    stalled_queues: tuple[str, ...] = ()


@dataclass(slots=True)
class GroupMember:
    """One member of a group: a client id on its newest connection."""

    id: str
    group: str
    peer: Peer
    language: str
    version: int
    last_seen_ms: int
    timeout_ms: int
    kind: ConsumeType | None = None
    model: MessageModel | None = None
    start_from: ConsumeFromWhere | None = None
    subscriptions: SubscriptionsByTopic = field(default_factory=dict)
    """The member's own subscriptions, by topic."""
    signature: SubscriptionSignature | None = None
    """What of them is compared with other members; None before the first ones."""
    fingerprint: int | None = None
    is_steelyard: bool = False
    instance: str | None = None
    leaving: bool = False
    strategy: str | None = None
    connections: dict[int, _MemberConnection] = field(default_factory=dict)
    """Open connections by id; more than one means that two processes may share the client id."""
    disconnected_ms: int | None = None
    """When the last connection closed."""
    avoided_duplicates: int | None = None
    """The total of avoided duplicates that it reports; None before its first heartbeat."""
    stalled_queues: tuple[str, ...] = ()
    """Which of its queues here are stalled, as it describes them."""

    @property
    def is_broadcasting(self) -> bool:
        """Whether this member gets all messages, so that no queues are assigned."""
        return self.model is MessageModel.BROADCASTING

    @property
    def has_duplicate_id(self) -> bool:
        """Whether two connections use this id in a clustering group."""
        return len(self.connections) > 1 and not self.is_broadcasting


@dataclass(slots=True)
class ConsumerGroup:
    """A group that has members."""

    name: str
    epoch: int
    """Grows with each change of members or subscriptions; never reused in the life of a broker."""
    changed_ms: int
    kind: ConsumeType | None = None
    model: MessageModel | None = None
    start_from: ConsumeFromWhere | None = None
    members: dict[str, GroupMember] = field(default_factory=dict)
    """By client id."""
    member_subscriptions: GroupSubscriptions = field(default_factory=GroupSubscriptions)
    queue_counts: dict[str, int] = field(default_factory=dict)
    """Readable queues of each subscribed topic, as of the last notification."""
    reported_warnings: set[str] = field(default_factory=set)
    """Kinds of warnings that were logged."""

    @property
    def subscriptions(self) -> SubscriptionsByTopic:
        """What any member wants, by topic: the newest version of each."""
        return self.member_subscriptions.newest

    @property
    def ids(self) -> list[str]:
        """The ids of the members, in the order that all clients agree on."""
        return sort_names(self.members)


class HeartbeatResult(Struct, frozen=True, gc=False):
    """What a heartbeat changed."""

    changed: bool
    """A member joined, changed its topics, or began to leave."""
    disconnected_ms: int | None = None
    """When the connection of a member that is back had closed."""
    needs_subscriptions: bool = True
    """Whether the next heartbeat has to include subscriptions, too."""
    replaced: GroupMember | None = None
    """The member that used this connection under another id, and is removed."""
    joined: bool = False
    subscriptions_changed: bool = False
    """A known member changed its topics."""


class ConsumerRegistry:
    """Groups and their members."""

    def __init__(self, max_members: int, started_ms: int) -> None:
        self._max_members = max_members
        self._groups: dict[str, ConsumerGroup] = {}
        self.group = self._groups.get
        """Returns a group that has members, or None; the dictionary's own function, because each pull calls it."""
        self._by_connection: dict[int, dict[str, GroupMember]] = {}
        self._disconnected: dict[tuple[str, str], GroupMember] = {}
        self._count = self._subscription_bytes = 0
        self.subscription_changes = 0
        """Grows with each change of a subscription."""
        self._epoch = first_epoch(started_ms)
        self._scan_ms = started_ms

    def member(self, group: str, client_id: str) -> GroupMember | None:
        """Return a member of a group, or None."""
        found = self._groups.get(group)
        return None if found is None else found.members.get(client_id)

    def on_connection(self, peer: Peer, group: str) -> GroupMember | None:
        """Return the member of the group on this connection, or None."""
        members = self._by_connection.get(peer.connection_id)
        return None if members is None else members.get(group)

    def ids_on_connection(self, peer: Peer) -> frozenset[str]:
        """Return the ids of all members on this connection."""
        return frozenset(member.id for member in self._by_connection.get(peer.connection_id, {}).values())

    def group_names(self) -> list[str]:
        """List the names of groups that have members."""
        return sorted(self._groups)

    def all_groups(self) -> list[ConsumerGroup]:
        """List the groups that have members."""
        return list(self._groups.values())

    def __iter__(self) -> Iterator[GroupMember]:
        """Iterate over all members of all groups."""
        return iter([member for group in self._groups.values() for member in group.members.values()])

    def __len__(self) -> int:
        """Count the members of all groups."""
        return self._count

    def find_duplicate(self, heartbeat: MemberHeartbeat, now_ms: int) -> Peer | None:
        """Return the connection of another live process with this id in this group, or None."""
        member = self.member(heartbeat.group, heartbeat.id)
        if member is None or heartbeat.peer.connection_id in member.connections or member.is_broadcasting:
            return None
        if heartbeat.instance is not None and member.instance == heartbeat.instance:
            return None
        live = [
            connection
            for connection in member.connections.values()
            if now_ms - connection.last_seen_ms < member.timeout_ms
        ]
        return live[-1].peer if live else None

    def is_replaced_connection(self, heartbeat: MemberHeartbeat) -> bool:
        """Return whether this heartbeat comes from a connection that its process has since replaced."""
        member = self.member(heartbeat.group, heartbeat.id)
        if member is None or heartbeat.instance is None or member.instance != heartbeat.instance:
            return False
        return any(number > heartbeat.peer.connection_id for number in member.connections)

    def register(self, heartbeat: MemberHeartbeat, now_ms: int) -> HeartbeatResult:
        """Register or refresh the member of a heartbeat."""
        size = 0 if heartbeat.subscriptions is None else estimate_bytes(heartbeat.subscriptions)
        is_too_much = self._subscription_bytes + size > _MAX_SUBSCRIPTION_BYTES
        known = self.member(heartbeat.group, heartbeat.id)
        # Repeating the present subscriptions makes nothing worse.
        if is_too_much and size > (0 if known is None else estimate_bytes(known.subscriptions)):
            raise system_error("the subscriptions of all members take too much memory: use fewer or shorter")
        before = self.on_connection(heartbeat.peer, heartbeat.group)
        replaced = None
        if before is not None and before.id != heartbeat.id and self.remove_connection(before, heartbeat.peer):
            replaced = before
        group = self._groups.get(heartbeat.group)
        member = None if group is None else group.members.get(heartbeat.id)
        joined = member is None
        if group is None or member is None:
            if self._count >= self._max_members:
                raise system_error(f"this broker has {self._count} members and accepts no more")
            group = self._groups.setdefault(heartbeat.group, ConsumerGroup(heartbeat.group, self._epoch, now_ms))
            member = GroupMember(
                heartbeat.id,
                heartbeat.group,
                heartbeat.peer,
                heartbeat.language,
                heartbeat.version,
                now_ms,
                heartbeat.timeout_ms,
            )
            group.members[heartbeat.id] = member
            self._count += 1
        disconnected_ms, needs_subscriptions = member.disconnected_ms, _needs_subscriptions(member, heartbeat)
        self._refresh(member, heartbeat, now_ms)
        group.kind, group.model, group.start_from = heartbeat.kind, heartbeat.model, heartbeat.start_from
        subscriptions = heartbeat.subscriptions
        resubscribed = subscriptions is not None and self._update_subscriptions(group, member, subscriptions)
        leaving_changed = heartbeat.leaving != member.leaving
        member.leaving = heartbeat.leaving
        changed = joined or resubscribed or leaving_changed or replaced is not None
        return HeartbeatResult(
            changed, disconnected_ms, needs_subscriptions, replaced, joined, resubscribed and not joined
        )

    def _refresh(self, member: GroupMember, heartbeat: MemberHeartbeat, now_ms: int) -> None:
        number = heartbeat.peer.connection_id
        # Ours name their process, so another connection of the same member is one that it gave up.
        stale = [] if heartbeat.instance is None else [other for other in member.connections if other != number]
        if number not in member.connections and not stale:
            stale = list(member.connections)[: max(0, len(member.connections) - _MAX_CONNECTIONS + 1)]
        for other in stale:
            self._drop_connection(member, other)
        member.connections[number] = _MemberConnection(heartbeat.peer, now_ms)
        self._by_connection.setdefault(number, {})[member.group] = member
        member.peer = member.connections[max(member.connections)].peer
        member.disconnected_ms = None
        self._disconnected.pop((member.group, member.id), None)
        member.language, member.version = heartbeat.language, heartbeat.version
        member.last_seen_ms, member.timeout_ms, member.fingerprint = now_ms, heartbeat.timeout_ms, heartbeat.fingerprint
        member.kind, member.model, member.start_from = heartbeat.kind, heartbeat.model, heartbeat.start_from
        member.is_steelyard, member.instance = heartbeat.is_steelyard, heartbeat.instance
        member.strategy, member.stalled_queues = heartbeat.strategy, heartbeat.stalled_queues

    def _update_subscriptions(
        self, group: ConsumerGroup, member: GroupMember, subscriptions: SubscriptionsByTopic
    ) -> bool:
        before, known = member.subscriptions, member.signature
        if known is not None and before == subscriptions:
            return False
        signature = signature_of(subscriptions)
        self.subscription_changes += 1
        group.member_subscriptions.add(subscriptions, signature)
        member.subscriptions, member.signature = subscriptions, signature
        self._subscription_bytes += estimate_bytes(subscriptions) - estimate_bytes(before)
        if known is not None:
            group.member_subscriptions.remove(before, known)
        return before.keys() != subscriptions.keys()

    def connection_closed(self, peer: Peer, now_ms: int) -> None:
        """Handle a closed connection; members without another one are in `disconnected_before` after a while."""
        for member in list(self._by_connection.get(peer.connection_id, {}).values()):
            self._drop_connection(member, peer.connection_id)
            if not member.connections:
                member.disconnected_ms = now_ms
                self._disconnected[member.group, member.id] = member

    def disconnected_before(self, before_ms: int) -> list[GroupMember]:
        """List the members whose last connection closed at this time or before."""
        return [each for each in self._disconnected.values() if (each.disconnected_ms or 0) <= before_ms]

    def is_scan_due(self, now_ms: int) -> bool:
        """Return whether it is time for `find_silent` again."""
        if not is_due(self._scan_ms, _SCAN_MS, now_ms):
            return False
        self._scan_ms = now_ms + _SCAN_MS
        return True

    def shift_deadlines(self, shift_ms: int, now_ms: int) -> None:
        """Postpone all expiries, since heartbeats could not be received for a while."""
        for member in self:
            member.last_seen_ms = max(member.last_seen_ms, min(member.last_seen_ms + shift_ms, now_ms))
            for connection in member.connections.values():
                connection.last_seen_ms = max(connection.last_seen_ms, min(connection.last_seen_ms + shift_ms, now_ms))

    def find_silent(self, now_ms: int) -> list[GroupMember]:
        """List the members that were silent for too long; a second connection of a live one is just dropped."""
        found = []
        for member in self:
            if now_ms - member.last_seen_ms >= member.timeout_ms:
                found.append(member)
            elif len(member.connections) > 1:
                for number, connection in list(member.connections.items()):
                    if now_ms - connection.last_seen_ms >= member.timeout_ms:
                        self._drop_connection(member, number)
        return found

    def remove_connection(self, member: GroupMember, peer: Peer) -> bool:
        """Remove a connection on which a member unregisters; return whether it was the last and the member is gone."""
        self._drop_connection(member, peer.connection_id)
        if member.connections:
            return False
        self.remove(member)
        return True

    def remove(self, member: GroupMember) -> None:
        """Remove a member from its group."""
        group = self._groups[member.group]
        for number in list(member.connections):
            self._drop_connection(member, number)
        del group.members[member.id]
        self._disconnected.pop((member.group, member.id), None)
        self._count -= 1
        if member.signature is not None:
            self.subscription_changes += 1
            self._subscription_bytes -= estimate_bytes(member.subscriptions)
            group.member_subscriptions.remove(member.subscriptions, member.signature)
        if not group.members:
            del self._groups[group.name]

    def _drop_connection(self, member: GroupMember, number: int) -> None:
        if member.connections.pop(number, None) is None:
            return
        members = self._by_connection[number]
        del members[member.group]
        if not members:
            del self._by_connection[number]
        if member.connections:
            member.peer = member.connections[max(member.connections)].peer

    def advance_epoch(self, group: ConsumerGroup, now_ms: int) -> None:
        """Give a changed group its next epoch."""
        self._epoch += 1
        group.epoch, group.changed_ms = self._epoch, now_ms


def _needs_subscriptions(member: GroupMember, heartbeat: MemberHeartbeat) -> bool:
    if not heartbeat.fingerprint:
        return True
    if heartbeat.subscriptions is None and member.signature is None:
        return True
    return member.fingerprint is not None and member.fingerprint != heartbeat.fingerprint


_MAX_SAVED_BYTES = 4 * 1024 * 1024
_ENTRY_OVERHEAD_BYTES = 100
"""The approximate size of an entry without its names and its expression."""


class SavedSubscriptions:
    """The subscriptions from before the start."""

    def __init__(self, saved: SavedSubscriptionTable | None, expires_ms: int) -> None:
        self._groups: Mapping[str, Mapping[str, SavedSubscription]] = {} if saved is None else saved.groups
        self._expires_ms = expires_ms
        self.changes = 0
        """Grows when saved subscriptions are dropped."""

    def get(self, group: str, topic: str) -> SavedSubscription | None:
        """Return a group's saved subscription to a topic, if it still counts."""
        return self._groups.get(group, {}).get(topic)

    def forget_group(self, group: str) -> None:
        """Drop a deleted group."""
        if group in self._groups:
            self._groups = {name: subscriptions for name, subscriptions in self._groups.items() if name != group}
            self.changes += 1

    def tick(self, now_ms: int) -> None:
        """Drop everything once all members have had time to return."""
        if self._groups and now_ms >= self._expires_ms:
            self._groups = {}
            self.changes += 1

    def table(self, live: Iterable[ConsumerGroup]) -> SavedSubscriptionTable:
        """Return what to save: present subscriptions, and those of groups that may still return."""
        groups = {name: dict(subscriptions) for name, subscriptions in self._groups.items()}
        for group in live:
            if not group.member_subscriptions.are_equal:
                groups.pop(group.name, None)
                continue
            subscriptions = groups.setdefault(group.name, {})
            for topic, each in group.subscriptions.items():
                before = subscriptions.get(topic)
                if before is None or each.version >= before.version:
                    subscriptions[topic] = SavedSubscription(
                        kind=each.kind, expression=each.expression, version=each.version
                    )
        return SavedSubscriptionTable(groups=_limit_size(groups))


def _limit_size(groups: Mapping[str, Mapping[str, SavedSubscription]]) -> dict[str, Mapping[str, SavedSubscription]]:
    """Omit groups that are too much for one file: their pulls wait for a heartbeat."""
    left, kept = _MAX_SAVED_BYTES, {}
    for name, subscriptions in groups.items():
        size = sum(
            len(name) + len(topic) + len(each.expression) + _ENTRY_OVERHEAD_BYTES
            for topic, each in subscriptions.items()
        )
        if size <= left:
            left -= size
            kept[name] = subscriptions
    return kept
