"""What a broker tells its name servers, and when.

A name server believes what it was told last and forgets who is silent, so a broker tells each of them everything at the
start, again at every beat, and what changed as soon as it changed. `Registrar` decides, for each name server by itself:

- at once: everything, when nothing was told yet, when the line was lost, or when the name server said no to a part;
- a change at once too, if the last command was answered; else, and where there is more than one change, what comes
  within `GAP_MS` together, so that a thousand new topics are a few commands; the more topics there are, the longer the
  gap, since what is told then is all of them;
- every beat: everything, whatever is still unanswered, since a beat that waits is a broker that disappears;
- after a failure: everything again, after a pause that grows from `PAUSE_MS` to a beat.

One changed topic is told alone; more than one, or one that is gone, by telling everything. Name servers take a command
with one topic for an addition, and one with several may be taken for all there is. Two topics in two commands of the
same version would not do either: the second would be passed over as known.

Whoever sends must use one line to each name server and keep it: it takes the broker out when the line closes that
carried the last registration. Left out: the compressed form and asking for the version first, both for old servers.
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import replace

from steelyard.errors import ConfigurationError
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.registration import Registration
from steelyard.wire.bodies.shared import TableVersion
from steelyard.wire.bodies.topics import TopicSettings, TopicTable
from steelyard.wire.codes import SERVER_VERSION, RequestCode, ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.headers.nameserver import BrokerIdentity, RegisterBroker

__all__ = [
    "Announcement",
    "Identity",
    "Registrar",
    "registration_command",
    "unregistration_command",
]

GAP_MS = 25
"""Between two changes that are told to one name server."""

_TOPICS_A_MS = 50
"""The gap is a millisecond for so many topics, if that is longer. To tell 10,000 takes both ends some 90 ms, which must
not be most of their time while somebody makes one topic after the other."""

_TOPICS_A_MS_ALONE = 250
"""The same for a change that is told alone: only the table has to be made for it."""

PAUSE_MS = 1_000
"""Before the first try after a failure."""

_JAVA_CRC_BITS = 0x7FFF_FFFF
_OPAQUES = 1 << 31


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a broker is to name servers: its names and where it is found."""

    cluster: str
    name: str
    broker_id: int
    address: str
    ha_address: str
    """Where replicas would follow; nobody does, but the field must be there."""


def registration_command(
    identity: Identity, table: TopicTable, *, topic: str | None = None, opaque: int = 0
) -> Command:
    """Make the command that registers a broker, with all its topics or with the one that changed.

    Apache's 5.x does not take exactly one topic from a broker it does not know: tell it everything first, and let
    everything be two topics or more, as it is with the topics that every broker has.

    >>> identity = Identity("DefaultCluster", "broker-a", 0, "127.0.0.1:10911", "127.0.0.1:10912")
    >>> int(registration_command(identity, TopicTable()).code)
    103
    """
    told = replace(
        table,
        version=_version(table.version),
        mapping_version=_version(table.mapping_version),
        topics=table.topics if topic is None else {topic: table.topics[topic]},
        mapping_details=table.mapping_details or {},
        mappings=table.mappings or {},
    )
    body = encode_body(Registration(table=told))
    header = RegisterBroker(
        broker_name=identity.name,
        broker_addr=identity.address,
        cluster_name=identity.cluster,
        broker_id=identity.broker_id,
        ha_server_addr=identity.ha_address,
        enable_acting_master=False,
        body_crc32=zlib.crc32(body) & _JAVA_CRC_BITS,
    )
    return Command(RequestCode.REGISTER_BROKER, header, body, opaque, version=SERVER_VERSION)


def unregistration_command(identity: Identity, *, opaque: int = 0) -> Command:
    """Make the command by which a broker says that it goes."""
    header = BrokerIdentity(identity.name, identity.address, identity.cluster, identity.broker_id)
    return Command(RequestCode.UNREGISTER_BROKER, header, opaque=opaque, version=SERVER_VERSION)


def _version(version: TableVersion | None) -> TableVersion:
    version = version or TableVersion()
    return version if version.state_version is not None else replace(version, state_version=0)


class Announcement(Struct, frozen=True):
    """A command for one name server. Whoever sends it tells the `Registrar` how it went."""

    name_server: str
    command: Command
    is_whole: bool
    """Whether it tells everything."""


@dataclass(slots=True)
class _Audience:
    """What is known of one name server."""

    due_ms: int
    """When to tell it everything."""
    told: TopicTable | None = None
    """What it knows if nothing goes wrong; None if it has to be told everything."""
    told_ms: int = 0
    is_waiting: bool = False
    """Whether it has not answered the last command yet."""
    failures: int = 0


class Registrar:
    """Decides what each name server is told, and when.

    >>> identity = Identity("DefaultCluster", "broker-a", 0, "127.0.0.1:10911", "127.0.0.1:10912")
    >>> registrar = Registrar(identity, ["127.0.0.1:9876"], TopicTable(), now_ms=0)
    >>> [announcement.name_server for announcement in registrar.tick(0)], registrar.tick(1), registrar.next_ms
    (['127.0.0.1:9876'], (), 30000)
    """

    def __init__(
        self,
        identity: Identity,
        name_servers: Iterable[str],
        table: TopicTable,
        *,
        now_ms: int,
        beat_ms: int = 30_000,
        gap_ms: int = GAP_MS,
    ) -> None:
        if not 10_000 <= beat_ms <= 60_000:
            raise ConfigurationError(
                f"a broker cannot register every {beat_ms} ms", next_step="give 10,000 to 60,000, as Apache's takes"
            )
        self._identity, self._table, self._beat_ms, self._gap_ms = identity, table, beat_ms, gap_ms
        self._audiences = {address: _Audience(due_ms=now_ms) for address in name_servers}
        self._opaque = 0

    @property
    def next_ms(self) -> int | None:
        """When to call `tick` next; None if there is nothing to come."""
        return min(map(self._due_ms, self._audiences.values()), default=None)

    def next_change_ms(self, changes: int) -> int | None:
        """Return when to tell of so many more changes; before that nobody needs to make a table of them."""
        return min((self._due_ms(audience, changes) for audience in self._audiences.values()), default=None)

    def change(self, table: TopicTable) -> None:
        """Note the table of topics; it is news if its version is. What to send, `tick` says."""
        if table.version != self._table.version:
            self._table = table

    def tick(self, now_ms: int) -> Sequence[Announcement]:
        """Return what is to be sent now, at most one command for each name server."""
        due = ((address, each) for address, each in self._audiences.items() if self._due_ms(each) <= now_ms)
        return tuple(self._tell(address, audience, now_ms) for address, audience in due)

    def answered(self, announcement: Announcement, answer: Command, now_ms: int) -> None:
        """Note what a name server answered."""
        audience = self._audiences.get(announcement.name_server)
        if audience is None:
            return
        audience.is_waiting = False
        if answer.code == ResponseCode.SUCCESS:
            audience.failures = 0
        elif announcement.is_whole:
            self.failed(announcement, now_ms)
        else:
            # It does not take a part from us, since it does not know us: it gets the whole.
            audience.told, audience.due_ms = None, now_ms

    def failed(self, announcement: Announcement, now_ms: int) -> None:
        """Note that a command was not sent, or that no answer came: nobody knows what the name server knows."""
        if audience := self._audiences.get(announcement.name_server):
            pause_ms = min(PAUSE_MS << min(audience.failures, 16), self._beat_ms)
            audience.failures += 1
            audience.told, audience.due_ms = None, min(audience.due_ms, now_ms + pause_ms)

    def lost(self, name_server: str, now_ms: int) -> None:
        """Note that the line to a name server closed, which takes this broker out of its routes."""
        if audience := self._audiences.get(name_server):
            again_ms = max(now_ms, audience.told_ms + PAUSE_MS)  # one that hangs up on us is not asked in a circle
            audience.told, audience.due_ms = None, min(audience.due_ms, again_ms)

    def leave(self) -> Sequence[Announcement]:
        """Return what tells all name servers that this broker goes; nothing comes after it."""
        audiences, self._audiences = self._audiences, {}
        return tuple(
            Announcement(address, unregistration_command(self._identity, opaque=self._next_opaque()), True)
            for address in audiences
        )

    def _tell(self, address: str, audience: _Audience, now_ms: int) -> Announcement:
        topic = None
        if audience.told is not None and now_ms < audience.due_ms:
            topic = _only_change(audience.told.topics, self._table.topics)
        if topic is None:
            audience.due_ms = now_ms + self._beat_ms
        audience.told, audience.told_ms, audience.is_waiting = self._table, now_ms, True
        command = registration_command(self._identity, self._table, topic=topic, opaque=self._next_opaque())
        return Announcement(address, command, topic is None)

    def _due_ms(self, audience: _Audience, more_changes: int = 0) -> int:
        if audience.told is None:
            return audience.due_ms
        changes = more_changes
        if audience.told is not self._table:
            changes += max(1, _changes_between(audience.told, self._table))
        if not changes:
            return audience.due_ms
        # Who makes topics one after the other waits for nobody but the name servers.
        is_next = changes == 1 and not audience.is_waiting
        gap_ms = len(self._table.topics) // (_TOPICS_A_MS_ALONE if is_next else _TOPICS_A_MS)
        return min(audience.due_ms, audience.told_ms + (gap_ms if is_next else max(self._gap_ms, gap_ms)))

    def _next_opaque(self) -> int:
        self._opaque = (self._opaque + 1) % _OPAQUES
        return self._opaque


def _changes_between(told: TopicTable, now: TopicTable) -> int:
    return _version(now.version).counter - _version(told.version).counter


def _only_change(told: Mapping[str, TopicSettings], now: Mapping[str, TopicSettings]) -> str | None:
    """Return the topic that differs; None if it is not exactly one, or one is gone."""
    if any(name not in now for name in told):
        return None
    changed = [name for name, settings in now.items() if told.get(name) != settings]
    return changed[0] if len(changed) == 1 else None
